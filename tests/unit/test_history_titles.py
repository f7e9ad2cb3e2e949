"""Titles and summaries that are made of a conversation's own words."""

from __future__ import annotations

import pytest

from mindhold.history.passages import (
    LONGEST_SUMMARY,
    LONGEST_TITLE,
    MOST_LOOKED_AT,
    fallback_title,
    gist_of,
    heading_of,
    made_summary,
    made_title,
)
from mindhold.ports.history import IndexedStep, Passage
from mindhold.ports.transcripts import Role


def passage(*said: tuple[Role, str]) -> Passage:
    return Passage(tuple(IndexedStep(role, line, text) for line, (role, text) in enumerate(said, 1)), "")


@pytest.mark.parametrize(
    ("prompts", "title"),
    [
        (["Fix the login page. It shows a blank screen."], "Fix the login page"),
        (["hello", "ok", "why does the parcel service answer 403?"], "Why does the parcel service answer 403?"),
        (["Hi Claude, please rename the repository"], "Please rename the repository"),
        (["/clear", "/model opus", "move the cache to Redis"], "Move the cache to Redis"),
        (["git status", "npm run build", "the build takes ten minutes, make it quicker"],
         "The build takes ten minutes, make it quicker"),
        (["```\nTraceback\nKeyError: 1\n```\nwhat is wrong here with the ledger?"], "What is wrong here with the ledger?"),
        (["@src/app.py explain how the routes are registered"], "Explain how the routes are registered"),
        (["**Goal:** add a dark mode"], "Goal: add a dark mode"),
        (["Guten Morgen! Bitte prüfe die Rechnungen vom März."], "Bitte prüfe die Rechnungen vom März"),
        (["안녕하세요. 결제 오류를 고쳐 주세요."], "결제 오류를 고쳐 주세요"),
        (["你好。请修复登录页面的错误。"], "请修复登录页面的错误。"),
        (["thanks!", "yes", "/exit"], ""),
        ([], ""),
    ],
)  # fmt: skip
def test_the_first_request_is_the_title(prompts: list[str], title: str) -> None:
    assert made_title(prompts) == title


def test_a_long_request_is_cut_at_a_word() -> None:
    title = made_title(["please " + "reorganise the warehouse " * 20])
    assert len(title) <= LONGEST_TITLE
    assert title.endswith(("the…", "warehouse…", "reorganise…"))


def test_without_a_request_what_was_said_or_done_is_the_title() -> None:
    assert (
        fallback_title([passage((Role.USER, "ok"), (Role.CLAUDE, "The tests pass now."))])
        == "The tests pass now"
    )
    done = Passage((IndexedStep(Role.TOOL, 1, "docs/gate.md", tool="Write"),), "")
    assert fallback_title([done]) == "Write docs/gate.md"
    assert fallback_title([]) == ""


def test_a_summary_has_the_request_and_what_came_of_it_in_order() -> None:
    said = [
        passage(
            (Role.USER, "hello"),
            (Role.CLAUDE, "Hi! How can I help you today?"),
            (Role.USER, "The checkout rejects valid vouchers. Find out why."),
            (Role.CLAUDE, "Let me look at the voucher code."),
            (Role.TOOL, "voucher.py"),
            (
                Role.CLAUDE,
                "The voucher check compares dates in local time. I fixed it: dates are compared in UTC now.",
            ),
            (Role.USER, "thanks"),
        )
    ]
    summary = made_summary(said)
    assert summary.startswith("The checkout rejects valid vouchers.")
    assert "local time" in summary
    assert "Let me look" not in summary
    assert "help you" not in summary
    assert len(summary) <= LONGEST_SUMMARY


def test_a_summary_does_not_say_things_twice_and_is_bounded() -> None:
    same = [
        passage(
            (Role.USER, "Paint the garden gate green."),
            (Role.CLAUDE, "The garden gate is painted green now."),
        )
    ]
    assert made_summary(same * 50).count("garden gate") <= 2
    long = [passage((Role.CLAUDE, " ".join(f"Sentence {n} tells of ship {n}." for n in range(900))))]
    assert 0 < len(made_summary(long)) <= LONGEST_SUMMARY


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (
            "Der Gutschein wird abgelehnt, weil das Datum in Ortszeit verglichen wird. Das ist behoben.",
            "Gutschein",
        ),
        ("쿠폰 날짜를 현지 시간으로 비교하는 것이 원인이었습니다. 이제 UTC로 비교합니다.", "쿠폰"),
    ],
)
def test_other_languages_are_summed_up_too(text: str, part: str) -> None:
    assert part in made_summary([passage((Role.USER, "hallo"), (Role.CLAUDE, text))])


def test_lines_of_a_pasted_log_are_no_sentences() -> None:
    log = "  • sign the macOS binaries\n    • signing               binary=dist/cli/entire\n    • this might take a while file=a/b.go\n  ⨯ it failed"
    said = (
        IndexedStep(Role.USER, 1, f"I tried to make a release and did run into this issue:{log}"),
        IndexedStep(Role.CLAUDE, 2, "I increased the timeout of the notarization to 45 minutes."),
    )
    summary = made_summary([Passage(said, "")])
    assert summary == (
        "I tried to make a release and did run into this issue. I increased the timeout of the notarization to 45 minutes."
    )


def test_of_nothing_there_is_no_summary() -> None:
    assert made_summary([]) == ""
    assert made_summary([passage((Role.USER, "ok"), (Role.TOOL, "x"))]) == ""


@pytest.mark.parametrize(
    ("note", "heading", "gist"),
    [
        ("# Gate repair\n\nThe hinge was oiled.\n## More\nAnd painted.", "Gate repair", "The hinge was oiled. And painted"),
        ("# Session Title\n_A short title_\n\nGate repair\n\n# Current State\n_What is done_\nThe hinge is oiled.",
         "Gate repair", "The hinge is oiled"),
        ("The hinge was oiled.", "", "The hinge was oiled"),
        ("", "", ""),
    ],
)  # fmt: skip
def test_notes_have_a_heading_and_a_gist(note: str, heading: str, gist: str) -> None:
    assert heading_of(note) == heading
    assert gist_of(note, heading) == gist


def test_of_a_very_long_conversation_only_so_much_is_looked_at() -> None:
    noise = ["x1 y2 z3 4711 0815."] * MOST_LOOKED_AT
    assert made_title([*noise, "Fix the garden gate."]) == ""
    assert made_title([*noise[1:], "Fix the garden gate."]) == "Fix the garden gate"
    said = [IndexedStep(Role.CLAUDE, number, text) for number, text in enumerate([*noise, *noise])]
    telling = IndexedStep(Role.CLAUDE, 9, "The garden gate was fixed with a new hinge.")
    half = len(noise)
    middle = Passage((*said[:half], telling, *said[half:]), "")
    assert made_summary([middle]) == ""
    assert "hinge" in made_summary([Passage((*said, telling), "")])
