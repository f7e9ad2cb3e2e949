"""Reading, counting, changing and erasing memories; changes are applied in order, runs of the same kind together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import psycopg

from mindhold.model.errors import MemoryNotFound, StoreError
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order, PagePosition
from mindhold.ports.store import Change, Inherit, Mark, Put, Rate, Receipt, Revise, Tend
from mindhold.stores.base import ORDERS, Erased
from mindhold.stores.columns import beginning, mentions, number
from mindhold.stores.postgres.connection import PostgresPart
from mindhold.stores.postgres.driver import Connection
from mindhold.stores.postgres.rows import (
    COLUMNS,
    POSTGRES,
    REVISE,
    SELECTED,
    UPSERT,
    UPSERT_WITH_VECTORS,
    arrays_of,
    distinct_tags,
    given,
    matching,
    memory_of,
    note_keywords,
    revised,
    sent_types,
    visible,
    whole,
)
from mindhold.stores.sql import Condition
from mindhold.stores.sql_records import TEXTS, Naming, SqlLinks, SqlWriting, drop_references

T = TypeVar("T", Tend, Rate)

# Change the fields of upkeep, unless the record changed since upkeep read it.
_TENDED = sent_types(COLUMNS.tended)
TEND = f"""
    UPDATE fragments SET {", ".join(f"{name} = coalesce(given.{name}, fragments.{name})" for name in _TENDED)}
    FROM {given(_TENDED | {"id": "text", "since": "timestamptz"})} WHERE fragments.id = given.id
        AND (given.since IS NULL OR greatest(updated_at, accessed_at, stirred_at) <= given.since)
"""

# Add to the usefulness of records.
RATE = """
    UPDATE fragments SET usefulness = greatest(-1, least(1, usefulness + given.by)),
        stirred_at = greatest(stirred_at, given.moment), review_at = least(review_at, given.moment)
    FROM unnest(%s::text[], %s::float8[], %s::timestamptz[]) AS given (id, by, moment)
    WHERE fragments.id = given.id
"""

_COUNTED = """
    FROM (
        SELECT fragments.row, wanted.times FROM unnest(%(ids)s::text[], %(times)s::bigint[]) AS wanted (id, times)
        JOIN fragments ON fragments.id = wanted.id ORDER BY fragments.id FOR NO KEY UPDATE OF fragments
    ) AS counted WHERE fragments.row = counted.row
"""

# Count uses; a late report doesn't set the time back.
TOUCH = f"""
    UPDATE fragments SET access_count = access_count + counted.times, accessed_at = greatest(accessed_at, %(when)s),
        ttl_tier = CASE ttl_tier WHEN 'permanent' THEN ttl_tier ELSE 'hot' END, review_at = least(review_at, %(when)s)
    {_COUNTED}
"""

# Count showings.
SHOW = f"""
    UPDATE fragments SET shown = shown + counted.times, stirred_at = greatest(stirred_at, %(when)s),
        review_at = least(review_at, %(when)s)
    {_COUNTED}
"""


# Lock records; in order, so that no two writers deadlock.
HOLD = "SELECT row FROM fragments WHERE id = ANY(%s::text[]) ORDER BY id FOR NO KEY UPDATE"

# Remove the tags of records, and add tags.
UNTAG = "DELETE FROM fragment_tags WHERE row = ANY(%s::bigint[])"
TAG = """
    INSERT INTO fragment_tags (row, folded, name, agent_id)
    SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[])
"""


class _Writing(SqlWriting):
    """One call of apply(). Without `vectors` the vectors in the changes are ignored."""

    dialect = POSTGRES
    _connection: Connection

    def __init__(self, connection: Connection, *, vectors: bool) -> None:
        super().__init__(connection)
        self._vectors = vectors

    def _lock(self, changes: Sequence[Change]) -> None:
        """Lock all records in the order of their ids, or two writers with different steps could deadlock."""
        ids = set()
        for change in changes:
            if isinstance(change, (Put, Revise)):
                ids.add(change.memory.id)
            elif isinstance(change, (Mark, Inherit, Tend, Rate)):
                ids.add(change.memory_id)
        if len(ids) > 1:
            self._connection.execute(HOLD, (sorted(ids),))

    def _put(self, run: list[Put]) -> None:
        puts = self._checked_puts(run)
        ordered = [puts[memory_id] for memory_id in sorted(puts)]
        memories = [put.memory for put in ordered]
        values = [whole(put, scope=self._scopes[put.memory.scope], vectors=self._vectors) for put in ordered]
        self._write(UPSERT_WITH_VECTORS if self._vectors else UPSERT, values, memories)
        self._label(memories)

    def _revise(self, run: list[Revise]) -> None:
        memories, _ = self._checked_revisions(run)
        values = [revised(memory, scope=self._scopes[memory.scope]) for memory in memories]
        self._write(REVISE, values, memories)
        self._label(memories)

    def _tend(self, tends: list[Tend]) -> None:
        for batch in _apart(tends):
            values = [(*COLUMNS.tended.values(tend), tend.memory_id, tend.unless_since) for tend in batch]
            self._connection.execute(TEND, arrays_of(values))

    def _rate(self, rates: list[Rate]) -> None:
        for batch in _apart(rates):
            values = [(rate.memory_id, number(rate.by), rate.when) for rate in batch]
            self._connection.execute(RATE, arrays_of(values))

    def _write(self, statement: str, values: list[tuple[Any, ...]], memories: list[Memory]) -> None:
        self._connection.execute("SAVEPOINT written")
        try:
            self._connection.execute(statement, arrays_of(values))
        except psycopg.errors.UniqueViolation as error:
            self._connection.execute("ROLLBACK TO written")
            raise self._clash(memories) from error
        self._connection.execute("RELEASE written")

    def _label(self, memories: list[Memory]) -> None:
        rows = self._rows([memory.id for memory in memories])
        self._connection.execute(UNTAG, (list(rows.values()),))
        tags = [
            (rows[memory.id], folded, name, memory.agent)
            for memory in memories
            for folded, name in distinct_tags(memory).items()
        ]
        if tags:
            self._connection.execute(TAG, arrays_of(tags))
        note_keywords(self._connection, {rows[memory.id]: memory.keywords for memory in memories})


def _apart(changes: Sequence[T]) -> Iterator[list[T]]:
    """Batches that contain no record twice, because a statement changes a row only once."""
    batch: dict[str, T] = {}
    for change in changes:
        if change.memory_id in batch:
            yield list(batch.values())
            batch = {}
        batch[change.memory_id] = change
    yield list(batch.values())


_BY_STANDING = (Order.IMPORTANT, Order.DUE)


class PostgresRecords(SqlLinks, PostgresPart):
    """Implements Records and Links, except erase()."""

    _has_vectors: bool

    def _visible(self, viewer: str, alias: str = "") -> Condition:
        return visible(viewer, alias or "fragments")

    def _matching(self, where: Filter, alias: str = "", *, walked: str = "") -> Condition:
        return matching(where, alias or "fragments")

    async def apply(self, changes: Sequence[Change]) -> None:
        if changes:
            await self._database.write(partial(_Writing.apply, changes, vectors=self._has_vectors))
            self._changed(changes)

    def _changed(self, changes: Sequence[Change]) -> None:
        """Called after each write."""
        raise NotImplementedError

    async def find(
        self,
        where: Filter,
        *,
        order: Order = Order.NEWEST,
        limit: int = 50,
        after: str | PagePosition | None = None,
    ) -> list[Memory]:
        return await self._database.read(
            lambda connection: _page(connection, where, order=order, limit=limit, after=after),
            viewer=where.viewer,
        )

    async def touch(self, ids: Sequence[str], when: datetime) -> None:
        await self._count(TOUCH, ids, when)

    async def note_shown(self, ids: Sequence[str], when: datetime) -> None:
        await self._count(SHOW, ids, when)

    async def _count(self, statement: str, ids: Sequence[str], when: datetime) -> None:
        if ids:
            times = Counter(ids)
            values = {"when": when, "ids": list(times), "times": list(times.values())}
            await self._database.write(
                lambda connection: connection.execute(statement, values).rowcount, lasting=False
            )

    async def unembedded(self, model: str, *, limit: int, scopes: Sequence[str] = ()) -> list[Memory]:
        return await super().unembedded(model, limit=limit, scopes=scopes) if self._has_vectors else []

    def _links_query(self, ids: Sequence[str], relations: Sequence[str], viewer: str) -> Condition:
        origin, target = visible(viewer, "origin"), visible(viewer, "target")
        related = "AND link.relation_type = ANY(%s::text[])" if relations else ""
        query = f"""
            SELECT {COLUMNS.link.listed("link.")} FROM {POSTGRES.names["links_with_ends"]}
            WHERE (link.from_id = ANY(%s::text[]) OR link.to_id = ANY(%s::text[]))
                AND {origin.sql} AND {target.sql} {related}
            ORDER BY link.created_at, link.from_id, link.to_id, link.relation_type
        """
        relation_values = [list(relations)] if relations else []
        return Condition(
            query, (list(ids), list(ids), *origin.parameters, *target.parameters, *relation_values)
        )


def _page(
    connection: Connection, where: Filter, *, order: Order, limit: int, after: str | PagePosition | None
) -> list[Memory]:
    mark: tuple[Any, ...] | None = None
    if isinstance(after, PagePosition):
        mark = (after.value, after.id)
    elif after is not None:
        seen = visible(where.viewer)
        # Where the previous page ended.
        mark = connection.execute(
            f"SELECT {POSTGRES.names[ORDERS[order][0]]}, id FROM fragments WHERE id = %s AND {seen.sql}",
            (after, *seen.parameters),
        ).fetchone()
        if mark is None:
            raise MemoryNotFound(after)
    source, condition = listing(where, order, mark=mark, limit=limit)
    query = f"SELECT {SELECTED} FROM {source} WHERE {condition.sql}"
    # By a plan for these very values: a plan that fits every filter would fit none.
    rows = connection.execute(query, condition.parameters, prepare=False).fetchall()
    return [memory_of(row) for row in rows]


def listing(
    where: Filter, order: Order, *, mark: tuple[Any, ...] | None, limit: int
) -> tuple[str, Condition]:
    """The tables of a page, and the condition of its rows in order after the mark."""
    field, descending = ORDERS[order]
    column = POSTGRES.names[field]
    direction, comparison = ("DESC", "<") if descending else ("ASC", ">")
    source = table = "fragments"
    if order in _BY_STANDING:
        source, table = (
            "fragments JOIN fragment_standing AS standing ON standing.row = fragments.row",
            "standing",
        )
    condition = matching(replace(where, due=None) if order is Order.DUE else where)
    sql, parameters = condition.sql, condition.parameters
    if order is Order.DUE and where.due is not None:
        sql, parameters = f"{sql} AND standing.review_at <= %s", (*parameters, where.due)
    elif order is Order.DUE:
        sql += " AND standing.review_at IS NOT NULL"  # records that are never reviewed are left out
    if mark is not None:
        sql += f" AND ({table}.{column}, {table}.id) {comparison} (%s, %s)"
        parameters = (*parameters, *mark)
    sql += f" ORDER BY {table}.{column} {direction}, {table}.id {direction} LIMIT %s"
    return source, Condition(sql, (*parameters, limit))


_FEW = 20  # ids to compare each text with
_TELLING = 8  # characters that are rare in other texts
_SPECIAL, _ESCAPED = re.compile(r"([\\%_])"), r"\\\1"

# Rows of records by id, locked against changes.
ROWS_OF = "SELECT id, row FROM fragments WHERE id = ANY(%s::text[]) ORDER BY id FOR UPDATE"

# Tables with data about records, and their key columns; the records themselves last.
PLACES = {
    "links": "fragment_links WHERE from_id = ANY(%(ids)s::text[]) OR to_id = ANY(%(ids)s::text[])",
    "versions": "fragment_versions WHERE fragment_id = ANY(%(ids)s::text[])",
    "tags": "fragment_tags WHERE row = ANY(%(rows)s::bigint[])",
    "keywords": "fragment_keywords WHERE row = ANY(%(rows)s::bigint[])",
    "standing": "fragment_standing WHERE row = ANY(%(rows)s::bigint[])",
    "text": "fragment_lexemes WHERE row = ANY(%(rows)s::bigint[])",
    "memories": "fragments WHERE row = ANY(%(rows)s::bigint[]) OR id = ANY(%(ids)s::text[])",
}
VECTORS = "SELECT count(*) FROM fragments WHERE row = ANY(%(rows)s::bigint[]) AND embedded_by IS NOT NULL"

# Records whose lists or JSON may refer to others; a partial index has them.
REFERRING = """
    SELECT row, merged_from, metadata FROM fragments
    WHERE (merged_from <> '{}' OR metadata::text <> '{}')
        AND (merged_from::text LIKE ANY(%(likely)s::text[]) OR metadata::text LIKE ANY(%(likely)s::text[]))
    ORDER BY row FOR UPDATE
"""

# Jobs whose JSON may refer to a record.
ABOUT = """
    SELECT id, payload, result FROM job
    WHERE payload::text LIKE ANY(%(likely)s::text[]) OR result::text LIKE ANY(%(likely)s::text[])
    ORDER BY id FOR UPDATE
"""

# Entries that may refer to a record.
NAMING = """
    SELECT drawer, key, value FROM entry WHERE value::text LIKE ANY(%(likely)s::text[]) OR key LIKE ANY(%(likely)s::text[])
    ORDER BY drawer, key FOR UPDATE
"""

# Tables and their texts that the check after an erasure searches for an id.
SEARCHED_TEXTS = {
    {"memory": "fragments", "version": "fragment_versions"}.get(table, table): columns
    for table, columns in TEXTS.items()
} | {"fragment_keywords": ["forms"]}


class PostgresErasure(PostgresPart):
    """Implements erase()."""

    async def erase(self, ids: Sequence[str], *, references: bool = True) -> Receipt:
        unique_ids = tuple(dict.fromkeys(ids))
        erased = await self._database.write(
            lambda connection: _erase(connection, unique_ids, references=references)
        )
        self._tell(len(erased.rows))
        try:
            remaining = await self._database.read(lambda connection: _remaining(connection, erased))
        except StoreError as error:
            raise type(error)(
                f"The {len(erased.rows)} records are erased, but nobody could look again: {error.message}",
                advice=f"Erase the same ids again to have it looked at. {error.advice}",
            ) from error
        return erased.receipt(remaining)

    def _tell(self, records: int) -> None:
        """Called after each erasure."""
        raise NotImplementedError


def _erase(connection: Connection, ids: tuple[str, ...], *, references: bool) -> Erased:
    rows: dict[str, int] = dict(connection.execute(ROWS_OF, (list(ids),)).fetchall())
    values = {"ids": list(ids), "rows": list(rows.values())}
    removed = {"vectors": _count(connection, VECTORS, values)}
    for place, where in PLACES.items():
        removed[place] = connection.execute(f"DELETE FROM {where}", values).rowcount
    if references:
        removed["jobs"], removed["references"] = _drop_references(connection, ids)
    return Erased(ids, rows, removed, references)


def _remaining(connection: Connection, erased: Erased) -> dict[str, int]:
    """What the check after an erasure finds in each place; `mentions` counts other texts that contain an id."""
    values = {"ids": list(erased.ids), "rows": list(erased.rows.values())}
    counts = {"vectors": _count(connection, VECTORS, values)}
    for place, where in PLACES.items():
        counts[place] = _count(connection, f"SELECT count(*) FROM {where}", values)
    if not erased.references:
        return counts
    counts["jobs"] = _mentions(connection, "job", erased.ids)
    counts["references"] = _count(
        connection, "SELECT count(*) FROM fragments WHERE supersedes = ANY(%(ids)s::text[])", values
    )
    counts["mentions"] = sum(
        _mentions(connection, table, erased.ids) for table in SEARCHED_TEXTS if table != "job"
    )
    return counts


def _count(connection: Connection, query: str, values: dict[str, Any]) -> int:
    return int(connection.execute(query, values).fetchall()[0][0])


def _mentions(connection: Connection, table: str, ids: tuple[str, ...]) -> int:
    """The number of rows that contain an id."""
    if not ids:
        return 0
    columns = SEARCHED_TEXTS[table]
    likely = " OR ".join(f"{column}::text LIKE ANY(%(likely)s::text[])" for column in columns)
    texts = " || ' ' || ".join(f"coalesce({column}::text, '')" for column in columns)
    rows = connection.execute(
        f"SELECT {texts} FROM {table} WHERE {likely}", {"likely": _likely(ids)}
    ).fetchall()
    return mentions((text for (text,) in rows), frozenset(ids))


def _likely(ids: tuple[str, ...]) -> list[str]:
    """LIKE patterns that exclude most rows without any of the ids: a few ids, or their common prefix."""
    begin = beginning(ids)
    sought = ids if len(begin) < _TELLING and len(ids) <= _FEW else (begin,)
    return [f"%{_SPECIAL.sub(_ESCAPED, text)}%" for text in sought]


def _drop_references(connection: Connection, ids: tuple[str, ...]) -> tuple[int, int]:
    """Remove jobs about one of the ids, and references to the ids elsewhere."""
    if not ids:
        return 0, 0
    likely = {"likely": _likely(ids)}
    rows = (connection.execute(query, likely).fetchall() for query in (REFERRING, ABOUT, NAMING))
    return drop_references(connection, POSTGRES, ids, Naming(*rows))
