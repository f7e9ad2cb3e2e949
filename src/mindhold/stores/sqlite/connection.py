"""Threads, connections and transactions.

One thread writes, with one connection; a few threads read. In WAL mode they don't wait for each other. Writes that
wait together are committed together, each in a savepoint of its own, so that they share the cost of being durable.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from mindhold.model.errors import StoreError
from mindhold.stores.sqlite_file import (
    as_ours,
    make_private,
    primary_code,
    transaction,
    translated,
    until_free,
)

__all__ = ["Database", "Durability", "Part", "make_private", "transaction", "translated"]

T = TypeVar("T")
Durability = Literal["full", "normal"]

_MOST_TOGETHER = 64


class Part:
    """What the parts of the store share: their database."""

    _database: Database


@dataclass(frozen=True, slots=True)
class _Waiting:
    work: Callable[[sqlite3.Connection], Any]
    lasting: bool
    answer: Future[Any] = field(default_factory=Future)


class Database:
    """One file, its writer and its readers."""

    def __init__(
        self,
        path: Path,
        *,
        busy_timeout_ms: int,
        readers: int,
        durability: Durability,
        most_pages: int | None,
    ) -> None:
        self.path = path.absolute()  # a relative one might begin with `file:`, which SQLite takes for a URI
        self._busy_timeout_ms = busy_timeout_ms
        self._readers = readers
        self.durability = durability
        self._most_pages = most_pages
        self._waiting: deque[_Waiting] = deque()
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._synced: Durability | None = None
        self._write_threads: ThreadPoolExecutor | None = None
        self._read_threads: ThreadPoolExecutor | None = None

    async def open(self, prepare: Callable[[sqlite3.Connection], None]) -> None:
        """Connect the writer and let `prepare` see it before anyone else does."""
        if self._writer is not None:
            return
        self._write_threads = ThreadPoolExecutor(1, thread_name_prefix="mindhold-write")
        self._read_threads = ThreadPoolExecutor(self._readers, thread_name_prefix="mindhold-read")
        try:
            await asyncio.wrap_future(self._write_threads.submit(self._open, prepare))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Let what was asked for end, then let go of the file."""
        pools = [pool for pool in (self._read_threads, self._write_threads) if pool is not None]
        self._read_threads = self._write_threads = None
        if pools:
            await asyncio.to_thread(self._close, pools)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` finds in one consistent view of everything that was committed before."""
        if self._read_threads is None:
            raise _not_open(self.path)
        return await asyncio.wrap_future(self._read_threads.submit(self._read, work))

    async def write(self, work: Callable[[sqlite3.Connection], T], *, lasting: bool = True) -> T:
        """Run `work` in a transaction, durable when this returns. `work` may be run again after a failed try.

        Without `lasting` a power cut may lose it until something lasting is written: for what is merely useful.
        """
        if self._write_threads is None:
            raise _not_open(self.path)
        waiting = _Waiting(work, lasting)
        self._waiting.append(waiting)
        self._write_threads.submit(self._write_waiting)
        result: T = await asyncio.wrap_future(waiting.answer)
        return result

    async def alone(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the writer's connection outside any transaction, for VACUUM and its like."""
        if self._write_threads is None:
            raise _not_open(self.path)
        return await asyncio.wrap_future(self._write_threads.submit(self._alone, work))

    def _open(self, prepare: Callable[[sqlite3.Connection], None]) -> None:
        make_private(self.path)
        with translated(self.path):
            connection = self._connect()
            until_free(
                lambda: connection.execute("PRAGMA journal_mode = wal").fetchone(),
                busy_timeout_ms=self._busy_timeout_ms,
            )
            self._set_durability(self.durability, connection)
            connection.execute("PRAGMA secure_delete = on")
            connection.execute("PRAGMA wal_autocheckpoint = 4000")
            connection.execute(f"PRAGMA journal_size_limit = {64 << 20}")
            connection.execute("PRAGMA cache_size = -16000")
            if self._most_pages is not None:
                connection.execute(f"PRAGMA max_page_count = {self._most_pages}")
            until_free(lambda: prepare(connection), busy_timeout_ms=self._busy_timeout_ms)
        self._writer = connection

    def _set_durability(self, durability: Durability, connection: sqlite3.Connection | None = None) -> None:
        writer = connection or self._writer
        if writer is not None and durability != self._synced:
            writer.execute(f"PRAGMA synchronous = {durability}")
            self._synced = durability

    def _close(self, pools: list[ThreadPoolExecutor]) -> None:
        for pool in pools:
            pool.shutdown(wait=True)
        self._writer = self._synced = None
        self._local = threading.local()
        with self._lock:
            connections, self._opened = self._opened, []
        for connection in connections:
            connection.close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=self._busy_timeout_ms / 1000,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        with self._lock:
            self._opened.append(connection)
        connection.execute("PRAGMA foreign_keys = on")
        return connection

    def _reader(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._connect()
            connection.execute("PRAGMA query_only = on")
            connection.execute("PRAGMA cache_size = -8000")
            self._local.connection = connection
        return connection

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with translated(self.path):
            connection = self._reader()
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def _alone(self, work: Callable[[sqlite3.Connection], T]) -> T:
        assert self._writer is not None
        with translated(self.path):
            return work(self._writer)

    def _write_waiting(self) -> None:
        batch: list[_Waiting] = []
        while self._waiting and len(batch) < _MOST_TOGETHER:
            waiting = self._waiting.popleft()
            if waiting.answer.set_running_or_notify_cancel():
                batch.append(waiting)
        if len(batch) > 1 and self._write_together(batch):
            return
        for waiting in batch:
            try:
                result = self._write(waiting)
            except BaseException as error:  # noqa: BLE001 - handed to the caller
                waiting.answer.set_exception(error)
            else:
                waiting.answer.set_result(result)

    def _write(self, waiting: _Waiting) -> Any:
        assert self._writer is not None
        with translated(self.path):
            self._set_durability(self._needed([waiting]))
            with transaction(self._writer):
                return waiting.work(self._writer)

    def _needed(self, batch: list[_Waiting]) -> Durability:
        return self.durability if any(waiting.lasting for waiting in batch) else "normal"

    def _write_together(self, batch: list[_Waiting]) -> bool:
        """False if the common transaction failed: then each is to be tried alone."""
        assert self._writer is not None
        outcomes: list[tuple[_Waiting, Any, BaseException | None]] = []
        try:
            self._set_durability(self._needed(batch))
            with transaction(self._writer):
                for waiting in batch:
                    outcomes.append((waiting, *self._within_savepoint(self._writer, waiting.work)))
        except sqlite3.Error as failure:
            if primary_code(failure) != sqlite3.SQLITE_BUSY:
                return False
            outcomes = [
                (waiting, None, as_ours(failure, self.path)) for waiting in batch
            ]  # all waited in vain
        for waiting, result, error in outcomes:
            if error is None:
                waiting.answer.set_result(result)
            else:
                waiting.answer.set_exception(error)
        return True

    def _within_savepoint(
        self, connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], Any]
    ) -> tuple[Any, BaseException | None]:
        connection.execute("SAVEPOINT one")
        try:
            with translated(self.path):
                result = work(connection)
        except BaseException as error:
            if not connection.in_transaction:  # SQLite rolled the others back as well
                raise sqlite3.OperationalError("the transaction is gone") from error
            connection.execute("ROLLBACK TO one")
            connection.execute("RELEASE one")
            return None, error
        connection.execute("RELEASE one")
        return result, None


def _not_open(path: Path) -> StoreError:
    return StoreError(f"The database {path} is not open.", advice="Call open() first.")
