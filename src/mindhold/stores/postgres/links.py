"""Links between memories, their earlier versions, and scopes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import psycopg

from mindhold.model.errors import Conflict, ScopeNotFound
from mindhold.model.memory import Kind, Link, Relation, Tier, Version
from mindhold.model.query import Filter
from mindhold.model.scope import GLOBAL, Scope
from mindhold.stores.postgres.connection import Connection, PostgresPart
from mindhold.stores.postgres.rows import matching, visible

# The earlier versions of some records, oldest first.
ALL_VERSIONS = """
    SELECT fragment_id, number, content, type, topic, tags, keywords, importance, is_anchor, occurred_at, ttl_tier,
        metadata, amended_at, amended_by
    FROM fragment_versions
"""
VERSIONS = f"{ALL_VERSIONS} WHERE fragment_id = ANY(%s::text[]) ORDER BY fragment_id, number"
LATEST_VERSIONS = f"{ALL_VERSIONS} WHERE fragment_id = %s ORDER BY number DESC LIMIT %s"  # NULL: all of them


class PostgresLinks(PostgresPart):
    """The Links protocol."""

    async def links_of(
        self, ids: Sequence[str], *, relations: Sequence[Relation] = (), viewer: str
    ) -> list[Link]:
        origin, target = visible(viewer, "origin"), visible(viewer, "target")
        related = "AND link.relation_type = ANY(%s::text[])" if relations else ""
        # Links that begin or end at some records, both ends visible, each once.
        query = f"""
            SELECT link.from_id, link.to_id, link.relation_type, link.created_at, link.weight, link.automatic
            FROM fragment_links AS link
            JOIN fragments AS origin ON origin.id = link.from_id JOIN fragments AS target ON target.id = link.to_id
            WHERE (link.from_id = ANY(%s::text[]) OR link.to_id = ANY(%s::text[]))
                AND {origin.sql} AND {target.sql} {related}
            ORDER BY link.created_at, link.from_id, link.to_id, link.relation_type
        """
        named = list(ids)
        values = (
            named,
            named,
            *origin.parameters,
            *target.parameters,
            *([[relation.value for relation in relations]] if relations else []),
        )
        return await self._database.read(
            lambda connection: [link_of(row) for row in connection.execute(query, values).fetchall()],
            viewer=viewer,
        )

    async def count_links(self, where: Filter) -> int:
        origin, target = matching(where, "origin"), matching(where, "target")
        # The links between records that match.
        query = f"""
            SELECT count(*) FROM fragment_links AS link JOIN fragments AS origin ON origin.id = link.from_id
            JOIN fragments AS target ON target.id = link.to_id WHERE {origin.sql} AND {target.sql}
        """
        values = (*origin.parameters, *target.parameters)
        found = await self._database.read(
            lambda connection: connection.execute(query, values, prepare=False).fetchall(),
            viewer=where.viewer,
        )
        return int(found[0][0])

    async def versions_of(self, memory_id: str, *, latest: int | None = None) -> list[Version]:
        return await self._database.read(
            lambda connection: [
                version_of(row) for row in connection.execute(LATEST_VERSIONS, (memory_id, latest)).fetchall()
            ][::-1]
        )

    async def versions_among(self, ids: Sequence[str]) -> dict[str, list[Version]]:
        found = await self._database.read(
            lambda connection: [
                version_of(row) for row in connection.execute(VERSIONS, (list(ids),)).fetchall()
            ]
        )
        return {memory_id: list(own) for memory_id, own in groupby(found, key=lambda one: one.memory_id)}


def link_of(row: tuple[Any, ...]) -> Link:
    return Link(
        origin=row[0],
        target=row[1],
        relation=Relation(row[2]),
        created=row[3],
        weight=row[4],
        automatic=row[5],
    )


def version_of(row: tuple[Any, ...]) -> Version:
    return Version(
        memory_id=row[0],
        number=row[1],
        content=row[2],
        kind=Kind(row[3]),
        topic=row[4],
        tags=tuple(row[5]),
        keywords=tuple(row[6]),
        importance=row[7],
        anchor=row[8],
        occurred=row[9],
        tier=Tier(row[10]),
        metadata=row[11],
        amended=row[12],
        amended_by=row[13],
    )


# All scopes with their parents' names.
SCOPES = """
    SELECT scope.name, scope.created_at, scope.description, scope.kind, parent.name, scope.keywords, scope.active
    FROM scope LEFT JOIN scope AS parent ON parent.row = scope.parent ORDER BY scope.name
"""

# One change of scopes at a time, or two of them could make a circle; who puts records doesn't wait.
LOCK = "LOCK TABLE scope IN SHARE ROW EXCLUSIVE MODE"

# Insert a scope, or replace the one of the same name in its row.
PUT_SCOPE = """
    INSERT INTO scope (name, description, kind, parent, keywords, active, created_at)
    VALUES (%s, %s, %s, %s, %s::text[], %s, %s)
    ON CONFLICT (name) DO UPDATE SET description = excluded.description, kind = excluded.kind,
        parent = excluded.parent, keywords = excluded.keywords, active = excluded.active,
        created_at = excluded.created_at
"""

# The names from a scope up to its last ancestor.
ANCESTRY = """
    WITH RECURSIVE up (row, name, parent) AS (
        SELECT row, name, parent FROM scope WHERE name = %s
        UNION SELECT scope.row, scope.name, scope.parent FROM scope JOIN up ON scope.row = up.parent
    )
    SELECT name FROM up
"""

# What still depends on a scope.
IN_SCOPE = """
    SELECT (SELECT count(*) FROM fragments WHERE scope = %(row)s), (SELECT count(*) FROM scope WHERE parent = %(row)s)
"""


class PostgresScopes(PostgresPart):
    """The Scopes protocol."""

    async def scopes(self) -> list[Scope]:
        return [scope_of(row) for row in await self._database.rows(SCOPES)]

    async def put_scope(self, scope: Scope) -> None:
        await self._database.write(lambda connection: _put(connection, scope))

    async def rename_scope(self, old: str, new: str) -> None:
        await self._database.write(lambda connection: _rename(connection, old, new))

    async def drop_scope(self, name: str) -> None:
        await self._database.write(lambda connection: _drop(connection, name))


def _put(connection: Connection, scope: Scope) -> None:
    connection.execute(LOCK)
    parent = None
    if scope.parent is not None:
        parent = _row(connection, scope.parent)
        if scope.name in {row[0] for row in connection.execute(ANCESTRY, (scope.parent,)).fetchall()}:
            raise Conflict(
                f"Scope {scope.name!r} can't be inside {scope.parent!r}: that is inside it already.",
                advice="Choose another parent.",
            )
    values = (
        scope.name,
        scope.description,
        scope.kind,
        parent,
        list(scope.keywords),
        scope.active,
        scope.created,
    )
    connection.execute(PUT_SCOPE, values)


def _rename(connection: Connection, old: str, new: str) -> None:
    connection.execute(LOCK)
    row = _row(connection, old)
    if old == new:
        return
    if old == GLOBAL:
        raise Conflict("Global always exists under that name.")
    if connection.execute("SELECT 1 FROM scope WHERE name = %s", (new,)).fetchone():
        raise Conflict(f"There is a scope {new!r} already.", advice="Choose another name.")
    connection.execute("UPDATE scope SET name = %s WHERE row = %s", (new, row))


def _drop(connection: Connection, name: str) -> None:
    connection.execute(LOCK)
    row = _row(connection, name)
    if name == GLOBAL:
        raise Conflict("Global always exists.")
    records, children = connection.execute(IN_SCOPE, {"row": row}).fetchone() or (0, 0)
    advice = "Export and forget them first."
    if records or children:
        raise Conflict(
            f"Scope {name!r} still has {records} memories and {children} scopes in it.", advice=advice
        )
    try:
        connection.execute("DELETE FROM scope WHERE row = %s", (row,))
    except psycopg.errors.ForeignKeyViolation as error:  # put into it at this moment
        raise Conflict(f"Scope {name!r} still has memories in it.", advice=advice) from error


def _row(connection: Connection, name: str) -> int:
    found = connection.execute("SELECT row FROM scope WHERE name = %s", (name,)).fetchone()
    if found is None:
        raise ScopeNotFound(name)
    return int(found[0])


def scope_of(row: tuple[Any, ...]) -> Scope:
    return Scope(
        name=row[0],
        created=row[1],
        description=row[2],
        kind=row[3],
        parent=row[4],
        keywords=tuple(row[5]),
        active=row[6],
    )
