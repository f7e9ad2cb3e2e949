"""Reading, counting, changing and erasing memories."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from mindhold.model.errors import MemoryNotFound, StoreError
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order, PagePosition
from mindhold.ports.store import Change, Receipt
from mindhold.stores.postgres import changes as writing
from mindhold.stores.postgres.changes import SHOW, TOUCH
from mindhold.stores.postgres.connection import PostgresPart
from mindhold.stores.postgres.driver import Connection
from mindhold.stores.postgres.rows import COLUMNS, POSTGRES, SELECTED, matching, memory_of, visible
from mindhold.stores.sql import Condition
from mindhold.stores.sql_records import TEXTS, Naming, SqlLinks, drop_references
from mindhold.stores.values import beginning, mentions

# Column, direction and comparison of each order; ids sort in the same direction.
_ORDERS = {
    Order.NEWEST: ("occurred_at", "DESC", "<"),
    Order.OLDEST: ("occurred_at", "ASC", ">"),
    Order.IMPORTANT: ("importance", "DESC", "<"),
    Order.USED: ("access_count", "DESC", "<"),
    Order.DUE: ("review_at", "ASC", ">"),
    Order.CHANGED: ("updated_at", "DESC", "<"),
}
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
            await self._database.write(
                lambda connection: writing.apply(connection, changes, vectors=self._has_vectors)
            )
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


def _select(connection: Connection, condition: Condition, source: str = "fragments") -> list[Memory]:
    """Memories by a plan for these very values: a plan that fits every filter would fit none."""
    query = f"SELECT {SELECTED} FROM {source} WHERE {condition.sql}"
    rows = connection.execute(query, condition.parameters, prepare=False).fetchall()
    return [memory_of(row) for row in rows]


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
            f"SELECT {_ORDERS[order][0]}, id FROM fragments WHERE id = %s AND {seen.sql}",
            (after, *seen.parameters),
        ).fetchone()
        if mark is None:
            raise MemoryNotFound(after)
    source, condition = listing(where, order, mark=mark, limit=limit)
    return _select(connection, condition, source)


def listing(
    where: Filter, order: Order, *, mark: tuple[Any, ...] | None, limit: int
) -> tuple[str, Condition]:
    """The tables of a page, and the condition of its rows in order after the mark."""
    column, direction, comparison = _ORDERS[order]
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


@dataclass(frozen=True, slots=True)
class _Erased:
    ids: tuple[str, ...]
    rows: dict[str, int]
    removed: dict[str, int]
    references: bool  # whether references to them were removed too

    @property
    def values(self) -> dict[str, Any]:
        return {"ids": list(self.ids), "rows": list(self.rows.values())}


class PostgresErasure(PostgresPart):
    """Implements erase()."""

    async def erase(self, ids: Sequence[str], *, references: bool = True) -> Receipt:
        unique_ids = tuple(dict.fromkeys(ids))
        erased = await self._database.write(
            lambda connection: _erase(connection, unique_ids, references=references)
        )
        self._erased(len(erased.rows))
        try:
            remaining = await self._database.read(lambda connection: _remaining(connection, erased))
        except StoreError as error:
            raise type(error)(
                f"The {len(erased.rows)} records are erased, but nobody could look again: {error.message}",
                advice=f"Erase the same ids again to have it looked at. {error.advice}",
            ) from error
        erased_ids = tuple(memory_id for memory_id in unique_ids if memory_id in erased.rows)
        return Receipt(ids=erased_ids, removed=erased.removed, remaining=remaining)

    def _erased(self, number: int) -> None:
        """Called after each erasure."""
        raise NotImplementedError


def _erase(connection: Connection, ids: tuple[str, ...], *, references: bool) -> _Erased:
    rows: dict[str, int] = dict(connection.execute(ROWS_OF, (list(ids),)).fetchall())
    erased = _Erased(ids, rows, {}, references)
    erased.removed["vectors"] = _count(connection, VECTORS, erased.values)
    for place, where in PLACES.items():
        erased.removed[place] = connection.execute(f"DELETE FROM {where}", erased.values).rowcount
    if references:
        erased.removed["jobs"], erased.removed["references"] = _drop_references(connection, ids)
    return erased


def _remaining(connection: Connection, erased: _Erased) -> dict[str, int]:
    """What the check after an erasure finds in each place; `mentions` counts other texts that contain an id."""
    counts = {"vectors": _count(connection, VECTORS, erased.values)}
    for place, where in PLACES.items():
        counts[place] = _count(connection, f"SELECT count(*) FROM {where}", erased.values)
    if not erased.references:
        return counts
    counts["jobs"] = _mentions(connection, "job", erased.ids)
    counts["references"] = _count(
        connection, "SELECT count(*) FROM fragments WHERE supersedes = ANY(%(ids)s::text[])", erased.values
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
