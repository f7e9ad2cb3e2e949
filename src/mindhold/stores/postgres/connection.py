"""Threads, connections and transactions.

The driver's calls are made in a bounded number of threads, each with a connection of its own for as long as its work
takes. A connection is opened when it is needed and none is idle, by the one who needs it: so who can't have one learns
at once why, and a server that comes back is used at once.
"""

from __future__ import annotations

import asyncio
import math
import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from mindhold.model.errors import StoreAway, StoreBusy, StoreError
from mindhold.stores.postgres.adapting import adapters
from mindhold.stores.postgres.failures import translated
from mindhold.stores.postgres.session import Limits, Session

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]

SYSTEM = "system"  # sees all: for what the engine has decided already

_TRIES = 5  # of a write that met another's in a deadlock
_PAUSE_SECONDS = 0.05  # before the next try, longer each time and by chance, or the same two would meet again
_SEE_AS = "SELECT set_config('app.current_agent_id', %s, true)"
_BEGIN_WRITE = f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL app.current_agent_id = '{SYSTEM}'"
_HASTILY = "; SET LOCAL synchronous_commit = off"


class Part:
    """What the parts of the store share: their database."""

    _database: Database


@dataclass(slots=True)
class _Errand:
    """One piece of work on its way through a thread."""

    started: threading.Event = field(default_factory=threading.Event)
    connection: Connection | None = None
    abandoned: bool = False  # nobody waits for it any more: it changes nothing from now on

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


class _Silent(StoreBusy):
    """The server takes what is sent, and says nothing."""


@dataclass(frozen=True, slots=True)
class _Idle:
    connection: Connection
    since: float


class Database:
    """The server's database, as far as one process uses it."""

    def __init__(self, session: Session, limits: Limits) -> None:
        self.session = session
        self.limits = limits
        self._lock = threading.Lock()
        self._idle: list[_Idle] = []
        self._threads: ThreadPoolExecutor | None = None
        self._opening = asyncio.Lock()
        self._tidying: asyncio.TimerHandle | None = None

    @property
    def place(self) -> str:
        return self.session.place

    async def open(self, prepare: Callable[[Connection], None]) -> None:
        """Connect once and let `prepare` see the connection, outside any transaction, before anyone else does."""
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
        """Let what was asked for end, then let go of the server."""
        threads, self._threads = self._threads, None
        if threads is not None:
            await asyncio.to_thread(self._close, threads)

    async def read(self, work: Callable[[Connection], T], *, viewer: str = SYSTEM) -> T:
        """What `work` finds in one consistent view of everything that was committed before, as far as `viewer` sees."""
        return await self._run(
            lambda errand: self._read(errand, work, viewer), most=self.limits.total_seconds
        )

    async def rows(
        self, statement: str, values: Sequence[Any] = (), *, viewer: str = SYSTEM
    ) -> list[tuple[Any, ...]]:
        """What one statement finds: read in one journey, the end of the transaction included."""

        def work(errand: _Errand) -> list[tuple[Any, ...]]:
            return self._read(
                errand, lambda connection: connection.execute(statement, values), viewer
            ).fetchall()

        return await self._run(work, most=self.limits.total_seconds)

    async def write(self, work: Callable[[Connection], T], *, lasting: bool = True) -> T:
        """Run `work` in a transaction, durable when this returns. `work` may be run again after a failed try.

        Without `lasting` a crash of the server may lose it: for what is merely useful.
        """
        return await self._run(
            lambda errand: self._write(errand, work, lasting=lasting), most=self.limits.total_seconds
        )

    async def alone(self, work: Callable[[Connection], T], *, long: bool = False) -> T:
        """Run `work` outside any transaction and as the login itself: for upkeep, which looks at all records.

        With `long` it takes as long as it takes, while the server answers others.
        """
        most = None if long else self.limits.upkeep_seconds
        return await self._run(lambda errand: self._alone(errand, work), most=most)

    async def _run(self, work: Callable[[_Errand], T], *, most: float | None) -> T:
        """In at most so many seconds after it was begun."""
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
            if not future.cancel():  # most end by themselves soon, and their connection is of use again
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
        """Idle connections are given back also where nobody asks for anything more."""
        loop = asyncio.get_running_loop()
        if self._tidying is None or self._tidying.when() <= loop.time():
            self._tidying = loop.call_later(self.limits.idle_seconds, self._tidy)

    def _tidy(self) -> None:
        self._tidying = None
        self._drop_stale()
        if self._idle:
            self._tidy_later()

    async def _while_it_answers(self, waiting: asyncio.Future[Any], most: float) -> None:
        """Wait for the end. What takes long is asked for by another connection whether the server is still there."""
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
                continue  # others have all connections, and will find out

    def _begin(self, errand: _Errand, work: Callable[[_Errand], T]) -> T:
        errand.started.set()
        with translated(self.place):
            return work(errand)

    def _read(self, errand: _Errand, work: Callable[[Connection], T], viewer: str) -> T:
        while True:
            connection, fresh = self._lend(errand)
            try:
                # What a pipeline sends is one transaction, without a journey for its beginning or its end.
                with connection.pipeline():
                    connection.execute(_SEE_AS, (viewer,))
                    result = work(connection)
            except psycopg.Error:
                if self._take_back(errand, connection) or fresh:
                    raise
                continue  # an idle connection had died: reading again does no harm
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
                    raise  # else an idle connection had died
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
        """A connection, and whether it is a fresh one."""
        errand.go_on()
        self._drop_stale()
        with self._lock:
            lent = self._idle.pop().connection if self._idle else None
        if lent is not None:
            errand.connection = lent
            return lent, False
        return self.session.connect(made=errand.use), True

    def _take_back(self, errand: _Errand, connection: Connection) -> bool:
        """Whether it is still of use; where one has died, the others that are idle most likely have too."""
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
        for one in (connection, *dropped):
            one.close()
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
        for one in idle:
            one.connection.close()


async def _done(waiting: asyncio.Future[Any], seconds: float) -> bool:
    done, _ = await asyncio.wait({waiting}, timeout=seconds)
    return bool(done)


def _seen(ended: asyncio.Future[Any]) -> None:
    """Perhaps nobody waits for its outcome any more, which is no reason for a warning."""
    if not ended.cancelled():
        ended.exception()


__all__ = ["SYSTEM", "Connection", "Database", "Limits", "Part", "Session", "adapters"]
