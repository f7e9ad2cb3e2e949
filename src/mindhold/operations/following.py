"""Operations for those who listen: what was written, and how far jobs are."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from mindhold.engine.changes import JobNow, changed_memories, jobs_now
from mindhold.engine.checks import checked_moment
from mindhold.engine.reindex import Stage
from mindhold.model.memory import Memory
from mindhold.model.query import Order
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output
from mindhold.operations.paging import next_cursor, spot_of

LONGEST = 500  # characters of a memory that are told
MOST = 500


class Topic(StrEnum):
    """What one listens to."""

    MEMORIES = "memories"
    JOBS = "jobs"


def _split(value: Any) -> Any:
    """Several may be named in one word, by commas."""
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, list):
        return given
    return [part.strip() for one in given for part in (one.split(",") if isinstance(one, str) else [one])]


class RecentChangesInput(Input):
    """Since when, of which project and what. `known` are jobs that are told of though they have ended.

    `before` is `next` of the page of later changes.
    """

    project: str | None = None
    topics: Annotated[list[Topic], BeforeValidator(_split)] = Field(default=list(Topic), min_length=1)
    since: datetime | None = None
    before: str | None = None
    known: list[str] = Field(default=[], max_length=200)
    limit: int = Field(default=200, ge=1, le=MOST)


class ChangeView(Output):
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
        """The memory as it is told."""
        return cls(
            id=memory.id,
            kind=memory.kind,
            scope=memory.scope,
            topic=memory.topic,
            content=memory.content[:LONGEST],
            truncated=len(memory.content) > LONGEST,
            created=memory.created,
            updated=memory.updated,
        )


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
    def of(cls, now: JobNow) -> JobChangeView:
        """The job as it is told."""
        told = now.progress
        return cls(
            id=now.job.id,
            name=now.job.name,
            state=now.stage,
            scope=now.scope,
            progress=None if told is None else 1.0 if now.stage == "done" else round(told.share, 4),
            done=None if told is None else told.done,
            total=None if told is None else told.total,
        )


class RecentChangesResult(Output):
    """The latest changes, the oldest of them first. `next` is where those begin that were made before them."""

    now: datetime
    memories: list[ChangeView]
    jobs: list[JobChangeView]
    next: str | None = None


async def _recent(call: Call, given: RecentChangesInput) -> RecentChangesResult:
    now = call.engine.clock()
    since = now if given.since is None else checked_moment(call.engine, given.since)
    memories: list[Memory] = []
    jobs: list[JobNow] = []
    if Topic.MEMORIES in given.topics:
        memories = await changed_memories(
            call.engine,
            given.project,
            agent=call.agent,
            since=since,
            limit=given.limit,
            before=None if given.before is None else spot_of(given.before, Order.CHANGED),
        )
    if Topic.JOBS in given.topics:
        jobs = await jobs_now(
            call.engine,
            given.project,
            agent=call.agent,
            owner=call.owner,
            since=since,
            known=given.known,
        )
    return RecentChangesResult(
        now=now,
        memories=[ChangeView.of(memory) for memory in reversed(memories)],
        jobs=[JobChangeView.of(job) for job in jobs],
        next=next_cursor(memories, Order.CHANGED, limit=given.limit),
    )


RECENT_CHANGES = Operation(
    "recent_changes",
    "What was written lately, and which jobs are under way.",
    RecentChangesInput,
    RecentChangesResult,
    _recent,
    Effect.READS,
)
