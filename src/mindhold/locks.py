"""Locks: who may do a piece of work that several could start at the same time.

There are three kinds. NamedLocks is for tasks of one process. claim() and wait_for_claim() are for processes that share a
store. `mindhold.hooks.lease` is for processes that share a folder: a file lock, which the system ends with its holder and which
needs no store. Two others stay apart, because their state is part of a larger value that changes in one swap:
`projects.copy.ProjectLease` in the registry of projects, and the held keys of `memories.idempotency`, of which thousands share
a cursor. Stores have their own: the lease of a job, the lease of a writer to a MongoDB without transactions, and the
read-write lock of the index in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from mindhold.access.secrets import fingerprint
from mindhold.aio import cancel_tasks
from mindhold.model.errors import StoreError

if TYPE_CHECKING:
    from mindhold.engine import Engine


CLAIM = "claim:"
HELD = timedelta(minutes=10)  # after a process died, others may claim its work only then
RENEW_SECONDS = 60.0
BRIEFLY_HELD, BRIEF_RENEW_SECONDS = timedelta(seconds=5), 1.0  # of a claim that others wait for
WAIT_TRIES, WAIT_SECONDS = 80, 0.1  # how often a waiting caller looks, and the pause between two looks
log = logging.getLogger(__name__)


class NamedLocks:
    """A lock for each name, within this process; a lock exists while somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, name: str) -> asyncio.Lock:
        """The lock of that name. Waiting tasks get it in the order in which they came."""
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock


async def _renewal_pause() -> None:
    await asyncio.sleep(RENEW_SECONDS)


async def _brief_renewal_pause() -> None:
    await asyncio.sleep(BRIEF_RENEW_SECONDS)


@asynccontextmanager
async def claim(
    engine: Engine,
    work: str,
    *,
    pause: Callable[[], Awaitable[None]] = _renewal_pause,
    held: timedelta = HELD,
) -> AsyncIterator[bool]:
    """Claim work among all processes of the store; yields whether it is this caller's until the context ends.

    The claim is renewed after each `pause`. `held` is how long others wait for a process that died; it must be longer than
    the pause. Raises the store's errors.
    """
    name, owner = CLAIM + fingerprint(work), engine.new_id()
    now = engine.clock()
    other = await engine.store.cursor(name)
    free = other is None or datetime.fromisoformat(other.split()[0]) <= now
    if not free or not await engine.store.swap_cursor(name, old=other, new=_note(engine, owner, held)):
        yield False
        return
    renewal = asyncio.create_task(_renew(engine, name, owner, pause, held))
    try:
        yield True
    finally:
        await cancel_tasks(renewal)
        with suppress(StoreError):  # it then expires by itself
            await _swap(engine, name, owner, new=None)


@asynccontextmanager
async def wait_for_claim(engine: Engine, work: str) -> AsyncIterator[bool]:
    """Claim work as soon as nobody else has it; yields False if that takes too long. Raises the store's errors."""
    for _ in range(WAIT_TRIES):
        async with claim(engine, work, pause=_brief_renewal_pause, held=BRIEFLY_HELD) as acquired:
            if acquired:
                yield True
                return
        await asyncio.sleep(WAIT_SECONDS)
    yield False


async def _renew(
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
    """Replace the owner's note; return whether it was still the owner's."""
    note = await engine.store.cursor(name)
    if note is None or note.split()[1] != owner:
        return False
    return await engine.store.swap_cursor(name, old=note, new=new)


def _note(engine: Engine, owner: str, held: timedelta) -> str:
    return f"{(engine.clock() + held).isoformat()} {owner}"
