"""Small asyncio tools: run work concurrently, shield it from cancellation, and change notification."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


async def run_uncancelled(work: Coroutine[Any, Any, T]) -> T:
    """What must not stop half-way: a caller who gives up leaves when it is done."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # nobody is left to tell
        raise


@asynccontextmanager
async def run_concurrently(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """The work runs beside the body and is done when it ends; if the body fails, the work is given up."""
    task = asyncio.create_task(work)
    await asyncio.sleep(0)  # it begins before this thread turns to the body
    try:
        yield task
        await task
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})  # and not itself: that would swallow a cancellation of the caller


class ChangeNotifier:
    """Beats are counted, so that one which came while somebody looked elsewhere isn't missed."""

    def __init__(self) -> None:
        self.beats = 0
        self._waited_for: asyncio.Event | None = None

    def beat(self) -> None:
        """Something was done."""
        self.beats += 1
        if self._waited_for is not None:
            self._waited_for.set()
            self._waited_for = None

    async def wait(self, seen: int, *, seconds: float) -> int:
        """Until there were more beats than were `seen`, at most so long; how many there were."""
        if self.beats == seen:
            if self._waited_for is None:
                self._waited_for = asyncio.Event()
            waiting = asyncio.ensure_future(self._waited_for.wait())
            await asyncio.wait({waiting}, timeout=seconds)
            waiting.cancel()
        return self.beats
