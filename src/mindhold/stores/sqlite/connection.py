"""Threads, connections and transactions of the SQLite store."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeVar

from mindhold.model.errors import SchemaTooNew, StoreError
from mindhold.stores.columns import to_micros
from mindhold.stores.sql import SYSTEM, SqlPart
from mindhold.stores.sqlite.rows import SQLITE, note_keywords
from mindhold.stores.sqlite_file import (
    make_private,
    primary_code,
    store_error,
    transaction,
    translated,
    until_free,
)

Steps = tuple[tuple[int, str], ...]

LIFE = 4  # from this step on records have a review date, and keywords a table

APPLICATION_ID = 0x5265636F  # "Reco"


@cache
def migrations() -> Steps:
    """Number and SQL of each migration, in order."""
    folder = files("mindhold.stores.sqlite").joinpath("migrations")
    entries = [entry for entry in folder.iterdir() if entry.name.endswith(".sql")]
    return tuple(sorted((int(entry.name[:4]), entry.read_text("utf-8")) for entry in entries))


def latest() -> int:
    return migrations()[-1][0]


def version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, path: Path, *, now: datetime, steps: Steps | None = None) -> None:
    """Apply missing migrations, all or none. Raises SchemaTooNew, and StoreError for another program's file."""
    steps = migrations() if steps is None else steps
    newest = steps[-1][0]
    if _is_current(connection, path, newest):
        return
    with transaction(connection):
        if _is_current(connection, path, newest):  # another process was faster
            return
        version = version_of(connection)
        if version == 0 and connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            raise StoreError(
                f"{path} is a database of another program.", advice="Choose another file or another home."
            )
        for number, script in steps:
            if number > version:
                for statement in statements(script):
                    connection.execute(statement)
        if version == 0:
            connection.execute("UPDATE scope SET created = ?", (to_micros(now),))
        elif version < LIFE <= newest:
            # Upkeep sees each record once. Earlier time doesn't count as fading, and no old record waits to be judged.
            connection.execute(
                "UPDATE memory SET review = ?1, decayed = ?1, verified = ?1, examined = ?1", (to_micros(now),)
            )
            note_keywords(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {newest}")


def statements(script: str) -> Iterator[str]:
    """The statements of a script, since executescript() would commit before the first."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if pending.strip():
        raise ValueError(f"unfinished statement: {pending!r}")


def _is_current(connection: sqlite3.Connection, path: Path, newest: int) -> bool:
    version = version_of(connection)
    if version > newest:
        raise SchemaTooNew(
            f"The database {path} has schema {version}; this Mindhold knows up to {newest}.",
            advice="Upgrade Mindhold, as whoever wrote the file did.",
        )
    return version == newest


_SAMPLE = 3


@dataclass(frozen=True, slots=True)
class FileContents:
    """The number of an agent's memories in a file, and the ids of its oldest and newest."""

    memories: int = 0
    ids: tuple[str, ...] = ()


def contents_of_file(path: Path, *, agent: str) -> FileContents:
    """The contents of a file; empty if it is missing or unreadable, since opening it gives the reason."""
    if not path.exists():
        return FileContents()
    own_memories = "FROM memory WHERE agent = ? AND status <> 'forgotten'"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            (memories,) = connection.execute(f"SELECT count(*) {own_memories}", (agent,)).fetchone()
            ids = {
                memory_id
                for order in ("", "DESC")
                for (memory_id,) in connection.execute(
                    f"SELECT id {own_memories} ORDER BY row {order} LIMIT {_SAMPLE}", (agent,)
                )
            }
            return FileContents(memories, tuple(sorted(ids)))
    except sqlite3.Error:
        return FileContents()


T = TypeVar("T")
Durability = Literal["full", "normal"]

_MOST_TOGETHER = 64


@dataclass(frozen=True, slots=True)
class _Waiting:
    work: Callable[[sqlite3.Connection], Any]
    lasting: bool
    answer: Future[Any] = field(default_factory=Future)


class SqliteDatabase:
    """One file with its writer and its readers."""

    def __init__(
        self,
        path: Path,
        *,
        busy_timeout_ms: int,
        readers: int,
        durability: Durability,
        most_pages: int | None,
    ) -> None:
        self.path = path.absolute()  # a relative path might begin with `file:`, which SQLite takes for a URI
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
        """Connect the writer and pass its connection to `prepare` before any other use."""
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
        """Finish running work, then close the file."""
        pools = [pool for pool in (self._read_threads, self._write_threads) if pool is not None]
        self._read_threads = self._write_threads = None
        if pools:
            await asyncio.to_thread(self._close, pools)

    async def read(self, work: Callable[[sqlite3.Connection], T], *, viewer: str = SYSTEM) -> T:
        """The result of `work` in one consistent view of all committed data.

        `viewer` has no effect: the statements themselves check access.
        """
        if self._read_threads is None:
            raise _not_open(self.path)
        return await asyncio.wrap_future(self._read_threads.submit(self._read, work))

    async def rows(
        self,
        statement: str,
        values: Any = (),
        *,
        viewer: str = SYSTEM,
        planned: bool = True,
        few: bool = False,
    ) -> list[tuple[Any, ...]]:
        """The rows of one statement."""
        if (
            few
            and (rows := await self.look(lambda reader: reader.execute(statement, values).fetchall()))
            is not None
        ):
            return rows
        return await self.read(lambda connection: connection.execute(statement, values).fetchall())

    async def look(self, work: Callable[[sqlite3.Connection], T | None]) -> T | None:
        """The result of `work`, run in the calling thread, which is faster than waking another; None if the file is locked.

        It may take a few milliseconds at most, because nothing else runs meanwhile.
        """
        if self._read_threads is None:
            raise _not_open(self.path)
        with translated(self.path):
            try:
                result = work(self._reader(busy_timeout_ms=0))
            except sqlite3.OperationalError as error:
                if primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    return None
                raise
        await asyncio.sleep(0)  # so that whoever reads until something changes doesn't keep it from changing
        return result

    async def write(self, work: Callable[[sqlite3.Connection], T], *, lasting: bool = True) -> T:
        """Run `work` in a transaction, durable when this returns. `work` may run again after a failed attempt.

        Without `lasting` a power cut may lose it until the next lasting write: for data that is merely useful.
        """
        if self._write_threads is None:
            raise _not_open(self.path)
        waiting = _Waiting(work, lasting)
        self._waiting.append(waiting)
        self._write_threads.submit(self._write_waiting)
        result: T = await asyncio.wrap_future(waiting.answer)
        return result

    async def alone(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the writer's connection outside any transaction, for VACUUM and the like."""
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

    def _connect(self, *, busy_timeout_ms: int | None = None) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=(self._busy_timeout_ms if busy_timeout_ms is None else busy_timeout_ms) / 1000,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        with self._lock:
            self._opened.append(connection)
        connection.execute("PRAGMA foreign_keys = on")
        return connection

    def _reader(self, *, busy_timeout_ms: int | None = None) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._connect(busy_timeout_ms=busy_timeout_ms)
            connection.execute("PRAGMA query_only = on")
            connection.execute("PRAGMA cache_size = -8000")
            self._local.connection = connection
        return connection

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with translated(self.path):
            return in_one_view(self._reader(), work)

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
        assert self._writer is not None
        for waiting in batch:
            try:
                with translated(self.path):
                    self._set_durability(self._needed([waiting]))
                    with transaction(self._writer):
                        result = waiting.work(self._writer)
            except BaseException as error:  # noqa: BLE001 - handed to the caller
                waiting.answer.set_exception(error)
            else:
                waiting.answer.set_result(result)

    def _needed(self, batch: list[_Waiting]) -> Durability:
        return self.durability if any(waiting.lasting for waiting in batch) else "normal"

    def _write_together(self, batch: list[_Waiting]) -> bool:
        """Write a batch in one transaction. Returns False if it failed: then each is tried alone."""
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
                (waiting, None, store_error(failure, self.path)) for waiting in batch
            ]  # all of them failed to get the lock
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


def in_one_view(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    """The result of `work` in one consistent view of all committed data."""
    connection.execute("BEGIN")
    try:
        return work(connection)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


class SqlitePart(SqlPart):
    """Base of the parts of the store, which share the database."""

    _database: SqliteDatabase
    _sql = SQLITE


def _not_open(path: Path) -> StoreError:
    return StoreError(f"The database {path} is not open.", advice="Call open() first.")
