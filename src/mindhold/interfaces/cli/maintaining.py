"""`mindhold maintain`: all the upkeep in one run, for the clock of the system."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mindhold.interfaces.cli.command import command, with_session, words
from mindhold.interfaces.cli.output import Console, neutral
from mindhold.interfaces.cli.session import Session
from mindhold.interfaces.logs import logging_to

if TYPE_CHECKING:
    from mindhold.operations.maintaining import MaintainResult

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
    session: Session,
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
    with logging_to(session.loaded().settings):
        async with session.open() as desk:
            result: MaintainResult = await desk.run(
                "maintain", dry_run=dry_run, steps=steps, seconds=seconds, backup=backup
            )
    if session.console.json:
        session.console.document(result)
    else:
        _print(session.console, result)
    for one in result.steps:
        if one.error:  # also where the table goes nowhere: cron mails what stands here
            session.console.warn(f"{one.step} failed, {one.code}: {neutral(one.error)}")
    return SOME_FAILED if result.failed else 0


def _print(console: Console, result: MaintainResult) -> None:
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
