"""Where the collections stand, and how others are put in their place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import OperationFailure

from mindhold.model.errors import NotFound, Refused, StoreBusy, StoreError
from mindhold.ports.clock import Clock
from mindhold.ports.snapshot import Old
from mindhold.stores.mongo.connection import Database, app_name
from mindhold.stores.mongo.driver import readable, translated
from mindhold.stores.mongo.migrate import make_views
from mindhold.stores.mongo.rows import Document
from mindhold.stores.mongo.steps import MEMORIES, METADATA
from mindhold.stores.mongo.store import MongoStore
from mindhold.stores.mongo.swapping import begin_swap, finish_swap
from mindhold.stores.stamps import is_stale, moment_of

T = TypeVar("T")
Address = Callable[[], AbstractAsyncContextManager[str]]  # of the server, which may be started for it

_RESTORED, _BEFORE = "restoring_", "before_"
_LEAVING_SECONDS = 3.0  # for so long a server may know of connections that are closed
_PAUSE_SECONDS = 0.1


class MongoSite:
    """The Site protocol, for one database of a server."""

    def __init__(self, address: Address, *, database: str, clock: Clock, timeout_ms: int = 10_000) -> None:
        self._address = address
        self._name = database
        self._clock = clock
        self._timeout_ms = timeout_ms

    @property
    def raw_form(self) -> str:
        return ""

    async def prepare(self, stamp: str, raw: Path | None = None) -> None:
        if raw is not None:
            raise Refused("A MongoDB takes no such copy.")

        async def work(database: AsyncDatabase[Document]) -> None:
            await finish_swap(database)
            names = await database.list_collection_names()
            for begun in {name.partition(".")[0] for name in names if name.startswith(_RESTORED)}:
                if is_stale(begun.removeprefix(_RESTORED), self._clock()):  # of one that died
                    await _drop(database, f"{begun}.")
            if _prefix(_RESTORED, stamp) + METADATA in names:
                raise StoreError("There is such a place already.", advice="Try again in a second.")

        await self._work(work)

    @asynccontextmanager
    async def beside(self, stamp: str) -> AsyncIterator[MongoStore]:
        async with self._address() as uri:
            store = MongoStore(
                uri,
                clock=self._clock,
                database=self._name,
                timeout_ms=self._timeout_ms,
                prefix=_prefix(_RESTORED, stamp),
            )
            try:
                await store.open()
                yield store
            finally:
                await store.close()

    async def swap(self, stamp: str, *, now: datetime) -> Old | None:
        new, aside = _prefix(_RESTORED, stamp), _prefix(_BEFORE, stamp)

        async def work(database: AsyncDatabase[Document]) -> bool:
            before = METADATA in await database.list_collection_names()
            await _refuse_others(database)
            await begin_swap(database, new=new, aside=aside)
            await finish_swap(database)
            return before

        before = await self._work(work)
        await self._with_views()
        if not before:
            return None
        return next((old for old in await self.olds() if old.name == aside.rstrip(".")), None)

    async def discard(self, stamp: str) -> None:
        await self._work(lambda database: _drop(database, _prefix(_RESTORED, stamp)))

    async def olds(self) -> list[Old]:
        async def work(database: AsyncDatabase[Document]) -> list[Old]:
            names = await database.list_collection_names()
            begun = {name.partition(".")[0] for name in names if name.startswith(_BEFORE)}
            return [
                Old(
                    one,
                    f"collections {one}.* of {database.name}",
                    await _size(database, one),
                    moment_of(one.removeprefix(_BEFORE)),
                )
                for one in sorted(begun, reverse=True)
            ]

        return await self._work(work)

    async def drop_old(self, name: str) -> None:
        if name not in [old.name for old in await self.olds()]:
            raise NotFound(
                f"There is nothing old of the name {name!r}.",
                advice="`mindhold status` names what there is.",
            )
        await self._work(lambda database: _drop(database, f"{name}."))

    async def _with_views(self) -> None:
        """Where there was no store before, there are none yet."""
        async with self._address() as uri:
            database = Database(uri, name=self._name, timeout_ms=self._timeout_ms, max_connections=2)

            async def prepare(opened: Database) -> None:
                await make_views(opened, await opened.database.list_collection_names())

            try:
                await database.open(prepare)
            finally:
                await database.close()

    async def _work(self, work: Callable[[AsyncDatabase[Document]], Awaitable[T]]) -> T:
        async with self._address() as uri:
            known = Database(uri, name=self._name, timeout_ms=self._timeout_ms, max_connections=2)
            with translated(known.place), readable():
                async with AsyncMongoClient[Document](
                    uri, appname="mindhold restore", serverSelectionTimeoutMS=self._timeout_ms
                ) as client:
                    return await work(client[known.name])


async def _refuse_others(database: AsyncDatabase[Document]) -> None:
    """Raises StoreBusy while another process of ours is connected, as far as the server tells."""
    deadline = asyncio.get_running_loop().time() + _LEAVING_SECONDS
    while await _connected(database):
        if asyncio.get_running_loop().time() > deadline:
            raise StoreBusy(
                f"Other processes use the MongoDB database {database.name}; nothing was changed.",
                advice="End the servers and sessions that use it, then run it again.",
            )
        await asyncio.sleep(_PAUSE_SECONDS)


async def _connected(database: AsyncDatabase[Document]) -> bool:
    for everybody in (True, False):
        pipeline: list[Document] = [
            {"$currentOp": {"allUsers": everybody, "idleConnections": True}},
            {"$match": {"appName": app_name(database.name)}},
            {"$limit": 1},
        ]
        try:
            cursor = await database.client.admin.aggregate(pipeline)
            return bool(await cursor.to_list())
        except OperationFailure:
            continue  # it isn't told: nobody is refused for that
    return False


async def _drop(database: AsyncDatabase[Document], prefix: str) -> None:
    for name in await database.list_collection_names():
        if name.startswith(prefix):
            await database[name].drop()


async def _size(database: AsyncDatabase[Document], name: str) -> int:
    told = await database.command("collStats", f"{name}.{MEMORIES}")
    return int(told.get("totalSize") or told.get("size") or 0)


def _prefix(begin: str, stamp: str) -> str:
    return f"{begin}{stamp}."
