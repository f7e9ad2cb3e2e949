"""What words and neighbours are worth, the order of equals, and the score of passages of past conversations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mindhold.model.query import Candidates, Numbers

Rows = npt.NDArray[np.int64]

FLOOR = 0.3  # one answer in a hundred scores lower, and most non-answers do

IMPORTANCE_WEIGHT, RECENCY_WEIGHT = 0.6, 0.4  # these order equal answers, unless the user sets other weights
HALF_LIFE = 90.0  # days

_FAR = 1 << 40  # more than any position in a conversation


@dataclass(frozen=True, slots=True)
class Weights:
    """The constants of the formula. Quality hardly changes around each value."""

    saturation: float = 0.8  # BM25's k1
    length_share: float = 0.25  # BM25's b; small, because short records are not better for being short
    background: int = 100  # imagined unrelated records, which give a tiny store a basis for comparison
    before: float = 0.6  # value of a word said one turn earlier; squared for two turns
    after: float = 0.4  # less: an answer follows its question
    neighbour_share: float = 0.1  # share of each neighbour's meaning
    reach: int = 2  # turns each way, enough to include the same speaker's previous turn
    period: float = 0.5  # weight of having happened in the asked period; half, because dates may be words too
    shift: float = 1.0  # where meaning starts at the earliest: deviations above the mean of unrelated texts
    ceiling: float = 5.0  # and at the latest, or a store about one topic would never answer
    spread: float = 1.1  # least spread of the cosines, in deviations of unrelated texts
    room: float = 1.5  # meaning that counts as much as all words, as a multiple of the best chance result
    answer_meaning: float = 0.85  # meaning that alone makes a record an answer, in the same measure


DEFAULT = Weights()


@dataclass(frozen=True, slots=True)
class Cosines:
    """The distribution of cosines: between a question and every record, or between unrelated texts of the same model."""

    mean: float
    deviation: float


@dataclass(frozen=True, slots=True)
class FusedScores:
    """One row per candidate: evidence of words and of meaning in nats, neighbours included, and the score from 0 to 1."""

    words: Numbers
    meaning: Numbers
    score: Numbers


def fuse(
    candidates: Candidates,
    lexemes: Sequence[str],
    *,
    unrelated: Cosines | None,
    in_period: npt.NDArray[np.bool_] | None = None,
    weights: Weights = DEFAULT,
) -> FusedScores:
    """Compute evidence and score of each candidate.

    `unrelated` is None if there is no model: then only words count. `in_period` marks the candidates that happened
    in the period of the question, which counts like one more word.
    """
    around = neighbours(candidates.conversations, candidates.positions, reach=weights.reach)
    frequencies = np.array([candidates.frequencies.get(lexeme, 0) for lexeme in lexemes], dtype=np.float64)
    rare = rarity(frequencies, total=candidates.total, weights=weights)
    counts = saturate_counts(
        candidates.counts, candidates.lengths, average_length=candidates.average_length, weights=weights
    )
    words = count_nearby(counts, around, weights=weights) @ rare
    room = float(rare.sum())
    if in_period is not None and in_period.any():
        # The share among the candidates approximates the share in the store, which isn't counted.
        frequency = np.array([in_period.mean() * candidates.total])
        worth = weights.period * float(rarity(frequency, total=candidates.total, weights=weights)[0])
        words = words + worth * in_period
        room += worth
    meaning = np.zeros(len(candidates.ids))
    if unrelated is not None and candidates.embedded:
        usual = Cosines(candidates.cosine_mean, candidates.cosine_deviation)
        meaning = cosine_evidence(
            candidates.cosines, usual=usual, records=candidates.embedded, unrelated=unrelated, weights=weights
        )
        meaning = meaning + weights.neighbour_share * sum(take_rows(meaning, rows) for _, rows in around)
        chance = math.log(candidates.total + weights.background)
        answer_meaning = weights.answer_meaning * chance
        room = _shrink_room(room + weights.room * chance, words, meaning, answer_meaning=answer_meaning)
    return FusedScores(words, meaning, score(words + meaning, room=room))


def _shrink_room(room: float, words: Numbers, meaning: Numbers, *, answer_meaning: float) -> float:
    """Reduce the room if a record means what was asked, so that the words it lacks don't count against it.

    The room shrinks for all candidates, which keeps their order, until meaning alone gives its record the score
    that it deserves; but only above the floor, or a weak similarity would lift records that merely share a word.
    """
    best = int(meaning.argmax()) if len(meaning) else -1
    if best < 0 or -math.expm1(-meaning[best] / answer_meaning) < FLOOR:
        return room
    return min(room, float(2.0 * answer_meaning * (words[best] + meaning[best]) / meaning[best]))


def rarity(frequencies: Numbers, *, total: int, weights: Weights = DEFAULT) -> Numbers:
    """The value of each word of the question in nats, by how many of the `total` records have it."""
    present = np.minimum(frequencies, total)
    return np.log1p((total + weights.background - present + 0.5) / (present + 0.5))


def saturate_counts(
    counts: npt.NDArray[np.int32], lengths: Numbers, *, average_length: float, weights: Weights = DEFAULT
) -> Numbers:
    """BM25 without its rarity: 1 for a word said once in a record of average length, always below 2."""
    relative = lengths / max(average_length, 1.0)
    pivot = weights.saturation * (1 - weights.length_share + weights.length_share * relative)
    return counts * (weights.saturation + 1) / (counts + pivot[:, np.newaxis])


def cosine_evidence(
    cosines: Numbers, *, usual: Cosines, records: int, unrelated: Cosines, weights: Weights = DEFAULT
) -> Numbers:
    """The value of each cosine in nats; 0 for an ordinary one, or for none (NaN).

    `usual` describes all cosines of this question in the store, where names and topics recur. It counts at least as
    much as that of unrelated texts, or a question about nothing in the store would favour its least bad record;
    and a few records about one topic are no basis for comparison without background records.
    """
    ground = Cosines(
        unrelated.mean + weights.shift * unrelated.deviation, weights.spread * unrelated.deviation
    )
    latest = unrelated.mean + weights.ceiling * unrelated.deviation
    capped = Cosines(min(usual.mean, latest), usual.deviation)
    mixed = _mix(capped, records, ground, weights.background)
    centre, width = max(mixed.mean, ground.mean), max(mixed.deviation, ground.deviation, 1e-6)
    above = np.maximum(np.nan_to_num(cosines, nan=-1.0) - centre, 0.0) / width
    # Minus the logarithm of the normal distribution's two tails, accurate to a tenth of a nat.
    return above**2 / 2 + np.arcsinh(above * math.sqrt(math.pi / 8))


def score(evidence: Numbers, *, room: float) -> Numbers:
    """Evidence on a scale from 0 to 1 that means the same for short and long questions, small and large stores.

    `room` is the evidence of a record that says and means every word of the question.
    """
    if room <= 0:
        return np.zeros(len(evidence))
    return -np.expm1(-2.0 * evidence / room)


def composite(
    importance: Numbers,
    *,
    age_days: Numbers,
    importance_weight: float = IMPORTANCE_WEIGHT,
    recency_weight: float = RECENCY_WEIGHT,
) -> Numbers:
    """The order of equally good answers: importance and recency, from 0 to 1, by weights that sum to 1."""
    return importance_weight * np.clip(importance, 0.0, 1.0) + recency_weight * recency(age_days)


def recency(age_days: Numbers) -> Numbers:
    """1 for the present, 0.5 for 90 days ago."""
    return np.exp2(-np.maximum(age_days, 0.0) / HALF_LIFE)


def usefulness_nudge(usefulness: Numbers) -> Numbers:
    """A factor from 0.9 to 1.1 by the feedback on each record."""
    return 1.0 + 0.1 * np.clip(usefulness, -1.0, 1.0)


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
    """A mild multiplier of the evidence: it orders equal answers and never prefers a much worse one.

    Importance 0.9 to 1.1, recency 0.95 to 1.05, scaled by their weights relative to the defaults; use 1 to 1.05,
    trust 0.85 to 1, usefulness 0.9 to 1.1.
    """
    important, recent = importance_weight / IMPORTANCE_WEIGHT, recency_weight / RECENCY_WEIGHT
    worth = (1.0 - 0.1 * important) + 0.2 * important * np.clip(importance, 0.0, 1.0)
    fresh = (1.0 - 0.05 * recent) + 0.1 * recent * recency(age_days)
    use = 1.0 + 0.05 * uses / (uses + 5.0)
    belief = 0.85 + 0.15 * np.clip(trust, 0.0, 1.0)
    return worth * fresh * use * belief * usefulness_nudge(usefulness)


def apply_boost(scores: Numbers, boosts: Numbers) -> Numbers:
    """The scores as if their evidence had been multiplied: still from 0 to 1. The floor applies to the scores before."""
    return -np.expm1(boosts * np.log1p(-np.minimum(scores, 1 - 1e-12)))


def neighbours(conversations: Sequence[str | None], positions: Rows, *, reach: int) -> list[tuple[int, Rows]]:
    """For each step (-1: the previous turn, 1: the next, ...) the row of each row's neighbour, -1 for none."""
    if conversations.count(None) == len(conversations):
        return []
    codes: dict[str | None, int] = {None: 0}
    codes_of_rows = np.array([codes.setdefault(name, len(codes)) for name in conversations], dtype=np.int64)
    keys = codes_of_rows * _FAR + positions
    sorted_rows = np.flatnonzero((codes_of_rows > 0) & (positions >= 0))
    sorted_rows = sorted_rows[np.argsort(keys[sorted_rows], kind="stable")]
    sorted_keys = keys[sorted_rows]
    around = []
    for step in (step for k in range(1, reach + 1) for step in (-k, k)):
        rows = np.full(len(codes_of_rows), -1, dtype=np.int64)
        if len(sorted_rows):
            matches = np.minimum(np.searchsorted(sorted_keys, sorted_keys + step), len(sorted_rows) - 1)
            rows[sorted_rows] = np.where(sorted_keys[matches] == sorted_keys + step, sorted_rows[matches], -1)
        around.append((step, rows))
    return around


def count_nearby(
    counts: Numbers, around: Sequence[tuple[int, Rows]], *, weights: Weights = DEFAULT
) -> Numbers:
    """Each word counts where it is said best: in the record, or at a discount in a neighbour.

    The best and not the sum, or a turn amid much talk of one word would beat the turn that has them all.
    """
    best = counts
    for step, rows in around:
        share = weights.before**-step if step < 0 else weights.after**step
        best = np.maximum(best, share * take_rows(counts, rows))
    return best


def take_rows(values: Numbers, rows: Rows) -> Numbers:
    """The values of these rows, 0 for row -1."""
    nothing = np.zeros((1, *values.shape[1:]))
    return np.concatenate([values, nothing])[rows]


def _mix(left: Cosines, left_size: int, right: Cosines, right_size: int) -> Cosines:
    share = left_size / max(left_size + right_size, 1)
    mean = share * left.mean + (1 - share) * right.mean
    variance = share * (left.deviation**2 + (left.mean - mean) ** 2)
    variance += (1 - share) * (right.deviation**2 + (right.mean - mean) ** 2)
    return Cosines(mean, math.sqrt(variance))
