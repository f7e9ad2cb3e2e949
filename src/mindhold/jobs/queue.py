"""Operations on the job queue: list, show, run, retry and cancel jobs."""

from __future__ import annotations

import time
from dataclasses import replace
from math import inf

from pydantic import Field

from mindhold.jobs.handlers import STOPPING, handlers_of
from mindhold.jobs.progress import all_progress, cancel_job, clear_cancel, progress_of
from mindhold.jobs.runner import Runner
from mindhold.jobs.schedule import enqueue_due, next_runs
from mindhold.memories.embedding import queue_embedding
from mindhold.memories.evaluation import EVALUATE
from mindhold.memories.views import JobView
from mindhold.model.errors import Conflict
from mindhold.model.job import Job, JobState
from mindhold.operations import Call, Effect, Input, Operation, Output

MOST_BROUGHT_FORWARD = 1000


class ListJobsInput(Input):
    """Which states; all when none is named."""

    states: list[JobState] = []
    limit: int = Field(default=50, ge=1, le=1000)


class ListJobsResult(Output):
    """Jobs, the newest first, and when scheduled ones are due."""

    jobs: list[JobView]
    tally: dict[str, int]
    schedule: dict[str, str]


class RunJobsInput(Input):
    """At most how many, and after how long no further one is begun.

    `waiting` takes what failed and waits for its next attempt too, and memories without a vector.
    """

    most: int = Field(default=1000, ge=1)
    seconds: float | None = Field(default=None, gt=0)
    scheduled: bool = True
    waiting: bool = False


class RunJobsResult(Output):
    """What was run. `more`: one of them takes several turns, and has not had them all."""

    ran: list[JobView]
    more: bool = False


class JobInput(Input):
    """Which job."""

    id: str


async def _list_jobs(call: Call, given: ListJobsInput) -> ListJobsResult:
    store = call.engine.store
    runs = await next_runs(call.engine)
    known = await all_progress(call.engine)
    found = await store.jobs(states=given.states, limit=given.limit)
    return ListJobsResult(
        jobs=[JobView.of(job, known.get(job.id)) for job in found],
        tally=await store.tally_jobs(),
        schedule={name: when.isoformat() for name, when in runs.items()},
    )


async def _run_jobs(call: Call, given: RunJobsInput) -> RunJobsResult:
    if given.scheduled:
        await enqueue_due(call.engine)
    if given.waiting:
        await _bring_forward(call)
    runner = Runner(call.engine, handlers_of(call.engine), owner=call.engine.new_id())
    end = inf if given.seconds is None else time.monotonic() + given.seconds
    ran = await runner.run_all(
        most=given.most,
        told=lambda count: call.progress("jobs", count, None),
        enough=lambda: time.monotonic() >= end,
    )
    last = {one.job.id: one.job for one in ran}  # what took several turns is one job
    return RunJobsResult(
        ran=[JobView.of(job) for job in last.values()],
        more=any(job.state is JobState.WAITING and job.error is None for job in last.values()),
    )


async def _bring_forward(call: Call) -> None:
    """Somebody asked, and may have mended what made it fail: nothing waits for its next attempt, nor for more to come."""
    store, now, model = call.engine.store, call.engine.clock(), call.engine.meaning.model
    for job in await store.jobs(states=(JobState.WAITING,), limit=MOST_BROUGHT_FORWARD):
        if job.due > now and (job.attempts or job.name == EVALUATE):
            await store.replace_job(replace(job, due=now), expected=JobState.WAITING)
    if model is not None and await store.unembedded(model, limit=1):
        await queue_embedding(call.engine)


async def _retry_job(call: Call, given: JobInput) -> JobView:
    advice = "Only dead and waiting jobs can be tried again."
    job = await call.engine.store.job(given.id)
    if job.state in (JobState.RUNNING, JobState.DONE):
        raise Conflict(f"The job {job.id} is {job.state}.", advice=advice)
    again = replace(
        job, state=JobState.WAITING, attempts=0, due=call.engine.clock(), error=None, finished=None
    )
    await clear_cancel(call.engine, job.id)
    await _replace_job(call, again, expected=job.state, advice=advice)
    call.engine.pressing.set()
    return JobView.of(again, await progress_of(call.engine, job.id))


async def _cancel_job(call: Call, given: JobInput) -> JobView:
    job = await call.engine.store.job(given.id)
    ended = await cancel_job(call.engine, job, stops=job.name in STOPPING)
    return JobView.of(ended, await progress_of(call.engine, job.id))


async def _show_job(call: Call, given: JobInput) -> JobView:
    job = await call.engine.store.job(given.id)
    return JobView.of(job, await progress_of(call.engine, job.id))


async def _replace_job(call: Call, job: Job, *, expected: JobState, advice: str) -> None:
    """Raises Conflict if a runner took it meanwhile."""
    if not await call.engine.store.replace_job(job, expected=expected):
        now = await call.engine.store.job(job.id)
        raise Conflict(f"The job {job.id} is {now.state} by now.", advice=advice)


LIST_JOBS = Operation(
    "list_jobs", "Queued work.", ListJobsInput, ListJobsResult, _list_jobs, Effect.READS, owner_only=True
)
SHOW_JOB = Operation(
    "show_job", "One job, and how far it is.", JobInput, JobView, _show_job, Effect.READS, owner_only=True
)
RUN_JOBS = Operation(
    "run_jobs", "Run what is due.", RunJobsInput, RunJobsResult, _run_jobs, Effect.WRITES, owner_only=True
)
RETRY_JOB = Operation(
    "retry_job", "Try a dead job again.", JobInput, JobView, _retry_job, Effect.WRITES, owner_only=True
)
CANCEL_JOB = Operation(
    "cancel_job",
    "Give up a job that waits, or can be stopped.",
    JobInput,
    JobView,
    _cancel_job,
    Effect.WRITES,
    owner_only=True,
)
