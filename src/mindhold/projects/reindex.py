"""Recomputes the vectors of a project in a job that works in turns, can be resumed and cancelled."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from mindhold.access.secrets import fingerprint
from mindhold.engine import Engine
from mindhold.jobs.progress import Progress, cancel_job, is_to_stop, note_progress, progress_of, stopped_at
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
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.store import Enqueue
from mindhold.projects.placement import mode_of, open_project
from mindhold.projects.storage import stores_without_vectors

REINDEX = "reindex"
CURRENT = "reindex"  # the drawer: by project and whose, the job that is at it or was last
FORCE, VIEWER = "force", "viewer"  # in the payload
TURN = 2.0  # seconds
BATCH = 64
FEW = 8  # of them while questions are asked, and then a pause as long: those come first
LATELY = 1.0  # seconds
PAGE = 512
ALIVE = tuple(status for status in ANY_STATUS if status is not Status.FORGOTTEN)
Stage = Literal["waiting", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class ReindexStart:
    """What was asked for. No job: there was nothing to do. Of `messages` so many get a vector, beside other memories."""

    job: Job | None
    messages: int
    wanted: int
    seconds: int


@dataclass(frozen=True, slots=True)
class ReindexStatus:
    """How far a job is."""

    job: Job
    stage: Stage
    done: int
    total: int
    share: float
    seconds: int  # that are left, as far as can be told
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ReindexTurn:
    """What a turn came to."""

    embedded: int
    finished: bool
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class _Work:
    """What a job is to do, as its payload says."""

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


async def begin_reindex(
    engine: Engine, project: str | None, *, agent: str, owner: bool, force: bool = False
) -> ReindexStart:
    """Queue it, or answer the one that is under way. A forced one takes the place of one that isn't.

    Raises ScopeNotFound, ModelError, Conflict where an unforced one was asked for at the same moment, and the store's errors.
    """
    scope = (await open_project(engine, project)).name
    work = _Work(scope, EVERYONE if owner else agent, force)
    model = await _usable_model(engine, scope)
    current = await _current(engine, work)
    if current is not None and work.force and not _Work.of(current).force:
        with suppress(Conflict):  # it has ended meanwhile
            await cancel_job(engine, current, stops=True)
        current = None
    if current is None:
        count = await _count(engine, work, model)
        if not count:
            return ReindexStart(None, (await _messages(engine, work, model))[0], 0, 0)
        current = await _queued(engine, work, Progress(0, count, {"model": model}))
        engine.urgent_job.set()
    its = _Work.of(current)
    if work.force and not its.force:
        raise Conflict(
            f"The job {current.id} was begun at the same moment, which makes only the vectors that are missing.",
            advice="Ask for `force` again.",
        )
    messages, wanted = await _messages(engine, its, model)
    return ReindexStart(current, messages, wanted, (await _standing(engine, current)).seconds)


async def reindex_status(
    engine: Engine, project: str | None, job_id: str, *, agent: str, owner: bool
) -> ReindexStatus:
    """Raises ScopeNotFound, JobNotFound."""
    return await _standing(engine, await _job(engine, project, job_id, agent=agent, owner=owner))


async def cancel_reindex(
    engine: Engine, project: str | None, job_id: str, *, agent: str, owner: bool
) -> ReindexStatus:
    """What has a vector by then keeps it. Raises ScopeNotFound, JobNotFound, Conflict for one that has ended."""
    job = await _job(engine, project, job_id, agent=agent, owner=owner)
    standing = await _standing(engine, job)
    if standing.stage == "cancelled":
        return standing
    return await _standing(engine, await cancel_job(engine, job, stops=True))


async def reindex(engine: Engine, job: Job, *, seconds: float = TURN) -> ReindexTurn:
    """One turn. Raises ModelError, and the store's errors; what was done until then stays done."""
    work = _Work.of(job)
    try:
        model = await _usable_model(engine, (await open_project(engine, work.scope)).name)
    except ScopeNotFound:  # deleted or renamed meanwhile
        return ReindexTurn(0, finished=True, cancelled=True)
    progress = await progress_of(engine, job.id)
    if progress is None or progress.more.get("model") != model:  # another one by now: all from the beginning
        progress = Progress(0, await _count(engine, work, model), {"model": model})
    turn = _Turn(engine, job, work, model, progress)
    begun = time.monotonic()
    turned = await turn.run(until=begun + seconds)
    await note_speed(engine, model, turned.embedded, time.monotonic() - begun)
    return turned


class _Turn:
    """One at work."""

    def __init__(self, engine: Engine, job: Job, work: _Work, model: str, progress: Progress) -> None:
        self._engine = engine
        self._job = job
        self._work = work
        self._model = model
        self._progress = progress
        self._ahead: list[Memory] = []
        self._spot = _read_spot(progress.more.get("spot"))

    async def run(self, *, until: float) -> ReindexTurn:
        """At least a batch."""
        may = await sendable(self._engine, self._model)
        embedded, looked = 0, False
        while not looked or time.monotonic() < until:
            looked = True
            if await self._is_given_up():
                return ReindexTurn(embedded, finished=True, cancelled=True)
            batch = await self._next()
            if batch is None:
                return ReindexTurn(embedded, finished=True)
            wanted = [memory for memory in batch if self._is_wanted(memory) and may(memory)]
            begun = time.monotonic()
            put = await self._embed(wanted) if wanted else 0
            if self._engine.vector_source.asked_within(LATELY):
                await asyncio.sleep(time.monotonic() - begun)
            if wanted and not put and not self._walks:  # all of them changed meanwhile, or it takes none
                return ReindexTurn(embedded, finished=True)
            embedded += put
            await self._note(batch, len(wanted))
        return ReindexTurn(embedded, finished=False)

    @property
    def _size(self) -> int:
        return min(BATCH, FEW) if self._engine.vector_source.asked_within(LATELY) else BATCH

    @property
    def _walks(self) -> bool:
        """Whether it goes through all of the project in order, and doesn't ask for what lacks a vector."""
        return (
            self._work.force or self._work.viewer != EVERYONE or self._engine.vector_source.terms is not None
        )

    def _is_wanted(self, memory: Memory) -> bool:
        return self._work.force or memory.embedded_by != self._model

    async def _next(self) -> Sequence[Memory] | None:
        """None at the end."""
        store = self._engine.store
        if not self._walks:
            return await store.unembedded(self._model, limit=self._size, scopes=[self._work.scope]) or None
        if not self._ahead:
            # What is saved meanwhile has its vector, and stands at the end or is passed by.
            self._ahead = await store.find(self._work.where, order=Order.OLDEST, limit=PAGE, after=self._spot)
            if not self._ahead:
                return None
        batch, self._ahead = self._ahead[: self._size], self._ahead[self._size :]
        return batch

    async def _embed(self, memories: Sequence[Memory]) -> int:
        matrix = await self._engine.vector_source.embed([memory.content for memory in memories])
        if matrix is None:
            raise ModelError(self._engine.vector_source.reason)
        rows = {memory.id: (memory.content_hash, row) for memory, row in zip(memories, matrix, strict=True)}
        return await self._engine.store.put_vectors(rows, model=self._model)

    async def _note(self, batch: Sequence[Memory], count: int) -> None:
        more: dict[str, Any] = {"model": self._model}
        if self._walks:
            self._spot = PagePosition.of(batch[-1], Order.OLDEST)
            more["spot"] = _written_spot(self._spot)
        self._progress = Progress(self._progress.done + count, self._progress.total, more)
        await note_progress(self._engine, self._job.id, self._progress)

    async def _is_given_up(self) -> bool:
        if await is_to_stop(self._engine, self._job.id):
            return True
        current = await _current(self._engine, self._work)
        return current is not None and current.id != self._job.id  # two were asked for at one moment


async def _usable_model(engine: Engine, scope: str) -> str:
    """Raises ModelError where there is none, or it may not be asked, or the project's store keeps no vectors."""
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
    """How many there are, and how many of them it is about."""
    tally = await engine.store.tally(replace(work.where, turns=True), "embedded_by")
    there = sum(tally.values())
    return there, there if work.force else there - tally.get(model, 0)


async def _count(engine: Engine, work: _Work, model: str) -> int:
    """How many memories it is about. Raises ModelMismatch where a service may be sent none of those."""
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
    """The job that is at it, if one is."""
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
    """A new one, or that of somebody who asked at the same moment."""
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


async def _job(engine: Engine, project: str | None, job_id: str, *, agent: str, owner: bool) -> Job:
    scope = (await open_project(engine, project)).name
    try:
        job = await engine.store.job(job_id)
    except JobNotFound:
        job = None
    if job is None or job.name != REINDEX or not may_see(job, scope=scope, agent=agent, owner=owner):
        raise JobNotFound(f"There is no such job {job_id!r} of {scope!r}.", advice="Begin another one.")
    return job


def may_see(job: Job, *, scope: str | None, agent: str, owner: bool) -> bool:
    """Whether a job is one of the scope's, or of any, that the caller may know of."""
    if scope is not None and job.payload.get(SCOPE_KEY) != scope:
        return False
    return owner or (job.name == REINDEX and job.payload.get(VIEWER) == agent)


async def _standing(engine: Engine, job: Job) -> ReindexStatus:
    progress = await progress_of(engine, job.id) or Progress(0, 0)
    stage = await stage_of(engine, job, progress)
    if stage == "cancelled" and job.finished is None:  # its turn may still be under way
        job = replace(job, finished=await stopped_at(engine, job.id))
    share = 1.0 if stage == "done" else progress.share
    left = 0
    if stage in ("waiting", "running"):
        model = str(progress.more.get("model", ""))
        left = await seconds_for(engine, model, max(0, progress.total - progress.done))
    return ReindexStatus(job, stage, progress.done, progress.total, share, left, job.error)


async def stage_of(engine: Engine, job: Job, progress: Progress | None) -> Stage:
    """Where a job is in its life, as those see it who asked for it: between two turns it runs."""
    if job.state is JobState.DONE:
        return "cancelled" if (job.result or {}).get("cancelled") else "done"
    if job.state is JobState.DEAD:
        return "failed"
    if await is_to_stop(engine, job.id):
        return "cancelled"
    begun = progress is not None and progress.done > 0 and job.error is None
    return "running" if job.state is JobState.RUNNING or begun else "waiting"


def _written_spot(spot: PagePosition) -> str:
    """As no id: an erasure empties the entries that name what is gone."""
    assert isinstance(spot.value, datetime)
    return f"{spot.value.isoformat()} {base64.b64encode(spot.id.encode()).decode()}"


def _read_spot(written: Any) -> PagePosition | None:
    if not isinstance(written, str):
        return None
    moment, _, last = written.partition(" ")
    return PagePosition(datetime.fromisoformat(moment), base64.b64decode(last).decode())


class ReindexProjectInput(Input):
    """Which project. `force` takes what has a vector of the present model too; else only what lacks one."""

    project: str | None = Field(
        default=None, description="The project's id, which is its name.", examples=["proj_123"]
    )
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


class ReindexJobInput(Input):
    """Which job of which project."""

    project: str | None = Field(
        default=None, description="The project's id, which is its name.", examples=["proj_123"]
    )
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
    progress: float = Field(description="Progress, from 0 to 1.", examples=[0.4202])  # from 0 to 1
    done: int = Field(description="How many are done.", examples=[640])
    total: int = Field(description="Total number.", examples=[1523])
    estimated_time_seconds: int = Field(
        description="Estimated duration in seconds.", examples=[0]
    )  # that are left
    created: datetime = Field(description="When it was created.", examples=["2026-11-02T08:15:00Z"])
    finished: datetime | None = None
    error: str | None = None

    @classmethod
    def of(cls, standing: ReindexStatus) -> ReindexStatusResult:
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


async def _begin(context: Context, request: ReindexProjectInput) -> ReindexProjectResult:
    """Have a project's missing vectors made, or all of them anew."""
    begun = await begin_reindex(
        context.engine, request.project, agent=context.agent, owner=context.owner, force=request.force
    )
    return ReindexProjectResult(
        status="nothing_to_do" if begun.job is None else "reindexing_started",
        total_messages=begun.messages,
        messages_to_index=begun.wanted,
        estimated_time_seconds=begun.seconds,
        job_id=None if begun.job is None else begun.job.id,
    )


REINDEX_PROJECT = operation("reindex_project", _begin, writes=True)


async def _look(context: Context, request: ReindexJobInput) -> ReindexStatusResult:
    """How far the making of a project's vectors is."""
    found = await reindex_status(
        context.engine, request.project, request.job_id, agent=context.agent, owner=context.owner
    )
    return ReindexStatusResult.of(found)


REINDEX_STATUS = operation("reindex_status", _look, reads=True)


async def _cancel(context: Context, request: ReindexJobInput) -> ReindexStatusResult:
    """Give up the making of a project's vectors, waiting or under way."""
    found = await cancel_reindex(
        context.engine, request.project, request.job_id, agent=context.agent, owner=context.owner
    )
    return ReindexStatusResult.of(found)


CANCEL_REINDEX = operation("cancel_reindex", _cancel, writes=True)
