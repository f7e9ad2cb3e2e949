"""Search: words by a multikey index, vectors by $vectorSearch if the server has it, else by in-memory codes."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from pymongo.errors import OperationFailure

from mindhold.model.errors import StoreError
from mindhold.model.memory import Memory
from mindhold.model.query import Candidates, Filter, Neighbour, Search, Vector
from mindhold.stores.mongo.connection import PATIENT, MongoDatabase, MongoPart
from mindhold.stores.mongo.rows import (
    FILTERED,
    SELECTED,
    Document,
    Query,
    all_of,
    beyond_search,
    exact_of,
    matching,
    memory_of,
    row_number,
    vector_fields,
)
from mindhold.stores.mongo.transactions import MEMORIES, MongoStep, read_state
from mindhold.stores.resident_index import (
    AdmittedSlots,
    Detail,
    ReadWriteLock,
    RecordBatch,
    ResidentIndex,
    ResidentSearch,
    Rows,
    beyond_index,
    bracketed,
    nearest,
)
from mindhold.stores.vectors import ELSEWHERE, NearestCodes, decode, distinct, exact_cosines

INDEX = "memory_vector_idx"
HELD = 10_000  # codes of the newest records

_CANDIDATES = 20  # candidates that the server compares per result
_MOST_CANDIDATES = 10_000


class MongoVectorIndexes:
    """The usable vector indexes of the server by vector length, and whether it offers any; known after look()."""

    def __init__(self, database: MongoDatabase) -> None:
        self._database = database
        self._queryable: dict[int, str] = {}
        self.offered = False

    async def look(self) -> None:
        """Find the usable indexes; none if the server doesn't support them."""
        try:
            cursor = await self._database.memories.aggregate([{"$listSearchIndexes": {}}])
            listed: list[dict[str, Any]] = await cursor.to_list()
        except OperationFailure:
            self.offered = False
            return
        self.offered = True
        self._queryable = {
            _dimensions(index): index["name"]
            for index in listed
            if index["name"].startswith(INDEX) and index.get("queryable")
        }

    async def ready(self, dimensions: int) -> bool:
        """Whether an index for vectors of that length is usable; if there is none, the server starts building it."""
        if not self.offered:
            return False
        await self.look()
        if dimensions in self._queryable:
            return True
        fields: list[dict[str, Any]] = [
            {"type": "vector", "path": "embedding", "numDimensions": dimensions, "similarity": "cosine"},
            *({"type": "filter", "path": field} for field in (*FILTERED, "embedded_by")),
        ]
        name = INDEX if not self._queryable else f"{INDEX}_{dimensions}"
        index = {"name": name, "type": "vectorSearch", "definition": {"fields": fields}}
        try:
            await self._database.database.command(
                "createSearchIndexes", self._database.memories.name, indexes=[index]
            )
        except OperationFailure:  # it is being built, or this user may not build it
            return False
        await self.look()
        return dimensions in self._queryable

    async def nearest(self, vector: Vector, *, model: str, where: Filter, limit: int) -> list[int]:
        """Rows of the nearest records that the index has."""
        stage = {
            "index": self._queryable[len(vector)],
            "path": "embedding",
            "queryVector": [float(number) for number in vector],
            "numCandidates": min(max(limit * _CANDIDATES, limit), _MOST_CANDIDATES),
            "limit": min(limit, _MOST_CANDIDATES),
            "filter": all_of({"embedded_by": model}, matching(where)),
        }
        cursor = await self._database.memories.aggregate(
            [{"$vectorSearch": stage}, {"$project": {"row": 1, "_id": 0}}]
        )
        return [document["row"] async for document in cursor]


def pooled(held: NearestCodes, cosines: npt.NDArray[np.float64], others: int) -> tuple[float, float]:
    """Mean and deviation of all cosines, from those of the held vectors and a sample of the `others`."""
    compared = held.embedded - held.elsewhere
    if not len(cosines):
        return held.mean, held.deviation
    mean = (compared * held.mean + others * float(cosines.mean())) / (compared + others)
    squares = compared * (held.deviation**2 + held.mean**2) + others * float((cosines**2).mean())
    return mean, max(0.0, squares / (compared + others) - mean**2) ** 0.5


def _dimensions(index: dict[str, Any]) -> int:
    fields = index["latestDefinition"]["fields"]
    return next((int(field["numDimensions"]) for field in fields if field["type"] == "vector"), 0)


T = TypeVar("T")

DRIVING = 20_000  # records: looking up a word costs some microseconds for each record that has it

_READERS = 4
_LOADED_TOGETHER = 2_000
_MOST_POSTINGS = 4_000_000  # cached between searches, 8 bytes each
_MOST_LOGGED = 2_000  # changed records by which cached postings are corrected
_TRIES_IN_PASSING = 4

_COLUMNS = dict.fromkeys(
    "row scope agent kind status occurred trust length conversation position code embedded_by".split(), 1
) | {"_id": 0}
_ROW = {"_id": 0, "row": 1}
# The layout of a document of _ROW: its length, a type and a name, the number, an end.
_RAW_ROW = np.dtype([("head", "V9"), ("row", "<i8"), ("end", "V1")])


class MongoLiveIndex:
    """The in-memory index of a database, for many searches at once."""

    def __init__(
        self,
        database: MongoDatabase,
        *,
        driving: int,
        held: int,
    ) -> None:
        self._database = database
        self._held = held
        self._first_held = 0  # codes are held from this row on, if the server finds the others
        self.indexes = MongoVectorIndexes(database)
        self.driving = driving
        self._gate = ReadWriteLock()
        self._threads: ThreadPoolExecutor | None = None
        self._last_row = 0
        self.postings = Postings(self.ask, database)
        self.resident = ResidentIndex()

    async def open(self) -> None:
        await self._database.ask(self.indexes.look)
        if self._threads is None:
            self._loop = asyncio.get_running_loop()
            self._threads = ThreadPoolExecutor(_READERS, thread_name_prefix="mindhold-search")

    def close(self) -> None:
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)
        self._forget()  # the next open() may find another database

    async def run(self, model: str | None, work: Callable[[], T], *, dimensions: int = 0) -> T:
        """Run the work in a thread while the index matches the database."""
        if self._threads is None:
            raise StoreError(f"MongoDB at {self._database.place} is not open.", advice="Call open() first.")
        return await self._loop.run_in_executor(self._threads, self._following, model, work, dimensions)

    def ask(self, work: Callable[[], Awaitable[T]]) -> T:
        """Ask the server from the thread of a search, with a time limit of its own."""
        asking: Coroutine[Any, Any, T] = self._database.ask(work)
        return asyncio.run_coroutine_threadsafe(asking, self._loop).result()

    def reach(self, where: Filter) -> AdmittedSlots:
        """The records that the filter admits."""
        rows = None
        if beyond_index(where):
            rows = self.ask(lambda: rows_of(self._database, matching(where)))
        return self.resident.reach(where, scopes=where.scopes or None, rows=rows)

    def _following(self, model: str | None, work: Callable[[], T], dimensions: int) -> T:
        for _ in range(_TRIES_IN_PASSING):
            with self._gate.looking():
                revision = self.ask(self._database.settled)["revision"]
                if revision == self.resident.revision and model in (None, self.resident.model):
                    result = work()
                    if self._stood(revision):
                        return result
            with self._gate.changing():
                self._refreshed(model, dimensions)
        with self._gate.changing():  # writers never pause, so this time they wait
            return self._alone(model, work, dimensions)

    def _alone(self, model: str | None, work: Callable[[], T], dimensions: int) -> T:
        """Refresh the index and run the work while nobody writes."""

        def refreshed_work() -> T:
            self._refreshed(model, dimensions)
            return work()

        async def waiting(_step: MongoStep) -> T:
            return await self._loop.run_in_executor(None, refreshed_work)

        writing: Coroutine[Any, Any, T] = self._database.write(waiting)
        return asyncio.run_coroutine_threadsafe(writing, self._loop).result()

    def _stood(self, revision: int) -> bool:
        """Whether nothing changed that a search at the revision could have read; it didn't see new records."""

        async def stood() -> bool:
            state = await read_state(self._database.database)
            if state["revision"] == revision and not state.get("pending"):
                return True
            # Whatever a half-applied change has done so far has its revision already.
            later = {"$gt": revision}
            changed = {"revision": later, "row": {"$lte": self._last_row}}
            if await self._database.memories.find_one(changed, _ROW) is not None:
                return False
            return await self._database.tombstones.find_one({"revision": later}) is None

        return self.ask(stood)

    def _refreshed(self, model: str | None, dimensions: int) -> None:
        try:
            self._refresh(model, dimensions)
        except BaseException:
            self._forget()  # half of a refresh is worse than none
            raise

    def _forget(self) -> None:
        self.resident = ResidentIndex()
        self.postings.forget()

    def _refresh(self, model: str | None, dimensions: int) -> None:
        """Refresh the index while no search uses it. Ends at a revision at which nobody wrote while it was loaded."""
        while True:
            state = self.ask(self._database.settled)
            revision = state["revision"]
            if revision < self.resident.revision:  # the database was replaced by another
                self.resident = ResidentIndex()
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
        """The row from which on codes are held: all of them, unless there are many and the server finds them itself."""
        if last_row <= self._held or not self.ask(lambda: self.indexes.ready(dimensions)):
            return 0
        return last_row - self._held + 1

    def _load_codes(self, model: str) -> None:
        self.resident.forget_codes(model)
        if not len(self.resident):
            return
        for batch in self._coded_pages({"embedded_by": model}, {**_ROW, "code": 1}):
            self.resident.put_codes(
                [document["row"] for document in batch], [document["code"] for document in batch]
            )

    def _load_all(self) -> None:
        for batch in self._coded_pages({}, _COLUMNS):
            self.resident.put(_batch(batch, self.resident.model))

    def _coded_pages(self, where: Query, fields: Document) -> Iterator[list[Document]]:
        """All documents, with ELSEWHERE for the codes that are not held; those aren't read."""
        plain = {name: included for name, included in fields.items() if name != "code"}
        for batch in self._pages(where, plain, below=self._first_held):
            yield [{**document, "code": ELSEWHERE} for document in batch]
        yield from self._pages(where, fields, since=self._first_held)

    def _load_changed(self, since: int) -> None:
        changed = {"revision": {"$gt": since}}
        for batch in self._pages(changed, {**_COLUMNS, "lexemes": 1}):
            self.resident.put(_batch(batch, self.resident.model))
            self.postings.changed((document["row"], document["lexemes"]) for document in batch)
        tombstones = self.ask(lambda: self._database.tombstones.find(changed, {"_id": 1}).to_list())
        self.resident.remove(document["_id"] for document in tombstones)
        self.postings.changed((document["_id"], ()) for document in tombstones)

    def _pages(
        self, where: Query, fields: Document, *, since: int = 0, below: int | None = None
    ) -> Iterator[list[Document]]:
        """Documents ordered by row, in pages, each with its own time limit."""
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
    """The rows of words, cached between searches and corrected by changes."""

    def __init__(self, ask: Callable[[Callable[[], Awaitable[Any]]], Any], database: MongoDatabase) -> None:
        self._ask = ask
        self._database = database
        self.forget()

    def forget(self) -> None:
        # Rows, whether they are complete, and their position in the log.
        self._known: OrderedDict[str, tuple[Rows, bool, int]] = OrderedDict()
        self._held = 0
        self._log: list[tuple[int, frozenset[str]]] = []

    def changed(self, records: Iterable[tuple[int, Sequence[str]]]) -> None:
        """Note changed rows with their present words."""
        self._log += [(row, frozenset(lexemes)) for row, lexemes in records]
        if len(self._log) > _MOST_LOGGED:
            self.forget()

    def of(self, lexemes: Sequence[str], *, most: int | None) -> dict[str, Rows]:
        """Implements SearchSource.postings()."""
        postings = {lexeme: self._corrected(lexeme, most) for lexeme in lexemes}
        missing = [lexeme for lexeme, rows in postings.items() if rows is None]
        if missing:
            when = len(self._log)
            looked_up = self._ask(lambda: self._look_up(missing, most))
            for lexeme, rows in zip(missing, looked_up, strict=True):
                postings[lexeme] = rows
                self._remember(lexeme, rows, whole=most is None or len(rows) < most, when=when)
        return {lexeme: np.empty(0, np.int64) if rows is None else rows for lexeme, rows in postings.items()}

    async def _look_up(self, lexemes: Sequence[str], most: int | None) -> list[Rows]:
        queries = ({"lexemes": lexeme} if lexeme else {"_id": None} for lexeme in lexemes)
        return await asyncio.gather(*(rows_of(self._database, where, limit=most or 0) for where in queries))

    def _corrected(self, lexeme: str, most: int | None) -> Rows | None:
        cached = self._known.get(lexeme)
        if cached is None:
            return None
        rows, whole, when = cached
        if not whole and (most is None or len(rows) < most):
            return None
        since = dict(self._log[when:])  # of a row that changed twice the last change counts
        if since:
            unchanged = rows[~np.isin(rows, np.fromiter(since, np.int64, len(since)))]
            if not whole and len(unchanged) < len(rows):
                return None
            having = [row for row, words in since.items() if lexeme in words and (whole or row < rows[-1])]
            rows = np.sort(np.concatenate([unchanged, np.array(having, dtype=np.int64)]))
            self._known[lexeme] = (rows, whole, len(self._log))
        return rows if most is None else rows[:most]

    def _remember(self, lexeme: str, rows: Rows, *, whole: bool, when: int) -> None:
        # Searches share this: each step is one operation of the dictionary, and the sum may be slightly wrong.
        self._known[lexeme] = (rows, whole, when)
        self._held += len(rows)
        while self._held > _MOST_POSTINGS and len(self._known) > 1:
            _, (dropped, _, _) = self._known.popitem(last=False)
            self._held -= len(dropped)


async def rows_of(database: MongoDatabase, where: Query, *, limit: int = 0) -> Rows:
    """The rows of matching records, ascending, read as an array rather than one by one."""
    cursor = database.memories.find_raw_batches(where, _ROW, batch_size=100_000).sort("row", 1).limit(limit)
    # The driver's type hints say decoded documents.
    raw = b"".join([bytes(cast(bytes, batch)) async for batch in cursor])
    return np.ascontiguousarray(np.frombuffer(raw, dtype=_RAW_ROW)["row"])


def _batch(documents: Sequence[Document], model: str | None) -> RecordBatch:
    def column(name: str) -> list[Any]:
        return [document[name] for document in documents]

    return RecordBatch(
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


# Details of candidates that aren't in memory.
_DETAILS = dict.fromkeys(
    "row importance trust uses usefulness occurred length conversation position lexemes embedding embedded_by".split(),
    1,
)


_FEW = 500  # vectors that are compared one by one


class MongoIndex(MongoPart):
    """Implements RecordSearch. The work runs in its own threads."""

    _live: MongoLiveIndex

    async def search(self, search: Search) -> Candidates:
        live = self._live
        model = search.model if search.vector is not None else None

        def work() -> Candidates:
            source, reach = _ServerSource(live, self._database, search.filter), live.reach(search.filter)
            search_run = ResidentSearch(source, live.resident, search, reach=reach, driving=live.driving)
            return search_run.candidates()

        return await live.run(model, work, dimensions=0 if search.vector is None else len(search.vector))

    async def nearest(
        self, vectors: Sequence[Vector], *, model: str, where: Filter, limit: int
    ) -> list[list[Neighbour]]:
        live = self._live

        def work() -> list[list[Neighbour]]:
            source, reach = _ServerSource(live, self._database, where), live.reach(where)
            return nearest(source, live.resident, vectors, reach=reach, limit=limit)

        return await live.run(model, work, dimensions=len(vectors[0]) if len(vectors) else 0)

    async def unembedded(self, model: str, *, limit: int, scopes: Sequence[str] = ()) -> list[Memory]:
        if limit <= 0:
            return []
        where: dict[str, Any] = {"embedded_by": {"$ne": model}, "status": {"$ne": "forgotten"}}
        if scopes:
            where["scope"] = {"$in": list(scopes)}
        documents = await self._database.read(
            lambda: self._database.memories.find(where, SELECTED).limit(limit).to_list()
        )
        return [memory_of(document) for document in documents]

    async def put_vectors(self, vectors: Mapping[str, tuple[str, Vector]], *, model: str) -> int:
        async def work(step: MongoStep) -> int:
            documents = await step.find(MEMORIES, {"_id": {"$in": list(vectors)}}, {"content_hash": 1})
            unchanged = [
                document["_id"]
                for document in documents
                if document["content_hash"] == vectors[document["_id"]][0]
            ]
            for memory_id in unchanged:
                step.change_record(memory_id, {"$set": vector_fields(vectors[memory_id][1], model)})
            return len(unchanged)

        return await self._database.write(work, patience=PATIENT) if vectors else 0

    async def vector_of(self, ids: Sequence[str], *, model: str) -> dict[str, Vector]:
        where = {"_id": {"$in": list(ids)}, "embedded_by": model}
        documents = await self._database.read(
            lambda: self._database.memories.find(where, {"embedding": 1}).to_list()
        )
        return {document["_id"]: decode(exact_of(document["embedding"])) for document in documents}


class _ServerSource:
    """A SearchSource that reads each record once."""

    def __init__(self, live: MongoLiveIndex, database: MongoDatabase, where: Filter) -> None:
        self._live = live
        self._database = database
        self._where = where
        self._read: dict[int, Document] = {}

    def postings(self, lexemes: Sequence[str], *, most: int | None) -> dict[str, Rows]:
        return self._live.postings.of(lexemes, most=most)

    def exact(self, rows: Rows) -> list[tuple[int, bytes]]:
        model = self._live.resident.model
        return [
            (document["row"], exact_of(document["embedding"]))
            for document in self._documents(rows)
            if document["embedded_by"] == model
        ]

    def details(self, rows: Rows) -> list[Detail]:
        return [
            (
                document["row"],
                document["importance"],
                document["trust"],
                document["uses"],
                document.get("usefulness", 0.0),
                document["occurred"] / 1e6,
                document["length"],
                document["_id"],
                document["conversation"],
                -1 if document["position"] is None else document["position"],
                document["lexemes"][0] if document["lexemes"] else "",
                bracketed(document["lexemes"]),
            )
            for document in self._documents(rows)
        ]

    def ids(self, rows: Rows) -> dict[int, str]:
        return {document["row"]: document["_id"] for document in self._documents(rows)}

    def near(self, vectors: Sequence[Vector], reach: AdmittedSlots, limit: int) -> list[NearestCodes]:
        matches = self._live.resident.nearest_each(vectors, reach, limit)
        return [
            self._with_the_servers(vector, reach, match, limit) if match.elsewhere else match
            for vector, match in zip(vectors, matches, strict=True)
        ]

    def _with_the_servers(
        self, vector: Vector, reach: AdmittedSlots, held: NearestCodes, limit: int
    ) -> NearestCodes:
        """The nearest, including what the server finds among the vectors that are not held here."""
        resident = self._live.resident
        others = resident.elsewhere(reach)
        if len(others) <= _FEW or beyond_search(self._where):  # reading all is faster than searching
            exact = self.exact(resident.rows(others))
            cosines = exact_cosines(vector, [vector for _, vector in exact])
            best = [exact[place][0] for place in np.argsort(-cosines, kind="stable")[:limit].tolist()]
        else:
            model = resident.model or ""
            best = self._live.ask(
                lambda: self._live.indexes.nearest(vector, model=model, where=self._where, limit=limit)
            )
            drawn = np.random.default_rng(0).choice(
                others, _FEW if held.embedded - held.elsewhere < _FEW else 0
            )
            cosines = exact_cosines(
                vector, [exact for _, exact in self.exact(resident.rows(distinct(drawn)))]
            )
        slots = resident.slots(np.array(best, dtype=np.int64))
        slots = slots[slots >= 0]
        mean, deviation = pooled(held, cosines, len(others))
        return replace(
            held,
            slots=distinct(np.concatenate([held.slots, slots[reach.mask[slots]]])),
            mean=mean,
            deviation=deviation,
            exact=held.exact and len(others) <= _FEW,
        )

    def _documents(self, rows: Rows) -> list[Document]:
        """Documents in the order of the rows; missing ones are absent."""
        wanted_rows = rows.tolist()
        missing = [row_number(row) for row in wanted_rows if row not in self._read]
        if missing:
            where = {"row": {"$in": missing}}
            documents = self._live.ask(lambda: self._database.memories.find(where, _DETAILS).to_list())
            self._read |= {document["row"]: document for document in documents}
        return [self._read[row] for row in wanted_rows if row in self._read]
