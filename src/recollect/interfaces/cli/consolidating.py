"""`recollect consolidate`: the upkeep of what is remembered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from recollect.interfaces.cli.command import command, with_desk, words
from recollect.interfaces.cli.output import local_time, neutral, plural
from recollect.interfaces.cli.session import Desk

if TYPE_CHECKING:
    from recollect.operations.consolidating import ConsolidateResult, ReportsResult, ToldView


@command(
    "consolidate",
    examples=[
        "recollect consolidate",
        "recollect consolidate --dry-run",
        "recollect consolidate --stage decay,tiers",
        "recollect consolidate --reports",
    ],
)
@click.option("--dry-run", is_flag=True, help="Change nothing, and tell what would be done.")
@words("--stage", "stages", metavar="NAME", help="Only these stages.")
@click.option("--seconds", type=float, metavar="N", help="At most how long (life.seconds).")
@click.option("--reports", is_flag=True, help="What was done before, for a year.")
@click.option("--limit", "-n", type=int, metavar="N", help="With --reports: at most how many (10).")
@with_desk
async def consolidate(
    desk: Desk,
    /,
    *,
    dry_run: bool,
    stages: tuple[str, ...],
    seconds: float | None,
    reports: bool,
    limit: int | None,
) -> None:
    """Do the upkeep that is due: cool, fade, archive, merge, embed, find contradictions, tidy.

    It goes on by itself once a day while a server runs. Nothing is removed that was not archived long before, and
    `recollect forget ID --undo` brings an archived memory back.
    """
    if reports and (dry_run or stages or seconds):
        raise click.UsageError("--reports tells of earlier runs: it goes with --limit only.")
    if limit is not None and not reports:
        raise click.UsageError("--limit goes with --reports.")
    if reports:
        _print_reports(desk, await desk.run("consolidation_reports", limit=limit))
        return
    result: ConsolidateResult = await desk.run("consolidate", dry_run=dry_run, stages=stages, seconds=seconds)
    if desk.console.json:
        desk.console.document(result)
    else:
        _print(desk, result)


def _print(desk: Desk, result: ConsolidateResult) -> None:
    console = desk.console
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
    _print_gone(desk, result)
    if result.dry_run:
        console.note("Nothing was changed.")
    elif any(one.more for one in result.stages):
        console.note("The time was up; the same call goes on from there.")


def _print_gone(desk: Desk, result: ConsolidateResult) -> None:
    for what, told in (("archived", result.archived), ("erased", result.erased), ("stale", result.stale)):
        _print_told(desk, what, told, count=result.counts.get(what, 0))


def _print_told(desk: Desk, what: str, told: Sequence[ToldView], *, count: int) -> None:
    for one in told:
        desk.console.line(f"{what:<8} {one.id}  {neutral(one.why)}")
    if count > len(told):
        desk.console.line(f"{what:<8} and {count - len(told):,} more")


def _print_reports(desk: Desk, result: ReportsResult) -> None:
    if desk.console.json:
        desk.console.document(result)
        return
    if not result.reports:
        desk.console.line("Nothing was consolidated yet.")
    for one in result.reports:
        changes = plural(sum(stage.changed for stage in one.stages), "change")
        when = local_time(one.started, desk.zone)
        desk.console.line(desk.console.style(f"{when}  {changes}, {one.seconds:.1f} s", bold=True))
        for line in one.operations:
            desk.console.line(f"  {neutral(line)}")
        _print_gone(desk, one)
