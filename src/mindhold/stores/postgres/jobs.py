"""The durable job queue, entries that may expire, and named cursors."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import psycopg

from mindhold.model.errors import Conflict, JobNotFound
from mindhold.model.job import Entry, Job, JobState
from mindhold.stores.postgres.connection import Connection, PostgresPart
from mindhold.stores.values import mapping_json

JOB_COLUMNS = (
    "id, name, created_at, due, payload, state, attempts, most_attempts, lease_owner, lease_until, finished, error, "
    "result, key"
)
_MARKS = "%s, %s, %s, %s, %s, %s, %s::bigint, %s::bigint, %s, %s, %s, %s, %s, %s"

# Add a job, unless one of the same key is waiting.
ENQUEUE = f"""
    INSERT INTO job ({JOB_COLUMNS}) VALUES ({_MARKS})
    ON CONFLICT (key) WHERE state = 'waiting' AND key IS NOT NULL DO NOTHING
"""

_NAMED = "(cardinality(%(names)s::text[]) = 0 OR name = ANY(%(names)s::text[]))"
_WAITING = f"state = 'waiting' AND due <= %(now)s AND {_NAMED}"
_SILENT = f"state = 'running' AND lease_until <= %(now)s AND {_NAMED}"

# Whether there is anything to lease or to give up.
DUE = f"SELECT EXISTS (SELECT 1 FROM job WHERE {_WAITING}) OR EXISTS (SELECT 1 FROM job WHERE {_SILENT})"

# The most overdue job that no other runner is taking at this moment: one that waits, or one whose runner is silent.
NEXT_WAITING = f"SELECT due, id FROM job WHERE {_WAITING} ORDER BY due, id LIMIT 1 FOR UPDATE SKIP LOCKED"
NEXT_SILENT = f"SELECT due, id FROM job WHERE {_SILENT} ORDER BY due, id LIMIT 1 FOR UPDATE SKIP LOCKED"

# Give up what has killed its runner as often as it may be tried.
GIVE_UP = """
    UPDATE job SET state = 'dead', finished = %(now)s, lease_owner = NULL, lease_until = NULL,
        error = coalesce(error, 'Its runner went silent at each attempt.')
    WHERE id IN (
        SELECT id FROM job WHERE state = 'running' AND lease_until <= %(now)s AND attempts >= most_attempts
        FOR UPDATE SKIP LOCKED
    )
"""

# Hold a job, and count the attempt.
HOLD = f"""
    UPDATE job SET state = 'running', lease_owner = %s, lease_until = %s, attempts = attempts + 1 WHERE id = %s
    RETURNING {JOB_COLUMNS}
"""

# Hold it longer.
RENEW = "UPDATE job SET lease_until = %s WHERE id = %s AND state = 'running' AND lease_owner = %s"

# Whether somebody holds it.
HELD = "SELECT 1 FROM job WHERE id = %s AND state = 'running' AND lease_owner = %s FOR UPDATE"

# Its state, which nobody changes meanwhile.
STATE = "SELECT state FROM job WHERE id = %s FOR UPDATE"

# A waiting job of the same key, besides this one.
SAME_KEY = "SELECT 1 FROM job WHERE key = %s AND state = 'waiting' AND key IS NOT NULL AND id <> %s"

# Replace a job.
REPLACE = f"UPDATE job SET ({JOB_COLUMNS}) = ({_MARKS}) WHERE id = %s"

# Forget what was done long ago; dead ones wait for a person.
DROP_JOB = "DELETE FROM job WHERE state = 'done' AND finished < %s"

# How many in each state.
TALLY = "SELECT state, count(*) FROM job GROUP BY state"


class PostgresJobs(PostgresPart):
    """The Jobs protocol."""

    async def lease(
        self, owner: str, *, now: datetime, duration: timedelta, names: Sequence[str] = ()
    ) -> Job | None:
        wanted = {"now": now, "names": list(names)}

        def work(connection: Connection) -> Job | None:
            connection.execute(GIVE_UP, wanted)
            found = [connection.execute(query, wanted).fetchone() for query in (NEXT_WAITING, NEXT_SILENT)]
            overdue = sorted(row for row in found if row is not None)
            if not overdue:
                return None
            return job_of(connection.execute(HOLD, (owner, now + duration, overdue[0][1])).fetchall()[0])

        # Runners ask often and mostly in vain.
        if await self._database.read(lambda connection: connection.execute(DUE, wanted).fetchone()) == (
            False,
        ):
            return None
        return await self._database.write(work)

    async def renew(self, job_id: str, owner: str, *, until: datetime) -> bool:
        values = (until, job_id, owner)
        return await self._database.write(lambda connection: connection.execute(RENEW, values).rowcount > 0)

    async def finish(self, job: Job, owner: str) -> bool:
        def work(connection: Connection) -> bool:
            if connection.execute(HELD, (job.id, owner)).fetchone() is None:
                return False
            return _replace(connection, job)

        return await self._database.write(work)

    async def jobs(self, *, states: Sequence[JobState] = (), limit: int = 100) -> list[Job]:
        chosen = "WHERE state = ANY(%s::text[])" if states else ""
        # The newest first, of some states or all.
        query = f"SELECT {JOB_COLUMNS} FROM job {chosen} ORDER BY created_at DESC, id DESC LIMIT %s"
        values = (*([[state.value for state in states]] if states else []), limit)
        return await self._database.read(
            lambda connection: [job_of(row) for row in connection.execute(query, values).fetchall()]
        )

    async def job(self, job_id: str) -> Job:
        query = f"SELECT {JOB_COLUMNS} FROM job WHERE id = %s"
        row = await self._database.read(lambda connection: connection.execute(query, (job_id,)).fetchone())
        if row is None:
            raise _missing(job_id)
        return job_of(row)

    async def replace_job(self, job: Job, *, expected: JobState) -> bool:
        def work(connection: Connection) -> bool:
            found = connection.execute(STATE, (job.id,)).fetchone()
            if found is None:
                raise _missing(job.id)
            return found[0] == expected.value and _replace(connection, job)

        return await self._database.write(work)

    async def drop_jobs(self, *, before: datetime) -> int:
        return await self._database.write(lambda connection: connection.execute(DROP_JOB, (before,)).rowcount)

    async def tally_jobs(self) -> dict[str, int]:
        return dict(await self._database.read(lambda connection: connection.execute(TALLY).fetchall()))


def enqueue(connection: Connection, jobs: Sequence[Job]) -> None:
    """Within the caller's transaction."""
    try:
        connection.cursor().executemany(ENQUEUE, [_row(job) for job in jobs])
    except psycopg.errors.UniqueViolation as error:
        raise Conflict("There is a job of that id already.") from error


def _replace(connection: Connection, job: Job) -> bool:
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
        job.created,
        job.due,
        mapping_json(job.payload),
        job.state.value,
        job.attempts,
        job.most_attempts,
        job.lease_owner,
        job.lease_until,
        job.finished,
        job.error,
        None if job.result is None else mapping_json(job.result),
        job.key,
    )


def job_of(row: tuple[Any, ...]) -> Job:
    return Job(
        id=row[0],
        name=row[1],
        created=row[2],
        due=row[3],
        payload=row[4],
        state=JobState(row[5]),
        attempts=row[6],
        most_attempts=row[7],
        lease_owner=row[8],
        lease_until=row[9],
        finished=row[10],
        error=row[11],
        result=row[12],
        key=row[13],
    )


def _missing(job_id: str) -> JobNotFound:
    return JobNotFound(
        f"There is no job {job_id!r}.", advice="`mindhold jobs` shows the ones that there are."
    )


ENTRY_COLUMNS = "drawer, key, value, created_at, expires"
_ALIVE = "(expires IS NULL OR expires > %s)"

# Insert an entry, or replace the one of the same drawer and key.
PUT_ENTRY = f"""
    INSERT INTO entry ({ENTRY_COLUMNS}) VALUES (%s, %s, %s, %s, %s)
    ON CONFLICT (drawer, key) DO UPDATE SET value = excluded.value, created_at = excluded.created_at,
        expires = excluded.expires
"""

# One that has not expired.
FIND_ENTRY = f"SELECT {ENTRY_COLUMNS} FROM entry WHERE drawer = %s AND key = %s AND {_ALIVE}"

# Remove it and say what it was.
TAKE_ENTRY = f"DELETE FROM entry WHERE drawer = %s AND key = %s AND {_ALIVE} RETURNING {ENTRY_COLUMNS}"

# Those of a drawer that have not expired, the newest first.
LIST_ENTRIES = f"""
    SELECT {ENTRY_COLUMNS} FROM entry WHERE drawer = %s AND {_ALIVE} ORDER BY created_at DESC, row DESC LIMIT %s
"""

# Remove one, expired or not.
DROP_ENTRY = "DELETE FROM entry WHERE drawer = %s AND key = %s"

# Remove all that have expired.
DROP_EXPIRED_ENTRIES = "DELETE FROM entry WHERE expires <= %s"

# Whether there is one that has expired.
EXPIRED_ENTRIES = "SELECT 1 FROM entry WHERE expires <= %s LIMIT 1"


class PostgresEntries(PostgresPart):
    """The Entries protocol."""

    async def put_entry(self, entry: Entry) -> None:
        values = (entry.drawer, entry.key, mapping_json(entry.value), entry.created, entry.expires)
        await self._database.write(lambda connection: connection.execute(PUT_ENTRY, values).rowcount)

    async def entry(self, drawer: str, key: str, *, now: datetime) -> Entry | None:
        values = (drawer, key, now)
        row = await self._database.read(lambda connection: connection.execute(FIND_ENTRY, values).fetchone())
        return None if row is None else entry_of(row)

    async def take_entry(self, drawer: str, key: str, *, now: datetime) -> Entry | None:
        values = (drawer, key, now)
        taken = await self._database.write(
            lambda connection: connection.execute(TAKE_ENTRY, values).fetchone()
        )
        return None if taken is None else entry_of(taken)

    async def entries(self, drawer: str, *, now: datetime, limit: int = 1000) -> list[Entry]:
        values = (drawer, now, limit)
        return await self._database.read(
            lambda connection: [entry_of(row) for row in connection.execute(LIST_ENTRIES, values).fetchall()]
        )

    async def drop_entry(self, drawer: str, key: str) -> bool:
        values = (drawer, key)
        return await self._database.write(
            lambda connection: connection.execute(DROP_ENTRY, values).rowcount > 0
        )

    async def drop_expired(self, now: datetime) -> int:
        # Asked often and mostly in vain.
        if (
            await self._database.read(
                lambda connection: connection.execute(EXPIRED_ENTRIES, (now,)).fetchone()
            )
            is None
        ):
            return 0
        return await self._database.write(
            lambda connection: connection.execute(DROP_EXPIRED_ENTRIES, (now,)).rowcount
        )


def entry_of(row: tuple[Any, ...]) -> Entry:
    return Entry(drawer=row[0], key=row[1], value=row[2], created=row[3], expires=row[4])


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


class PostgresCursors(PostgresPart):
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
