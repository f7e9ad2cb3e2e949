"""How changes become durable: their steps, and the writers that apply them in a transaction or through a journal."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import Any, Generic, Protocol, TypeVar

import bson
import pymongo
from bson.binary import Binary
from pymongo import DeleteMany, InsertOne, ReplaceOne, ReturnDocument, UpdateMany, UpdateOne, WriteConcern
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.asynchronous.mongo_client import AsyncMongoClient
from pymongo.errors import BulkWriteError, ConnectionFailure, DocumentTooLarge, OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from mindhold.model.errors import Conflict, StoreAway, StoreBusy, StoreError
from mindhold.stores.mongo.driver import is_refusal, is_transient, may_be_done
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

STATE = {"_id": "state"}  # in METADATA: revision, last row, current writer, pending change

_TOGETHER = 1_000
_PART_BYTES = 8 << 20
_LARGEST = (16 << 20) - 4096  # a server's limit for one document, minus our own fields
_SIZE = "_size"


class Act(StrEnum):
    """What an operation does. Each is idempotent."""

    INSERT = "insert"  # unless the id exists
    PUT = "put"  # insert, or set the fields of the document with that id
    CHANGE = "change"
    CHANGE_ALL = "change_all"
    REMOVE = "remove"  # all that match
    RESTORE = "restore"  # the whole document, if one matches


@dataclass(frozen=True, slots=True)
class MongoOperation:
    collection: str
    act: Act
    where: Document
    what: Document

    def asked(self, *, again: bool) -> Any:
        """The operation for the driver; an insert is faster the first time."""
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


class MongoStep:
    """One change. Reads through it see one state; its operations are applied together or not at all.

    Every document that a step writes has its revision. A process that continues a step after others have gone further finds
    later revisions, and leaves those alone.
    """

    def __init__(
        self, database: AsyncDatabase[Document], state: Document, session: AsyncClientSession | None
    ) -> None:
        self._database = database
        self._session = session
        self.last_row = int(state["row"])
        self._making: list[MongoOperation] = []
        self._removing: list[MongoOperation] = []
        self.revision = int(state["revision"]) + 1
        self.added = 0

    @property
    def operations(self) -> list[MongoOperation]:
        """The operations, removals last: no server refuses those, so nothing removed ever has to be restored."""
        return self._making + self._removing

    def next_row(self) -> int:
        """A row number that is never used twice."""
        self.last_row += 1
        return self.last_row

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
        """Change one document, which `where` identifies by its id."""
        fields = {**what.get("$set", {}), "revision": self.revision}
        self._make(collection, Act.CHANGE, where, {**what, "$set": fields})

    def change_record(self, memory_id: str, what: Document, *, unless_since: int | None = None) -> None:
        """Change a record once: a record with this revision or a later one is skipped.

        So is one that was used, shown, rated or updated after `unless_since`.
        """
        where: Document = {"_id": memory_id, "revision": {"$lt": self.revision}}
        if unless_since is not None:
            quiet = {"$not": {"$gt": unless_since}}  # also true without a value
            where |= dict.fromkeys(("updated", "last_used", "stirred"), quiet)
        self.change(MEMORIES, where, what)

    def rename_all(self, collection: str, field: str, old: str, new: str) -> None:
        """Replace the old name in all documents; none has the new name yet."""
        fields = {field: new, "revision": self.revision}
        self._make(collection, Act.CHANGE_ALL, {field: old, "revision": self._earlier}, {"$set": fields})

    def remove(self, collection: str, where: Document) -> None:
        fenced = {**where, "revision": self._earlier}
        self._removing.append(MongoOperation(collection, Act.REMOVE, fenced, {}))

    @property
    def _earlier(self) -> Document:
        return {"$not": {"$gte": self.revision}}  # also true without a revision

    def _make(self, collection: str, act: Act, where: Document, what: Document) -> None:
        self._making.append(MongoOperation(collection, act, where, what))

    async def undoing(self) -> list[MongoOperation]:
        """The operations that undo this step, in the right order.

        Raises DocumentTooLarge and OverflowError for what a server would refuse.
        """
        before: dict[str, dict[Any, Document]] = {}
        for collection in {operation.collection for operation in self._making}:
            before[collection] = await self._before(collection)
        tombstones = [
            MongoOperation(TOMBSTONES, Act.PUT, {"_id": candidate.what["row"]}, {"revision": self.revision})
            for candidate in self._making
            if candidate.collection == MEMORIES and candidate.act is Act.INSERT
        ]
        return tombstones + [
            back
            for operation in reversed(self._making)
            if (back := _undone(operation, before[operation.collection], self.revision)) is not None
        ]

    async def _before(self, collection: str) -> dict[Any, Document]:
        """The documents that the step puts or changes, as they are now. Raises what undoing() raises."""
        operations = [
            item
            for item in self._making
            if item.collection == collection and item.act in (Act.PUT, Act.CHANGE)
        ]
        if not operations:
            return {}
        fields = {
            name: 1
            for item in operations
            for part in item.what.values()
            if isinstance(part, dict)
            for name in part
        }
        whole = any(item.act is Act.PUT for item in operations)
        ids = [item.where["_id"] for item in operations]
        projection: Document = {} if whole else {**fields, _SIZE: {"$bsonSize": "$$ROOT"}}
        documents = {
            item["_id"]: item for item in await self.find(collection, {"_id": {"$in": ids}}, projection)
        }
        for operation in operations:
            document = documents.get(operation.where["_id"])
            if document is not None and operation.act is Act.CHANGE:
                _check_result(operation, document)
        return documents


async def perform(
    database: AsyncDatabase[Document],
    operations: Iterable[MongoOperation],
    *,
    session: AsyncClientSession | None = None,
    again: bool = False,
    still: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Perform the operations in order. `still` is called before each batch and raises to stop."""
    for collection, run in groupby(operations, key=lambda operation: operation.collection):
        requests = [operation.asked(again=again) for operation in run]
        for start in range(0, len(requests), _TOGETHER):
            if still is not None:
                await still()
            await database[collection].bulk_write(
                requests[start : start + _TOGETHER], ordered=True, session=session
            )


def _unless_later(document: Document) -> list[Document]:
    """Set the fields, except of a document with this revision or a later one."""
    put = {"$mergeObjects": ["$$ROOT", {"$literal": document}]}
    return [{"$replaceWith": {"$cond": [{"$gte": ["$revision", document["revision"]]}, "$$ROOT", put]}}]


def _undone(operation: MongoOperation, before: dict[Any, Document], revision: int) -> MongoOperation | None:
    """The operation that undoes another. It has no effect if that was not done, or the second time."""
    own_revision = {"revision": revision}
    if operation.act is Act.CHANGE_ALL:
        ((field, new), _revision) = operation.what["$set"].items()
        old = {"$set": {field: operation.where[field]}}
        return MongoOperation(operation.collection, Act.CHANGE_ALL, {field: new, **own_revision}, old)
    key = {"_id": operation.where["_id"], **own_revision}
    document = before.get(operation.where["_id"])
    if operation.act is Act.INSERT or (operation.act is Act.PUT and document is None):
        return MongoOperation(operation.collection, Act.REMOVE, key, {})
    if operation.act is Act.PUT and document is not None:
        return MongoOperation(operation.collection, Act.RESTORE, key, document)
    # The revision stays, so that readers who saw the record in between notice the change.
    names = {name for part in operation.what.values() for name in part if name != "revision"}
    if document is None or not names:
        return None
    back: Document = {"$set": {name: document[name] for name in names if name in document}}
    if missing := {name: "" for name in names if name not in document}:
        back["$unset"] = missing
    return MongoOperation(
        operation.collection, Act.CHANGE, key, {part: value for part, value in back.items() if value}
    )


def _check_result(operation: MongoOperation, known: Document) -> None:
    """Check that the server takes the changed document: its numbers, and its size.

    `known` has the touched fields, and the size of the document.
    """
    for name, more in operation.what.get("$inc", {}).items():
        if not -(2**63) <= known.get(name, 0) + more < 2**63:
            raise OverflowError(f"{name} would be {known.get(name, 0) + more}")
    grown = known.get(_SIZE, 0) + len(bson.encode(operation.what["$set"]))
    if grown > _LARGEST:
        replaced = {name: known[name] for name in operation.what["$set"] if name in known}
        if grown - len(bson.encode(replaced)) > _LARGEST:
            raise DocumentTooLarge("a document of more than 16 MB")


def packed(operations: Sequence[MongoOperation]) -> list[bytes]:
    """The operations in the form of the journal, in parts that fit a document; no server looks into it."""
    parts: list[bytes] = []
    run: list[Document] = []
    size = 0
    for operation in operations:
        entry = {
            "c": operation.collection,
            "a": operation.act.value,
            "w": operation.where,
            "d": operation.what,
        }
        encoded = len(bson.encode(entry))
        if encoded > _LARGEST:
            raise DocumentTooLarge(f"a document of {encoded} bytes")
        if run and size + encoded > _PART_BYTES:
            parts.append(bson.encode({"operations": run}))
            run, size = [], 0
        run.append(entry)
        size += encoded
    return [*parts, bson.encode({"operations": run})]


def unpacked(parts: Iterable[bytes]) -> Iterator[MongoOperation]:
    for part in parts:
        for entry in bson.decode(part)["operations"]:
            yield MongoOperation(entry["c"], Act(entry["a"]), entry["w"], entry["d"])


T = TypeVar("T")
Work = Callable[[MongoStep], Awaitable[T]]

LEASE_SECONDS = 5.0
DURABLE = WriteConcern(w="majority", j=True)
LIGHT = WriteConcern(w=1)

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.001, 0.03
_RECENT = 64  # tokens of recently completed changes
_UNKNOWN_COMMIT = "UnknownTransactionCommitResult"
_SMALL = 4 << 20  # bytes that fit in the state's document

_HEAD = {
    "revision": 1,
    "row": 1,
    "schema": 1,
    "pending.revision": 1,
    "pending.token": 1,
    "recent": 1,
    "refused": 1,
    "expired": {"$lte": [{"$ifNull": ["$writer.until", "$$NOW"]}, "$$NOW"]},
}


class Writer(Protocol):
    """Applies changes one after the other."""

    async def write(self, work: Work[T], *, deadline: float) -> T:
        """Apply all operations of the work's step, or none; durable when it returns. May run the work again."""


async def read_state(database: AsyncDatabase[Document]) -> Document:
    """The state of the store: its revision, and whether a change is pending."""
    state = await database[METADATA].find_one(STATE, _HEAD)
    if state is None:
        raise StoreError("The database was emptied.", advice="Restart Mindhold to make what it needs.")
    return state


class TransactionWriter:
    """The writer for a replica set, also with a single member."""

    def __init__(self, client: AsyncMongoClient[Document], database: AsyncDatabase[Document]) -> None:
        self._client = client
        self._database = database

    async def write(self, work: Work[T], *, deadline: float) -> T:
        tries = 0
        while True:
            try:
                return await self._once(work)
            except PyMongoError as error:
                tries += 1
                if error.has_error_label(_UNKNOWN_COMMIT):  # better to report it than to apply it twice
                    raise _not_known() from error
                if not is_transient(error) or time.monotonic() > deadline:
                    raise
            await _pause(tries)

    async def _once(self, work: Work[T]) -> T:
        async with self._client.start_session() as session:
            await session.start_transaction(read_concern=ReadConcern("snapshot"), write_concern=DURABLE)
            try:
                # First: of two concurrent changes one fails here, before it has done anything.
                state = await self._database[METADATA].find_one_and_update(
                    STATE, {"$inc": {"revision": 1}}, session=session
                )
                if state is None:
                    raise StoreError("The database was emptied.")
                step = MongoStep(self._database, state, session)
                result = await work(step)
                if not step.operations:
                    await session.abort_transaction()
                    return result
                await perform(self._database, step.operations, session=session)
                counted = {"$set": {"row": step.last_row}, "$inc": {"total_memories": step.added}}
                await self._database[METADATA].update_one(STATE, counted, session=session)
            except BaseException:
                with suppress(PyMongoError):
                    await session.abort_transaction()
                raise
            await _committed(session)
            return result


@dataclass(slots=True)
class _Attempt(Generic[T]):
    """One change through all its attempts."""

    token: str = field(default_factory=lambda: secrets.token_hex(8))
    revision: int = 0  # of the last attempt; 0 while none can have been applied
    result: list[T] = field(default_factory=list)  # of that attempt
    refusal: PyMongoError | None = None

    def is_applied(self, state: Document) -> bool:
        """Whether the change was applied, now that none is pending. Raises its refusal, and StoreAway if that is unknown."""
        if not self.revision or state["revision"] < self.revision:
            return False
        if self.token in state["recent"]:
            return True
        if self.token in state.get("refused", ()):
            raise self.refusal or Conflict("The database refused the change.")
        if state["revision"] - self.revision >= _RECENT:
            raise _not_known()
        return False


class JournalWriter:
    """The writer for a standalone server."""

    def __init__(self, database: AsyncDatabase[Document], *, lease_seconds: float = LEASE_SECONDS) -> None:
        self._database = database
        self._metadata = database[METADATA]
        self._lease = lease_seconds
        self._me = secrets.token_hex(8)

    async def write(self, work: Work[T], *, deadline: float) -> T:
        attempt = _Attempt[T]()
        while True:
            try:
                return await self._once(work, attempt, deadline)
            except PyMongoError as error:
                if error is attempt.refusal:
                    raise
                if attempt.revision and is_refusal(error):
                    attempt.refusal = error  # whether it is final is decided once we hold the lease
                elif not isinstance(error, ConnectionFailure) or time.monotonic() > deadline:
                    if attempt.revision:
                        raise _not_known() from error
                    raise
            await _pause(20)

    async def _once(self, work: Work[T], attempt: _Attempt[T], deadline: float) -> T:
        state = await self._acquire(deadline)
        renewing = asyncio.create_task(self._renew())
        try:
            if state.get("pending"):
                await self._redo(state["pending"])
                state = await read_state(self._database)
            if attempt.is_applied(state):
                return attempt.result[-1]
            attempt.revision = 0
            step = MongoStep(self._database, state, None)
            result = await work(step)
            if step.operations:
                attempt.result.append(result)
                await self._make(step, attempt)
            return result
        finally:
            renewing.cancel()
            # In its own context, so that it runs even after the time limit of the change.
            await asyncio.create_task(self._release(), context=Context())

    async def _acquire(self, deadline: float) -> Document:
        """Take the writer's lease and return the state. Raises StoreBusy."""
        free = {"$or": [{"writer.owner": self._me}, {"$expr": _HEAD["expired"]}]}
        for tries in range(1_000_000):
            state = await self._metadata.find_one_and_update(
                {**STATE, **free}, [self._held()], return_document=ReturnDocument.AFTER
            )
            if state is not None:
                return state
            if time.monotonic() > deadline:
                break
            await _pause(tries)
        raise StoreBusy("Another process writes for too long.", advice="Try again.")

    def _held(self) -> Document:
        until = {"$add": ["$$NOW", int(self._lease * 1000)]}
        return {"$set": {"writer": {"owner": self._me, "until": until}}}

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            with suppress(PyMongoError):
                await self._metadata.update_one({**STATE, "writer.owner": self._me}, [self._held()])

    async def _release(self) -> None:
        with suppress(PyMongoError), pymongo.timeout(self._lease):  # it expires by itself
            await self._metadata.update_one({**STATE, "writer.owner": self._me}, {"$unset": {"writer": ""}})

    async def _make(self, step: MongoStep, attempt: _Attempt[T]) -> None:
        pending: Document = {
            "revision": step.revision,
            "token": attempt.token,
            "row": step.last_row,
            "added": step.added,
        }
        parts = packed(step.operations)
        back = packed(await step.undoing())
        if sum(map(len, parts + back)) <= _SMALL:
            pending |= {"operations": Binary(parts[0]), "back": Binary(back[0])}
        else:
            pending |= await self._put_aside(step.revision, parts, back)
        attempt.revision = step.revision
        # From here on the change will be applied, whatever happens to us.
        try:
            update = await self._metadata.with_options(write_concern=DURABLE).update_one(
                {**STATE, "writer.owner": self._me, "revision": step.revision - 1, "pending": None},
                {"$set": {"pending": pending}},
            )
        except OperationFailure as error:
            if not may_be_done(error):
                attempt.revision = 0
            raise
        if not update.matched_count:
            attempt.revision = 0
            # Handled like a broken connection: everything is tried again.
            raise ConnectionFailure("the lease ran out")
        await perform(self._database, step.operations, still=self._still(pending))
        await self._finish(pending)

    async def _put_aside(self, revision: int, parts: list[bytes], back: list[bytes]) -> Document:
        """Store the operations in their own documents. These needn't be journalled: the log is in order, and the state comes after."""
        journal, key = self._database[JOURNAL], secrets.token_hex(8)
        # Parts of changes that were never applied. A waiting change has a later revision, even if we lost the lease.
        await journal.delete_many({"revision": {"$lt": revision}})
        for number, part in enumerate(parts + back):
            document = {"_id": f"{key}-{number}", "key": key, "part": number, "revision": revision}
            await journal.insert_one({**document, "operations": Binary(part)})
        return {"key": key, "parts": len(parts), "back_parts": len(back)}

    def _still(self, pending: Document, *, refused: bool = False) -> Callable[[], Awaitable[None]]:
        """A check that raises ConnectionFailure if another process has finished the change; its outcome is looked up then."""
        mine = {**STATE, "pending.token": pending["token"], "pending.refused": True if refused else None}

        async def still() -> None:
            if await self._metadata.find_one(mine, {"_id": 1}) is None:
                raise ConnectionFailure("another has finished the change")

        return still

    async def _redo(self, pending: Document) -> None:
        """Apply the pending change while holding the lease, or undo it if the server refuses it."""
        operations, back = await self._journalled(pending)
        if not pending.get("refused"):
            try:
                await perform(self._database, operations, again=True, still=self._still(pending))
            except PyMongoError as error:
                if not is_refusal(error):
                    raise
                await self._refuse(pending)
            else:
                await self._finish(pending)
                return
        await self._put_back(pending, back)
        await self._finish(pending, applied=False)

    async def _refuse(self, pending: Document) -> None:
        """Mark the change as refused: nobody applies it again, and what was applied is undone."""
        mine = {**STATE, "pending.token": pending["token"], "writer.owner": self._me}
        refused = await self._metadata.with_options(write_concern=DURABLE).update_one(
            mine, {"$set": {"pending.refused": True}}
        )
        if not refused.matched_count:
            raise ConnectionFailure("the lease ran out")

    async def _put_back(self, pending: Document, back: list[MongoOperation]) -> None:
        still = self._still(pending, refused=True)
        try:
            await perform(self._database, back, again=True, still=still)
        except PyMongoError as error:
            if not is_refusal(error):
                raise
            # A validation rule added since refuses the old document: restore as much as possible, so that the store stays usable.
            for operation in back:
                with suppress(BulkWriteError):
                    await perform(self._database, [operation], again=True, still=still)

    async def _finish(self, pending: Document, *, applied: bool = True) -> None:
        completion = {
            "$set": {"revision": pending["revision"], "row": pending["row"]},
            "$inc": {"total_memories": pending["added"] if applied else 0},
            "$unset": {"pending": ""},
            "$push": {"recent" if applied else "refused": {"$each": [pending["token"]], "$slice": -_RECENT}},
        }
        finished = await self._metadata.update_one({**STATE, "pending.token": pending["token"]}, completion)
        if not finished.matched_count:
            raise ConnectionFailure("another has finished the change")
        if "key" in pending:
            await self._database[JOURNAL].delete_many({"key": pending["key"]})

    async def _journalled(self, pending: Document) -> tuple[list[MongoOperation], list[MongoOperation]]:
        if "operations" in pending:
            return list(unpacked([pending["operations"]])), list(unpacked([pending["back"]]))
        cursor = self._database[JOURNAL].find({"key": pending["key"]}).sort("part", 1)
        stored_parts = [part["operations"] async for part in cursor]
        count = pending["parts"]
        if len(stored_parts) != count + pending["back_parts"]:
            raise StoreError(
                "A change that was made can't be finished: parts of it are missing in the collection `journal`.",
                advice="Put a backup of the database back.",
            )
        return list(unpacked(stored_parts[:count])), list(unpacked(stored_parts[count:]))


def _not_known() -> StoreAway:
    return StoreAway(
        "MongoDB didn't answer in time; it isn't known whether the change was made.",
        advice="Look whether it is there before you try again.",
    )


async def _committed(session: Any) -> None:
    """Commit, again if the answer was lost: the server commits only once."""
    while True:
        try:
            await session.commit_transaction()
            return
        except PyMongoError as error:
            if not error.has_error_label(_UNKNOWN_COMMIT) or error.timeout:
                raise
        await _pause(5)


async def _pause(tries: int) -> None:
    longest = min(_LONGEST_PAUSE, _SHORTEST_PAUSE * 2 ** min(tries, 10))
    await asyncio.sleep(random.uniform(longest / 2, longest))
