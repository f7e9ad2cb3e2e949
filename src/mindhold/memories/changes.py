"""Recently written or changed memories and the progress of jobs, limited to what the caller may see."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from mindhold.engine import LEAST_TRUST
from mindhold.jobs.progress import Progress, all_progress, progress_of
from mindhold.memories.prepare import checked_moment
from mindhold.memories.views import View, next_cursor, position_of
from mindhold.model.errors import JobNotFound
from mindhold.model.job import SCOPE_KEY, Job, JobState
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order
from mindhold.operations import Context, Input, Output, operation
from mindhold.projects.placement import open_project
from mindhold.projects.reindex import Stage, may_see, stage_of
from mindhold.projects.storage import ask_reachable

MOST_JOBS = 100
NEWEST = 50  # ended jobs are searched among so many of the newest
UNDER_WAY = (JobState.WAITING, JobState.RUNNING)


async def _changed_memories(
    context: Context, request: RecentChangesInput, scope: str | None, since: datetime
) -> list[Memory]:
    """Return memories that were written or updated since then, latest first; in all scopes unless one is named."""
    before = None if request.before is None else position_of(request.before, Order.CHANGED)

    async def find(scopes: tuple[str, ...]) -> list[Memory]:
        where = Filter(viewer=context.agent, scopes=scopes, changed=since, minimum_trust=LEAST_TRUST)
        return await context.engine.store.find(where, order=Order.CHANGED, limit=request.limit, after=before)

    return await find((scope,)) if scope else (await ask_reachable(context.engine, find))[0]


async def _jobs_now(
    context: Context, known: Collection[str], scope: str | None, since: datetime
) -> list[JobChangeView]:
    """Return the jobs that the caller may see: running or waiting, `known`, and newest ones that ended since then."""
    engine = context.engine
    under_way = await engine.store.jobs(states=UNDER_WAY, limit=MOST_JOBS)
    ended = [job for job in await engine.store.jobs(limit=NEWEST) if job.finished and job.finished >= since]
    jobs: dict[str, Job] = {job.id: job for job in (*under_way, *ended)}
    for job_id in known:
        if job_id not in jobs:
            with suppress(JobNotFound):
                jobs[job_id] = await engine.store.job(job_id)
    visible = [
        job for job in jobs.values() if may_see(job, scope=scope, agent=context.agent, owner=context.owner)
    ]
    visible.sort(key=lambda job: (job.created, job.id))
    if len(visible) > 1:
        progress = await all_progress(engine)
    else:
        progress = {job.id: own for job in visible if (own := await progress_of(engine, job.id)) is not None}
    return [
        JobChangeView.of(job, await stage_of(engine, job, progress.get(job.id)), progress.get(job.id))
        for job in visible
    ]


LONGEST = 500  # longest excerpt of a memory, in characters
MOST = 500


class Topic(StrEnum):
    """What one listens to."""

    MEMORIES = "memories"
    JOBS = "jobs"


def _split(value: Any) -> Any:
    """Split strings at commas, so that one value can name several."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list):
        return values
    return [
        part.strip() for item in values for part in (item.split(",") if isinstance(item, str) else [item])
    ]


class RecentChangesInput(Input):
    """Since when, of which project and what. `known` are jobs that are told of though they have ended.

    `before` is `next` of the page of later changes.
    """

    project: str | None = Field(default=None, description="The project's name.", examples=["proj_123"])
    topics: Annotated[list[Topic], BeforeValidator(_split)] = Field(
        default=list(Topic),
        min_length=1,
        description="Topics to listen to: `memories`, `jobs`.",
        examples=[["memories", "jobs"]],
    )
    since: datetime | None = None
    before: str | None = None
    known: list[str] = Field(default=[], max_length=200)
    limit: int = Field(default=200, ge=1, le=MOST)


class ChangeView(View):
    """A memory that was written or changed. Long ones are cut: `show` has all of it."""

    id: str
    kind: str
    scope: str
    topic: str
    content: str
    truncated: bool
    created: datetime
    updated: datetime

    @classmethod
    def of(cls, memory: Memory) -> ChangeView:
        """Return the memory as a view, shortened if it is long."""
        return cls.fill(memory, content=memory.content[:LONGEST], truncated=len(memory.content) > LONGEST)


class JobChangeView(Output):
    """A job as it is now."""

    id: str
    name: str
    state: Stage
    scope: str | None = None
    progress: float | None = None  # from 0 to 1, of those that tell
    done: int | None = None
    total: int | None = None

    @classmethod
    def of(cls, job: Job, stage: Stage, progress: Progress | None) -> JobChangeView:
        """Return the job as a view."""
        scope = job.payload.get(SCOPE_KEY)
        return cls(
            id=job.id,
            name=job.name,
            state=stage,
            scope=scope if isinstance(scope, str) else None,
            progress=None if progress is None else 1.0 if stage == "done" else round(progress.share, 4),
            done=None if progress is None else progress.done,
            total=None if progress is None else progress.total,
        )


class RecentChangesResult(Output):
    """The latest changes, the oldest of them first. `next` is where those begin that were made before them."""

    now: datetime
    memories: list[ChangeView]
    jobs: list[JobChangeView]
    next: str | None = None


async def _recent_changes(context: Context, request: RecentChangesInput) -> RecentChangesResult:
    """What was written lately, and which jobs are under way."""
    engine, now = context.engine, context.engine.clock()
    since = now if request.since is None else checked_moment(engine, request.since)
    scope = None if request.project is None else (await open_project(engine, request.project)).name
    memories: list[Memory] = []
    jobs: list[JobChangeView] = []
    if Topic.MEMORIES in request.topics:
        memories = await _changed_memories(context, request, scope, since)
    if Topic.JOBS in request.topics:
        jobs = await _jobs_now(context, request.known, scope, since)
    return RecentChangesResult(
        now=now,
        memories=[ChangeView.of(memory) for memory in reversed(memories)],
        jobs=jobs,
        next=next_cursor(memories, Order.CHANGED, limit=request.limit),
    )


RECENT_CHANGES = operation("recent_changes", _recent_changes, reads=True)
