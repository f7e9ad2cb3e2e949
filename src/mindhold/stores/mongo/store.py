"""The MongoDB store: its parts combined, its snapshots, and its replacement by a restore. Contract: mindhold.testing.store_contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import bson
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import OperationFailure

from mindhold.model.errors import NotFound, Refused, StoreBusy, StoreError
from mindhold.model.memory import content_sum
from mindhold.ports.backend import Cursor, Record, ReplacedStore, SnapshotItem, SnapshotRemoval, Totals
from mindhold.ports.store import Capability, Clock
from mindhold.stores.base import NoRawCopies
from mindhold.stores.columns import is_stale, moment_of
from mindhold.stores.mongo.changes import ChangeQueue
from mindhold.stores.mongo.connection import PATIENT, REFUSED_SECONDS, MongoDatabase, MongoPart, app_name
from mindhold.stores.mongo.driver import readable, translated
from mindhold.stores.mongo.jobs import MongoCursors, MongoEntries, MongoJobs
from mindhold.stores.mongo.records import SCOPES, MongoErasure, MongoLinks, MongoRecords, MongoScopes
from mindhold.stores.mongo.rows import COLUMNS, SELECTED, Document, exact_of, memory_of
from mindhold.stores.mongo.schema import begin_swap, finish_swap, make_views, prepare
from mindhold.stores.mongo.search import DRIVING, HELD, MongoIndex, MongoLiveIndex
from mindhold.stores.mongo.transactions import (
    CURSORS,
    ENTRIES,
    JOBS,
    LEASE_SECONDS,
    LINKS,
    MEMORIES,
    METADATA,
    VERSIONS,
)
from mindhold.stores.mongo.upkeep import MongoUpkeep
from mindhold.stores.registry import opened_store
from mindhold.stores.vectors import decode

BATCH = 500
_SNAPSHOTS_FROM = 13  # the wire version of MongoDB 5
_RECORD = {**SELECTED, "row": 1, "embedding": 1}

# What follows the records, in this order.
_AFTER: tuple[tuple[str, Callable[[Document], SnapshotItem]], ...] = (
    (VERSIONS, COLUMNS.version.record_of),
    (LINKS, COLUMNS.link.record_of),
    (JOBS, COLUMNS.job.record_of),
    (ENTRIES, COLUMNS.entry.record_of),
    (CURSORS, lambda document: Cursor(document["_id"], str(document["value"]))),
)
_ORDER = {VERSIONS: [("memory", 1), ("number", 1)]}


class MongoSnapshots(MongoPart, NoRawCopies):
    """Implements Snapshots."""

    async def snapshot(self) -> AsyncIterator[list[SnapshotItem]]:
        database = self._database
        past = database.transactions and database.server.get("maxWireVersion", 0) >= _SNAPSHOTS_FROM
        with translated(database.place):
            async for batch in _of_one_time(database) if past else _in_passing(database):
                yield batch

    async def totals(self) -> Totals:
        database = self._database

        async def work() -> Totals:
            fields = {"content_hash": 1}
            pairs = [
                (document["_id"], document["content_hash"])
                async for document in database.memories.find({}, fields)
            ]
            memories, content = content_sum(pairs)
            return Totals(
                memories=memories,
                vectors=await database.memories.count_documents({"embedded_by": {"$type": "string"}}),
                versions=await database.versions.count_documents({}),
                links=await database.links.count_documents({}),
                scopes=await database.metadata.count_documents(SCOPES),
                jobs=await database.jobs.count_documents({}),
                entries=await database.entries.count_documents({}),
                cursors=await database.cursors.count_documents({}),
                content=content,
            )

        return await database.unchanged(work, patience=PATIENT)


async def _of_one_time(database: MongoDatabase) -> AsyncIterator[list[SnapshotItem]]:
    async with database.database.client.start_session(snapshot=True) as session:
        # The first query reads little and fixes the time of the snapshot.
        scopes = await database.metadata.find(SCOPES, session=session).to_list()
        yield [COLUMNS.scope.record_of(document) for document in scopes]
        records = database.memories.find({}, _RECORD, session=session, batch_size=BATCH).sort("row", 1)
        while documents := await records.to_list(BATCH):
            yield [_record(document) for document in documents]
        for name, item_of in _AFTER:
            cursor = database.database[name].find({}, session=session, batch_size=BATCH)
            if name in _ORDER:
                cursor = cursor.sort(_ORDER[name])
            while documents := await cursor.to_list(BATCH):
                yield [item_of(document) for document in documents]


async def _in_passing(database: MongoDatabase) -> AsyncIterator[list[SnapshotItem]]:
    since = int((await database.ask(database.settled))["revision"])
    scopes = await database.read(lambda: database.metadata.find(SCOPES).to_list())
    yield [COLUMNS.scope.record_of(document) for document in scopes]
    sent_ids: dict[int, str] = {}  # ids by row
    page: list[Document]
    last = -1
    while page := await database.ask(partial(_page, database, last, since)):
        last = page[-1]["row"]
        sent_ids.update((document["row"], document["_id"]) for document in page)
        yield [_record(document) for document in page]
    rest = await database.write(lambda _step: _read_rest(database, since), patience=PATIENT)
    rows = {document["row"] for document in rest.changed} | {document["_id"] for document in rest.gone}
    yield [SnapshotRemoval(sent_ids[row]) for row in sorted(rows & sent_ids.keys())]
    yield [COLUMNS.scope.record_of(document) for document in rest.scopes if document not in scopes]
    for batch in _cut(rest.changed):
        yield [_record(document) for document in batch]
    removed_scopes = _scope_names(scopes) - _scope_names(rest.scopes)
    yield [SnapshotRemoval(scope=name) for name in sorted(removed_scopes)]
    for name, item_of in _AFTER:
        for raw in rest.after[name]:
            for batch in _cut(bson.decode_all(raw)):
                yield [item_of(document) for document in batch]


class _Rest(NamedTuple):
    """What was read while nobody wrote."""

    changed: list[Document]
    gone: list[Document]
    scopes: list[Document]
    after: dict[str, list[bytes]]


async def _read_rest(database: MongoDatabase, since: int) -> _Rest:
    later = {"revision": {"$gt": since}}
    return _Rest(
        changed=await database.memories.find(later, _RECORD).to_list(),
        gone=await database.tombstones.find(later, {"_id": 1}).to_list(),
        scopes=await database.metadata.find(SCOPES).to_list(),
        after={name: await _raw(database, name) for name, _ in _AFTER},
    )


async def _page(database: MongoDatabase, after: int, since: int) -> list[Document]:
    where = {"row": {"$gt": after}, "revision": {"$lte": since}}
    return await database.memories.find(where, _RECORD).sort("row", 1).limit(BATCH).to_list()


def _scope_names(documents: list[Document]) -> set[str]:
    return {document["scope_name"] for document in documents}


async def _raw(database: MongoDatabase, name: str) -> list[bytes]:
    """Raw documents, which take a tenth of the memory of decoded ones."""
    cursor = database.database[name].find_raw_batches({})
    if name in _ORDER:
        cursor = cursor.sort(_ORDER[name])
    return [bytes(batch) async for batch in cursor]  # type: ignore[arg-type]


def _cut(documents: list[Document]) -> Iterable[list[Document]]:
    return (documents[start : start + BATCH] for start in range(0, len(documents), BATCH))


def _record(document: Document) -> Record:
    embedding = document.get("embedding")
    vector = None if embedding is None else decode(exact_of(embedding))
    return Record(memory_of(document), vector)


class MongoStore(
    MongoRecords,
    MongoErasure,
    MongoIndex,
    MongoLinks,
    MongoScopes,
    MongoJobs,
    MongoCursors,
    MongoEntries,
    MongoUpkeep,
    MongoSnapshots,
):
    """One database of a server that others may use as well. The store never shuts the server down.

    Without `database` it is the one that the address names. `embedded` says that the server is the home's own, which restarts
    by itself, so calls wait for it. Each call waits for the server for at most `timeout_ms`, and for `refused_seconds` if it
    refuses connections. A writer to a standalone server holds a lease of `lease_seconds`: that is how long others wait for
    one that died. If the server has vector search, only the codes of the newest `held_vectors` records are in memory.
    `prefix` is put before the names of all collections, for a store that is prepared next to another.
    """

    def __init__(
        self,
        uri: str,
        *,
        clock: Clock,
        database: str = "",
        embedded: bool = False,
        timeout_ms: int = 10_000,
        max_connections: int = 20,
        lease_seconds: float = LEASE_SECONDS,
        refused_seconds: float = REFUSED_SECONDS,
        driving: int = DRIVING,
        held_vectors: int = HELD,
        prefix: str = "",
    ) -> None:
        self._clock = clock
        self._embedded = embedded
        self._database = MongoDatabase(
            uri,
            name=database,
            timeout_ms=timeout_ms,
            max_connections=max_connections,
            lease_seconds=lease_seconds,
            refused_seconds=timeout_ms / 1000 if embedded else refused_seconds,
            prefix=prefix,
        )
        self._together = ChangeQueue(self._database)
        self._live = MongoLiveIndex(self._database, driving=driving, held=held_vectors)

    @property
    def capabilities(self) -> frozenset[Capability]:
        own = {Capability.FULL_TEXT, Capability.VECTORS}
        return frozenset(own | ({Capability.TRANSACTIONS} if self._database.transactions else set()))

    async def open(self) -> None:
        await self._database.open(lambda database: prepare(database, clock=self._clock))
        await self._live.open()

    async def close(self) -> None:
        self._live.close()
        await self._database.close()


T = TypeVar("T")
# Opens the address of the server, which may be started for it.
Address = Callable[[], AbstractAsyncContextManager[str]]

_RESTORED, _BEFORE = "restoring_", "before_"
_LEAVING_SECONDS = 3.0  # seconds for which a server may still list closed connections
_PAUSE_SECONDS = 0.1


class MongoSite:
    """Implements BackendSite for one database of a server."""

    raw_form = ""

    def __init__(self, address: Address, *, database: str, clock: Clock, timeout_ms: int = 10_000) -> None:
        self._address = address
        self._name = database
        self._clock = clock
        self._timeout_ms = timeout_ms

    async def prepare(self, stamp: str, raw: Path | None = None) -> None:
        if raw is not None:
            raise Refused("A MongoDB takes no such copy.")

        async def work(database: AsyncDatabase[Document]) -> None:
            await finish_swap(database)
            for prefix in await _prefixes(database, _RESTORED):
                if is_stale(prefix.removeprefix(_RESTORED), self._clock()):  # left by a restore that died
                    await _drop(database, f"{prefix}.")
            if _prefix(_RESTORED, stamp) + METADATA in await database.list_collection_names():
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
            async with opened_store(store):
                yield store

    async def swap(self, stamp: str, *, now: datetime) -> ReplacedStore | None:
        new, aside = _prefix(_RESTORED, stamp), _prefix(_BEFORE, stamp)

        async def work(database: AsyncDatabase[Document]) -> bool:
            before = METADATA in await database.list_collection_names()
            await _refuse_others(database)
            await begin_swap(database, new=new, aside=aside)
            await finish_swap(database)
            # The views are missing if there was no store before.
            await make_views(database, await database.list_collection_names())
            return before

        if not await self._work(work):
            return None
        return next((old for old in await self.olds() if old.name == aside.rstrip(".")), None)

    async def discard(self, stamp: str) -> None:
        await self._work(lambda database: _drop(database, _prefix(_RESTORED, stamp)))

    async def olds(self) -> list[ReplacedStore]:
        async def work(database: AsyncDatabase[Document]) -> list[ReplacedStore]:
            stores = []
            for prefix in sorted(await _prefixes(database, _BEFORE), reverse=True):
                sizes = await database.command("collStats", f"{prefix}.{MEMORIES}")
                size = int(sizes.get("totalSize") or sizes.get("size") or 0)
                location = f"collections {prefix}.* of {database.name}"
                stores.append(ReplacedStore(prefix, location, size, moment_of(prefix.removeprefix(_BEFORE))))
            return stores

        return await self._work(work)

    async def drop_old(self, name: str) -> None:
        if name not in [old.name for old in await self.olds()]:
            raise NotFound(
                f"There is nothing old of the name {name!r}.", advice="`mindhold status` names what there is."
            )
        await self._work(lambda database: _drop(database, f"{name}."))

    async def _work(self, work: Callable[[AsyncDatabase[Document]], Awaitable[T]]) -> T:
        async with self._address() as uri:
            configured = MongoDatabase(uri, name=self._name, timeout_ms=self._timeout_ms, max_connections=2)
            with translated(configured.place), readable():
                async with AsyncMongoClient[Document](
                    uri, appname="mindhold restore", serverSelectionTimeoutMS=self._timeout_ms
                ) as client:
                    return await work(client[configured.name])


async def _refuse_others(database: AsyncDatabase[Document]) -> None:
    """Raises StoreBusy while another process of ours is connected, as far as the server shows it."""
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
            continue  # the server doesn't say; that is no reason to refuse
    return False


async def _prefixes(database: AsyncDatabase[Document], begin: str) -> set[str]:
    names = await database.list_collection_names()
    return {name.partition(".")[0] for name in names if name.startswith(begin)}


async def _drop(database: AsyncDatabase[Document], prefix: str) -> None:
    for name in await database.list_collection_names():
        if name.startswith(prefix):
            await database[name].drop()


def _prefix(begin: str, stamp: str) -> str:
    return f"{begin}{stamp}."
