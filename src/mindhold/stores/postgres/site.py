"""Where the schema stands, and how another is put in its place: two renamings in one transaction."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from mindhold.model.errors import NotFound, Refused, StoreBusy, StoreError
from mindhold.ports.clock import Clock
from mindhold.ports.snapshot import Old
from mindhold.stores.postgres.failures import translated
from mindhold.stores.postgres.migrate import LOCK
from mindhold.stores.postgres.session import SCHEMA, Limits, Session, unlimited
from mindhold.stores.postgres.store import PostgresStore
from mindhold.stores.stamps import is_stale, moment_of

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

_RESTORED, _BEFORE = f"{SCHEMA}_restoring_", f"{SCHEMA}_before_"
_LEAVING_SECONDS, _PAUSE_SECONDS = 3.0, 0.1
_LIMITS = Limits(2, 30_000, 10_000, 30_000)

# Who else is connected, of ours.
OTHERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'mindhold' AND pid <> pg_backend_pid()
"""

EXISTS = "SELECT 1 FROM pg_namespace WHERE nspname = %s"

# What was put aside, and how large it is.
OLDS = """
    SELECT nspname, coalesce(sum(pg_total_relation_size(pg_class.oid)) FILTER (WHERE relkind = 'r'), 0)
    FROM pg_namespace LEFT JOIN pg_class ON relnamespace = pg_namespace.oid
    WHERE starts_with(nspname, %s) GROUP BY nspname ORDER BY nspname DESC
"""

# Functions whose text names a schema, which no renaming changes.
NAMING = """
    SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = %s::regnamespace AND strpos(prosrc, %s) > 0
"""

# Whether pgvector is in the schema itself: it must not go aside with it.
INSIDE = """
    SELECT 1 FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
    WHERE extname = 'vector' AND nspname = %s
"""


class PostgresSite:
    """The Site protocol, for one database."""

    def __init__(self, conninfo: str, *, clock: Clock) -> None:
        self._conninfo = conninfo
        self._clock = clock
        self._session = Session(conninfo, _LIMITS)

    @property
    def raw_form(self) -> str:
        return ""

    async def prepare(self, stamp: str, raw: Path | None = None) -> None:
        if raw is not None:
            raise Refused("A PostgreSQL database takes no such copy.")

        def work(connection: Connection) -> None:
            for name, _ in connection.execute(OLDS, (_RESTORED,)).fetchall():
                if is_stale(name.removeprefix(_RESTORED), self._clock()):  # of one that died
                    _drop(connection, name)
            if connection.execute(EXISTS, (_named(_RESTORED, stamp),)).fetchone():
                raise StoreError(
                    f"The schema {_named(_RESTORED, stamp)} exists already.", advice="Try again in a second."
                )

        await self._work(work)

    @asynccontextmanager
    async def beside(self, stamp: str) -> AsyncIterator[PostgresStore]:
        store = PostgresStore(self._conninfo, clock=self._clock, schema=_named(_RESTORED, stamp))
        try:
            await store.open()
            yield store
        finally:
            await store.close()

    async def swap(self, stamp: str, *, now: datetime) -> Old | None:
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

    async def olds(self) -> list[Old]:
        found = await self._work(lambda connection: connection.execute(OLDS, (_BEFORE,)).fetchall())
        return [
            Old(
                name,
                f"schema {name} of {self._session.place}",
                int(size),
                moment_of(name.removeprefix(_BEFORE)),
            )
            for name, size in found
        ]

    async def drop_old(self, name: str) -> None:
        if name not in [old.name for old in await self.olds()]:
            raise NotFound(
                f"There is no old schema {name!r}.", advice="`mindhold status` names those there are."
            )
        await self._work(lambda connection: _drop(connection, name))

    def _refuse_others(self, connection: Connection) -> None:
        """Raises StoreBusy. One that has just gone may be known for a moment still."""
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
    """Whether there was one before. All or nothing, within the caller's transaction."""
    connection.execute("SET LOCAL search_path TO pg_catalog")  # so that definitions name their schema
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
