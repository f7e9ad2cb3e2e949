"""A Redis beside a store: its parts, put together."""

from __future__ import annotations

import secrets
from typing import cast

from mindhold.model.errors import StoreDenied, StoreError
from mindhold.ports.cache import AsideFacts
from mindhold.ports.store import Store
from mindhold.stores.redis.activity import RedisActivity
from mindhold.stores.redis.bell import RedisBell
from mindhold.stores.redis.following import Followed
from mindhold.stores.redis.keywords import RedisKeywordSets
from mindhold.stores.redis.line import Address, Line
from mindhold.stores.redis.names import Names

STORE_ID = "store.id"  # the cursor that tells two stores apart which share a server


class RedisCache:
    """The Cache protocol."""

    def __init__(self, line: Line, names: Names, *, seconds: int) -> None:
        self._line = line
        self._names = names
        self._seconds = seconds

    async def get(self, key: str) -> bytes | None:
        if self._seconds == 0:
            return None
        try:
            found: bytes | None = await self._line.ask(lambda redis: redis.get(self._names.cached(key)))
        except StoreError:
            return None
        return found

    async def put(self, key: str, value: bytes) -> None:
        if self._seconds == 0:
            return
        try:
            await self._line.ask(lambda redis: redis.set(self._names.cached(key), value, ex=self._seconds))
        except StoreError:
            return


class RedisAside:
    """The Aside protocol, and the store as its writes are followed."""

    def __init__(
        self, line: Line, store: Store, names: Names, *, cache_seconds: int, activity_seconds: int
    ) -> None:
        self._line = line
        self.keywords = RedisKeywordSets(line, store, names)
        self.cache = RedisCache(line, names, seconds=cache_seconds)
        self.activity = RedisActivity(line, names, seconds=activity_seconds)
        self.bell = RedisBell(line, names)
        self.store = cast(Store, Followed(store, keywords=self.keywords, bell=self.bell))
        line.on_return(self.keywords.build_soon)

    async def facts(self) -> AsideFacts:
        where = str(self._line.address)
        try:
            keywords = await self.keywords.facts()
        except StoreError:
            keywords = "away"
        fault = self._line.fault
        if fault is None:
            return AsideFacts("redis", "ok", where, keywords, self.keywords.obstacle)
        state = "denied" if isinstance(fault, StoreDenied) else "away"
        return AsideFacts("redis", state, where, "away", str(fault))

    async def close(self) -> None:
        await self.keywords.close()
        await self.bell.close()
        await self.activity.close()
        await self._line.close()


async def open_aside(
    address: Address, store: Store, *, place: str = "", cache_seconds: int, activity_seconds: int
) -> RedisAside:
    """Beside an open store. `place` is where its file is, for a copy of it is another store.

    Raises StoreDenied, StoreReadOnly and StoreError for what waiting won't mend, SettingsError without the driver.
    """
    line = Line(address)
    await line.open()
    try:
        names = Names(await _store_id(store), place)
    except BaseException:
        await line.close()
        raise
    return RedisAside(line, store, names, cache_seconds=cache_seconds, activity_seconds=activity_seconds)


async def _store_id(store: Store) -> str:
    known = await store.cursor(STORE_ID)
    if known is None:
        await store.swap_cursor(STORE_ID, old=None, new=secrets.token_hex(8))
        known = await store.cursor(STORE_ID)
    assert known is not None
    return known
