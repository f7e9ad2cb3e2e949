"""A change in the making: what it reads, and the operations that it will be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Any

import bson
from pymongo import DeleteMany, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import DocumentTooLarge

from mindhold.stores.mongo.rows import Document

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
_SIZE = "_size"


class Act(StrEnum):
    """What an operation does. Each may be done again and changes nothing then."""

    INSERT = "insert"  # unless the id is there
    PUT = "put"  # insert, or set the fields of the one of that id
    CHANGE = "change"
    CHANGE_ALL = "change_all"
    REMOVE = "remove"  # all that match
    RESTORE = "restore"  # the whole document, where one matches


_NEED_A_LOOK = {Act.PUT, Act.CHANGE}  # to know what the documents are before


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
            return UpdateOne(self.where, _unless_later(self.what), upsert=True)
        if self.act is Act.CHANGE:
            return UpdateOne(self.where, self.what)
        if self.act is Act.RESTORE:
            return ReplaceOne(self.where, self.what)
        return UpdateMany(self.where, self.what) if self.act is Act.CHANGE_ALL else DeleteMany(self.where)


class Step:
    """One change: reads go through it, so that they see one state; its operations are made together or not at all.

    Every document that a step leaves behind has its revision. Whoever goes on with a step after others have gone further
    finds later revisions, and leaves those alone.
    """

    def __init__(
        self, database: AsyncDatabase[Document], state: Document, session: AsyncClientSession | None
    ) -> None:
        self._database = database
        self._session = session
        self._last_row = int(state["row"])
        self._making: list[Operation] = []
        self._removing: list[Operation] = []
        self.revision = int(state["revision"]) + 1
        self.added = 0

    @property
    def last_row(self) -> int:
        return self._last_row

    @property
    def operations(self) -> list[Operation]:
        """Removals come last: no server refuses one, so that nothing removed has ever to be put back."""
        return self._making + self._removing

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
        self._make(collection, Act.INSERT, {"_id": key}, {**document, "revision": self.revision})

    def put(self, collection: str, key: Any, document: Document) -> None:
        self._make(collection, Act.PUT, {"_id": key}, {**document, "revision": self.revision})

    def change(self, collection: str, where: Document, what: Document) -> None:
        """One document, which `where` names by its id."""
        fields = {**what.get("$set", {}), "revision": self.revision}
        self._make(collection, Act.CHANGE, where, {**what, "$set": fields})

    def change_record(self, memory_id: str, what: Document, *, unless_since: int | None = None) -> None:
        """Once: a record that has this revision, or a later one, is passed over.

        So is one that was used, shown, rated or updated after `unless_since`.
        """
        quiet = {"$not": {"$gt": unless_since}}  # also where there is none
        since = dict.fromkeys(("updated", "last_used", "stirred"), quiet) if unless_since is not None else {}
        self.change(MEMORIES, {"_id": memory_id, "revision": {"$lt": self.revision}, **since}, what)

    def rename_all(self, collection: str, field: str, old: str, new: str) -> None:
        """In all documents that have the old name there; none has the new one yet."""
        named = {field: new, "revision": self.revision}
        self._make(collection, Act.CHANGE_ALL, {field: old, "revision": self._earlier}, {"$set": named})

    def remove(self, collection: str, where: Document) -> None:
        fenced = {**where, "revision": self._earlier}
        self._removing.append(Operation(collection, Act.REMOVE, fenced, {}))

    @property
    def _earlier(self) -> Document:
        return {"$not": {"$gte": self.revision}}  # also where there is none

    def _make(self, collection: str, act: Act, where: Document, what: Document) -> None:
        self._making.append(Operation(collection, act, where, what))

    async def undoing(self) -> list[Operation]:
        """What puts back all that the operations make, in the order that undoes them.

        Raises DocumentTooLarge and OverflowError for what a server would refuse.
        """
        before: dict[str, dict[Any, Document]] = {}
        for collection in {operation.collection for operation in self._making}:
            some = [one for one in self._making if one.collection == collection and one.act in _NEED_A_LOOK]
            before[collection] = await self._before(collection, some) if some else {}
        gone = [
            Operation(TOMBSTONES, Act.PUT, {"_id": one.what["row"]}, {"revision": self.revision})
            for one in self._making
            if one.collection == MEMORIES and one.act is Act.INSERT
        ]
        return gone + [
            back
            for operation in reversed(self._making)
            if (back := _undone(operation, before[operation.collection], self.revision)) is not None
        ]

    async def _before(self, collection: str, operations: Sequence[Operation]) -> dict[Any, Document]:
        fields = {
            name: 1
            for one in operations
            for part in one.what.values()
            if isinstance(part, dict)
            for name in part
        }
        whole = any(one.act is Act.PUT for one in operations)
        ids = [one.where["_id"] for one in operations]
        shown: Document = {} if whole else {**fields, _SIZE: {"$bsonSize": "$$ROOT"}}
        found = {one["_id"]: one for one in await self.find(collection, {"_id": {"$in": ids}}, shown)}
        for operation in operations:
            known = found.get(operation.where["_id"])
            if known is not None and operation.act is Act.CHANGE:
                _check_result(operation, known)
        return found


async def perform(
    database: AsyncDatabase[Document],
    operations: Iterable[Operation],
    *,
    session: AsyncClientSession | None = None,
    again: bool = False,
    still: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """In their order. `still` is asked before each batch whether to go on, and raises where not."""
    for collection, run in groupby(operations, key=lambda operation: operation.collection):
        asked = [operation.asked(again=again) for operation in run]
        for start in range(0, len(asked), _TOGETHER):
            if still is not None:
                await still()
            await database[collection].bulk_write(
                asked[start : start + _TOGETHER], ordered=True, session=session
            )


def _unless_later(document: Document) -> list[Document]:
    """Set the fields, but not of a document that has this revision or a later one."""
    put = {"$mergeObjects": ["$$ROOT", {"$literal": document}]}
    return [{"$replaceWith": {"$cond": [{"$gte": ["$revision", document["revision"]]}, "$$ROOT", put]}}]


def _undone(operation: Operation, before: dict[Any, Document], revision: int) -> Operation | None:
    """Does nothing where the operation was not made, and nothing more a second time."""
    made = {"revision": revision}
    if operation.act is Act.CHANGE_ALL:
        ((field, new),) = [(name, one) for name, one in operation.what["$set"].items() if name != "revision"]
        old = {"$set": {field: operation.where[field]}}
        return Operation(operation.collection, Act.CHANGE_ALL, {field: new, **made}, old)
    key = {"_id": operation.where["_id"], **made}
    known = before.get(operation.where["_id"])
    if operation.act is Act.INSERT or (operation.act is Act.PUT and known is None):
        return Operation(operation.collection, Act.REMOVE, key, {})
    if operation.act is Act.PUT and known is not None:
        return Operation(operation.collection, Act.RESTORE, key, known)
    # The revision stays: who has seen the record in between sees that it was changed.
    names = {name for part in operation.what.values() for name in part if name != "revision"}
    if known is None or not names:
        return None
    back: Document = {"$set": {name: known[name] for name in names if name in known}}
    if missing := {name: "" for name in names if name not in known}:
        back["$unset"] = missing
    return Operation(operation.collection, Act.CHANGE, key, {part: one for part, one in back.items() if one})


def _check_result(operation: Operation, known: Document) -> None:
    """`known` has the fields that the operation touches, and the size of the whole document."""
    for name, more in operation.what.get("$inc", {}).items():
        if not -(2**63) <= known.get(name, 0) + more < 2**63:
            raise OverflowError(f"{name} would be {known.get(name, 0) + more}")
    grown = known.get(_SIZE, 0) + len(bson.encode(operation.what["$set"]))
    if grown > _LARGEST:
        replaced = {name: known[name] for name in operation.what["$set"] if name in known}
        if grown - len(bson.encode(replaced)) > _LARGEST:
            raise DocumentTooLarge("a document of more than 16 MB")


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
