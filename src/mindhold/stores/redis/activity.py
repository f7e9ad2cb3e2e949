"""What is done in conversations, counted over all servers."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from mindhold.model.access import sees
from mindhold.model.errors import StoreError
from mindhold.ports.cache import Active
from mindhold.stores.redis.line import Client, Line
from mindhold.stores.redis.names import Names

MOST_SHOWN = 100
MOST_LOOKED_AT = 1_000
Key = tuple[str, str]  # agent, conversation


class RedisActivity:
    """Gathers while it writes, so that a busy conversation costs one write at a time."""

    def __init__(self, line: Line, names: Names, *, seconds: int) -> None:
        self._line = line
        self._names = names
        self._seconds = seconds
        self._gathered: dict[Key, Counter[str]] = {}
        self._writing: asyncio.Task[None] | None = None

    def note(self, conversation: str, *, agent: str, counts: Mapping[str, int]) -> None:
        if self._line.fault is not None:
            return
        self._gathered.setdefault((agent, conversation), Counter()).update(counts)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def recent(self, *, viewer: str) -> list[Active]:
        async def latest(redis: Client) -> Any:
            return await redis.zrevrange(self._names.active, 0, MOST_LOOKED_AT - 1, withscores=True)

        try:
            listed = [(json.loads(member), at) for member, at in await self._line.ask(latest)]
            seen = [each for each in listed if sees(viewer, each[0][0])][:MOST_SHOWN]
            keys = [self._names.activity(agent, conversation) for (agent, conversation), _ in seen]
            counts = await self._line.ask(lambda redis: _counts(redis, keys)) if keys else []
        except StoreError:
            return []
        return [
            Active(agent, conversation, datetime.fromtimestamp(at, UTC), counted)
            for ((agent, conversation), at), counted in zip(seen, counts, strict=True)
            if counted
        ]

    async def close(self) -> None:
        if self._writing is not None:
            await self._writing

    async def _write(self) -> None:
        while self._gathered:
            gathered, self._gathered = self._gathered, {}
            try:
                await self._line.ask(lambda redis: self._written(redis, gathered))  # noqa: B023
            except StoreError:
                return  # a count is lost, no call

    async def _written(self, redis: Client, gathered: Mapping[Key, Counter[str]]) -> None:
        now = time.time()
        async with redis.pipeline(transaction=False) as pipe:
            for (agent, conversation), counts in gathered.items():
                key = self._names.activity(agent, conversation)
                for name, number in counts.items():
                    pipe.hincrby(key, name, number)
                pipe.expire(key, self._seconds)
                pipe.zadd(self._names.active, {json.dumps([agent, conversation]): now})
            pipe.zremrangebyscore(self._names.active, "-inf", now - self._seconds)
            pipe.expire(self._names.active, self._seconds)
            await pipe.execute()


async def _counts(redis: Client, keys: list[str]) -> list[dict[str, int]]:
    async with redis.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.hgetall(key)
        found = await pipe.execute()
    return [{name.decode(): int(number) for name, number in each.items()} for each in found]
