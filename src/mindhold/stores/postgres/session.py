"""What a connection is told when it is made, and as whom it works."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from mindhold.model.errors import SettingsError
from mindhold.stores.postgres.adapting import adapters

Connection = psycopg.Connection[tuple[Any, ...]]

SCHEMA = "agent_memory"
ROLE = "mindhold_app"  # a role without privileges: row security binds no superuser

BREADTH_OF_SESSION = 128  # candidates that the approximate index keeps in view

_GRACE_SECONDS = 5.0
_UPKEEP = 10  # times as long as others a statement of upkeep may take: it looks at all records


@dataclass(frozen=True, slots=True)
class Limits:
    """How many connections, and how long anything may take."""

    max_connections: int
    idle_timeout_ms: int
    connection_timeout_ms: int
    query_timeout_ms: int

    @property
    def working(self) -> int:
        """One more listens."""
        return max(1, self.max_connections - 1)

    @property
    def idle_seconds(self) -> float:
        return self.idle_timeout_ms / 1000

    @property
    def connection_seconds(self) -> float:
        return self.connection_timeout_ms / 1000

    @property
    def total_seconds(self) -> float:
        """For all statements of a call; the server ends each of them earlier, unless it hangs itself."""
        return self.connection_seconds + 2 * self.query_timeout_ms / 1000 + _GRACE_SECONDS

    @property
    def upkeep_timeout_ms(self) -> int:
        return _UPKEEP * self.query_timeout_ms

    @property
    def upkeep_seconds(self) -> float:
        """The same, of upkeep."""
        return self.connection_seconds + 2 * self.upkeep_timeout_ms / 1000 + _GRACE_SECONDS


class Session:
    """Makes connections."""

    def __init__(self, conninfo: str, limits: Limits, *, schema: str = SCHEMA) -> None:
        known = _understood(conninfo)
        if known is None:
            raise SettingsError(
                "postgres.url is no address of a PostgreSQL database.",
                advice="Write postgresql://user:password@host:port/database, and in the password %40 for @, %2F for / "
                "and %25 for %.",
            )
        logging.getLogger("psycopg").addFilter(_is_news)
        self._conninfo = conninfo
        self._limits = limits
        self.schema = schema
        self.place = _place(known)
        # Found out when the store is opened.
        self.role: str | None = None
        self.bound = False  # whether row security holds for this login, or for the role that it takes
        self.vectors_in: str | None = None  # the schema of the extension
        self.vectors_version: tuple[int, ...] = ()
        self.without_vectors: tuple[str, str] = ("", "")  # why there are none, and what to do about it

    def within(self, statement: str) -> str:
        """A statement that names the usual schema, for this one."""
        return statement.replace(SCHEMA, self.schema)

    @property
    def iterating(self) -> bool:
        """Whether the approximate index can look on until a filter is satisfied."""
        return self.vectors_version >= (0, 8)

    def connect(
        self, *, as_login: bool = False, made: Callable[[Connection], None] | None = None
    ) -> Connection:
        """A connection that commits by itself; `as_login` without role and with more time, for upkeep.

        `made` has it before anything is asked of the server.
        """
        connection = psycopg.connect(
            self._conninfo,
            autocommit=True,
            context=adapters(),
            connect_timeout=max(2, math.ceil(self._limits.connection_seconds)),
            application_name="mindhold",
            keepalives_idle=30,
            keepalives_interval=5,
            keepalives_count=3,
        )
        try:
            if made is not None:
                made(connection)
            self._prepare(connection, as_login=as_login)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: Connection, *, as_login: bool) -> None:
        timeout = self._limits.upkeep_timeout_ms if as_login else self._limits.query_timeout_ms
        path = [self.schema, *([self.vectors_in] if self.vectors_in else [])]
        settings = [
            sql.SQL("SET search_path TO {}").format(sql.SQL(", ").join(map(sql.Identifier, path))),
            sql.SQL("SET statement_timeout = {}").format(sql.Literal(timeout)),
            sql.SQL("SET lock_timeout = {}").format(sql.Literal(self._limits.query_timeout_ms)),
            sql.SQL("SET idle_in_transaction_session_timeout = {}").format(
                sql.Literal(2 * self._limits.query_timeout_ms)
            ),
            # Statements are short: compiling or sharing them costs more than they do.
            sql.SQL("SET jit = off; SET max_parallel_workers_per_gather = 0; SET TimeZone = 'UTC'"),
            # What is searched is in memory or on a disk without arms; the default is for one with them.
            sql.SQL("SET random_page_cost = 1.1"),
        ]
        if as_login:
            settings.append(sql.SQL("SET app.current_agent_id = 'system'"))
        else:  # who writes says so
            settings.append(sql.SQL("SET default_transaction_isolation = 'repeatable read'"))
            settings.append(sql.SQL("SET default_transaction_read_only = on"))
        if self.vectors_in is not None:
            settings.append(sql.SQL("SET hnsw.ef_search = {}").format(sql.Literal(BREADTH_OF_SESSION)))
        if self.iterating:  # it looks on until a filter is satisfied
            settings.append(sql.SQL("SET hnsw.iterative_scan = strict_order"))
        if not as_login and self.role is not None:
            settings.append(sql.SQL("SET ROLE {}").format(sql.Identifier(self.role)))
        connection.execute(sql.SQL("; ").join(settings))


@contextmanager
def unlimited(connection: Connection) -> Iterator[None]:
    """Statements take as long as they take."""
    (before,) = connection.execute("SELECT current_setting('statement_timeout')").fetchall()[0]
    connection.execute("SET statement_timeout = 0")
    try:
        yield
    finally:
        with suppress(psycopg.Error):
            connection.execute("SELECT set_config('statement_timeout', %s, false)", (before,))


def _understood(conninfo: str) -> dict[str, Any] | None:
    """None also where a part of a password that is not escaped stands for a host, a port or a database."""
    try:
        known: dict[str, Any] = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:  # whose words may hold the password
        return None
    host, port, database = (str(known.get(name) or "") for name in ("host", "port", "dbname"))
    astray = any("@" in one[1:] for one in host.split(","))  # what begins with it is a socket's name
    astray |= any(one and not one.isdigit() for one in port.split(","))
    astray |= conninfo.startswith("postgres") and "@" in database
    return None if astray else known


def _is_news(record: logging.LogRecord) -> bool:
    """Not what the driver says of a connection that has died: that is raised as an error, too."""
    return not str(record.msg).startswith("error ignored")


def _place(known: dict[str, Any]) -> str:
    """The address without name and password."""
    host, port = known.get("host") or "localhost", known.get("port") or 5432
    return f"{known.get('dbname') or known.get('user') or ''} at {host}:{port}"
