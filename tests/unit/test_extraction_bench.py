"""The labels of the extraction benchmark, and how what was picked out is held against them."""

from __future__ import annotations

from collections import Counter

from benchmarks.labels import NONE, Label, Picked, judge, mentioned, read_labels

from mindhold.settings.sections import KINDS

FILE = "a.jsonl"
POSTGRES = Label(FILE, (10, 40), ("decision", "architecture"), ("postgres|postgresql", "queue"))
TIMEOUT = Label(FILE, (12,), ("error",), ("timeout", "45"))
CHATTER = Label(FILE, (20,), (NONE,), ("queue", "look"))
LABELS = [POSTGRES, TIMEOUT, CHATTER]


def _picked(line: int, kind: str, content: str, *, file: str = FILE) -> Picked:
    return Picked(file, line, kind, content)


def test_there_are_enough_labels_from_many_conversations() -> None:
    labels = read_labels()
    good = [label for label in labels if label.kind != NONE]
    assert len(good) >= 150
    assert len(labels) - len(good) >= 40
    assert len({label.file for label in good}) >= 10
    assert max(Counter(label.file for label in good).values()) <= len(good) / 3


def test_labels_have_known_kinds_lines_and_a_few_words_only() -> None:
    for label in read_labels():
        assert label.file.endswith(".jsonl"), label
        assert all(line >= 1 for line in label.lines), label
        assert len(set(label.lines)) == len(label.lines), label
        if label.kind == NONE:
            assert label.kinds == (NONE,), label
        else:
            assert set(label.kinds) <= set(KINDS), label
            assert len(set(label.kinds)) == len(label.kinds), label
        assert 1 <= len(label.about) <= 4, label
        for words in label.about:
            assert words == words.casefold(), label
            assert all(0 < len(word) <= 50 and len(word.split()) <= 3 for word in words.split("|")), label


def test_nothing_is_labelled_twice() -> None:
    seen = Counter((label.file, label.lines[0], label.kind, label.about) for label in read_labels())
    assert [label for label, times in seen.items() if times > 1] == []


def test_words_are_found_from_their_beginning_on() -> None:
    assert mentioned(("conflict", "main"), "Two CONFLICTS when merging origin/main") == 1.0
    assert mentioned(("conflict", "main"), "domain") == 0.0
    assert mentioned(("45",), "timeout: 45m") == 1.0
    assert mentioned(("45",), "450 seconds") == 0.0
    assert mentioned(("git add|stage", "index"), "it never stages files") == 0.5


def test_right_near_the_line_with_half_of_the_words() -> None:
    [verdict] = judge([_picked(13, "decision", "The queue is kept in one table")], [POSTGRES])
    assert verdict.right
    assert verdict.found == (0,)


def test_right_anywhere_with_all_of_the_words() -> None:
    far = _picked(90, "decision", "PostgreSQL holds the queue")
    less = _picked(90, "decision", "PostgreSQL it is")
    assert [verdict.right for verdict in judge([far, less], LABELS)] == [True, False]


def test_another_kind_is_known_and_wrong() -> None:
    [also, other] = judge(
        [_picked(40, "architecture", "Postgres queue"), _picked(40, "preference", "Postgres queue")], LABELS
    )
    assert also.right
    assert not other.right
    assert other.label == POSTGRES
    assert other.found == ()


def test_another_file_is_wrong() -> None:
    [verdict] = judge([_picked(10, "decision", "Postgres queue", file="b.jsonl")], LABELS)
    assert verdict.label is None


def test_a_tempting_line_is_wrong_even_if_the_words_stand_elsewhere() -> None:
    [verdict] = judge([_picked(20, "decision", "Let me look at the Postgres queue")], LABELS)
    assert not verdict.right
    assert verdict.label == CHATTER


def test_on_a_line_with_both_the_one_that_is_meant_counts() -> None:
    near = Label(FILE, (21,), ("decision",), ("queue", "postgres"))
    [verdict] = judge([_picked(20, "decision", "Let me look at the queue")], [near, CHATTER])
    assert verdict.label == CHATTER
    [verdict] = judge([_picked(20, "decision", "The queue is in Postgres")], [near, CHATTER])
    assert verdict.right


def test_what_stands_near_says_which_kind_it_is() -> None:
    done = Label(FILE, (70,), ("progress",), ("queue", "added"))
    [verdict] = judge([_picked(70, "decision", "Added the Postgres queue")], [POSTGRES, done])
    assert not verdict.right
    assert verdict.label == done


def test_one_text_may_say_what_two_labels_want() -> None:
    [verdict] = judge([_picked(11, "decision", "Postgres queue, timeout of 45 seconds")], LABELS)
    assert verdict.right
    assert verdict.label == POSTGRES
    [verdict] = judge([_picked(11, "error", "Postgres queue, timeout of 45 seconds")], LABELS)
    assert verdict.found == (1,)
