"""Reads, counts, changes and erases memories."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from mindhold.model.errors import InvalidInput, MemoryNotFound, StoreError
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order, PagePosition
from mindhold.ports.store import Change, Receipt
from mindhold.stores.postgres import changes as writing
from mindhold.stores.postgres.changes import SHOW, TOUCH
from mindhold.stores.postgres.connection import Connection, PostgresPart
from mindhold.stores.postgres.rows import SELECTED, PostgresCondition, matching, memory_of, visible
from mindhold.stores.values import beginning, entry_without, job_without, mentions, without

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


class PostgresRecords(PostgresPart):
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
        after: str | PagePosition | None = None,
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
            following = PostgresCondition(
                f"{condition.sql} AND fragments.id > %s ORDER BY fragments.id LIMIT %s",
                (*condition.parameters, last, batch),
            )
            memories = await self._database.read(partial(_select, condition=following), viewer=where.viewer)
            if memories:
                yield memories
                last = memories[-1].id
            if len(memories) < batch:
                return


def _select(connection: Connection, condition: PostgresCondition, source: str = "fragments") -> list[Memory]:
    """By a plan for these very values: one that fits any filter would fit none."""
    query = f"SELECT {SELECTED} FROM {source} WHERE {condition.sql}"
    found = connection.execute(query, condition.parameters, prepare=False).fetchall()
    return [memory_of(row) for row in found]


def _page(
    connection: Connection, where: Filter, *, order: Order, limit: int, after: str | PagePosition | None
) -> list[Memory]:
    mark: tuple[Any, ...] | None = None
    if isinstance(after, PagePosition):
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
) -> tuple[str, PostgresCondition]:
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
    return source, PostgresCondition(sql, (*parameters, limit))


_FEW = 20  # ids that each text is compared with
_TELLING = 8  # characters that hardly any text has by chance
_SPECIAL, _ESCAPED = re.compile(r"([\\%_])"), r"\\\1"

# The rows of records by their ids, which nobody changes meanwhile.
ROWS_OF = "SELECT id, row FROM fragments WHERE id = ANY(%s::text[]) ORDER BY id FOR UPDATE"

# Where something about a record is kept, and by what; the records themselves last.
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

# Records whose lists or JSON may name others; a partial index holds them.
REFERRING = """
    SELECT row, merged_from, metadata FROM fragments
    WHERE (merged_from <> '{}' OR metadata::text <> '{}')
        AND (merged_from::text LIKE ANY(%(likely)s::text[]) OR metadata::text LIKE ANY(%(likely)s::text[]))
    ORDER BY row FOR UPDATE
"""

# Jobs whose JSON may name a record.
ABOUT = """
    SELECT id, payload, result FROM job
    WHERE payload::text LIKE ANY(%(likely)s::text[]) OR result::text LIKE ANY(%(likely)s::text[])
    ORDER BY id FOR UPDATE
"""

# Entries that may name a record.
NAMING = """
    SELECT drawer, key, value FROM entry WHERE value::text LIKE ANY(%(likely)s::text[]) OR key LIKE ANY(%(likely)s::text[])
    ORDER BY drawer, key FOR UPDATE
"""

# Every text in which a second look searches for an id.
TEXTS = {
    "fragments": "merged_from metadata content topic source conversation file keywords".split(),
    "fragment_keywords": ["forms"],
    "fragment_versions": "content topic tags keywords".split(),
    "job": "payload result error key".split(),
    "cursor": "name value".split(),
    "scope": "name description keywords".split(),
    "entry": "key value".split(),
}


@dataclass(frozen=True, slots=True)
class _Erased:
    ids: tuple[str, ...]
    rows: dict[str, int]
    removed: dict[str, int]
    references: bool  # whether what names them was changed too

    @property
    def values(self) -> dict[str, Any]:
        return {"ids": list(self.ids), "rows": list(self.rows.values())}


class PostgresErasure(PostgresPart):
    """Records.erase()."""

    async def erase(self, ids: Sequence[str], *, references: bool = True) -> Receipt:
        wanted = tuple(dict.fromkeys(ids))
        erased = await self._database.write(
            lambda connection: _erase(connection, wanted, references=references)
        )
        self._erased(len(erased.rows))
        try:
            remaining = await self._database.read(lambda connection: _remaining(connection, erased))
        except StoreError as error:
            raise type(error)(
                f"The {len(erased.rows)} records are erased, but nobody could look again: {error.message}",
                advice=f"Erase the same ids again to have it looked at. {error.advice}",
            ) from error
        found = tuple(memory_id for memory_id in wanted if memory_id in erased.rows)
        return Receipt(ids=found, removed=erased.removed, remaining=remaining)

    def _erased(self, number: int) -> None:
        """To be told after each erasure."""
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
    """What a second look finds in each place; `mentions` counts texts elsewhere in which an id stands."""
    found = {"vectors": _count(connection, VECTORS, erased.values)}
    for place, where in PLACES.items():
        found[place] = _count(connection, f"SELECT count(*) FROM {where}", erased.values)
    if not erased.references:
        return found
    found["jobs"] = _mentions(connection, "job", erased.ids)
    found["references"] = _count(
        connection, "SELECT count(*) FROM fragments WHERE supersedes = ANY(%(ids)s::text[])", erased.values
    )
    found["mentions"] = sum(_mentions(connection, table, erased.ids) for table in TEXTS if table != "job")
    return found


def _count(connection: Connection, query: str, values: dict[str, Any]) -> int:
    return int(connection.execute(query, values).fetchall()[0][0])


def _mentions(connection: Connection, table: str, ids: tuple[str, ...]) -> int:
    """In how many rows an id stands."""
    if not ids:
        return 0
    columns = TEXTS[table]
    likely = " OR ".join(f"{column}::text LIKE ANY(%(likely)s::text[])" for column in columns)
    texts = " || ' ' || ".join(f"coalesce({column}::text, '')" for column in columns)
    rows = connection.execute(
        f"SELECT {texts} FROM {table} WHERE {likely}", {"likely": _likely(ids)}
    ).fetchall()
    return mentions((text for (text,) in rows), frozenset(ids))


def _likely(ids: tuple[str, ...]) -> list[str]:
    """Patterns that tell most rows that name none of the ids apart at once: a few ids, or how all of them begin."""
    begin = beginning(ids)
    sought = ids if len(begin) < _TELLING and len(ids) <= _FEW else (begin,)
    return [f"%{_SPECIAL.sub(_ESCAPED, one)}%" for one in sought]


def _drop_references(connection: Connection, ids: tuple[str, ...]) -> tuple[int, int]:
    """Drop jobs that are about one of the ids, and take the ids out of what else refers to them."""
    if not ids:
        return 0, 0
    gone, likely = frozenset(ids), {"likely": _likely(ids)}
    jobs = 0
    references = connection.execute(
        "UPDATE fragments SET supersedes = NULL WHERE supersedes = ANY(%s::text[])", (list(ids),)
    ).rowcount
    for row, sources, data in connection.execute(REFERRING, likely).fetchall():
        (merged_from, one), (metadata, other) = without(sources, gone), without(data, gone)
        if one or other:
            values = (merged_from or [], _text(metadata or {}), row)
            connection.execute("UPDATE fragments SET merged_from = %s, metadata = %s WHERE row = %s", values)
            references += 1
    for job_id, payload, result in connection.execute(ABOUT, likely).fetchall():
        left = job_without(payload, result, gone)
        if left is not None and left.dropped:
            jobs += connection.execute("DELETE FROM job WHERE id = %s", (job_id,)).rowcount
        elif left is not None:
            kept = (_text(left.payload), None if left.result is None else _text(left.result), job_id)
            connection.execute("UPDATE job SET payload = %s, result = %s WHERE id = %s", kept)
            references += 1
    return jobs, references + _leave_out_of_entries(connection, gone, likely)


def _leave_out_of_entries(connection: Connection, gone: frozenset[str], likely: dict[str, list[str]]) -> int:
    """An entry about an id goes; one that names it among others keeps its fields."""
    changes = 0
    for drawer, key, value in connection.execute(NAMING, likely).fetchall():
        if key in gone:
            changes += connection.execute(
                "DELETE FROM entry WHERE drawer = %s AND key = %s", (drawer, key)
            ).rowcount
            continue
        left = entry_without(value, gone)
        if left is not None:
            connection.execute(
                "UPDATE entry SET value = %s WHERE drawer = %s AND key = %s", (_text(left), drawer, key)
            )
            changes += 1
    return changes


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
