"""Retrieval quality on conversations: full text alone, vectors alone, the hybrid, and ChromaDB on the same vectors.

Each turn is remembered as a memory with its date, through the front door; gold is the evidence of each question. The
file is `locomo/dev.json` under RECOLLECT_BENCH_DATA (default ../shared/data), or any other of the same shape.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.contestants import ENTRIES, Contestant
from benchmarks.environment import RESULTS, PeerMissing, machine
from benchmarks.peers.door import OWN_HOME, door_options, place_models
from benchmarks.report import Aim, Table, aims_table, text, write

from recollect.app import App, open_app
from recollect.model.query import Filter
from recollect.operations.keeping import CREATE_SCOPE, CreateScopeInput
from recollect.operations.reading import RECALL, RecallInput
from recollect.operations.writing import REMEMBER_MANY, RememberInput, RememberManyInput
from recollect.settings import load_settings

CHROMA = next(entry for entry in ENTRIES if entry.key == "chroma")
ADVERSARIAL = "adversarial"
MEASURES = ("any@5", "any@10", "all@5", "all@10", "MRR")


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


def conversations(path: Path) -> list[dict[str, Any]]:
    documents: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return documents


def moment(when: str) -> datetime:
    """ "1:56 pm on 8 May, 2023"."""
    return datetime.strptime(re.sub(r"\s+", " ", when).strip().upper(), "%I:%M %p ON %d %B, %Y").replace(
        tzinfo=UTC
    )


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
    matrix = await app.engine.meaning.embed_query(question)
    assert matrix is not None
    assert app.engine.meaning.model is not None
    [found] = await app.engine.store.nearest(
        [matrix[0]], model=app.engine.meaning.model, where=Filter(scopes=(scope,)), limit=10
    )
    return [turns[hit.id] for hit in found if hit.id in turns]


async def measure(path: Path, model: str) -> list[Method]:
    words, vectors, hybrid, chroma = (
        Method("full text alone"),
        Method("vectors alone"),
        Method("hybrid"),
        Method("ChromaDB, same vectors"),
    )
    for conversation in conversations(path):
        with tempfile.TemporaryDirectory() as folder:
            await _one(conversation, Path(folder), model=model, methods=(words, vectors, hybrid, chroma))
        print(f"  {conversation['conversation']}: {len(conversation['questions'])} questions", flush=True)
    return [words, vectors, hybrid, chroma]


async def _one(conversation: dict[str, Any], folder: Path, *, model: str, methods: Sequence[Method]) -> None:
    words, vectors, hybrid, chroma = methods
    scope = conversation["conversation"]
    arguments = {"home": str(OWN_HOME), "store.path": str(folder / "quality.db"), "embedding.model": model}
    questions = [
        question for question in conversation["questions"] if set(question["evidence"]) <= _ids(conversation)
    ]
    async with open_app(load_settings(arguments, environ={})) as app:
        turns = await fill(app, conversation)
        for question in questions:
            asked = {"category": question["category"], "evidence": frozenset(question["evidence"])}
            ask = question["question"]
            hybrid.asked.append(Asked(found=await recalled(app, ask, scope=scope, turns=turns), **asked))
            vectors.asked.append(Asked(found=await nearest(app, ask, scope=scope, turns=turns), **asked))
        dense = await _by_chroma(app, turns, questions, folder, chroma)
    async with open_app(load_settings({**arguments, "embedding.provider": "none"}, environ={})) as app:
        for question, found in zip(questions, dense, strict=True):
            asked = {"category": question["category"], "evidence": frozenset(question["evidence"])}
            words.asked.append(
                Asked(found=await recalled(app, question["question"], scope=scope, turns=turns), **asked)
            )
            if not chroma.missing:
                chroma.asked.append(Asked(found=found, **asked))


def _ids(conversation: dict[str, Any]) -> set[str]:
    return {turn["id"] for turn in conversation["turns"]}


async def _by_chroma(
    app: App, turns: dict[str, str], questions: Sequence[dict[str, Any]], folder: Path, method: Method
) -> list[list[str]]:
    """ChromaDB's own dense search over the very vectors that ours are, for the same questions."""
    nothing: list[list[str]] = [[] for _ in questions]
    if method.missing or app.engine.meaning.model is None:
        return nothing
    stored = await app.engine.store.vector_of(list(turns), model=app.engine.meaning.model)
    asked = [await app.engine.meaning.embed_query(question["question"]) for question in questions]
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
    groups = ["all but adversarial", *(name for name in categories if name != ADVERSARIAL)]
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
    if group == "all but adversarial":
        return [one for one in method.asked if one.category != ADVERSARIAL]
    return [one for one in method.asked if one.category == group]


def aims(methods: Sequence[Method], *, model: str) -> list[Aim]:
    hybrid = next(method for method in methods if method.name == "hybrid")
    overall = scores(_chosen(hybrid, "all but adversarial"))
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    data = Path(os.environ.get("RECOLLECT_BENCH_DATA", default))
    parser.add_argument(
        "--file", type=Path, default=data if data.suffix == ".json" else data / "locomo" / "dev.json"
    )
    parser.add_argument("--model", action="append", help="which model; repeat for several")
    chosen = parser.parse_args()
    if not chosen.file.is_file():
        raise SystemExit(f"There are no conversations at {chosen.file}: set RECOLLECT_BENCH_DATA.")
    printed: list[Table] = []
    facts: dict[str, Any] = {"machine": machine(), "file": chosen.file.name, "models": {}}
    for model in chosen.model or ["all-MiniLM-L6-v2", "gte-small"]:
        place_models(door_options(model))
        methods = asyncio.run(measure(chosen.file, model))
        made = [*tables(methods, model=model), aims_table(aims(methods, model=model))]
        for table in made:
            print("\n" + text(table), flush=True)
        printed += made
        facts["models"][model] = {
            method.name: {
                "overall": scores(_chosen(method, "all but adversarial")),
                **{name: scores(_chosen(method, name)) for name in {one.category for one in method.asked}},
            }
            for method in methods
        }
    print(f"\nwritten to {write(RESULTS, 'quality', facts, printed).name}")


if __name__ == "__main__":
    main()
