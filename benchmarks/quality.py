"""Retrieval quality on conversations, on every store: full text alone, vectors alone, the hybrid, and ChromaDB on the same vectors.

Each turn is remembered as a memory with its date, through the front door; gold is the evidence of each question. The
file is `locomo/dev.json` under MINDHOLD_BENCH_DATA (default ../shared/data), or any other of the same shape.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.contestants import ENTRIES, Contestant
from benchmarks.environment import RESULTS, PeerMissing, machine
from benchmarks.peers.door import OWN_HOME, door_options, place_models, uncached_embedder
from benchmarks.peers.known import KnownTexts
from benchmarks.questions import moment
from benchmarks.report import Aim, Table, aims_table, text, write
from benchmarks.sites import LOCAL, NAMES, STORES, Sites, site_folder

from mindhold.app.application import App, open_app
from mindhold.memories.embedding import VectorSource
from mindhold.memories.recall import RECALL, RecallInput
from mindhold.memories.remember import REMEMBER_MANY, RememberManyInput
from mindhold.memories.write import RememberInput
from mindhold.model.query import Filter
from mindhold.projects.scope_operations import CREATE_SCOPE, CreateScopeInput
from mindhold.settings.loader import load_settings

CHROMA = next(entry for entry in ENTRIES if entry.key == "chroma")
ADVERSARIAL = "adversarial"
OVERALL = "all but adversarial"
MEASURES = ("any@5", "any@10", "all@5", "all@10", "MRR")
OWN = ("full text alone", "vectors alone", "hybrid")
MOST_APART = 0.01  # a store's figures from SQLite's


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and what was found for it, by turn id, best first."""

    category: str
    evidence: frozenset[str]
    found: Sequence[str]


@dataclass(slots=True)
class Method:
    """A way of searching, and what it found."""

    name: str
    asked: list[Asked] = field(default_factory=list)
    missing: str = ""

    def add(self, question: dict[str, Any], found: Sequence[str]) -> None:
        """What it found for one more question."""
        self.asked.append(Asked(question["category"], frozenset(question["evidence"]), found))


def conversations(path: Path) -> list[dict[str, Any]]:
    documents: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return documents


def scores(asked: Sequence[Asked]) -> dict[str, float]:
    """Means over the questions."""
    totals = dict.fromkeys(MEASURES, 0.0)
    for one in asked:
        for depth in (5, 10):
            hit = one.evidence.intersection(one.found[:depth])
            totals[f"any@{depth}"] += bool(hit)
            totals[f"all@{depth}"] += hit == one.evidence
        ranks = [rank for rank, turn in enumerate(one.found[:10], 1) if turn in one.evidence]
        totals["MRR"] += 1 / ranks[0] if ranks else 0.0
    return {name: total / max(1, len(asked)) for name, total in totals.items()}


async def fill(app: App, conversation: dict[str, Any]) -> dict[str, str]:
    """Remember every turn in a scope of its own; turn ids by memory id."""
    scope = conversation["conversation"]
    await app.run(CREATE_SCOPE, CreateScopeInput(name=scope))
    places: dict[int, int] = {}
    items, turns = [], []
    for turn in conversation["turns"]:
        place = places.get(turn["session"], 0)
        places[turn["session"]] = place + 1
        items.append(
            RememberInput(
                content=f"{turn['speaker']}: {turn['text']}",
                scope=scope,
                occurred=moment(turn["when"]),
                conversation=f"{scope}/{turn['session']}",
                position=place,
            )
        )
        turns.append(turn["id"])
    answer = await app.run(REMEMBER_MANY, RememberManyInput(items=items))
    return {result.id: turn for result, turn in zip(answer.results, turns, strict=True) if result.id}


async def recalled(app: App, question: str, *, scope: str, turns: dict[str, str]) -> list[str]:
    """Through the front door, as anybody would ask."""
    found = await app.run(
        RECALL, RecallInput(query=question, scope=scope, limit=10, minimum_score=0.0, count_use=False)
    )
    return [turns[hit.id] for hit in found.hits if hit.id in turns]


async def nearest(app: App, question: str, *, scope: str, turns: dict[str, str]) -> list[str]:
    """By our vectors alone."""
    matrix = await app.engine.vector_source.embed_query(question)
    assert matrix is not None
    assert app.engine.vector_source.model is not None
    [found] = await app.engine.store.nearest(
        [matrix[0]], model=app.engine.vector_source.model, where=Filter(scopes=(scope,)), limit=10
    )
    return [turns[hit.id] for hit in found if hit.id in turns]


class Found:
    """What every method found on every store; ChromaDB has no store of ours."""

    def __init__(self, stores: Sequence[str]) -> None:
        self.stores = {store: [Method(name) for name in OWN] for store in stores}
        self.chroma = Method("ChromaDB, same vectors")

    @property
    def methods(self) -> list[Method]:
        """Those of the first store, and ChromaDB."""
        return [*next(iter(self.stores.values())), self.chroma]


async def measure(path: Path, model: str, sites: Sites) -> Found:
    """Every conversation on every store, in a database of its own; each text is embedded once for all of them."""
    found = Found(sites.stores)
    embedder = KnownTexts(uncached_embedder(door_options(model)))
    for number, conversation in enumerate(conversations(path)):
        for store in sites.stores:
            place = sites.settings(store, f"quality_{number}_{re.sub('[^a-z0-9]', '_', model.lower())}")
            with tempfile.TemporaryDirectory() as folder:
                asking = Asking(conversation, place | {"embedding.model": model}, embedder, Path(folder))
                await _one(asking, found.stores[store], found.chroma if store == sites.stores[0] else None)
        print(f"  {conversation['conversation']}: {len(conversation['questions'])} questions", flush=True)
    return found


@dataclass(frozen=True, slots=True)
class Asking:
    """One conversation on one store."""

    conversation: dict[str, Any]
    settings: dict[str, Any]
    embedder: KnownTexts
    folder: Path

    @property
    def questions(self) -> list[dict[str, Any]]:
        """Those whose evidence is in the conversation."""
        known = _ids(self.conversation)
        return [one for one in self.conversation["questions"] if set(one["evidence"]) <= known]

    @asynccontextmanager
    async def app(self, **further: Any) -> AsyncIterator[App]:
        """Mindhold on that store."""
        arguments = {"home": str(OWN_HOME), **self.settings, **further}
        async with open_app(load_settings(arguments, environ={})) as app:
            yield app


async def _one(asking: Asking, methods: Sequence[Method], chroma: Method | None) -> None:
    words, vectors, hybrid = methods
    scope = asking.conversation["conversation"]
    dense: list[list[str]] = []
    async with asking.app() as opened:
        app = replace(opened, engine=replace(opened.engine, vector_source=VectorSource(asking.embedder)))
        turns = await fill(app, asking.conversation)
        for question in asking.questions:
            ask = question["question"]
            hybrid.add(question, await recalled(app, ask, scope=scope, turns=turns))
            vectors.add(question, await nearest(app, ask, scope=scope, turns=turns))
        if chroma is not None:
            dense = await _by_chroma(app, turns, asking.questions, asking.folder, chroma)
    async with asking.app(**{"embedding.provider": "none"}) as app:
        for question in asking.questions:
            words.add(question, await recalled(app, question["question"], scope=scope, turns=turns))
    if chroma is not None and not chroma.missing:
        for question, hits in zip(asking.questions, dense, strict=True):
            chroma.add(question, hits)


def _ids(conversation: dict[str, Any]) -> set[str]:
    return {turn["id"] for turn in conversation["turns"]}


async def _by_chroma(
    app: App, turns: dict[str, str], questions: Sequence[dict[str, Any]], folder: Path, method: Method
) -> list[list[str]]:
    """ChromaDB's own dense search over the very vectors that ours are, for the same questions."""
    nothing: list[list[str]] = [[] for _ in questions]
    if method.missing or app.engine.vector_source.model is None:
        return nothing
    stored = await app.engine.store.vector_of(list(turns), model=app.engine.vector_source.model)
    asked = [await app.engine.vector_source.embed_query(question["question"]) for question in questions]
    np.save(folder / "turns.npy", np.stack(list(stored.values())))
    np.save(folder / "asked.npy", np.stack([matrix[0] for matrix in asked if matrix is not None]))
    (folder / "texts.json").write_text(json.dumps([turns[one] for one in stored]), encoding="utf-8")
    try:
        peer = Contestant(CHROMA, folder / "chroma", {})
        try:
            peer.ask("load", texts=str(folder / "texts.json"), vectors=str(folder / "turns.npy"), start=0)
            rows = peer.ask("nearest", vectors=str(folder / "asked.npy")).value
        finally:
            peer.close()
    except PeerMissing as reason:
        method.missing = str(reason)
        return nothing
    names = [turns[one] for one in stored]
    return [[names[row] for row in found] for found in rows]


def tables(methods: Sequence[Method], *, model: str) -> list[Table]:
    categories = sorted({one.category for method in methods for one in method.asked})
    groups = [OVERALL, *(name for name in categories if name != ADVERSARIAL)]
    groups += [ADVERSARIAL] if ADVERSARIAL in categories else []
    made = []
    for group in groups:
        rows: list[Sequence[str]] = []
        for method in methods:
            chosen = _chosen(method, group)
            if method.missing:
                rows.append((method.name, *(["missing"] * len(MEASURES))))
            else:
                found = scores(chosen)
                rows.append((method.name, *(f"{found[name]:.3f}" for name in MEASURES)))
        count = len(_chosen(methods[0], group))
        made.append(Table(f"{model}: {group}, {count} questions", ("", *MEASURES), rows))
    return made


def _chosen(method: Method, group: str) -> list[Asked]:
    if group == OVERALL:
        return [one for one in method.asked if one.category != ADVERSARIAL]
    return [one for one in method.asked if one.category == group]


def aims(methods: Sequence[Method], *, model: str) -> list[Aim]:
    hybrid = next(method for method in methods if method.name == "hybrid")
    overall = scores(_chosen(hybrid, OVERALL))
    found = [
        Aim(f"hybrid any@10 at least 0.80 ({model})", f"{overall['any@10']:.3f}", overall["any@10"] >= 0.80),
        Aim(f"hybrid all@10 at least 0.66 ({model})", f"{overall['all@10']:.3f}", overall["all@10"] >= 0.66),
    ]
    categories = sorted({one.category for one in hybrid.asked} - {ADVERSARIAL})
    for other in methods:
        if other is hybrid:
            continue
        margins = {
            name: scores(_chosen(hybrid, name))["any@10"] - scores(_chosen(other, name))["any@10"]
            for name in categories
        }
        worst = min(margins, key=lambda name: margins[name])
        found.append(
            Aim(
                f"hybrid beats {other.name} in every category (any@10)",
                other.missing or f"least margin {margins[worst]:+.3f} ({worst})",
                None if other.missing else margins[worst] > 0,
            )
        )
    return found


def by_store(found: Found, *, model: str) -> Table:
    """A column a store."""
    rows = [
        (
            f"{name}, {measure}",
            *(
                f"{scores(_chosen(methods[place], OVERALL))[measure]:.3f}"
                for methods in found.stores.values()
            ),
        )
        for place, name in enumerate(OWN)
        for measure in MEASURES
    ]
    return Table(f"{model}: {OVERALL}, by store", ("", *(NAMES[store] for store in found.stores)), rows)


def store_aims(found: Found, *, model: str) -> list[Aim]:
    """Every other store against SQLite, by the hybrid."""
    hybrid = {store: scores(_chosen(methods[-1], OVERALL)) for store, methods in found.stores.items()}
    made = []
    for store in (one for one in hybrid if one != LOCAL):
        promise = f"{NAMES[store]} within {MOST_APART * 100:.0f} point of SQLite in every figure ({model})"
        if LOCAL not in hybrid:
            made.append(Aim(promise, "-", None))
            continue
        apart = {name: hybrid[store][name] - hybrid[LOCAL][name] for name in MEASURES}
        worst = max(apart, key=lambda name: abs(apart[name]))
        made.append(
            Aim(promise, f"{apart[worst]:+.3f} at most ({worst})", abs(apart[worst]) <= MOST_APART + 1e-9)
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    data = Path(os.environ.get("MINDHOLD_BENCH_DATA", default))
    parser.add_argument(
        "--file", type=Path, default=data if data.suffix == ".json" else data / "locomo" / "dev.json"
    )
    parser.add_argument("--model", action="append", help="which model; repeat for several")
    parser.add_argument(
        "--store", action="append", choices=STORES, help="which store; repeat for several, all by default"
    )
    chosen = parser.parse_args()
    if not chosen.file.is_file():
        raise SystemExit(f"There are no conversations at {chosen.file}: set MINDHOLD_BENCH_DATA.")
    with site_folder("quality") as folder, Sites(folder, chosen.store or STORES) as sites:
        _measured(chosen.file, chosen.model or ["all-MiniLM-L6-v2", "gte-small"], sites)


def _measured(file: Path, models: Sequence[str], sites: Sites) -> None:
    printed: list[Table] = []
    facts: dict[str, Any] = {"machine": machine(), "file": file.name, "models": {}, "stores": {}}
    for model in models:
        place_models(door_options(model))
        found = asyncio.run(measure(file, model, sites))
        checked = aims(found.methods, model=model) + store_aims(found, model=model)
        made = [*tables(found.methods, model=model), by_store(found, model=model), aims_table(checked)]
        for table in made:
            print("\n" + text(table), flush=True)
        printed += made
        facts["models"][model] = _figures(found.methods)
        facts["stores"][model] = {store: _figures(methods) for store, methods in found.stores.items()}
    print(f"\nwritten to {write(RESULTS, 'quality', facts, printed).name}")
    if sites.missing:
        raise SystemExit(f"Not every store took part: {sites.missing}")


def _figures(methods: Sequence[Method]) -> dict[str, Any]:
    return {
        method.name: {
            "overall": scores(_chosen(method, OVERALL)),
            **{name: scores(_chosen(method, name)) for name in {one.category for one in method.asked}},
        }
        for method in methods
    }


if __name__ == "__main__":
    main()
