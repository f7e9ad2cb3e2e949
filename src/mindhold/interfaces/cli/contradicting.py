"""`mindhold contradictions`: memories that deny each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mindhold.interfaces.cli.command import Group, global_options, with_desk
from mindhold.interfaces.cli.output import local_time, neutral, one_line
from mindhold.interfaces.cli.session import Desk

if TYPE_CHECKING:
    from mindhold.operations.contradicting import (
        ContradictionResult,
        ContradictionView,
        ListContradictionsResult,
    )


@click.group(
    "contradictions",
    cls=Group,
    params=global_options(shown=False),
    invoke_without_command=True,
    examples=["mindhold contradictions", "mindhold contradictions undo 3f2a"],
)
@click.pass_context
def contradictions(ctx: click.Context) -> int | None:
    """Memories that deny each other: found by `mindhold consolidate`, shown by recall, and yours to judge.

    Without a command they are listed.
    """
    if ctx.invoked_subcommand is not None:
        return None
    status: int | None = ctx.invoke(list_contradictions)
    return status


@contradictions.command(
    "list", examples=["mindhold contradictions list", "mindhold contradictions list --json"]
)
@click.option("--limit", type=int, help="How many of each (50).")
@with_desk
async def list_contradictions(desk: Desk, /, *, limit: int | None) -> None:
    """What was found, and what waits for you or a model to judge it."""
    result: ListContradictionsResult = await desk.run("list_contradictions", limit=limit)
    if desk.console.json:
        desk.console.document(result)
        return
    _section(desk, "Found", result.found, "`mindhold contradictions undo ID` takes one back.")
    _section(
        desk,
        "Doubtful",
        result.pending,
        "`mindhold contradictions confirm ID` or `dismiss ID` settles one.",
    )
    if not result.found and not result.pending:
        desk.console.line("None is known. `mindhold consolidate` looks for them.")


@contradictions.command("undo", examples=["mindhold contradictions undo 3f2a"])
@click.argument("found_id", metavar="ID")
@with_desk
async def undo(desk: Desk, /, *, found_id: str) -> None:
    """Take a found one back: both memories stand as before, and it isn't found again."""
    await _settled(desk, "undo_contradiction", found_id, "Taken back. Both stand:")


@contradictions.command("confirm", examples=["mindhold contradictions confirm 3f2a"])
@click.argument("found_id", metavar="ID")
@with_desk
async def confirm(desk: Desk, /, *, found_id: str) -> None:
    """Say that a doubtful one is one: the later memory takes the earlier one's place."""
    await _settled(desk, "confirm_contradiction", found_id, "Confirmed:")


@contradictions.command("dismiss", examples=["mindhold contradictions dismiss 3f2a"])
@click.argument("found_id", metavar="ID")
@with_desk
async def dismiss(desk: Desk, /, *, found_id: str) -> None:
    """Say that a doubtful one is none; it isn't raised again."""
    await _settled(desk, "dismiss_contradiction", found_id, "Dismissed. Both stand:")


async def _settled(desk: Desk, operation: str, found_id: str, said: str) -> None:
    result: ContradictionResult = await desk.run(operation, id=found_id)
    if desk.console.json:
        desk.console.document(result)
        return
    desk.console.line(said)
    _print(desk, result.contradiction)


def _section(desk: Desk, title: str, found: Sequence[ContradictionView], advice: str) -> None:
    if not found:
        return
    desk.console.line(desk.console.style(title, bold=True))
    for one in found:
        desk.console.line(
            f"{neutral(one.id)}  by {neutral(one.found_by)}, {one.confidence:.2f}, {local_time(one.found, desk.zone)}"
        )
        _print(desk, one)
    desk.console.note(advice)


def _print(desk: Desk, one: ContradictionView) -> None:
    for name, side in (("earlier", one.older), ("later", one.newer)):
        desk.console.line(f"  {name:<8}{neutral(side.id)}  {one_line(side.content, most=160)}")
