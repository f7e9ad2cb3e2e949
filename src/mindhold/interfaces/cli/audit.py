"""`mindhold audit` and `mindhold contradictions`: what maintenance removed, and memories that contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mindhold.interfaces.cli.command import Group, global_options, with_open_session
from mindhold.interfaces.cli.output import local_time, neutral, one_line, plural
from mindhold.interfaces.cli.session import OpenSession

if TYPE_CHECKING:
    from mindhold.lifecycle.audit import AuditView
    from mindhold.lifecycle.contradictions import (
        ContradictionInput,
        ContradictionResult,
        ContradictionView,
    )
    from mindhold.operations import Operation


MOST_LISTED = 50


@click.group(
    "audit",
    cls=Group,
    remote=True,
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
@with_open_session
async def list_audit(session: OpenSession, /, *, limit: int | None) -> None:
    """What was done, run by run, the newest first."""
    from mindhold.lifecycle.audit import LIST_AUDIT

    result = await session.run(LIST_AUDIT, limit=limit)
    if session.console.json:
        session.console.document(result)
        return
    if not result.records:
        session.console.line("Upkeep has changed nothing yet.")
    for one in result.records:
        _print_audit(session, one)


@audit.command("show", examples=["mindhold audit show 01jxq3k"])
@click.argument("id")
@with_open_session
async def show_audit(session: OpenSession, /, *, id: str) -> None:
    """One run, with the memories that it concerns. The beginning of its id is enough."""
    from mindhold.lifecycle.audit import SHOW_AUDIT

    result = await session.run(SHOW_AUDIT, id=id)
    if session.console.json:
        session.console.document(result)
        return
    _print_audit(session, result)
    for told in result.memories[:MOST_LISTED]:
        session.console.line(f"  {told.what} {told.id}  {neutral(told.why)}")
    more = result.more + len(result.memories) - MOST_LISTED
    if more > 0:
        session.console.note(f"{more:,} more; --json has them.")


@audit.command("undo", examples=["mindhold audit undo 01jxq3k"])
@click.argument("id")
@with_open_session
async def undo_audit(session: OpenSession, /, *, id: str) -> None:
    """Bring back what a run archived, as far as it is archived still; switch on a scope that it retired."""
    from mindhold.lifecycle.archive import UNDO_AUDIT

    result = await session.run(UNDO_AUDIT, id=id)
    console = session.console
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


def _print_audit(session: OpenSession, one: AuditView) -> None:
    console, when = session.console, local_time(one.when, session.zone)
    undone = f", undone {local_time(one.undone, session.zone)}" if one.undone else ""
    console.line(console.style(f"{one.id}  {when}  {one.what}, by {neutral(one.who)}{undone}", bold=True))
    _lines(session, one.operations)
    if one.back and not one.undone:
        console.line(console.style(f"  back: {neutral(one.back)}", dim=True))


def _lines(session: OpenSession, said: Sequence[str]) -> None:
    for line in said:
        session.console.line(f"  {neutral(line)}")


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


@click.group(
    "contradictions",
    cls=Group,
    remote=True,
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
@with_open_session
async def list_contradictions(session: OpenSession, /, *, limit: int | None) -> None:
    """What was found, and what waits for you or a model to judge it."""
    from mindhold.lifecycle.contradictions import LIST_CONTRADICTIONS

    result = await session.run(LIST_CONTRADICTIONS, limit=limit)
    if session.console.json:
        session.console.document(result)
        return
    _section(session, "Found", result.found, "`mindhold contradictions undo ID` takes one back.")
    _section(
        session,
        "Doubtful",
        result.pending,
        "`mindhold contradictions confirm ID` or `dismiss ID` settles one.",
    )
    if not result.found and not result.pending:
        session.console.line("None is known. `mindhold consolidate` looks for them.")


@contradictions.command("undo", examples=["mindhold contradictions undo 3f2a"])
@click.argument("found_id", metavar="ID")
@with_open_session
async def undo(session: OpenSession, /, *, found_id: str) -> None:
    """Take a found one back: both memories stand as before, and it isn't found again."""
    from mindhold.lifecycle.contradictions import UNDO_CONTRADICTION

    await _settled(session, UNDO_CONTRADICTION, found_id, "Taken back. Both stand:")


@contradictions.command("confirm", examples=["mindhold contradictions confirm 3f2a"])
@click.argument("found_id", metavar="ID")
@with_open_session
async def confirm(session: OpenSession, /, *, found_id: str) -> None:
    """Say that a doubtful one is one: the later memory takes the earlier one's place."""
    from mindhold.lifecycle.contradictions import CONFIRM_CONTRADICTION

    await _settled(session, CONFIRM_CONTRADICTION, found_id, "Confirmed:")


@contradictions.command("dismiss", examples=["mindhold contradictions dismiss 3f2a"])
@click.argument("found_id", metavar="ID")
@with_open_session
async def dismiss(session: OpenSession, /, *, found_id: str) -> None:
    """Say that a doubtful one is none; it isn't raised again."""
    from mindhold.lifecycle.contradictions import DISMISS_CONTRADICTION

    await _settled(session, DISMISS_CONTRADICTION, found_id, "Dismissed. Both stand:")


async def _settled(
    session: OpenSession,
    operation: Operation[ContradictionInput, ContradictionResult],
    found_id: str,
    said: str,
) -> None:
    result = await session.run(operation, id=found_id)
    if session.console.json:
        session.console.document(result)
        return
    session.console.line(said)
    _print_contradiction(session, result.contradiction)


def _section(session: OpenSession, title: str, found: Sequence[ContradictionView], advice: str) -> None:
    if not found:
        return
    session.console.line(session.console.style(title, bold=True))
    for one in found:
        session.console.line(
            f"{neutral(one.id)}  by {neutral(one.found_by)}, {one.confidence:.2f}, {local_time(one.found, session.zone)}"
        )
        _print_contradiction(session, one)
    session.console.note(advice)


def _print_contradiction(session: OpenSession, one: ContradictionView) -> None:
    for name, side in (("earlier", one.older), ("later", one.newer)):
        session.console.line(f"  {name:<8}{neutral(side.id)}  {one_line(side.content, most=160)}")
