"""`make bench`: storing and recalling, side by side with peers and with the floor, in one run on one machine."""

from __future__ import annotations

import argparse
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import measures, tables, texts
from benchmarks.contestants import ENTRIES, FLOOR, OURS, Field
from benchmarks.environment import CACHE, CHROMA, HERE, MEMORY_SERVICE, RESULTS, machine, version_of
from benchmarks.growth import grow
from benchmarks.measures import QUICK, Material, Sizes
from benchmarks.peers.door import command_line, door_options, open_embedder, place_models
from benchmarks.report import text, write
from benchmarks.vectors import between, stored_vectors


def main() -> None:
    arguments = _arguments()
    started = time.monotonic()
    sizes = QUICK if arguments.quick else Sizes()
    facts: dict[str, Any] = {"machine": machine(), "sizes": list(sizes.memories), "texts": texts.VERSION}
    facts["versions"] = {
        "chromadb": version_of(CHROMA, "chromadb"),
        "mcp-memory-service": version_of(MEMORY_SERVICE, "mcp-memory-service"),
    }
    options = door_options(arguments.model)
    print("models", flush=True)
    place_models(options)
    folder = CACHE / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    material = _material(sizes, options, arguments.data, folder)
    facts["model"] = options["name"]
    facts["recall"], facts["missing"] = _at_each_size(sizes, material, options, folder, facts)
    if not arguments.no_growth:
        facts["growth"] = _growth(sizes, material, options)
    facts["machine_after"] = machine()
    facts["seconds"] = round(time.monotonic() - started)
    shutil.rmtree(folder, ignore_errors=True)
    shown = tables.all_tables(facts)
    print("\n" + "\n\n".join(map(text, shown)))
    path = write(RESULTS, "speed", facts, shown)
    if {OURS.label, FLOOR.label} & facts["missing"].keys():
        raise SystemExit("Mindhold itself did not run to the end; see Conditions above.")
    print(f"\n{facts['seconds']} s in all; {path.relative_to(HERE.parent)} and .md")


def _arguments() -> argparse.Namespace:
    given = os.environ.get("MINDHOLD_BENCH_DATA")
    beside = HERE.parent.parent / "shared" / "data"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, under four minutes")
    parser.add_argument("--no-growth", action="store_true", help="without the growth to a million")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="the model that all sides use")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(given) if given else beside,
        help="folder with locomo/dev.json, to mix in",
    )
    return parser.parse_args()


def _material(sizes: Sizes, options: dict[str, Any], data: Path, folder: Path) -> Material:
    rows = texts.memories(max(sizes.memories), data=data)
    embedder = open_embedder(options)
    print("vectors", flush=True)
    vectors = stored_vectors(CACHE, rows, model=str(options["name"]), embed=embedder.texts)
    return Material(
        texts=rows,
        vectors=vectors,
        questions=texts.questions(200),
        fresh=texts.fresh(),
        folder=folder,
    )


def _at_each_size(
    sizes: Sizes, material: Material, options: dict[str, Any], folder: Path, facts: dict[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    rows: list[dict[str, Any]] = []
    base = np.load(material.vectors, mmap_mode="r")
    with Field(folder, options) as stage:
        start = 0
        for count in sizes.memories:
            print(f"filling to {count:,}", flush=True)
            row: dict[str, Any] = {
                "count": count,
                "load": measures.fill(stage, material, start=start, count=count),
            }
            print(f"asking at {count:,}", flush=True)
            row["exact"] = measures.exactness(stage, material, between(np.asarray(base[:count]), 200, seed=1))
            row["recall"] = measures.recall(stage, material, queries=sizes.queries)
            row["store"] = measures.store_one(stage, material, stores=sizes.stores)
            row["start"] = measures.cold_start(
                stage, material, starts=sizes.starts, command=command_line(folder / "mindhold", options)
            )
            rows.append(row)
            start = count
        print("storing in bulk", flush=True)
        facts["bulk"] = measures.bulk(stage, material, sizes)
        return rows, {
            entry.label: stage.missing[entry.key] for entry in ENTRIES if entry.key in stage.missing
        }


def _growth(sizes: Sizes, material: Material, options: dict[str, Any]) -> list[dict[str, Any]]:
    base = np.load(material.vectors)
    return grow(
        sizes.growth,
        base=base,
        questions=material.questions[: sizes.queries],
        queries=between(base, 100, seed=2),
        folder=CACHE / "growth",
        options=options,
    )


if __name__ == "__main__":
    main()
