"""How many messages a project has, how many of them are found by meaning, and how its index is."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from mindhold.engine.core import Engine
from mindhold.engine.embed import EMBED
from mindhold.engine.housing import mode_of
from mindhold.engine.messages import messages_where
from mindhold.engine.projects import open_project
from mindhold.engine.storage import without_vectors
from mindhold.model.errors import Refused, SettingsError, StoreError
from mindhold.model.job import JobState
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order
from mindhold.ports.store import StoreFacts

Health = Literal["healthy", "degraded", "rebuilding"]
INDEXING = frozenset({EMBED, "reindex"})  # jobs that make vectors


@dataclass(frozen=True, slots=True)
class ProjectStats:
    """Counts are of messages, a long one once. `facts` is None for callers who are not to know of the store."""

    project: str
    mode: str
    total: int
    indexed: int
    oldest: datetime | None
    newest: datetime | None
    dimensions: int | None
    health: Health
    note: str  # why it is not healthy
    facts: StoreFacts | None


async def project_stats(engine: Engine, project: str | None, *, agent: str) -> ProjectStats:
    """Cheap, however many there are. Raises ScopeNotFound."""
    name = (await open_project(engine, project)).name
    where = messages_where(name, viewer=agent)
    mode = await mode_of(engine, name)
    counts = await engine.store.tally(where, "embedded_by")
    model = engine.meaning.model
    total, indexed = sum(counts.values()), counts.get(model or "", 0) if model else 0
    newest = await _end(engine, where, Order.NEWEST)
    health, note = await _health(engine, mode, unindexed=total - indexed)
    return ProjectStats(
        project=name,
        mode=mode,
        total=total,
        indexed=indexed,
        oldest=moment(await _end(engine, where, Order.OLDEST)),
        newest=moment(newest),
        dimensions=await _dimensions(engine, newest),
        health=health,
        note=note,
        facts=await _facts(engine, mode),
    )


def moment(memory: Memory | None) -> datetime | None:
    return None if memory is None else memory.occurred


async def _end(engine: Engine, where: Filter, order: Order) -> Memory | None:
    return next(iter(await engine.store.find(where, order=order, limit=1)), None)


async def _dimensions(engine: Engine, newest: Memory | None) -> int | None:
    """Of a stored vector where there is one: asking a model may load it."""
    model = engine.meaning.model
    if model is not None and newest is not None:
        for vector in (await engine.store.vector_of([newest.id], model=model)).values():
            return len(vector)
    return await engine.meaning.dimensions()


async def _health(engine: Engine, mode: str, *, unindexed: int) -> tuple[Health, str]:
    if why := (await without_vectors(engine, [mode])).get(mode):
        return "degraded", why
    if engine.meaning.model is None or engine.meaning.reason:
        return "degraded", engine.meaning.reason or "There is no embedding model: found by words alone."
    if not unindexed:
        return "healthy", ""
    jobs = await engine.store.jobs(states=(JobState.WAITING, JobState.RUNNING))
    if any(job.name in INDEXING for job in jobs):
        return "rebuilding", f"{unindexed} messages wait for their vectors."
    return "degraded", f"{unindexed} messages have no vector: reindex the project."


async def _facts(engine: Engine, mode: str) -> StoreFacts | None:
    with suppress(Refused, SettingsError, StoreError):
        store = engine.store if mode == engine.houses.home else await engine.houses.house(mode)
        return await store.facts()
    return None
