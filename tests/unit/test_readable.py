"""A conversation in readable lines, and in chunks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindhold.capture.conversation_text import (
    CHUNK_CHARACTERS,
    ENDING_CHARACTERS,
    OVERLAP_CHARACTERS,
    PersonMessage,
    chunks,
    ending,
    is_excluded,
    is_own_call,
    person_messages,
    readable,
    redact_steps,
    without_skipped_turns,
)
from mindhold.ports.transcripts import Role, TranscriptStep


def step(role: Role, text: str, line: int = 1, *, tool: str = "", failed: bool = False) -> TranscriptStep:
    return TranscriptStep(role, text, line, end=0, tool=tool, failed=failed)


@pytest.mark.parametrize(
    ("given_step", "told"),
    [
        (step(Role.USER, "add billing to the app"), "USER: add billing to the app"),
        (step(Role.CLAUDE, "I'll use Stripe."), "CLAUDE: I'll use Stripe."),
        (step(Role.TOOL, "src/lib/stripe.ts", tool="Write"), "TOOL [Write]: src/lib/stripe.ts"),
        (step(Role.RESULT, "ok", tool="Read"), ""),
        (step(Role.RESULT, "ok", tool="Bash"), "TOOL [Bash] passed"),
        (
            step(Role.RESULT, 'The user answered: "Cache?"="No"', tool="AskUserQuestion"),
            'USER answered: The user answered: "Cache?"="No"',
        ),
        (
            step(Role.RESULT, "The user doesn't want to proceed with this tool use.", tool="Bash"),
            "USER refused TOOL [Bash]",
        ),
        (step(Role.RESULT, "Exit code 1", tool="Bash", failed=True), "TOOL [Bash] failed: Exit code 1"),
        (step(Role.USER, "  "), ""),
    ],
)
def test_the_readable_form(given_step: TranscriptStep, told: str) -> None:
    assert readable(given_step) == told


def test_short_conversations_are_one_chunk() -> None:
    steps = [step(Role.USER, "Hello", 1), step(Role.RESULT, "quiet", 2), step(Role.CLAUDE, "Hi", 3)]
    [chunk] = chunks(steps)
    assert chunk.lines == ((1, "USER: Hello"), (3, "CLAUDE: Hi"))
    assert chunk.steps == tuple(steps)


def test_chunks_are_cut_between_messages_and_overlap() -> None:
    steps = [step(Role.USER, f"{number} " + "word " * 40, number) for number in range(1, 100)]
    made = chunks(steps)
    assert len(made) > 2
    whole = {readable(one) for one in steps}
    for before, after in zip(made, made[1:], strict=False):
        shared = [line for line in after.lines if line in before.lines]
        assert shared
        assert sum(len(text) for _, text in shared) <= OVERLAP_CHARACTERS
        assert {text for _, text in after.lines if text in whole}


def test_a_long_message_is_cut_within() -> None:
    made = chunks([step(Role.CLAUDE, "word " * 4_000, 7)])
    assert len(made) == 4
    assert {number for chunk in made for number, _ in chunk.lines} == {7}
    assert all(text.split()[-1] == "word" for chunk in made for _, text in chunk.lines)


@given(st.lists(st.tuples(st.sampled_from(list(Role)), st.text(max_size=900), st.booleans()), max_size=12))
def test_no_chunk_is_too_long_and_every_step_is_in_one(parts: list[tuple[Role, str, bool]]) -> None:
    steps = [
        step(role, text, number, tool="Bash", failed=failed)
        for number, (role, text, failed) in enumerate(parts)
    ]
    made = chunks(steps, size=200, overlap=40)
    assert [one for chunk in made for one in chunk.steps] == steps
    assert all(sum(len(text) + 1 for _, text in chunk.lines) <= 201 for chunk in made)
    said = " ".join(text for chunk in made for _, text in chunk.lines)
    assert all(word in said for one in steps for word in readable(one).split() if len(word) < 40)


def test_chunks_hold_what_the_specification_says() -> None:
    assert (CHUNK_CHARACTERS, OVERLAP_CHARACTERS) == (6_000, 500)


def test_the_person_s_words_are_told_apart() -> None:
    steps = [
        step(Role.USER, "Add a cache", 1),
        step(Role.CLAUDE, "USER answered: nothing", 2),
        replace(step(Role.USER, "look for it", 3), aside=True),
        step(Role.RESULT, '"Which?"="Redis"', 4, tool="AskUserQuestion"),
        step(Role.RESULT, "USER answered: no", 5, tool="Bash", failed=True),
        replace(step(Role.USER, "stop, no Redis", 6), objecting=True),
    ]
    assert person_messages(steps) == [
        PersonMessage(1, "Add a cache"),
        PersonMessage(4, '"Which?"="Redis"'),
        PersonMessage(6, "stop, no Redis", objecting=True),
    ]


def test_the_end_of_a_conversation_is_bounded() -> None:
    steps = [step(Role.CLAUDE, f"{number} " + "word " * 300, number) for number in range(1, 20)]
    lines = ending(steps)
    assert lines[-1][0] == 19
    assert len(lines) > 1
    assert sum(len(text) for _, text in lines) <= ENDING_CHARACTERS
    assert ending([]) == ()


def test_a_marked_turn_and_its_answer_are_left_out() -> None:
    steps = [
        step(Role.USER, "Keep this"),
        step(Role.USER, "[skip-hook] not this"),
        step(Role.CLAUDE, "nor its answer"),
        step(Role.USER, "This again"),
    ]
    kept, skipping = without_skipped_turns(steps, skipping=False)
    assert ([one.text for one in kept], skipping) == (["Keep this", "This again"], False)
    kept, skipping = without_skipped_turns(steps[:3], skipping=False)
    assert ([one.text for one in kept], skipping) == (["Keep this"], True)
    assert without_skipped_turns([replace(steps[2], text="more of it")], skipping=True) == ([], True)


def test_a_mark_in_an_answer_leaves_out_its_whole_turn() -> None:
    steps = [
        step(Role.USER, "Not this"),
        step(Role.CLAUDE, "nor this"),
        step(Role.CLAUDE, "[skip-hook] nor this"),
        step(Role.USER, "But this"),
    ]
    assert without_skipped_turns(steps, skipping=False) == (steps[3:], False)


def test_a_mark_to_a_sub_agent_counts() -> None:
    told = replace(step(Role.USER, "[skip-hook] look for it"), aside=True)
    found = replace(step(Role.CLAUDE, "There it is"), aside=True)
    assert without_skipped_turns([told, found], skipping=False, subagent=True) == ([], True)
    again = replace(told, text="Another task")
    assert without_skipped_turns([told, found, again], skipping=False, subagent=True) == ([again], False)
    asked = step(Role.USER, "Have somebody look")
    assert without_skipped_turns([asked, told, found, again], skipping=False) == ([], True)  # all of one turn


def test_our_own_calls_are_known_by_how_they_begin() -> None:
    ours = step(Role.USER, "Pick out what matters.\n\n[mindhold: own call]")
    assert is_own_call([step(Role.CLAUDE, "Hm")]) is None
    assert is_own_call([ours, step(Role.USER, "x")]) is True
    assert is_own_call([step(Role.USER, "x"), ours]) is False


def test_steps_lose_secrets_and_control_characters() -> None:
    [safe] = redact_steps([step(Role.RESULT, "mail me at ada@example.org\x00\x1b[31m", tool="Bash")])
    assert safe.text == "mail me at [redacted:email]"


def test_secrets_are_taken_out_before_a_text_is_shortened() -> None:
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    for cut in range(150, 200, 7):
        text = "x" * cut + f'"token":"{secret}"' + " and so on" * 100
        [safe] = redact_steps([replace(step(Role.TOOL, text, tool="mcp__a__b"), enough=300)])
        assert len(safe.text) == 300
        assert "ghp_" not in safe.text


@pytest.mark.parametrize(
    ("pattern", "left_out"),
    [
        ("/srv/secret", True),
        ("/srv/secret/", True),
        ("/srv/sec*", True),
        ("/srv", True),
        ("secret", True),
        ("deep", True),
        ("/srv/secre", False),
        ("other", False),
        ("", False),
        ("/SRV/SECRET", True),
        ("srv/secret", True),
        ("./secret/deep", True),
        ("rv/secret", False),
        ("secret/other", False),
    ],
)
def test_folders_are_left_out_with_what_is_in_them(pattern: str, left_out: bool) -> None:
    assert is_excluded("/srv/secret/deep", [pattern]) is left_out


def test_brackets_in_a_pattern_stand_for_themselves() -> None:
    assert is_excluded("/srv/[client] app/src", ["/srv/[client] app"])
    assert is_excluded("/srv/[client] app", ["[client]*"])
    assert not is_excluded("/srv/c app", ["/srv/[client] app"])
