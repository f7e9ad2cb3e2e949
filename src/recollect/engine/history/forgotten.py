"""Conversations that somebody had forgotten: they are in no index, no archive and no capture again."""

from __future__ import annotations

from recollect.engine.core import Engine
from recollect.model.entry import Entry

DRAWER = "history:forgotten"
MOST = 1_000_000


async def forgotten_sessions(engine: Engine) -> set[str]:
    """Their ids. Raises the store's errors."""
    return {entry.key for entry in await engine.store.entries(DRAWER, now=engine.clock(), limit=MOST)}


async def note_forgotten(engine: Engine, session_id: str) -> None:
    """For good. Raises the store's errors."""
    await engine.store.put_entry(Entry(DRAWER, session_id, {}, engine.clock()))


async def is_forgotten(engine: Engine, session_id: str) -> bool:
    """Whether this one is among them."""
    return await engine.store.entry(DRAWER, session_id, now=engine.clock()) is not None
