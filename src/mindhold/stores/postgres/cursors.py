"""Small named values that survive."""

from __future__ import annotations

from mindhold.stores.postgres.connection import Connection, Part

# The value of a cursor.
CURSOR = "SELECT value FROM cursor WHERE name = %s"

# Set a cursor.
SET_CURSOR = (
    "INSERT INTO cursor (name, value) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)

# Remove a cursor.
DROP_CURSOR = "DELETE FROM cursor WHERE name = %s"

# The same three, if the value is what was expected. Of two at once the second waits and finds another value.
NEW_CURSOR = "INSERT INTO cursor (name, value) VALUES (%s, %s) ON CONFLICT (name) DO NOTHING"
SWAP_CURSOR = "UPDATE cursor SET value = %s WHERE name = %s AND value = %s"
END_CURSOR = "DELETE FROM cursor WHERE name = %s AND value = %s"


class CursorsPart(Part):
    """The Cursors protocol."""

    async def cursor(self, name: str) -> str | None:
        found = await self._database.rows(CURSOR, (name,))
        return str(found[0][0]) if found else None

    async def set_cursor(self, name: str, value: str | None) -> None:
        if value is None:
            await self._database.write(lambda connection: connection.execute(DROP_CURSOR, (name,)).rowcount)
        else:
            await self._database.write(
                lambda connection: connection.execute(SET_CURSOR, (name, value)).rowcount
            )

    async def swap_cursor(self, name: str, *, old: str | None, new: str | None) -> bool:
        return await self._database.write(lambda connection: _swap(connection, name, old, new))


def _swap(connection: Connection, name: str, old: str | None, new: str | None) -> bool:
    if old is None and new is None:
        return connection.execute(CURSOR, (name,)).fetchone() is None
    if old is None:
        return connection.execute(NEW_CURSOR, (name, new)).rowcount > 0
    if new is None:
        return connection.execute(END_CURSOR, (name, old)).rowcount > 0
    return connection.execute(SWAP_CURSOR, (new, name, old)).rowcount > 0
