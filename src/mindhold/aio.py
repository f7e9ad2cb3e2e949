"""Small asyncio tools: run work concurrently, shield it from cancellation, and change notification."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


async def run_uncancelled(work: Coroutine[Any, Any, T]) -> T:
    """Run work to its end even if the caller is cancelled; the cancellation is raised afterwards."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # mark the exception as retrieved: nobody is left to handle it
        raise


CANCEL_SECONDS = 5.0  # then a task that goes on is cancelled again


async def cancel_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks, and wait until they have ended; their results and errors stay in them.

    In Python 3.11 a cancellation that meets the end of a timeout can get lost, so it is repeated. The tasks are not awaited
    themselves, which would swallow a cancellation of the caller.
    """
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=CANCEL_SECONDS)


@asynccontextmanager
async def run_concurrently(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Run work concurrently with the body, and wait for it at the end; if the body fails, the work is cancelled."""
    task = asyncio.create_task(work)
    await asyncio.sleep(0)  # so that it starts before the body
    try:
        yield task
        await task
    finally:
        await cancel_tasks(task)


class ChangeNotifier:
    """Notifies waiters of changes, which are counted, so that a change between two waits isn't missed."""

    def __init__(self) -> None:
        self.beats = 0
        self._waited_for: asyncio.Event | None = None

    def beat(self) -> None:
        """Notify waiters of a change."""
        self.beats += 1
        if self._waited_for is not None:
            self._waited_for.set()
            self._waited_for = None

    async def wait(self, seen: int, *, seconds: float) -> int:
        """Wait until there are more changes than `seen`, at most so long; return their number."""
        if self.beats == seen:
            if self._waited_for is None:
                self._waited_for = asyncio.Event()
            waiting = asyncio.ensure_future(self._waited_for.wait())
            await asyncio.wait({waiting}, timeout=seconds)
            waiting.cancel()
        return self.beats
