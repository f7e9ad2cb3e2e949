"""A change in the making: what it reads, and the operations that it will be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Any

import bson
from pymongo import DeleteMany, InsertOne, UpdateMany, UpdateOne
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import DocumentTooLarge

from recollect.stores.mongo.rows import Document

MEMORIES = "conversation_memory"
METADATA = "Metadata"
VERSIONS = "versions"
LINKS = "links"
JOBS = "jobs"
CURSORS = "cursors"
ENTRIES = "entries"
TOMBSTONES = "tombstones"
JOURNAL = "journal"

STATE = {"_id": "state"}  # in METADATA: revision, last row, who writes, what is pending

_TOGETHER = 1_000
_PART_BYTES = 8 << 20
_LARGEST = (16 << 20) - 4096  # what a server takes as one document, less what we put around it


class Act(StrEnum):
    """What an operation does. Each may be done again and changes nothing then."""

    INSERT = "insert"  # unless the id is there
    PUT = "put"  # insert, or set the fields of the one of that id
    CHANGE = "change"
    CHANGE_ALL = "change_all"
    REMOVE = "remove"  # all that match


@dataclass(frozen=True, slots=True)
class Operation:
    collection: str
    act: Act
    where: Document
    what: Document

    def asked(self, *, again: bool) -> Any:
        """As the driver wants it; inserting is quicker where it is the first time."""
        if self.act is Act.INSERT:
            if not again:
                return InsertOne({**self.where, **self.what})
            return UpdateOne(self.where, {"$setOnInsert": self.what}, upsert=True)
        if self.act is Act.PUT:
            return UpdateOne(self.where, {"$set": self.what}, upsert=True)
        if self.act is Act.CHANGE:
            return UpdateOne(self.where, self.what)
        return UpdateMany(self.where, self.what) if self.act is Act.CHANGE_ALL else DeleteMany(self.where)


class Step:
    """One change: reads go through it, so that they see one state; its operations are made together or not at all."""

    def __init__(
        self, database: AsyncDatabase[Document], state: Document, session: AsyncClientSession | None
    ) -> None:
        self._database = database
        self._session = session
        self._last_row = int(state["row"])
        self.revision = int(state["revision"]) + 1
        self.operations: list[Operation] = []
        self.added = 0

    @property
    def last_row(self) -> int:
        return self._last_row

    def next_row(self) -> int:
        """Never given twice."""
        self._last_row += 1
        return self._last_row

    async def find(
        self, collection: str, where: Document, fields: Mapping[str, Any] | None = None, *, limit: int = 0
    ) -> list[Document]:
        cursor = self._database[collection].find(where, fields, limit=limit, session=self._session)
        return await cursor.to_list()

    async def count(self, collection: str, where: Document) -> int:
        return await self._database[collection].count_documents(where, session=self._session)

    def insert(self, collection: str, key: Any, document: Document) -> None:
        self.operations.append(Operation(collection, Act.INSERT, {"_id": key}, document))

    def put(self, collection: str, key: Any, document: Document) -> None:
        self.operations.append(Operation(collection, Act.PUT, {"_id": key}, document))

    def change(self, collection: str, where: Document, what: Document) -> None:
        self.operations.append(Operation(collection, Act.CHANGE, where, what))

    def change_record(self, memory_id: str, what: Document) -> None:
        """Once: a record that has this revision, or a later one, is passed over."""
        fields = {**what.get("$set", {}), "revision": self.revision}
        where = {"_id": memory_id, "revision": {"$lt": self.revision}}
        self.operations.append(Operation(MEMORIES, Act.CHANGE, where, {**what, "$set": fields}))

    def change_all(self, collection: str, where: Document, what: Document) -> None:
        self.operations.append(Operation(collection, Act.CHANGE_ALL, where, what))

    def remove(self, collection: str, where: Document) -> None:
        self.operations.append(Operation(collection, Act.REMOVE, where, {}))


async def perform(
    database: AsyncDatabase[Document],
    operations: Iterable[Operation],
    *,
    session: AsyncClientSession | None = None,
    again: bool = False,
) -> None:
    """In their order."""
    for collection, run in groupby(operations, key=lambda operation: operation.collection):
        asked = [operation.asked(again=again) for operation in run]
        for start in range(0, len(asked), _TOGETHER):
            await database[collection].bulk_write(
                asked[start : start + _TOGETHER], ordered=True, session=session
            )


def packed(operations: Sequence[Operation]) -> list[bytes]:
    """As the journal keeps them, in parts that fit a document: no server looks into it."""
    parts: list[bytes] = []
    run: list[Document] = []
    size = 0
    for operation in operations:
        one = {"c": operation.collection, "a": operation.act.value, "w": operation.where, "d": operation.what}
        encoded = len(bson.encode(one))
        if encoded > _LARGEST:
            raise DocumentTooLarge(f"a document of {encoded} bytes")
        if run and size + encoded > _PART_BYTES:
            parts.append(bson.encode({"operations": run}))
            run, size = [], 0
        run.append(one)
        size += encoded
    return [*parts, bson.encode({"operations": run})]


def unpacked(parts: Iterable[bytes]) -> Iterator[Operation]:
    for part in parts:
        for one in bson.decode(part)["operations"]:
            yield Operation(one["c"], Act(one["a"]), one["w"], one["d"])
