"""Small keyed values that may expire."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from typing import Any

from mindhold.model.entry import Entry
from mindhold.stores.sqlite.connection import Part
from mindhold.stores.values import (
    from_mapping_json,
    from_micros,
    from_optional_micros,
    mapping_json,
    to_micros,
    to_optional_micros,
)

COLUMNS = "drawer, key, value, created, expires"
_ALIVE = "(expires IS NULL OR expires > ?)"

# Insert an entry, or replace the one of the same drawer and key.
PUT = f"""
    INSERT INTO entry ({COLUMNS}) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (drawer, key) DO UPDATE SET value = excluded.value, created = excluded.created,
        expires = excluded.expires
"""

# One that has not expired.
FIND = f"SELECT {COLUMNS} FROM entry WHERE drawer = ? AND key = ? AND {_ALIVE}"

# Remove it and say what it was.
TAKE = f"DELETE FROM entry WHERE drawer = ? AND key = ? AND {_ALIVE} RETURNING {COLUMNS}"

# Those of a drawer that have not expired, the newest first.
LIST = f"""
    SELECT {COLUMNS} FROM entry WHERE drawer = ? AND {_ALIVE} ORDER BY created DESC, rowid DESC LIMIT ?
"""

# Remove one, expired or not.
DROP = "DELETE FROM entry WHERE drawer = ? AND key = ?"

# Remove all that have expired.
DROP_EXPIRED = "DELETE FROM entry WHERE expires <= ?"

# Whether there is one that has expired.
EXPIRED = "SELECT 1 FROM entry WHERE expires <= ? LIMIT 1"


class EntriesPart(Part):
    """The Entries protocol."""

    async def put_entry(self, entry: Entry) -> None:
        values = (
            entry.drawer,
            entry.key,
            mapping_json(entry.value),
            to_micros(entry.created),
            to_optional_micros(entry.expires),
        )
        await self._database.write(lambda connection: connection.execute(PUT, values))

    async def entry(self, drawer: str, key: str, *, now: datetime) -> Entry | None:
        values = (drawer, key, to_micros(now))
        row = await self._database.read(lambda connection: connection.execute(FIND, values).fetchone())
        return None if row is None else entry_of(row)

    async def take_entry(self, drawer: str, key: str, *, now: datetime) -> Entry | None:
        values = (drawer, key, to_micros(now))

        def work(connection: sqlite3.Connection) -> Entry | None:
            taken = connection.execute(TAKE, values).fetchall()
            return entry_of(taken[0]) if taken else None

        return await self._database.write(work)

    async def entries(self, drawer: str, *, now: datetime, limit: int = 1000) -> list[Entry]:
        values = (drawer, to_micros(now), limit)
        return await self._database.read(
            lambda connection: [entry_of(row) for row in connection.execute(LIST, values)]
        )

    async def drop_entry(self, drawer: str, key: str) -> bool:
        values = (drawer, key)
        return await self._database.write(lambda connection: connection.execute(DROP, values).rowcount > 0)

    async def drop_expired(self, now: datetime) -> int:
        values = (to_micros(now),)
        # Asked often and mostly in vain: the writer's lock is taken only when there is something.
        if (
            await self._database.read(lambda connection: connection.execute(EXPIRED, values).fetchone())
            is None
        ):
            return 0
        return await self._database.write(
            lambda connection: connection.execute(DROP_EXPIRED, values).rowcount
        )


def entry_of(row: tuple[Any, ...]) -> Entry:
    return Entry(
        drawer=row[0],
        key=row[1],
        value=from_mapping_json(row[2]),
        created=from_micros(row[3]),
        expires=from_optional_micros(row[4]),
    )
