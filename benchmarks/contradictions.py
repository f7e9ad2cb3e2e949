"""How well contradictions are told, on public pairs that people labelled, in English and Korean.

Precision first: of what is called a contradiction, how much is one. Four views: all pairs; those that come before any classifier
(similarity above 0.85 by our embedder); those less alike on which the rules act alone; and notes of two sentences made of them, where
the other sentence is the same, or about something else. The rules were made by looking at other parts of the data than are reported.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from benchmarks.environment import RESULTS, machine
from benchmarks.nli_data import DATASETS, REPORTED, TUNED, DataMissing, Dataset, Pair, pairs_of
from benchmarks.peers.door import OWN_HOME, door_options, uncached_embedder
from benchmarks.report import Aim, Table, aims_table, share, text, write

from mindhold.lifecycle.contradiction_detection import (
    ALIKE,
    DOUBTED,
    LEAST_ALIKE,
    SURE,
    LayeredClassifier,
    RuleClassifier,
)
from mindhold.ports.llm import Classifier, Judgement
from mindhold.providers.model_pull import PullOptions, pull
from mindhold.providers.model_registry import LocalModelRegistry
from mindhold.providers.nli import OnnxClassifier

LEAST_PRECISION = 0.9
MODEL = "all-MiniLM-L6-v2"
MOST_EMBEDDED = 2_000  # pairs of a dataset that are looked at by their similarity
MOST_JUDGED = 500  # pairs of a dataset that a model is asked about
HEADS = ("", "pairs", "contradictions", "called", "precision", "recall", "doubted")


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one classifier on some pairs."""

    pairs: int
    contradictions: int
    called: int
    right: int
    doubted: int

    @property
    def precision(self) -> float | None:
        """None where nothing was called one."""
        return self.right / self.called if self.called else None

    @property
    def recall(self) -> float | None:
        return self.right / self.contradictions if self.contradictions else None

    def row(self, name: str) -> tuple[str, ...]:
        counts = (self.pairs, self.contradictions, self.called)
        return (
            name,
            *(f"{count:,}" for count in counts),
            share(self.precision),
            share(self.recall),
            f"{self.doubted:,}",
        )


def figures(pairs: Sequence[Pair], judgements: Sequence[Judgement]) -> Figures:
    """What is called one from 0.8 on; below, from 0.4 on, it is doubted."""
    called = [pair for pair, found in zip(pairs, judgements, strict=True) if found.contradiction >= SURE]
    return Figures(
        pairs=len(pairs),
        contradictions=sum(pair.label == "contradiction" for pair in pairs),
        called=len(called),
        right=sum(pair.label == "contradiction" for pair in called),
        doubted=sum(DOUBTED <= found.contradiction < SURE for found in judgements),
    )


def summed(parts: Sequence[Figures]) -> Figures:
    return Figures(
        sum(part.pairs for part in parts),
        sum(part.contradictions for part in parts),
        sum(part.called for part in parts),
        sum(part.right for part in parts),
        sum(part.doubted for part in parts),
    )


def judged(classifier: Classifier, pairs: Sequence[Pair]) -> Figures:
    found = asyncio.run(classifier.judge([(pair.first, pair.second) for pair in pairs]))
    return figures(pairs, found)


def by_likeness(pairs: Sequence[Pair]) -> list[tuple[float, Pair]]:
    """With how alike our embedder finds the two."""
    embedder = uncached_embedder(door_options(MODEL))
    unrelated = embedder.unrelated.mean
    chosen = pairs[:MOST_EMBEDDED]
    first, second = (
        embedder.embed_now(texts) for texts in ([p.first for p in chosen], [p.second for p in chosen])
    )
    alike = (np.einsum("ij,ij->i", first, second) - unrelated) / (1.0 - unrelated)
    return [(float(likeness), pair) for likeness, pair in zip(alike, chosen, strict=True)]


def composed(pairs: Sequence[Pair]) -> list[Pair]:
    """Notes of two sentences. Both begin alike and then deny each other; or they begin with sentences of which neither follows from
    nor denies the other, and then it isn't one thing that they speak of."""
    denied = [pair for pair in pairs if pair.label == "contradiction"]
    unrelated = [pair for pair in pairs if pair.label == "neutral"]
    found = []
    for opening, pair in zip(unrelated, denied, strict=False):
        found.append(
            Pair(_note(opening.first, pair.first), _note(opening.first, pair.second), "contradiction")
        )
        found.append(Pair(_note(opening.first, pair.first), _note(opening.second, pair.second), "neutral"))
    return found


def _note(*sentences: str) -> str:
    return " ".join(
        sentence if sentence.rstrip().endswith((".", "!", "?")) else f"{sentence.rstrip()}."
        for sentence in sentences
    )


def measure(
    classifier: Classifier, data: dict[Dataset, list[Pair]], *, title: str
) -> tuple[Table, dict[str, Figures]]:
    """A row a dataset, one a language and one for all."""
    begun = perf_counter()
    found = {dataset.name: judged(classifier, pairs) for dataset, pairs in data.items()}
    rows: list[Sequence[str]] = [
        found[dataset.name].row(f"{dataset.name} ({dataset.language})") for dataset in data
    ]
    for language in sorted({dataset.language for dataset in data}):
        own = [found[dataset.name] for dataset in data if dataset.language == language]
        found[language] = summed(own)
        rows.append(found[language].row(f"all {language}"))
    found["all"] = summed([found[dataset.name] for dataset in data])
    rows.append(found["all"].row("all"))
    seconds = perf_counter() - begun
    rows.append((f"{found['all'].pairs / seconds:,.0f} pairs a second",))
    return Table(title, HEADS, rows), found


def load(part: str) -> dict[Dataset, list[Pair]]:
    """What can be had of it; what is missing is told."""
    data = {}
    for dataset in DATASETS:
        if dataset.part == part:
            try:
                data[dataset] = pairs_of(dataset)
            except DataMissing as reason:
                print(f"MISSING {dataset.name}: {reason}", flush=True)
    return data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tuned", action="store_true", help="the part that the rules were made by, too")
    parser.add_argument("--models", type=Path, default=OWN_HOME / "models", help="where a model of nli lies")
    chosen = parser.parse_args()
    data = load(REPORTED)
    if not data:
        raise SystemExit("None of the labelled pairs is here, so contradictions were not measured.")
    printed, facts = _measured(data, chosen.models)
    if chosen.tuned:
        table, _ = measure(RuleClassifier(), load(TUNED), title="Rules, the part that they were made by")
        printed.append(table)
    for table in printed:
        print("\n" + text(table), flush=True)
    print(f"\nwritten to {write(RESULTS, 'contradictions', {'machine': machine(), **facts}, printed).name}")


def _measured(data: dict[Dataset, list[Pair]], models: Path) -> tuple[list[Table], dict[str, Any]]:
    rules = RuleClassifier()
    pull(MODEL, PullOptions(OWN_HOME / "models", precision=door_options(MODEL)["precision"]))
    alike = {dataset: by_likeness(pairs) for dataset, pairs in data.items()}
    views = {
        "all pairs": data,
        f"pairs above {ALIKE} by {MODEL}": _between(alike, ALIKE, 2.0),
        f"pairs from {LEAST_ALIKE} to {ALIKE}, where rules act alone": _between(alike, LEAST_ALIKE, ALIKE),
        "notes of two sentences": {dataset: composed(pairs) for dataset, pairs in data.items()},
    }
    printed, facts, aims = [], dict[str, Any](), list[Aim]()
    for title, own in views.items():
        table, found = measure(rules, own, title=f"Contradictions by rules: {title}")
        printed.append(table)
        facts[title] = {name: _plain(each) for name, each in found.items()}
        precision = found["all"].precision
        promise = f"rules: at least {LEAST_PRECISION} of what they call a contradiction is one ({title})"
        aims.append(
            Aim(promise, share(precision), None if precision is None else precision >= LEAST_PRECISION)
        )
    name = next((card.name for card in LocalModelRegistry(models).classifiers() if card.installed), None)
    if name is None:
        print("No model of nli is here to measure: `mindhold models pull nli` fetches one.", flush=True)
    else:
        few = {dataset: pairs[:MOST_JUDGED] for dataset, pairs in data.items()}
        model = OnnxClassifier(models, name)
        for classifier in (model, LayeredClassifier(rules, model)):
            table, found = measure(
                classifier, few, title=f"Contradictions by {classifier.name}: a part of all pairs"
            )
            printed.append(table)
            facts[classifier.name] = {key: _plain(each) for key, each in found.items()}
    return [*printed, aims_table(aims)], facts


def _between(
    alike: dict[Dataset, list[tuple[float, Pair]]], least: float, most: float
) -> dict[Dataset, list[Pair]]:
    return {
        dataset: [pair for likeness, pair in own if least < likeness <= most]
        for dataset, own in alike.items()
    }


def _plain(found: Figures) -> dict[str, Any]:
    return {
        "pairs": found.pairs,
        "contradictions": found.contradictions,
        "called": found.called,
        "precision": found.precision,
        "recall": found.recall,
        "doubted": found.doubted,
    }


if __name__ == "__main__":
    main()
