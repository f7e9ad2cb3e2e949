"""The durable job queue, entries that may expire, and named cursors."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from mindhold.model.errors import Conflict, JobNotFound
from mindhold.model.job import Entry, Job, JobState
from mindhold.stores.sqlite.connection import SqlitePart
from mindhold.stores.sqlite.rows import as_list
from mindhold.stores.values import (
    from_mapping_json,
    from_micros,
    from_optional_micros,
    mapping_json,
    to_micros,
    to_optional_micros,
)

JOB_COLUMNS = (
    "id, name, created, due, payload, state, attempts, most_attempts, lease_owner, lease_until, finished, error, "
    "result, key"
)

# Add a job, unless one of the same key is waiting.
ENQUEUE = f"""
    INSERT INTO job ({JOB_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (key) WHERE state = 'waiting' AND key IS NOT NULL DO NOTHING
"""

_NAMED = "(?2 = '[]' OR name IN (SELECT value FROM json_each(?2)))"

# The most overdue job: one that waits and is due, or one whose runner has been silent for too long.
DUE = f"""
    SELECT id FROM (
        SELECT * FROM (
            SELECT id, due FROM job WHERE state = 'waiting' AND due <= ?1 AND {_NAMED} ORDER BY due, id LIMIT 1
        )
        UNION ALL
        SELECT id, due FROM job WHERE state = 'running' AND lease_until <= ?1 AND {_NAMED}
    )
    ORDER BY due, id LIMIT 1
"""

# Give up what has killed its runner as often as it may be tried.
GIVE_UP = """
    UPDATE job SET state = 'dead', finished = ?1, lease_owner = NULL, lease_until = NULL,
        error = coalesce(error, 'Its runner went silent at each attempt.')
    WHERE state = 'running' AND lease_until <= ?1 AND attempts >= most_attempts
"""

# Hold a job, and count the attempt.
HOLD = f"""
    UPDATE job SET state = 'running', lease_owner = ?, lease_until = ?, attempts = attempts + 1 WHERE id = ?
    RETURNING {JOB_COLUMNS}
"""

# Hold it longer.
RENEW = "UPDATE job SET lease_until = ? WHERE id = ? AND state = 'running' AND lease_owner = ?"

# A waiting job of the same key, besides this one.
SAME_KEY = "SELECT 1 FROM job WHERE key = ? AND state = 'waiting' AND key IS NOT NULL AND id <> ?"

# Replace a job.
REPLACE = """
    UPDATE job SET id = ?, name = ?, created = ?, due = ?, payload = ?, state = ?, attempts = ?, most_attempts = ?,
        lease_owner = ?, lease_until = ?, finished = ?, error = ?, result = ?, key = ?
    WHERE id = ?
"""

# Forget what was done long ago; dead ones wait for a person.
DROP_JOB = "DELETE FROM job WHERE state = 'done' AND finished < ?"

# How many in each state.
TALLY = "SELECT state, count(*) FROM job GROUP BY state"


class SqliteJobs(SqlitePart):
    """The Jobs protocol."""

    async def lease(
        self, owner: str, *, now: datetime, duration: timedelta, names: Sequence[str] = ()
    ) -> Job | None:
        wanted = (to_micros(now), as_list(names))
        until = to_micros(now + duration)

        def work(connection: sqlite3.Connection) -> Job | None:
            connection.execute(GIVE_UP, wanted[:1])
            due = connection.execute(DUE, wanted).fetchone()
            if due is None:
                return None
            return job_of(connection.execute(HOLD, (owner, until, due[0])).fetchall()[0])

        # Runners ask often and mostly in vain: the writer's lock is taken only when there is something.
        if await self._database.read(lambda connection: connection.execute(DUE, wanted).fetchone()) is None:
            return None
        return await self._database.write(work)

    async def renew(self, job_id: str, owner: str, *, until: datetime) -> bool:
        values = (to_micros(until), job_id, owner)
        return await self._database.write(lambda connection: connection.execute(RENEW, values).rowcount > 0)

    async def finish(self, job: Job, owner: str) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            held = "SELECT 1 FROM job WHERE id = ? AND state = 'running' AND lease_owner = ?"
            if connection.execute(held, (job.id, owner)).fetchone() is None:
                return False
            return _replace(connection, job)

        return await self._database.write(work)

    async def jobs(self, *, states: Sequence[JobState] = (), limit: int = 100) -> list[Job]:
        # The newest first, of some states or all.
        query = f"""
            SELECT {JOB_COLUMNS} FROM job WHERE ?1 = '[]' OR state IN (SELECT value FROM json_each(?1))
            ORDER BY created DESC, id DESC LIMIT ?2
        """
        values = (as_list(states), limit)
        return await self._database.read(
            lambda connection: [job_of(row) for row in connection.execute(query, values)]
        )

    async def job(self, job_id: str) -> Job:
        query = f"SELECT {JOB_COLUMNS} FROM job WHERE id = ?"
        row = await self._database.read(lambda connection: connection.execute(query, (job_id,)).fetchone())
        if row is None:
            raise _missing(job_id)
        return job_of(row)

    async def replace_job(self, job: Job, *, expected: JobState) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            found = connection.execute("SELECT state FROM job WHERE id = ?", (job.id,)).fetchone()
            if found is None:
                raise _missing(job.id)
            return found[0] == expected.value and _replace(connection, job)

        return await self._database.write(work)

    async def drop_jobs(self, *, before: datetime) -> int:
        values = (to_micros(before),)
        return await self._database.write(lambda connection: connection.execute(DROP_JOB, values).rowcount)

    async def tally_jobs(self) -> dict[str, int]:
        return await self._database.read(lambda connection: dict(connection.execute(TALLY).fetchall()))


def enqueue(connection: sqlite3.Connection, jobs: Sequence[Job]) -> None:
    """Within the caller's transaction."""
    try:
        connection.executemany(ENQUEUE, [_row(job) for job in jobs])
    except sqlite3.IntegrityError as error:
        raise Conflict("There is a job of that id already.") from error


def _replace(connection: sqlite3.Connection, job: Job) -> bool:
    values = list(_row(job))
    if job.state is not JobState.RUNNING:
        values[8] = values[9] = None
    if job.state is JobState.WAITING and connection.execute(SAME_KEY, (job.key, job.id)).fetchone():
        values[13] = None  # the key is the other's now; neither piece of work is lost
    return connection.execute(REPLACE, (*values, job.id)).rowcount > 0


def _row(job: Job) -> tuple[Any, ...]:
    return (
        job.id,
        job.name,
        to_micros(job.created),
        to_micros(job.due),
        mapping_json(job.payload),
        job.state.value,
        job.attempts,
        job.most_attempts,
        job.lease_owner,
        to_optional_micros(job.lease_until),
        to_optional_micros(job.finished),
        job.error,
        None if job.result is None else mapping_json(job.result),
        job.key,
    )


def job_of(row: tuple[Any, ...]) -> Job:
    return Job(
        id=row[0],
        name=row[1],
        created=from_micros(row[2]),
        due=from_micros(row[3]),
        payload=from_mapping_json(row[4]),
        state=JobState(row[5]),
        attempts=row[6],
        most_attempts=row[7],
        lease_owner=row[8],
        lease_until=from_optional_micros(row[9]),
        finished=from_optional_micros(row[10]),
        error=row[11],
        result=None if row[12] is None else json.loads(row[12]),
        key=row[13],
    )


def _missing(job_id: str) -> JobNotFound:
    return JobNotFound(
        f"There is no job {job_id!r}.", advice="`mindhold jobs` shows the ones that there are."
    )


ENTRY_COLUMNS = "drawer, key, value, created, expires"
_ALIVE = "(expires IS NULL OR expires > ?)"

# Insert an entry, or replace the one of the same drawer and key.
PUT_ENTRY = f"""
    INSERT INTO entry ({ENTRY_COLUMNS}) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (drawer, key) DO UPDATE SET value = excluded.value, created = excluded.created,
        expires = excluded.expires
"""

# One that has not expired.
FIND_ENTRY = f"SELECT {ENTRY_COLUMNS} FROM entry WHERE drawer = ? AND key = ? AND {_ALIVE}"

# Remove it and say what it was.
TAKE_ENTRY = f"DELETE FROM entry WHERE drawer = ? AND key = ? AND {_ALIVE} RETURNING {ENTRY_COLUMNS}"

# Those of a drawer that have not expired, the newest first.
LIST_ENTRIES = f"""
    SELECT {ENTRY_COLUMNS} FROM entry WHERE drawer = ? AND {_ALIVE} ORDER BY created DESC, rowid DESC LIMIT ?
"""

# Remove one, expired or not.
DROP_ENTRY = "DELETE FROM entry WHERE drawer = ? AND key = ?"

# Remove all that have expired.
DROP_EXPIRED_ENTRIES = "DELETE FROM entry WHERE expires <= ?"

# Whether there is one that has expired.
EXPIRED_ENTRIES = "SELECT 1 FROM entry WHERE expires <= ? LIMIT 1"


class SqliteEntries(SqlitePart):
    """The Entries protocol."""

    async def put_entry(self, entry: Entry) -> None:
        values = (
            entry.drawer,
            entry.key,
            mapping_json(entry.value),
            to_micros(entry.created),
            to_optional_micros(entry.expires),
        )
        await self._database.write(lambda connection: connection.execute(PUT_ENTRY, values))

    async def entry(self, drawer: str, key: str, *, now: datetime) -> Entry | None:
        values = (drawer, key, to_micros(now))
        row = await self._database.read(lambda connection: connection.execute(FIND_ENTRY, values).fetchone())
        return None if row is None else entry_of(row)

    async def take_entry(self, drawer: str, key: str, *, now: datetime) -> Entry | None:
        values = (drawer, key, to_micros(now))

        def work(connection: sqlite3.Connection) -> Entry | None:
            taken = connection.execute(TAKE_ENTRY, values).fetchall()
            return entry_of(taken[0]) if taken else None

        return await self._database.write(work)

    async def entries(self, drawer: str, *, now: datetime, limit: int = 1000) -> list[Entry]:
        values = (drawer, to_micros(now), limit)
        return await self._database.read(
            lambda connection: [entry_of(row) for row in connection.execute(LIST_ENTRIES, values)]
        )

    async def drop_entry(self, drawer: str, key: str) -> bool:
        values = (drawer, key)
        return await self._database.write(
            lambda connection: connection.execute(DROP_ENTRY, values).rowcount > 0
        )

    async def drop_expired(self, now: datetime) -> int:
        values = (to_micros(now),)
        # Asked often and mostly in vain: the writer's lock is taken only when there is something.
        if (
            await self._database.read(
                lambda connection: connection.execute(EXPIRED_ENTRIES, values).fetchone()
            )
            is None
        ):
            return 0
        return await self._database.write(
            lambda connection: connection.execute(DROP_EXPIRED_ENTRIES, values).rowcount
        )


def entry_of(row: tuple[Any, ...]) -> Entry:
    return Entry(
        drawer=row[0],
        key=row[1],
        value=from_mapping_json(row[2]),
        created=from_micros(row[3]),
        expires=from_optional_micros(row[4]),
    )


# The value of a cursor.
CURSOR = "SELECT value FROM cursor WHERE name = ?"

# Set a cursor.
SET_CURSOR = (
    "INSERT INTO cursor (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)

# Remove a cursor.
DROP_CURSOR = "DELETE FROM cursor WHERE name = ?"


class SqliteCursors(SqlitePart):
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
