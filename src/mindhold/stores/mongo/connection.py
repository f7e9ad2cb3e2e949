"""The client, consistent reads, ordered writes, and collections with a prefix."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import unquote

import pymongo
from pymongo import AsyncMongoClient, ReadPreference
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.uri_parser import parse_uri

from mindhold.model.errors import StoreBusy, StoreError
from mindhold.stores.mongo.driver import Address, AddressMonitor, readable, refused_error, translated
from mindhold.stores.mongo.rows import Document
from mindhold.stores.mongo.transactions import (
    CURSORS,
    DURABLE,
    ENTRIES,
    JOBS,
    LEASE_SECONDS,
    LIGHT,
    LINKS,
    MEMORIES,
    METADATA,
    TOMBSTONES,
    VERSIONS,
    JournalWriter,
    TransactionWriter,
    Work,
    Writer,
    read_state,
)


class PrefixedDatabase(AsyncDatabase[Document]):
    """A database whose collections have a prefix, which callers don't see."""

    def __init__(self, database: AsyncDatabase[Document], prefix: str) -> None:
        super().__init__(
            database.client,
            database.name,
            database.codec_options,
            database.read_preference,
            database.write_concern,
            database.read_concern,
        )
        self.prefix = prefix

    def __getitem__(self, name: str) -> AsyncCollection[Document]:
        return super().__getitem__(self.prefix + name)

    def with_options(self, *args: Any, **options: Any) -> PrefixedDatabase:  # type: ignore[override]
        return PrefixedDatabase(super().with_options(*args, **options), self.prefix)

    async def create_collection(self, name: str, *args: Any, **options: Any) -> AsyncCollection[Document]:
        return await super().create_collection(self.prefix + name, *args, **options)

    async def list_collection_names(self, *args: Any, **options: Any) -> list[str]:
        names = await super().list_collection_names(*args, **options)
        return [name.removeprefix(self.prefix) for name in names if name.startswith(self.prefix)]


T = TypeVar("T")

LOCAL = "mongodb://localhost:27017"
USUAL = "claude_memory"
PATIENT = 6  # factor of the usual time limit, for work on many records
REFUSED_SECONDS = 1.5

_PAUSE_SECONDS = 0.002
_PAGE = 1_000
_TRIES_IN_PASSING = 4  # attempts to read an unchanging state before writers are asked to wait


class _Collection:
    """An attribute for a collection of the open database."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, owner: MongoDatabase, kind: type[MongoDatabase]) -> AsyncCollection[Document]:
        return owner.database[self._name]


class MongoDatabase:
    """One database of one server, and whether it has transactions."""

    memories = _Collection(MEMORIES)
    metadata = _Collection(METADATA)
    versions = _Collection(VERSIONS)
    links = _Collection(LINKS)
    jobs = _Collection(JOBS)
    cursors = _Collection(CURSORS)
    entries = _Collection(ENTRIES)
    tombstones = _Collection(TOMBSTONES)

    def __init__(
        self,
        uri: str,
        *,
        name: str,
        timeout_ms: int,
        max_connections: int,
        lease_seconds: float = LEASE_SECONDS,
        refused_seconds: float = REFUSED_SECONDS,
        prefix: str = "",
    ) -> None:
        self._uri = uri or LOCAL
        self.prefix = prefix  # prefix of all collections, for a store that is prepared next to another
        self.name = name or _named_in(self._uri) or USUAL
        self.timeout = timeout_ms / 1000
        self._max_connections = max_connections
        self._lease_seconds = lease_seconds
        self._refused_seconds = refused_seconds
        self._reach = AddressMonitor(self._addresses)
        self._turn = asyncio.Lock()
        self._client: AsyncMongoClient[Document] | None = None
        self._database: AsyncDatabase[Document] | None = None
        self._writer: Writer | None = None
        self.transactions = False
        self.server: Document = {}

    @property
    def place(self) -> str:
        """The address without user name and password."""
        return f"{_addresses_in(self._uri)}/{self.name}"

    @property
    def database(self) -> AsyncDatabase[Document]:
        if self._database is None:
            raise StoreError(f"MongoDB at {self.place} is not open.", advice="Call open() first.")
        return self._database

    async def pages(self, where: Document, fields: Document) -> AsyncIterator[list[Document]]:
        """The matching records in pages, ordered by row; to be called within ask()."""
        last: Any = -1
        while batch := await self._page(where, fields, last):
            yield batch
            last = batch[-1]["row"]

    async def _page(self, where: Document, fields: Document, last: int) -> list[Document]:
        following = {**where, "row": {"$gt": last}}
        return await self.memories.find(following, {**fields, "row": 1}).sort("row", 1).limit(_PAGE).to_list()

    async def open(self, prepare: Callable[[MongoDatabase], Awaitable[None]]) -> None:
        """Connect, find out what the server supports, and call `prepare` before any other use."""
        if self._client is not None:
            return
        self._reach = AddressMonitor(self._addresses)  # short: nothing is under way that could be lost
        try:
            with translated(self.place):
                await self._reached(self._connect)
                self._reach.patience = self._refused_seconds
                with pymongo.timeout(PATIENT * self.timeout):
                    await self._reached(lambda: prepare(self))
                    await self._heal_at_start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        client, self._client = self._client, None
        self._database = self._writer = None
        if client is not None:
            await client.close()

    async def _connect(self) -> None:
        self._client = self._made_client()
        with pymongo.timeout(self.timeout):
            self.server = await self._client.admin.command("hello")
        self.transactions = "setName" in self.server or self.server.get("msg") == "isdbgrid"
        if not self.transactions:  # such a server refuses the driver's retries after a broken connection
            await self._client.close()
            self._client = self._made_client(retryWrites=False)
        self._database = self._client.get_database(
            self.name,
            write_concern=DURABLE,
            # The primary has everything acknowledged, and the latest counts of uses.
            read_concern=ReadConcern("local"),
            read_preference=ReadPreference.PRIMARY,
        )
        if self.prefix:
            self._database = PrefixedDatabase(self._database, self.prefix)
        if self.transactions:
            self._writer = TransactionWriter(self._client, self._database)
        else:
            self._writer = self._journal()

    def _made_client(self, **options: Any) -> AsyncMongoClient[Document]:
        wait = int(self.timeout * 1000)
        with readable():
            return AsyncMongoClient(
                self._uri,
                appname=app_name(self.name),  # by which a restore recognises other users
                maxPoolSize=self._max_connections,
                serverSelectionTimeoutMS=wait,
                connectTimeoutMS=wait,
                waitQueueTimeoutMS=wait,
                event_listeners=[self._reach],
                **options,
            )

    def _journal(self) -> JournalWriter:
        light = self.database.with_options(write_concern=LIGHT)
        return JournalWriter(light, lease_seconds=self._lease_seconds)

    async def _heal_at_start(self) -> None:
        """Finish pending changes, also if a standalone server has become a replica set since."""
        if (await read_state(self.database)).get("pending"):
            deadline = time.monotonic() + self.timeout + self._lease_seconds
            await self._journal().write(_nothing, deadline=deadline)

    async def ask(self, work: Callable[[], Awaitable[T]], *, patience: int = 1) -> T:
        """The result of one operation of the server, within the time limit of a call."""
        with translated(self.place), pymongo.timeout(patience * self.timeout):
            return await self._reached(work)

    async def _reached(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run work, giving up as soon as all addresses refuse connections. Raises StoreAway."""
        if self._reach.away and self._reach.known:
            raise refused_error(self.place)
        try:
            async with asyncio.timeout(None) as call:
                with self._reach.waiting(call):
                    return await work()
        except TimeoutError as error:
            if call.expired():
                raise refused_error(self.place) from error
            raise

    def _addresses(self) -> Iterable[Address]:
        return self._client.topology_description.server_descriptions() if self._client else ()

    async def read(self, work: Callable[[], Awaitable[T]], *, patience: int = 1) -> T:
        """The result of `work` while no change is half applied.

        Transactions ensure that; on a standalone server the state is checked before and after.
        """
        if self.transactions:
            return await self.ask(work, patience=patience)
        return await self.unchanged(work, patience=patience)

    async def unchanged(self, work: Callable[[], Awaitable[T]], *, patience: int = 1) -> T:
        """The result of `work` in several steps while nothing changes at all; tried again if something did."""

        async def attempt() -> T:
            for _ in range(_TRIES_IN_PASSING):
                before = await self.settled()
                result = await work()
                after = await read_state(self.database)
                if after["revision"] == before["revision"] and not after.get("pending"):
                    return result
            return await self._alone(lambda _step: work())

        return await self.ask(attempt, patience=patience)

    async def settled(self) -> Document:
        """The state with no change half applied; to be called within ask()."""
        deadline = time.monotonic() + self.timeout
        while (state := await read_state(self.database)).get("pending"):
            if state["expired"]:  # its writer has died
                await self._alone(_nothing)
            elif time.monotonic() > deadline:
                raise StoreBusy(f"A change of MongoDB at {self.place} takes too long.", advice="Try again.")
            else:
                await asyncio.sleep(_PAUSE_SECONDS)
        return state

    async def write(self, work: Work[T], *, patience: int = 1) -> T:
        """Run `work` and apply the operations of its step, all or none; durable when this returns."""
        return await self.ask(lambda: self._alone(work, patience=patience), patience=patience)

    async def _alone(self, work: Work[T], *, patience: int = 1) -> T:
        deadline = time.monotonic() + patience * self.timeout
        try:
            async with asyncio.timeout(patience * self.timeout):
                await self._turn.acquire()
        except TimeoutError as error:
            raise StoreBusy("Other changes take too long.", advice="Try again.") from error
        try:
            if self._writer is None:
                raise StoreError(f"MongoDB at {self.place} is not open.", advice="Call open() first.")
            return await self._writer.write(work, deadline=deadline)
        finally:
            self._turn.release()


class MongoPart:
    """Base of the parts of the store, which share the database."""

    _database: MongoDatabase


def app_name(database: str) -> str:
    """The client name by which the server lists users of that database."""
    return f"mindhold {database}"[:100]


@lru_cache(maxsize=64)
def _addresses_in(uri: str) -> str:
    """The addresses as the driver reads them; if it can't, nothing is shown, since it may be a password."""
    plain = uri.replace("mongodb+srv://", "mongodb://", 1)  # whose name is resolved only when connecting
    try:
        nodes = parse_uri(plain, validate=False, warn=False)["nodelist"]
    except (PyMongoError, ValueError):
        return "an unknown address"
    written = ((host, f"{host}:{port}") for host, port in nodes)
    return ",".join(both if both in uri else host for host, both in written)


def _named_in(uri: str) -> str:
    """The database that an address names, or an empty string; the server's own databases are only for login."""
    path = uri.partition("://")[2].rpartition("@")[2].partition("?")[0].partition("/")[2]
    name = unquote(path.partition(".")[0])  # a collection name follows the dot
    return "" if name in ("admin", "config", "local") else name


async def _nothing(_step: Any) -> None:
    """The work of a change that only finishes a pending one."""
