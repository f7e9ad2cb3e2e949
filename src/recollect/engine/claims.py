"""Work that several could begin at the same time, in whatever processes, and that only one must do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

from recollect.engine.core import Engine
from recollect.engine.keys import fingerprint
from recollect.model.errors import StoreError

CLAIM = "claim:"
HELD = timedelta(minutes=10)  # by one that died: then another may


@asynccontextmanager
async def claim(engine: Engine, work: str) -> AsyncIterator[bool]:
    """Whether the work is this caller's for the time of the context. Raises the store's errors."""
    name = CLAIM + fingerprint(work)
    now = engine.clock()
    held = await engine.store.cursor(name)
    own = f"{(now + HELD).isoformat()} {engine.new_id()}"
    free = held is None or datetime.fromisoformat(held.split()[0]) <= now
    if not free or not await engine.store.swap_cursor(name, old=held, new=own):
        yield False
        return
    try:
        yield True
    finally:
        with suppress(StoreError):  # then it ends by itself
            await engine.store.swap_cursor(name, old=own, new=None)
