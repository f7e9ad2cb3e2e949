"""Forgetting for good, and looking again."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from typing import Any

from recollect.ports.store import Receipt
from recollect.stores.sqlite.changes import ROWS_OF, next_revision
from recollect.stores.sqlite.connection import Part
from recollect.stores.sqlite.filters import as_list

_ROWS = "(SELECT value FROM json_each(?))"

# Where something about a record is kept by its row; the records themselves last. A trigger drops their index rows.
PLACES = {
    "tags": ("tag", "memory"),
    "versions": ("version", "memory"),
    "vectors": ("vector", "row"),
    "codes": ("vector_code", "row"),
    "memories": ("memory", "row"),
}

# Say to other processes' indexes in memory that rows are gone.
BURY = "INSERT OR REPLACE INTO tombstone (row, revision) SELECT value, ? FROM json_each(?)"

# Free columns and JSON in which an id may stand, by the key of their table.
_REFERENCES = {
    ("memory", "row"): ("merged_from", "metadata"),
    ("job", "id"): ("payload", "result"),
}

# Every text in which a second look searches for an id.
_TEXTS = {
    "memory": "id supersedes merged_from metadata content topic source conversation file keywords".split(),
    "version": "content topic tags keywords".split(),
    "job": "payload result error key".split(),
    "cursor": "name value".split(),
    "scope": "name description keywords".split(),
}

_MOST_TERMS = 32


class ErasePart(Part):
    """Records.erase()."""

    async def erase(self, ids: Sequence[str]) -> Receipt:
        wanted = tuple(dict.fromkeys(ids))
        return await self._database.write(lambda connection: _erase(connection, wanted))


def _erase(connection: sqlite3.Connection, ids: tuple[str, ...]) -> Receipt:
    rows: dict[str, int] = dict(connection.execute(ROWS_OF, (as_list(ids),)).fetchall())
    numbers = json.dumps(list(rows.values()))
    indexed = _indexed_terms(connection, numbers)
    removed = {"text": _index_rows(connection, indexed)}
    removed["links"] = connection.execute(
        f"DELETE FROM link WHERE origin IN {_ROWS} OR target IN {_ROWS}", (numbers, numbers)
    ).rowcount
    for place, (table, column) in PLACES.items():
        removed[place] = connection.execute(
            f"DELETE FROM {table} WHERE {column} IN {_ROWS}", (numbers,)
        ).rowcount
    removed["jobs"], removed["references"] = _drop_references(connection, ids)
    if rows:
        connection.execute(BURY, (next_revision(connection), numbers))
    return Receipt(
        ids=tuple(memory_id for memory_id in ids if memory_id in rows),
        removed=removed,
        remaining=_remaining(connection, ids, numbers=numbers, indexed=indexed),
    )


def _remaining(
    connection: sqlite3.Connection, ids: tuple[str, ...], *, numbers: str, indexed: dict[int, list[str]]
) -> dict[str, int]:
    """What a second look finds in each place; `mentions` counts texts elsewhere in which an id stands."""

    def count(query: str, *values: str) -> int:
        return int(connection.execute(query, values).fetchone()[0])

    found = {"text": _index_rows(connection, indexed)}
    found["links"] = count(
        f"SELECT count(*) FROM link WHERE origin IN {_ROWS} OR target IN {_ROWS}", numbers, numbers
    )
    for place, (table, column) in PLACES.items():
        found[place] = count(f"SELECT count(*) FROM {table} WHERE {column} IN {_ROWS}", numbers)
    found["jobs"] = _mentions(connection, "job", ids)
    found["references"] = count(f"SELECT count(*) FROM memory WHERE supersedes IN {_ROWS}", as_list(ids))
    found["mentions"] = sum(_mentions(connection, table, ids) for table in _TEXTS if table != "job")
    return found


def _mentions(connection: sqlite3.Connection, table: str, ids: Collection[str]) -> int:
    text = " || char(10) || ".join(f"coalesce({column}, '')" for column in _TEXTS[table])
    query = (
        f"SELECT count(*) FROM {table} WHERE EXISTS (SELECT 1 FROM json_each(?) WHERE instr({text}, value))"
    )
    return int(connection.execute(query, (as_list(ids),)).fetchone()[0])


def _indexed_terms(connection: sqlite3.Connection, numbers: str) -> dict[int, list[str]]:
    """Some words of each record that the full-text index knows it by, the longest first."""
    found = connection.execute(f"SELECT row, lexemes FROM memory WHERE row IN {_ROWS}", (numbers,))
    terms = {row: {word for word in lexemes.split() if word.isalnum()} for row, lexemes in found}
    return {row: sorted(words, key=len, reverse=True)[:_MOST_TERMS] for row, words in terms.items()}


def _index_rows(connection: sqlite3.Connection, indexed: dict[int, list[str]]) -> int:
    """How many of the rows the full-text index itself still finds."""
    query = "SELECT count(*) FROM lexeme WHERE lexeme MATCH ? AND rowid = ?"
    return sum(
        connection.execute(query, (" OR ".join(f'"{word}"' for word in words), row)).fetchone()[0]
        for row, words in indexed.items()
        if words
    )


def _drop_references(connection: sqlite3.Connection, ids: tuple[str, ...]) -> tuple[int, int]:
    """Drop jobs that are about one of the ids, and take the ids out of what else refers to them."""
    gone = frozenset(ids)
    jobs = 0
    references = connection.execute(
        f"UPDATE memory SET supersedes = NULL WHERE supersedes IN {_ROWS}", (as_list(ids),)
    ).rowcount
    for (table, key), columns in _REFERENCES.items():
        for column in columns:
            query = (
                f"SELECT {key}, {column} FROM {table} "
                f"WHERE EXISTS (SELECT 1 FROM json_each(?) WHERE instr({table}.{column}, value))"
            )
            for at, text in connection.execute(query, (as_list(ids),)).fetchall():
                value = json.loads(text)
                left, changed = _without(value, gone)
                if column == "payload" and changed and len(left or ()) < len(value):
                    jobs += connection.execute("DELETE FROM job WHERE id = ?", (at,)).rowcount
                elif changed:
                    emptied = "[]" if column == "merged_from" else "{}"
                    kept = emptied if left is None else json.dumps(left, ensure_ascii=False)
                    connection.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (kept, at))
                    references += 1
    return jobs, references


def _without(value: Any, gone: frozenset[str]) -> tuple[Any, bool]:
    """The JSON value without the ids, None if nothing is left of what named them; and whether it changed."""
    if isinstance(value, str):
        return (None, True) if value in gone else (value, False)
    if isinstance(value, list):
        parts = [_without(item, gone) for item in value]
        changed = any(change for _, change in parts)
        kept = [item for item, change in parts if not (change and item is None)]
        return (kept if kept or not changed else None), changed
    if isinstance(value, dict):
        pairs = {key: _without(item, gone) for key, item in value.items() if key not in gone}
        changed = len(pairs) < len(value) or any(change for _, change in pairs.values())
        left = {key: item for key, (item, change) in pairs.items() if not (change and item is None)}
        return (left if left or not changed else None), changed
    return value, False
