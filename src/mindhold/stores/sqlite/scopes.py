"""The partitions."""

from __future__ import annotations

import sqlite3
from typing import Any

from mindhold.model.errors import Conflict, ScopeNotFound
from mindhold.model.scope import GLOBAL, Scope
from mindhold.stores.sqlite.connection import Part
from mindhold.stores.values import from_list_json, from_micros, list_json, to_micros

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


class ScopesPart(Part):
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
