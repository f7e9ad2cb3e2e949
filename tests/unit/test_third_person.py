"""What one person said, as a team's document says it."""

from __future__ import annotations

import pytest

from mindhold.text.third_person import in_third_person


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("I don't want to sign my commits anymore", "Wish: don't sign the commits anymore"),
        ("I want you to run the tests first", "Wish: run the tests first"),
        ("You're supposed to follow PYTHON.md", "Wish: follow PYTHON.md"),
        ("Can you stop adding comments everywhere?", "Wish: stop adding comments everywhere"),
        ("I prefer pnpm over npm.", "Preferred: pnpm over npm."),
        ("I hate long functions", "Not wanted: long functions"),
        ("From now on, I want you to use uv", "Wish: use uv (from now on)"),
        ("Next time, let me commit", "Next time, let the team commit"),
        ("Ask me before you push", "Ask before you push"),
        ("The person wants short answers", "The team wants short answers"),
        (
            "I decided to use `my_var` because I/O is slow",
            "The team decided to use `my_var` because I/O is slow",
        ),
        ("I use zsh and I have two monitors", "The team uses zsh and has two monitors"),
        ("나는 커밋에 서명하고 싶지 않아", "커밋에 서명하고 싶지 않아"),
        ("사용자는 짧은 답변을 원한다", "팀은 짧은 답변을 원한다"),
        ("내 커밋에 서명하지 마", "커밋에 서명하지 마"),
    ],
)
def test_what_a_person_said_of_themselves_is_for_everybody(said: str, written: str) -> None:
    assert in_third_person(said) == written
    assert in_third_person(written) == written


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Do not commit by yourself",
        "We deploy with Helm",
        "Phase I is done",
        "The user clicks on login and is redirected.",
        'The button says "I agree", my friend `me` too',
        "Ne me demande pas de signer les commits",
        "Ich möchte nicht, dass du my_var umbenennst",
        "Я не хочу подписывать коммиты",
        "コミットに署名しないで",
    ],
)
def test_what_is_said_of_nobody_or_in_another_language_stays(text: str) -> None:
    expected = text.replace(", my friend", ", the friend")
    assert in_third_person(text) == expected
