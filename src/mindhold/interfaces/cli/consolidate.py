"""`mindhold consolidate` and `mindhold maintain`: maintenance of the memories, for people and for cron."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import command, with_open_session, with_session, words
from mindhold.interfaces.cli.output import Console, local_time, neutral, one_line, plural
from mindhold.interfaces.cli.session import CliSession, OpenSession
from mindhold.interfaces.logs import logging_to
from mindhold.model.errors import NotFound

if TYPE_CHECKING:
    from mindhold.capture.condensation import CondenseResult
    from mindhold.lifecycle.maintenance_operations import (
        ConsolidateResult,
        MaintainResult,
        ReportsResult,
        StageView,
        StepView,
        ToldView,
    )


OUTCOMES = ("merged", "anchored", "contradicted", "doubtful")
STATES = ("stale", "doubtful")  # findings, not actions
MOST_QUOTED = 60  # memories whose text is looked up
LONGEST_QUOTE = 60


@command(
    "consolidate",
    remote=True,
    examples=[
        "mindhold consolidate",
        "mindhold consolidate --dry-run",
        "mindhold consolidate --stage decay,tiers",
        "mindhold consolidate --reports",
        "mindhold consolidate --captured --dry-run",
    ],
)
@click.option("--dry-run", is_flag=True, help="Change nothing; show what would be done.")
@words("--stage", "stages", metavar="NAME", help="Only these stages.")
@click.option("--seconds", type=float, metavar="N", help="The time limit (default: life.seconds).")
@click.option("--reports", is_flag=True, help="Show the runs of the last year.")
@click.option("--limit", "-n", type=int, metavar="N", help="With --reports: how many at most (default: 10).")
@click.option("--captured", is_flag=True, help="Only condense captured memories.")
@click.option("--scope", metavar="NAME", help="With --captured: only this scope.")
@with_open_session
async def consolidate(
    session: OpenSession,
    /,
    *,
    dry_run: bool,
    stages: tuple[str, ...],
    seconds: float | None,
    reports: bool,
    limit: int | None,
    captured: bool,
    scope: str | None,
) -> None:
    """Do the upkeep that is due: fade, archive, merge, tidy.

    It also makes vectors and finds contradictions. A running server does it once a day. Only memories that were archived
    long ago are removed; `mindhold forget ID --undo` brings an archived memory back.
    """
    from mindhold.capture.condensation import CONDENSE
    from mindhold.lifecycle.maintenance_operations import CONSOLIDATE, CONSOLIDATION_REPORTS

    if reports and (dry_run or stages or seconds):
        raise click.UsageError("--reports tells of earlier runs: it goes with --limit only.")
    if limit is not None and not reports:
        raise click.UsageError("--limit goes with --reports.")
    if scope and not captured:
        raise click.UsageError("--scope goes with --captured.")
    if captured:
        if stages or seconds or reports:
            raise click.UsageError("--captured goes with --scope and --dry-run only.")
        _print_condensed(session, await session.run(CONDENSE, scope=scope, dry_run=dry_run))
        return
    if reports:
        await _print_reports(session, await session.run(CONSOLIDATION_REPORTS, limit=limit))
        return
    result = await session.run(CONSOLIDATE, dry_run=dry_run, stages=stages, seconds=seconds)
    if not session.console.as_json(result):
        await _print(session, result)


def _print_condensed(session: OpenSession, result: CondenseResult) -> None:
    console = session.console
    if console.as_json(result):
        return
    would = "would be " if result.dry_run else ""
    console.line(
        f"{result.scope}: {result.kept} kept, {result.merged} {would}merged into {result.made}, "
        f"{result.replaced} {would}replaced, {result.dropped} {would}dropped, {result.pruned} {would}removed, "
        f"by {neutral(result.by)}"
    )
    for change in result.changes:
        console.line(f"{would}{change.what} {change.id}  {one_line(change.why, most=LONGEST_QUOTE)}")
    console.note(result.notice)


async def _print(session: OpenSession, result: ConsolidateResult) -> None:
    if result.notice:
        session.console.line(result.notice)
        return
    rows = [(stage.stage, stage, stage.detail) for stage in result.stages]
    _print_steps(session.console, "stage", rows, dry_run=result.dry_run)
    await _print_changes(session, result)
    _print_rest(session.console, result.stages, dry_run=result.dry_run)


def _print_steps(
    console: Console, head: str, rows: Sequence[tuple[str, StageView | StepView, str]], *, dry_run: bool
) -> None:
    console.table(
        [head, "would change" if dry_run else "changed", "seconds", "what"],
        [
            [name, step.changed, f"{step.seconds:.2f}", text + (" (more is left)" if step.more else "")]
            for name, step, text in rows
        ],
    )


def _print_rest(console: Console, steps: Sequence[StageView | StepView], *, dry_run: bool) -> None:
    if dry_run:
        console.note("Nothing was changed.")
    elif any(step.more for step in steps):
        console.note("The time was up; the same call goes on from there.")


async def _print_changes(session: OpenSession, result: ConsolidateResult) -> None:
    """Print the changed memories with the beginning of their text, if the caller may see it."""
    lists: dict[str, Sequence[ToldView]] = {
        "archived": result.archived,
        "erased": result.erased,
        "stale": result.stale,
    }
    lists |= {what: [memory for memory in result.others if memory.what == what] for what in OUTCOMES}
    quotes = await _load_beginnings(
        session, [memory.id for memories in lists.values() for memory in memories]
    )
    for what, memories in lists.items():
        label = f"would be {what}" if result.dry_run and what not in STATES else what
        for memory in memories:
            quote = f": {quotes[memory.id]}" if memory.id in quotes else ""
            session.console.line(f"{label} {memory.id}  {neutral(memory.why)}{quote}")
        more = result.counts.get(what, 0) - len(memories)
        if more > 0:
            session.console.line(f"{label} and {more:,} more")


async def _load_beginnings(session: OpenSession, ids: Sequence[str]) -> dict[str, str]:
    from mindhold.memories.filters import SHOW

    beginnings: dict[str, str] = {}
    for memory_id in list(dict.fromkeys(ids))[:MOST_QUOTED]:
        with suppress(NotFound):  # erased, or another agent's
            result = await session.run(SHOW, id=memory_id)
            beginnings[memory_id] = one_line(result.memory.content, most=LONGEST_QUOTE)
    return beginnings


async def _print_reports(session: OpenSession, result: ReportsResult) -> None:
    if session.console.as_json(result):
        return
    if not result.reports:
        session.console.line("Nothing was consolidated yet.")
    for report in result.reports:
        changes = plural(sum(stage.changed for stage in report.stages), "change")
        when = local_time(report.started, session.zone)
        session.console.line(session.console.style(f"{when}  {changes}, {report.seconds:.1f} s", bold=True))
        for line in report.operations:
            session.console.line(f"  {neutral(line)}")
        await _print_changes(session, report)


@command(
    "maintain",
    examples=[
        "mindhold maintain",
        "mindhold maintain --dry-run",
        "mindhold maintain --step tidy,optimise",
        "mindhold maintain --no-backup --seconds 60",
    ],
)
@click.option("--dry-run", is_flag=True, help="Change nothing; show what would be done.")
@words("--step", "steps", metavar="NAME", help="Only these steps.")
@click.option("--seconds", type=float, metavar="N", help="The time limit (default: maintenance.seconds).")
@click.option("--backup/--no-backup", default=True, help="Whether to make a due backup first.")
@with_session
async def maintain(cli: CliSession, /, **fields: Any) -> int:
    """Back up, summarise, consolidate, prune and tidy.

    It runs at low priority; the exit status is 1 if a step failed. A server does the same every night
    (maintenance.hour); this command is for cron. Only one process does it at a time; others say so and end.
    """
    from mindhold.lifecycle.maintenance_operations import MAINTAIN

    with logging_to(cli.loaded().settings):
        async with cli.open() as session:
            result = await session.run(MAINTAIN, **fields)
    if not cli.console.as_json(result):
        _print_maintenance(cli.console, result)
    for step in result.steps:
        if step.error:  # on stderr too, because cron mails it
            cli.console.warn(f"{step.step} failed, {step.code}: {neutral(step.error)}")
    return 1 if result.failed else 0


def _print_maintenance(console: Console, result: MaintainResult) -> None:
    if result.notice:
        console.line(result.notice)
        return
    rows = [
        (step.step, step, f"FAILED: {step.error}" if step.error else step.detail) for step in result.steps
    ]
    _print_steps(console, "step", rows, dry_run=result.dry_run)
    _print_rest(console, result.steps, dry_run=result.dry_run)
