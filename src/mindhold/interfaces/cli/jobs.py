"""`mindhold jobs`: background work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import Group, with_open_session, words
from mindhold.interfaces.cli.output import local_time, one_line, plural
from mindhold.interfaces.cli.session import OpenSession
from mindhold.model.job import JobState

if TYPE_CHECKING:
    from mindhold.memories.views import JobView


STATES = [state.value for state in JobState]


@click.group(
    "jobs", cls=Group, remote=True, examples=["mindhold jobs list --state dead", "mindhold jobs run"]
)
def jobs() -> None:
    """The queue of background work.

    Such as vectors after a change of model, and scheduled upkeep.
    """


@jobs.command("list", examples=["mindhold jobs list", "mindhold jobs list --state dead --json"])
@words("--state", "states", choices=STATES, metavar="STATE", help="Only in these states.")
@click.option("--limit", "-n", type=int, metavar="N", help="How many at most (default: 50).")
@with_open_session
async def list_jobs(session: OpenSession, /, **fields: Any) -> None:
    """List jobs, newest first, and the schedule."""
    from mindhold.jobs.queue import LIST_JOBS

    result = await session.run(LIST_JOBS, **fields)
    if session.console.as_json(result):
        return
    if result.jobs:
        session.console.table(
            ["id", "job", "state", "attempts", "due", "error"], [_row(session, job) for job in result.jobs]
        )
    else:
        session.console.line("No job is queued.")
    for name, when in result.schedule.items():
        session.console.note(f"scheduled: {name} at {when}")


@jobs.command("run", examples=["mindhold jobs run", "mindhold jobs run --most 10"])
@click.option("--most", type=int, metavar="N", help="How many at most (default: 1000).")
@with_open_session
async def run_jobs(session: OpenSession, /, *, most: int | None) -> int:
    """Run due jobs and retry failed ones. The exit status is 1 if one failed."""
    from mindhold.jobs.queue import RUN_JOBS

    result = await session.run(RUN_JOBS, most=most, waiting=True)
    failed = [job for job in result.ran if job.error or job.state == JobState.RUNNING]
    if not session.console.as_json(result):
        session.console.line(f"Ran {plural(len(result.ran), 'job')}.")
        for job in failed:
            session.console.warn(f"{job.name} {job.id}: {one_line(job.error or job.state, most=300)}")
    return 1 if failed else 0


@jobs.command("retry", examples=["mindhold jobs retry 01jxq3k5v6w7x8y9z0a1b2c3d4"])
@click.argument("id")
@with_open_session
async def retry_job(session: OpenSession, /, *, id: str) -> None:
    """Retry a dead job."""
    from mindhold.jobs.queue import RETRY_JOB

    job = await session.run(RETRY_JOB, id=id)
    if not session.console.as_json(job):
        session.console.line(f"{job.name} {job.id} will be tried again by `mindhold jobs run`.")


@jobs.command("cancel", examples=["mindhold jobs cancel 01jxq3k5v6w7x8y9z0a1b2c3d4"])
@click.argument("id")
@with_open_session
async def cancel_job(session: OpenSession, /, *, id: str) -> None:
    """Cancel a waiting job."""
    from mindhold.jobs.queue import CANCEL_JOB

    job = await session.run(CANCEL_JOB, id=id)
    if not session.console.as_json(job):
        session.console.line(f"{job.name} {job.id} was given up.")


def _row(session: OpenSession, job: JobView) -> list[object]:
    attempts = f"{job.attempts} of {job.most_attempts}"
    due = local_time(job.due, session.zone, seconds=True)
    return [job.id, job.name, job.state, attempts, due, one_line(job.error or "")]
