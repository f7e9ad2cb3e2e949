"""`mindhold ask`: an answer from memory, with what it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import command, with_desk
from mindhold.interfaces.cli.output import one_line
from mindhold.interfaces.cli.remembering import text_or_stdin
from mindhold.interfaces.cli.session import Desk

if TYPE_CHECKING:
    from mindhold.operations.knowing import AskResult

LONGEST_SOURCE = 160


@command(
    "ask",
    examples=[
        'mindhold ask "how does billing work?"',
        'mindhold ask "why did we leave MongoDB?" --scope webshop --json',
        "mindhold ask - < question.txt",
    ],
)
@click.argument("question", nargs=-1, required=True)
@click.option("--scope", metavar="NAME", help="In this scope, the ones above it and Global.")
@click.option("--limit", "-n", type=int, metavar="N", help="At most how many memories to consult (30).")
@with_desk
async def ask(desk: Desk, /, *, question: tuple[str, ...], **given: Any) -> None:
    """Answer a question from memory, with sources: in remembered sentences, or in a model's words if you configured one."""
    desk.running.warm()
    result: AskResult = await desk.run("ask", question=text_or_stdin(desk, question), **given)
    console = desk.console
    if console.json:
        console.document(result)
        return
    for line in console.paragraphs(result.answer, indent=0):
        console.line(line)
    for number, source in enumerate(result.citations, 1):
        told = f"[{number}] {source.id} · {source.kind} · {one_line(source.content, most=LONGEST_SOURCE)}"
        console.line(console.style(told, dim=True))
    if result.model:
        console.note(f"In the words of {result.model}.")
    console.note(result.notice)
