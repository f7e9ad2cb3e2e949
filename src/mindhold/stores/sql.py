"""What the SQL stores share: the notation of each, and jobs, entries, cursors and scopes.

Statements are written once, with :name or ? for a parameter, `= ANY(:name)` for a list of texts, and {field} for a
column whose name differs; SqlDialect.sql() gives them in a store's own notation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from mindhold.model.job import Entry, Job, JobState
from mindhold.model.memory import content_sum
from mindhold.model.scope import Scope
from mindhold.ports.backend import Totals
from mindhold.stores.base import (
    SILENT_RUNNER,
    check_droppable,
    check_empty,
    check_new_name,
    check_parent,
    job_exists,
    job_missing,
    scope_filled,
    without_lease,
)
from mindhold.stores.columns import LINK, MEMORY, VERSION, Column, RecordColumns, StoreColumns, StoreName

T = TypeVar("T")
SYSTEM = "system"  # sees everything: for queries whose access was checked before

LIST = re.compile(r"= ANY\(:(\w+)\)")
NAMED = re.compile(r"(?<!:):(\w+)")


class SqlCursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """The number of changed rows."""

    def fetchone(self) -> Any:
        """The next row, or None."""

    def fetchall(self) -> list[Any]:
        """All rows. Rows of a changing statement are always fetched, because SQLite can't commit before."""

    def __iter__(self) -> Iterator[Any]:
        """The rows one by one."""

    def executemany(self, query: str, parameters: Any, /) -> Any:
        """Run the statement once with each set of parameters."""


class SqlConnection(Protocol):
    """A connection of either driver."""

    def execute(self, query: str, parameters: Any = ..., /) -> SqlCursor:
        """Run one statement."""

    def cursor(self) -> SqlCursor:
        """A cursor for executemany()."""


class SqlDatabase(Protocol):
    """Runs statements."""

    async def read(self, work: Callable[[SqlConnection], T], *, viewer: str = SYSTEM) -> T:
        """The result of `work` in one consistent view."""

    async def rows(
        self,
        statement: str,
        values: Any = (),
        *,
        viewer: str = SYSTEM,
        planned: bool = True,
        few: bool = False,
    ) -> list[tuple[Any, ...]]:
        """The rows of one statement; without `planned` it is planned for these very values.

        With `few` it is a look-up of a few rows, which the event loop may wait for.
        """

    async def write(self, work: Callable[[SqlConnection], T], *, lasting: bool = True) -> T:
        """Run `work` in a transaction, durable when this returns."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A SQL condition, and its parameters in order."""

    sql: str
    parameters: tuple[Any, ...] = ()


class SqlDialect:
    """The notation of one SQL store: its column names, parameters and errors."""

    name: StoreName
    mark: str  # placeholder of a parameter
    integer_cast = ""  # cast of an integer parameter, if the store needs one
    integrity_error: type[Exception]
    lock_scopes = ""  # a statement after which no other writer changes scopes

    def __init__(self, columns: StoreColumns, **names: str) -> None:
        self.columns = columns
        self._statements: dict[str, str] = {}
        fields = {column.field.rpartition(".")[2]: column.name(self.name) for column in (*MEMORY, *LINK)}
        self.names = {
            **fields,
            "memory_id": VERSION[0].name(self.name),
            "amended": VERSION[-2].name(self.name),
            "job_columns": columns.job.listed(),
            "job_marks": self.marks(columns.job),
            "entry_columns": columns.entry.listed(),
            "entry_marks": self.marks(columns.entry),
            "link_columns": columns.link.listed(),
            "link_marks": self.marks(columns.link),
            "version_columns": columns.version.listed(),
            "version_marks": self.marks(columns.version),
            **names,
        }

    def sql(self, text: str) -> str:
        """The statement in this notation; cached."""
        statement = self._statements.get(text)
        if statement is None:
            statement = self._statements[text] = self.notation(text.format_map(self.names))
        return statement

    def notation(self, text: str) -> str:
        """Parameters and lists in the notation of the driver and the server."""
        raise NotImplementedError

    def marks(self, columns: RecordColumns[Any]) -> str:
        """Neutral placeholders for the columns' values."""
        return ", ".join("?" + self.cast(column) for column in columns.columns)

    def cast(self, column: Column) -> str:
        """The cast of a parameter, if the store needs one."""
        return ""

    def many(self, values: Iterable[str]) -> Any:
        """The parameter of `= ANY(:name)`."""
        raise NotImplementedError

    def moment(self, moment: datetime) -> Any:
        """A time as a parameter."""
        raise NotImplementedError

    def is_duplicate(self, error: Exception) -> bool:
        """Whether an integrity error is about a duplicate of a unique value."""
        raise NotImplementedError


def count_totals(connection: SqlConnection, dialect: SqlDialect, *, vectors: str) -> Totals:
    """Implements Snapshots.totals(). `vectors` is the table of the vectors, or a condition that selects them."""

    def count(source: str) -> int:
        return int(connection.execute(dialect.sql(f"SELECT count(*) FROM {source}")).fetchall()[0][0])

    hashes = connection.execute(dialect.sql("SELECT id, content_hash FROM {memory}"))
    memories, content = content_sum(hashes)
    return Totals(
        memories=memories,
        vectors=count(vectors),
        versions=count("{version}"),
        links=count("{link}"),
        scopes=count("scope"),
        jobs=count("job"),
        entries=count("entry"),
        cursors=count("cursor"),
        content=content,
    )


class SqlPart:
    """Base of the parts of an SQL store."""

    _database: SqlDatabase
    _sql: SqlDialect

    async def _rows(self, statement: str, values: Any = ()) -> list[tuple[Any, ...]]:
        return await self._database.rows(self._sql.sql(statement), values)

    async def _changed_rows(self, statement: str, values: tuple[Any, ...]) -> int:
        query = self._sql.sql(statement)
        return await self._database.write(lambda connection: connection.execute(query, values).rowcount)


# Add a job, unless a waiting job has the same key.
ENQUEUE = """
    INSERT INTO job ({job_columns}) VALUES ({job_marks})
    ON CONFLICT (key) WHERE state = 'waiting' AND key IS NOT NULL DO NOTHING
"""

# Whether there is any job to lease or to give up.
DUE = """
    SELECT EXISTS (SELECT 1 FROM job WHERE state = 'waiting' AND due <= :now {chosen})
        OR EXISTS (SELECT 1 FROM job WHERE state = 'running' AND lease_until <= :now {chosen})
"""

# The most overdue job that no other runner is taking right now: a waiting one, or one whose lease expired.
NEXT_WAITING = """
    SELECT due, id FROM job WHERE state = 'waiting' AND due <= :now {chosen}
    ORDER BY due, id LIMIT 1 FOR UPDATE SKIP LOCKED
"""
NEXT_SILENT = """
    SELECT due, id FROM job WHERE state = 'running' AND lease_until <= :now {chosen}
    ORDER BY due, id LIMIT 1 FOR UPDATE SKIP LOCKED
"""
_ANY_NAME, _SOME_NAMES = "", "AND name = ANY(:names)"

# Give up jobs whose runners died in the last allowed attempt.
GIVE_UP = f"""
    UPDATE job SET state = 'dead', finished = :now, lease_owner = NULL, lease_until = NULL,
        error = coalesce(error, '{SILENT_RUNNER}')
    WHERE id IN (
        SELECT id FROM job WHERE state = 'running' AND lease_until <= :now AND attempts >= most_attempts
        FOR UPDATE SKIP LOCKED
    )
"""

# Lease a job and count the attempt.
HOLD = """
    UPDATE job SET state = 'running', lease_owner = ?, lease_until = ?, attempts = attempts + 1 WHERE id = ?
    RETURNING {job_columns}
"""

# Extend the lease.
RENEW = "UPDATE job SET lease_until = ? WHERE id = ? AND state = 'running' AND lease_owner = ?"

# Whether the owner holds the job.
HELD = "SELECT 1 FROM job WHERE id = ? AND state = 'running' AND lease_owner = ? FOR UPDATE"

# The state of a job, locked against changes.
STATE = "SELECT state FROM job WHERE id = ? FOR UPDATE"

# Another waiting job with the same key.
SAME_KEY = "SELECT 1 FROM job WHERE key = ? AND state = 'waiting' AND key IS NOT NULL AND id <> ?"

REPLACE_JOB = "UPDATE job SET ({job_columns}) = ({job_marks}) WHERE id = ?"

# Jobs, newest first.
ALL_JOBS = "SELECT {job_columns} FROM job ORDER BY {created} DESC, id DESC LIMIT :most"
SOME_JOBS = (
    "SELECT {job_columns} FROM job WHERE state = ANY(:states) ORDER BY {created} DESC, id DESC LIMIT :most"
)
ONE_JOB = "SELECT {job_columns} FROM job WHERE id = ?"

# Remove jobs that were done long ago; dead ones wait for a person.
DROP_JOB = "DELETE FROM job WHERE state = 'done' AND finished < ?"

TALLY_JOBS = "SELECT state, count(*) FROM job GROUP BY state"


class SqlJobs(SqlPart):
    """Implements Jobs."""

    async def lease(
        self, owner: str, *, now: datetime, duration: timedelta, names: Sequence[str] = ()
    ) -> Job | None:
        parameters = {"now": self._sql.moment(now), "names": self._sql.many(names)}
        until = self._sql.moment(now + duration)
        name_condition = _SOME_NAMES if names else _ANY_NAME

        def work(connection: SqlConnection) -> Job | None:
            connection.execute(self._sql.sql(GIVE_UP), parameters)
            overdue = sorted(
                row
                for query in (NEXT_WAITING, NEXT_SILENT)
                for row in connection.execute(self._chosen(query, name_condition), parameters).fetchall()
            )
            if not overdue:
                return None
            leased = connection.execute(self._sql.sql(HOLD), (owner, until, overdue[0][1])).fetchall()
            return self._sql.columns.job.record(leased[0])

        # Runners ask often and mostly in vain, so the write lock is taken only if there is a job.
        if not (await self._database.rows(self._chosen(DUE, name_condition), parameters))[0][0]:
            return None
        return await self._database.write(work)

    def _chosen(self, query: str, chosen: str) -> str:
        return self._sql.sql(query.replace("{chosen}", chosen))

    async def renew(self, job_id: str, owner: str, *, until: datetime) -> bool:
        return await self._changed_rows(RENEW, (self._sql.moment(until), job_id, owner)) > 0

    async def finish(self, job: Job, owner: str) -> bool:
        def work(connection: SqlConnection) -> bool:
            if connection.execute(self._sql.sql(HELD), (job.id, owner)).fetchone() is None:
                return False
            return self._replace(connection, job)

        return await self._database.write(work)

    async def jobs(self, *, states: Sequence[JobState] = (), limit: int = 100) -> list[Job]:
        values = {"states": self._sql.many(state.value for state in states), "most": limit}
        rows = await self._rows(SOME_JOBS if states else ALL_JOBS, values)
        return [self._sql.columns.job.record(row) for row in rows]

    async def job(self, job_id: str) -> Job:
        rows = await self._rows(ONE_JOB, (job_id,))
        if not rows:
            raise job_missing(job_id)
        return self._sql.columns.job.record(rows[0])

    async def replace_job(self, job: Job, *, expected: JobState) -> bool:
        def work(connection: SqlConnection) -> bool:
            state = connection.execute(self._sql.sql(STATE), (job.id,)).fetchone()
            if state is None:
                raise job_missing(job.id)
            return state[0] == expected.value and self._replace(connection, job)

        return await self._database.write(work)

    async def drop_jobs(self, *, before: datetime) -> int:
        return await self._changed_rows(DROP_JOB, (self._sql.moment(before),))

    async def tally_jobs(self) -> dict[str, int]:
        return dict(await self._rows(TALLY_JOBS))

    def _replace(self, connection: SqlConnection, job: Job) -> bool:
        values = self._sql.columns.job.values(without_lease(job))
        if job.state is JobState.WAITING:
            same = connection.execute(self._sql.sql(SAME_KEY), (job.key, job.id)).fetchone()
            if same is not None:  # the other job has the key now, so that no work is lost
                values[self._sql.columns.job.place["key"]] = None
        return connection.execute(self._sql.sql(REPLACE_JOB), (*values, job.id)).rowcount > 0


def enqueue(connection: SqlConnection, dialect: SqlDialect, jobs: Sequence[Job]) -> None:
    """Add jobs within the caller's transaction."""
    try:
        connection.cursor().executemany(dialect.sql(ENQUEUE), list(map(dialect.columns.job.values, jobs)))
    except dialect.integrity_error as error:
        if not dialect.is_duplicate(error):
            raise
        raise job_exists() from error


# Insert an entry, or replace the one with the same namespace and key.
PUT_ENTRY = """
    INSERT INTO entry ({entry_columns}) VALUES ({entry_marks})
    ON CONFLICT (drawer, key) DO UPDATE SET value = excluded.value, {created} = excluded.{created},
        expires = excluded.expires
"""

# An entry that has not expired.
_ALIVE = "(expires IS NULL OR expires > ?)"
FIND_ENTRY = f"SELECT {{entry_columns}} FROM entry WHERE drawer = ? AND key = ? AND {_ALIVE}"

# Remove an entry and return it.
TAKE_ENTRY = f"DELETE FROM entry WHERE drawer = ? AND key = ? AND {_ALIVE} RETURNING {{entry_columns}}"

# The entries of a namespace that have not expired, newest first.
LIST_ENTRIES = f"""
    SELECT {{entry_columns}} FROM entry WHERE drawer = ? AND {_ALIVE} ORDER BY {{created}} DESC, {{row}} DESC LIMIT ?
"""

# Remove an entry, expired or not.
DROP_ENTRY = "DELETE FROM entry WHERE drawer = ? AND key = ?"

# Remove all expired entries, and check whether there is one.
DROP_EXPIRED_ENTRIES = "DELETE FROM entry WHERE expires <= ?"
EXPIRED_ENTRIES = "SELECT 1 FROM entry WHERE expires <= ? LIMIT 1"


class SqlEntries(SqlPart):
    """Implements Entries."""

    async def put_entry(self, entry: Entry) -> None:
        await self._changed_rows(PUT_ENTRY, tuple(self._sql.columns.entry.values(entry)))

    async def entry(self, namespace: str, key: str, *, now: datetime) -> Entry | None:
        return self._first(await self._rows(FIND_ENTRY, (namespace, key, self._sql.moment(now))))

    async def take_entry(self, namespace: str, key: str, *, now: datetime) -> Entry | None:
        query, values = self._sql.sql(TAKE_ENTRY), (namespace, key, self._sql.moment(now))
        return self._first(
            await self._database.write(lambda connection: connection.execute(query, values).fetchall())
        )

    async def entries(self, namespace: str, *, now: datetime, limit: int = 1000) -> list[Entry]:
        rows = await self._rows(LIST_ENTRIES, (namespace, self._sql.moment(now), limit))
        return [self._sql.columns.entry.record(row) for row in rows]

    async def drop_entry(self, namespace: str, key: str) -> bool:
        return await self._changed_rows(DROP_ENTRY, (namespace, key)) > 0

    async def drop_expired(self, now: datetime) -> int:
        values = (self._sql.moment(now),)
        # Called often and mostly in vain, so the write lock is taken only if there is an expired entry.
        if not await self._rows(EXPIRED_ENTRIES, values):
            return 0
        return await self._changed_rows(DROP_EXPIRED_ENTRIES, values)

    def _first(self, rows: Sequence[Any]) -> Entry | None:
        return self._sql.columns.entry.record(rows[0]) if rows else None


CURSOR = "SELECT value FROM cursor WHERE name = ?"
SET_CURSOR = (
    "INSERT INTO cursor (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
DROP_CURSOR = "DELETE FROM cursor WHERE name = ?"

# The same three, if the value is as expected. Of two at once the second waits and sees the new value.
NEW_CURSOR = "INSERT INTO cursor (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
SWAP_CURSOR = "UPDATE cursor SET value = ? WHERE name = ? AND value = ?"
END_CURSOR = "DELETE FROM cursor WHERE name = ? AND value = ?"


class SqlCursorValues(SqlPart):
    """Implements Cursors."""

    async def cursor(self, name: str) -> str | None:
        rows = await self._database.rows(self._sql.sql(CURSOR), (name,), few=True)
        return str(rows[0][0]) if rows else None

    async def set_cursor(self, name: str, value: str | None) -> None:
        if value is None:
            await self._changed_rows(DROP_CURSOR, (name,))
        else:
            await self._changed_rows(SET_CURSOR, (name, value))

    async def swap_cursor(self, name: str, *, old: str | None, new: str | None) -> bool:
        if old is None and new is None:
            return await self.cursor(name) is None
        if old is None:
            return await self._changed_rows(NEW_CURSOR, (name, new)) > 0
        if new is None:
            return await self._changed_rows(END_CURSOR, (name, old)) > 0
        return await self._changed_rows(SWAP_CURSOR, (new, name, old)) > 0


# All scopes with their parents' names.
SCOPES = """
    SELECT scope.name, scope.{created}, scope.description, scope.kind, parent.name, scope.keywords, scope.active
    FROM scope LEFT JOIN scope AS parent ON parent.row = scope.parent ORDER BY scope.name
"""

# Insert a scope, or replace the one with the same name in its row.
PUT_SCOPE = """
    INSERT INTO scope (name, {created}, description, kind, parent, keywords, active)
    VALUES (?, ?, ?, ?, (SELECT row FROM scope WHERE name = ?), {texts_mark}, ?)
    ON CONFLICT (name) DO UPDATE SET description = excluded.description, kind = excluded.kind,
        parent = excluded.parent, keywords = excluded.keywords, active = excluded.active,
        {created} = excluded.{created}
"""
RENAME_SCOPE = "UPDATE scope SET name = ? WHERE name = ?"
RECORDS_IN_SCOPE = "SELECT count(*) FROM {memory} WHERE scope = (SELECT row FROM scope WHERE name = ?)"
DROP_SCOPE = "DELETE FROM scope WHERE name = ?"


class SqlScopes(SqlPart):
    """Implements Scopes."""

    async def scopes(self) -> list[Scope]:
        return [
            self._sql.columns.scope.record(row)
            for row in await self._database.rows(self._sql.sql(SCOPES), few=True)
        ]

    async def put_scope(self, scope: Scope) -> None:
        def work(connection: SqlConnection) -> None:
            check_parent(self._all_scopes(connection), scope)
            connection.execute(self._sql.sql(PUT_SCOPE), self._sql.columns.scope.values(scope))

        await self._database.write(work)

    async def rename_scope(self, old: str, new: str) -> None:
        def work(connection: SqlConnection) -> None:
            if check_new_name(self._all_scopes(connection), old, new):
                connection.execute(self._sql.sql(RENAME_SCOPE), (new, old))

        await self._database.write(work)

    async def drop_scope(self, name: str) -> None:
        def work(connection: SqlConnection) -> None:
            scopes = self._all_scopes(connection)
            check_droppable(scopes, name)
            records = connection.execute(self._sql.sql(RECORDS_IN_SCOPE), (name,)).fetchall()[0][0]
            check_empty(scopes, name, records)
            try:
                connection.execute(self._sql.sql(DROP_SCOPE), (name,))
            except self._sql.integrity_error as error:  # a record was added to it at this moment
                raise scope_filled(name) from error

        await self._database.write(work)

    def _all_scopes(self, connection: SqlConnection) -> dict[str, Scope]:
        """All scopes, locked until the transaction ends: two changes at once could make a cycle."""
        if self._sql.lock_scopes:
            connection.execute(self._sql.lock_scopes)
        rows = connection.execute(self._sql.sql(SCOPES)).fetchall()
        return {scope.name: scope for scope in map(self._sql.columns.scope.record, rows)}
