"""Reading, counting, changing and erasing memories; changes are applied in order, runs of the same kind together."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from mindhold.model.errors import MemoryNotFound
from mindhold.model.lexemes import keyword_forms
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order, PagePosition
from mindhold.ports.store import Change, Put, Rate, Receipt, Revise, Tend
from mindhold.stores.columns import beginning, mentions, to_micros, to_optional_micros
from mindhold.stores.sql import Condition
from mindhold.stores.sql_records import ROWS_OF, TEXTS, Naming, SqlLinks, SqlWriting, drop_references
from mindhold.stores.sqlite.connection import SqlitePart
from mindhold.stores.sqlite.rows import (
    COLUMNS,
    DROP_KEYWORDS,
    KEYWORD,
    REVISE,
    SELECTED,
    SQLITE,
    UPSERT,
    Parameter,
    as_list,
    having_keywords,
    matching,
    memory_of,
    revised,
    rows_with_keywords,
    visible,
    whole,
)
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

    def _lock(self, changes: Sequence[Change]) -> None:
        """The transaction holds the whole file."""

    def _stamp(self) -> dict[str, Any]:
        return {"revision": self._next_revision()}

    def _reference(self, memory_id: str, rows: dict[str, int]) -> int:
        return rows[memory_id]

    def _put(self, run: list[Put]) -> None:
        puts = self._checked_puts(run)
        revision, before = self._next_revision(), self._rows(puts)
        with self._clashes_named(put.memory for put in puts.values()):
            self._connection.executemany(
                UPSERT,
                [
                    whole(put, scope=self._scopes[put.memory.scope], revision=revision)
                    for put in puts.values()
                ],
            )
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

    def _revise(self, run: list[Revise]) -> None:
        memories, rows = self._checked_revisions(run)
        revision = self._next_revision()
        values = [revised(memory, scope=self._scopes[memory.scope], revision=revision) for memory in memories]
        with self._clashes_named(memories):
            self._connection.executemany(REVISE, values)
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

    @contextmanager
    def _clashes_named(self, memories: Iterable[Memory]) -> Iterator[None]:
        """Name the record that says the same as one of `memories`, if there is one."""
        try:
            yield
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


# The revision of the latest change.
REVISION = "SELECT value FROM counter WHERE name = 'revision'"

# Column, direction and comparison of each order; ids sort in the same direction.
_ORDERS = {
    Order.NEWEST: ("occurred", "DESC", "<"),
    Order.OLDEST: ("occurred", "ASC", ">"),
    Order.IMPORTANT: ("importance", "DESC", "<"),
    Order.USED: ("uses", "DESC", "<"),
    Order.DUE: ("review", "ASC", ">"),
    Order.CHANGED: ("updated", "DESC", "<"),
}

_INDEXED = frozenset({"occurred", "importance"})  # columns with an index in their order
_FREQUENT = 2_000  # records with the keywords: beyond it, walking an index is better than sorting
_COUNTED = (1_000, 10_000)  # limits of counting each keyword, until the rarest is clear
_MOST_WALKED = 3_000  # index entries; if the page isn't filled by then, records are sorted after all

# The number of records with a keyword, up to a limit.
HAVING = "SELECT count(*) FROM (SELECT 1 FROM keyword WHERE form = ? LIMIT ?)"

_TIMES = "(SELECT count(*) FROM json_each(?2) WHERE value = memory.id)"

# Count one use; a late report doesn't set the time back.
TOUCH = f"""
    UPDATE memory SET uses = uses + {_TIMES}, last_used = max(coalesce(last_used, ?1), ?1),
        tier = CASE tier WHEN 'permanent' THEN tier ELSE 'hot' END, review = min(coalesce(review, ?1), ?1)
    WHERE id IN (SELECT value FROM json_each(?2))
"""

# Count one showing.
SHOW = f"""
    UPDATE memory SET shown = shown + {_TIMES}, stirred = max(coalesce(stirred, ?1), ?1),
        review = min(coalesce(review, ?1), ?1)
    WHERE id IN (SELECT value FROM json_each(?2))
"""


class SqliteRecords(SqlLinks, SqlitePart):
    """Implements Records and Links, except erase()."""

    def _visible(self, viewer: str, alias: str = "") -> Condition:
        return visible(viewer, alias or "memory")

    def _matching(self, where: Filter, alias: str = "", *, walked: str = "") -> Condition:
        return matching(where, alias or "memory", walked=walked)

    async def apply(self, changes: Sequence[Change]) -> None:
        if changes:
            await self._database.write(partial(_Writing.apply, changes))

    async def find(
        self,
        where: Filter,
        *,
        order: Order = Order.NEWEST,
        limit: int = 50,
        after: str | PagePosition | None = None,
    ) -> list[Memory]:
        return await self._database.read(
            lambda connection: _page(connection, where, order=order, limit=limit, after=after)
        )

    async def touch(self, ids: Sequence[str], when: datetime) -> None:
        await self._count(TOUCH, ids, when)

    async def note_shown(self, ids: Sequence[str], when: datetime) -> None:
        await self._count(SHOW, ids, when)

    async def _count(self, statement: str, ids: Sequence[str], when: datetime) -> None:
        if ids:
            parameters = (to_micros(when), as_list(ids))
            await self._database.write(
                lambda connection: connection.execute(statement, parameters).rowcount, lasting=False
            )

    def _links_query(self, ids: Sequence[str], relations: Sequence[str], viewer: str) -> Condition:
        origin, target = visible(viewer, "origin"), visible(viewer, "target")
        related = f"AND relation IN ({', '.join('?' for _ in relations)})" if relations else ""
        query = f"""
            WITH asked (row) AS (SELECT row FROM memory WHERE id IN (SELECT value FROM json_each(?))),
            found AS (
                SELECT * FROM link WHERE origin IN (SELECT row FROM asked) {related}
                UNION SELECT * FROM link WHERE target IN (SELECT row FROM asked) {related}
            )
            SELECT origin.id, target.id, relation, found.created, weight, automatic FROM found
            CROSS JOIN memory AS origin ON origin.row = found.origin
            CROSS JOIN memory AS target ON target.row = found.target
            WHERE {origin.sql} AND {target.sql}
            ORDER BY found.created, origin.id, target.id, relation
        """
        values = (as_list(ids), *relations, *relations, *origin.parameters, *target.parameters)
        return Condition(query, values)


def _page(
    connection: sqlite3.Connection,
    where: Filter,
    *,
    order: Order,
    limit: int,
    after: str | PagePosition | None,
) -> list[Memory]:
    column, direction, comparison = _ORDERS[order]
    sorting = f"memory.{column} {direction}, memory.id {direction}"
    begin = Condition("1", ())
    if order is Order.DUE:
        begin = Condition("memory.review IS NOT NULL", ())  # records that are never reviewed are left out
    if after is not None:
        begin = _both(begin, _beyond(_place(connection, where, column, after), column, comparison))
    if column in _INDEXED and where.keywords and not where.ids:
        where = _rarest_first(connection, where)
        if _frequent(connection, where):
            met = _met(connection, where, begin, column=column, sorting=sorting, limit=limit)
            if met is not None:
                return met
    condition = _both(matching(where, walked=column), begin)
    return _in_order(connection, condition, sorting=sorting, limit=limit)


def _place(
    connection: sqlite3.Connection, where: Filter, column: str, after: str | PagePosition
) -> tuple[Parameter, ...]:
    """The position where a page ended."""
    if isinstance(after, PagePosition):
        value = to_micros(after.value) if isinstance(after.value, datetime) else after.value
        return value, after.id
    seen = visible(where.viewer)
    mark: tuple[Parameter, ...] | None = connection.execute(
        f"SELECT {column}, id FROM memory WHERE id = ? AND {seen.sql}", (after, *seen.parameters)
    ).fetchone()
    if mark is None:
        raise MemoryNotFound(after)
    return mark


def _rarest_first(connection: sqlite3.Connection, where: Filter) -> Filter:
    if where.keywords_any or len(where.keywords) < 2:
        return where
    having: dict[str, int] = {}
    for most in _COUNTED:
        having = {form: connection.execute(HAVING, (form, most)).fetchone()[0] for form in where.keywords}
        if min(having.values()) < most:
            break
    return replace(where, keywords=tuple(sorted(having, key=lambda form: having[form])))


def _frequent(connection: sqlite3.Connection, where: Filter) -> bool:
    rarest = where if where.keywords_any else replace(where, keywords=where.keywords[:1])
    for each in dict.fromkeys((rarest, where)):  # the rarest keyword alone nearly always decides
        rows = rows_with_keywords(each)
        query = f"SELECT count(*) FROM ({rows.sql} LIMIT ?)"
        if connection.execute(query, (*rows.parameters, _FREQUENT)).fetchone()[0] < _FREQUENT:
            return False
    return True


def _met(
    connection: sqlite3.Connection,
    where: Filter,
    begin: Condition,
    *,
    column: str,
    sorting: str,
    limit: int,
) -> list[Memory] | None:
    """The page found by walking an index in order; None if it isn't filled soon."""
    # The last index entry to look at.
    query = f"""
        SELECT {column}, id FROM memory WHERE {begin.sql} ORDER BY {sorting} LIMIT 1 OFFSET {_MOST_WALKED}
    """
    mark = connection.execute(query, begin.parameters).fetchone()
    condition = _both(matching(replace(where, keywords=()), walked=column), begin)
    if mark is not None:
        condition = _both(condition, _beyond(mark, column, ">" if "DESC" in sorting else "<"))
    condition = _both(condition, having_keywords(where, "memory.row"))
    memories = _in_order(connection, condition, sorting=sorting, limit=limit)
    return memories if mark is None or len(memories) == limit else None


def _beyond(mark: tuple[Parameter, ...], column: str, comparison: str) -> Condition:
    return Condition(f"(memory.{column}, memory.id) {comparison} (?, ?)", mark)


def _both(one: Condition, other: Condition) -> Condition:
    return Condition(f"{one.sql} AND {other.sql}", (*one.parameters, *other.parameters))


def _in_order(
    connection: sqlite3.Connection, condition: Condition, *, sorting: str, limit: int
) -> list[Memory]:
    # Rows are chosen inside an index if one has the columns; only the page's records are read completely.
    query = f"""
        SELECT {SELECTED} FROM memory
        WHERE memory.row IN (SELECT memory.row FROM memory WHERE {condition.sql} ORDER BY {sorting} LIMIT ?)
        ORDER BY {sorting}
    """
    return [memory_of(row) for row in connection.execute(query, (*condition.parameters, limit))]


_ROWS = "(SELECT value FROM json_each(?))"

# Tables with data about records, by row; the records themselves last. A trigger removes their index rows.
PLACES = {
    "tags": ("tag", "memory"),
    "keywords": ("keyword", "memory"),
    "versions": ("version", "memory"),
    "vectors": ("vector", "row"),
    "codes": ("vector_code", "row"),
    "memories": ("memory", "row"),
}

# Tell in-memory indexes of other processes that rows were removed.
BURY = "INSERT OR REPLACE INTO tombstone (row, revision) SELECT value, ? FROM json_each(?)"

# Records whose JSON may refer to others; a partial index has them. All are read, so this is before the write lock.
REFERRING = """
    SELECT row FROM memory
    WHERE (merged_from <> '[]' OR metadata <> '{}') AND (instr(merged_from, ?1) OR instr(metadata, ?1))
"""

# Of those, and of records written since.
REFERRED = f"""
    SELECT row, merged_from, metadata FROM memory
    WHERE row IN {_ROWS} OR revision > ?
"""

# Jobs whose JSON may refer to a record.
ABOUT = "SELECT id, payload, result FROM job WHERE instr(payload, ?1) OR instr(result, ?1)"

# Entries that may refer to a record.
NAMING = "SELECT drawer, key, value FROM entry WHERE instr(value, ?1) OR instr(key, ?1)"

_MOST_TERMS = 3  # per record; a common word takes long to look up in the index
_FEW = 20  # rows that are looked up in the full-text index one by one


class SqliteErasure(SqlitePart):
    """Implements erase()."""

    async def erase(self, ids: Sequence[str], *, references: bool = True) -> Receipt:
        unique_ids = tuple(dict.fromkeys(ids))
        findings = await self._database.read(
            lambda connection: _known(connection, unique_ids, references=references)
        )
        erased = await self._database.write(
            lambda connection: _erase(connection, unique_ids, findings, references=references)
        )
        remaining = await self._database.read(lambda connection: _remaining(connection, erased))
        erased_ids = tuple(memory_id for memory_id in unique_ids if memory_id in erased.rows)
        return Receipt(ids=erased_ids, removed=erased.removed, remaining=remaining)


@dataclass(frozen=True, slots=True)
class _Known:
    """What takes long to find out, and is read before taking the write lock, so that others can write meanwhile."""

    revision: int  # later writes have a higher one
    indexed: frozenset[int]  # rows that the full-text index finds
    referring: list[int]


@dataclass(frozen=True, slots=True)
class _Erased:
    ids: tuple[str, ...]
    rows: dict[str, int]
    terms: dict[int, list[str]]  # terms of each row in the full-text index
    removed: dict[str, int]
    references: bool  # whether references to them were removed too

    @property
    def numbers(self) -> str:
        return json.dumps(list(self.rows.values()))


def _known(connection: sqlite3.Connection, ids: tuple[str, ...], *, references: bool) -> _Known:
    revision = int(connection.execute(REVISION).fetchone()[0])
    rows = dict(connection.execute(SQLITE.sql(ROWS_OF), {"ids": as_list(ids)}).fetchall())
    terms = _indexed_terms(connection, json.dumps(list(rows.values())))
    referring = connection.execute(REFERRING, (beginning(ids),)) if references else ()
    return _Known(revision, frozenset(_indexed(connection, terms)), [row for (row,) in referring])


def _erase(
    connection: sqlite3.Connection, ids: tuple[str, ...], known: _Known, *, references: bool
) -> _Erased:
    rows: dict[str, int] = dict(connection.execute(SQLITE.sql(ROWS_OF), {"ids": as_list(ids)}).fetchall())
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
    """What the check after an erasure finds in each place; `mentions` counts other texts that contain an id."""
    numbers, names = erased.numbers, as_list(erased.ids)

    def count(query: str, *values: str) -> int:
        return int(connection.execute(query, values).fetchone()[0])

    counts = {"text": len(_indexed(connection, erased.terms))}
    counts["links"] = count(
        f"SELECT count(*) FROM link WHERE origin IN {_ROWS} OR target IN {_ROWS}", numbers, numbers
    )
    for place, (table, column) in PLACES.items():
        counts[place] = count(f"SELECT count(*) FROM {table} WHERE {column} IN {_ROWS}", numbers)
    counts["memories"] += count(f"SELECT count(*) FROM memory WHERE id IN {_ROWS}", names)
    if not erased.references:
        return counts
    counts["jobs"] = _mentions(connection, "job", erased.ids)
    counts["references"] = count(f"SELECT count(*) FROM memory WHERE supersedes IN {_ROWS}", names)
    counts["mentions"] = sum(_mentions(connection, table, erased.ids) for table in TEXTS if table != "job")
    return counts


def _mentions(connection: sqlite3.Connection, table: str, ids: tuple[str, ...]) -> int:
    """The number of rows that contain an id; the common prefix of the ids excludes most rows at once."""
    columns = TEXTS[table]
    likely = " OR ".join(f"instr({column}, ?1)" for column in columns)
    texts = " || ' ' || ".join(f"coalesce({column}, '')" for column in columns)
    rows = connection.execute(f"SELECT {texts} FROM {table} WHERE {likely}", (beginning(ids),))
    return mentions((text for (text,) in rows), frozenset(ids))


def _indexed_terms(connection: sqlite3.Connection, numbers: str) -> dict[int, list[str]]:
    """Some terms of each record in the full-text index: those that few of the records have, longest first."""
    rows = connection.execute(f"SELECT row, lexemes FROM memory WHERE row IN {_ROWS}", (numbers,))
    terms = {row: {word for word in lexemes.split() if word.isalnum()} for row, lexemes in rows}
    shared = Counter(word for words in terms.values() for word in words)
    return {
        row: sorted(words, key=lambda word: (shared[word], -len(word), word))[:_MOST_TERMS]
        for row, words in terms.items()
    }


def _indexed(connection: sqlite3.Connection, terms: dict[int, list[str]]) -> set[int]:
    """The rows that the full-text index still finds."""
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
    """The same for many rows: term by term, since going row by row would read the postings of a term repeatedly."""
    query = "SELECT rowid FROM lexeme WHERE lexeme MATCH ? AND rowid BETWEEN ? AND ?"
    first, last = min(indexed), max(indexed)
    indexed_rows: set[int] = set()
    for word in {word for words in indexed.values() for word in words}:
        rows = connection.execute(query, (f'"{word}"', first, last))
        indexed_rows.update(row for (row,) in rows if row in indexed)
    return indexed_rows


def _drop_references(connection: sqlite3.Connection, ids: tuple[str, ...], known: _Known) -> tuple[int, int]:
    """Remove jobs about one of the ids, and references to the ids elsewhere."""
    start = beginning(ids)
    referring = connection.execute(REFERRED, (json.dumps(known.referring), known.revision)).fetchall()
    jobs = connection.execute(ABOUT, (start,)).fetchall()
    entries = connection.execute(NAMING, (start,)).fetchall()
    return drop_references(connection, SQLITE, ids, Naming(referring, jobs, entries))
