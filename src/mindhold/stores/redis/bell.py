"""Wakes those who run jobs. The jobs themselves are in the store."""

from __future__ import annotations

import asyncio
import time

from mindhold.model.errors import StoreError
from mindhold.stores.redis.line import Client, Line
from mindhold.stores.redis.names import Names

AT_ONCE = 5.0  # seconds of one wait, so that a line that was cut is noticed
MOST_WAITING = 100
KEPT = 3_600


class RedisBell:
    """A word in a list for each job: one of those who wait gets it, and one who comes later too."""

    def __init__(self, line: Line, names: Names) -> None:
        self._line = line
        self._names = names
        self._ringing: set[asyncio.Task[None]] = set()

    def ring(self) -> None:
        """Nobody waits for it."""
        task = asyncio.create_task(self._ring())
        self._ringing.add(task)
        task.add_done_callback(self._ringing.discard)

    async def wait(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                if await self._line.await_word(self._names.queue, seconds=max(0.1, min(left, AT_ONCE))):
                    return True
            except StoreError:
                await asyncio.sleep(min(left, AT_ONCE))
        return False

    async def close(self) -> None:
        await asyncio.gather(*self._ringing)

    async def _ring(self) -> None:
        async def work(redis: Client) -> None:
            async with redis.pipeline() as pipe:
                pipe.lpush(self._names.queue, b"1")
                pipe.ltrim(self._names.queue, 0, MOST_WAITING - 1)
                pipe.expire(self._names.queue, KEPT)
                await pipe.execute()

        try:
            await self._line.ask(work)
        except StoreError:
            return  # they look by themselves now and then
