"""Small keyed values that may expire."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mindhold.model.entry import Entry
from mindhold.stores.postgres.connection import Part
from mindhold.stores.values import mapping_json

COLUMNS = "drawer, key, value, created_at, expires"
_ALIVE = "(expires IS NULL OR expires > %s)"

# Insert an entry, or replace the one of the same drawer and key.
PUT = f"""
    INSERT INTO entry ({COLUMNS}) VALUES (%s, %s, %s, %s, %s)
    ON CONFLICT (drawer, key) DO UPDATE SET value = excluded.value, created_at = excluded.created_at,
        expires = excluded.expires
"""

# One that has not expired.
FIND = f"SELECT {COLUMNS} FROM entry WHERE drawer = %s AND key = %s AND {_ALIVE}"

# Remove it and say what it was.
TAKE = f"DELETE FROM entry WHERE drawer = %s AND key = %s AND {_ALIVE} RETURNING {COLUMNS}"

# Those of a drawer that have not expired, the newest first.
LIST = f"""
    SELECT {COLUMNS} FROM entry WHERE drawer = %s AND {_ALIVE} ORDER BY created_at DESC, row DESC LIMIT %s
"""

# Remove one, expired or not.
DROP = "DELETE FROM entry WHERE drawer = %s AND key = %s"

# Remove all that have expired.
DROP_EXPIRED = "DELETE FROM entry WHERE expires <= %s"

# Whether there is one that has expired.
EXPIRED = "SELECT 1 FROM entry WHERE expires <= %s LIMIT 1"


class EntriesPart(Part):
    """The Entries protocol."""

    async def put_entry(self, entry: Entry) -> None:
        values = (entry.drawer, entry.key, mapping_json(entry.value), entry.created, entry.expires)
        await self._database.write(lambda connection: connection.execute(PUT, values).rowcount)

    async def entry(self, drawer: str, key: str, *, now: datetime) -> Entry | None:
        values = (drawer, key, now)
        row = await self._database.read(lambda connection: connection.execute(FIND, values).fetchone())
        return None if row is None else entry_of(row)

    async def take_entry(self, drawer: str, key: str, *, now: datetime) -> Entry | None:
        values = (drawer, key, now)
        taken = await self._database.write(lambda connection: connection.execute(TAKE, values).fetchone())
        return None if taken is None else entry_of(taken)

    async def entries(self, drawer: str, *, now: datetime, limit: int = 1000) -> list[Entry]:
        values = (drawer, now, limit)
        return await self._database.read(
            lambda connection: [entry_of(row) for row in connection.execute(LIST, values).fetchall()]
        )

    async def drop_entry(self, drawer: str, key: str) -> bool:
        values = (drawer, key)
        return await self._database.write(lambda connection: connection.execute(DROP, values).rowcount > 0)

    async def drop_expired(self, now: datetime) -> int:
        # Asked often and mostly in vain.
        if (
            await self._database.read(lambda connection: connection.execute(EXPIRED, (now,)).fetchone())
            is None
        ):
            return 0
        return await self._database.write(
            lambda connection: connection.execute(DROP_EXPIRED, (now,)).rowcount
        )


def entry_of(row: tuple[Any, ...]) -> Entry:
    return Entry(drawer=row[0], key=row[1], value=row[2], created=row[3], expires=row[4])
