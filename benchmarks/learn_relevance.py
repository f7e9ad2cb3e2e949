"""Learns the weights of `mindhold.model.relevance` from several sets of questions at once, and says how they carry over.

For each kind of memory a conditional logistic model orders the candidates of a question, then a logistic model turns its
sum into the probability of an answer. Every set weighs the same. Writes src/mindhold/model/relevance.json with --write.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
from benchmarks.peers.door import door_options, place_models
from benchmarks.questions import Pool, Question, across_languages, beam, facts, locomo
from benchmarks.report import Table, text
from benchmarks.vectors import KnownVectors, known_vectors

from mindhold.model.lexemes import lexemes, query_lexemes
from mindhold.model.query import Candidates, Numbers
from mindhold.model.ranking import Cosines
from mindhold.model.relevance import (
    ALONE,
    COMPLETE,
    FOREIGN,
    FOREIGN_TURN,
    TURN,
    USUAL_MODEL,
    WORDS,
    Judgement,
    background,
    confidence_of,
    features,
    lead,
    named_speakers,
    weigh,
    without_names,
)
from mindhold.ports.embedder import BETWEEN_MODELS
from mindhold.text.timeframe import find_timeframe

BOTH = "both"  # words and meaning
USED: Mapping[str, Mapping[str, Sequence[str]]] = {
    TURN: {
        BOTH: (
            *("words", "meaning", "nearby", "conversation"),
            *("said", "person", "broad person", "period", "length", "long", "broad long"),
        ),
        WORDS: ("words", "said", "person", "broad person", "period", "length", "long", "broad long"),
    },
    ALONE: {BOTH: ("complete", "meaning"), WORDS: ("own", "complete", "length")},
    FOREIGN: {BOTH: ("own", "complete", "meaning"), WORDS: ("own", "complete", "length")},
    # There are no such conversations to learn from: the words of facts, which have no neighbours, stand for theirs.
    FOREIGN_TURN: {WORDS: ("around",)},
}
ASIAN = ("ja", "ko", "zh")
TARGET = Path(__file__).resolve().parents[1] / "src" / "mindhold" / "model" / "relevance.json"
PENALTY = 1e-3
PERIOD = 3.5  # weight of a period for facts, which have no dates to learn it from: as for messages
SHOWN = 10
KEPT = 150  # candidates of a question that the order is learned from: the best by each feature
_Known = Mapping[str, Numbers]


@dataclass(frozen=True, slots=True)
class Case:
    """A question: what is known of each candidate, and which ones answer."""

    of: str
    pool: str
    category: str
    known: _Known
    right: npt.NDArray[np.bool_]


def cases_of(pool: Pool, vectors: KnownVectors, unrelated: Cosines) -> list[Case]:
    """Every question with all memories of the pool as candidates."""
    stored = [lexemes(each) for each in pool.texts]
    counted = [Counter(each) for each in stored]
    spread = Counter(lexeme for each in stored for lexeme in set(each))
    matrix = vectors.texts(pool.texts)

    def candidates(asked: str, words: Sequence[str]) -> Candidates:
        cosines = (matrix @ vectors.question(asked)).astype(np.float64)
        lengths, nothing = np.array([float(len(each)) for each in stored]), np.zeros(len(stored))
        return Candidates(
            ids=[str(place) for place in range(len(stored))],
            counts=np.array(
                [[each.get(word, 0) for word in words] for each in counted], dtype=np.int32
            ).reshape(len(stored), len(words)),
            lengths=lengths,
            cosines=cosines,
            importance=nothing,
            trust=nothing,
            uses=nothing,
            usefulness=nothing,
            occurred=nothing,
            conversations=list(pool.conversations),
            openings=[each[0] if each else "" for each in stored],
            positions=np.array(pool.positions, dtype=np.int64),
            total=len(stored),
            average_length=float(lengths.mean()),
            frequencies={word: spread[word] for word in words},
            cosine_mean=float(cosines.mean()),
            cosine_deviation=float(cosines.std()),
            embedded=len(stored),
        )

    def in_period(asked: str) -> npt.NDArray[np.bool_] | None:
        if not pool.occurred:
            return None
        frame = find_timeframe(asked, now=max(pool.occurred), zone=ZoneInfo("UTC"))
        if frame is None:
            return None
        start, end = frame.start or min(pool.occurred), frame.end or max(pool.occurred)
        return np.array([start <= one < end for one in pool.occurred], dtype=np.bool_)

    def case(question: Question) -> Case:
        words = tuple(dict.fromkeys(query_lexemes(question.text)))
        found = candidates(question.text, words)
        names = named_speakers(found, words)
        if names:
            found = candidates(without_names(question.text, names), words)
        right = np.zeros(len(stored), dtype=np.bool_)
        right[list(question.answers)] = True
        known = features(found, words, unrelated=unrelated, in_period=in_period(question.text))
        return Case(pool.of, pool.name, question.category, known, right)

    return [case(question) for question in pool.questions]


def learn_order(cases: Sequence[Case], names: Sequence[str]) -> dict[str, float]:
    """Weights that put the answers of each question before its other candidates, by Newton's method."""
    answered = [case for case in cases if case.right.any()]
    tables, rights = [], []
    for case in answered:
        table = np.stack([case.known[name] for name in names], axis=1)
        best = {
            row
            for name in names
            for row in np.argsort(-case.known[name], kind="stable")[: KEPT // 3].tolist()
        }
        rows = np.array(sorted(best | set(np.flatnonzero(case.right).tolist())))
        tables.append(table[rows])
        rights.append(case.right[rows])
    sizes = np.array([len(each) for each in rights])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    of = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.vstack(tables)
    scale = rows.std(axis=0) + 1e-9
    rows = (rows - rows.mean(axis=0)) / scale
    right = np.concatenate(rights).astype(np.float64)
    target = right / np.add.reduceat(right, starts)[of]
    share = _shares([case.of for case in answered])

    def chances(weights: Numbers) -> tuple[Numbers, float]:
        evidence = rows @ weights
        evidence -= np.maximum.reduceat(evidence, starts)[of]
        exponents = np.exp(evidence)
        sums = np.add.reduceat(exponents, starts)
        loss = -float(share @ (np.add.reduceat(target * evidence, starts) - np.log(sums)))
        return exponents / sums[of], loss + PENALTY * float(weights @ weights)

    weights = np.zeros(len(names))
    for _ in range(50):
        chance, loss = chances(weights)
        slope = rows.T @ (share[of] * (chance - target)) + 2 * PENALTY * weights
        weighted = rows * chance[:, np.newaxis]
        means = np.add.reduceat(weighted, starts, axis=0)
        curve = rows.T @ (weighted * share[of][:, np.newaxis]) - means.T @ (means * share[:, np.newaxis])
        step = np.linalg.solve(curve + 2 * PENALTY * np.eye(len(names)), slope)
        size = 1.0
        while chances(weights - size * step)[1] > loss and size > 1e-6:
            size /= 2
        weights = weights - size * step
        if np.abs(size * step).max() < 1e-6:
            break
    return {name: float(weight) for name, weight in zip(names, weights / scale, strict=True)}


def learn_confidence(cases: Sequence[Case], weights: Mapping[str, float]) -> Judgement:
    """From the evidence of the ten that would be shown, and how far each is ahead, the probability that it answers."""
    rows, right, sets = [], [], []
    for case in cases:
        evidence, ahead = _evidence(case, weights)
        for row in np.argsort(-evidence, kind="stable")[:SHOWN].tolist():
            rows.append((evidence[row], ahead[row], 1.0))
            right.append(float(case.right[row]))
            sets.append(case.of)
    table, target, share = np.array(rows), np.array(right), _shares(sets)
    found = np.zeros(3)
    for _ in range(100):
        chance = 1 / (1 + np.exp(-table @ found))
        slope = table.T @ (share * (chance - target)) + 1e-6 * found
        curve = table.T @ (table * (share * chance * (1 - chance))[:, np.newaxis]) + 1e-6 * np.eye(3)
        step = np.linalg.solve(curve, slope)
        found = found - step
        if np.abs(step).max() < 1e-8:
            break
    return Judgement(dict(weights), slope=float(found[0]), lead=float(found[1]), offset=float(found[2]))


def _evidence(case: Case, weights: Mapping[str, float]) -> tuple[Numbers, Numbers]:
    evidence = weigh(case.known, weights)
    return evidence, lead(evidence, background(case.known, weights))


def _shares(sets: Sequence[str]) -> Numbers:
    """Weights that make every set count the same."""
    sizes = Counter(sets)
    return np.array([1 / (sizes[each] * len(sizes)) for each in sets])


def confidences(case: Case, learned: Mapping[str, Judgement]) -> Numbers:
    """As recall has them, for memories with a vector."""
    if BOTH not in learned:
        return confidence_of(case.known, learned[WORDS])
    by_words = np.where(case.known["own"] >= COMPLETE, confidence_of(case.known, learned[WORDS]), 0.0)
    return np.maximum(confidence_of(case.known, learned[BOTH]), by_words)


def learn(cases: Sequence[Case], kind: str) -> dict[str, Judgement]:
    """The judgement of one kind of memory."""
    return {by: learn_confidence(cases, learn_order(cases, names)) for by, names in USED[kind].items()}


def held_out(cases: Sequence[Case], kind: str) -> list[tuple[Case, Numbers]]:
    """Each pool judged by what was learned from the others."""
    judged = []
    for pool in dict.fromkeys(case.pool for case in cases):
        learned = learn([case for case in cases if case.pool != pool], kind)
        judged += [(case, confidences(case, learned)) for case in cases if case.pool == pool]
    return judged


def table(title: str, judged: Sequence[tuple[Case, Numbers]]) -> Table:
    """Per set: found at 1, 5 and 10, calibration of the first, and answers where there is none."""
    rows = []
    for of in dict.fromkeys(case.of for case, _ in judged):
        group = [(case, scores) for case, scores in judged if case.of == of]
        rows.append((of, *_row(group, lambda case, scores: scores)))
        rows.append(
            (
                f"{of}, by meaning alone",
                *_row(group, lambda case, scores: case.known["meaning"])[:6],
                "",
                "",
                "",
            )
        )
    head = (
        "",
        "questions",
        "hit@1",
        "any@5",
        "any@10",
        "all@5",
        "all@10",
        "error of confidence",
        "junk at 0.5",
        "right at 0.5",
    )
    return Table(title, head, rows)


def _row(group: Sequence[tuple[Case, Numbers]], order: Callable[[Case, Numbers], Numbers]) -> list[str]:
    found, first = [], []
    for case, scores in group:
        best = np.argsort(-order(case, scores), kind="stable")[:SHOWN]
        first.append((float(scores[best[0]]), bool(case.right[best[0]]), bool(case.right.any())))
        if case.right.any():
            ranks = case.right[best]
            every = int(case.right.sum())
            found.append(
                (ranks[0], ranks[:5].any(), ranks.any(), ranks[:5].sum() == every, ranks.sum() == every)
            )
    means = np.mean(np.array(found, dtype=np.float64), axis=0)
    chance = np.array([one[0] for one in first])
    right = np.array([one[1] for one in first])
    answerable = np.array([one[2] for one in first])
    junk = f"{int((chance[~answerable] >= 0.5).sum())} of {int((~answerable).sum())}"
    sure = f"{right[chance >= 0.5].mean():.2f}" if (chance >= 0.5).any() else "-"
    return [str(len(found)), *(f"{mean:.3f}" for mean in means), f"{_error(chance, right):.3f}", junk, sure]


def _error(chance: Numbers, right: npt.NDArray[np.bool_]) -> float:
    """The mean distance of confidence and truth, over ten bins."""
    bins = np.minimum((chance * 10).astype(np.int64), 9)
    total = 0.0
    for each in range(10):
        within = bins == each
        if within.any():
            total += float(within.mean()) * abs(float(chance[within].mean()) - float(right[within].mean()))
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    data = Path(
        os.environ.get("MINDHOLD_BENCH_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
    )
    parser.add_argument("--locomo", type=Path, default=data / "locomo" / "dev.json")
    parser.add_argument(
        "--beam", type=Path, help="a checkout of mohammadtavakoli78/BEAM; without it BEAM is left out"
    )
    parser.add_argument("--model", action="append", help="which model; repeat for several")
    parser.add_argument("--write", action="store_true", help="write the weights into the package")
    chosen = parser.parse_args()
    if chosen.write and not chosen.beam:
        parser.error("--write needs --beam: the weights are learned from every set.")
    pools = learning_pools(chosen.locomo, chosen.beam)
    content = json.loads(TARGET.read_text(encoding="utf-8"))
    for model in chosen.model or [USUAL_MODEL]:
        content |= learn_model(model, pools)
    print(json.dumps(content, indent=2))
    if chosen.write:
        TARGET.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def learning_pools(conversations: Path, chats: Path | None) -> dict[str, list[Pool]]:
    """What is learned from, by kind of memory. BEAM's chats 11 to 20 are for scoring."""
    foreign = [*facts(languages=ASIAN), *across_languages(asked=ASIAN)]
    return {
        TURN: [*locomo(conversations), *(beam(chats, range(1, 11)) if chats else ())],
        ALONE: list(facts()),
        FOREIGN: foreign,
        FOREIGN_TURN: foreign,
    }


def learn_model(model: str, pools: Mapping[str, Sequence[Pool]]) -> dict[str, dict[str, object]]:
    """The judgements with this model and by words only, as the package keeps them. Prints how they carry over."""
    for each in model.split(BETWEEN_MODELS):
        place_models(door_options(each))
    vectors = known_vectors(model)
    content: dict[str, dict[str, object]] = {WORDS: {}, model: {}}
    for kind, group in pools.items():
        cases = [case for pool in group for case in cases_of(pool, vectors, vectors.embedder.unrelated)]
        vectors.keep()
        title = f"{model}, {kind}: each pool judged by the others"
        print("\n" + text(table(title, held_out(cases, kind))), flush=True)
        learned = learn(cases, kind)
        if kind != TURN:
            learned = {
                by: replace(judgement, weights={**judgement.weights, "period": PERIOD})
                for by, judgement in learned.items()
            }
        content[WORDS][kind] = _rounded(learned[WORDS])
        if BOTH in learned:
            content[model][kind] = _rounded(learned[BOTH])
    return content


def _rounded(judgement: Judgement) -> dict[str, object]:
    values = asdict(judgement)
    values["weights"] = {name: round(weight, 3) for name, weight in judgement.weights.items()}
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in values.items()}


if __name__ == "__main__":
    main()
