"""Forgetting for good, and looking again."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mindhold.ports.store import Receipt
from mindhold.stores.references import beginning, entry_left, job_left, mentions, without
from mindhold.stores.sqlite.changes import ROWS_OF, next_revision
from mindhold.stores.sqlite.connection import Part
from mindhold.stores.sqlite.filters import as_list
from mindhold.stores.sqlite.live import REVISION

_ROWS = "(SELECT value FROM json_each(?))"

# Where something about a record is kept by its row; the records themselves last. A trigger drops their index rows.
PLACES = {
    "tags": ("tag", "memory"),
    "keywords": ("keyword", "memory"),
    "versions": ("version", "memory"),
    "vectors": ("vector", "row"),
    "codes": ("vector_code", "row"),
    "memories": ("memory", "row"),
}

# Say to other processes' indexes in memory that rows are gone.
BURY = "INSERT OR REPLACE INTO tombstone (row, revision) SELECT value, ? FROM json_each(?)"

# Records whose JSON may name others; a partial index holds them. All are looked at, so before the store is held.
REFERRING = """
    SELECT row FROM memory
    WHERE (merged_from <> '[]' OR metadata <> '{}') AND (instr(merged_from, ?1) OR instr(metadata, ?1))
"""

# Of those, and of what was written since.
REFERRED = f"""
    SELECT row, merged_from, metadata FROM memory
    WHERE row IN {_ROWS} OR revision > ?
"""

# Jobs whose JSON may name a record.
ABOUT = "SELECT id, payload, result FROM job WHERE instr(payload, ?1) OR instr(result, ?1)"

# Entries that may name a record.
NAMING = "SELECT rowid, key, value FROM entry WHERE instr(value, ?1) OR instr(key, ?1)"

# Every text in which a second look searches for an id.
_TEXTS = {
    "memory": "merged_from metadata content topic source conversation file keywords".split(),
    "version": "content topic tags keywords".split(),
    "job": "payload result error key".split(),
    "cursor": "name value".split(),
    "scope": "name description keywords".split(),
    "entry": "key value".split(),
}

_MOST_TERMS = 3  # of a record; a word that many have is a long way through the index
_FEW = 20  # rows that the full-text index is asked for one by one


class ErasePart(Part):
    """Records.erase()."""

    async def erase(self, ids: Sequence[str], *, references: bool = True) -> Receipt:
        wanted = tuple(dict.fromkeys(ids))
        known = await self._database.read(
            lambda connection: _known(connection, wanted, references=references)
        )
        erased = await self._database.write(
            lambda connection: _erase(connection, wanted, known, references=references)
        )
        remaining = await self._database.read(lambda connection: _remaining(connection, erased))
        found = tuple(memory_id for memory_id in wanted if memory_id in erased.rows)
        return Receipt(ids=found, removed=erased.removed, remaining=remaining)


@dataclass(frozen=True, slots=True)
class _Known:
    """What takes long to find out, and so is before the one writer is held: others write meanwhile."""

    revision: int  # what was written later has a higher one
    indexed: frozenset[int]  # rows that the full-text index finds
    referring: list[int]


@dataclass(frozen=True, slots=True)
class _Erased:
    ids: tuple[str, ...]
    rows: dict[str, int]
    terms: dict[int, list[str]]  # of each row, what the full-text index knew it by
    removed: dict[str, int]
    references: bool  # whether what names them was changed too

    @property
    def numbers(self) -> str:
        return json.dumps(list(self.rows.values()))


def _known(connection: sqlite3.Connection, ids: tuple[str, ...], *, references: bool) -> _Known:
    revision = int(connection.execute(REVISION).fetchone()[0])
    rows = dict(connection.execute(ROWS_OF, (as_list(ids),)).fetchall())
    terms = _indexed_terms(connection, json.dumps(list(rows.values())))
    found = connection.execute(REFERRING, (beginning(ids),)) if references else ()
    return _Known(revision, frozenset(_indexed(connection, terms)), [row for (row,) in found])


def _erase(
    connection: sqlite3.Connection, ids: tuple[str, ...], known: _Known, *, references: bool
) -> _Erased:
    rows: dict[str, int] = dict(connection.execute(ROWS_OF, (as_list(ids),)).fetchall())
    numbers = json.dumps(list(rows.values()))
    terms = _indexed_terms(connection, numbers)
    removed = {"text": len(known.indexed.intersection(rows.values()))}
    removed["links"] = connection.execute(
        f"DELETE FROM link WHERE origin IN {_ROWS} OR target IN {_ROWS}", (numbers, numbers)
    ).rowcount
    for place, (table, column) in PLACES.items():
        removed[place] = connection.execute(
            f"DELETE FROM {table} WHERE {column} IN {_ROWS}", (numbers,)
        ).rowcount
    if references:
        removed["jobs"], removed["references"] = _drop_references(connection, ids, known)
    if rows:
        connection.execute(BURY, (next_revision(connection), numbers))
    return _Erased(ids, rows, terms, removed, references)


def _remaining(connection: sqlite3.Connection, erased: _Erased) -> dict[str, int]:
    """What a second look finds in each place; `mentions` counts texts elsewhere in which an id stands."""
    numbers, names = erased.numbers, as_list(erased.ids)

    def count(query: str, *values: str) -> int:
        return int(connection.execute(query, values).fetchone()[0])

    found = {"text": len(_indexed(connection, erased.terms))}
    found["links"] = count(
        f"SELECT count(*) FROM link WHERE origin IN {_ROWS} OR target IN {_ROWS}", numbers, numbers
    )
    for place, (table, column) in PLACES.items():
        found[place] = count(f"SELECT count(*) FROM {table} WHERE {column} IN {_ROWS}", numbers)
    found["memories"] += count(f"SELECT count(*) FROM memory WHERE id IN {_ROWS}", names)
    if not erased.references:
        return found
    found["jobs"] = _mentions(connection, "job", erased.ids)
    found["references"] = count(f"SELECT count(*) FROM memory WHERE supersedes IN {_ROWS}", names)
    found["mentions"] = sum(_mentions(connection, table, erased.ids) for table in _TEXTS if table != "job")
    return found


def _mentions(connection: sqlite3.Connection, table: str, ids: tuple[str, ...]) -> int:
    """In how many rows an id stands; what the ids begin with alike tells most rows apart at once."""
    columns = _TEXTS[table]
    likely = " OR ".join(f"instr({column}, ?1)" for column in columns)
    texts = " || ' ' || ".join(f"coalesce({column}, '')" for column in columns)
    rows = connection.execute(f"SELECT {texts} FROM {table} WHERE {likely}", (beginning(ids),))
    return mentions((text for (text,) in rows), frozenset(ids))


def _indexed_terms(connection: sqlite3.Connection, numbers: str) -> dict[int, list[str]]:
    """Some words of each record that the full-text index knows it by: those that few of them have, the longest first."""
    found = connection.execute(f"SELECT row, lexemes FROM memory WHERE row IN {_ROWS}", (numbers,))
    terms = {row: {word for word in lexemes.split() if word.isalnum()} for row, lexemes in found}
    shared = Counter(word for words in terms.values() for word in words)
    return {
        row: sorted(words, key=lambda word: (shared[word], -len(word), word))[:_MOST_TERMS]
        for row, words in terms.items()
    }


def _indexed(connection: sqlite3.Connection, terms: dict[int, list[str]]) -> set[int]:
    """Which of the rows the full-text index itself still finds."""
    if len(terms) > _FEW:
        return _indexed_among(connection, terms)
    query = "SELECT count(*) FROM lexeme WHERE lexeme MATCH ? AND rowid = ?"
    return {
        row
        for row, words in terms.items()
        if words
        and connection.execute(query, (" OR ".join(f'"{word}"' for word in words), row)).fetchone()[0]
    }


def _indexed_among(connection: sqlite3.Connection, indexed: dict[int, list[str]]) -> set[int]:
    """Those of many rows: word by word, for row by row each would go through what the index has of its words."""
    query = "SELECT rowid FROM lexeme WHERE lexeme MATCH ? AND rowid BETWEEN ? AND ?"
    first, last = min(indexed), max(indexed)
    found: set[int] = set()
    for word in {word for words in indexed.values() for word in words}:
        rows = connection.execute(query, (f'"{word}"', first, last))
        found.update(row for (row,) in rows if row in indexed)
    return found


def _drop_references(connection: sqlite3.Connection, ids: tuple[str, ...], known: _Known) -> tuple[int, int]:
    """Drop jobs that are about one of the ids, and take the ids out of what else refers to them."""
    gone, start = frozenset(ids), beginning(ids)
    jobs = 0
    references = connection.execute(
        f"UPDATE memory SET supersedes = NULL WHERE supersedes IN {_ROWS}", (as_list(ids),)
    ).rowcount
    for row, *texts in connection.execute(REFERRED, (json.dumps(known.referring), known.revision)).fetchall():
        (merged_from, one), (metadata, other) = (without(json.loads(text), gone) for text in texts)
        if one or other:
            values = (_text(merged_from or []), _text(metadata or {}), row)
            connection.execute("UPDATE memory SET merged_from = ?, metadata = ? WHERE row = ?", values)
            references += 1
    for job_id, payload, result in connection.execute(ABOUT, (start,)).fetchall():
        left = job_left(json.loads(payload), json.loads(result or "null"), gone)
        if left is not None and left.dropped:
            jobs += connection.execute("DELETE FROM job WHERE id = ?", (job_id,)).rowcount
        elif left is not None:
            kept = (_text(left.payload), None if left.result is None else _text(left.result), job_id)
            connection.execute("UPDATE job SET payload = ?, result = ? WHERE id = ?", kept)
            references += 1
    return jobs, references + _leave_out_of_entries(connection, gone, start)


def _leave_out_of_entries(connection: sqlite3.Connection, gone: frozenset[str], start: str) -> int:
    """An entry about an id goes; one that names it among others keeps its fields."""
    changes = 0
    for row, key, text in connection.execute(NAMING, (start,)).fetchall():
        if key in gone:
            changes += connection.execute("DELETE FROM entry WHERE rowid = ?", (row,)).rowcount
            continue
        left = entry_left(json.loads(text), gone)
        if left is not None:
            connection.execute("UPDATE entry SET value = ? WHERE rowid = ?", (_text(left), row))
            changes += 1
    return changes


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
