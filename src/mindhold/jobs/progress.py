"""The progress of a job and requests to cancel it, stored where every process sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from mindhold.engine import Engine
from mindhold.model.errors import Conflict
from mindhold.model.job import Entry, Job, JobState

PROGRESS = "job:progress"
STOP = "job:stop"
KEPT = timedelta(days=14)  # as long as what was done
MOST = 1_000


@dataclass(frozen=True, slots=True)
class Progress:
    """Done of so many, and what a handler needs to go on from there."""

    done: int
    total: int
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """From 0 to 1. What turned out to be more than was counted is never quite done before it is."""
        return 0.0 if self.total <= 0 else min(self.done / self.total, 1.0)


async def note_progress(engine: Engine, job_id: str, progress: Progress) -> None:
    """Durable when it returns; whoever listens here is told."""
    now = engine.clock()
    value = {"done": progress.done, "total": progress.total, "more": dict(progress.more)}
    await engine.ledger.put_entry(Entry(PROGRESS, job_id, value, now, now + KEPT))
    engine.change_notifier.beat()


async def progress_of(engine: Engine, job_id: str) -> Progress | None:
    """None for a job that never told. Whether the caller may know of the job is for who asks to check."""
    entry = await engine.ledger.entry(PROGRESS, job_id, now=engine.clock())
    return None if entry is None else _progress(entry)


async def all_progress(engine: Engine) -> dict[str, Progress]:
    """Of every job that told lately, by its id."""
    entries = await engine.ledger.entries(PROGRESS, now=engine.clock(), limit=MOST)
    return {entry.key: _progress(entry) for entry in entries}


async def cancel_job(engine: Engine, job: Job, *, stops: bool) -> Job:
    """Give a job up. One that runs, in whatever process, is told to stop if it is of those that heed it.

    Raises Conflict for one that has ended, or runs and doesn't stop.
    """
    for _ in range(3):  # it may begin or end meanwhile
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
    """Whether somebody gave it up while it ran."""
    return await stopped_at(engine, job_id) is not None


async def stopped_at(engine: Engine, job_id: str) -> datetime | None:
    """When somebody gave it up while it ran; None if nobody did."""
    entry = await engine.ledger.entry(STOP, job_id, now=engine.clock())
    return None if entry is None else entry.created


async def clear_cancel(engine: Engine, job_id: str) -> None:
    """Take that back."""
    await engine.ledger.drop_entry(STOP, job_id)


def _progress(entry: Entry) -> Progress:
    value = entry.value
    return Progress(int(value["done"]), int(value["total"]), value.get("more") or {})
