"""What the SQL stores share: the notation of each, and jobs, entries, cursors and scopes.

Statements are written once, with :name or ? for a parameter, `= ANY(:name)` for a list of texts, and {field} for a
column whose name differs; SqlDialect.sql() gives them in a store's own notation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from mindhold.model.job import Entry, Job, JobState
from mindhold.model.scope import Scope
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
from mindhold.stores.columns import (
    LINK,
    MEMORY,
    VERSION,
    Column,
    RecordColumns,
    StoreColumns,
    StoreName,
)

T = TypeVar("T")
SYSTEM = "system"  # sees all: for what the engine has decided already

LIST = re.compile(r"= ANY\(:(\w+)\)")
NAMED = re.compile(r"(?<!:):(\w+)")


class SqlCursor(Protocol):
    """What a statement gives."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""

    def fetchone(self) -> Any:
        """The next row, or None."""

    def fetchall(self) -> list[Any]:
        """All rows. Those of a statement that changes something are always fetched: SQLite can't commit before."""


class SqlManyCursor(SqlCursor, Protocol):
    """A cursor that runs a statement many times."""

    def executemany(self, query: str, parameters: Any, /) -> Any:
        """Once with each of the parameters."""


class SqlConnection(Protocol):
    """A connection of either driver."""

    def execute(self, query: str, parameters: Any = ..., /) -> SqlCursor:
        """One statement."""

    def cursor(self) -> SqlManyCursor:
        """For executemany()."""


class SqlDatabase(Protocol):
    """Where the statements are run."""

    async def read(self, work: Callable[[SqlConnection], T], *, viewer: str = SYSTEM) -> T:
        """What `work` finds in one consistent view."""

    async def rows(
        self, statement: str, values: Any = (), *, viewer: str = SYSTEM, planned: bool = True
    ) -> list[tuple[Any, ...]]:
        """What one statement finds; without `planned` its plan is made for these very values."""

    async def write(self, work: Callable[[SqlConnection], T], *, lasting: bool = True) -> T:
        """Run `work` in a transaction, durable when this returns."""


@dataclass(frozen=True, slots=True)
class Condition:
    """SQL that is true of the rows that match, and its parameters in order."""

    sql: str
    parameters: tuple[Any, ...] = ()


class SqlDialect:
    """The notation of one SQL store: its column names, parameters and errors."""

    name: StoreName
    mark: str  # of a parameter
    integer_cast = ""  # what tells a parameter's type, where it must be told
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
        """The statement in this notation; made once."""
        statement = self._statements.get(text)
        if statement is None:
            statement = self._statements[text] = self.notation(text.format_map(self.names))
        return statement

    def notation(self, text: str) -> str:
        """Parameters and lists as the driver and the server take them."""
        raise NotImplementedError

    def marks(self, columns: RecordColumns[Any]) -> str:
        """Neutral marks for the columns' values."""
        return ", ".join("?" + self.cast(column) for column in columns.columns)

    def cast(self, column: Column) -> str:
        """What the type of a parameter is told by, where it must be."""
        return ""

    def many(self, values: Iterable[str]) -> Any:
        """The parameter of `= ANY(:name)`."""
        raise NotImplementedError

    def moment(self, moment: datetime) -> Any:
        """A time as a parameter."""
        raise NotImplementedError

    def is_duplicate(self, error: Exception) -> bool:
        """Whether an integrity error says that a unique value is there already."""
        raise NotImplementedError


class SqlPart:
    """What the parts of an SQL store share."""

    _database: SqlDatabase
    _sql: SqlDialect


# Add a job, unless one of the same key is waiting.
ENQUEUE = """
    INSERT INTO job ({job_columns}) VALUES ({job_marks})
    ON CONFLICT (key) WHERE state = 'waiting' AND key IS NOT NULL DO NOTHING
"""

# Whether there is anything to lease or to give up.
DUE = """
    SELECT EXISTS (SELECT 1 FROM job WHERE state = 'waiting' AND due <= :now {chosen})
        OR EXISTS (SELECT 1 FROM job WHERE state = 'running' AND lease_until <= :now {chosen})
"""

# The most overdue job that no other runner is taking at this moment: one that waits, or one whose runner is silent.
NEXT_WAITING = """
    SELECT due, id FROM job WHERE state = 'waiting' AND due <= :now {chosen}
    ORDER BY due, id LIMIT 1 FOR UPDATE SKIP LOCKED
"""
NEXT_SILENT = """
    SELECT due, id FROM job WHERE state = 'running' AND lease_until <= :now {chosen}
    ORDER BY due, id LIMIT 1 FOR UPDATE SKIP LOCKED
"""
_ANY_NAME, _SOME_NAMES = "", "AND name = ANY(:names)"

# Give up what has killed its runner as often as it may be tried.
GIVE_UP = f"""
    UPDATE job SET state = 'dead', finished = :now, lease_owner = NULL, lease_until = NULL,
        error = coalesce(error, '{SILENT_RUNNER}')
    WHERE id IN (
        SELECT id FROM job WHERE state = 'running' AND lease_until <= :now AND attempts >= most_attempts
        FOR UPDATE SKIP LOCKED
    )
"""

# Hold a job, and count the attempt.
HOLD = """
    UPDATE job SET state = 'running', lease_owner = ?, lease_until = ?, attempts = attempts + 1 WHERE id = ?
    RETURNING {job_columns}
"""

# Hold it longer.
RENEW = "UPDATE job SET lease_until = ? WHERE id = ? AND state = 'running' AND lease_owner = ?"

# Whether somebody holds it.
HELD = "SELECT 1 FROM job WHERE id = ? AND state = 'running' AND lease_owner = ? FOR UPDATE"

# Its state, which nobody changes meanwhile.
STATE = "SELECT state FROM job WHERE id = ? FOR UPDATE"

# A waiting job of the same key, besides this one.
SAME_KEY = "SELECT 1 FROM job WHERE key = ? AND state = 'waiting' AND key IS NOT NULL AND id <> ?"

REPLACE_JOB = "UPDATE job SET ({job_columns}) = ({job_marks}) WHERE id = ?"

# Jobs, the newest first.
ALL_JOBS = "SELECT {job_columns} FROM job ORDER BY {created} DESC, id DESC LIMIT :most"
SOME_JOBS = (
    "SELECT {job_columns} FROM job WHERE state = ANY(:states) ORDER BY {created} DESC, id DESC LIMIT :most"
)
ONE_JOB = "SELECT {job_columns} FROM job WHERE id = ?"

# Forget what was done long ago; dead ones wait for a person.
DROP_JOB = "DELETE FROM job WHERE state = 'done' AND finished < ?"

TALLY_JOBS = "SELECT state, count(*) FROM job GROUP BY state"


class SqlJobs(SqlPart):
    """The Jobs protocol."""

    async def lease(
        self, owner: str, *, now: datetime, duration: timedelta, names: Sequence[str] = ()
    ) -> Job | None:
        wanted = {"now": self._sql.moment(now), "names": self._sql.many(names)}
        until = self._sql.moment(now + duration)
        chosen = _SOME_NAMES if names else _ANY_NAME

        def work(connection: SqlConnection) -> Job | None:
            connection.execute(self._sql.sql(GIVE_UP), wanted)
            overdue = sorted(
                row
                for query in (NEXT_WAITING, NEXT_SILENT)
                for row in connection.execute(self._chosen(query, chosen), wanted).fetchall()
            )
            if not overdue:
                return None
            held = connection.execute(self._sql.sql(HOLD), (owner, until, overdue[0][1])).fetchall()
            return self._sql.columns.job.record(held[0])

        # Runners ask often and mostly in vain: the writer's lock is taken only when there is something.
        if not (await self._database.rows(self._chosen(DUE, chosen), wanted))[0][0]:
            return None
        return await self._database.write(work)

    def _chosen(self, query: str, chosen: str) -> str:
        return self._sql.sql(query.replace("{chosen}", chosen))

    async def renew(self, job_id: str, owner: str, *, until: datetime) -> bool:
        values = (self._sql.moment(until), job_id, owner)
        return await self._changed_rows(RENEW, values) > 0

    async def finish(self, job: Job, owner: str) -> bool:
        def work(connection: SqlConnection) -> bool:
            if connection.execute(self._sql.sql(HELD), (job.id, owner)).fetchone() is None:
                return False
            return self._replace(connection, job)

        return await self._database.write(work)

    async def jobs(self, *, states: Sequence[JobState] = (), limit: int = 100) -> list[Job]:
        values = {"states": self._sql.many(state.value for state in states), "most": limit}
        rows = await self._database.rows(self._sql.sql(SOME_JOBS if states else ALL_JOBS), values)
        return [self._sql.columns.job.record(row) for row in rows]

    async def job(self, job_id: str) -> Job:
        rows = await self._database.rows(self._sql.sql(ONE_JOB), (job_id,))
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
        return dict(await self._database.rows(TALLY_JOBS))

    def _replace(self, connection: SqlConnection, job: Job) -> bool:
        values = self._sql.columns.job.values(without_lease(job))
        if job.state is JobState.WAITING:
            same = connection.execute(self._sql.sql(SAME_KEY), (job.key, job.id)).fetchone()
            if same is not None:  # the key is the other's now; neither piece of work is lost
                values[self._sql.columns.job.place["key"]] = None
        return connection.execute(self._sql.sql(REPLACE_JOB), (*values, job.id)).rowcount > 0

    async def _changed_rows(self, statement: str, values: tuple[Any, ...]) -> int:
        query = self._sql.sql(statement)
        return await self._database.write(lambda connection: connection.execute(query, values).rowcount)


def enqueue(connection: SqlConnection, dialect: SqlDialect, jobs: Sequence[Job]) -> None:
    """Within the caller's transaction."""
    try:
        connection.cursor().executemany(dialect.sql(ENQUEUE), list(map(dialect.columns.job.values, jobs)))
    except dialect.integrity_error as error:
        if not dialect.is_duplicate(error):
            raise
        raise job_exists() from error


# Insert an entry, or replace the one of the same namespace and key.
PUT_ENTRY = """
    INSERT INTO entry ({entry_columns}) VALUES ({entry_marks})
    ON CONFLICT (drawer, key) DO UPDATE SET value = excluded.value, {created} = excluded.{created},
        expires = excluded.expires
"""

# One that has not expired.
_ALIVE = "(expires IS NULL OR expires > ?)"
FIND_ENTRY = f"SELECT {{entry_columns}} FROM entry WHERE drawer = ? AND key = ? AND {_ALIVE}"

# Remove it and say what it was.
TAKE_ENTRY = f"DELETE FROM entry WHERE drawer = ? AND key = ? AND {_ALIVE} RETURNING {{entry_columns}}"

# Those of a namespace that have not expired, the newest first.
LIST_ENTRIES = f"""
    SELECT {{entry_columns}} FROM entry WHERE drawer = ? AND {_ALIVE} ORDER BY {{created}} DESC, {{row}} DESC LIMIT ?
"""

# Remove one, expired or not.
DROP_ENTRY = "DELETE FROM entry WHERE drawer = ? AND key = ?"

# Remove all that have expired, and whether there is one.
DROP_EXPIRED_ENTRIES = "DELETE FROM entry WHERE expires <= ?"
EXPIRED_ENTRIES = "SELECT 1 FROM entry WHERE expires <= ? LIMIT 1"


class SqlEntries(SqlJobs):
    """The Entries protocol."""

    async def put_entry(self, entry: Entry) -> None:
        await self._changed_rows(PUT_ENTRY, tuple(self._sql.columns.entry.values(entry)))

    async def entry(self, drawer: str, key: str, *, now: datetime) -> Entry | None:
        return self._first(
            await self._database.rows(self._sql.sql(FIND_ENTRY), (drawer, key, self._sql.moment(now)))
        )

    async def take_entry(self, drawer: str, key: str, *, now: datetime) -> Entry | None:
        query, values = self._sql.sql(TAKE_ENTRY), (drawer, key, self._sql.moment(now))
        return self._first(
            await self._database.write(lambda connection: connection.execute(query, values).fetchall())
        )

    async def entries(self, drawer: str, *, now: datetime, limit: int = 1000) -> list[Entry]:
        values = (drawer, self._sql.moment(now), limit)
        rows = await self._database.rows(self._sql.sql(LIST_ENTRIES), values)
        return [self._sql.columns.entry.record(row) for row in rows]

    async def drop_entry(self, drawer: str, key: str) -> bool:
        return await self._changed_rows(DROP_ENTRY, (drawer, key)) > 0

    async def drop_expired(self, now: datetime) -> int:
        values = (self._sql.moment(now),)
        # Asked often and mostly in vain: the writer's lock is taken only when there is something.
        if not await self._database.rows(self._sql.sql(EXPIRED_ENTRIES), values):
            return 0
        return await self._changed_rows(DROP_EXPIRED_ENTRIES, values)

    def _first(self, rows: Sequence[Any]) -> Entry | None:
        return self._sql.columns.entry.record(rows[0]) if rows else None


CURSOR = "SELECT value FROM cursor WHERE name = ?"
SET_CURSOR = (
    "INSERT INTO cursor (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
DROP_CURSOR = "DELETE FROM cursor WHERE name = ?"

# The same three, if the value is what was expected. Of two at once the second waits and finds another value.
NEW_CURSOR = "INSERT INTO cursor (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
SWAP_CURSOR = "UPDATE cursor SET value = ? WHERE name = ? AND value = ?"
END_CURSOR = "DELETE FROM cursor WHERE name = ? AND value = ?"


class SqlCursorValues(SqlJobs):
    """The Cursors protocol."""

    async def cursor(self, name: str) -> str | None:
        rows = await self._database.rows(self._sql.sql(CURSOR), (name,))
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

# Insert a scope, or replace the one of the same name in its row.
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
    """The Scopes protocol."""

    async def scopes(self) -> list[Scope]:
        rows = await self._database.rows(self._sql.sql(SCOPES))
        return [self._sql.columns.scope.record(row) for row in rows]

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
            except self._sql.integrity_error as error:  # put into it at this moment
                raise scope_filled(name) from error

        await self._database.write(work)

    def _all_scopes(self, connection: SqlConnection) -> dict[str, Scope]:
        """As they are until the transaction ends: two changes at once could make a cycle."""
        if self._sql.lock_scopes:
            connection.execute(self._sql.lock_scopes)
        rows = connection.execute(self._sql.sql(SCOPES)).fetchall()
        return {scope.name: scope for scope in map(self._sql.columns.scope.record, rows)}
