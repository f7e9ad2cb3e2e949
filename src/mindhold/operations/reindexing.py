"""Operations on a project's vectors as a whole: making them anew by a job, looking how far it is, giving it up."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from mindhold.engine.reindex import Stage, Standing, begin_reindex, cancel_reindex, look_at_reindex
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output


class ReindexProjectInput(Input):
    """Which project. `force` takes what has a vector of the present model too; else only what lacks one."""

    project: str | None = None
    force: bool = False


class ReindexProjectResult(Output):
    """The job that was begun, or the one that is at it already. None is made where nothing is to do.

    Beside messages it takes the project's other memories along: the job's own counts are of all of them.
    """

    status: Literal["reindexing_started", "nothing_to_do"]
    total_messages: int
    messages_to_index: int
    estimated_time_seconds: int
    job_id: str | None = None


class ReindexJobInput(Input):
    """Which job of which project."""

    project: str | None = None
    job_id: str = Field(min_length=1, max_length=100)


class ReindexStatusResult(Output):
    """How far it is. What has a vector keeps it, whatever becomes of the job."""

    job_id: str
    status: Stage
    progress: float  # from 0 to 1
    done: int
    total: int
    estimated_time_seconds: int  # that are left
    created: datetime
    finished: datetime | None = None
    error: str | None = None

    @classmethod
    def of(cls, standing: Standing) -> ReindexStatusResult:
        """As it stands."""
        return cls(
            job_id=standing.job.id,
            status=standing.stage,
            progress=round(standing.share, 4),
            done=standing.done,
            total=standing.total,
            estimated_time_seconds=standing.seconds,
            created=standing.job.created,
            finished=standing.job.finished,
            error=standing.error,
        )


async def _begin(call: Call, given: ReindexProjectInput) -> ReindexProjectResult:
    begun = await begin_reindex(
        call.engine, given.project, agent=call.agent, owner=call.owner, force=given.force
    )
    return ReindexProjectResult(
        status="nothing_to_do" if begun.job is None else "reindexing_started",
        total_messages=begun.messages,
        messages_to_index=begun.wanted,
        estimated_time_seconds=begun.seconds,
        job_id=None if begun.job is None else begun.job.id,
    )


async def _look(call: Call, given: ReindexJobInput) -> ReindexStatusResult:
    found = await look_at_reindex(
        call.engine, given.project, given.job_id, agent=call.agent, owner=call.owner
    )
    return ReindexStatusResult.of(found)


async def _cancel(call: Call, given: ReindexJobInput) -> ReindexStatusResult:
    found = await cancel_reindex(call.engine, given.project, given.job_id, agent=call.agent, owner=call.owner)
    return ReindexStatusResult.of(found)


REINDEX_PROJECT = Operation(
    "reindex_project",
    "Have a project's missing vectors made, or all of them anew.",
    ReindexProjectInput,
    ReindexProjectResult,
    _begin,
    Effect.WRITES,
)
REINDEX_STATUS = Operation(
    "reindex_status",
    "How far the making of a project's vectors is.",
    ReindexJobInput,
    ReindexStatusResult,
    _look,
    Effect.READS,
)
CANCEL_REINDEX = Operation(
    "cancel_reindex",
    "Give up the making of a project's vectors, waiting or under way.",
    ReindexJobInput,
    ReindexStatusResult,
    _cancel,
    Effect.WRITES,
)
