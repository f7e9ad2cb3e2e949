"""Operations on the job queue: list, show, run, retry and cancel jobs."""

from __future__ import annotations

import time
from dataclasses import replace
from math import inf

from pydantic import Field

from mindhold.jobs.handlers import CANCELLABLE_JOBS, handlers_of
from mindhold.jobs.progress import all_progress, cancel_job, clear_cancel, progress_of
from mindhold.jobs.runner import Runner, enqueue_due, next_runs
from mindhold.memories.embedding import queue_embedding
from mindhold.memories.evaluation import EVALUATE
from mindhold.memories.views import JobView
from mindhold.model.errors import Conflict
from mindhold.model.job import Job, JobState
from mindhold.operations import Context, Input, Output, operation

MOST_RESCHEDULED = 1000


class ListJobsInput(Input):
    """Which states; all by default."""

    states: list[JobState] = Field(default=[], description="Only jobs in these states.")
    limit: int = Field(default=50, ge=1, le=1000, description="Maximum number of results.")


class ListJobsResult(Output):
    """The newest jobs first, and when scheduled ones are due."""

    jobs: list[JobView]
    tally: dict[str, int] = Field(examples=[{"running": 1}])
    schedule: dict[str, str] = Field(examples=[{"embed": "2026-11-16T10:30:00Z"}])


class RunJobsInput(Input):
    """How many to run at most, and after how many seconds none is started.

    `waiting` includes failed jobs that wait for their next attempt, and memories without a vector.
    """

    most: int = Field(default=1000, ge=1, description="Maximum number of jobs.", examples=[10])
    seconds: float | None = Field(default=None, gt=0, description="Time limit in seconds.", examples=[30])
    scheduled: bool = Field(default=True, description="Also scheduled jobs.")
    waiting: bool = Field(default=False, description="Also jobs that wait for their next attempt.")


class RunJobsResult(Output):
    """The jobs that ran. `more`: one of them needs further turns."""

    ran: list[JobView] = Field(
        examples=[[{"state": "done", "progress": 1.0, "finished": "2026-11-16T10:30:00Z"}]]
    )
    more: bool = Field(default=False, examples=[False])


class JobInput(Input):
    """Which job."""

    id: str = Field(description="The job's id.", examples=["reindex_01jxq3k5v6w7x8y9z0a1b2c3d4"])


async def _list_jobs(context: Context, request: ListJobsInput) -> ListJobsResult:
    """List the job queue."""
    store = context.engine.store
    runs = await next_runs(context.engine)
    progress = await all_progress(context.engine)
    jobs = await store.jobs(states=request.states, limit=request.limit)
    return ListJobsResult(
        jobs=[JobView.of(job, progress.get(job.id)) for job in jobs],
        tally=await store.tally_jobs(),
        schedule={name: when.isoformat() for name, when in runs.items()},
    )


LIST_JOBS = operation("list_jobs", _list_jobs, reads=True, owner_only=True)


async def _run_jobs(context: Context, request: RunJobsInput) -> RunJobsResult:
    """Run the jobs that are due."""
    if request.scheduled:
        await enqueue_due(context.engine)
    if request.waiting:
        await _make_due(context)
    runner = Runner(context.engine, handlers_of(context.engine), owner=context.engine.new_id())
    end = inf if request.seconds is None else time.monotonic() + request.seconds
    ran = await runner.run_all(
        most=request.most,
        on_progress=lambda count: context.progress("jobs", count, None),
        enough=lambda: time.monotonic() >= end,
    )
    last = {run.job.id: run.job for run in ran}  # a job of several turns is listed once
    return RunJobsResult(
        ran=[JobView.of(job) for job in last.values()],
        more=any(job.state is JobState.WAITING and job.error is None for job in last.values()),
    )


RUN_JOBS = operation(
    "run_jobs", _run_jobs, writes=True, owner_only=True, changes_memories=False, runs_jobs=True
)


async def _make_due(context: Context) -> None:
    """Make failed and postponed jobs due now: the user asked, and may have fixed the cause."""
    store, now, model = context.engine.store, context.engine.clock(), context.engine.vector_source.model
    for job in await store.jobs(states=(JobState.WAITING,), limit=MOST_RESCHEDULED):
        if job.due > now and (job.attempts or job.name == EVALUATE):
            await store.replace_job(replace(job, due=now), expected=JobState.WAITING)
    if model is not None and await store.unembedded(model, limit=1):
        await queue_embedding(context.engine)


async def _retry_job(context: Context, request: JobInput) -> JobView:
    """Retry a dead job."""
    advice = "Only dead and waiting jobs can be tried again."
    job = await context.engine.store.job(request.id)
    if job.state in (JobState.RUNNING, JobState.DONE):
        raise Conflict(f"The job {job.id} is {job.state}.", advice=advice)
    retried = replace(
        job, state=JobState.WAITING, attempts=0, due=context.engine.clock(), error=None, finished=None
    )
    await clear_cancel(context.engine, job.id)
    await _replace_job(context, retried, expected=job.state, advice=advice)
    context.engine.urgent_job.set()
    return JobView.of(retried, await progress_of(context.engine, job.id))


RETRY_JOB = operation("retry_job", _retry_job, writes=True, owner_only=True)


async def _cancel_job(context: Context, request: JobInput) -> JobView:
    """Cancel a job that waits or can be stopped."""
    job = await context.engine.store.job(request.id)
    cancelled = await cancel_job(context.engine, job, stops=job.name in CANCELLABLE_JOBS)
    return JobView.of(cancelled, await progress_of(context.engine, job.id))


CANCEL_JOB = operation("cancel_job", _cancel_job, writes=True, owner_only=True)


async def _show_job(context: Context, request: JobInput) -> JobView:
    """Show one job and its progress."""
    job = await context.engine.store.job(request.id)
    return JobView.of(job, await progress_of(context.engine, job.id))


SHOW_JOB = operation("show_job", _show_job, reads=True, owner_only=True)


async def _replace_job(context: Context, job: Job, *, expected: JobState, advice: str) -> None:
    """Raises Conflict if a runner took it meanwhile."""
    if not await context.engine.store.replace_job(job, expected=expected):
        current = await context.engine.store.job(job.id)
        raise Conflict(f"The job {job.id} is {current.state} by now.", advice=advice)
