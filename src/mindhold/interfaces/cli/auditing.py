"""`mindhold audit` and `mindhold unarchive`: what upkeep took away, and getting it back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mindhold.interfaces.cli.command import Group, command, global_options, with_desk
from mindhold.interfaces.cli.forgetting import bring_back
from mindhold.interfaces.cli.output import local_time, neutral, plural
from mindhold.interfaces.cli.session import Desk

if TYPE_CHECKING:
    from mindhold.operations.auditing import AuditView, ListAuditResult, ShowAuditResult, UndoAuditResult

MOST_LISTED = 50


@click.group(
    "audit",
    cls=Group,
    params=global_options(shown=False),
    invoke_without_command=True,
    examples=["mindhold audit", "mindhold audit show 01jxq3k", "mindhold audit undo 01jxq3k"],
)
@click.pass_context
def audit(ctx: click.Context) -> int | None:
    """What upkeep archived, merged and removed: why, and how to get it back.

    Without a command the records are listed.
    """
    if ctx.invoked_subcommand is not None:
        return None
    status: int | None = ctx.invoke(list_audit)
    return status


@audit.command("list", examples=["mindhold audit list -n 5", "mindhold audit list --json"])
@click.option("--limit", "-n", type=int, metavar="N", help="At most how many (20).")
@with_desk
async def list_audit(desk: Desk, /, *, limit: int | None) -> None:
    """What was done, run by run, the newest first."""
    result: ListAuditResult = await desk.run("list_audit", limit=limit)
    if desk.console.json:
        desk.console.document(result)
        return
    if not result.records:
        desk.console.line("Upkeep has changed nothing yet.")
    for one in result.records:
        _print(desk, one)


@audit.command("show", examples=["mindhold audit show 01jxq3k"])
@click.argument("id")
@with_desk
async def show_audit(desk: Desk, /, *, id: str) -> None:
    """One run, with the memories that it concerns. The beginning of its id is enough."""
    result: ShowAuditResult = await desk.run("show_audit", id=id)
    if desk.console.json:
        desk.console.document(result)
        return
    _print(desk, result)
    for told in result.memories[:MOST_LISTED]:
        desk.console.line(f"  {told.what} {told.id}  {neutral(told.why)}")
    more = result.more + len(result.memories) - MOST_LISTED
    if more > 0:
        desk.console.note(f"{more:,} more; --json has them.")


@audit.command("undo", examples=["mindhold audit undo 01jxq3k"])
@click.argument("id")
@with_desk
async def undo_audit(desk: Desk, /, *, id: str) -> None:
    """Bring back what a run archived, as far as it is archived still; switch on a scope that it retired."""
    result: UndoAuditResult = await desk.run("undo_audit", id=id)
    console = desk.console
    if console.json:
        console.document(result)
        return
    console.line(f"Brought back {plural(result.count, 'memory')}.")
    if result.passed_over:
        console.note(
            f"{plural(result.passed_over, 'other')} {_are(result.passed_over)} not in the archive any more."
        )
    for said in (result.note, result.notice):
        if said:
            console.note(neutral(said))


@command("unarchive", examples=["mindhold unarchive 01jxq3k", "mindhold list --archived"])
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@with_desk
async def unarchive(desk: Desk, /, *, ids: tuple[str, ...]) -> None:
    """Bring memories back from the archive; the same as `mindhold forget --undo`."""
    await bring_back(desk, list(ids))


def _print(desk: Desk, one: AuditView) -> None:
    console, when = desk.console, local_time(one.when, desk.zone)
    undone = f", undone {local_time(one.undone, desk.zone)}" if one.undone else ""
    console.line(console.style(f"{one.id}  {when}  {one.what}, by {neutral(one.who)}{undone}", bold=True))
    _lines(desk, one.operations)
    if one.back and not one.undone:
        console.line(console.style(f"  back: {neutral(one.back)}", dim=True))


def _lines(desk: Desk, said: Sequence[str]) -> None:
    for line in said:
        desk.console.line(f"  {neutral(line)}")


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
