"""How well a record answers a question, computed from what a store knows about the candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mindhold.model.query import Candidates, Numbers

Rows = npt.NDArray[np.int64]

FLOOR = 0.3  # one answer in a hundred lies below it, and most of what answers nothing

IMPORTANCE_WEIGHT, RECENCY_WEIGHT = 0.6, 0.4  # of what orders equals, unless a person says otherwise
HALF_LIFE = 90.0  # days

_FAR = 1 << 40  # more than any position in a conversation


@dataclass(frozen=True, slots=True)
class Weights:
    """Every constant of the formula. Quality is flat around each of them."""

    saturation: float = 0.8  # BM25's k1
    length_share: float = 0.25  # BM25's b; small, for shortness alone is no merit among short records
    strangers: int = 100  # imagined unrelated records, without which a tiny store would be no yardstick
    before: float = 0.6  # what a word is worth that was said one turn earlier; the square, two turns earlier
    after: float = 0.4  # less: an answer follows its question
    kinship: float = 0.1  # share of each neighbour's meaning
    reach: int = 2  # turns each way, so that the same speaker's previous turn is among them
    period: float = 0.5  # of having happened when the question says; half, for dates may be words as well
    shift: float = 1.0  # deviations of unrelated texts above their mean where meaning begins at the earliest
    ceiling: float = 5.0  # and at the latest, or a store all about one thing would never answer
    spread: float = 1.1  # least spread of the cosines, in deviations of unrelated texts
    room: float = 1.5  # meaning that counts as much as all words: so many times what the best of chance has
    meant: float = 0.85  # meaning that makes a record an answer whatever words it uses, in the same measure


DEFAULT = Weights()


@dataclass(frozen=True, slots=True)
class Cosines:
    """How cosines lie: of a question with every record, or of texts that are unrelated, by the same model."""

    mean: float
    deviation: float


@dataclass(frozen=True, slots=True)
class Fused:
    """One row a candidate: nats of words and of meaning, surroundings included, and their sum from 0 to 1."""

    words: Numbers
    meaning: Numbers
    score: Numbers


def fuse(
    found: Candidates,
    lexemes: Sequence[str],
    *,
    unrelated: Cosines | None,
    in_period: npt.NDArray[np.bool_] | None = None,
    weights: Weights = DEFAULT,
) -> Fused:
    """Evidence and score of each candidate.

    `unrelated` is None where there is no model: words alone then decide. `in_period` marks the candidates that happened
    when the question says, which is evidence like one more word.
    """
    around = neighbours(found.conversations, found.positions, reach=weights.reach)
    frequencies = np.array([found.frequencies.get(lexeme, 0) for lexeme in lexemes], dtype=np.float64)
    rare = rarity(frequencies, total=found.total, weights=weights)
    said = saturated(found.counts, found.lengths, average_length=found.average_length, weights=weights)
    words = said_nearby(said, around, weights=weights) @ rare
    room = float(rare.sum())
    if in_period is not None and in_period.any():
        # The share among the candidates stands for the share in the store, which nobody counted.
        frequency = np.array([in_period.mean() * found.total])
        worth = weights.period * float(rarity(frequency, total=found.total, weights=weights)[0])
        words = words + worth * in_period
        room += worth
    meaning = np.zeros(len(found.ids))
    if unrelated is not None and found.embedded:
        usual = Cosines(found.cosine_mean, found.cosine_deviation)
        meaning = surprise(
            found.cosines, usual=usual, records=found.embedded, unrelated=unrelated, weights=weights
        )
        meaning = meaning + weights.kinship * sum(_of_rows(meaning, rows) for _, rows in around)
        chance = math.log(found.total + weights.strangers)
        room = _less_room(room + weights.room * chance, words, meaning, meant=weights.meant * chance)
    return Fused(words, meaning, score(words + meaning, room=room))


def _less_room(room: float, words: Numbers, meaning: Numbers, *, meant: float) -> float:
    """Where a record means what was asked, the words that it doesn't say are not held against it.

    The room shrinks for all candidates alike, which keeps their order, until meaning alone gives its record the score
    that it deserves; but only if that is above the floor, or a weak likeness would lift what merely shares a word.
    """
    best = int(meaning.argmax()) if len(meaning) else -1
    if best < 0 or -math.expm1(-meaning[best] / meant) < FLOOR:
        return room
    return min(room, float(2.0 * meant * (words[best] + meaning[best]) / meaning[best]))


def rarity(frequencies: Numbers, *, total: int, weights: Weights = DEFAULT) -> Numbers:
    """Nats that each word of the question is worth, by how many of the `total` records have it."""
    known = np.minimum(frequencies, total)
    rare: Numbers = np.log1p((total + weights.strangers - known + 0.5) / (known + 0.5))
    return rare


def saturated(
    counts: npt.NDArray[np.int32], lengths: Numbers, *, average_length: float, weights: Weights = DEFAULT
) -> Numbers:
    """BM25 without its rarity: 1 for a word said once in a record of average length, never 2."""
    relative = lengths / max(average_length, 1.0)
    pivot = weights.saturation * (1 - weights.length_share + weights.length_share * relative)
    said: Numbers = counts * (weights.saturation + 1) / (counts + pivot[:, np.newaxis])
    return said


def surprise(
    cosines: Numbers, *, usual: Cosines, records: int, unrelated: Cosines, weights: Weights = DEFAULT
) -> Numbers:
    """Nats that each cosine is worth; 0 for an ordinary one, or where there is none (NaN).

    `usual` is of all cosines of this question in the store, where names and topics recur. It is never taken to be less
    than what the model gives unrelated texts, or a question about nothing in the store would make its least bad record
    shine; and a few records, all about one thing, are no yardstick without strangers among them.
    """
    ground = Cosines(
        unrelated.mean + weights.shift * unrelated.deviation, weights.spread * unrelated.deviation
    )
    latest = unrelated.mean + weights.ceiling * unrelated.deviation
    held = Cosines(min(usual.mean, latest), usual.deviation)
    mixed = _mixed(held, records, ground, weights.strangers)
    centre, width = max(mixed.mean, ground.mean), max(mixed.deviation, ground.deviation, 1e-6)
    above = np.maximum(np.nan_to_num(cosines, nan=-1.0) - centre, 0.0) / width
    # Minus the logarithm of the normal distribution's two tails, within a tenth of a nat.
    nats: Numbers = above**2 / 2 + np.arcsinh(above * math.sqrt(math.pi / 8))
    return nats


def score(evidence: Numbers, *, room: float) -> Numbers:
    """Evidence on a scale of 0 to 1 that means the same for short and long questions, small and large stores.

    `room` is what saying every word of the question, and meaning it, would be worth.
    """
    if room <= 0:
        return np.zeros(len(evidence))
    scores: Numbers = -np.expm1(-2.0 * evidence / room)
    return scores


def composite(
    importance: Numbers,
    *,
    age_days: Numbers,
    importance_weight: float = IMPORTANCE_WEIGHT,
    recency_weight: float = RECENCY_WEIGHT,
) -> Numbers:
    """The order of what answers equally well: importance and recency, 0 to 1 by weights that sum to 1."""
    order: Numbers = importance_weight * np.clip(importance, 0.0, 1.0) + recency_weight * recency(age_days)
    return order


def recency(age_days: Numbers) -> Numbers:
    """1 for what happens now, half of it for what is 90 days old."""
    fresh: Numbers = np.exp2(-np.maximum(age_days, 0.0) / HALF_LIFE)
    return fresh


def usefulness_nudge(usefulness: Numbers) -> Numbers:
    """0.9 to 1.1 by what those who were given it thought of it."""
    nudge: Numbers = 1.0 + 0.1 * np.clip(usefulness, -1.0, 1.0)
    return nudge


def boost(
    importance: Numbers,
    *,
    age_days: Numbers,
    uses: Numbers,
    trust: Numbers,
    usefulness: Numbers,
    importance_weight: float = IMPORTANCE_WEIGHT,
    recency_weight: float = RECENCY_WEIGHT,
) -> Numbers:
    """A gentle multiplier of the evidence: it orders equals, and never prefers what answers much less well.

    Importance 0.9 to 1.1, recency 0.95 to 1.05, more or less as their weights are more or less than usual; use 1 to 1.05,
    trust 0.85 to 1, usefulness 0.9 to 1.1.
    """
    important, recent = importance_weight / IMPORTANCE_WEIGHT, recency_weight / RECENCY_WEIGHT
    worth = (1.0 - 0.1 * important) + 0.2 * important * np.clip(importance, 0.0, 1.0)
    fresh = (1.0 - 0.05 * recent) + 0.1 * recent * recency(age_days)
    use = 1.0 + 0.05 * uses / (uses + 5.0)
    belief = 0.85 + 0.15 * np.clip(trust, 0.0, 1.0)
    factor: Numbers = worth * fresh * use * belief * usefulness_nudge(usefulness)
    return factor


def boosted(scores: Numbers, boosts: Numbers) -> Numbers:
    """The scores had their evidence been multiplied: still from 0 to 1. The floor is for the scores before."""
    stronger: Numbers = -np.expm1(boosts * np.log1p(-np.minimum(scores, 1 - 1e-12)))
    return stronger


def neighbours(conversations: Sequence[str | None], positions: Rows, *, reach: int) -> list[tuple[int, Rows]]:
    """For each step (-1: the turn before, 1: the one after, ...) the row of each row's neighbour, -1 for none."""
    if all(conversation is None for conversation in conversations):
        return []
    codes: dict[str | None, int] = {None: 0}
    of = np.array([codes.setdefault(one, len(codes)) for one in conversations], dtype=np.int64)
    places = of * _FAR + positions
    placed = np.flatnonzero((of > 0) & (positions >= 0))
    placed = placed[np.argsort(places[placed], kind="stable")]
    ordered = places[placed]
    around = []
    for step in (step for k in range(1, reach + 1) for step in (-k, k)):
        rows = np.full(len(of), -1, dtype=np.int64)
        if len(placed):
            at = np.minimum(np.searchsorted(ordered, ordered + step), len(placed) - 1)
            rows[placed] = np.where(ordered[at] == ordered + step, placed[at], -1)
        around.append((step, rows))
    return around


def said_nearby(said: Numbers, around: Sequence[tuple[int, Rows]], *, weights: Weights = DEFAULT) -> Numbers:
    """Each word counts where it is said best: here, or at a discount next door.

    The best and not the sum, or a turn amid much talk of one word would beat the turn that has them all.
    """
    best = said
    for step, rows in around:
        share = weights.before**-step if step < 0 else weights.after**step
        best = np.maximum(best, share * _of_rows(said, rows))
    return best


def _of_rows(values: Numbers, rows: Rows) -> Numbers:
    nothing = np.zeros((1, *values.shape[1:]))
    found: Numbers = np.concatenate([values, nothing])[rows]
    return found


def _mixed(one: Cosines, size: int, other: Cosines, others: int) -> Cosines:
    share = size / max(size + others, 1)
    mean = share * one.mean + (1 - share) * other.mean
    variance = share * (one.deviation**2 + (one.mean - mean) ** 2)
    variance += (1 - share) * (other.deviation**2 + (other.mean - mean) ** 2)
    return Cosines(mean, math.sqrt(variance))
