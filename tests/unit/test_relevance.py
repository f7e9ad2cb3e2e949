"""How probably a memory answers: what the confidence does when the evidence changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.model.lexemes import query_lexemes
from mindhold.model.query import Candidates
from mindhold.model.ranking import Cosines
from mindhold.model.relevance import (
    ALONE,
    DOUBT,
    FLOOR,
    FOREIGN,
    FOREIGN_TURN,
    TURN,
    USUAL_MODEL,
    WORDS,
    features,
    is_foreign,
    judgements,
    lead,
    named_speakers,
    relevance,
    without_names,
)

MINILM = Cosines(0.063, 0.081)
GTE = Cosines(0.742, 0.027)
cosine = st.floats(-1, 1)


def candidates(
    counts: Sequence[Sequence[int]],
    *,
    cosines: Sequence[float] | None = None,
    total: int = 1000,
    conversation: str | None = None,
    openings: Sequence[str] = (),
    lengths: Sequence[float] = (),
) -> Candidates:
    table = np.array(counts, dtype=np.int32).reshape(len(counts), len(counts[0]) if counts else 0)
    rows, words = table.shape
    return Candidates(
        ids=[str(row) for row in range(rows)],
        counts=table,
        lengths=np.array(lengths or [12.0] * rows, dtype=np.float64),
        cosines=np.full(rows, np.nan) if cosines is None else np.array(cosines, dtype=np.float64),
        importance=np.full(rows, 0.5),
        trust=np.ones(rows),
        uses=np.zeros(rows),
        usefulness=np.zeros(rows),
        occurred=np.zeros(rows),
        conversations=[conversation] * rows,
        openings=list(openings) or [""] * rows,
        positions=np.arange(rows, dtype=np.int64),
        total=total,
        average_length=12.0,
        frequencies={f"w{word}": int((table[:, word] > 0).sum()) for word in range(words)},
        embedded=0 if cosines is None else total,
    )


def lexemes(found: Candidates) -> list[str]:
    return [f"w{word}" for word in range(found.counts.shape[1])]


def confidences(found: Candidates, *, unrelated: Cosines | None = MINILM) -> list[float]:
    return [float(one) for one in relevance(found, lexemes(found), unrelated=unrelated).confidence]


class TestConfidence:
    @given(
        st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3), min_size=1, max_size=8),
        st.data(),
        st.sampled_from([None, "talk"]),
        st.integers(8, 1_000_000),
    )
    def test_is_a_probability(
        self, counts: list[list[int]], data: st.DataObject, conversation: str | None, total: int
    ) -> None:
        cosines = data.draw(st.lists(cosine | st.just(math.nan), min_size=len(counts), max_size=len(counts)))
        found = relevance(
            candidates(counts, cosines=cosines, total=total, conversation=conversation),
            ["w0", "w1", "w2"],
            unrelated=MINILM,
        )
        assert np.all((found.confidence >= 0) & (found.confidence <= 1))

    @pytest.mark.parametrize("conversation", [None, "talk"])
    @given(cosine, cosine)
    def test_of_two_the_more_alike_is_likelier(
        self, conversation: str | None, one: float, other: float
    ) -> None:
        low, high = sorted((one, other))
        found = candidates([[0], [0]], cosines=[low, high], conversation=conversation)
        less, more = confidences(found)
        assert less <= more

    @pytest.mark.parametrize("conversation", [None, "talk"])
    def test_more_words_are_likelier(self, conversation: str | None) -> None:
        found = candidates([[1, 1, 1], [1, 0, 0]], cosines=[0.4, 0.4], conversation=conversation)
        all_of_them, one_of_them = confidences(found)
        assert all_of_them > one_of_them

    def test_one_word_that_many_share_does_not_outrank_the_meaning(self) -> None:
        found = candidates([[1, 0, 0, 0], [0, 0, 0, 0]], cosines=[0.3, 0.6])
        sharing, meaning = confidences(found)
        assert meaning > DOUBT > sharing

    @pytest.mark.parametrize("unrelated", [MINILM, GTE])
    def test_the_nearest_of_the_unrelated_is_doubtful(self, unrelated: Cosines) -> None:
        nearest = unrelated.mean + 2.5 * unrelated.deviation
        found = candidates([[0, 0, 0], [0, 0, 0]], cosines=[nearest, nearest - unrelated.deviation])
        assert max(confidences(found, unrelated=unrelated)) < DOUBT

    def test_a_lone_memory_is_not_the_answer_to_everything(self) -> None:
        assert confidences(candidates([[0, 0]], cosines=[0.15], total=1))[0] < DOUBT

    def test_an_exact_name_is_found_though_its_meaning_is_opaque(self) -> None:
        assert confidences(candidates([[1], [0]], cosines=[0.05, 0.1], total=10))[0] > 0.5

    def test_a_record_that_waits_for_its_vector_is_found_by_its_words(self) -> None:
        waiting, other = confidences(candidates([[1, 1], [0, 0]], cosines=[math.nan, 0.15]))
        assert waiting > 0.5 > other

    def test_without_a_model_words_alone_decide(self) -> None:
        best, part, none = confidences(candidates([[1, 1, 1], [1, 0, 0], [0, 0, 0]]), unrelated=None)
        assert best > part > none == 0

    def test_without_words_meaning_alone_decides(self) -> None:
        best, good, none = confidences(candidates([[], [], []], cosines=[0.7, 0.5, -0.1]))
        assert best > FLOOR
        assert best > good > none == 0

    def test_nothing_asked_is_no_answer(self) -> None:
        assert confidences(candidates([[]]), unrelated=None) == [0.0]

    def test_no_candidates_is_no_error(self) -> None:
        assert len(relevance(candidates([]), [], unrelated=MINILM).confidence) == 0

    def test_what_happened_when_the_question_says_comes_first(self) -> None:
        found = candidates([[1], [1], [1]], cosines=[0.4, 0.4, 0.4])
        then = np.array([False, True, False])
        judged = relevance(found, lexemes(found), unrelated=MINILM, in_period=then)
        assert int(judged.confidence.argmax()) == 1


class TestTurns:
    def test_who_is_asked_about_says_it(self) -> None:
        found = candidates([[0], [0]], cosines=[0.4, 0.4], conversation="talk", openings=["other", "w0"])
        assert int(np.argmax(confidences(found))) == 1

    def test_a_turn_beside_the_right_one_gains_from_it(self) -> None:
        cosines = [0.6, 0.3, 0.3, 0.3, 0.3]
        found = candidates([[1, 1], *[[0, 0]] * 4], cosines=cosines, conversation="talk")
        right, beside, _, far, _ = confidences(found)
        assert right > beside > far

    def test_a_long_message_says_much_beside_the_answer(self) -> None:
        found = candidates([[1], [1]], cosines=[0.4, 0.4], conversation="talk", lengths=[600.0, 50.0])
        assert int(np.argmax(confidences(found))) == 1

    def test_a_message_of_a_conversation_about_the_thing_is_likelier(self) -> None:
        found = replace(
            candidates([[0]] * 4, cosines=[0.3, 0.3, 0.6, 0.1]),
            conversations=["holiday", "work", "holiday", "work"],
            positions=np.array([1, 1, 9, 9]),
        )
        beside, apart, *_ = confidences(found)
        assert beside > apart

    def test_what_the_person_says_comes_before_what_the_assistant_says(self) -> None:
        found = candidates([[1], [1]], cosines=[0.4, 0.4], conversation="talk", openings=["assist", "user"])
        assert int(np.argmax(confidences(found))) == 1

    def test_names_of_speakers_leave_the_question(self) -> None:
        spoken = candidates([[1]] * 4, conversation="talk", openings=["carolin"] * 3 + ["melani"])
        assert named_speakers(spoken, ["carolin", "melani", "ident"]) == {"carolin"}
        assert without_names("What is Caroline's identity?", frozenset({"carolin"})) == "What is identity?"
        assert without_names("Caroline?", frozenset({"carolin"})) == "Caroline?"

    def test_roles_and_facts_have_no_speakers(self) -> None:
        roles = candidates([[1]] * 3, conversation="talk", openings=["user"] * 3)
        facts = candidates([[1]] * 3, openings=["postgr"] * 3)
        assert not named_speakers(roles, ["user"])
        assert not named_speakers(facts, ["postgr"])


@pytest.mark.parametrize(
    ("question", "foreign"),
    [("배포는 언제 하나요", True), ("wann liefern wir aus", False), ("Redis 포트는 뭐야", True), ("", False)],
)
def test_questions_in_another_script_are_foreign(question: str, *, foreign: bool) -> None:
    assert is_foreign(query_lexemes(question)) is foreign


def test_what_says_the_whole_question_is_compared_with_what_says_nearly_as_much() -> None:
    """By words only, too: else it would be far ahead of nothing."""
    apart = np.arange(4) * 10
    whole, part, none = [1, 1, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]
    alone, among = (
        replace(candidates([whole, *[others] * 3], cosines=[0.1] * 4, conversation="talk"), positions=apart)
        for others in (none, part)
    )
    assert confidences(among)[0] < confidences(alone)[0] - 0.1


@pytest.mark.parametrize(("model", "first"), [("all-MiniLM-L6-v2", 0), ("multilingual-e5-small", 1)])
def test_messages_in_another_script_are_judged_by_words_if_the_model_knows_only_english(
    model: str, first: int
) -> None:
    found = candidates([[1, 0], [0, 0]], cosines=[0.05, 0.9], conversation="chat")
    found = replace(found, frequencies={"배포": 1, "언제": 0})
    confidence = relevance(found, ["배포", "언제"], unrelated=MINILM, model=model).confidence
    assert int(confidence.argmax()) == first


def test_a_question_for_an_overview_prefers_the_person_less() -> None:
    found = candidates([[1], [1]], cosines=[0.3, 0.3], conversation="chat", openings=["user", "assist"])
    person, assistant = relevance(found, ["w0"], unrelated=MINILM).confidence
    found = replace(found, counts=np.hstack([found.counts, np.zeros((2, 1), dtype=np.int32)]))
    broad_person, broad_assistant = relevance(
        found, ["w0", *query_lexemes("overview")], unrelated=MINILM
    ).confidence
    assert person > assistant
    assert broad_person <= broad_assistant


def test_a_model_without_weights_of_its_own_gets_the_usual_ones() -> None:
    found = candidates([[1], [0]], cosines=[0.5, 0.2])
    usual = relevance(found, lexemes(found), unrelated=MINILM).confidence
    unknown = relevance(found, lexemes(found), unrelated=MINILM, model="text-embedding-3-small").confidence
    assert unknown.tolist() == usual.tolist()


class TestLead:
    @given(st.lists(st.floats(-10, 10), min_size=1, max_size=8), st.floats(-10, 10))
    def test_the_order_stays(self, evidence: list[float], imagined: float) -> None:
        numbers = np.array(sorted(evidence))
        ahead = numbers + lead(numbers, imagined)
        assert np.all(np.diff(ahead) >= -1e-9)

    def test_the_first_is_ahead_of_the_second_and_the_rest_behind_it(self) -> None:
        assert lead(np.array([1.0, 3.0, 2.0]), 0.0).tolist() == [-2.0, 1.0, -1.0]


def test_every_judgement_is_there_and_uses_known_features() -> None:
    found = candidates([[1]], cosines=[0.4])
    known = features(found, ["w0"], unrelated=MINILM)
    assert judgements().keys() >= {USUAL_MODEL, WORDS}
    for by, learned in judgements().items():
        assert learned.keys() == {TURN, ALONE, FOREIGN} | ({FOREIGN_TURN} if by == WORDS else set())
        for judgement in learned.values():
            assert by != WORDS or "meaning" not in judgement.weights
            assert judgement.weights.keys() <= known.keys()
            assert judgement.slope > 0
            assert judgement.lead > 0
