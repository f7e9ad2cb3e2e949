"""How changes become durable: all of one or nothing, one after the other, whoever makes them.

On a replica set a change is a transaction. A lone server has none: there who writes holds a lease, and the state's
document takes the whole change in one write, which is the moment that it is made. What follows may be interrupted
anywhere: whoever finds a change that is pending does it again before anything else.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context
from typing import Any, Protocol, TypeVar

import pymongo
from bson.binary import Binary
from pymongo import ReturnDocument, WriteConcern
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.asynchronous.mongo_client import AsyncMongoClient
from pymongo.errors import ConnectionFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from recollect.model.errors import StoreBusy, StoreError
from recollect.stores.mongo.driver import is_transient
from recollect.stores.mongo.rows import Document
from recollect.stores.mongo.steps import JOURNAL, METADATA, STATE, Step, packed, perform, unpacked

T = TypeVar("T")
Work = Callable[[Step], Awaitable[T]]

LEASE_SECONDS = 5.0
DURABLE = WriteConcern(w="majority", j=True)
LIGHT = WriteConcern(w=1)

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.001, 0.03
_RECENT = 64  # changes that are known to have been made
_SMALL = 4 << 20  # bytes that the state's document takes itself

_HEAD = {
    "revision": 1,
    "row": 1,
    "schema": 1,
    "pending.revision": 1,
    "pending.token": 1,
    "recent": 1,
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
        raise StoreError("The database was emptied.", advice="Restart Recollect to make what it needs.")
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


class JournalWriter:
    """For a lone server."""

    def __init__(self, database: AsyncDatabase[Document], *, lease_seconds: float = LEASE_SECONDS) -> None:
        self._database = database
        self._metadata = database[METADATA]
        self._lease = lease_seconds
        self._me = secrets.token_hex(8)

    async def write(self, work: Work[T], *, deadline: float) -> T:
        token = secrets.token_hex(8)
        results: list[T] = []  # of a try whose end was not heard of

        while True:
            try:
                return await self._once(work, token, results, deadline)
            except PyMongoError as error:
                if not isinstance(error, ConnectionFailure) or time.monotonic() > deadline:
                    raise
            await _pause(20)

    async def heal(self, *, deadline: float) -> None:
        """Do what is pending."""

        async def nothing(_step: Step) -> None:
            pass

        await self.write(nothing, deadline=deadline)

    async def _once(self, work: Work[T], token: str, results: list[T], deadline: float) -> T:
        state = await self._acquire(deadline)
        renewing = asyncio.create_task(self._renew())
        try:
            if state.get("pending"):
                await self._redo(state["pending"])
                state = await read_state(self._database)
            if results and token in state["recent"]:
                return results[-1]
            step = Step(self._database, state, None)
            result = await work(step)
            if step.operations:
                results.append(result)
                await self._make(step, token)
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

    async def _make(self, step: Step, token: str) -> None:
        parts = packed(step.operations)
        pending: Document = {
            "revision": step.revision,
            "token": token,
            "row": step.last_row,
            "added": step.added,
            "parts": len(parts),
        }
        if len(parts) == 1 and len(parts[0]) <= _SMALL:
            pending["operations"] = Binary(parts[0])
        else:
            await self._database[JOURNAL].delete_many({})  # of a change that was never made
            for number, part in enumerate(parts):
                document = {
                    "_id": f"{token}-{number}",
                    "token": token,
                    "part": number,
                    "operations": Binary(part),
                }
                await self._database[JOURNAL].insert_one(document)
        # From here on the change is made, whatever happens to us.
        made = await self._metadata.with_options(write_concern=DURABLE).update_one(
            {**STATE, "writer.owner": self._me, "revision": step.revision - 1, "pending": None},
            {"$set": {"pending": pending}},
        )
        if not made.matched_count:
            raise ConnectionFailure("the lease ran out")  # as if the line had broken: all is tried again
        await perform(self._database, step.operations)
        await self._finish(pending)

    async def _redo(self, pending: Document) -> None:
        await perform(self._database, unpacked(await self._parts(pending)), again=True)
        await self._finish(pending)

    async def _finish(self, pending: Document) -> None:
        done = {
            "$set": {"revision": pending["revision"], "row": pending["row"]},
            "$inc": {"total_memories": pending["added"]},
            "$unset": {"pending": ""},
            "$push": {"recent": {"$each": [pending["token"]], "$slice": -_RECENT}},
        }
        await self._metadata.update_one({**STATE, "pending.token": pending["token"]}, done)
        if "operations" not in pending:
            await self._database[JOURNAL].delete_many({"token": pending["token"]})

    async def _parts(self, pending: Document) -> list[bytes]:
        if "operations" in pending:
            return [pending["operations"]]
        cursor = self._database[JOURNAL].find({"token": pending["token"]}).sort("part", 1)
        return [part["operations"] async for part in cursor]


async def _committed(session: Any) -> None:
    """A commit whose answer was lost is asked for again: it is made once."""
    while True:
        try:
            await session.commit_transaction()
            return
        except PyMongoError as error:
            if not error.has_error_label("UnknownTransactionCommitResult") or error.timeout:
                raise
        await _pause(5)


async def _pause(tries: int) -> None:
    longest = min(_LONGEST_PAUSE, _SHORTEST_PAUSE * 2 ** min(tries, 10))
    await asyncio.sleep(random.uniform(longest / 2, longest))
