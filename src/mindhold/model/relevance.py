"""How probably each candidate answers a question: what is known of the pair, weighed as learned from answered questions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import compress

import numpy as np
import numpy.typing as npt

from mindhold.model.lexemes import query_lexemes
from mindhold.model.query import Candidates, Numbers
from mindhold.model.ranking import (
    DEFAULT,
    Cosines,
    Rows,
    count_nearby,
    neighbours,
    rarity,
    saturate_counts,
    take_rows,
)

TURN, ALONE = "turn", "alone"  # a message of a conversation, and a memory that stands alone
FOREIGN = "foreign"  # one that stands alone, for a question in a script that English models hardly know
FOREIGN_TURN = "foreign turn"  # a message, for such a question: judged by words only
WORDS = "words"  # compared by words only
USUAL_MODEL = "all-MiniLM-L6-v2"  # whose weights also serve models that none were learned for
DEVIATIONS = 10.0  # of unrelated texts, between a meaning of 0 and of 1
BACKGROUND_MEANING = 0.25  # of the nearest of a hundred unrelated texts
LONG = 60  # lexemes; longer messages say much beside the answer
MOST_AHEAD, MOST_BEHIND = 4.0, 3.0  # behind less: an echo of the question must not drown its answers
FLOOR = 0.02  # of 100 right answers among the first ten, 94 to 100 have a higher confidence
DOUBT = 0.2  # below it an answer is doubtful, and nothing is done on the strength of it
UNLIKELY = 0.05  # below it nothing answers; of 100 questions with an answer at most 3 are
COMPLETE = 0.75  # share of the words that is nearly the whole question
LAST_LATIN = "\u024f"
FEWEST_TURNS = 3  # that a name opens, before it counts as a speaker's
PERSON = frozenset({"human", "user"})  # lexemes of the person, when an assistant is the other speaker
ROLES = PERSON | {"ai", "assist", "system"}  # of speakers whom nobody asks about
# Lexemes of a question that asks for an overview, which long messages give.
OVERVIEW = frozenset(
    lexeme
    for word in "summary summarize summarise overview recap comprehensive zusammenfassung überblick résumé resumen".split()
    for lexeme in query_lexemes(word)
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """How one kind of candidates is judged: weights by feature, and from their sum the probability of an answer."""

    weights: Mapping[str, float]
    slope: float
    lead: float  # weight of how far it is ahead of the next, or behind the first
    offset: float


@dataclass(frozen=True, slots=True)
class Relevance:
    """One row per candidate."""

    words: Numbers  # share of the question's words, by rarity, that it or a neighbour says
    meaning: Numbers  # above that of unrelated texts; 0 without a vector
    confidence: Numbers  # probability that it answers the question


def relevance(
    candidates: Candidates,
    lexemes: Sequence[str],
    *,
    unrelated: Cosines | None,
    model: str = USUAL_MODEL,
    in_period: npt.NDArray[np.bool_] | None = None,
) -> Relevance:
    """Compute the confidence in each candidate: by words and meaning, or by words alone if there is no vector.

    A candidate that says nearly the whole question is judged by both ways, and the higher counts: the meaning of a name
    or a number may be opaque.

    `unrelated` is None if there is no model: then only words count. `model` chooses the weights. `in_period` marks the
    candidates that happened in the period of the question.
    """
    learned = judgements().get(model.partition("/")[0]) or judgements()[USUAL_MODEL]
    known = features(candidates, lexemes, unrelated=unrelated, in_period=in_period)
    turns = is_turn(candidates)
    compared = ~np.isnan(known["meaning"])
    confidence = np.zeros(len(candidates.ids))
    for kind, rows in _kinds(learned, turns, foreign=is_foreign(lexemes)):
        by_both = learned.get(kind)  # none for messages in a script that the model doesn't know
        by_words_too = rows & (~compared | (known["own"] >= COMPLETE)) if by_both else rows
        for judgement, judged, among in (
            (by_both, rows & compared, rows & compared),
            (judgements()[WORDS][kind], by_words_too, rows),  # ahead of all others, not only of its like
        ):
            if judgement and judged.any():
                if among.all():
                    probability = confidence_of(known, judgement)
                else:
                    probability = np.zeros(len(confidence))
                    chosen = {name: values[among] for name, values in known.items()}
                    probability[among] = confidence_of(chosen, judgement)
                confidence[judged] = np.maximum(confidence, probability)[judged]
    confidence[(known["words"] <= 0) & ~(known["meaning"] > 0)] = 0.0
    return Relevance(known["words"], np.where(compared, known["meaning"], 0.0), confidence)


def _kinds(
    learned: Mapping[str, Judgement], turns: npt.NDArray[np.bool_], *, foreign: bool
) -> Sequence[tuple[str, npt.NDArray[np.bool_]]]:
    """How messages and other memories are judged. A model that learned other languages judges their messages as any."""
    knows = learned[FOREIGN].weights["meaning"] > learned[FOREIGN].weights["own"]
    if not foreign:
        return (TURN, turns), (ALONE, ~turns)
    return (TURN if knows else FOREIGN_TURN, turns), (FOREIGN, ~turns)


def features(
    candidates: Candidates,
    lexemes: Sequence[str],
    *,
    unrelated: Cosines | None,
    in_period: npt.NDArray[np.bool_] | None = None,
) -> dict[str, Numbers]:
    """What is known of each candidate and the question, by name. `meaning` is NaN without a vector."""
    around = neighbours(candidates.conversations, candidates.positions, reach=DEFAULT.reach)
    frequencies = np.array([candidates.frequencies.get(lexeme, 0) for lexeme in lexemes], dtype=np.float64)
    rare = rarity(frequencies, total=candidates.total)
    counts = saturate_counts(candidates.counts, candidates.lengths, average_length=candidates.average_length)
    room = float(rare.sum())
    own, nearby = counts @ rare / max(room, 1e-9), count_nearby(counts, around) @ rare / max(room, 1e-9)
    meaning = np.full(len(candidates.ids), np.nan)
    if unrelated is not None:
        meaning = (candidates.cosines - unrelated.mean) / (DEVIATIONS * max(unrelated.deviation, 1e-6))
    said = frozenset(lexemes) - ROLES
    person = _in(candidates.openings, PERSON)
    long = np.log(np.maximum(candidates.lengths / LONG, 1.0))
    broad = float(not OVERVIEW.isdisjoint(lexemes))
    return {
        "words": nearby,
        "own": own,
        "around": (own + nearby) / 2,
        "complete": own**2,  # so that a single word of many counts little, and all of them much
        "meaning": meaning,
        "nearby": _nearby_meaning(meaning, around),
        "conversation": _best_of_conversation(meaning, candidates.conversations),
        "said": _in(candidates.openings, said),
        "person": person,
        "broad person": broad * person,
        "period": np.zeros(len(candidates.ids)) if in_period is None else in_period.astype(np.float64),
        "length": np.log1p(candidates.lengths) / 5,
        "long": long,
        "broad long": broad * long,
    }


def _in(openings: Sequence[str], lexemes: frozenset[str]) -> Numbers:
    """1 for each opening that is one of the lexemes, else 0."""
    return np.fromiter(map(lexemes.__contains__, openings), np.float64, len(openings))


def is_foreign(lexemes: Sequence[str]) -> bool:
    """Whether the question is mostly in another script than Latin."""
    other = sum(any(character > LAST_LATIN for character in lexeme) for lexeme in lexemes)
    return 2 * other > len(lexemes)


def named_speakers(candidates: Candidates, lexemes: Sequence[str]) -> frozenset[str]:
    """The lexemes of the question that are speakers of candidates."""
    openings = Counter(compress(candidates.openings, is_turn(candidates)))
    return frozenset(lexeme for lexeme in lexemes if openings[lexeme] >= FEWEST_TURNS and lexeme not in ROLES)


def without_names(text: str, names: frozenset[str]) -> str:
    """The question without the words that are only names: a speaker's name resembles every message of that speaker."""
    kept = [word for word in text.split() if names.isdisjoint(query_lexemes(word))]
    return " ".join(kept) or text


def is_turn(candidates: Candidates) -> npt.NDArray[np.bool_]:
    """Which candidates are messages of a conversation."""
    placed: npt.NDArray[np.bool_] = candidates.positions >= 0
    if not placed.any():
        return placed
    return placed & np.array([name is not None for name in candidates.conversations], dtype=np.bool_)


def confidence_of(known: Mapping[str, Numbers], judgement: Judgement) -> Numbers:
    """The probability that each of these candidates, all of one kind, answers the question."""
    evidence = weigh(known, judgement.weights)
    ahead = judgement.slope * evidence + judgement.lead * lead(evidence, background(known, judgement.weights))
    return 1.0 / (1.0 + np.exp(-(ahead + judgement.offset)))


def weigh(known: Mapping[str, Numbers], weights: Mapping[str, float]) -> Numbers:
    """The weighted sum of the features."""
    total: Numbers = sum((weight * known[name] for name, weight in weights.items()), start=np.zeros(()))
    return total


def background(known: Mapping[str, Numbers], weights: Mapping[str, float]) -> float:
    """The evidence of an imagined record of the same length that has nothing to do with the question.

    It gives a store with few records something to be compared with.
    """
    imagined = {"meaning": BACKGROUND_MEANING, "nearby": BACKGROUND_MEANING / 2}
    imagined["conversation"] = BACKGROUND_MEANING
    imagined["length"] = float(known["length"].mean())
    imagined["long"] = float(known["long"].mean())
    imagined["broad long"] = float(known["broad long"].mean())
    return sum(weight * imagined.get(name, 0.0) for name, weight in weights.items())


def lead(evidence: Numbers, imagined: float) -> Numbers:
    """How far the first is ahead of the second, and all others behind the first."""
    first = int(evidence.argmax())
    best = float(evidence[first])
    others = evidence.copy()
    others[first] = imagined
    second = max(imagined, float(others.max()))
    ahead = evidence - max(imagined, best)
    ahead[first] = best - second
    return np.clip(ahead, -MOST_BEHIND, MOST_AHEAD)


@cache
def judgements() -> Mapping[str, Mapping[str, Judgement]]:
    """What `benchmarks/learn_relevance.py` learned, by model (or by words only) and kind of candidate."""
    content = json.loads(files("mindhold.model").joinpath("relevance.json").read_text("utf-8"))
    return {
        by: {kind: Judgement(**judgement) for kind, judgement in learned.items()}
        for by, learned in content.items()
    }


def _nearby_meaning(meaning: Numbers, around: Sequence[tuple[int, Rows]]) -> Numbers:
    """The higher meaning of the turns just before and after; 0 if there are none."""
    best = np.zeros(len(meaning))
    meaning = np.where(np.isnan(meaning), 0.0, meaning)
    for step, rows in around:
        if abs(step) == 1:
            best = np.maximum(best, take_rows(meaning, rows))
    return best


def _best_of_conversation(meaning: Numbers, conversations: Sequence[str | None]) -> Numbers:
    """The highest meaning of the same conversation, which is about one thing; 0 without a conversation or vectors."""
    if conversations.count(None) == len(conversations):
        return np.zeros(len(conversations))
    best: dict[str | None, float] = {}
    values = np.where(np.isnan(meaning), 0.0, meaning).tolist()
    for name, value in zip(conversations, values, strict=True):
        if name is not None:
            best[name] = max(best.get(name, 0.0), value)
    return np.array([best.get(name, 0.0) for name in conversations])
