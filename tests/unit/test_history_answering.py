"""Which words of a conversation are shown as the answer."""

from __future__ import annotations

import pytest

from mindhold.history.excerpts import undecorated_line
from mindhold.history.hits import answer_statement, asks_how
from mindhold.model.lexemes import query_lexemes
from mindhold.ports.history import IndexedStep
from mindhold.ports.transcripts import Role

CHARGED = [
    IndexedStep(Role.USER, 1, "The webhook from Stripe is delivered twice, customers are charged two times"),
    IndexedStep(Role.CLAUDE, 2, "I'll search for the handler of the webhook."),
    IndexedStep(Role.RESULT, 3, "handlers/stripe.py: def webhook(twice=False): charged = 2", tool="Grep"),
    IndexedStep(
        Role.CLAUDE, 4, "The handler has no key. I store event.id in a table; that fixes the double charge."
    ),
]
FLAT = [IndexedStep(Role.CLAUDE, 9, "All done, I replaced the tyre because it was flat.")]


def line(question: str, *passages: list[IndexedStep]) -> int:
    found = answer_statement(passages, query_lexemes(question), how=asks_how(question))
    assert found is not None
    return found.said.line


def test_what_came_of_it_goes_before_what_was_asked() -> None:
    assert line("Stripe webhook charged twice", CHARGED) == 4
    assert line("why was Stripe charged twice?", CHARGED[:3], CHARGED[3:]) == 4


def test_a_statement_without_a_word_of_the_question_is_no_answer_unless_it_is_asked_how() -> None:
    assert line("delivered webhook", CHARGED[:3], FLAT) == 1
    assert line("how was the webhook fixed?", CHARGED[:3], FLAT) == 9


def test_what_tools_gave_counts_least_and_of_nothing_there_is_no_answer() -> None:
    assert line("handler webhook", CHARGED[1:3]) == 2
    assert answer_statement([[]], ["webhook"], how=True) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("## Fixed\n\n- **Nil check** at `main.go`\n```go\nx := 1\n```", "Fixed Nil check at main.go x := 1"),
        ("  • signing      binary=dist/a\n  ⨯ failed", "signing binary=dist/a failed"),
        ("See [the file](src/a.py) and f(**kwargs)", "See the file and f(**kwargs)"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a b 1 2"),
        ("Bash: cat a | grep b", "Bash: cat a | grep b"),
    ],
)
def test_an_excerpt_is_one_line_without_decoration(text: str, line: str) -> None:
    assert undecorated_line(text) == line
