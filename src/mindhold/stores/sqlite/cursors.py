"""Small named values that survive."""

from __future__ import annotations

import sqlite3

from mindhold.stores.sqlite.connection import Part

# The value of a cursor.
CURSOR = "SELECT value FROM cursor WHERE name = ?"

# Set a cursor.
SET_CURSOR = (
    "INSERT INTO cursor (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)

# Remove a cursor.
DROP_CURSOR = "DELETE FROM cursor WHERE name = ?"


class CursorsPart(Part):
    """The Cursors protocol."""

    async def cursor(self, name: str) -> str | None:
        return await self._database.read(lambda connection: _value(connection, name))

    async def set_cursor(self, name: str, value: str | None) -> None:
        await self._database.write(lambda connection: _set(connection, name, value))

    async def swap_cursor(self, name: str, *, old: str | None, new: str | None) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            if _value(connection, name) != old:
                return False
            _set(connection, name, new)
            return True

        return await self._database.write(work)


def _set(connection: sqlite3.Connection, name: str, value: str | None) -> None:
    if value is None:
        connection.execute(DROP_CURSOR, (name,))
    else:
        connection.execute(SET_CURSOR, (name, value))


def _value(connection: sqlite3.Connection, name: str) -> str | None:
    found = connection.execute(CURSOR, (name,)).fetchone()
    return None if found is None else str(found[0])
