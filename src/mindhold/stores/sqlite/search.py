"""Search: full text by FTS5, vectors by in-memory codes that follow the file, both within the filter."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
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
    nearest,
)
from mindhold.stores.sqlite.connection import SqlitePart
from mindhold.stores.sqlite.records import REVISION, next_revision, set_vectors
from mindhold.stores.sqlite.rows import as_list, matching
from mindhold.stores.vectors import NearestCodes, decode

T = TypeVar("T")

_LOADED_TOGETHER = 1_000
_MOST_POSTINGS = 2_000_000  # cached between searches, 8 bytes each

# The in-memory columns of records.
_COLUMNS = """
    SELECT memory.row, memory.scope, memory.agent, memory.kind, memory.status, memory.occurred / 1e6, memory.trust,
        memory.length, memory.conversation, memory.position, vector_code.code
    FROM memory LEFT JOIN vector_code ON vector_code.row = memory.row AND vector_code.model = ?
"""
LOAD = f"{_COLUMNS} ORDER BY memory.row"
# The plus makes the planner look up the revisions instead of reading all rows in order.
LOAD_CHANGED = f"{_COLUMNS} WHERE memory.revision > ? ORDER BY +memory.row"

# An upper bound of the number of records.
LAST_ROW = "SELECT max(row) FROM memory"

# The codes of a model.
LOAD_CODES = "SELECT row, code FROM vector_code WHERE model = ? ORDER BY row"

# Erased records.
ERASED = "SELECT row FROM tombstone WHERE revision > ?"

# Rows of scopes by name.
SCOPE_ROWS = "SELECT row FROM scope WHERE name IN (SELECT value FROM json_each(?))"

# The rows of a lexeme in one string, which takes a tenth of the time of one result per row.
POSTINGS = "SELECT group_concat(rowid) FROM lexeme WHERE lexeme MATCH ?"
FIRST_POSTINGS = "SELECT group_concat(rowid) FROM (SELECT rowid FROM lexeme WHERE lexeme MATCH ? LIMIT ?)"


class SqliteLiveIndex:
    """The in-memory index of a file, for many threads with a connection each."""

    def __init__(self, *, driving: int) -> None:
        self.driving = driving
        self._gate = ReadWriteLock()
        self._postings: OrderedDict[str, Rows] = OrderedDict()
        self._postings_held = 0
        self.resident = ResidentIndex()

    def following(self, connection: sqlite3.Connection, model: str | None, work: Callable[[], T]) -> T:
        """Run `work` while the index matches the connection's view of the file.

        The connection is in a read transaction that has read nothing yet. Its view begins inside the lock, so it is never older
        than what another thread has put into the index.
        """
        with self._gate.looking():
            revision = connection.execute(REVISION).fetchone()[0]
            if revision == self.resident.revision and model in (None, self.resident.model):
                return work()
        with self._gate.changing():
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.execute("BEGIN")
            try:
                self._refresh(connection, model)
            except BaseException:
                self.resident = ResidentIndex()  # half of a refresh is worse than none
                raise
            return work()

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
        rows = np.fromstring(text, dtype=np.int64, sep=",") if text else np.empty(0, np.int64)
        if most is None or len(rows) < most:
            self._remember(lexeme, rows)
        return rows

    def _refresh(self, connection: sqlite3.Connection, model: str | None) -> None:
        revision = connection.execute(REVISION).fetchone()[0]
        if revision < self.resident.revision:  # the file was replaced by another
            self.resident = ResidentIndex()
        resident = self.resident
        if revision != resident.revision or not len(resident):
            self._postings, self._postings_held = OrderedDict(), 0
        if not len(resident):
            resident.forget_codes(model or resident.model)
            resident.reserve(connection.execute(LAST_ROW).fetchone()[0] or 0)
            self._load(connection.execute(LOAD, (resident.model,)))
        elif revision != resident.revision:
            self._load(connection.execute(LOAD_CHANGED, (resident.model, resident.revision)))
            resident.remove(row for (row,) in connection.execute(ERASED, (resident.revision,)))
        if model is not None and model != resident.model:
            resident.forget_codes(model)
            cursor = connection.execute(LOAD_CODES, (model,))
            while batch := cursor.fetchmany(_LOADED_TOGETHER):
                rows, codes = zip(*batch, strict=True)
                resident.put_codes(rows, codes)
        resident.settle(revision)

    def _load(self, cursor: sqlite3.Cursor) -> None:
        while batch := cursor.fetchmany(_LOADED_TOGETHER):
            self.resident.put(RecordBatch(*zip(*batch, strict=True)))

    def _remember(self, lexeme: str, rows: Rows) -> None:
        # Readers share this: each step is one operation of the dictionary, and the sum may be slightly wrong.
        self._postings[lexeme] = rows
        self._postings_held += len(rows)
        while self._postings_held > _MOST_POSTINGS and len(self._postings) > 1:
            _, dropped = self._postings.popitem(last=False)
            self._postings_held -= len(dropped)


def _is_indexed(lexeme: str) -> bool:
    """Whether it can be one token of the index; anything else is never found."""
    return bool(lexeme) and all(c.isalnum() or "\ue000" <= c <= "\uefff" for c in lexeme)


# Details of candidates that aren't in memory. CROSS JOIN keeps the order of the list.
DETAILS = """
    SELECT memory.row, memory.id, memory.importance, memory.trust, memory.uses, memory.usefulness,
        memory.occurred / 1e6, memory.length, memory.conversation, ifnull(memory.position, -1), memory.lexemes
    FROM json_each(?) AS wanted CROSS JOIN memory ON memory.row = wanted.value
"""

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
    """Implements RecordSearch. The work runs in the reader threads."""

    _live: SqliteLiveIndex

    async def search(self, search: Search) -> Candidates:
        model = search.model if search.vector is not None else None

        def work(source: _FileSource, reach: AdmittedSlots) -> Candidates:
            resident, driving = self._live.resident, self._live.driving
            return ResidentSearch(source, resident, search, reach=reach, driving=driving).candidates()

        return await self._followed(model, search.filter, work)

    async def nearest(
        self, vectors: Sequence[Vector], *, model: str, where: Filter, limit: int
    ) -> list[list[Neighbour]]:
        def work(source: _FileSource, reach: AdmittedSlots) -> list[list[Neighbour]]:
            return nearest(source, self._live.resident, vectors, reach=reach, limit=limit)

        return await self._followed(model, where, work)

    async def _followed(
        self, model: str | None, where: Filter, work: Callable[[_FileSource, AdmittedSlots], T]
    ) -> T:
        """Run `work` while the index matches the file, with the records that the filter admits."""
        live = self._live

        def read(connection: sqlite3.Connection) -> T:
            return live.following(
                connection, model, lambda: work(_FileSource(live, connection), live.reach(connection, where))
            )

        return await self._database.read(read)

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
        return self._connection.execute(EXACT, (_as_numbers(rows), self._live.resident.model)).fetchall()

    def details(self, rows: Rows) -> list[Detail]:
        return self._connection.execute(DETAILS, (_as_numbers(rows),)).fetchall()

    def ids(self, rows: Rows) -> dict[int, str]:
        return dict(self._connection.execute(IDS, (_as_numbers(rows),)))

    def near(self, vectors: Sequence[Vector], reach: AdmittedSlots, limit: int) -> list[NearestCodes]:
        return self._live.resident.nearest_each(vectors, reach, limit)


def _as_numbers(rows: Rows) -> str:
    """A list of numbers for json_each()."""
    return f"[{','.join(map(str, rows.tolist()))}]"
