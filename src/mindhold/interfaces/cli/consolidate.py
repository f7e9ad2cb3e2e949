"""`mindhold consolidate` and `mindhold maintain`: maintenance of the memories, for people and for cron."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

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
        ToldView,
    )


TOLD = ("merged", "anchored", "contradicted", "doubtful")
STATES = ("stale", "doubtful")  # what is found, and not done
MOST_QUOTED = 60  # memories whose words are looked up
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
@click.option("--dry-run", is_flag=True, help="Change nothing, and tell what would be done.")
@words("--stage", "stages", metavar="NAME", help="Only these stages.")
@click.option("--seconds", type=float, metavar="N", help="At most how long (life.seconds).")
@click.option("--reports", is_flag=True, help="What was done before, for a year.")
@click.option("--limit", "-n", type=int, metavar="N", help="With --reports: at most how many (10).")
@click.option("--captured", is_flag=True, help="Condense what was captured, and nothing else.")
@click.option("--scope", metavar="NAME", help="With --captured: of this scope.")
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
    """Do the upkeep that is due: cool, fade, archive, merge, embed, find contradictions, tidy.

    It goes on by itself once a day while a server runs. Nothing is removed that was not archived long before, and
    `mindhold forget ID --undo` brings an archived memory back.
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
    if session.console.json:
        session.console.document(result)
    else:
        await _print(session, result)


def _print_condensed(session: OpenSession, result: CondenseResult) -> None:
    console = session.console
    if console.json:
        console.document(result)
        return
    would = "would be " if result.dry_run else ""
    console.line(
        f"{result.scope}: {result.kept} kept, {result.merged} {would}merged into {result.made}, "
        f"{result.replaced} {would}replaced, {result.dropped} {would}dropped, {result.pruned} {would}removed, "
        f"by {neutral(result.by)}"
    )
    for one in result.changes:
        console.line(f"{would}{one.what} {one.id}  {one_line(one.why, most=LONGEST_QUOTE)}")
    if result.notice:
        console.note(neutral(result.notice))


async def _print(session: OpenSession, result: ConsolidateResult) -> None:
    console = session.console
    if result.notice:
        console.line(result.notice)
        return
    console.table(
        ["stage", "would change" if result.dry_run else "changed", "seconds", "what"],
        [
            [
                one.stage,
                one.changed,
                f"{one.seconds:.2f}",
                one.detail + (" (more is left)" if one.more else ""),
            ]
            for one in result.stages
        ],
    )
    await _print_gone(session, result)
    if result.dry_run:
        console.note("Nothing was changed.")
    elif any(one.more for one in result.stages):
        console.note("The time was up; the same call goes on from there.")


async def _print_gone(session: OpenSession, result: ConsolidateResult) -> None:
    """Each with its beginning, as far as it is there and the caller's."""
    lists: dict[str, Sequence[ToldView]] = {
        "archived": result.archived,
        "erased": result.erased,
        "stale": result.stale,
    }
    lists |= {what: [one for one in result.others if one.what == what] for what in TOLD}
    quoted = await _beginnings(session, [one.id for told in lists.values() for one in told])
    for what, told in lists.items():
        shown = f"would be {what}" if result.dry_run and what not in STATES else what
        for one in told:
            said = f": {quoted[one.id]}" if one.id in quoted else ""
            session.console.line(f"{shown} {one.id}  {neutral(one.why)}{said}")
        more = result.counts.get(what, 0) - len(told)
        if more > 0:
            session.console.line(f"{shown} and {more:,} more")


async def _beginnings(session: OpenSession, ids: Sequence[str]) -> dict[str, str]:
    from mindhold.memories.filters import SHOW

    found: dict[str, str] = {}
    for one in list(dict.fromkeys(ids))[:MOST_QUOTED]:
        with suppress(NotFound):  # erased, or another agent's
            shown = await session.run(SHOW, id=one)
            found[one] = one_line(shown.memory.content, most=LONGEST_QUOTE)
    return found


async def _print_reports(session: OpenSession, result: ReportsResult) -> None:
    if session.console.json:
        session.console.document(result)
        return
    if not result.reports:
        session.console.line("Nothing was consolidated yet.")
    for one in result.reports:
        changes = plural(sum(stage.changed for stage in one.stages), "change")
        when = local_time(one.started, session.zone)
        session.console.line(session.console.style(f"{when}  {changes}, {one.seconds:.1f} s", bold=True))
        for line in one.operations:
            session.console.line(f"  {neutral(line)}")
        await _print_gone(session, one)


SOME_FAILED = 1


@command(
    "maintain",
    examples=[
        "mindhold maintain",
        "mindhold maintain --dry-run",
        "mindhold maintain --step tidy,optimise",
        "mindhold maintain --no-backup --seconds 60",
    ],
)
@click.option("--dry-run", is_flag=True, help="Change nothing, and tell what would be done.")
@words("--step", "steps", metavar="NAME", help="Only these steps.")
@click.option("--seconds", type=float, metavar="N", help="At most how long (maintenance.seconds).")
@click.option("--backup/--no-backup", default=True, help="Whether a backup that is due is made first.")
@with_session
async def maintain(
    cli: CliSession,
    /,
    *,
    dry_run: bool,
    steps: tuple[str, ...],
    seconds: float | None,
    backup: bool,
) -> int:
    """Back up, summarise, consolidate, prune and tidy, at low priority. Exit status 1 when a step failed.

    A server does the same by itself every night (maintenance.hour); this is for cron and its like. Of several at once
    one does it, and the others say so.
    """
    from mindhold.lifecycle.maintenance_operations import MAINTAIN

    with logging_to(cli.loaded().settings):
        async with cli.open() as session:
            result = await session.run(MAINTAIN, dry_run=dry_run, steps=steps, seconds=seconds, backup=backup)
    if cli.console.json:
        cli.console.document(result)
    else:
        _print_maintenance(cli.console, result)
    for one in result.steps:
        if one.error:  # also where the table goes nowhere: cron mails what stands here
            cli.console.warn(f"{one.step} failed, {one.code}: {neutral(one.error)}")
    return SOME_FAILED if result.failed else 0


def _print_maintenance(console: Console, result: MaintainResult) -> None:
    if result.notice:
        console.line(result.notice)
        return
    console.table(
        ["step", "would change" if result.dry_run else "changed", "seconds", "what"],
        [
            [
                one.step,
                one.changed,
                f"{one.seconds:.2f}",
                neutral(f"FAILED: {one.error}" if one.error else one.detail)
                + (" (more is left)" if one.more else ""),
            ]
            for one in result.steps
        ],
    )
    if result.dry_run:
        console.note("Nothing was changed.")
    elif any(one.more for one in result.steps):
        console.note("The time was up; the same call goes on from there.")
