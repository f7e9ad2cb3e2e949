"""Search: full text by FTS5, vectors by codes in memory that follow the file, both within the filter."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from mindhold.model.memory import Memory
from mindhold.model.query import Candidates, Filter, Neighbour, Search, Vector
from mindhold.stores.resident import Found, Reach, decode
from mindhold.stores.searching import Detail, Rows, Searching, nearest
from mindhold.stores.sqlite.changes import next_revision, set_vectors
from mindhold.stores.sqlite.connection import Part
from mindhold.stores.sqlite.filters import as_list
from mindhold.stores.sqlite.live import LiveIndex
from mindhold.stores.sqlite.rows import SELECTED, memory_of

# What is not kept in memory of candidates. CROSS JOIN keeps the order of the list.
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

# Records that have no vector of a model: three ranges of an index, each left as soon as there are enough.
UNEMBEDDED = f"""
    SELECT {SELECTED} FROM memory WHERE memory.row IN (
        SELECT row FROM memory WHERE embedded_by IS NULL AND status <> 'forgotten'
        UNION ALL SELECT row FROM memory WHERE embedded_by < ?1 AND status <> 'forgotten'
        UNION ALL SELECT row FROM memory WHERE embedded_by > ?1 AND status <> 'forgotten'
        LIMIT ?2
    )
"""

# The same, of some scopes. Records that have their vector are passed over by the index, however many they are.
UNEMBEDDED_OF = UNEMBEDDED.replace(
    "status <> 'forgotten'",
    "status <> 'forgotten' AND +scope IN (SELECT row FROM scope WHERE name IN (SELECT value FROM json_each(?3)))",
)

# Where a vector may be put: the record still says what the vector was made of.
UNCHANGED = "SELECT row FROM memory WHERE id = ? AND content_hash = ?"

# Say which model embedded a record.
EMBEDDED = "UPDATE memory SET embedded_by = ?, revision = ? WHERE row = ?"

# Exact vectors by id.
EXACT_BY_ID = """
    SELECT memory.id, vector.exact
    FROM json_each(?) AS wanted CROSS JOIN memory ON memory.id = wanted.value
        CROSS JOIN vector ON vector.row = memory.row AND vector.model = ?
"""


class IndexPart(Part):
    """The index of the store. Its work is done in the threads that read."""

    _live: LiveIndex

    async def search(self, search: Search) -> Candidates:
        model = search.model if search.vector is not None else None

        def work(connection: sqlite3.Connection) -> Candidates:
            return self._live.following(connection, model, lambda: self._candidates(connection, search))

        return await self._database.read(work)

    async def nearest(
        self, vectors: Sequence[Vector], *, model: str, where: Filter, limit: int
    ) -> list[list[Neighbour]]:
        def work(connection: sqlite3.Connection) -> list[list[Neighbour]]:
            return self._live.following(connection, model, lambda: found(connection))

        def found(connection: sqlite3.Connection) -> list[list[Neighbour]]:
            live = self._live
            source, reach = _FileSource(live, connection), live.reach(connection, where)
            return nearest(source, live.resident, vectors, reach=reach, limit=limit)

        return await self._database.read(work)

    def _candidates(self, connection: sqlite3.Connection, search: Search) -> Candidates:
        live = self._live
        source, reach = _FileSource(live, connection), live.reach(connection, search.filter)
        return Searching(source, live.resident, search, reach=reach, driving=live.driving).candidates()

    async def unembedded(self, model: str, *, limit: int, scopes: Sequence[str] = ()) -> list[Memory]:
        statement = UNEMBEDDED_OF if scopes else UNEMBEDDED
        values = (model, limit, as_list(scopes)) if scopes else (model, limit)
        return await self._database.read(
            lambda connection: [memory_of(row) for row in connection.execute(statement, values)]
        )

    async def put_vectors(self, vectors: Mapping[str, tuple[str, Vector]], *, model: str) -> int:
        return await self._database.write(lambda connection: write_vectors(connection, vectors, model=model))

    async def vector_of(self, ids: Sequence[str], *, model: str) -> dict[str, Vector]:
        return await self._database.read(
            lambda connection: {
                memory_id: decode(exact)
                for memory_id, exact in connection.execute(EXACT_BY_ID, (as_list(ids), model))
            }
        )


def write_vectors(
    connection: sqlite3.Connection, vectors: Mapping[str, tuple[str, Vector]], *, model: str
) -> int:
    """Within the caller's transaction; see Index.put_vectors."""
    found: list[tuple[int, str, Any]] = []
    for memory_id, (content_hash, vector) in vectors.items():
        row = connection.execute(UNCHANGED, (memory_id, content_hash)).fetchone()
        if row is not None:
            found.append((row[0], model, vector))
    if found:
        revision = next_revision(connection)
        set_vectors(connection, found)
        connection.executemany(EMBEDDED, [(model, revision, row) for row, _, _ in found])
    return len(found)


class _FileSource:
    """While the index follows the connection."""

    def __init__(self, live: LiveIndex, connection: sqlite3.Connection) -> None:
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

    def near(self, vectors: Sequence[Vector], reach: Reach, limit: int) -> list[Found]:
        return self._live.resident.nearest_each(vectors, reach, limit)


def _as_numbers(rows: Rows) -> str:
    """For json_each()."""
    return f"[{','.join(map(str, rows.tolist()))}]"
