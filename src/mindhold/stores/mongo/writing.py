"""How changes become durable: all of one or nothing, one after the other, whoever makes them.

On a replica set a change is a transaction. A lone server has none: there who writes holds a lease, and the state's
document takes the whole change in one write, which is the moment that it is made. What follows may be interrupted
anywhere: whoever finds a change that is pending does it again before anything else. Should the server refuse a part of
it even so, whoever holds the lease puts everything back, and the change is one that was refused.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import pymongo
from bson.binary import Binary
from pymongo import ReturnDocument, WriteConcern
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.asynchronous.mongo_client import AsyncMongoClient
from pymongo.errors import BulkWriteError, ConnectionFailure, OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from mindhold.model.errors import Conflict, StoreAway, StoreBusy, StoreError
from mindhold.stores.mongo.driver import is_refusal, is_transient, may_be_done
from mindhold.stores.mongo.rows import Document
from mindhold.stores.mongo.steps import JOURNAL, METADATA, STATE, Operation, Step, packed, perform, unpacked

T = TypeVar("T")
Work = Callable[[Step], Awaitable[T]]

LEASE_SECONDS = 5.0
DURABLE = WriteConcern(w="majority", j=True)
LIGHT = WriteConcern(w=1)

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.001, 0.03
_RECENT = 64  # changes that are known to have been made
_UNKNOWN_COMMIT = "UnknownTransactionCommitResult"
_SMALL = 4 << 20  # bytes that the state's document takes itself

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
    """Makes one change after the other."""

    async def write(self, work: Work[T], *, deadline: float) -> T:
        """All that the work's step asks for, or nothing; durable when it returns. May run the work again."""


async def read_state(database: AsyncDatabase[Document]) -> Document:
    """Where the store is: its revision, and whether a change is pending."""
    found = await database[METADATA].find_one(STATE, _HEAD)
    if found is None:
        raise StoreError("The database was emptied.", advice="Restart Mindhold to make what it needs.")
    return found


class TransactionWriter:
    """For a replica set, also of one."""

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
                if error.has_error_label(_UNKNOWN_COMMIT):  # made twice is worse than told so
                    raise _not_known() from error
                if not is_transient(error) or time.monotonic() > deadline:
                    raise
            await _pause(tries)

    async def _once(self, work: Work[T]) -> T:
        async with self._client.start_session() as session:
            await session.start_transaction(read_concern=ReadConcern("snapshot"), write_concern=DURABLE)
            try:
                # First of all: of two changes at once one fails here, before it has done anything.
                state = await self._database[METADATA].find_one_and_update(
                    STATE, {"$inc": {"revision": 1}}, session=session
                )
                if state is None:
                    raise StoreError("The database was emptied.")
                step = Step(self._database, state, session)
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
    """One change through all its tries."""

    token: str = field(default_factory=lambda: secrets.token_hex(8))
    revision: int = 0  # that the last try would have led to; 0 while none can have been made
    result: list[T] = field(default_factory=list)  # of that try
    refusal: PyMongoError | None = None

    def made(self, state: Document) -> bool:
        """Whether it was, now that nothing is pending. Raises what it was refused for, and StoreAway if none knows."""
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
    """For a lone server."""

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
                    attempt.refusal = error  # whether that is the last word is seen with the lease in hand
                elif not isinstance(error, ConnectionFailure) or time.monotonic() > deadline:
                    if attempt.revision:
                        raise _not_known() from error
                    raise
            await _pause(20)

    async def heal(self, *, deadline: float) -> None:
        """Do what is pending."""

        async def nothing(_step: Step) -> None:
            pass

        await self.write(nothing, deadline=deadline)

    async def _once(self, work: Work[T], attempt: _Attempt[T], deadline: float) -> T:
        state = await self._acquire(deadline)
        renewing = asyncio.create_task(self._renew())
        try:
            if state.get("pending"):
                await self._redo(state["pending"])
                state = await read_state(self._database)
            if attempt.made(state):
                return attempt.result[-1]
            attempt.revision = 0
            step = Step(self._database, state, None)
            result = await work(step)
            if step.operations:
                attempt.result.append(result)
                await self._make(step, attempt)
            return result
        finally:
            renewing.cancel()
            # In a context of its own: also when the time of the change is over.
            await asyncio.create_task(self._release(), context=Context())

    async def _acquire(self, deadline: float) -> Document:
        """The state, now that nobody else writes. Raises StoreBusy."""
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
        with suppress(PyMongoError), pymongo.timeout(self._lease):  # it runs out by itself
            await self._metadata.update_one({**STATE, "writer.owner": self._me}, {"$unset": {"writer": ""}})

    async def _make(self, step: Step, attempt: _Attempt[T]) -> None:
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
        # From here on the change is made, whatever happens to us.
        try:
            made = await self._metadata.with_options(write_concern=DURABLE).update_one(
                {**STATE, "writer.owner": self._me, "revision": step.revision - 1, "pending": None},
                {"$set": {"pending": pending}},
            )
        except OperationFailure as error:
            if not may_be_done(error):
                attempt.revision = 0
            raise
        if not made.matched_count:
            attempt.revision = 0
            raise ConnectionFailure("the lease ran out")  # as if the line had broken: all is tried again
        await perform(self._database, step.operations, still=self._still(pending))
        await self._finish(pending)

    async def _put_aside(self, revision: int, parts: list[bytes], back: list[bytes]) -> Document:
        """In documents of their own. They needn't be journalled: the log is in order, and the state comes after."""
        journal, key = self._database[JOURNAL], secrets.token_hex(8)
        # Of changes that were never made. Those of one that waits are of a later revision, whoever we are by now.
        await journal.delete_many({"revision": {"$lt": revision}})
        for number, part in enumerate(parts + back):
            document = {"_id": f"{key}-{number}", "key": key, "part": number, "revision": revision}
            await journal.insert_one({**document, "operations": Binary(part)})
        return {"key": key, "parts": len(parts), "back_parts": len(back)}

    def _still(self, pending: Document, *, refused: bool = False) -> Callable[[], Awaitable[None]]:
        """Raises ConnectionFailure when another has gone on with the change: what became of it is then looked up."""
        mine = {**STATE, "pending.token": pending["token"], "pending.refused": True if refused else None}

        async def still() -> None:
            if await self._metadata.find_one(mine, {"_id": 1}) is None:
                raise ConnectionFailure("another has finished the change")

        return still

    async def _redo(self, pending: Document) -> None:
        """The lease is ours."""
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
        await self._finish(pending, made=False)

    async def _refuse(self, pending: Document) -> None:
        """From here on nobody does it again: what was done of it is to be put back."""
        mine = {**STATE, "pending.token": pending["token"], "writer.owner": self._me}
        refused = await self._metadata.with_options(write_concern=DURABLE).update_one(
            mine, {"$set": {"pending.refused": True}}
        )
        if not refused.matched_count:
            raise ConnectionFailure("the lease ran out")

    async def _put_back(self, pending: Document, back: list[Operation]) -> None:
        still = self._still(pending, refused=True)
        try:
            await perform(self._database, back, again=True, still=still)
        except PyMongoError as error:
            if not is_refusal(error):
                raise
            # A rule that somebody made since refuses what was there: as much as can be, so that the store lives on.
            for operation in back:
                with suppress(BulkWriteError):
                    await perform(self._database, [operation], again=True, still=still)

    async def _finish(self, pending: Document, *, made: bool = True) -> None:
        done = {
            "$set": {"revision": pending["revision"], "row": pending["row"]},
            "$inc": {"total_memories": pending["added"] if made else 0},
            "$unset": {"pending": ""},
            "$push": {"recent" if made else "refused": {"$each": [pending["token"]], "$slice": -_RECENT}},
        }
        finished = await self._metadata.update_one({**STATE, "pending.token": pending["token"]}, done)
        if not finished.matched_count:
            raise ConnectionFailure("another has finished the change")
        if "key" in pending:
            await self._database[JOURNAL].delete_many({"key": pending["key"]})

    async def _journalled(self, pending: Document) -> tuple[list[Operation], list[Operation]]:
        if "operations" in pending:
            return list(unpacked([pending["operations"]])), list(unpacked([pending["back"]]))
        cursor = self._database[JOURNAL].find({"key": pending["key"]}).sort("part", 1)
        found = [part["operations"] async for part in cursor]
        count = pending["parts"]
        if len(found) != count + pending["back_parts"]:
            raise StoreError(
                "A change that was made can't be finished: parts of it are missing in the collection `journal`.",
                advice="Put a backup of the database back.",
            )
        return list(unpacked(found[:count])), list(unpacked(found[count:]))


def _not_known() -> StoreAway:
    return StoreAway(
        "MongoDB didn't answer in time; it isn't known whether the change was made.",
        advice="Look whether it is there before you try again.",
    )


async def _committed(session: Any) -> None:
    """A commit whose answer was lost is asked for again: it is made once."""
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
