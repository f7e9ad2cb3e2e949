"""What a turn of a job returns, its progress, and requests to cancel it, stored where every process sees them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from mindhold.engine import Engine
from mindhold.model.errors import Conflict
from mindhold.model.job import Entry, Job, JobState

PROGRESS = "job:progress"
STOP = "job:stop"
KEPT = timedelta(days=14)  # as long as finished jobs
MOST = 1_000
PAUSE = timedelta(minutes=1)  # between two runs of a job that doesn't end in one


@dataclass(frozen=True, slots=True)
class Unfinished:
    """One turn of a job that takes several. The next one is due `after` a while, behind all that is due already."""

    result: Mapping[str, Any]
    after: timedelta = timedelta(0)


Handler = Callable[[Engine, Job], Awaitable[Mapping[str, Any] | Unfinished]]


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of the total is done, and what a handler needs to continue."""

    done: int
    total: int
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """From 0 to 1, also if the total turned out to be too low."""
        return 0.0 if self.total <= 0 else min(self.done / self.total, 1.0)


async def note_progress(engine: Engine, job_id: str, progress: Progress) -> None:
    """Save the progress and notify listeners of this process."""
    now = engine.clock()
    value = {"done": progress.done, "total": progress.total, "more": dict(progress.more)}
    await engine.ledger.put_entry(Entry(PROGRESS, job_id, value, now, now + KEPT))
    engine.change_notifier.beat()


async def progress_of(engine: Engine, job_id: str) -> Progress | None:
    """The progress of a job; None if it reported none. The caller checks whether the job may be seen."""
    entry = await engine.ledger.entry(PROGRESS, job_id, now=engine.clock())
    return None if entry is None else _parse_progress(entry)


async def all_progress(engine: Engine) -> dict[str, Progress]:
    """The progress of all jobs that reported lately, by id."""
    entries = await engine.ledger.entries(PROGRESS, now=engine.clock(), limit=MOST)
    return {entry.key: _parse_progress(entry) for entry in entries}


async def cancel_job(engine: Engine, job: Job, *, stops: bool) -> Job:
    """Cancel a job. A running one is told to stop if `stops`, in whatever process.

    Raises Conflict if it has ended, or runs and can't be stopped.
    """
    for _ in range(3):  # it may start or end meanwhile
        if job.state is JobState.WAITING:
            ended = replace(job, state=JobState.DONE, finished=engine.clock(), result={"cancelled": True})
            if await engine.store.replace_job(ended, expected=JobState.WAITING):
                return ended
        elif job.state is JobState.RUNNING and stops:
            now = engine.clock()
            await engine.ledger.put_entry(Entry(STOP, job.id, {}, now, now + KEPT))
            return job
        else:
            break
        job = await engine.store.job(job.id)
    if job.state in (JobState.WAITING, JobState.RUNNING):
        raise Conflict(
            f"The job {job.id} is {job.state}.",
            advice="One of this kind can't be stopped while it runs: wait until it has ended.",
        )
    raise Conflict(
        f"The job {job.id} has ended: it is {job.state}.", advice="There is nothing left to cancel."
    )


async def is_to_stop(engine: Engine, job_id: str) -> bool:
    """Whether it was cancelled while running."""
    return await stopped_at(engine, job_id) is not None


async def stopped_at(engine: Engine, job_id: str) -> datetime | None:
    """When it was cancelled while running; None if it was not."""
    entry = await engine.ledger.entry(STOP, job_id, now=engine.clock())
    return None if entry is None else entry.created


async def clear_cancel(engine: Engine, job_id: str) -> None:
    """Remove the request to cancel."""
    await engine.ledger.drop_entry(STOP, job_id)


def _parse_progress(entry: Entry) -> Progress:
    value = entry.value
    return Progress(int(value["done"]), int(value["total"]), value.get("more") or {})
