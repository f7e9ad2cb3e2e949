"""Links between memories, their earlier versions, and scopes."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from mindhold.model.errors import Conflict, ScopeNotFound
from mindhold.model.memory import Kind, Link, Relation, Tier, Version
from mindhold.model.query import Filter
from mindhold.model.scope import GLOBAL, Scope
from mindhold.stores.sqlite.connection import SqlitePart
from mindhold.stores.sqlite.rows import as_list, matching, visible
from mindhold.stores.values import from_list_json, from_mapping_json, from_micros, list_json, to_micros

# The earlier versions of some records, oldest first.
ALL_VERSIONS = """
    SELECT memory.id, number, version.content, version.kind, version.topic, version.tags, version.keywords,
        version.importance, version.anchor, version.occurred, version.tier, version.metadata, amended, amended_by
    FROM version JOIN memory ON memory.row = version.memory
"""
VERSIONS = f"{ALL_VERSIONS} WHERE memory.id IN (SELECT value FROM json_each(?)) ORDER BY memory.id, number"
LATEST_VERSIONS = f"{ALL_VERSIONS} WHERE memory.id = ? ORDER BY number DESC LIMIT ?"


class SqliteLinks(SqlitePart):
    """The Links protocol."""

    async def links_of(
        self, ids: Sequence[str], *, relations: Sequence[Relation] = (), viewer: str
    ) -> list[Link]:
        origin, target = visible(viewer, "origin"), visible(viewer, "target")
        named = [relation.value for relation in relations]
        related = f"AND relation IN ({', '.join('?' for _ in named)})" if named else ""
        # Links that begin or end at some records, both ends visible, each once.
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
        values = (as_list(ids), *named, *named, *origin.parameters, *target.parameters)
        return await self._database.read(
            lambda connection: [link_of(row) for row in connection.execute(query, values)]
        )

    async def count_links(self, where: Filter) -> int:
        origin, target = matching(where, "origin"), matching(where, "target")
        # The links between records that match.
        query = f"""
            SELECT count(*) FROM link CROSS JOIN memory AS origin ON origin.row = link.origin
            CROSS JOIN memory AS target ON target.row = link.target WHERE {origin.sql} AND {target.sql}
        """
        values = (*origin.parameters, *target.parameters)
        return await self._database.read(
            lambda connection: int(connection.execute(query, values).fetchone()[0])
        )

    async def versions_of(self, memory_id: str, *, latest: int | None = None) -> list[Version]:
        most = -1 if latest is None else latest
        return await self._database.read(
            lambda connection: [
                version_of(row) for row in connection.execute(LATEST_VERSIONS, (memory_id, most))
            ][::-1]
        )

    async def versions_among(self, ids: Sequence[str]) -> dict[str, list[Version]]:
        found = await self._database.read(
            lambda connection: [version_of(row) for row in connection.execute(VERSIONS, (as_list(ids),))]
        )
        return {memory_id: list(own) for memory_id, own in groupby(found, key=lambda one: one.memory_id)}


def link_of(row: tuple[Any, ...]) -> Link:
    return Link(
        origin=row[0],
        target=row[1],
        relation=Relation(row[2]),
        created=from_micros(row[3]),
        weight=row[4],
        automatic=bool(row[5]),
    )


def version_of(row: tuple[Any, ...]) -> Version:
    return Version(
        memory_id=row[0],
        number=row[1],
        content=row[2],
        kind=Kind(row[3]),
        topic=row[4],
        tags=from_list_json(row[5]),
        keywords=from_list_json(row[6]),
        importance=row[7],
        anchor=bool(row[8]),
        occurred=from_micros(row[9]),
        tier=Tier(row[10]),
        metadata=from_mapping_json(row[11]),
        amended=from_micros(row[12]),
        amended_by=row[13],
    )


# All scopes with their parents' names.
SCOPES = """
    SELECT scope.name, scope.created, scope.description, scope.kind, parent.name, scope.keywords, scope.active
    FROM scope LEFT JOIN scope AS parent ON parent.row = scope.parent ORDER BY scope.name
"""

# Insert a scope, or replace the one of the same name in its row.
PUT_SCOPE = """
    INSERT INTO scope (name, description, kind, parent, keywords, active, created) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET description = excluded.description, kind = excluded.kind,
        parent = excluded.parent, keywords = excluded.keywords, active = excluded.active, created = excluded.created
"""

# The names from a scope up to its last ancestor.
ANCESTRY = """
    WITH RECURSIVE up (row, name, parent) AS (
        SELECT row, name, parent FROM scope WHERE name = ?
        UNION SELECT scope.row, scope.name, scope.parent FROM scope JOIN up ON scope.row = up.parent
    )
    SELECT name FROM up
"""

# What still depends on a scope.
IN_SCOPE = """
    SELECT (SELECT count(*) FROM memory WHERE scope = ?1), (SELECT count(*) FROM scope WHERE parent = ?1)
"""


class SqliteScopes(SqlitePart):
    """The Scopes protocol."""

    async def scopes(self) -> list[Scope]:
        return await self._database.read(
            lambda connection: [scope_of(row) for row in connection.execute(SCOPES).fetchall()]
        )

    async def put_scope(self, scope: Scope) -> None:
        await self._database.write(lambda connection: _put(connection, scope))

    async def rename_scope(self, old: str, new: str) -> None:
        await self._database.write(lambda connection: _rename(connection, old, new))

    async def drop_scope(self, name: str) -> None:
        await self._database.write(lambda connection: _drop(connection, name))


def _put(connection: sqlite3.Connection, scope: Scope) -> None:
    parent = None
    if scope.parent is not None:
        parent = _row(connection, scope.parent)
        if scope.name in {row[0] for row in connection.execute(ANCESTRY, (scope.parent,))}:
            raise Conflict(
                f"Scope {scope.name!r} can't be inside {scope.parent!r}: that is inside it already.",
                advice="Choose another parent.",
            )
    connection.execute(
        PUT_SCOPE,
        (
            scope.name,
            scope.description,
            scope.kind,
            parent,
            list_json(scope.keywords),
            scope.active,
            to_micros(scope.created),
        ),
    )


def _rename(connection: sqlite3.Connection, old: str, new: str) -> None:
    row = _row(connection, old)
    if old == new:
        return
    if old == GLOBAL:
        raise Conflict("Global always exists under that name.")
    if connection.execute("SELECT 1 FROM scope WHERE name = ?", (new,)).fetchone():
        raise Conflict(f"There is a scope {new!r} already.", advice="Choose another name.")
    connection.execute("UPDATE scope SET name = ? WHERE row = ?", (new, row))


def _drop(connection: sqlite3.Connection, name: str) -> None:
    row = _row(connection, name)
    if name == GLOBAL:
        raise Conflict("Global always exists.")
    records, children = connection.execute(IN_SCOPE, (row,)).fetchone()
    if records or children:
        raise Conflict(
            f"Scope {name!r} still has {records} memories and {children} scopes in it.",
            advice="Export and forget them first.",
        )
    connection.execute("DELETE FROM scope WHERE row = ?", (row,))


def _row(connection: sqlite3.Connection, name: str) -> int:
    found = connection.execute("SELECT row FROM scope WHERE name = ?", (name,)).fetchone()
    if found is None:
        raise ScopeNotFound(name)
    return int(found[0])


def scope_of(row: tuple[Any, ...]) -> Scope:
    return Scope(
        name=row[0],
        created=from_micros(row[1]),
        description=row[2],
        kind=row[3],
        parent=row[4],
        keywords=from_list_json(row[5]),
        active=bool(row[6]),
    )
