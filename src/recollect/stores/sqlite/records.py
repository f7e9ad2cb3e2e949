"""Memories: reading them, counting them, and handing changes to the writer."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from functools import partial

from recollect.model.errors import InvalidInput, MemoryNotFound
from recollect.model.memory import Memory
from recollect.model.query import Filter, Order
from recollect.ports.store import Change
from recollect.stores.sqlite import changes as writing
from recollect.stores.sqlite.connection import Part
from recollect.stores.sqlite.filters import Condition, as_list, matching, visible
from recollect.stores.sqlite.rows import SELECTED, memory_of
from recollect.stores.values import to_micros

_LAST_CHARACTER = "\U0010ffff"
_MOST_RESOLVED = 10

# Column, direction and comparison of each order; the id goes the same way.
_ORDERS = {
    Order.NEWEST: ("occurred", "DESC", "<"),
    Order.OLDEST: ("occurred", "ASC", ">"),
    Order.IMPORTANT: ("importance", "DESC", "<"),
    Order.USED: ("uses", "DESC", "<"),
    Order.DUE: ("review", "ASC", ">"),
}

_TALLIED = {
    "kind": "memory.kind",
    "status": "memory.status",
    "scope": "(SELECT name FROM scope WHERE scope.row = memory.scope)",
    "tier": "memory.tier",
    "topic": "memory.topic",
    "agent": "memory.agent",
    "tag": "tag.name",
    "embedded_by": "coalesce(memory.embedded_by, '')",
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
        after: str | None = None,
    ) -> list[Memory]:
        return await self._database.read(
            lambda connection: _page(connection, where, order=order, limit=limit, after=after)
        )

    async def count(self, where: Filter) -> int:
        condition = matching(where)
        query = f"SELECT count(*) FROM memory WHERE {condition.sql}"
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
    connection: sqlite3.Connection, where: Filter, *, order: Order, limit: int, after: str | None
) -> list[Memory]:
    column, direction, comparison = _ORDERS[order]
    condition = matching(where, walked=column)
    sql, parameters = condition.sql, condition.parameters
    if order is Order.DUE:
        sql += " AND memory.review IS NOT NULL"  # what is never reviewed has no place among them
    if after is not None:
        seen = visible(where.viewer)
        # Where the page before ended.
        mark = connection.execute(
            f"SELECT {column}, id FROM memory WHERE id = ? AND {seen.sql}", (after, *seen.parameters)
        ).fetchone()
        if mark is None:
            raise MemoryNotFound(after)
        sql += f" AND (memory.{column}, memory.id) {comparison} (?, ?)"
        parameters = (*parameters, *mark)
    sorting = f"memory.{column} {direction}, memory.id {direction}"
    # The rows are chosen inside an index where one has the columns; only the page's records are read whole.
    query = f"""
        SELECT {SELECTED} FROM memory
        WHERE memory.row IN (SELECT memory.row FROM memory WHERE {sql} ORDER BY {sorting} LIMIT ?)
        ORDER BY {sorting}
    """
    return [memory_of(row) for row in connection.execute(query, (*parameters, limit))]
