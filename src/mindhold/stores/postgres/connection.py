"""Threads, connections, session settings, transactions, and LISTEN/NOTIFY of the PostgreSQL store."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import random
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from mindhold.model.errors import SettingsError, StoreAway, StoreBusy, StoreError
from mindhold.stores.postgres.driver import Connection, adapters, translated
from mindhold.stores.postgres.rows import POSTGRES
from mindhold.stores.sql import SYSTEM, SqlPart

SCHEMA = "agent_memory"
ROLE = "mindhold_app"  # a role without privileges, because row security doesn't apply to superusers

BREADTH_OF_SESSION = 128  # candidates that a search of the approximate index tracks

_GRACE_SECONDS = 5.0
_UPKEEP = 10  # factor of the time limit for upkeep statements, which read all records


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The number of connections, and time limits."""

    max_connections: int
    idle_timeout_ms: int
    connection_timeout_ms: int
    query_timeout_ms: int

    @property
    def working(self) -> int:
        """The connections for work; one more listens."""
        return max(1, self.max_connections - 1)

    @property
    def idle_seconds(self) -> float:
        return self.idle_timeout_ms / 1000

    @property
    def connection_seconds(self) -> float:
        return self.connection_timeout_ms / 1000

    @property
    def total_seconds(self) -> float:
        """The time limit for all statements of a call. The server ends each of them earlier, unless the server itself hangs."""
        return self.connection_seconds + 2 * self.query_timeout_ms / 1000 + _GRACE_SECONDS

    @property
    def upkeep_timeout_ms(self) -> int:
        return _UPKEEP * self.query_timeout_ms

    @property
    def upkeep_seconds(self) -> float:
        """The same time limit for upkeep."""
        return self.connection_seconds + 2 * self.upkeep_timeout_ms / 1000 + _GRACE_SECONDS


class SessionFactory:
    """Opens connections."""

    def __init__(self, conninfo: str, limits: ConnectionLimits, *, schema: str = SCHEMA) -> None:
        parameters = _understood(conninfo)
        if parameters is None:
            raise SettingsError(
                "postgres.url is no address of a PostgreSQL database.",
                advice="Write postgresql://user:password@host:port/database, and in the password %40 for @, %2F for / "
                "and %25 for %.",
            )
        logging.getLogger("psycopg").addFilter(_is_news)
        self._conninfo = conninfo
        self._limits = limits
        self.schema = schema
        self.place = _place(parameters)
        # Set when the store is opened.
        self.role: str | None = None
        self.bound = False  # whether row security applies to this login, or to the role that it takes
        self.vectors_in: str | None = None  # the schema of the pgvector extension
        self.vectors_version: tuple[int, ...] = ()
        self.without_vectors: tuple[str, str] = ("", "")  # why there are no vectors, and what to do about it

    def within(self, statement: str) -> str:
        """A statement for the usual schema, rewritten for this one."""
        return statement.replace(SCHEMA, self.schema)

    @property
    def iterating(self) -> bool:
        """Whether the approximate index can continue until a filter is satisfied."""
        return self.vectors_version >= (0, 8)

    def connect(
        self, *, as_login: bool = False, made: Callable[[Connection], None] | None = None
    ) -> Connection:
        """An autocommit connection. `as_login` makes one without the role and with more time, for upkeep.

        `made` gets it before the first statement.
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
            # Statements are short: compiling or parallelizing them costs more than it saves.
            sql.SQL("SET jit = off; SET max_parallel_workers_per_gather = 0; SET TimeZone = 'UTC'"),
            # Data is in memory or on an SSD; the default is for a hard disk.
            sql.SQL("SET random_page_cost = 1.1"),
        ]
        if as_login:
            settings.append(sql.SQL("SET app.current_agent_id = 'system'"))
        else:  # writers say so themselves
            settings.append(sql.SQL("SET default_transaction_isolation = 'repeatable read'"))
            settings.append(sql.SQL("SET default_transaction_read_only = on"))
        if self.vectors_in is not None:
            settings.append(sql.SQL("SET hnsw.ef_search = {}").format(sql.Literal(BREADTH_OF_SESSION)))
        if self.iterating:  # continue until a filter is satisfied
            settings.append(sql.SQL("SET hnsw.iterative_scan = strict_order"))
        if not as_login and self.role is not None:
            settings.append(sql.SQL("SET ROLE {}").format(sql.Identifier(self.role)))
        connection.execute(sql.SQL("; ").join(settings))


@contextmanager
def unlimited(connection: Connection) -> Iterator[None]:
    """Suspend the time limit of statements."""
    (before,) = connection.execute("SELECT current_setting('statement_timeout')").fetchall()[0]
    connection.execute("SET statement_timeout = 0")
    try:
        yield
    finally:
        with suppress(psycopg.Error):
            connection.execute("SELECT set_config('statement_timeout', %s, false)", (before,))


def _understood(conninfo: str) -> dict[str, Any] | None:
    """The parameters; None if they are invalid or an unescaped password spills into host, port or database."""
    try:
        parameters: dict[str, Any] = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:  # its message may contain the password
        return None
    host, port, database = (str(parameters.get(name) or "") for name in ("host", "port", "dbname"))
    astray = any("@" in part[1:] for part in host.split(","))  # a leading @ is an abstract socket
    astray |= any(part and not part.isdigit() for part in port.split(","))
    astray |= conninfo.startswith("postgres") and "@" in database
    return None if astray else parameters


def _is_news(record: logging.LogRecord) -> bool:
    """Filters out the driver's log messages about dead connections, which are raised as errors too."""
    return not str(record.msg).startswith("error ignored")


def _place(parameters: dict[str, Any]) -> str:
    """The address without user name and password."""
    host, port = parameters.get("host") or "localhost", parameters.get("port") or 5432
    return f"{parameters.get('dbname') or parameters.get('user') or ''} at {host}:{port}"


CHANNEL = "mindhold_changes"

_TOGETHER_SECONDS = 0.05
_AGAIN_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)

# Notify others that records were changed.
TELL = f"SELECT pg_notify('{CHANNEL}', %s)"


class ChangeListener:
    """Calls `heard` from its own thread with the number of records that other processes changed."""

    def __init__(self, session: SessionFactory, *, heard: Callable[[int], None]) -> None:
        self._session = session
        self._heard = heard
        self._name = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._untold = 0
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._bell: tuple[socket.socket, socket.socket] | None = None
        self.listening = threading.Event()  # set while no notification can be missed

    def start(self) -> None:
        if self._thread is None:
            self._stopping.clear()
            self._bell = socket.socketpair()
            self._bell[1].setblocking(False)
            self._thread = threading.Thread(target=self._run, name="mindhold-notices", daemon=True)
            self._thread.start()

    async def stop(self) -> None:
        """Stop, sending pending notifications if the server is there."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping.set()
            self._ring()
            await asyncio.to_thread(thread.join)
            for end in self._bell or ():
                end.close()
            self._bell = None

    def tell(self, records: int) -> None:
        """Notify others soon, together with other pending notifications."""
        with self._lock:
            first, self._untold = not self._untold, self._untold + records
        if first:
            self._ring()

    def _ring(self) -> None:
        if self._bell is not None:
            with suppress(OSError):
                self._bell[1].send(b"!")

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                with self._session.connect() as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    failures = 0
                    self.listening.set()
                    self._heard(0)
                    self._attend(connection)
            except (psycopg.Error, OSError):
                self.listening.clear()
                self._stopping.wait(_AGAIN_SECONDS[min(failures, len(_AGAIN_SECONDS) - 1)])
                failures += 1
            finally:
                self.listening.clear()

    def _attend(self, connection: psycopg.Connection[Any]) -> None:
        assert self._bell is not None
        bell = self._bell[0]
        # select() is limited to the first 1,024 file descriptors.
        with selectors.DefaultSelector() as waiting:
            waiting.register(connection.fileno(), selectors.EVENT_READ)
            waiting.register(bell, selectors.EVENT_READ)
            while not self._stopping.is_set():
                ready = [key.fileobj for key, _ in waiting.select()]
                for notice in connection.notifies(timeout=0):
                    self._hear(notice.payload)
                if bell in ready:
                    bell.recv(1024)
                    self._stopping.wait(_TOGETHER_SECONDS)
                    self._tell(connection)
        self._tell(connection)

    def _tell(self, connection: psycopg.Connection[Any]) -> None:
        with self._lock:
            records = self._untold
        if records:
            connection.execute(TELL, (json.dumps({"who": self._name, "records": records}),))
        with self._lock:
            self._untold -= records
            more = self._untold > 0
        if more:
            self._ring()

    def _hear(self, payload: str) -> None:
        try:
            notice = json.loads(payload)
            sender, records = str(notice["who"]), int(notice["records"])
        except (ValueError, KeyError, TypeError):
            return  # another program's message on the channel
        if sender != self._name:
            self._heard(records)


T = TypeVar("T")

_TRIES = 5  # attempts of a write that ran into a deadlock
_PAUSE_SECONDS = 0.05  # before the next attempt, random and growing, or the same two would meet again
_SEE_AS = "SELECT set_config('app.current_agent_id', %s, true)"
_BEGIN_WRITE = f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL app.current_agent_id = '{SYSTEM}'"
_HASTILY = "; SET LOCAL synchronous_commit = off"


@dataclass(slots=True)
class _Errand:
    """One piece of work in a thread."""

    started: threading.Event = field(default_factory=threading.Event)
    connection: Connection | None = None
    abandoned: bool = False  # nobody waits for it any more, so it must not change anything

    def use(self, connection: Connection | None) -> None:
        self.connection = connection
        self.go_on()

    def go_on(self) -> None:
        if self.abandoned:
            raise StoreBusy("Nobody waits for the answer any more.")

    def cut(self) -> None:
        """Wake the thread that waits for a silent server."""
        connection = self.connection
        if connection is None or connection.closed:
            return
        with suppress(OSError, psycopg.Error), socket.socket(fileno=socket.dup(connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)


class PostgresDatabase:
    """One process's access to the database of the server."""

    def __init__(self, session: SessionFactory, limits: ConnectionLimits) -> None:
        self.session = session
        self.place = session.place
        self.limits = limits
        self._lock = threading.Lock()
        self._idle: list[_Idle] = []
        self._threads: ThreadPoolExecutor | None = None
        self._opening = asyncio.Lock()
        self._tidying: asyncio.TimerHandle | None = None

    async def open(self, prepare: Callable[[Connection], None]) -> None:
        """Connect once and pass the connection to `prepare`, outside any transaction, before any other use."""
        async with self._opening:
            if self._threads is not None:
                return
            self._threads = ThreadPoolExecutor(self.limits.working, thread_name_prefix="mindhold-postgres")
            try:
                await self._run(lambda errand: self._alone(errand, prepare), most=self.limits.total_seconds)
            except BaseException:
                await self.close()
                raise

    async def close(self) -> None:
        """Finish running work, then close the connections."""
        threads, self._threads = self._threads, None
        if threads is not None:
            await asyncio.to_thread(self._close, threads)

    async def read(self, work: Callable[[Connection], T], *, viewer: str = SYSTEM) -> T:
        """The result of `work` in one consistent view of all committed data that `viewer` may see."""
        return await self._run(
            lambda errand: self._read(errand, work, viewer), most=self.limits.total_seconds
        )

    async def rows(
        self,
        statement: str,
        values: Any = (),
        *,
        viewer: str = SYSTEM,
        planned: bool = True,
        few: bool = False,
    ) -> list[tuple[Any, ...]]:
        """The rows of one statement, in one round trip including the end of the transaction.

        Without `planned` it is planned for these very values: a plan that fits every filter would fit none.
        """
        prepare = None if planned else False

        def work(errand: _Errand) -> list[tuple[Any, ...]]:
            return self._read(
                errand, lambda connection: connection.execute(statement, values, prepare=prepare), viewer
            ).fetchall()

        return await self._run(work, most=self.limits.total_seconds)

    async def write(self, work: Callable[[Connection], T], *, lasting: bool = True) -> T:
        """Run `work` in a transaction, durable when this returns. `work` may run again after a failed attempt.

        Without `lasting` a crash of the server may lose it: for data that is merely useful.
        """
        return await self._run(
            lambda errand: self._write(errand, work, lasting=lasting), most=self.limits.total_seconds
        )

    async def alone(self, work: Callable[[Connection], T], *, long: bool = False) -> T:
        """Run `work` outside any transaction and as the login itself, for upkeep, which reads all records.

        With `long` there is no time limit as long as the server answers other connections.
        """
        most = None if long else self.limits.upkeep_seconds
        return await self._run(lambda errand: self._alone(errand, work), most=most)

    async def _run(self, work: Callable[[_Errand], T], *, most: float | None) -> T:
        """Run work in a thread, at most `most` seconds after its start."""
        if self._threads is None:
            raise StoreError(f"The database {self.place} is not open.", advice="Call open() first.")
        errand = _Errand()
        future = self._threads.submit(self._begin, errand, work)
        waiting = asyncio.wrap_future(future)
        waiting.add_done_callback(_seen)
        try:
            in_time = await _done(waiting, self.limits.connection_seconds)
            if not in_time and not errand.started.is_set() and future.cancel():
                raise StoreBusy(
                    f"All {self.limits.working} connections to the database {self.place} are in use.",
                    advice="Try again, or raise the setting postgres.max_connections.",
                )
            await self._while_it_answers(waiting, math.inf if most is None else most)
            return await waiting
        except asyncio.CancelledError:
            errand.abandoned = True
            if not future.cancel():  # most end soon by themselves and keep their connection usable
                later = self.limits.total_seconds if most is not None else 0.0
                asyncio.get_running_loop().call_later(later, errand.cut)
            raise
        except (_Silent, StoreAway):
            errand.abandoned = True
            errand.cut()
            raise
        finally:
            self._tidy_later()

    def _tidy_later(self) -> None:
        """Close idle connections later, also if no more calls come."""
        loop = asyncio.get_running_loop()
        if self._tidying is None or self._tidying.when() <= loop.time():
            self._tidying = loop.call_later(self.limits.idle_seconds, self._tidy)

    def _tidy(self) -> None:
        self._tidying = None
        self._drop_stale()
        if self._idle:
            self._tidy_later()

    async def _while_it_answers(self, waiting: asyncio.Future[Any], most: float) -> None:
        """Wait for the end. During long work, check on another connection whether the server still answers."""
        usual, waited = self.limits.total_seconds, 0.0
        while not await _done(waiting, min(usual, most - waited)):
            waited += usual
            if waited >= most:
                raise _Silent(
                    f"The database {self.place} did not answer in {most:.0f} seconds.",
                    advice="Look at the server; what was asked may or may not have been done.",
                )
            try:
                await self.read(lambda connection: connection.execute("SELECT 1").fetchall())
            except (_Silent, StoreAway):
                raise
            except StoreBusy:
                continue  # others use all connections, and will notice

    def _begin(self, errand: _Errand, work: Callable[[_Errand], T]) -> T:
        errand.started.set()
        with translated(self.place):
            return work(errand)

    def _read(self, errand: _Errand, work: Callable[[Connection], T], viewer: str) -> T:
        while True:
            connection, fresh = self._lend(errand)
            try:
                # A pipeline is one transaction, without round trips for its begin and end.
                with connection.pipeline():
                    connection.execute(_SEE_AS, (viewer,))
                    result = work(connection)
            except psycopg.Error:
                if self._take_back(errand, connection) or fresh:
                    raise
                continue  # an idle connection had died: reading again is harmless
            except BaseException:
                self._take_back(errand, connection)
                raise
            self._take_back(errand, connection)
            return result

    def _write(self, errand: _Errand, work: Callable[[Connection], T], *, lasting: bool) -> T:
        for attempt in range(1, _TRIES + 1):
            connection, fresh = self._lend(errand)
            begun = committing = False
            try:
                connection.execute(_BEGIN_WRITE + ("" if lasting else _HASTILY))
                begun = True
                result = work(connection)
                errand.go_on()
                committing = True
                connection.execute("COMMIT")
            except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
                self._take_back(errand, connection)
                if attempt == _TRIES:
                    raise
                time.sleep(random.uniform(0, _PAUSE_SECONDS * 2**attempt))
            except BaseException as error:
                alive = self._take_back(errand, connection)
                if not alive and committing:
                    raise StoreAway(
                        f"The database {self.place} went away while it was writing.",
                        advice="Whether that was stored is not known: look before you store it again.",
                    ) from error
                if alive or fresh or begun:
                    raise  # otherwise an idle connection had died
            else:
                self._take_back(errand, connection)
                return result
        raise StoreAway(
            f"The database {self.place} drops its connections.", advice="Look at the server's log."
        )

    def _alone(self, errand: _Errand, work: Callable[[Connection], T]) -> T:
        with self._lock:
            room = self._idle.pop(0).connection if self._idle else None
        if room is not None:
            room.close()
        connection = self.session.connect(as_login=True, made=errand.use)
        try:
            return work(connection)
        finally:
            connection.close()

    def _lend(self, errand: _Errand) -> tuple[Connection, bool]:
        """A connection, and whether it is new."""
        errand.go_on()
        self._drop_stale()
        with self._lock:
            lent = self._idle.pop().connection if self._idle else None
        if lent is not None:
            errand.connection = lent
            return lent, False
        return self.session.connect(made=errand.use), True

    def _take_back(self, errand: _Errand, connection: Connection) -> bool:
        """Return a connection. Returns whether it is usable; if it died, the idle ones probably have too."""
        errand.connection = None
        if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK")
        alive = not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE
        with self._lock:
            if alive and self._threads is not None:
                self._idle.append(_Idle(connection, time.monotonic()))
                return True
            dropped = [] if alive else [idle.connection for idle in self._idle]
            self._idle = [] if not alive else self._idle
        for closing in (connection, *dropped):
            closing.close()
        return alive

    def _drop_stale(self) -> None:
        latest = time.monotonic() - self.limits.idle_seconds
        with self._lock:
            if not self._idle or self._idle[0].since >= latest:
                return
            stale = [idle for idle in self._idle if idle.since < latest]
            self._idle = [idle for idle in self._idle if idle.since >= latest]
        for idle in stale:
            idle.connection.close()

    def _close(self, threads: ThreadPoolExecutor) -> None:
        threads.shutdown(wait=True)
        with self._lock:
            idle, self._idle = self._idle, []
        for unused in idle:
            unused.connection.close()


class PostgresPart(SqlPart):
    """Base of the parts of the store, which share the database."""

    _database: PostgresDatabase
    _sql = POSTGRES


class _Silent(StoreBusy):
    """The server accepts data but doesn't answer."""


@dataclass(frozen=True, slots=True)
class _Idle:
    connection: Connection
    since: float


async def _done(waiting: asyncio.Future[Any], seconds: float) -> bool:
    finished, _ = await asyncio.wait({waiting}, timeout=seconds)
    return bool(finished)


def _seen(ended: asyncio.Future[Any]) -> None:
    """Retrieve the outcome, so that asyncio doesn't warn if nobody waits for it."""
    if not ended.cancelled():
        ended.exception()
