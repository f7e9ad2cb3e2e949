"""Search: full text by FTS5, vectors by in-memory codes that follow the file, both within the filter."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import numpy as np

from mindhold.model.query import Candidates, Filter, Neighbour, Search, Vector
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
from mindhold.stores.sqlite.connection import SqlitePart, in_one_view
from mindhold.stores.sqlite.records import REVISION, next_revision, set_vectors
from mindhold.stores.sqlite.rows import as_list, matching
from mindhold.stores.vectors import NearestCodes, decode

T = TypeVar("T")

FEW = 20_000  # records that are searched in a few milliseconds
_LOADED_TOGETHER = 8_192
_CHANGED_TOGETHER = 1_000
_MOST_POSTINGS = 2_000_000  # cached between searches, 8 bytes each
_MOST_VECTORS = 20_000  # held of candidates, 768 bytes each
_MOST_DETAILS = 20_000  # held of candidates, about 300 bytes each
_MOST_CHARACTERS = 20_000_000  # of the words held of candidates
_CHARACTERS_OF_A_RECORD = 400  # what else is held of a record, in characters

# The in-memory columns of records.
_COLUMNS = """
    SELECT memory.row, memory.scope, memory.agent, memory.kind, memory.status, memory.occurred / 1e6, memory.trust,
        memory.length, memory.conversation, memory.position, vector_code.code
    FROM memory LEFT JOIN vector_code ON vector_code.row = memory.row AND vector_code.model = ?
"""
# The plus makes the planner look up the revisions instead of reading all rows in order.
LOAD_CHANGED = f"{_COLUMNS} WHERE memory.revision > ? ORDER BY +memory.row"

# An upper bound of the number of records.
LAST_ROW = "SELECT max(row) FROM memory"

# The same of all records between two rows, a column in one string each: SQLite joins them without the interpreter's lock.
# Numbers are whole, because SQLite writes fractions slowly.
LOAD = """
    SELECT group_concat(row), group_concat(scope), group_concat(occurred),
        group_concat(CAST(round(trust * 1e12) AS INTEGER)), group_concat(length), json_group_array(agent),
        json_group_array(kind), json_group_array(status), json_group_array(conversation), json_group_array(position)
    FROM memory WHERE row BETWEEN ? AND ?
"""

# The length of a model's codes, by the first of them.
CODE_LENGTH = "SELECT length(code) FROM vector_code WHERE model = ? ORDER BY row LIMIT 1"

# The codes of a model between two rows, joined in the same way.
LOAD_CODES = """
    SELECT group_concat(row), CAST(group_concat(code, '') AS BLOB)
    FROM vector_code WHERE row BETWEEN ? AND ? AND model = ? AND length(code) = ?
"""

# Erased records.
ERASED = "SELECT row FROM tombstone WHERE revision > ?"

# Rows of scopes by name.
SCOPE_ROWS = "SELECT row FROM scope WHERE name IN (SELECT value FROM json_each(?))"

# The rows of a lexeme in one string, which takes a tenth of the time of one result per row.
POSTINGS = "SELECT group_concat(rowid) FROM lexeme WHERE lexeme MATCH ?"
FIRST_POSTINGS = "SELECT group_concat(rowid) FROM (SELECT rowid FROM lexeme WHERE lexeme MATCH ? LIMIT ?)"


Words = tuple[str, str | None, int, str, str]  # the end of a Detail


class HeldRecords:
    """What searches read of their candidates, held until it changes or becomes too much. Threads may add at once."""

    def __init__(self) -> None:
        self.words: dict[int, Words] = {}
        self.vectors: dict[int, bytes] = {}
        self._characters = 0
        self._details: tuple[sqlite3.Connection | None, int, dict[int, Detail]] = (None, 0, {})

    def details_of(
        self,
        connection: sqlite3.Connection,
        rows: Sequence[int],
        read: Callable[[str, Sequence[int]], Iterable[tuple[Any, ...]]],
    ) -> Mapping[int, Detail]:
        """What is held of records, at least of these; `read` gets what is missing, by DETAILS or by NUMBERS.

        Every commit may have changed the numbers, and only the same connection can tell that there was none.
        """
        version = connection.execute(DATA_VERSION).fetchone()[0]
        before, known_version, held = self._details
        if before is not connection or known_version != version or len(held) > _MOST_DETAILS:
            held = {}
            self._details = connection, version, held
        words, missing = self.words, [row for row in rows if row not in held]
        for *numbers, memory_id, conversation, position, text in read(
            DETAILS, [row for row in missing if row not in words]
        ):
            row, lexemes = numbers[0], text.split()
            opening = sys.intern(lexemes[0]) if lexemes else ""
            words[row] = (memory_id, conversation, position, opening, bracketed(lexemes))
            held[row] = (*numbers, *words[row])
            self._characters += len(text) + _CHARACTERS_OF_A_RECORD
        for row, *numbers in read(NUMBERS, [row for row in missing if row not in held]):
            held[row] = (row, *numbers, *words[row])
        if self._characters > _MOST_CHARACTERS:  # begin anew; other threads go on with the old ones
            self.words, self._characters = {}, 0
        return held

    def vectors_of(
        self, rows: Sequence[int], read: Callable[[Sequence[int]], Iterable[tuple[int, bytes]]]
    ) -> Mapping[int, bytes]:
        """The same for exact vectors, by EXACT; records without one have none."""
        held = self.vectors
        held.update(read([row for row in rows if row not in held]))
        if len(held) > _MOST_VECTORS:
            self.vectors = {}
        return held

    def drop(self, rows: Iterable[int]) -> None:
        """Forget changed records."""
        for row in rows:
            self.words.pop(row, None)
            self.vectors.pop(row, None)


class SqliteLiveIndex:
    """The in-memory index of a file, for many threads with a connection each."""

    def __init__(self, *, driving: int) -> None:
        self.driving = driving
        self._gate = ReadWriteLock()
        self._postings: OrderedDict[str, Rows] = OrderedDict()
        self._postings_held = 0
        self.resident = ResidentIndex()
        self.held = HeldRecords()

    def following(self, connection: sqlite3.Connection, model: str | None, work: Callable[[], T]) -> T:
        """Run `work` while the index matches the connection's view of the file.

        The connection is in a read transaction that has read nothing yet. Its view begins inside the lock, so it is never older
        than what another thread has put into the index.
        """
        with self._gate.looking():
            if self._matches(connection, model):
                return work()
        with self._gate.changing():
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.execute("BEGIN")
            try:
                self._refresh(connection, model)
            except BaseException:
                self._forget()  # half of a refresh is worse than none
                raise
            return work()

    def at_once(self, connection: sqlite3.Connection, model: str | None, work: Callable[[], T]) -> T | None:
        """The same if that takes no longer than a look-up: the index is small and needs no change. Else None."""
        with self._gate.looking(wait=False) as inside:
            if inside and len(self.resident) <= FEW and self._matches(connection, model):
                return work()
        return None

    def _matches(self, connection: sqlite3.Connection, model: str | None) -> bool:
        revision = connection.execute(REVISION).fetchone()[0]
        return bool(revision == self.resident.revision and model in (None, self.resident.model))

    def reach(self, connection: sqlite3.Connection, where: Filter) -> AdmittedSlots:
        """The records that the filter admits."""
        scopes = rows = None
        if where.scopes:
            scopes = [row for (row,) in connection.execute(SCOPE_ROWS, (as_list(where.scopes),))]
        if beyond_index(where):
            admitted = matching(where)
            cursor = connection.execute(f"SELECT row FROM memory WHERE {admitted.sql}", admitted.parameters)
            rows = [row for (row,) in cursor]
        return self.resident.reach(where, scopes=scopes, rows=rows)

    def postings(self, connection: sqlite3.Connection, lexeme: str, *, most: int | None) -> Rows:
        """The rows of a lexeme, ascending, at most `most`."""
        cached = self._postings.get(lexeme)
        if cached is not None:
            return cached[:most]  # cut, so that the answer doesn't depend on the cache
        if not _is_indexed(lexeme):
            return np.empty(0, np.int64)
        if most is None:
            text = connection.execute(POSTINGS, (f'"{lexeme}"',)).fetchone()[0]
        else:
            text = connection.execute(FIRST_POSTINGS, (f'"{lexeme}"', most)).fetchone()[0]
        rows = _numbers(text or "")
        if most is None or len(rows) < most:
            self._remember(lexeme, rows)
        return rows

    def _refresh(self, connection: sqlite3.Connection, model: str | None) -> None:
        revision = connection.execute(REVISION).fetchone()[0]
        if revision < self.resident.revision:  # the file was replaced by another
            self._forget()
        resident = self.resident
        if revision != resident.revision or not len(resident):
            self._postings, self._postings_held = OrderedDict(), 0
        model = model or resident.model
        joined: list[tuple[str, tuple[Any, ...]]] = []
        if not len(resident):
            resident.forget_codes(None)
            resident.reserve(_last_row(connection))
            joined.append((LOAD, ()))
        elif revision != resident.revision:
            cursor = connection.execute(LOAD_CHANGED, (resident.model, resident.revision))
            while batch := cursor.fetchmany(_CHANGED_TOGETHER):
                changed = RecordBatch(*zip(*batch, strict=True))
                resident.put(changed)
                self.held.drop(changed.rows)
            erased = [row for (row,) in connection.execute(ERASED, (resident.revision,))]
            resident.remove(erased)
            self.held.drop(erased)
        if model is not None and model != resident.model:
            resident.forget_codes(model)
            self.held.vectors = {}
            size = connection.execute(CODE_LENGTH, (model,)).fetchone()
            joined += [] if size is None else [(LOAD_CODES, (model, *size))]
        for statement, columns in _windows(connection, joined):
            if statement is LOAD:
                resident.put(_joined_batch(columns))
            else:
                resident.put_joined_codes(_numbers(columns[0]), columns[1])
        resident.settle(revision)

    def _forget(self) -> None:
        self.resident, self.held = ResidentIndex(), HeldRecords()

    def _remember(self, lexeme: str, rows: Rows) -> None:
        # Readers share this: each step is one operation of the dictionary, and the sum may be slightly wrong.
        self._postings[lexeme] = rows
        self._postings_held += len(rows)
        while self._postings_held > _MOST_POSTINGS and len(self._postings) > 1:
            _, dropped = self._postings.popitem(last=False)
            self._postings_held -= len(dropped)


def _windows(
    connection: sqlite3.Connection, statements: Sequence[tuple[str, tuple[Any, ...]]]
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The results of statements that join the records between two rows, for all rows; each with its statement.

    They are run in a thread of their own, while the caller works on the results before.
    """
    last = _last_row(connection)

    def read(statement: str, values: tuple[Any, ...], first: int) -> tuple[str, tuple[Any, ...]]:
        window = (first, first + _LOADED_TOGETHER - 1, *values)
        return statement, connection.execute(statement, window).fetchone()

    with ThreadPoolExecutor(1, thread_name_prefix="mindhold-load") as thread:
        reading = [
            thread.submit(read, statement, values, first)
            for statement, values in statements
            for first in range(0, last + 1, _LOADED_TOGETHER)
        ]
        for window in reading:
            statement, columns = window.result()
            if columns[0] is not None:
                yield statement, columns


def _last_row(connection: sqlite3.Connection) -> int:
    return connection.execute(LAST_ROW).fetchone()[0] or 0


def _joined_batch(columns: Sequence[str]) -> RecordBatch:
    """The records of one result of LOAD."""
    rows, scopes, occurred, trust, lengths = map(_numbers, columns[:5])
    agents, kinds, statuses, conversations, positions = map(json.loads, columns[5:])
    return RecordBatch(
        rows=rows,
        scopes=scopes.tolist(),
        agents=agents,
        kinds=kinds,
        statuses=statuses,
        occurred=occurred / 1e6,
        trust=trust / 1e12,
        lengths=lengths,
        conversations=conversations,
        positions=positions,
        codes=[None] * len(rows),
    )


def _is_indexed(lexeme: str) -> bool:
    """Whether it can be one token of the index; anything else is never found."""
    return bool(lexeme) and all(c.isalnum() or "\ue000" <= c <= "\uefff" for c in lexeme)


# Changes with every commit of other connections, and readers commit nothing.
DATA_VERSION = "PRAGMA data_version"

_OF_CANDIDATES = """
    SELECT memory.row, memory.importance, memory.trust, memory.uses, memory.usefulness, memory.occurred / 1e6, memory.length {rest}
    FROM json_each(?) AS wanted CROSS JOIN memory ON memory.row = wanted.value
"""

# What every use of a memory may change, without a new revision. CROSS JOIN keeps the order of the list.
NUMBERS = _OF_CANDIDATES.format(rest="")

# The same and the rest, which stays the same within a revision.
DETAILS = _OF_CANDIDATES.format(
    rest=", memory.id, memory.conversation, ifnull(memory.position, -1), memory.lexemes"
)

# Exact vectors of a model.
EXACT = """
    SELECT vector.row, vector.exact
    FROM json_each(?) AS wanted CROSS JOIN vector ON vector.row = wanted.value AND vector.model = ?
"""

# Ids of rows.
IDS = (
    "SELECT memory.row, memory.id FROM json_each(?) AS wanted CROSS JOIN memory ON memory.row = wanted.value"
)

# The record, if it still has the content that the vector was made from.
UNCHANGED = "SELECT row FROM memory WHERE id = ? AND content_hash = ?"

# Set the model that embedded a record.
EMBEDDED = "UPDATE memory SET embedded_by = ?, revision = ? WHERE row = ?"

# Exact vectors by id.
EXACT_BY_ID = """
    SELECT memory.id, vector.exact
    FROM json_each(?) AS wanted CROSS JOIN memory ON memory.id = wanted.value
        CROSS JOIN vector ON vector.row = memory.row AND vector.model = ?
"""


class SqliteIndex(SqlitePart):
    """Implements RecordSearch. The work runs in the reader threads, or in the calling one if it is little."""

    _live: SqliteLiveIndex

    async def search(self, search: Search) -> Candidates:
        model = search.model if search.vector is not None else None

        def work(source: _FileSource, reach: AdmittedSlots) -> Candidates:
            resident, driving = self._live.resident, self._live.driving
            return ResidentSearch(source, resident, search, reach=reach, driving=driving).candidates()

        # With a condition that the index doesn't have, all records may have to be read.
        return await self._followed(model, search.filter, work, few=not beyond_index(search.filter))

    async def nearest(
        self, vectors: Sequence[Vector], *, model: str, where: Filter, limit: int
    ) -> list[list[Neighbour]]:
        def work(source: _FileSource, reach: AdmittedSlots) -> list[list[Neighbour]]:
            return nearest(source, self._live.resident, vectors, reach=reach, limit=limit)

        return await self._followed(model, where, work)

    async def _followed(
        self,
        model: str | None,
        where: Filter,
        work: Callable[[_FileSource, AdmittedSlots], T],
        *,
        few: bool = False,
    ) -> T:
        """Run `work` while the index matches the file, with the records that the filter admits."""
        live = self._live

        def searched(connection: sqlite3.Connection) -> T:
            return work(_FileSource(live, connection), live.reach(connection, where))

        def at_once(connection: sqlite3.Connection) -> T | None:
            return live.at_once(connection, model, partial(searched, connection))

        def following(connection: sqlite3.Connection) -> T:
            return live.following(connection, model, partial(searched, connection))

        if few and (result := await self._database.look(partial(in_one_view, work=at_once))) is not None:
            return result
        return await self._database.read(following)

    async def put_vectors(self, vectors: Mapping[str, tuple[str, Vector]], *, model: str) -> int:
        def work(connection: sqlite3.Connection) -> int:
            unchanged: list[tuple[int, str, Any]] = []
            for memory_id, (content_hash, vector) in vectors.items():
                row = connection.execute(UNCHANGED, (memory_id, content_hash)).fetchone()
                if row is not None:
                    unchanged.append((row[0], model, vector))
            if unchanged:
                revision = next_revision(connection)
                set_vectors(connection, unchanged)
                connection.executemany(EMBEDDED, [(model, revision, row) for row, _, _ in unchanged])
            return len(unchanged)

        return await self._database.write(work)

    async def vector_of(self, ids: Sequence[str], *, model: str) -> dict[str, Vector]:
        return await self._database.read(
            lambda connection: {
                memory_id: decode(exact)
                for memory_id, exact in connection.execute(EXACT_BY_ID, (as_list(ids), model))
            }
        )


class _FileSource:
    """A SearchSource, valid while the index follows the connection."""

    def __init__(self, live: SqliteLiveIndex, connection: sqlite3.Connection) -> None:
        self._live = live
        self._connection = connection

    def postings(self, lexemes: Sequence[str], *, most: int | None) -> dict[str, Rows]:
        return {lexeme: self._live.postings(self._connection, lexeme, most=most) for lexeme in lexemes}

    def exact(self, rows: Rows) -> list[tuple[int, bytes]]:
        numbers, model = rows.tolist(), self._live.resident.model
        held = self._live.held.vectors_of(numbers, lambda missing: self._read(EXACT, missing, model))
        return [(row, held[row]) for row in numbers if row in held]

    def details(self, rows: Rows) -> list[Detail]:
        wanted = rows.tolist()
        held = self._live.held.details_of(self._connection, wanted, self._read)
        return [held[row] for row in wanted if row in held]

    def _read(self, statement: str, rows: Sequence[int], *values: str | None) -> list[Any]:
        if not rows:
            return []
        return self._connection.execute(statement, (json.dumps(rows), *values)).fetchall()

    def ids(self, rows: Rows) -> dict[int, str]:
        return dict(self._read(IDS, rows.tolist()))

    def near(self, vectors: Sequence[Vector], reach: AdmittedSlots, limit: int) -> list[NearestCodes]:
        return self._live.resident.nearest_each(vectors, reach, limit)


def _numbers(text: str) -> Rows:
    """The numbers that group_concat() joined."""
    return np.fromstring(text, dtype=np.int64, sep=",") if text else np.empty(0, np.int64)
