"""Fusion: bounded, monotone in each part, and of the same meaning whatever the store's size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.model.query import Candidates
from mindhold.model.ranking import (
    DEFAULT,
    FLOOR,
    Cosines,
    apply_boost,
    boost,
    composite,
    cosine_evidence,
    count_nearby,
    fuse,
    neighbours,
    rarity,
    saturate_counts,
    score,
    usefulness_nudge,
)

MINILM = Cosines(0.063, 0.081)
GTE = Cosines(0.742, 0.027)
USUAL = Cosines(0.1, 0.1)
cosine = st.floats(-1, 1)
SPREADS = st.builds(Cosines, st.floats(-0.2, 0.8), st.floats(0, 0.3))


def candidates(
    counts: Sequence[Sequence[int]],
    *,
    cosines: Sequence[float] | None = None,
    frequencies: Sequence[int] | None = None,
    total: int = 1000,
    usual: Cosines = USUAL,
    conversation: str | None = None,
) -> Candidates:
    table = np.array(counts, dtype=np.int32).reshape(len(counts), len(counts[0]) if counts else 0)
    rows, words = table.shape
    known = [int((table[:, word] > 0).sum()) for word in range(words)] if frequencies is None else frequencies
    return Candidates(
        ids=[str(row) for row in range(rows)],
        counts=table,
        lengths=np.full(rows, 12.0),
        cosines=np.full(rows, np.nan) if cosines is None else np.array(cosines, dtype=np.float64),
        importance=np.full(rows, 0.5),
        trust=np.ones(rows),
        uses=np.zeros(rows),
        usefulness=np.zeros(rows),
        occurred=np.zeros(rows),
        conversations=[conversation] * rows,
        openings=[""] * rows,
        positions=np.arange(rows, dtype=np.int64),
        total=total,
        average_length=12.0,
        frequencies={f"w{word}": count for word, count in enumerate(known)},
        cosine_mean=usual.mean,
        cosine_deviation=usual.deviation,
        embedded=0 if cosines is None else total,
    )


def lexemes(found: Candidates) -> list[str]:
    return [f"w{word}" for word in range(found.counts.shape[1])]


def scores(found: Candidates, *, unrelated: Cosines | None = MINILM) -> list[float]:
    return [float(one) for one in fuse(found, lexemes(found), unrelated=unrelated).score]


class TestWords:
    @given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 10_000))
    def test_rarer_is_worth_more_and_nothing_is_worthless(self, total: int, one: int, other: int) -> None:
        fewer, more = sorted((min(one, total), min(other, total)))
        rare, common = rarity(np.array([fewer, more], dtype=np.float64), total=total)
        assert rare >= common > 0

    @given(st.integers(0, 500), st.floats(1, 5_000), st.floats(0.5, 500))
    def test_repetition_helps_less_and_less(self, count: int, length: float, average: float) -> None:
        said = saturate_counts(
            np.array([[count], [count + 1]], dtype=np.int32), np.full(2, length), average_length=average
        )
        assert 0 <= said[0, 0] < said[1, 0] < 1 + DEFAULT.saturation

    def test_one_mention_in_a_record_of_average_length_counts_once(self) -> None:
        assert (
            saturate_counts(np.array([[1]], dtype=np.int32), np.array([9.0]), average_length=9.0)[0, 0] == 1
        )

    def test_a_word_counts_in_a_tiny_store(self) -> None:
        assert scores(candidates([[1], [0], [0]], total=3), unrelated=None)[0] > 0.8


class TestMeaning:
    @given(cosine, cosine, SPREADS, st.integers(0, 1_000_000), st.sampled_from([MINILM, GTE]))
    def test_more_alike_is_never_worth_less(
        self, one: float, other: float, usual: Cosines, records: int, unrelated: Cosines
    ) -> None:
        low, high = cosine_evidence(
            np.array(sorted((one, other))), usual=usual, records=records, unrelated=unrelated
        )
        assert 0 <= low <= high < math.inf

    @given(st.floats(0.5, 6))
    def test_nats_are_minus_the_log_of_the_tail(self, z: float) -> None:
        unrelated, usual = Cosines(0.28, 0.01), Cosines(0.3, 0.1)
        nats = cosine_evidence(np.array([0.3 + 0.1 * z]), usual=usual, records=10**9, unrelated=unrelated)
        assert nats[0] == pytest.approx(-math.log(math.erfc(z / math.sqrt(2))), abs=0.1)

    def test_no_vector_is_no_evidence(self) -> None:
        found = cosine_evidence(
            np.array([np.nan, 0.6]), usual=Cosines(0.1, 0.1), records=100, unrelated=MINILM
        )
        assert found[0] == 0 < found[1]

    @pytest.mark.parametrize("unrelated", [MINILM, GTE])
    def test_the_best_of_the_unrelated_is_nothing(self, unrelated: Cosines) -> None:
        best = unrelated.mean + 2.5 * unrelated.deviation
        found = candidates([[0, 0, 0]], cosines=[best], frequencies=[0, 0, 0], usual=unrelated)
        assert scores(found, unrelated=unrelated)[0] < FLOOR

    @given(st.integers(1, 100_000))
    def test_records_all_about_one_thing_are_found(self, records: int) -> None:
        found = candidates(
            [[0, 0]], cosines=[0.7], frequencies=[0, 0], total=records, usual=Cosines(0.5, 0.05)
        )
        assert scores(found)[0] > FLOOR


class TestFusion:
    @given(
        st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3), min_size=1, max_size=8),
        st.data(),
        SPREADS,
        st.integers(8, 1_000_000),
    )
    def test_scores_are_bounded(
        self, counts: list[list[int]], data: st.DataObject, usual: Cosines, total: int
    ) -> None:
        cosines = data.draw(st.lists(cosine | st.just(math.nan), min_size=len(counts), max_size=len(counts)))
        found = candidates(counts, cosines=cosines, total=total, usual=usual, conversation="talk")
        fused = fuse(found, lexemes(found), unrelated=MINILM)
        assert np.all((fused.score >= 0) & (fused.score <= 1))
        assert np.all((fused.words >= 0) & (fused.meaning >= 0))

    @given(st.integers(0, 3), st.floats(0.2, 0.9), st.floats(0.01, 0.1))
    def test_more_of_either_part_scores_higher(self, count: int, near: float, nearer: float) -> None:
        found = candidates([[count], [count + 1], [count]], cosines=[near, near, near + nearer])
        plain, wordy, close = scores(found)
        assert plain < wordy
        assert plain < close

    def test_without_a_model_words_alone_decide(self) -> None:
        found = candidates([[1, 1, 1], [1, 1, 0], [0, 0, 0]], frequencies=[1, 2, 40])
        best, half, none = scores(found, unrelated=None)
        assert best > half > FLOOR > none == 0

    def test_without_words_meaning_alone_decides(self) -> None:
        found = candidates([[], [], []], cosines=[0.7, 0.5, 0.1])
        best, good, none = scores(found)
        assert best > good > FLOOR > none

    def test_a_record_that_waits_for_its_vector_is_found_by_its_words(self) -> None:
        found = candidates([[1, 1], [0, 0]], cosines=[math.nan, 0.15])
        waiting, other = scores(found)
        assert waiting > FLOOR > other

    def test_an_exact_name_is_found_though_its_meaning_is_opaque(self) -> None:
        assert scores(candidates([[1]], cosines=[0.05], total=10))[0] > FLOOR

    def test_nothing_asked_scores_nothing(self) -> None:
        assert scores(candidates([[]]), unrelated=None) == [0.0]

    def test_no_candidates_is_no_error(self) -> None:
        found = candidates([])
        assert len(fuse(found, [], unrelated=MINILM).score) == 0

    @given(st.integers(50, 1_000_000))
    def test_a_full_match_scores_high_in_a_store_of_any_size(self, total: int) -> None:
        found = candidates([[1] * 4], cosines=[0.6], frequencies=[1] * 4, total=total)
        assert 0.75 < scores(found)[0] < 1

    @given(st.integers(1, 20))
    def test_a_full_match_scores_high_for_a_question_of_any_length(self, words: int) -> None:
        found = candidates([[1] * words], cosines=[0.6], frequencies=[3] * words)
        assert 0.75 < scores(found)[0] < 1

    def test_what_happened_when_the_question_says_comes_first(self) -> None:
        found = candidates([[1], [1], [1]], cosines=[0.4, 0.4, 0.4])
        then = np.array([False, True, False])
        fused = fuse(found, lexemes(found), unrelated=MINILM, in_period=then)
        assert int(fused.score.argmax()) == 1


class TestSurroundings:
    def test_neighbours_are_of_the_same_conversation(self) -> None:
        around = dict(
            neighbours(["a", "b", "a", None, "a"], np.array([1, 2, 2, 3, 4], dtype=np.int64), reach=2)
        )
        assert around[-1].tolist() == [-1, -1, 0, -1, -1]
        assert around[1].tolist() == [2, -1, -1, -1, -1]
        assert around[-2].tolist() == [-1, -1, -1, -1, 2]
        assert around[2].tolist() == [-1, -1, 4, -1, -1]

    @given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(-1, 12)), unique=True))
    def test_a_neighbours_neighbour_is_oneself(self, places: list[tuple[str | None, int]]) -> None:
        positions: npt.NDArray[np.int64] = np.array([position for _, position in places], dtype=np.int64)
        around = dict(neighbours([one for one, _ in places], positions, reach=2))
        for step, rows in around.items():
            for row, other in enumerate(rows):
                assert other == -1 or around[-step][other] == row

    def test_a_word_said_next_door_counts_less_the_further_away(self) -> None:
        said = np.array([[0.0], [0.0], [1.0], [0.0], [0.0]])
        around = neighbours(["talk"] * 5, np.arange(5, dtype=np.int64), reach=2)
        two_before, before, here, after, two_after = count_nearby(said, around)[:, 0]
        assert here == 1 > after == DEFAULT.before > two_after > 0
        assert after > before == DEFAULT.after > two_before > 0

    def test_talk_of_one_word_does_not_beat_the_turn_that_has_them_all(self) -> None:
        talk = [[1, 0], [1, 0], [1, 0], [0, 0], [0, 0], [0, 0], [1, 1]]
        assert int(np.argmax(scores(candidates(talk, conversation="talk"), unrelated=None))) == 6

    def test_the_answer_after_the_question_gains_from_it(self) -> None:
        found = candidates(
            [[1, 1], [0, 0], [0, 0], [0, 0], [0, 0]], cosines=[0.6, 0.3, 0.3, 0.3, 0.3], conversation="c"
        )
        ranked = scores(found)
        assert ranked[0] > ranked[1] > ranked[2] > ranked[3]


class TestScale:
    @given(st.lists(st.floats(0, 60), min_size=2, max_size=8), st.floats(1, 100))
    def test_order_is_kept(self, evidence: list[float], room: float) -> None:
        scored = score(np.array(sorted(evidence)), room=room)
        assert np.all(np.diff(scored) >= 0)
        assert np.all((scored >= 0) & (scored <= 1))

    def test_no_boost_lifts_a_half_match_over_a_full_one(self) -> None:
        full, half = scores(candidates([[1, 1], [1, 0]], frequencies=[2, 1]), unrelated=None)
        weakest = np.array([boost_of(0.0, 9999.0, usefulness=-1.0)])
        strongest = np.array([boost_of(1.0, 0.0, uses=999.0, usefulness=1.0)])
        assert apply_boost(np.array([full]), weakest) > apply_boost(np.array([half]), strongest)


SHARES = st.floats(0, 1)
AGES = st.floats(-10, 10_000)


def boost_of(
    importance: float,
    age: float,
    *,
    uses: float = 0.0,
    trust: float = 1.0,
    usefulness: float = 0.0,
    importance_weight: float = 0.6,
    recency_weight: float = 0.4,
) -> float:
    factor = boost(
        np.array([importance]),
        age_days=np.array([age]),
        uses=np.array([uses]),
        trust=np.array([trust]),
        usefulness=np.array([usefulness]),
        importance_weight=importance_weight,
        recency_weight=recency_weight,
    )
    return float(factor[0])


def composite_of(importance: float, age: float, weight: float = 0.6) -> float:
    order = composite(
        np.array([importance]),
        age_days=np.array([age]),
        importance_weight=weight,
        recency_weight=1 - weight,
    )
    return float(order[0])


class TestBoost:
    @given(SHARES, AGES, st.integers(0, 10_000), SHARES, st.floats(-2, 2), SHARES, SHARES)
    def test_it_is_gentle_and_keeps_the_bounds(
        self,
        importance: float,
        age: float,
        uses: int,
        trust: float,
        usefulness: float,
        weight: float,
        plain: float,
    ) -> None:
        told = {"uses": float(uses), "trust": trust, "usefulness": usefulness}
        usual = boost_of(importance, age, **told)
        assert 0.65 < usual < 1.34
        weighed = boost_of(importance, age, **told, importance_weight=weight, recency_weight=1 - weight)
        assert 0.6 < weighed < 1.4
        assert 0 <= apply_boost(np.array([plain]), np.array([weighed]))[0] <= 1

    @given(SHARES, AGES, SHARES, SHARES, st.floats(-1, 1))
    def test_the_usual_weights_are_what_it_always_was(
        self, importance: float, age: float, uses: float, trust: float, usefulness: float
    ) -> None:
        recent = 0.95 + 0.1 * 2 ** (-max(age, 0.0) / 90)
        expected = (0.9 + 0.2 * importance) * recent * (1 + 0.05 * uses / (uses + 5)) * (0.85 + 0.15 * trust)
        told = {"uses": uses, "trust": trust}
        assert boost_of(importance, age, **told) == pytest.approx(expected)
        assert boost_of(importance, age, **told, usefulness=usefulness) == pytest.approx(
            expected * (1 + usefulness / 10)
        )

    def test_importance_recency_use_trust_and_usefulness_each_help(self) -> None:
        plain = boost_of(0.5, 100.0)
        assert boost_of(0.9, 100.0) > plain
        assert boost_of(0.5, 1.0) > plain
        assert boost_of(0.5, 100.0, uses=9.0) > plain
        assert boost_of(0.5, 100.0, usefulness=0.3) > plain > boost_of(0.5, 100.0, usefulness=-0.3)
        assert boost_of(0.5, 100.0, trust=0.2) < plain

    @given(SHARES, SHARES, AGES, AGES)
    def test_a_weight_of_nothing_takes_its_part_away(
        self, one: float, other: float, age: float, later: float
    ) -> None:
        timeless = {"importance_weight": 1.0, "recency_weight": 0.0}
        assert boost_of(one, age, **timeless) == boost_of(one, later, **timeless)
        ageing = {"importance_weight": 0.0, "recency_weight": 1.0}
        assert boost_of(one, age, **ageing) == boost_of(other, age, **ageing)


class TestComposite:
    @given(SHARES, AGES, SHARES)
    def test_it_lies_between_nothing_and_one(self, importance: float, age: float, weight: float) -> None:
        assert -1e-9 <= composite_of(importance, age, weight) <= 1 + 1e-9

    @given(SHARES, SHARES, AGES, AGES, SHARES)
    def test_more_important_and_more_recent_is_never_less(
        self, one: float, other: float, age: float, later: float, weight: float
    ) -> None:
        best = composite_of(max(one, other), min(age, later), weight)
        assert best >= composite_of(min(one, other), max(age, later), weight) - 1e-12

    @given(SHARES, AGES)
    def test_the_weights_are_the_shares(self, importance: float, age: float) -> None:
        assert composite_of(importance, age, 1.0) == pytest.approx(importance)
        assert composite_of(importance, age, 0.0) == pytest.approx(2 ** (-max(age, 0.0) / 90))
        middle = (composite_of(importance, age, 1.0) + composite_of(importance, age, 0.0)) / 2
        assert composite_of(importance, age, 0.5) == pytest.approx(middle)

    def test_a_quarter_of_a_year_halves_recency(self) -> None:
        assert composite_of(0.5, 0.0) == pytest.approx(0.6 * 0.5 + 0.4)
        assert composite_of(0.5, 90.0) == pytest.approx(0.6 * 0.5 + 0.2)
        assert composite_of(0.5, -5.0) == composite_of(0.5, 0.0), "what is yet to come is not newer than now"

    @given(st.lists(st.floats(-3, 3), min_size=2, max_size=6))
    def test_usefulness_nudges_and_no_more(self, usefulness: list[float]) -> None:
        nudges = usefulness_nudge(np.array(sorted(usefulness)))
        assert np.all(np.diff(nudges) >= 0)
        assert np.all((nudges >= 0.9 - 1e-9) & (nudges <= 1.1 + 1e-9))
        assert usefulness_nudge(np.zeros(1))[0] == 1
