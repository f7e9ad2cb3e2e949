"""Passages: what is found as one, in order, nothing twice, nothing cut but where it must be."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mindhold.history.passages import LENGTH, LONGEST, LONGEST_ASKED, head_of, passages_of
from mindhold.model.lexemes import LexemeCache, lexemes
from mindhold.ports.history import Passage
from mindhold.ports.transcripts import Role, TranscriptStep

WHEN = datetime(2026, 3, 2, 10, tzinfo=UTC)
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def step(role: Role, text: str, line: int = 1, *, tool: str = "", failed: bool = False) -> TranscriptStep:
    return TranscriptStep(role, text, line, 0, WHEN, tool=tool, failed=failed)


def made(*steps: TranscriptStep, redacting: bool = True) -> list[Passage]:
    return passages_of(steps, words=LexemeCache(), redacting=redacting)


def texts(passages: list[Passage]) -> list[list[str]]:
    return [[one.text for one in passage.utterances] for passage in passages]


def test_a_prompt_begins_a_passage_and_what_follows_belongs_to_it() -> None:
    passages = made(
        step(Role.CLAUDE, "Ready."),
        step(Role.USER, "Fix the gate.", 2),
        step(Role.TOOL, "gate.py", 3, tool="Edit"),
        step(Role.CLAUDE, "Fixed.", 4),
        step(Role.USER, "And the fence.", 5),
    )
    assert texts(passages) == [["Ready."], ["Fix the gate.", "gate.py", "Fixed."], ["And the fence."]]
    assert [one.line for one in passages[1].utterances] == [2, 3, 4]
    assert passages[1].utterances[1].tool == "Edit"
    assert passages[0].utterances[0].timestamp == WHEN


def test_prompts_that_follow_one_another_stay_together() -> None:
    assert texts(made(step(Role.USER, "Hello"), step(Role.USER, "Fix the gate."))) == [
        ["Hello", "Fix the gate."]
    ]


def test_long_turns_are_cut_between_what_was_said() -> None:
    said = [step(Role.CLAUDE, f"{number} " + "word " * 150, number) for number in range(10)]
    passages = made(step(Role.USER, "Tell me all."), *said)
    assert all(sum(len(one.text) for one in passage.utterances) <= LENGTH for passage in passages)
    assert [one.line for passage in passages for one in passage.utterances] == [1, *range(10)]


def test_one_that_is_too_long_is_cut_at_words() -> None:
    text = " ".join(f"word{number}" for number in range(1_500))
    passages = made(step(Role.CLAUDE, text))
    parts = [one.text for passage in passages for one in passage.utterances]
    assert " ".join(parts) == text
    assert all(len(part) <= LENGTH for part in parts)
    assert {one.line for passage in passages for one in passage.utterances} == {1}


def test_lexemes_are_those_of_the_text() -> None:
    [passage] = made(step(Role.USER, "Die Tür klemmt"), step(Role.CLAUDE, "문이 걸립니다, port 4711"))
    expected = [lexeme for one in passage.utterances for lexeme in lexemes(one.text)]
    assert passage.lexemes.split() == expected


def test_names_of_foreign_tools_are_found_and_those_of_common_ones_are_not() -> None:
    [passage] = made(
        step(Role.TOOL, "x", tool="mcp__tracker__create_issue"), step(Role.TOOL, "y", tool="Read")
    )
    assert "tracker" in passage.lexemes.split()
    assert "read" not in passage.lexemes.split()


@pytest.mark.parametrize("role", list(Role))
def test_secrets_are_taken_out_before_anything_is_cut(role: Role) -> None:
    for room in (100, 280, 950, 1_950):
        [*passages] = made(
            step(role, "x " * (room // 2) + f"token {TOKEN} and so on " + "y " * 9_000, tool="Bash")
        )
        said = " ".join(one.text for passage in passages for one in passage.utterances)
        assert TOKEN[:12] not in said
        assert TOKEN[4:20] not in said


def test_nothing_is_taken_out_where_nobody_wants_it() -> None:
    assert TOKEN in made(step(Role.USER, f"token {TOKEN}"), redacting=False)[0].utterances[0].text


@pytest.mark.parametrize(
    ("output", "failed", "telling"),
    [
        (
            "Traceback (most recent call last):\n" + "  File x\n" * 99 + "KeyError: 'weight'",
            True,
            "KeyError: 'weight'",
        ),
        (
            "collected 9 items\n" + ".\n" * 400 + "E   AssertionError: 3 != 4\nshort summary",
            True,
            "AssertionError: 3 != 4",
        ),
        (
            "> build\n" + "compiling\n" * 99 + "src/x.ts: error: no such name\nmore",
            True,
            "error: no such name",
        ),
        (
            "Cloning\n" + "remote: x\n" * 99 + "fatal: repository not found",
            False,
            "fatal: repository not found",
        ),
    ],
)
def test_a_digest_has_the_beginning_and_the_telling_line(output: str, failed: bool, telling: str) -> None:
    [passage] = made(step(Role.RESULT, output, tool="Bash", failed=failed))
    text = passage.utterances[0].text
    assert text.startswith(output.split("\n")[0])
    assert telling in text
    assert len(text) <= LONGEST
    assert "\n" not in text


def test_of_a_file_that_was_read_only_the_beginning_is_kept() -> None:
    [passage] = made(step(Role.RESULT, "     1→import os\n     2→\n     3→" + "x = 1\n" * 500, tool="Read"))
    assert passage.utterances[0].text.startswith("import os")
    assert len(passage.utterances[0].text) <= 160


def test_what_a_tool_was_given_is_bounded_and_an_empty_result_is_nothing() -> None:
    passages = made(step(Role.TOOL, "echo " * 2_000, tool="Bash"), step(Role.RESULT, "  \n", tool="Bash"))
    assert len(passages[0].utterances) == 1
    assert len(passages[0].utterances[0].text) <= LONGEST_ASKED


def test_a_head_has_title_summary_and_notes() -> None:
    head = head_of("The gate", "It was oiled.", "# The gate\nHinges and all.", LexemeCache())
    assert head.head
    assert [one.text for one in head.utterances] == [
        "The gate",
        "It was oiled.",
        "# The gate\nHinges and all.",
    ]
    assert "hing" in head.lexemes.split()
    assert [one.text for one in head_of("The gate", "The gate", "", LexemeCache()).utterances] == ["The gate"]
