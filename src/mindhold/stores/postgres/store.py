"""The PostgreSQL store: its parts combined, its snapshots, and its replacement by a restore. Contract: mindhold.testing.store_contract."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from mindhold.model.errors import NotFound, Refused, StoreBusy, StoreError
from mindhold.ports.backend import Cursor, Record, ReplacedStore, SnapshotItem, Totals
from mindhold.ports.store import Capability, Change, Clock, Put, Rate, Tend
from mindhold.stores.base import NoRawCopies
from mindhold.stores.columns import is_stale, moment_of
from mindhold.stores.postgres.connection import (
    SCHEMA,
    ChangeListener,
    ConnectionLimits,
    PostgresDatabase,
    PostgresPart,
    SessionFactory,
    unlimited,
)
from mindhold.stores.postgres.driver import Connection, translated, vector_of
from mindhold.stores.postgres.records import PostgresErasure, PostgresRecords
from mindhold.stores.postgres.rows import COLUMNS, POSTGRES, SELECTED, memory_of
from mindhold.stores.postgres.schema import EXISTS, LOCK, prepare
from mindhold.stores.postgres.search import PostgresIndex
from mindhold.stores.postgres.search_queries import EXACT_UP_TO, Estimates
from mindhold.stores.postgres.upkeep import PostgresUpkeep, PostgresVectorIndexes
from mindhold.stores.registry import opened_store
from mindhold.stores.sql import SCOPES, SqlCursorValues, SqlEntries, SqlJobs, SqlScopes, count_totals

BATCH = 500

# One consistent state for all that follows, without a time limit.
BEGIN = """
    BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
    SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0
"""

# All links, by the ids of their ends.
LINKS = f"""
    SELECT {COLUMNS.link.listed()} FROM fragment_links
    ORDER BY from_id, to_id, relation_type
"""


class PostgresSnapshots(PostgresPart, NoRawCopies):
    """Implements Snapshots."""

    _session: SessionFactory
    _has_vectors: bool

    async def snapshot(self) -> AsyncIterator[list[SnapshotItem]]:
        with translated(self._session.place):
            connection = await asyncio.to_thread(self._session.connect, as_login=True)
            try:
                await asyncio.to_thread(connection.execute, BEGIN)
                for query, item_of in self._read():
                    cursor = connection.cursor("mindhold_snapshot")
                    await asyncio.to_thread(cursor.execute, query)
                    while rows := await asyncio.to_thread(cursor.fetchmany, BATCH):
                        yield [item_of(row) for row in rows]
                    await asyncio.to_thread(cursor.close)
            finally:
                with suppress(psycopg.Error):
                    await asyncio.to_thread(connection.close)

    async def totals(self) -> Totals:
        vectors = "fragments WHERE embedded_by IS NOT NULL"
        return await self._database.alone(
            lambda connection: count_totals(connection, POSTGRES, vectors=vectors), long=True
        )

    def _read(self) -> list[tuple[str, Callable[[Any], SnapshotItem]]]:
        vector = "CASE WHEN embedded_by IS NULL THEN NULL ELSE halfvec_send(embedding) END"
        vector_column = vector if self._has_vectors else "NULL::bytea"
        return [
            (POSTGRES.sql(SCOPES), COLUMNS.scope.record),
            (f"SELECT {SELECTED}, {vector_column} FROM fragments ORDER BY fragments.row", _record),
            (POSTGRES.sql("{versions} ORDER BY fragment_id, number"), COLUMNS.version.record),
            (LINKS, COLUMNS.link.record),
            (POSTGRES.sql("SELECT {job_columns} FROM job ORDER BY created_at, id"), COLUMNS.job.record),
            (POSTGRES.sql("SELECT {entry_columns} FROM entry ORDER BY row"), COLUMNS.entry.record),
            ("SELECT name, value FROM cursor ORDER BY name", lambda row: Cursor(*row)),
        ]


def _record(row: tuple[Any, ...]) -> Record:
    return Record(memory_of(row), None if row[-1] is None else vector_of(bytes(row[-1])))


class PostgresStore(
    PostgresRecords,
    PostgresErasure,
    PostgresIndex,
    SqlScopes,
    SqlCursorValues,
    SqlEntries,
    SqlJobs,
    PostgresUpkeep,
    PostgresSnapshots,
):
    """One database of a server, in its schema `agent_memory` unless another is named. Any number of processes may use it at once.

    `conninfo` is a postgresql:// address or libpq's key=value words. One of `max_connections` listens for changes of other
    processes. A filter that admits more than `exact_up_to` records is searched by approximate indexes and samples.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        clock: Clock,
        max_connections: int = 20,
        idle_timeout_ms: int = 30_000,
        connection_timeout_ms: int = 10_000,
        query_timeout_ms: int = 30_000,
        exact_up_to: int = EXACT_UP_TO,
        schema: str = SCHEMA,
    ) -> None:
        limits = ConnectionLimits(max_connections, idle_timeout_ms, connection_timeout_ms, query_timeout_ms)
        self._clock = clock
        self._session = SessionFactory(conninfo, limits, schema=schema)
        self._database = PostgresDatabase(self._session, limits)
        self._estimates = Estimates(exact_up_to=exact_up_to)
        self._notices = ChangeListener(self._session, heard=self._estimates.changed)
        self._vector_indexes = PostgresVectorIndexes(self._session, worth_it=exact_up_to)

    @property
    def capabilities(self) -> frozenset[Capability]:
        always = {Capability.FULL_TEXT, Capability.TRANSACTIONS, Capability.CHANGE_NOTICES}
        if self._session.bound:
            always.add(Capability.ROW_SECURITY)
        return frozenset(always | {Capability.VECTORS} if self._has_vectors else always)

    @property
    def _has_vectors(self) -> bool:  # type: ignore[override]
        return self._session.vectors_in is not None

    async def open(self) -> None:
        now = self._clock()

        def work(connection: Connection) -> None:
            prepare(connection, self._session, now=now)
            if self._has_vectors:
                self._vector_indexes.look(connection)

        await self._database.open(work)
        self._notices.start()

    async def close(self) -> None:
        await self._notices.stop()
        await self._vector_indexes.stop()
        await self._database.close()
        self._estimates.forget()

    def _changed(self, changes: Sequence[Change]) -> None:
        # Estimates don't depend on upkeep and ratings.
        self._tell(sum(not isinstance(change, Tend | Rate) for change in changes))
        if not self._has_vectors:
            return
        put = [change for change in changes if isinstance(change, Put) and change.vector is not None]
        for change in put[:1]:
            assert change.vector is not None
            self._embedded(change.memory.embedded_by or "", len(change.vector), len(put))

    def _embedded(self, model: str, dimensions: int, number: int) -> None:
        self._tell(number)
        self._vector_indexes.grown(model, dimensions, number)

    def _tell(self, records: int) -> None:
        if records:
            self._estimates.changed(records)
            self._notices.tell(records)


T = TypeVar("T")

_RESTORED, _BEFORE = f"{SCHEMA}_restoring_", f"{SCHEMA}_before_"
_LEAVING_SECONDS, _PAUSE_SECONDS = 3.0, 0.1
_LIMITS = ConnectionLimits(2, 30_000, 10_000, 30_000)

# Other connections of ours.
OTHERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'mindhold' AND pid <> pg_backend_pid()
"""

# Replaced stores, and their sizes.
OLDS = """
    SELECT nspname, coalesce(sum(pg_total_relation_size(pg_class.oid)) FILTER (WHERE relkind = 'r'), 0)
    FROM pg_namespace LEFT JOIN pg_class ON relnamespace = pg_namespace.oid
    WHERE starts_with(nspname, %s) GROUP BY nspname ORDER BY nspname DESC
"""

# Functions whose source names the schema, which a rename doesn't change.
NAMING = """
    SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = %s::regnamespace AND strpos(prosrc, %s) > 0
"""

# Whether pgvector is in the schema itself: it must not be renamed with it.
INSIDE = """
    SELECT 1 FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
    WHERE extname = 'vector' AND nspname = %s
"""


class PostgresSite:
    """Implements BackendSite for one database."""

    raw_form = ""

    def __init__(self, conninfo: str, *, clock: Clock) -> None:
        self._conninfo = conninfo
        self._clock = clock
        self._session = SessionFactory(conninfo, _LIMITS)

    async def prepare(self, stamp: str, raw: Path | None = None) -> None:
        if raw is not None:
            raise Refused("A PostgreSQL database takes no such copy.")

        def work(connection: Connection) -> None:
            for name, _ in connection.execute(OLDS, (_RESTORED,)).fetchall():
                if is_stale(name.removeprefix(_RESTORED), self._clock()):  # left by a restore that died
                    _drop(connection, name)
            if connection.execute(EXISTS, (_named(_RESTORED, stamp),)).fetchone():
                raise StoreError(
                    f"The schema {_named(_RESTORED, stamp)} exists already.", advice="Try again in a second."
                )

        await self._work(work)

    @asynccontextmanager
    async def beside(self, stamp: str) -> AsyncIterator[PostgresStore]:
        store = PostgresStore(self._conninfo, clock=self._clock, schema=_named(_RESTORED, stamp))
        async with opened_store(store):
            yield store

    async def swap(self, stamp: str, *, now: datetime) -> ReplacedStore | None:
        new, aside = _named(_RESTORED, stamp), _named(_BEFORE, stamp)

        def work(connection: Connection) -> bool:
            self._refuse_others(connection)
            with connection.transaction():
                connection.execute(LOCK)
                return _swapped(connection, new, aside)

        if not await self._work(work):
            return None
        return next((old for old in await self.olds() if old.name == aside), None)

    async def discard(self, stamp: str) -> None:
        await self._work(lambda connection: _drop(connection, _named(_RESTORED, stamp)))

    async def olds(self) -> list[ReplacedStore]:
        rows = await self._work(lambda connection: connection.execute(OLDS, (_BEFORE,)).fetchall())
        return [
            ReplacedStore(
                name,
                f"schema {name} of {self._session.place}",
                int(size),
                moment_of(name.removeprefix(_BEFORE)),
            )
            for name, size in rows
        ]

    async def drop_old(self, name: str) -> None:
        if name not in [old.name for old in await self.olds()]:
            raise NotFound(
                f"There is no old schema {name!r}.", advice="`mindhold status` names those there are."
            )
        await self._work(lambda connection: _drop(connection, name))

    def _refuse_others(self, connection: Connection) -> None:
        """Raises StoreBusy. A connection that has just ended may be listed for a moment."""
        deadline = time.monotonic() + _LEAVING_SECONDS
        while connection.execute(OTHERS).fetchone() != (0,):
            if time.monotonic() > deadline:
                raise StoreBusy(
                    f"Other processes use the database {self._session.place}; nothing was changed.",
                    advice="End the servers and sessions that use it, then run it again.",
                )
            time.sleep(_PAUSE_SECONDS)

    async def _work(self, work: Callable[[Connection], T]) -> T:
        def run() -> T:
            with translated(self._session.place), self._session.connect(as_login=True) as connection:
                return work(connection)

        return await asyncio.to_thread(run)


def _swapped(connection: Connection, new: str, aside: str) -> bool:
    """Swap the schemas within the caller's transaction. Returns whether there was one before."""
    connection.execute("SET LOCAL search_path TO pg_catalog")  # so that definitions include their schema
    if connection.execute(INSIDE, (SCHEMA,)).fetchone():
        connection.execute("ALTER EXTENSION vector SET SCHEMA public")
    before = connection.execute(EXISTS, (SCHEMA,)).fetchone() is not None
    if before:
        _rename(connection, SCHEMA, aside)
    _rename(connection, new, SCHEMA)
    return before


def _rename(connection: Connection, old: str, new: str) -> None:
    statement = sql.SQL("ALTER SCHEMA {} RENAME TO {}")
    connection.execute(statement.format(sql.Identifier(old), sql.Identifier(new)))
    for (definition,) in connection.execute(NAMING, (new, f"{old}.")).fetchall():
        connection.execute(re.sub(rf"\b{old}\.", f"{new}.", definition))


def _drop(connection: Connection, schema: str) -> None:
    with unlimited(connection):
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))


def _named(begin: str, stamp: str) -> str:
    return f"{begin}{stamp.lower()}"
