"""Memories: reading them, counting them, and handing changes to the writer."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from mindhold.model.errors import InvalidInput, MemoryNotFound
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order, Spot
from mindhold.ports.store import Change
from mindhold.stores.postgres import changes as writing
from mindhold.stores.postgres.connection import Connection, Part
from mindhold.stores.postgres.filters import Condition, matching, visible
from mindhold.stores.postgres.rows import SELECTED, memory_of
from mindhold.stores.postgres.tending import SHOW, TOUCH

_LAST_CHARACTER = "\U0010ffff"
_MOST_RESOLVED = 10

# Column, direction and comparison of each order; the id goes the same way.
_ORDERS = {
    Order.NEWEST: ("occurred_at", "DESC", "<"),
    Order.OLDEST: ("occurred_at", "ASC", ">"),
    Order.IMPORTANT: ("importance", "DESC", "<"),
    Order.USED: ("access_count", "DESC", "<"),
    Order.DUE: ("review_at", "ASC", ">"),
    Order.CHANGED: ("updated_at", "DESC", "<"),
}
_BY_STANDING = (Order.IMPORTANT, Order.DUE)

_TALLIED = {
    "kind": "fragments.type",
    "status": "fragments.status",
    "scope": "(SELECT name FROM scope WHERE scope.row = fragments.scope)",
    "tier": "fragments.ttl_tier",
    "topic": "fragments.topic",
    "agent": "fragments.agent_id",
    "tag": "min(fragment_tags.name)",
    "embedded_by": "coalesce(fragments.embedded_by, '')",
    "conversation": "coalesce(fragments.conversation, '')",
    "source": "fragments.source",
}

# Live records of exactly one scope and agent by their content's hash.
BY_HASH = f"""
    SELECT {SELECTED} FROM fragments
    WHERE content_hash = ANY(%s::text[]) AND scope = (SELECT row FROM scope WHERE name = %s) AND agent_id = %s
        AND status IN ('active', 'quarantined')
"""

# Active records of exactly one scope and agent by their gist, with the gist.
BY_GIST = f"""
    SELECT {SELECTED}, fragments.gist FROM fragments
    WHERE gist = ANY(%s::text[]) AND gist <> '' AND scope = (SELECT row FROM scope WHERE name = %s)
        AND agent_id = %s AND status = 'active'
    ORDER BY fragments.id
"""

# Records whose list of sources names one of some ids. The first condition is that of the partial index.
DERIVED = f"""
    SELECT {SELECTED} FROM fragments
    WHERE (fragments.merged_from <> '{{}}' OR fragments.metadata::text <> '{{}}')
        AND fragments.merged_from && %s::text[]
    ORDER BY fragments.id
"""


class RecordsPart(Part):
    """The Records protocol, but for erase()."""

    _has_vectors: bool

    async def apply(self, changes: Sequence[Change]) -> None:
        if changes:
            await self._database.write(
                lambda connection: writing.apply(connection, changes, vectors=self._has_vectors)
            )
            self._changed(changes)

    def _changed(self, changes: Sequence[Change]) -> None:
        """To be told after each write."""
        raise NotImplementedError

    async def get(self, memory_id: str, *, viewer: str) -> Memory:
        found = await self.get_many([memory_id], viewer=viewer)
        if memory_id not in found:
            raise MemoryNotFound(memory_id)
        return found[memory_id]

    async def get_many(self, ids: Sequence[str], *, viewer: str) -> dict[str, Memory]:
        if not ids:
            return {}
        where = matching(Filter(viewer=viewer, statuses=(), ids=tuple(ids)))
        query = f"SELECT {SELECTED} FROM fragments WHERE {where.sql}"
        found = await self._database.rows(query, where.parameters, viewer=viewer)
        return {row[0]: memory_of(row) for row in found}

    async def resolve(self, prefix: str, *, viewer: str) -> list[str]:
        seen = visible(viewer)
        # Ids that begin with a prefix, by the range that they sort in.
        query = f"""
            SELECT id FROM fragments WHERE id >= %s AND id < %s AND {seen.sql} ORDER BY id LIMIT {_MOST_RESOLVED}
        """
        bounds = (prefix, prefix + _LAST_CHARACTER, *seen.parameters)
        return await self._database.read(
            lambda connection: [row[0] for row in connection.execute(query, bounds).fetchall()],
            viewer=viewer,
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
            lambda connection: _page(connection, where, order=order, limit=limit, after=after),
            viewer=where.viewer,
        )

    async def count(self, where: Filter, *, most: int | None = None) -> int:
        condition = matching(where)
        query = f"SELECT count(*) FROM fragments WHERE {condition.sql}"
        if most is not None:
            query = f"SELECT count(*) FROM (SELECT 1 FROM fragments WHERE {condition.sql} LIMIT {most:d}) AS found"
        found = await self._database.read(
            lambda connection: connection.execute(query, condition.parameters, prepare=False).fetchall(),
            viewer=where.viewer,
        )
        return int(found[0][0])

    async def tally(self, where: Filter, by: str) -> dict[str, int]:
        if by not in _TALLIED:
            raise InvalidInput(f"Can't count by {by!r}.", advice=f"Choose one of {', '.join(_TALLIED)}.")
        condition = matching(where)
        source = (
            "fragments JOIN fragment_tags ON fragment_tags.row = fragments.row"
            if by == "tag"
            else "fragments"
        )
        group = "fragment_tags.folded" if by == "tag" else "1"
        # The commonest first; tags that differ in case alone count as one.
        query = f"""
            SELECT {_TALLIED[by]}, count(*) FROM {source} WHERE {condition.sql}
            GROUP BY {group} ORDER BY count(*) DESC, 1
        """
        found = await self._database.read(
            lambda connection: connection.execute(query, condition.parameters, prepare=False).fetchall(),
            viewer=where.viewer,
        )
        return dict(found)

    async def by_hash(self, hashes: Sequence[str], *, scope: str, agent: str) -> dict[str, Memory]:
        parameters = (list(hashes), scope, agent)
        found = await self._database.read(
            lambda connection: [memory_of(row) for row in connection.execute(BY_HASH, parameters).fetchall()]
        )
        return {memory.content_hash: memory for memory in found}

    async def by_gist(self, gists: Sequence[str], *, scope: str, agent: str) -> dict[str, list[Memory]]:
        parameters = (list(gists), scope, agent)
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
        return await self._database.read(
            lambda connection: [
                memory_of(row) for row in connection.execute(DERIVED, (list(ids),)).fetchall()
            ]
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

    async def scan(self, where: Filter, *, batch: int = 500) -> AsyncIterator[list[Memory]]:
        condition = matching(where)
        last = ""
        while True:
            following = Condition(
                f"{condition.sql} AND fragments.id > %s ORDER BY fragments.id LIMIT %s",
                (*condition.parameters, last, batch),
            )
            memories = await self._database.read(partial(_select, condition=following), viewer=where.viewer)
            if memories:
                yield memories
                last = memories[-1].id
            if len(memories) < batch:
                return


def _select(connection: Connection, condition: Condition, source: str = "fragments") -> list[Memory]:
    """By a plan for these very values: one that fits any filter would fit none."""
    query = f"SELECT {SELECTED} FROM {source} WHERE {condition.sql}"
    found = connection.execute(query, condition.parameters, prepare=False).fetchall()
    return [memory_of(row) for row in found]


def _page(
    connection: Connection, where: Filter, *, order: Order, limit: int, after: str | Spot | None
) -> list[Memory]:
    mark: tuple[Any, ...] | None = None
    if isinstance(after, Spot):
        mark = (after.value, after.id)
    elif after is not None:
        seen = visible(where.viewer)
        # Where the page before ended.
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
    """The tables that a page is read from, and which of their rows it has, in order, after the mark."""
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
        sql += " AND standing.review_at IS NOT NULL"  # what is never reviewed has no place among them
    if mark is not None:
        sql += f" AND ({table}.{column}, {table}.id) {comparison} (%s, %s)"
        parameters = (*parameters, *mark)
    sql += f" ORDER BY {table}.{column} {direction}, {table}.id {direction} LIMIT %s"
    return source, Condition(sql, (*parameters, limit))
