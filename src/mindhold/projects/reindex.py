"""Recomputes the vectors of a project in a job that works in turns and can be resumed and cancelled."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from mindhold.access.secrets import fingerprint
from mindhold.engine import Engine
from mindhold.jobs.progress import (
    Progress,
    Unfinished,
    cancel_job,
    is_to_stop,
    note_progress,
    progress_of,
    stopped_at,
)
from mindhold.memories.embedding import note_speed, seconds_for, sendable
from mindhold.model.errors import (
    Conflict,
    JobNotFound,
    ModelError,
    ModelMismatch,
    ModelMissing,
    ScopeNotFound,
)
from mindhold.model.job import SCOPE_KEY, Entry, Job, JobState
from mindhold.model.memory import ANY_STATUS, Memory, Status
from mindhold.model.query import Filter, Order, PagePosition
from mindhold.model.scope import EVERYONE
from mindhold.operations import Context, Output, operation
from mindhold.ports.store import Enqueue
from mindhold.projects.placement import ProjectInput, mode_of, open_project
from mindhold.projects.storage import stores_without_vectors

REINDEX = "reindex"
CURRENT = "reindex"  # the namespace: the latest job by project and viewer
FORCE, VIEWER = "force", "viewer"  # keys of the payload
TURN = 2.0  # seconds
BATCH = 64
FEW = 8  # memories in a batch while questions are asked, followed by a pause as long: questions come first
LATELY = 1.0  # seconds
PAGE = 512
ALIVE = tuple(status for status in ANY_STATUS if status is not Status.FORGOTTEN)
Stage = Literal["waiting", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class _Work:
    """What a job has to do, from its payload."""

    scope: str
    viewer: str
    force: bool

    @classmethod
    def of(cls, job: Job) -> _Work:
        return cls(job.payload[SCOPE_KEY], job.payload[VIEWER], job.payload[FORCE])

    @property
    def payload(self) -> dict[str, Any]:
        return {SCOPE_KEY: self.scope, VIEWER: self.viewer, FORCE: self.force}

    @property
    def place(self) -> str:
        return fingerprint(f"{self.scope}\n{self.viewer}")

    @property
    def where(self) -> Filter:
        return Filter(viewer=self.viewer, scopes=(self.scope,), statuses=ALIVE)


async def reindex(engine: Engine, job: Job, *, seconds: float = TURN) -> Mapping[str, Any] | Unfinished:
    """Run one turn of a job. Raises ModelError, and the store's errors; what was done before stays."""
    work = _Work.of(job)
    before = int((job.result or {}).get("embedded", 0))
    try:
        model = await _usable_model(engine, (await open_project(engine, work.scope)).name)
    except ScopeNotFound:  # deleted or renamed meanwhile
        return {"embedded": before, "cancelled": True}
    progress = await progress_of(engine, job.id)
    if progress is None or progress.more.get("model") != model:  # the model changed: start over
        progress = Progress(0, await _count(engine, work, model), {"model": model})
    turn = _Turn(engine, job, work, model, progress)
    begun = time.monotonic()
    end = await turn.run(until=begun + seconds)
    await note_speed(engine, model, turn.embedded, time.monotonic() - begun)
    result = {"embedded": before + turn.embedded}
    if end == "running":
        return Unfinished(result)
    return result | ({"cancelled": True} if end == "cancelled" else {})


@dataclass(slots=True)
class _Turn:
    """One running turn."""

    engine: Engine
    job: Job
    work: _Work
    model: str
    progress: Progress
    ahead: list[Memory] = field(default_factory=list)
    embedded: int = 0

    async def run(self, *, until: float) -> Stage:
        """Embed batches until the time is up, at least one; returns whether the job is done, cancelled, or still running."""
        may = await sendable(self.engine, self.model)
        started = False
        while not started or time.monotonic() < until:
            started = True
            if await self._is_given_up():
                return "cancelled"
            batch = await self._next()
            if batch is None:
                return "done"
            to_embed = [memory for memory in batch if self._is_wanted(memory) and may(memory)]
            begun = time.monotonic()
            stored = await self._embed(to_embed) if to_embed else 0
            if self.engine.vector_source.asked_within(LATELY):
                await asyncio.sleep(time.monotonic() - begun)
            if to_embed and not stored and not self._walks:  # they changed, or the store takes none
                return "done"
            self.embedded += stored
            await self._note(batch, len(to_embed))
        return "running"

    @property
    def _size(self) -> int:
        return min(BATCH, FEW) if self.engine.vector_source.asked_within(LATELY) else BATCH

    @property
    def _walks(self) -> bool:
        """Whether it goes through the whole project in order, instead of asking for memories without a vector."""
        return self.work.force or self.work.viewer != EVERYONE or self.engine.vector_source.terms is not None

    def _is_wanted(self, memory: Memory) -> bool:
        return self.work.force or memory.embedded_by != self.model

    async def _next(self) -> Sequence[Memory] | None:
        """Return the next batch; None at the end."""
        store = self.engine.store
        if not self._walks:
            return await store.unembedded(self.model, limit=self._size, scopes=[self.work.scope]) or None
        if not self.ahead:
            # Memories that are saved meanwhile get their vectors anyway.
            self.ahead = await store.find(
                self.work.where,
                order=Order.OLDEST,
                limit=PAGE,
                after=_read_spot(self.progress.more.get("spot")),
            )
            if not self.ahead:
                return None
        batch, self.ahead = self.ahead[: self._size], self.ahead[self._size :]
        return batch

    async def _embed(self, memories: Sequence[Memory]) -> int:
        matrix = await self.engine.vector_source.embed([memory.content for memory in memories])
        if matrix is None:
            raise ModelError(self.engine.vector_source.reason)
        rows = {memory.id: (memory.content_hash, row) for memory, row in zip(memories, matrix, strict=True)}
        return await self.engine.store.put_vectors(rows, model=self.model)

    async def _note(self, batch: Sequence[Memory], count: int) -> None:
        more: dict[str, Any] = {"model": self.model}
        if self._walks:
            more["spot"] = _written_spot(PagePosition.of(batch[-1], Order.OLDEST))
        self.progress = Progress(self.progress.done + count, self.progress.total, more)
        await note_progress(self.engine, self.job.id, self.progress)

    async def _is_given_up(self) -> bool:
        if await is_to_stop(self.engine, self.job.id):
            return True
        current = await _current(self.engine, self.work)
        return current is not None and current.id != self.job.id  # two jobs were queued at the same moment


async def _usable_model(engine: Engine, scope: str) -> str:
    """Return the model. Raises ModelError without one, if it may not be called, or if the store keeps no vectors."""
    model = engine.vector_source.model
    if model is None:
        raise ModelMissing(
            engine.vector_source.reason or "There is no model.", advice="Set embedding.provider."
        )
    refusal = await engine.vector_source.refusal()
    if refusal is not None:
        raise refusal
    mode = await mode_of(engine, scope)
    without = await stores_without_vectors(engine, [mode])
    if mode in without:
        raise ModelMismatch(f"The store {mode} keeps no vectors. {without[mode]}".strip())
    return model


async def _messages(engine: Engine, work: _Work, model: str) -> tuple[int, int]:
    """Return how many messages there are, and how many of them the job embeds."""
    tally = await engine.store.tally(replace(work.where, turns=True), "embedded_by")
    total = sum(tally.values())
    return total, total if work.force else total - tally.get(model, 0)


async def _count(engine: Engine, work: _Work, model: str) -> int:
    """Return how many memories the job embeds. Raises ModelMismatch if a service may be sent none of them."""
    if engine.vector_source.terms is None:
        if work.force:
            return await engine.store.count(work.where)
        tally = await engine.store.tally(work.where, "embedded_by")
        return sum(count for name, count in tally.items() if name != model)
    may = await sendable(engine, model)
    allowed = refused = 0
    async for batch in engine.store.scan(work.where):
        for memory in batch:
            if work.force or memory.embedded_by != model:
                allowed, refused = (allowed + 1, refused) if may(memory) else (allowed, refused + 1)
    if refused and not allowed:
        raise ModelMismatch(
            f"{refused} memories were never sent to {model}, and nobody agreed to that.",
            advice="`mindhold models adopt` shows the cost and does it.",
        )
    return allowed


async def _current(engine: Engine, work: _Work) -> Job | None:
    """Return the job that waits or runs, if there is one."""
    entry = await engine.ledger.entry(CURRENT, work.place, now=engine.clock())
    if entry is None:
        return None
    try:
        job = await engine.store.job(entry.value["job"])
    except JobNotFound:
        return None
    ended = job.state in (JobState.DONE, JobState.DEAD) or await is_to_stop(engine, job.id)
    return None if ended else job


async def _queued(engine: Engine, work: _Work, progress: Progress) -> Job:
    """Queue a new job; return it, or the one that another caller queued at the same moment."""
    now, key = engine.clock(), f"{REINDEX}:{work.place}"
    job = Job(f"{REINDEX}_{engine.new_id()}", REINDEX, created=now, due=now, payload=work.payload, key=key)
    await note_progress(engine, job.id, progress)
    await engine.store.apply([Enqueue(job)])
    try:
        job = await engine.store.job(job.id)
    except JobNotFound:
        waiting = await engine.store.jobs(states=(JobState.WAITING,), limit=1_000)
        return next((other for other in waiting if other.key == key), None) or await _queued(
            engine, work, progress
        )
    await engine.ledger.put_entry(Entry(CURRENT, work.place, {"job": job.id}, now))
    return job


def may_see(job: Job, *, scope: str | None, agent: str, owner: bool) -> bool:
    """Whether the caller may see a job; with a scope, only jobs of that scope."""
    if scope is not None and job.payload.get(SCOPE_KEY) != scope:
        return False
    return owner or (job.name == REINDEX and job.payload.get(VIEWER) == agent)


async def stage_of(engine: Engine, job: Job, progress: Progress | None) -> Stage:
    """Return the stage of a job as callers see it: between two turns it counts as running."""
    if job.state is JobState.DONE:
        return "cancelled" if (job.result or {}).get("cancelled") else "done"
    if job.state is JobState.DEAD:
        return "failed"
    if await is_to_stop(engine, job.id):
        return "cancelled"
    begun = progress is not None and progress.done > 0 and job.error is None
    return "running" if job.state is JobState.RUNNING or begun else "waiting"


def _written_spot(spot: PagePosition) -> str:
    """Encode a position without a plain id: an erasure empties entries that contain an erased id."""
    assert isinstance(spot.value, datetime)
    return f"{spot.value.isoformat()} {base64.b64encode(spot.id.encode()).decode()}"


def _read_spot(written: Any) -> PagePosition | None:
    if not isinstance(written, str):
        return None
    moment, _, last = written.partition(" ")
    return PagePosition(datetime.fromisoformat(moment), base64.b64decode(last).decode())


class ReindexProjectInput(ProjectInput):
    """Which project. `force` takes what has a vector of the present model too; else only what lacks one."""

    force: bool = Field(default=False, description="Also index what is indexed already.", examples=[False])


class ReindexProjectResult(Output):
    """The job that was begun, or the one that is at it already. None is made where nothing is to do.

    Beside messages it takes the project's other memories along: the job's own counts are of all of them.
    """

    status: Literal["reindexing_started", "nothing_to_do"] = Field(
        description="Its status.", examples=["reindexing_started"]
    )
    total_messages: int = Field(description="How many messages there are.", examples=[1523])
    messages_to_index: int = Field(description="How many messages will be indexed.", examples=[15])
    estimated_time_seconds: int = Field(description="Estimated duration in seconds.", examples=[8])
    job_id: str | None = Field(
        default=None, description="The job's id.", examples=["reindex_01jxq3k5v6w7x8y9z0a1b2c3d4"]
    )


class ReindexJobInput(ProjectInput):
    """Which job of which project."""

    job_id: str = Field(
        min_length=1,
        max_length=100,
        description="The job's id.",
        examples=["reindex_01jxq3k5v6w7x8y9z0a1b2c3d4"],
    )


class ReindexStatusResult(Output):
    """How far it is. What has a vector keeps it, whatever becomes of the job."""

    job_id: str = Field(description="The job's id.", examples=["reindex_01jxq3k5v6w7x8y9z0a1b2c3d4"])
    status: Stage = Field(description="Its status.", examples=["cancelled"])
    progress: float = Field(description="Progress, from 0 to 1.", examples=[0.4202])
    done: int = Field(description="How many are done.", examples=[640])
    total: int = Field(description="Total number.", examples=[1523])
    # That are left.
    estimated_time_seconds: int = Field(description="Estimated duration in seconds.", examples=[0])
    created: datetime = Field(description="When it was created.", examples=["2026-11-02T08:15:00Z"])
    finished: datetime | None = None
    error: str | None = None


async def _begin(context: Context, request: ReindexProjectInput) -> ReindexProjectResult:
    """Have a project's missing vectors made, or all of them anew.

    A job with `force` replaces a running one without. Raises ScopeNotFound, ModelError, Conflict if one without `force` was
    queued at the same moment, and the store's errors.
    """
    engine, force = context.engine, request.force
    scope = (await open_project(engine, request.project)).name
    work = _Work(scope, EVERYONE if context.owner else context.agent, force)
    model = await _usable_model(engine, scope)
    job = await _current(engine, work)
    if job is not None and force and not _Work.of(job).force:
        with suppress(Conflict):  # it has ended meanwhile
            await cancel_job(engine, job, stops=True)
        job = None
    if job is None:
        count = await _count(engine, work, model)
        if not count:
            messages, _ = await _messages(engine, work, model)
            return ReindexProjectResult(
                status="nothing_to_do",
                total_messages=messages,
                messages_to_index=0,
                estimated_time_seconds=0,
            )
        job = await _queued(engine, work, Progress(0, count, {"model": model}))
        engine.urgent_job.set()
    job_work = _Work.of(job)
    if force and not job_work.force:
        raise Conflict(
            f"The job {job.id} was begun at the same moment, which makes only the vectors that are missing.",
            advice="Ask for `force` again.",
        )
    messages, to_embed = await _messages(engine, job_work, model)
    return ReindexProjectResult(
        status="reindexing_started",
        total_messages=messages,
        messages_to_index=to_embed,
        estimated_time_seconds=(await _status(engine, job)).estimated_time_seconds,
        job_id=job.id,
    )


REINDEX_PROJECT = operation("reindex_project", _begin, writes=True)


async def _look(context: Context, request: ReindexJobInput) -> ReindexStatusResult:
    """How far the making of a project's vectors is."""
    return await _status(context.engine, await _job(context, request))


REINDEX_STATUS = operation("reindex_status", _look, reads=True)


async def _cancel(context: Context, request: ReindexJobInput) -> ReindexStatusResult:
    """Give up the making of a project's vectors, waiting or under way.

    Vectors that were made stay. Raises Conflict if the job has ended.
    """
    job = await _job(context, request)
    status = await _status(context.engine, job)
    if status.status == "cancelled":
        return status
    return await _status(context.engine, await cancel_job(context.engine, job, stops=True))


CANCEL_REINDEX = operation("cancel_reindex", _cancel, writes=True)


async def _job(context: Context, request: ReindexJobInput) -> Job:
    scope = (await open_project(context.engine, request.project)).name
    with suppress(JobNotFound):
        job = await context.engine.store.job(request.job_id)
        if job.name == REINDEX and may_see(job, scope=scope, agent=context.agent, owner=context.owner):
            return job
    raise JobNotFound(f"There is no such job {request.job_id!r} of {scope!r}.", advice="Begin another one.")


async def _status(engine: Engine, job: Job) -> ReindexStatusResult:
    progress = await progress_of(engine, job.id) or Progress(0, 0)
    stage = await stage_of(engine, job, progress)
    finished = job.finished
    if stage == "cancelled" and finished is None:  # its turn may still be running
        finished = await stopped_at(engine, job.id)
    seconds_left = 0
    if stage in ("waiting", "running"):
        model = str(progress.more.get("model", ""))
        seconds_left = await seconds_for(engine, model, max(0, progress.total - progress.done))
    return ReindexStatusResult(
        job_id=job.id,
        status=stage,
        progress=1.0 if stage == "done" else round(progress.share, 4),
        done=progress.done,
        total=progress.total,
        estimated_time_seconds=seconds_left,
        created=job.created,
        finished=finished,
        error=job.error,
    )
