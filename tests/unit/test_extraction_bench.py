"""The labels of the extraction benchmark, how what is kept is held against them, and what the judge learns from them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks.extraction_labels import (
    BAD,
    FALSE,
    GOOD,
    LABELS,
    MARGINAL,
    Conversation,
    Judged,
    Noted,
    Picked,
    Wordings,
    found_files,
    judge,
    mark,
    read_labels,
)
from benchmarks.learn_extraction import (
    WISHES,
    Made,
    Row,
    as_json,
    chances,
    judged_rows,
    learn,
    learn_keep,
    left_out,
    made_sentences,
    order,
    proposed,
    read_conversation,
)
from talks import claude, user, write

from mindhold.capture.candidates import Candidate
from mindhold.capture.cues import CUES
from mindhold.capture.judge import (
    JUDGED_KINDS,
    Weights,
    features,
    from_json,
    judging_with,
    keep_probability,
    learned,
)
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role

FILE = "a.jsonl"
POSTGRES = "Orders are kept in PostgreSQL, not in SQLite."
TESTS = "Never mock the database in tests."
LOOK = "Let me look at the queue of the worker first."


def _candidate(content: str, *, line: int = 10, role: Role = Role.CLAUDE) -> Candidate:
    return Candidate(content=content, line=line, role=role)


CANDIDATES = [_candidate(POSTGRES), _candidate(TESTS, line=20, role=Role.USER), _candidate(LOOK, line=40)]
CONVERSATION = Conversation(
    "ada/shop",
    "a",
    {
        mark(POSTGRES): Judged(10, GOOD, "decision"),
        mark(TESTS): Judged(20, GOOD, "preference"),
        mark(LOOK): Judged(40, BAD),
    },
    (Noted(10, False, frozenset({mark(POSTGRES)})), Noted(20, True, frozenset({mark(TESTS)}))),
)
WORDINGS = Wordings.of(CANDIDATES)


def _picked(line: int, content: str) -> Picked:
    return Picked(FILE, line, "decision", content)


def test_many_conversations_of_many_projects_are_judged() -> None:
    labels = read_labels()
    judged = [judged for conversation in labels for judged in conversation.judged.values()]
    assert len(labels) >= 30
    assert len({conversation.repository for conversation in labels}) >= 6
    assert len(judged) >= 1_500
    assert sum(one.label == GOOD for one in judged) >= 500
    assert sum(noted.wish for conversation in labels for noted in conversation.noted) >= 10
    assert len({conversation.file for conversation in labels}) == len(labels)


def test_labels_are_marks_and_lines_without_a_word_of_a_conversation() -> None:
    for file in LABELS.glob("*.json"):
        content = json.loads(file.read_text(encoding="utf-8"))
        assert set(content) <= {"repository", "folder", "conversations"}, file
        for conversation in content["conversations"]:
            assert set(conversation) == {"file", "candidates", "noted"}, file
            for line, own, label, *kind in conversation["candidates"]:
                assert line >= 1, file
                assert re.fullmatch(r"[0-9a-f]{10}", own), file
                assert label in (GOOD, MARGINAL, BAD, FALSE), file
                assert [Kind(each) in JUDGED_KINDS for each in kind] == [True] * (label == GOOD), file
            for noted in conversation["noted"]:
                assert set(noted) == {"line", "wish", "marks"}, file
                assert all(re.fullmatch(r"[0-9a-f]{10}", own) for own in noted["marks"]), file


def test_wishes_are_made_in_every_language_of_the_cues() -> None:
    content = json.loads(WISHES.read_text(encoding="utf-8"))
    for group in ("wishes", "momentary"):
        assert set(content[group]) == {"en", "de", "fr", "es", "ru", "ja", "zh", "ko"}
    assert CUES


def test_a_mark_survives_another_punctuation_and_other_small_words() -> None:
    assert mark("The orders are kept in PostgreSQL.") == mark("Orders: kept in PostgreSQL")
    assert mark("Orders are kept in SQLite.") != mark("Orders are kept in PostgreSQL.")
    assert mark("...") != mark("!!!")


def test_the_same_words_are_the_same_candidate_on_whatever_line() -> None:
    [verdict] = judge([_picked(90, f"{POSTGRES[:-1]}!")], CONVERSATION, WORDINGS)
    assert verdict.label == GOOD
    assert verdict.found == {0}


def test_near_its_line_a_candidate_is_known_by_most_of_its_words() -> None:
    shorter = "Orders are kept in PostgreSQL"
    near, far = judge([_picked(11, shorter), _picked(90, shorter)], CONVERSATION, WORDINGS)
    assert near.label == GOOD
    assert far.label in (GOOD, None)
    [other] = judge([_picked(11, "The invoice is sent by the worker")], CONVERSATION, WORDINGS)
    assert other.label is None
    assert other.found == frozenset()


def test_what_says_most_of_a_noted_thing_finds_it() -> None:
    longer = (
        "Never mock the database in tests, start a container with real tables, seeded rows and users instead."
    )
    [verdict] = judge([_picked(60, longer)], CONVERSATION, WORDINGS)
    assert verdict.label is None
    assert verdict.found == {1}
    [bad] = judge([_picked(40, LOOK)], CONVERSATION, WORDINGS)
    assert (bad.label, bad.found) == (BAD, frozenset())


def test_conversations_are_found_by_name_in_any_folder(tmp_path: Path) -> None:
    write(tmp_path / "data" / "transcripts-2" / "a.jsonl", user("hello"))
    write(tmp_path / "others" / "shop" / "b.jsonl", user("hello"))
    found = found_files(tmp_path / "data", [tmp_path / "others"])
    assert {name: file.parent.name for name, file in found.items()} == {"a": "transcripts-2", "b": "shop"}


def test_rows_are_the_judged_candidates_of_a_conversation(tmp_path: Path) -> None:
    file = write(tmp_path / FILE, user(TESTS), claude(POSTGRES), user("thanks"))
    rows = judged_rows(CONVERSATION, proposed(*read_conversation(file)))
    assert {row.candidate.content: row.kind for row in rows}[TESTS] == "preference"
    assert all(row.label == GOOD and row.known == features(row.candidate) for row in rows)


def _rows() -> list[Row]:
    """Two repositories where what is about databases is good."""
    rows = []
    for repository in ("ada/shop", "bo/mail"):
        for number in range(20):
            good = number % 2 == 0
            content = (
                f"The table `t{number}` must never be empty." if good else f"I am looking at it now {number}"
            )
            candidate = _candidate(content, line=number + 1, role=Role.USER if number % 3 else Role.CLAUDE)
            rows.append(
                Row(
                    repository,
                    candidate,
                    GOOD if good else BAD,
                    "decision" if good else "",
                    features(candidate),
                )
            )
    return rows


def test_what_other_repositories_teach_tells_good_from_bad() -> None:
    rows = _rows()
    chance = left_out(rows, learn_keep)
    assert [one > 0.5 for one in chance] == [row.label == GOOD for row in rows]


def test_learned_weights_are_what_the_package_reads() -> None:
    rows = _rows()
    made = [Made("en", number == 0, row.candidate.content, row.known) for number, row in enumerate(rows[:4])]
    weights = learn(rows, rows[:4], made)
    assert set(weights) == {"keep", "wish", *(kind.value for kind in JUDGED_KINDS)} < set(learned())
    weights["wish by a model"] = Weights({}, 1.0, (0.25, -3.0))
    read = from_json(json.loads(as_json(weights)))
    assert read["wish by a model"] == weights["wish by a model"]
    [exact], [rounded] = (chances(each["keep"], [rows[0].known]).tolist() for each in (weights, read))
    assert rounded == pytest.approx(exact, abs=0.02)
    shipped = keep_probability(rows[0].known)
    with judging_with(read):
        assert keep_probability(rows[0].known) == pytest.approx(rounded)
    assert keep_probability(rows[0].known) == shipped


def test_every_shipped_weight_is_of_a_feature() -> None:
    known = features(CANDIDATES[0])
    for weights in learned().values():
        assert set(weights.weights) <= set(known)


def test_the_order_is_the_share_of_pairs_in_the_right_order() -> None:
    assert order(np.array([0.9, 0.1, 0.5]), np.array([True, False, False])) == 1.0
    assert order(np.array([0.5, 0.5]), np.array([True, False])) == 0.5


def test_made_sentences_are_known_by_the_same_features() -> None:
    made = made_sentences()
    assert len(made) >= 200
    assert set(made[0].known) == set(features(CANDIDATES[0]))
