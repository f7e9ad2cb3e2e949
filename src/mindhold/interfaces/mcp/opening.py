"""The engine behind a door that answers before the engine is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from mindhold.interfaces.running import Running


class Opening:
    """Opens Mindhold once, on the first call or when told to begin; after a failure the next call tries again."""

    def __init__(self, opener: Callable[[], AbstractAsyncContextManager[Running]]) -> None:
        self._opener = opener
        self._stack = AsyncExitStack()
        self._task: asyncio.Task[Running] | None = None

    def begin(self) -> None:
        """Open in the background."""
        if self._task is None:
            self._task = asyncio.create_task(self._open())
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def running(self) -> Running:
        """Mindhold, open. Raises what opening raised."""
        if (
            self._task is not None
            and self._task.done()
            and (self._task.cancelled() or self._task.exception())
        ):
            self._task = None
        self.begin()
        assert self._task is not None
        return await asyncio.shield(self._task)

    @property
    def opened(self) -> Running | None:
        """Mindhold, if it is open by now."""
        task = self._task
        return (
            task.result() if task and task.done() and not task.cancelled() and not task.exception() else None
        )

    async def close(self) -> None:
        """Close what was opened; waits for an opening under way, so that nothing is left half open."""
        if self._task is not None:
            await asyncio.wait({self._task})
        await self._stack.aclose()

    async def _open(self) -> Running:
        running = await self._stack.enter_async_context(self._opener())
        running.warm(patient=False)
        return running
