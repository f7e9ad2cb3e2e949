"""The index in memory, kept where the database is.

A search runs in a thread: it computes there and asks the server through the event loop. What it reads is of one state:
the revision is looked at when it begins and when it ends, and where a record that it could have met was changed
meanwhile, it is done again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from mindhold.model.errors import StoreError
from mindhold.model.query import Filter
from mindhold.stores.gate import Gate
from mindhold.stores.mongo.connection import Database
from mindhold.stores.mongo.filters import Query, beyond_search, matching
from mindhold.stores.mongo.rows import Document
from mindhold.stores.mongo.vectors import HELD, VectorIndexes
from mindhold.stores.mongo.writing import read_state
from mindhold.stores.resident import ELSEWHERE, EXACT_UP_TO, Batch, Reach, Resident
from mindhold.stores.searching import Rows

T = TypeVar("T")

DRIVING = 20_000  # records: looking a word up costs some microseconds for each that has it

_READERS = 4
_LOADED_TOGETHER = 2_000
_MOST_POSTINGS = 4_000_000  # kept from one search to the next, 8 bytes each
_MOST_LOGGED = 2_000  # changed records by which known postings are corrected
_TRIES_IN_PASSING = 4

_COLUMNS = dict.fromkeys(
    "row scope agent kind status occurred trust length conversation position code embedded_by".split(), 1
) | {"_id": 0}
_ROW = {"_id": 0, "row": 1}
# How a document of _ROW looks: its length, a type and a name, the number, an end.
_RAW_ROW = np.dtype([("head", "V9"), ("row", "<i8"), ("end", "V1")])


class LiveIndex:
    """For many searches at once."""

    def __init__(
        self,
        database: Database,
        *,
        exact_up_to: int = EXACT_UP_TO,
        driving: int = DRIVING,
        held: int = HELD,
    ) -> None:
        self._database = database
        self._held = held
        self._first_held = 0  # the row from which on codes are held, where the server finds the others
        self.indexes = VectorIndexes(database)
        self._exact_up_to = exact_up_to
        self.driving = driving
        self._gate = Gate()
        self._threads: ThreadPoolExecutor | None = None
        self._last_row = 0
        self.postings = Postings(self.ask, database)
        self.resident = Resident(exact_up_to=exact_up_to)

    async def open(self) -> None:
        await self._database.ask(self.indexes.look)
        if self._threads is None:
            self._loop = asyncio.get_running_loop()
            self._threads = ThreadPoolExecutor(_READERS, thread_name_prefix="mindhold-search")

    def close(self) -> None:
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)
        self.resident = Resident(exact_up_to=self._exact_up_to)  # the next open() may find another database
        self.postings.forget()

    async def run(self, model: str | None, work: Callable[[], T], *, dimensions: int = 0) -> T:
        """Do the work in a thread, while the index is where the database is."""
        if self._threads is None:
            raise StoreError(f"MongoDB at {self._database.place} is not open.", advice="Call open() first.")
        return await self._loop.run_in_executor(self._threads, self._following, model, work, dimensions)

    def ask(self, work: Callable[[], Awaitable[T]]) -> T:
        """From the thread of a search: what the server says, with time of its own."""
        asking: Coroutine[Any, Any, T] = self._database.ask(work)
        return asyncio.run_coroutine_threadsafe(asking, self._loop).result()

    def reach(self, where: Filter) -> Reach:
        """Which records the filter admits."""
        stated = (where.topic, where.conversation, where.positions)
        listed = where.tags or where.ids or where.anchored or where.tiers or beyond_search(where)
        rows: Sequence[int] | None = None
        if listed or any(condition is not None for condition in stated):
            rows = self.ask(lambda: rows_of(self._database, matching(where))).tolist()
        return self.resident.reach(where, scopes=where.scopes or None, rows=rows)

    def _following(self, model: str | None, work: Callable[[], T], dimensions: int) -> T:
        for _ in range(_TRIES_IN_PASSING):
            with self._gate.looking():
                revision = self.ask(self._database.settled)["revision"]
                if revision == self.resident.revision and model in (None, self.resident.model):
                    found = work()
                    if self._stood(revision):
                        return found
            with self._gate.changing():
                self._refreshed(model, dimensions)
        with self._gate.changing():  # they write without a pause: this time they wait
            return self.ask_alone(lambda: self._worked(model, work, dimensions))

    def ask_alone(self, work: Callable[[], T]) -> T:
        """While nobody writes."""

        async def waiting(_step: Any) -> T:
            return await self._loop.run_in_executor(None, work)

        writing: Coroutine[Any, Any, T] = self._database.write(waiting)
        return asyncio.run_coroutine_threadsafe(writing, self._loop).result()

    def _worked(self, model: str | None, work: Callable[[], T], dimensions: int) -> T:
        self._refreshed(model, dimensions)
        return work()

    def _stood(self, revision: int) -> bool:
        """Whether nothing that a search at the revision could meet was changed: what is new, it didn't know."""

        async def stood() -> bool:
            state = await read_state(self._database.database)
            if state["revision"] == revision and not state.get("pending"):
                return True
            # Of a change that is half made, whatever was done in time to be met has its revision already.
            later = {"$gt": revision}
            met = {"revision": later, "row": {"$lte": self._last_row}}
            if await self._database.memories.find_one(met, _ROW) is not None:
                return False
            return await self._database.tombstones.find_one({"revision": later}) is None

        return self.ask(stood)

    def _refreshed(self, model: str | None, dimensions: int) -> None:
        try:
            self._refresh(model, dimensions)
        except BaseException:
            self.resident = Resident(exact_up_to=self._exact_up_to)  # half of a refresh is worse than none
            self.postings.forget()
            raise

    def _refresh(self, model: str | None, dimensions: int) -> None:
        """Alone in the index. Ends at a revision at which nobody wrote while it was loaded."""
        while True:
            state = self.ask(self._database.settled)
            revision = state["revision"]
            if revision < self.resident.revision:  # another database was put in the place of the one we knew
                self.resident = Resident(exact_up_to=self._exact_up_to)
            resident = self.resident
            if model is not None and model != resident.model:
                self._first_held = self._choose(int(state["row"]), dimensions)
                self._load_codes(model)
            if not len(resident) and revision:
                resident.reserve(int(state["row"]))
                self.postings.forget()
                self._load_all()
            elif revision != resident.revision:
                self._load_changed(resident.revision)
            resident.settle(revision)
            self._last_row = int(state["row"])
            after = self.ask(lambda: read_state(self._database.database))
            if after["revision"] == revision and not after.get("pending"):
                return

    def _choose(self, last_row: int, dimensions: int) -> int:
        """From which row on codes are held: all of them, unless there are many and the server finds them itself."""
        if last_row <= self._held or not self.ask(lambda: self.indexes.ready(dimensions)):
            return 0
        return last_row - self._held + 1

    def _load_codes(self, model: str) -> None:
        self.resident.forget_codes(model)
        if not len(self.resident):
            return
        for batch in self._pages({"embedded_by": model}, _ROW, below=self._first_held):
            self.resident.put_codes([one["row"] for one in batch], [ELSEWHERE] * len(batch))
        for batch in self._pages({"embedded_by": model}, {**_ROW, "code": 1}, since=self._first_held):
            self.resident.put_codes([one["row"] for one in batch], [one["code"] for one in batch])

    def _load_all(self) -> None:
        plain = {name: 1 for name in _COLUMNS if name not in ("code", "_id")} | {"_id": 0}
        for batch in self._pages({}, plain, below=self._first_held):
            self.resident.put(_batch([{**one, "code": ELSEWHERE} for one in batch], self.resident.model))
        for batch in self._pages({}, _COLUMNS, since=self._first_held):
            self.resident.put(_batch(batch, self.resident.model))

    def _load_changed(self, since: int) -> None:
        changed = {"revision": {"$gt": since}}
        for batch in self._pages(changed, {**_COLUMNS, "lexemes": 1}):
            self.resident.put(_batch(batch, self.resident.model))
            self.postings.changed((one["row"], one["lexemes"]) for one in batch)
        gone = self.ask(lambda: self._database.tombstones.find(changed, {"_id": 1}).to_list())
        self.resident.remove(one["_id"] for one in gone)
        self.postings.changed((one["_id"], ()) for one in gone)

    def _pages(self, where: Query, fields: Document, *, since: int = 0, below: int | None = None) -> Any:
        """Documents in the order of their rows, some at a time, each with time of its own."""
        if below is not None and below <= since:
            return
        last = since - 1
        while batch := self.ask(partial(self._page, where, fields, last, below)):
            yield batch
            last = batch[-1]["row"]

    async def _page(self, where: Query, fields: Document, last: int, below: int | None) -> list[Document]:
        following = {**where, "row": {"$gt": last} | ({} if below is None else {"$lt": below})}
        cursor = self._database.memories.find(following, fields, batch_size=_LOADED_TOGETHER)
        return await cursor.sort("row", 1).limit(_LOADED_TOGETHER).to_list()


class Postings:
    """Which rows have a word, kept from one search to the next and corrected by what changes."""

    def __init__(self, ask: Callable[[Callable[[], Awaitable[Any]]], Any], database: Database) -> None:
        self._ask = ask
        self._database = database
        self.forget()

    def forget(self) -> None:
        self._known: OrderedDict[str, tuple[Rows, bool, int]] = (
            OrderedDict()
        )  # rows, all of them?, of which time
        self._held = 0
        self._log: list[tuple[int, frozenset[str]]] = []

    def changed(self, records: Any) -> None:
        """Rows with the words that they have now."""
        self._log += [(row, frozenset(lexemes)) for row, lexemes in records]
        if len(self._log) > _MOST_LOGGED:
            self.forget()

    def of(self, lexemes: Sequence[str], *, most: int | None) -> dict[str, Rows]:
        """As Source.postings() has it."""
        found = {lexeme: self._corrected(lexeme, most) for lexeme in lexemes}
        missing = [lexeme for lexeme, rows in found.items() if rows is None]
        if missing:
            when = len(self._log)
            looked_up = self._ask(lambda: self._look_up(missing, most))
            for lexeme, rows in zip(missing, looked_up, strict=True):
                found[lexeme] = rows
                self._remember(lexeme, rows, whole=most is None or len(rows) < most, when=when)
        return {lexeme: np.empty(0, np.int64) if rows is None else rows for lexeme, rows in found.items()}

    async def _look_up(self, lexemes: Sequence[str], most: int | None) -> list[Rows]:
        asked = ({"lexemes": lexeme} if lexeme else {"_id": None} for lexeme in lexemes)
        return await asyncio.gather(*(rows_of(self._database, where, limit=most or 0) for where in asked))

    def _corrected(self, lexeme: str, most: int | None) -> Rows | None:
        known = self._known.get(lexeme)
        if known is None:
            return None
        rows, whole, when = known
        if not whole and (most is None or len(rows) < most):
            return None
        since = dict(self._log[when:])  # of a row that changed twice the last counts
        if since:
            kept = rows[~np.isin(rows, np.fromiter(since, np.int64, len(since)))]
            if not whole and len(kept) < len(rows):
                return None
            having = [row for row, words in since.items() if lexeme in words and (whole or row < rows[-1])]
            rows = np.sort(np.concatenate([kept, np.array(having, dtype=np.int64)]))
            self._known[lexeme] = (rows, whole, len(self._log))
        return rows if most is None else rows[:most]

    def _remember(self, lexeme: str, rows: Rows, *, whole: bool, when: int) -> None:
        # Searches share this: each step is one operation of the dictionary, and the sum need only be about right.
        self._known[lexeme] = (rows, whole, when)
        self._held += len(rows)
        while self._held > _MOST_POSTINGS and len(self._known) > 1:
            _, (dropped, _, _) = self._known.popitem(last=False)
            self._held -= len(dropped)


async def rows_of(database: Database, where: Query, *, limit: int = 0) -> Rows:
    """The rows of records that match, ascending, read as an array rather than one by one."""
    cursor = database.memories.find_raw_batches(where, _ROW, batch_size=100_000).sort("row", 1).limit(limit)
    raw = b"".join([bytes(cast(bytes, batch)) async for batch in cursor])  # typed as if they were decoded
    return np.ascontiguousarray(np.frombuffer(raw, dtype=_RAW_ROW)["row"])


def _batch(documents: Sequence[Document], model: str | None) -> Batch:
    def column(name: str) -> list[Any]:
        return [document[name] for document in documents]

    return Batch(
        rows=column("row"),
        scopes=column("scope"),
        agents=column("agent"),
        kinds=column("kind"),
        statuses=column("status"),
        occurred=[document["occurred"] / 1e6 for document in documents],
        trust=column("trust"),
        lengths=column("length"),
        conversations=column("conversation"),
        positions=column("position"),
        codes=[document["code"] if document["embedded_by"] == model else None for document in documents],
    )
