"""Upkeep of what is remembered, stage by stage. A stage tells what it did; one that found nothing to do says 0."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from recollect.engine.conversations import end_abandoned
from recollect.engine.core import Engine
from recollect.engine.embed import embed_missing

CURSOR = "consolidated"


@dataclass(frozen=True, slots=True)
class Stage:
    """What one stage did."""

    name: str
    changed: int
    detail: str


Step = Callable[[Engine], Awaitable[Stage]]


async def _embed(engine: Engine) -> Stage:
    done = await embed_missing(engine)
    reason = engine.meaning.reason
    return Stage("embed", done, reason or f"{done} memories got the vector that they lacked")


async def _working_memory(engine: Engine) -> Stage:
    ended = await end_abandoned(engine)
    return Stage("working_memory", ended, f"{ended} memories ended with their conversations")


async def _entries(engine: Engine) -> Stage:
    dropped = await engine.store.drop_expired(engine.clock())
    return Stage("entries", dropped, f"{dropped} expired entries were dropped")


async def _optimise(engine: Engine) -> Stage:
    freed = await engine.store.optimise()
    return Stage("optimise", int(freed > 0), f"{freed} bytes were freed")


STEPS: Mapping[str, Step] = {
    "embed": _embed,
    "working_memory": _working_memory,
    "entries": _entries,
    "optimise": _optimise,
}


async def note_consolidated(engine: Engine) -> None:
    """When it was done last."""
    await engine.store.set_cursor(CURSOR, engine.clock().isoformat())


async def last_consolidated(engine: Engine) -> datetime | None:
    """None when it never was."""
    noted = await engine.store.cursor(CURSOR)
    return datetime.fromisoformat(noted) if noted else None
