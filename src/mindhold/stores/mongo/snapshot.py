"""Everything at one moment.

A replica set keeps the past for a while, so that all is read as of one time. A lone server doesn't: there the records are read
in passing, those that are of a known revision or earlier; then, while writers wait, what has changed since is read again,
and everything that is small.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import bson
from pymongo.asynchronous.client_session import AsyncClientSession

from mindhold.model.errors import Refused
from mindhold.model.totals import content_sum
from mindhold.ports.snapshot import Cursor, Gone, Kept, Record, Step, Totals
from mindhold.stores.codes import decode
from mindhold.stores.mongo.connection import PATIENT, Database, Part
from mindhold.stores.mongo.driver import translated
from mindhold.stores.mongo.entries import entry_of
from mindhold.stores.mongo.jobs import job_of
from mindhold.stores.mongo.links import link_of, version_of
from mindhold.stores.mongo.rows import SELECTED, Document, exact_of, memory_of
from mindhold.stores.mongo.scopes import SCOPES, scope_of
from mindhold.stores.mongo.steps import CURSORS, ENTRIES, JOBS, LINKS, MEMORIES, METADATA, VERSIONS

BATCH = 500
_SNAPSHOTS_FROM = 13  # the wire version of MongoDB 5
_RECORD = {**SELECTED, "row": 1, "embedding": 1}

# What comes after the records, in this order.
_AFTER: tuple[tuple[str, Callable[[Document], Kept]], ...] = (
    (VERSIONS, version_of),
    (LINKS, link_of),
    (JOBS, job_of),
    (ENTRIES, entry_of),
    (CURSORS, lambda document: Cursor(document["_id"], str(document["value"]))),
)
_ORDER = {VERSIONS: [("memory", 1), ("number", 1)]}


class SnapshotPart(Part):
    """The Snapshots protocol."""

    @property
    def raw_form(self) -> str:
        return ""

    async def copy_raw(self, path: Path, *, told: Step) -> None:
        raise Refused("This store makes no copies as they are.", advice="Use its snapshot.")

    async def snapshot(self) -> AsyncIterator[list[Kept]]:
        database = self._database
        past = database.transactions and database.server.get("maxWireVersion", 0) >= _SNAPSHOTS_FROM
        with translated(database.place):
            async for batch in _of_one_time(database) if past else _in_passing(database):
                yield batch

    async def totals(self) -> Totals:
        database = self._database

        async def work() -> Totals:
            shown = {"content_hash": 1}
            pairs = [(one["_id"], one["content_hash"]) async for one in database.memories.find({}, shown)]
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


async def _of_one_time(database: Database) -> AsyncIterator[list[Kept]]:
    async with database.database.client.start_session(snapshot=True) as session:
        # The first one reads what is small, and by that fixes the time.
        scopes = await _found(database, METADATA, SCOPES, session)
        yield [scope_of(one) for one in scopes]
        records = database.memories.find({}, _RECORD, session=session, batch_size=BATCH).sort("row", 1)
        async for batch in _batches(records, _record):
            yield batch
        for name, made in _AFTER:
            cursor = database.database[name].find({}, session=session, batch_size=BATCH)
            async for batch in _batches(cursor.sort(_ORDER[name]) if name in _ORDER else cursor, made):
                yield batch


async def _in_passing(database: Database) -> AsyncIterator[list[Kept]]:
    since = int((await database.ask(database.settled))["revision"])
    scopes = await database.read(lambda: _found(database, METADATA, SCOPES))
    yield [scope_of(one) for one in scopes]
    given: dict[int, str] = {}  # ids by row
    page: list[Document]
    last = -1
    while page := await database.ask(partial(_page, database, last, since)):
        last = page[-1]["row"]
        given.update((one["row"], one["_id"]) for one in page)
        yield [_record(one) for one in page]
    rest = await database.write(lambda _step: _rest(database, since), patience=PATIENT)
    for batch in rest.kept(given, scopes):
        yield batch


@dataclass(frozen=True, slots=True)
class _Rest:
    """What was read while nobody wrote."""

    changed: list[Document]
    gone: list[Document]
    scopes: list[Document]
    after: dict[str, list[bytes]]

    def kept(self, given: dict[int, str], scopes: list[Document]) -> Iterator[list[Kept]]:
        rows = {one["row"] for one in self.changed} | {one["_id"] for one in self.gone}
        yield [Gone(given[row]) for row in sorted(rows & given.keys())]
        yield [scope_of(one) for one in self.scopes if one not in scopes]
        for batch in _cut(self.changed):
            yield [_record(one) for one in batch]
        left = {one["scope_name"] for one in scopes} - {one["scope_name"] for one in self.scopes}
        yield [Gone(scope=name) for name in sorted(left)]
        for name, made in _AFTER:
            for raw in self.after[name]:
                for batch in _cut(bson.decode_all(raw)):
                    yield [made(one) for one in batch]


async def _rest(database: Database, since: int) -> _Rest:
    later = {"revision": {"$gt": since}}
    return _Rest(
        changed=await _found(database, MEMORIES, later, fields=_RECORD),
        gone=await database.tombstones.find(later, {"_id": 1}).to_list(),
        scopes=await _found(database, METADATA, SCOPES),
        after={name: await _raw(database, name) for name, _ in _AFTER},
    )


async def _page(database: Database, after: int, since: int) -> list[Document]:
    where = {"row": {"$gt": after}, "revision": {"$lte": since}}
    return await database.memories.find(where, _RECORD).sort("row", 1).limit(BATCH).to_list()


async def _found(
    database: Database,
    name: str,
    where: Document,
    session: AsyncClientSession | None = None,
    *,
    fields: Document | None = None,
) -> list[Document]:
    return await database.database[name].find(where, fields, session=session).to_list()


async def _raw(database: Database, name: str) -> list[bytes]:
    """As it came: a tenth of what it takes once it is read."""
    cursor = database.database[name].find_raw_batches({})
    if name in _ORDER:
        cursor = cursor.sort(_ORDER[name])
    return [bytes(batch) async for batch in cursor]  # type: ignore[arg-type]


async def _batches(cursor: Any, made: Callable[[Document], Kept]) -> AsyncIterator[list[Kept]]:
    while documents := await cursor.to_list(BATCH):
        yield [made(one) for one in documents]


def _cut(documents: list[Document]) -> Iterable[list[Document]]:
    return (documents[start : start + BATCH] for start in range(0, len(documents), BATCH))


def _record(document: Document) -> Record:
    embedding = document.get("embedding")
    vector = None if embedding is None else decode(exact_of(embedding))
    return Record(memory_of(document), vector)
