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
    from mindhold.lifecycle.contradictions import ContradictionResult, ContradictionView


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
def audit(ctx: click.Context) -> None:
    """What upkeep archived, merged and removed, and why.

    Without a command the records are listed.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_audit)


@audit.command("list", examples=["mindhold audit list -n 5", "mindhold audit list --json"])
@click.option("--limit", "-n", type=int, metavar="N", help="How many at most (default: 20).")
@with_open_session
async def list_audit(session: OpenSession, /, *, limit: int | None) -> None:
    """List the runs of upkeep, newest first."""
    from mindhold.lifecycle.audit import LIST_AUDIT

    result = await session.run(LIST_AUDIT, limit=limit)
    if session.console.as_json(result):
        return
    if not result.records:
        session.console.line("Upkeep has changed nothing yet.")
    for record in result.records:
        _print_audit(session, record)


@audit.command("show", examples=["mindhold audit show 01jxq3k"])
@click.argument("id")
@with_open_session
async def show_audit(session: OpenSession, /, *, id: str) -> None:
    """Show one run with its memories. A prefix of its id is enough."""
    from mindhold.lifecycle.audit import SHOW_AUDIT

    result = await session.run(SHOW_AUDIT, id=id)
    if session.console.as_json(result):
        return
    _print_audit(session, result)
    for memory in result.memories[:MOST_LISTED]:
        session.console.line(f"  {memory.what} {memory.id}  {neutral(memory.why)}")
    more = result.more + len(result.memories) - MOST_LISTED
    if more > 0:
        session.console.note(f"{more:,} more; --json has them.")


@audit.command("undo", examples=["mindhold audit undo 01jxq3k"])
@click.argument("id")
@with_open_session
async def undo_audit(session: OpenSession, /, *, id: str) -> None:
    """Bring back what a run archived or retired, if it is still there."""
    from mindhold.lifecycle.archive import UNDO_AUDIT

    result = await session.run(UNDO_AUDIT, id=id)
    console = session.console
    if console.as_json(result):
        return
    console.line(f"Brought back {plural(result.count, 'memory')}.")
    if result.passed_over:
        verb = "is" if result.passed_over == 1 else "are"
        console.note(f"{plural(result.passed_over, 'other')} {verb} not in the archive any more.")
    console.note(result.note)
    console.note(result.notice)


def _print_audit(session: OpenSession, record: AuditView) -> None:
    console, when = session.console, local_time(record.when, session.zone)
    undone = f", undone {local_time(record.undone, session.zone)}" if record.undone else ""
    console.line(
        console.style(f"{record.id}  {when}  {record.what}, by {neutral(record.who)}{undone}", bold=True)
    )
    for line in record.operations:
        console.line(f"  {neutral(line)}")
    if record.back and not record.undone:
        console.line(console.style(f"  back: {neutral(record.back)}", dim=True))


@click.group(
    "contradictions",
    cls=Group,
    remote=True,
    params=global_options(shown=False),
    invoke_without_command=True,
    examples=["mindhold contradictions", "mindhold contradictions undo 3f2a"],
)
@click.pass_context
def contradictions(ctx: click.Context) -> None:
    """Memories that contradict each other.

    `mindhold consolidate` finds them, and you decide. Without a command they are listed.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_contradictions)


@contradictions.command(
    "list", examples=["mindhold contradictions list", "mindhold contradictions list --json"]
)
@click.option("--limit", type=int, help="How many of each at most (default: 50).")
@with_open_session
async def list_contradictions(session: OpenSession, /, *, limit: int | None) -> None:
    """List contradictions, and doubtful ones that wait for a decision."""
    from mindhold.lifecycle.contradictions import LIST_CONTRADICTIONS

    result = await session.run(LIST_CONTRADICTIONS, limit=limit)
    if session.console.as_json(result):
        return
    _print_section(session, "Found", result.found, "`mindhold contradictions undo ID` takes one back.")
    _print_section(
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
    """Undo a contradiction: both memories stay. It isn't found again."""
    from mindhold.lifecycle.contradictions import UNDO_CONTRADICTION

    _print_settled(session, await session.run(UNDO_CONTRADICTION, id=found_id), "Taken back. Both stand:")


@contradictions.command("confirm", examples=["mindhold contradictions confirm 3f2a"])
@click.argument("found_id", metavar="ID")
@with_open_session
async def confirm(session: OpenSession, /, *, found_id: str) -> None:
    """Confirm a doubtful one: the later memory replaces the earlier."""
    from mindhold.lifecycle.contradictions import CONFIRM_CONTRADICTION

    _print_settled(session, await session.run(CONFIRM_CONTRADICTION, id=found_id), "Confirmed:")


@contradictions.command("dismiss", examples=["mindhold contradictions dismiss 3f2a"])
@click.argument("found_id", metavar="ID")
@with_open_session
async def dismiss(session: OpenSession, /, *, found_id: str) -> None:
    """Dismiss a doubtful one for good."""
    from mindhold.lifecycle.contradictions import DISMISS_CONTRADICTION

    _print_settled(session, await session.run(DISMISS_CONTRADICTION, id=found_id), "Dismissed. Both stand:")


def _print_settled(session: OpenSession, result: ContradictionResult, message: str) -> None:
    if not session.console.as_json(result):
        session.console.line(message)
        _print_contradiction(session, result.contradiction)


def _print_section(
    session: OpenSession, title: str, contradictions: Sequence[ContradictionView], advice: str
) -> None:
    if not contradictions:
        return
    session.console.line(session.console.style(title, bold=True))
    for contradiction in contradictions:
        by = f"by {neutral(contradiction.found_by)}, {contradiction.confidence:.2f}"
        when = local_time(contradiction.found, session.zone)
        session.console.line(f"{neutral(contradiction.id)}  {by}, {when}")
        _print_contradiction(session, contradiction)
    session.console.note(advice)


def _print_contradiction(session: OpenSession, contradiction: ContradictionView) -> None:
    for name, side in (("earlier", contradiction.older), ("later", contradiction.newer)):
        session.console.line(f"  {name:<8}{neutral(side.id)}  {one_line(side.content, most=160)}")
