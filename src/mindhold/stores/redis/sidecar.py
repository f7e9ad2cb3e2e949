"""The Redis sidecar of a store: cache, activity of conversations, job wake-ups, and the store wrapper that notifies it."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from mindhold.model.errors import MindholdError, StoreDenied, StoreError
from mindhold.model.memory import Memory
from mindhold.model.scope import sees
from mindhold.ports.cache import ActiveConversation, SidecarFacts
from mindhold.ports.store import Change, Enqueue, Put, Receipt, Revise, Store
from mindhold.stores.base import StoreWrapper
from mindhold.stores.redis.connection import Client, KeyNames, RedisAddress, RedisConnection
from mindhold.stores.redis.keywords import RedisKeywordSets

MOST_SHOWN = 100
MOST_LOOKED_AT = 1_000
Key = tuple[str, str]  # agent, conversation


class RedisActivity:
    """Implements Activity. Gathers counts while it writes, so that a busy conversation costs one write at a time."""

    def __init__(self, line: RedisConnection, names: KeyNames, *, seconds: int) -> None:
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

    async def recent(self, *, viewer: str) -> list[ActiveConversation]:
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
            ActiveConversation(agent, conversation, datetime.fromtimestamp(at, UTC), counted)
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
                return  # a count is lost, but no call fails

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
        answers = await pipe.execute()
    return [{name.decode(): int(number) for name, number in each.items()} for each in answers]


AT_ONCE = 5.0  # seconds of one wait, so that a lost connection is noticed
MOST_WAITING = 100
KEPT = 3_600


class RedisJobSignal:
    """Implements JobSignal. Pushes a word to a list for each job: one waiting runner gets it, or the next one that waits."""

    def __init__(self, line: RedisConnection, names: KeyNames) -> None:
        self._line = line
        self._names = names
        self._ringing: set[asyncio.Task[None]] = set()

    def ring(self) -> None:
        """Signal in the background."""
        task = asyncio.create_task(self._ring())
        self._ringing.add(task)
        task.add_done_callback(self._ringing.discard)

    async def wait(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while (remaining := end - time.monotonic()) > 0:
            try:
                if await self._line.await_word(self._names.queue, seconds=max(0.1, min(remaining, AT_ONCE))):
                    return True
            except StoreError:
                await asyncio.sleep(min(remaining, AT_ONCE))
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
            return  # runners also look by themselves now and then


class FollowedStore(StoreWrapper):
    """A store wrapper that notifies Redis of writes: the keyword sets and waiting runners."""

    def __init__(self, store: Store, *, keywords: RedisKeywordSets, bell: RedisJobSignal) -> None:
        super().__init__(store)
        self._keywords = keywords
        self._bell = bell

    async def apply(self, changes: Sequence[Change]) -> None:
        written = [change.memory for change in changes if isinstance(change, Put | Revise)]
        before = await self._before(changes)
        touched = [memory for memory in written if memory.keywords or memory.id in before]
        if touched:
            await self._apply_followed(changes, touched, before)
        else:
            await self._store.apply(changes)
        if any(isinstance(change, Enqueue) for change in changes):
            self._bell.ring()

    async def erase(self, ids: Sequence[str], *, references: bool = True) -> Receipt:
        before = await self._store.get_many(ids, viewer="system")
        receipt = await self._store.erase(ids, references=references)
        if any(memory.keywords for memory in before.values()):
            await self._keywords.settle(None, now=(), before=before.values())
        return receipt

    async def rename_scope(self, old: str, new: str) -> None:
        """Rename a scope and rebuild the sets, which are named after scopes."""
        await self._keywords.distrust()
        await self._store.rename_scope(old, new)
        await self._keywords.distrust()

    async def _apply_followed(
        self, changes: Sequence[Change], touched: Sequence[Memory], before: dict[str, Memory]
    ) -> None:
        ticket = await self._keywords.announce([memory.id for memory in touched])
        try:
            await self._store.apply(changes)
        except StoreError:
            raise  # it may have been written all the same: the ticket names the ids to check
        except MindholdError:
            await self._keywords.withdraw(ticket)
            raise
        if ticket is None:
            await self._keywords.distrust()  # a build may have missed it
        else:
            await self._keywords.settle(ticket, now=touched, before=before.values())

    async def _before(self, changes: Sequence[Change]) -> dict[str, Memory]:
        """The records to be replaced as they were. A Put that expects no earlier record is new and isn't read."""
        replaced = [
            change.memory.id
            for change in changes
            if isinstance(change, Revise) or (isinstance(change, Put) and change.expected is not None)
        ]
        return await self._store.get_many(replaced, viewer="system") if replaced else {}


STORE_ID = "store.id"  # the cursor with a random id that tells apart stores sharing a server


class RedisCache:
    """Implements Cache."""

    def __init__(self, line: RedisConnection, names: KeyNames, *, seconds: int) -> None:
        self._line = line
        self._names = names
        self._seconds = seconds

    async def get(self, key: str) -> bytes | None:
        if self._seconds == 0:
            return None
        try:
            value: bytes | None = await self._line.ask(lambda redis: redis.get(self._names.cached(key)))
        except StoreError:
            return None
        return value

    async def put(self, key: str, value: bytes) -> None:
        if self._seconds == 0:
            return
        try:
            await self._line.ask(lambda redis: redis.set(self._names.cached(key), value, ex=self._seconds))
        except StoreError:
            return


class RedisSidecar:
    """Implements Sidecar, and offers the store wrapper that notifies it."""

    def __init__(
        self,
        line: RedisConnection,
        store: Store,
        names: KeyNames,
        *,
        cache_seconds: int,
        activity_seconds: int,
    ) -> None:
        self._line = line
        self.keywords = RedisKeywordSets(line, store, names)
        self.cache = RedisCache(line, names, seconds=cache_seconds)
        self.activity = RedisActivity(line, names, seconds=activity_seconds)
        self.bell = RedisJobSignal(line, names)
        self.store = cast(Store, FollowedStore(store, keywords=self.keywords, bell=self.bell))
        line.on_return(self.keywords.build_soon)

    async def facts(self) -> SidecarFacts:
        where = str(self._line.address)
        try:
            keywords = await self.keywords.facts()
        except StoreError:
            keywords = "away"
        fault = self._line.fault
        if fault is None:
            return SidecarFacts("redis", "ok", where, keywords, self.keywords.obstacle)
        state = "denied" if isinstance(fault, StoreDenied) else "away"
        return SidecarFacts("redis", state, where, "away", str(fault))

    async def close(self) -> None:
        await self.keywords.close()
        await self.bell.close()
        await self.activity.close()
        await self._line.close()


async def open_sidecar(
    address: RedisAddress, store: Store, *, place: str = "", cache_seconds: int, activity_seconds: int
) -> RedisSidecar:
    """Open the sidecar of an open store. `place` is the path of its file, since a copy of the file is another store.

    Raises StoreDenied, StoreReadOnly and StoreError for lasting problems, SettingsError without the driver.
    """
    line = RedisConnection(address)
    await line.open()
    try:
        names = KeyNames(await _store_id(store), place)
    except BaseException:
        await line.close()
        raise
    return RedisSidecar(line, store, names, cache_seconds=cache_seconds, activity_seconds=activity_seconds)


async def _store_id(store: Store) -> str:
    store_id = await store.cursor(STORE_ID)
    if store_id is None:
        await store.swap_cursor(STORE_ID, old=None, new=secrets.token_hex(8))
        store_id = await store.cursor(STORE_ID)
    assert store_id is not None
    return store_id
