"""Claims: work that several processes could start at the same time and that only one of them may do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

from mindhold.access.secrets import fingerprint
from mindhold.engine import Engine
from mindhold.model.errors import StoreError

CLAIM = "claim:"
HELD = timedelta(minutes=10)  # by one that died: then another may
RENEW_EVERY = 60.0
log = logging.getLogger(__name__)


async def _a_while() -> None:
    await asyncio.sleep(RENEW_EVERY)


@asynccontextmanager
async def claim(
    engine: Engine,
    work: str,
    *,
    pause: Callable[[], Awaitable[None]] = _a_while,
    held: timedelta = HELD,
) -> AsyncIterator[bool]:
    """Whether the work is this caller's for the time of the context, however long: it is renewed after each `pause`.

    `held` is how long others wait for one that died; work that takes longer than `pause` needs more than that. Raises the store's errors.
    """
    name, owner = CLAIM + fingerprint(work), engine.new_id()
    now = engine.clock()
    other = await engine.store.cursor(name)
    free = other is None or datetime.fromisoformat(other.split()[0]) <= now
    own = _note(engine, owner, held)
    if not free or not await engine.store.swap_cursor(name, old=other, new=own):
        yield False
        return
    renewal = asyncio.create_task(_keep(engine, name, owner, pause, held))
    try:
        yield True
    finally:
        renewal.cancel()
        await asyncio.wait({renewal})  # and not itself: that would swallow a cancellation of the caller
        with suppress(StoreError):  # then it ends by itself
            await _swap(engine, name, owner, new=None)


async def _keep(
    engine: Engine, name: str, owner: str, pause: Callable[[], Awaitable[None]], held: timedelta
) -> None:
    while True:
        await pause()
        try:
            if not await _swap(engine, name, owner, new=_note(engine, owner, held)):
                log.warning("the claim %s was lost to another process", name)
                return
        except StoreError as error:
            log.warning("the claim %s was not renewed: %s", name, error)


async def _swap(engine: Engine, name: str, owner: str, *, new: str | None) -> bool:
    """Whether it was still the owner's."""
    held = await engine.store.cursor(name)
    if held is None or held.split()[1] != owner:
        return False
    return await engine.store.swap_cursor(name, old=held, new=new)


def _note(engine: Engine, owner: str, held: timedelta) -> str:
    return f"{(engine.clock() + held).isoformat()} {owner}"
