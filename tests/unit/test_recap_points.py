"""The pure parts of summaries: points, places, what a model may say."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mindhold.conversations.recap_creation import uncovered_ranges
from mindhold.conversations.recap_text import (
    Point,
    PointSort,
    choose_points,
    parse_recap,
    parse_recap_answer,
    render_recap,
)
from mindhold.model.tokens import count_tokens
from mindhold.text.faithfulness import collect_terms, uses_only

POINTS = [
    Point(PointSort.SAID, "The harbour has nine piers.", who="user", weight=1.0),
    Point(PointSort.DECIDED, "We chose PostgreSQL 16.", who="user", weight=3.0),
    Point(PointSort.OPEN, "Who paints the lighthouse?", who="assistant", weight=2.0),
    Point(PointSort.SAID, "Nine piers has the harbour.", who="assistant", weight=0.5),
]


def test_what_is_written_is_read_again() -> None:
    text = render_recap("Conversation of today.", POINTS[:3], narrative="It was about the harbour.")
    story, points = parse_recap(text)
    assert story == "It was about the harbour."
    assert [(one.sort, one.text) for one in points] == [
        (PointSort.DECIDED, "user: We chose PostgreSQL 16."),
        (PointSort.SAID, "user: The harbour has nine piers."),
        (PointSort.OPEN, "assistant: Who paints the lighthouse?"),
    ]
    assert parse_recap("Heading.\nSomebody's own words.\n- with a list") == (
        "Somebody's own words.\n- with a list",
        [],
    )


def test_the_weightiest_are_told_once_in_their_order() -> None:
    assert choose_points(POINTS, room=1_000) == POINTS[:3]
    room = count_tokens(f"\n{PointSort.DECIDED}\n{POINTS[1].line}") + 2
    assert choose_points(POINTS, room=room) == [POINTS[1]]
    assert choose_points(POINTS, room=0) == []


@given(some.integers(0, 400))
def test_what_is_chosen_fits(room: int) -> None:
    kept = choose_points(POINTS * 3, room=room)
    assert count_tokens(render_recap("", kept)) <= room + 1


def test_gaps_are_stretches_that_nothing_covers() -> None:
    assert uncovered_ranges([], last=-1, most=10) == []
    assert uncovered_ranges([], last=24, most=10) == [(0, 9), (10, 19), (20, 24)]
    assert uncovered_ranges([(0, 9), (20, 29)], last=29, most=10) == [(10, 19)]
    assert uncovered_ranges([(0, 9), (10, 13)], last=30, most=10) == [(14, 23), (24, 30)]
    assert uncovered_ranges([(0, 9), (5, 14)], last=14, most=10) == []


@given(
    some.lists(some.tuples(some.integers(0, 60), some.integers(0, 20)), max_size=6),
    some.integers(-1, 80),
    some.integers(1, 30),
)
def test_with_its_gaps_everything_is_covered(parts: list[tuple[int, int]], last: int, most: int) -> None:
    covered = [(first, first + length) for first, length in parts]
    found = uncovered_ranges(covered, last=last, most=most)
    places = {place for first, end in covered for place in range(first, end + 1)}
    missing = [place for first, end in found for place in range(first, end + 1)]
    assert sorted(missing) == [place for place in range(last + 1) if place not in places]
    assert all(end - first + 1 <= most for first, end in found)


def test_names_and_values_must_have_been_said() -> None:
    said = collect_terms(["We chose PostgreSQL 16 in Hamburg.", "See docs/guide.md."])
    assert uses_only("In Hamburg they run PostgreSQL 16, says docs/guide.md.", said)
    for made_up in ("They run PostgreSQL 17.", "They chose it in Bremen.", "See docs/other.md."):
        assert not uses_only(made_up, said)


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ('{"summary": "Fine.", "decided": []}', ""),
        ('```json\n{"summary": ""}\n```', ""),
        ("Fine.", "no JSON"),
        ("[]", "no object"),
        ('{"story": "Fine."}', "no object"),
        ('{"summary": ["Fine."]}', "`summary`"),
        (json.dumps({"summary": "x" * 2_000}), "`summary`"),
        ('{"open": "Fine."}', "`open`"),
        ('{"facts": [1]}', "`facts`"),
    ],
)
def test_an_answer_is_what_was_asked_for_or_nothing(answer: str, wrong: str) -> None:
    value, complaint = parse_recap_answer(answer)
    assert (wrong in complaint) if wrong else (not complaint and isinstance(value, dict))
