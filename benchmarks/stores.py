"""`make bench-stores`: the same memories and questions on every store, side by side, in one run on one machine."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import measures, store_tables, texts
from benchmarks import store_measures as own
from benchmarks.contestants import Field
from benchmarks.environment import CACHE, HERE, RESULTS, PeerMissing, machine
from benchmarks.measures import Material
from benchmarks.moving import move_around
from benchmarks.peers.door import door_options, open_embedder, place_models
from benchmarks.report import text, write
from benchmarks.served import data_folder
from benchmarks.sites import POSTGRES, REDIS, STORES, Sites, site_folder
from benchmarks.store_measures import QUICK, Sizes
from benchmarks.together import together
from benchmarks.vectors import stored_vectors

from mindhold.model.errors import MindholdError


def main() -> None:
    arguments = _arguments()
    started = time.monotonic()
    sizes = _sizes(arguments)
    facts: dict[str, Any] = {"machine": machine(), "sizes": list(sizes.memories), "texts": texts.VERSION}
    options = door_options(arguments.model)
    facts["model"] = options["name"]
    place_models(options)
    with site_folder("stores") as folder:
        material = _material(sizes, options, arguments.data, folder)
        with Sites(folder, (*(arguments.store or STORES), REDIS)) as sites:
            facts["missing"] = sites.missing
            facts |= _measured(sites, material, sizes, folder=folder / "data", options=options)
    facts["machine_after"] = machine()
    facts["seconds"] = round(time.monotonic() - started)
    shown = store_tables.all_tables(facts)
    print("\n" + "\n\n".join(map(text, shown)))
    path = write(RESULTS, "stores", facts, shown)
    print(f"\n{facts['seconds']} s in all; {path.relative_to(HERE.parent)} and .md")
    if facts["missing"] or facts["dropped"] or facts["failed"]:
        raise SystemExit("Not everything was measured; see Conditions above.")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, under four minutes")
    parser.add_argument(
        "--store", action="append", choices=STORES, help="which store; repeat for several, all by default"
    )
    parser.add_argument("--memories", type=int, action="append", help="recall at this size; repeat, growing")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="the model that all stores use")
    parser.add_argument(
        "--data", type=Path, default=data_folder(), help="folder with locomo/dev.json, to mix in"
    )
    return parser.parse_args()


def _sizes(arguments: argparse.Namespace) -> Sizes:
    sizes = QUICK if arguments.quick else Sizes()
    if not arguments.memories:
        return sizes
    least = min(arguments.memories)
    return replace(
        sizes,
        memories=tuple(sorted(arguments.memories)),
        migrated=min(sizes.migrated, least),
        served=min(sizes.served, least),
    )


def _material(sizes: Sizes, options: dict[str, Any], data: Path, folder: Path) -> Material:
    rows = texts.memories(max(sizes.memories), data=data)
    print("vectors", flush=True)
    vectors = stored_vectors(CACHE, rows, model=str(options["name"]), embed=open_embedder(options).texts)
    return Material(
        texts=rows, vectors=vectors, questions=texts.questions(200), fresh=texts.fresh(), folder=folder
    )


def _measured(
    sites: Sites, material: Material, sizes: Sizes, *, folder: Path, options: dict[str, Any]
) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    base = np.load(material.vectors, mmap_mode="r")
    with Field(folder, options, own.entries(sites)) as stage:
        facts["recall"] = [
            _at(stage, sites, material, sizes, place, base) for place in range(len(sizes.memories))
        ]
        facts["dropped"] = dict(stage.missing)
    facts["bulk"], facts["migration"], facts["together"], facts["failed"] = {}, [], None, {}
    with _phase("storing in bulk", facts):
        facts["bulk"] = own.bulk(sites, material, sizes, folder=folder / "bulk", options=options)
    with _phase("migrating", facts):
        facts["migration"] = move_around(
            sites, material.texts[: sizes.migrated], material.vectors, folder=folder, options=options
        )
    if POSTGRES in sites.stores:
        with _phase("two servers", facts):
            facts["together"] = together(
                sites, material.texts, material.vectors, sizes, folder=folder, options=options
            )
    return facts


@contextmanager
def _phase(name: str, facts: dict[str, Any]) -> Iterator[None]:
    """One that fails is named with the reason, and takes the figures of the others not with it."""
    print(name, flush=True)
    try:
        yield
    except (MindholdError, PeerMissing, OSError, SystemExit) as reason:
        print(f"  failed: {reason}", flush=True)
        facts["failed"][name] = f"{type(reason).__name__}: {reason}"


def _at(
    stage: Field, sites: Sites, material: Material, sizes: Sizes, place: int, base: Any
) -> dict[str, Any]:
    count = sizes.memories[place]
    print(f"filling to {count:,}", flush=True)
    start = sizes.memories[place - 1] if place else 0
    row: dict[str, Any] = {"count": count, "load": measures.fill(stage, material, start=start, count=count)}
    own.settle(stage, sites, material, count=count)
    print(f"asking at {count:,}", flush=True)
    row["near"] = own.nearness(stage, material, np.asarray(base[:count]), queries=sizes.queries)
    row["by_index"] = own.uses_index(stage, material)
    row["recall"] = measures.recall(stage, material, queries=sizes.queries)
    row["keywords"] = own.by_keywords(stage, material, count=count, queries=sizes.queries)
    print(f"storing one at {count:,}", flush=True)
    row["store"] = own.store_one(stage, material, stores=sizes.stores)
    row["size"] = own.sizes_of(stage)
    stage.close()
    return row


if __name__ == "__main__":
    main()
