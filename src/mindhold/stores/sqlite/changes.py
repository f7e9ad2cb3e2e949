"""The write path: applies changes in order, runs of the same kind together."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from mindhold.model.lexemes import keyword_forms
from mindhold.model.memory import Memory
from mindhold.ports.store import Change, Put, Rate, Tend
from mindhold.stores.sql_changes import SqlWriting
from mindhold.stores.sqlite.rows import (
    COLUMNS,
    DROP_KEYWORDS,
    KEYWORD,
    REVISE,
    SQLITE,
    UPSERT,
    revised,
    whole,
)
from mindhold.stores.values import to_micros, to_optional_micros
from mindhold.stores.vectors import encode

# Take the next revision, by which in-memory indexes find new changes.
NEXT_REVISION = "UPDATE counter SET value = value + 1 WHERE name = 'revision' RETURNING value"

# Add a tag; one that differs only in case is the same.
TAG = "INSERT OR IGNORE INTO tag (memory, name, folded, place) VALUES (?, ?, ?, ?)"

# Remove the tags of a record.
UNTAG = "DELETE FROM tag WHERE memory = ?"

# Set the vector of a row, replacing one of any model.
SET_VECTOR = "INSERT OR REPLACE INTO vector (row, model, exact) VALUES (?, ?, ?)"
SET_CODE = "INSERT OR REPLACE INTO vector_code (row, model, code) VALUES (?, ?, ?)"

# Remove the vector of a row.
DROP_VECTOR = "DELETE FROM vector WHERE row = ?"
DROP_CODE = "DELETE FROM vector_code WHERE row = ?"

# Change the fields of upkeep, unless the record changed since upkeep read it.
TEND = f"""
    UPDATE memory SET {", ".join(f"{name} = coalesce(?, {name})" for name in COLUMNS.tended.names)}
    WHERE id = ? AND max(updated, coalesce(last_used, updated), coalesce(stirred, updated)) <= coalesce(?, 1 << 62)
"""

# Add to the usefulness.
RATE = """
    UPDATE memory SET usefulness = max(-1.0, min(1.0, usefulness + ?1)), stirred = max(coalesce(stirred, ?2), ?2),
        review = min(coalesce(review, ?2), ?2)
    WHERE id = ?3
"""


def apply(connection: sqlite3.Connection, changes: Sequence[Change]) -> None:
    """Apply changes within the caller's transaction."""
    _Writing(connection).apply(changes)


def next_revision(connection: sqlite3.Connection) -> int:
    # Fetch all rows, or the statement would stay open and the commit fail.
    return int(connection.execute(NEXT_REVISION).fetchall()[0][0])


def set_vectors(connection: sqlite3.Connection, vectors: Iterable[tuple[int, str, Any]]) -> None:
    """Set vectors: row, model and vector of each."""
    exact, codes = [], []
    for row, model, vector in vectors:
        whole_vector, code = encode(vector)
        exact.append((row, model, whole_vector))
        codes.append((row, model, code))
    connection.executemany(SET_VECTOR, exact)
    connection.executemany(SET_CODE, codes)


class _Writing(SqlWriting):
    """One call of apply(): its revision, and the tables of tags, keywords and vectors."""

    dialect = SQLITE
    _connection: sqlite3.Connection

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self._revision: int | None = None

    def _stamp(self) -> dict[str, Any]:
        return {"revision": self._next_revision()}

    def _reference(self, memory_id: str, rows: dict[str, int]) -> int:
        return rows[memory_id]

    def _put(self, puts: dict[str, Put]) -> None:
        revision, before = self._next_revision(), self._rows(puts)
        values = [
            whole(put, scope=self._scopes[put.memory.scope], revision=revision) for put in puts.values()
        ]
        self._write(UPSERT, values, [put.memory for put in puts.values()])
        if before:
            self._drop((UNTAG, DROP_KEYWORDS, DROP_VECTOR, DROP_CODE), before.values())
        rows = self._rows(puts)
        self._label((rows[put.memory.id], put.memory) for put in puts.values())
        set_vectors(
            self._connection,
            (
                (rows[put.memory.id], put.memory.embedded_by or "", put.vector)
                for put in puts.values()
                if put.vector is not None
            ),
        )

    def _revise(self, memories: list[Memory], rows: dict[str, int]) -> None:
        revision = self._next_revision()
        values = [revised(memory, scope=self._scopes[memory.scope], revision=revision) for memory in memories]
        self._write(REVISE, values, memories)
        self._drop((UNTAG, DROP_KEYWORDS), rows.values())
        self._label((rows[memory.id], memory) for memory in memories)

    def _tend(self, tends: list[Tend]) -> None:
        values = [
            (*COLUMNS.tended.values(tend), tend.memory_id, to_optional_micros(tend.unless_since))
            for tend in tends
        ]
        self._connection.executemany(TEND, values)

    def _rate(self, rates: list[Rate]) -> None:
        values = [(rate.by, to_micros(rate.when), rate.memory_id) for rate in rates]
        self._connection.executemany(RATE, values)

    def _write(self, statement: str, values: list[tuple[Any, ...]], memories: list[Memory]) -> None:
        try:
            self._connection.executemany(statement, values)
        except sqlite3.IntegrityError as error:
            if not SQLITE.is_duplicate(error):
                raise
            raise self._clash(memories) from error

    def _drop(self, statements: Iterable[str], rows: Iterable[int]) -> None:
        values = [(row,) for row in rows]
        for statement in statements:
            self._connection.executemany(statement, values)

    def _label(self, records: Iterable[tuple[int, Memory]]) -> None:
        tags, forms = [], []
        for row, memory in records:
            tags += [(row, name, name.casefold(), place) for place, name in enumerate(memory.tags)]
            forms += [(row, form) for form in keyword_forms(memory.keywords)]
        self._connection.executemany(TAG, tags)
        self._connection.executemany(KEYWORD, forms)

    def _next_revision(self) -> int:
        if self._revision is None:
            self._revision = next_revision(self._connection)
        return self._revision
