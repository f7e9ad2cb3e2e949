"""What is measured of every store: who takes part, storing, recall by questions and by keywords, nearness to exact search."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import measures
from benchmarks.contestants import FLOOR, Answer, Entry, Field
from benchmarks.environment import PeerMissing
from benchmarks.measures import Figures, Material
from benchmarks.report import spread
from benchmarks.sites import LOCAL, MONGODB, NAMES, POSTGRES, REDIS, Sites
from benchmarks.texts import keyword_questions
from benchmarks.vectors import Matrix, agreement, between

BARE, BESIDE = "postgres-bare", "postgres-redis"
FILLED, COPIED, BULK = "mindhold_filled", "mindhold_copied", "mindhold_bulk"  # names of databases
LABELS = {
    LOCAL: NAMES[LOCAL],
    POSTGRES: NAMES[POSTGRES],
    BARE: "bare pgvector query + embedding",
    BESIDE: "PostgreSQL, Redis beside",
    MONGODB: NAMES[MONGODB],
}
_PAUSE = 0.02


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    memories: tuple[int, ...] = (10_000, 100_000)
    queries: int = 100
    stores: int = 20
    bulk: int = 512
    bulk_rounds: int = 4
    migrated: int = 10_000
    served: int = 10_000
    rounds: int = 3
    seconds: int = 15


QUICK = Sizes(
    memories=(1_000, 5_000),
    queries=25,
    stores=8,
    bulk=256,
    bulk_rounds=2,
    migrated=1_000,
    served=1_000,
    rounds=1,
    seconds=6,
)


def entries(sites: Sites) -> list[Entry]:
    """The exact floor, every store that runs, PostgreSQL's own floor in its process, and PostgreSQL with Redis."""
    found = [FLOOR]
    for store in sites.stores:
        settings = _uncached(sites.settings(store, FILLED))
        entry = Entry(
            store,
            LABELS[store],
            "store_door",
            store,
            fills=True,
            options={"settings": settings, "plain": True},
            servers=sites.processes(store),
        )
        found.append(entry)
        if store == POSTGRES:
            bare = replace(entry, key=BARE, label=LABELS[BARE], fills=False)
            found.append(replace(bare, mode="bare", shares_process=POSTGRES))
        if store == POSTGRES and sites.redis:
            beside = replace(entry, key=BESIDE, label=LABELS[BESIDE], fills=False)
            options = {"settings": settings | sites.settings(store, COPIED) | sites.beside()}
            found.append(replace(beside, options=options, servers=sites.processes(POSTGRES, REDIS)))
    return found


def _uncached(settings: dict[str, Any]) -> dict[str, Any]:
    # One process is asked the same question several times, and every time it has to be embedded.
    return settings | {"embedding.cache_size": 0}


def _own(stage: Field) -> list[Entry]:
    """Those that are Mindhold on a store."""
    return [entry for entry in stage.entries() if entry.key not in (FLOOR.key, BARE)]


def _ask(stage: Field, entry: Entry, do: str, **details: Any) -> Answer | None:
    """The answer; None from one whose process ends, and who is out from then on."""
    try:
        return stage.open(entry).ask(do, **details)
    except PeerMissing as reason:
        stage.drop(entry, reason)
        return None


def _each(stage: Field, do: str, **details: Any) -> dict[str, Any]:
    """What each store says."""
    answers = {entry.key: _ask(stage, entry, do, **details) for entry in _own(stage)}
    return {key: answer.value for key, answer in answers.items() if answer is not None}


def settle(stage: Field, sites: Sites, material: Material, *, count: int) -> None:
    """Copy what PostgreSQL was filled with for the one that has Redis beside it, and wait until its sets are whole.

    Its writes are followed by those sets, so it shares its database with nobody who has none.
    """
    if not sites.redis or all(entry.key != BESIDE for entry in stage.entries()):
        return
    sites.copy_postgres(FILLED, COPIED)
    for entry in [entry for entry in stage.entries() if entry.key == BESIDE]:
        for keyword in keyword_questions(material.texts[:count], 1):
            answer = _ask(stage, entry, "settle", keyword=keyword)
            if answer is not None and answer.value != "whole":
                print(f"  the keyword sets are {answer.value}", flush=True)


def sizes_of(stage: Field) -> Figures:
    """Bytes that each store says it takes."""
    return {key: {"bytes": value} for key, value in _each(stage, "size").items()}


def nearness(stage: Field, material: Material, base: Matrix, *, queries: int) -> Figures:
    """Shares of the exact ten by vectors alone, and of SQLite's ten by whole recalls."""
    file = material.folder / "queries.npy"
    np.save(file, between(base, queries, seed=1))
    exact = stage.open(FLOOR).ask("nearest", vectors=str(file)).value
    found: Figures = {}
    for entry in stage.entries():
        if entry.key == FLOOR.key:
            continue
        way = "nearest_bare" if entry.key == BARE else "nearest"
        answer = _ask(stage, entry, way, vectors=str(file))
        if answer is not None:
            of_exact = agreement(answer.value, exact)
            found[entry.key] = {"of_exact": of_exact, "search_ms": answer.milliseconds / queries}
    hits = _each(stage, "recalled", texts=material.questions[:queries])
    for key, rows in hits.items():
        if LOCAL in hits:
            found[key]["of_local"] = _shared(rows, hits[LOCAL])
    return found


def _shared(rows: Sequence[Sequence[int]], others: Sequence[Sequence[int]]) -> float:
    both = [(one, other) for one, other in zip(rows, others, strict=True) if other]
    return agreement([one for one, _ in both], [other for _, other in both]) if both else 0.0


def uses_index(stage: Field, material: Material) -> bool | None:
    """Whether PostgreSQL answers the bare query by an index; None without PostgreSQL."""
    for entry in [entry for entry in stage.entries() if entry.key == BARE]:
        answer = _ask(stage, entry, "plan", text=material.questions[0])
        return None if answer is None else "Index Scan using fragments_embedding" in answer.value
    return None


def by_keywords(stage: Field, material: Material, *, count: int, queries: int) -> Figures:
    """Recall by a keyword of the memories instead of a question, in turns; whether sets beside the store answered."""
    asked = keyword_questions(material.texts[:count], queries)
    if not asked:
        return {}
    taken: dict[str, list[float]] = {entry.key: [] for entry in _own(stage)}
    for number, keyword in enumerate([asked[-1], *asked]):
        own = _own(stage)
        turn = number % max(len(own), 1)
        for entry in own[turn:] + own[:turn]:
            time.sleep(_PAUSE)
            answer = _ask(stage, entry, "recall", text=keyword, mode="keywords")
            if number and answer is not None:  # the first warms up
                taken[entry.key].append(answer.milliseconds)
    rungs = _each(stage, "rungs", keywords=asked)
    return {
        key: spread(taken[key]) | {"by_sets": said.count("keyword sets") / len(asked)}
        for key, said in rungs.items()
    }


def store_one(stage: Field, material: Material, *, stores: int) -> Figures:
    """One memory at a time into the full store, each text once; then they are erased."""
    samples: dict[str, list[float]] = {entry.key: [] for entry in _own(stage)}
    for number in range(stores + 1):
        for entry in _own(stage):
            time.sleep(_PAUSE)
            answer = _ask(stage, entry, "store", text=next(material.fresh))
            if number and answer is not None:  # the first warms up
                samples[entry.key].append(answer.milliseconds)
    erased = _each(stage, "unstore")
    return {key: spread(samples[key]) for key in erased}


def bulk(sites: Sites, material: Material, sizes: Sizes, *, folder: Path, options: dict[str, Any]) -> Figures:
    """Memories a second with embedding, by all of intake, into empty stores; the floor's is the bare embedder."""
    taking = [
        replace(entry, bulk=True, options={"settings": sites.settings(entry.key, BULK)})
        for entry in entries(sites)
        if entry.fills and entry is not FLOOR
    ]
    amount = measures.Sizes(bulk=sizes.bulk, bulk_rounds=sizes.bulk_rounds)
    with Field(folder, options, [FLOOR, *taking]) as stage:
        return measures.bulk(stage, material, amount)
