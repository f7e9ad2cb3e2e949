"""Memories: reading them, counting them, and handing changes to the writer."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from mindhold.model.errors import InvalidInput, MemoryNotFound
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order, Spot
from mindhold.ports.store import Change
from mindhold.stores.sqlite import changes as writing
from mindhold.stores.sqlite.connection import Part
from mindhold.stores.sqlite.filters import (
    Condition,
    Parameter,
    as_list,
    having_keywords,
    matching,
    rows_with_keywords,
    visible,
)
from mindhold.stores.sqlite.rows import SELECTED, memory_of
from mindhold.stores.values import to_micros

_LAST_CHARACTER = "\U0010ffff"
_MOST_RESOLVED = 10

# Column, direction and comparison of each order; the id goes the same way.
_ORDERS = {
    Order.NEWEST: ("occurred", "DESC", "<"),
    Order.OLDEST: ("occurred", "ASC", ">"),
    Order.IMPORTANT: ("importance", "DESC", "<"),
    Order.USED: ("uses", "DESC", "<"),
    Order.DUE: ("review", "ASC", ">"),
    Order.CHANGED: ("updated", "DESC", "<"),
}

_INDEXED = frozenset({"occurred", "importance"})  # columns whose order an index has
_FREQUENT = 2_000  # records that have the keywords: more are better met on the way than sorted
_COUNTED = (1_000, 10_000)  # of each keyword, until it is clear which is the rarest
_MOST_WALKED = 3_000  # index entries; where the page isn't filled by then, they are sorted after all

# How many records have a keyword, up to a bound.
HAVING = "SELECT count(*) FROM (SELECT 1 FROM keyword WHERE form = ? LIMIT ?)"

_TALLIED = {
    "kind": "memory.kind",
    "status": "memory.status",
    "scope": "(SELECT name FROM scope WHERE scope.row = memory.scope)",
    "tier": "memory.tier",
    "topic": "memory.topic",
    "agent": "memory.agent",
    "tag": "tag.name",
    "embedded_by": "coalesce(memory.embedded_by, '')",
    "conversation": "coalesce(memory.conversation, '')",
    "source": "memory.source",
}

# Live records of exactly one scope and agent by their content's hash.
BY_HASH = f"""
    SELECT {SELECTED} FROM memory
    WHERE content_hash IN (SELECT value FROM json_each(?)) AND +scope = (SELECT row FROM scope WHERE name = ?)
        AND +agent = ? AND status IN ('active', 'quarantined')
"""

# Active records of exactly one scope and agent by their gist, with the gist.
BY_GIST = f"""
    SELECT {SELECTED}, memory.gist FROM memory
    WHERE gist IN (SELECT value FROM json_each(?)) AND gist <> ''
        AND +scope = (SELECT row FROM scope WHERE name = ?) AND +agent = ? AND status = 'active'
    ORDER BY memory.id
"""

# Records whose list of sources names one of some ids. The first condition is that of the partial index, which the
# plus keeps from being passed over for one that has the ids in order.
DERIVED = f"""
    SELECT {SELECTED} FROM memory
    WHERE (memory.merged_from <> '[]' OR memory.metadata <> '{{}}') AND memory.merged_from <> '[]'
        AND EXISTS (
            SELECT 1 FROM json_each(memory.merged_from) AS source
            WHERE source.value IN (SELECT value FROM json_each(?))
        )
    ORDER BY +memory.id
"""

_TIMES = "(SELECT count(*) FROM json_each(?2) WHERE value = memory.id)"

# Count one use; a late report doesn't turn the clock back.
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


class RecordsPart(Part):
    """The Records protocol, but for erase()."""

    async def apply(self, changes: Sequence[Change]) -> None:
        if changes:
            await self._database.write(lambda connection: writing.apply(connection, changes))

    async def get(self, memory_id: str, *, viewer: str) -> Memory:
        found = await self.get_many([memory_id], viewer=viewer)
        if memory_id not in found:
            raise MemoryNotFound(memory_id)
        return found[memory_id]

    async def get_many(self, ids: Sequence[str], *, viewer: str) -> dict[str, Memory]:
        if not ids:
            return {}
        where = matching(Filter(viewer=viewer, statuses=(), ids=tuple(ids)))
        memories = await self._database.read(lambda connection: _select(connection, where))
        return {memory.id: memory for memory in memories}

    async def resolve(self, prefix: str, *, viewer: str) -> list[str]:
        seen = visible(viewer)
        # Ids that begin with a prefix, by the range that they sort in.
        query = f"""
            SELECT id FROM memory WHERE id >= ? AND id < ? AND {seen.sql} ORDER BY id LIMIT {_MOST_RESOLVED}
        """
        bounds = (prefix, prefix + _LAST_CHARACTER, *seen.parameters)
        return await self._database.read(
            lambda connection: [row[0] for row in connection.execute(query, bounds)]
        )

    async def find(
        self,
        where: Filter,
        *,
        order: Order = Order.NEWEST,
        limit: int = 50,
        after: str | Spot | None = None,
    ) -> list[Memory]:
        return await self._database.read(
            lambda connection: _page(connection, where, order=order, limit=limit, after=after)
        )

    async def count(self, where: Filter, *, most: int | None = None) -> int:
        condition = matching(where)
        query = f"SELECT count(*) FROM memory WHERE {condition.sql}"
        if most is not None:
            query = f"SELECT count(*) FROM (SELECT 1 FROM memory WHERE {condition.sql} LIMIT {most:d})"
        found = await self._database.read(
            lambda connection: connection.execute(query, condition.parameters).fetchone()
        )
        return int(found[0])

    async def tally(self, where: Filter, by: str) -> dict[str, int]:
        if by not in _TALLIED:
            raise InvalidInput(f"Can't count by {by!r}.", advice=f"Choose one of {', '.join(_TALLIED)}.")
        condition = matching(where)
        source = "memory JOIN tag ON tag.memory = memory.row" if by == "tag" else "memory"
        group = "tag.folded" if by == "tag" else "1"
        # The commonest first; tags that differ in case alone count as one.
        query = f"""
            SELECT {_TALLIED[by]}, count(*) FROM {source} WHERE {condition.sql}
            GROUP BY {group} ORDER BY count(*) DESC, 1
        """
        return await self._database.read(
            lambda connection: dict(connection.execute(query, condition.parameters).fetchall())
        )

    async def by_hash(self, hashes: Sequence[str], *, scope: str, agent: str) -> dict[str, Memory]:
        parameters = (as_list(hashes), scope, agent)
        found = await self._database.read(
            lambda connection: [memory_of(row) for row in connection.execute(BY_HASH, parameters)]
        )
        return {memory.content_hash: memory for memory in found}

    async def by_gist(self, gists: Sequence[str], *, scope: str, agent: str) -> dict[str, list[Memory]]:
        parameters = (as_list(gists), scope, agent)
        rows = await self._database.read(
            lambda connection: connection.execute(BY_GIST, parameters).fetchall()
        )
        found: dict[str, list[Memory]] = {}
        for row in rows:
            found.setdefault(row[-1], []).append(memory_of(row))
        return found

    async def derived_from(self, ids: Sequence[str]) -> list[Memory]:
        if not ids:
            return []
        parameters = (as_list(ids),)
        return await self._database.read(
            lambda connection: [memory_of(row) for row in connection.execute(DERIVED, parameters)]
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

    async def scan(self, where: Filter, *, batch: int = 500) -> AsyncIterator[list[Memory]]:
        condition = matching(where, walked="id")
        last = ""
        while True:
            following = Condition(
                f"{condition.sql} AND memory.id > ? ORDER BY memory.id LIMIT ?",
                (*condition.parameters, last, batch),
            )
            memories = await self._database.read(partial(_select, condition=following))
            if memories:
                yield memories
                last = memories[-1].id
            if len(memories) < batch:
                return


def _select(connection: sqlite3.Connection, condition: Condition) -> list[Memory]:
    query = f"SELECT {SELECTED} FROM memory WHERE {condition.sql}"
    return [memory_of(row) for row in connection.execute(query, condition.parameters)]


def _page(
    connection: sqlite3.Connection, where: Filter, *, order: Order, limit: int, after: str | Spot | None
) -> list[Memory]:
    column, direction, comparison = _ORDERS[order]
    sorting = f"memory.{column} {direction}, memory.id {direction}"
    begin = Condition("1", ())
    if order is Order.DUE:
        begin = Condition("memory.review IS NOT NULL", ())  # what is never reviewed has no place among them
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
    connection: sqlite3.Connection, where: Filter, column: str, after: str | Spot
) -> tuple[Parameter, ...]:
    """Where a page ended."""
    if isinstance(after, Spot):
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
    for each in dict.fromkeys((rarest, where)):  # the rarest alone nearly always tells
        rows = rows_with_keywords(each)
        query = f"SELECT count(*) FROM ({rows.sql} LIMIT ?)"
        if connection.execute(query, (*rows.parameters, _FREQUENT)).fetchone()[0] < _FREQUENT:
            return False
    return True


def _met(
    connection: sqlite3.Connection, where: Filter, begin: Condition, *, column: str, sorting: str, limit: int
) -> list[Memory] | None:
    """The page as it is met on the way along an index; None where it isn't filled soon."""
    # The last index entry that is looked at.
    query = f"""
        SELECT {column}, id FROM memory WHERE {begin.sql} ORDER BY {sorting} LIMIT 1 OFFSET {_MOST_WALKED}
    """
    mark = connection.execute(query, begin.parameters).fetchone()
    condition = _both(matching(replace(where, keywords=()), walked=column), begin)
    if mark is not None:
        condition = _both(condition, _beyond(mark, column, ">" if "DESC" in sorting else "<"))
    condition = _both(condition, having_keywords(where, "memory.row"))
    found = _in_order(connection, condition, sorting=sorting, limit=limit)
    return found if mark is None or len(found) == limit else None


def _beyond(mark: tuple[Parameter, ...], column: str, comparison: str) -> Condition:
    return Condition(f"(memory.{column}, memory.id) {comparison} (?, ?)", mark)


def _both(one: Condition, other: Condition) -> Condition:
    return Condition(f"{one.sql} AND {other.sql}", (*one.parameters, *other.parameters))


def _in_order(
    connection: sqlite3.Connection, condition: Condition, *, sorting: str, limit: int
) -> list[Memory]:
    # The rows are chosen inside an index where one has the columns; only the page's records are read whole.
    query = f"""
        SELECT {SELECTED} FROM memory
        WHERE memory.row IN (SELECT memory.row FROM memory WHERE {condition.sql} ORDER BY {sorting} LIMIT ?)
        ORDER BY {sorting}
    """
    return [memory_of(row) for row in connection.execute(query, (*condition.parameters, limit))]
