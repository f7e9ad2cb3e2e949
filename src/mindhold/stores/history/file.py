"""The file of the index: opened when it is first needed, one writer in a process, readers as many as call.

Whoever deletes the file loses nothing: those who had it open see that it is another one now, and begin anew.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from mindhold.model.errors import SchemaTooNew, StoreBusy, StoreDamaged
from mindhold.stores.history.schema import (
    LOG_UNCLEAN,
    PAGES_UNCLEAN,
    UNCLEAN_YET,
    VERSION,
    empty,
    make,
    version_of,
)
from mindhold.stores.sqlite_file import make_private, primary_code, transaction, translated, until_free

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
Identity = tuple[int, int] | None

_MOST_IDLE = 4
_PAGE_BYTES = 8192
_LOG_BYTES = 16 << 20
_CLEANING_MS = 2_000  # that readers are waited for
_CLEANING_PAUSE = 60.0  # seconds after which it is tried again where it failed
_UNOPENED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)

log = logging.getLogger(__name__)


class HistoryFile:
    """`most_pages` bounds the file."""

    def __init__(self, path: Path, *, busy_timeout_ms: int, most_pages: int | None) -> None:
        self.path = path.absolute()
        self._busy_timeout_ms = busy_timeout_ms
        self._most_pages = most_pages
        self._lock = threading.Lock()  # of what follows
        self._identity: Identity = None
        self._idle: list[sqlite3.Connection] = []
        self._writing = threading.RLock()
        self._writer: sqlite3.Connection | None = None
        self._written: Identity = None
        self._rewritten_from = self._waited_from = 0.0  # by monotonic(): not before, since it failed

    def read(self, work: Work[T]) -> T:
        """What `work` finds in one consistent view. Where there is no file, or a damaged one: in an empty index."""
        for _ in range(2):
            identity = self._look()
            try:
                return self._read(work, identity)
            except StoreDamaged as error:
                self._discard(error, identity)
        return self._read_nothing(work)

    def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction. Raises StoreDamaged once after it made a damaged file anew: what the caller knew of
        the index isn't so any more."""
        with self._writing:
            identity = _identity(self.path)
            try:
                with translated(self.path):
                    connection = self._opened_writer()
                    with transaction(connection):
                        result = work(connection)
                    self._clean(connection)
                    return result
            except StoreDamaged as error:
                if not self._discard(error, identity):
                    raise StoreBusy(
                        f"The index of past conversations {self.path} is damaged, and can't be deleted to be made anew.",
                        advice="End other programs that have it open, such as `mindhold serve`, or delete the file.",
                    ) from error
                raise StoreDamaged(
                    f"The index of past conversations {self.path} was damaged and is made anew.",
                    advice="`mindhold history index` fills it again.",
                ) from error

    def bytes_on_disk(self) -> int:
        """With the log beside it."""
        total = 0
        for suffix in ("", "-wal"):
            with suppress(OSError):
                total += Path(f"{self.path}{suffix}").stat().st_size
        return total

    def close(self) -> None:
        """Idempotent; the next use opens it again."""
        with self._writing:
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.close()
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _read(self, work: Work[T], identity: Identity) -> T:
        if identity is None:
            return self._read_nothing(work)
        with translated(self.path):
            connection, kept = self._reader()
            try:
                connection.execute("BEGIN")
                version = version_of(connection)
                if version > VERSION:
                    raise _too_new(self.path)
                if version == VERSION:
                    return work(connection)
            except BaseException:
                kept = False
                raise
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._give_back(connection, identity if kept else None)
        return self._read_nothing(work)

    def _read_nothing(self, work: Work[T]) -> T:
        connection = empty()
        try:
            return work(connection)
        finally:
            connection.close()

    def _reader(self) -> tuple[sqlite3.Connection, bool]:
        """With whether it may be used again."""
        with self._lock:
            if self._idle:
                return self._idle.pop(), True
        connection = self._connect(str(self.path))
        try:
            connection.execute("PRAGMA query_only = on")
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            return connection, True
        except sqlite3.OperationalError as error:
            connection.close()
            if primary_code(error) not in _UNOPENED:
                raise
        # The disk or the folder may only be read: nobody can be writing.
        return self._connect(f"{self.path.as_uri()}?mode=ro&immutable=1", uri=True), False

    def _give_back(self, connection: sqlite3.Connection, identity: Identity) -> None:
        with self._lock:
            if identity is not None and identity == self._identity and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _look(self) -> Identity:
        """Which file is there now; connections to another one are let go."""
        identity = _identity(self.path)
        with self._lock:
            if identity == self._identity:
                return identity
            self._identity = identity
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        return identity

    def _opened_writer(self) -> sqlite3.Connection:
        if self._writer is not None:
            if self._written == _identity(self.path) and version_of(self._writer) == VERSION:
                return self._writer
            self._writer.close()
            self._writer = None
        make_private(self.path)
        connection = self._connect(str(self.path))
        try:
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            until_free(
                lambda: connection.execute("PRAGMA journal_mode = wal").fetchone(),
                busy_timeout_ms=self._busy_timeout_ms,
            )
            connection.execute("PRAGMA synchronous = normal")
            connection.execute("PRAGMA secure_delete = on")
            connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
            connection.execute("PRAGMA cache_size = -16000")
            if self._most_pages is not None:
                connection.execute(f"PRAGMA max_page_count = {self._most_pages}")
            if version_of(connection) > VERSION:
                raise _too_new(self.path)
            until_free(lambda: make(connection), busy_timeout_ms=self._busy_timeout_ms)
        except BaseException:
            connection.close()
            raise
        self._writer, self._written = connection, _identity(self.path)
        return connection

    def _connect(self, name: str, *, uri: bool = False) -> sqlite3.Connection:
        return sqlite3.connect(
            name,
            timeout=self._busy_timeout_ms / 1000,
            isolation_level=None,
            check_same_thread=False,
            uri=uri,
        )

    def _clean(self, connection: sqlite3.Connection) -> None:
        """What went may still be in gaps of pages, where SQLite leaves copies, and in the log until that is emptied, which
        waits for readers. What fails now is done after a write a while later."""
        (unclean,) = connection.execute("SELECT unclean FROM state").fetchone()
        now = time.monotonic()
        if unclean in (0, UNCLEAN_YET) or (unclean == PAGES_UNCLEAN and now < self._rewritten_from):
            return
        waits = min(_CLEANING_MS, self._busy_timeout_ms) if now >= self._waited_from else 0
        with suppress(sqlite3.OperationalError):
            connection.execute(f"PRAGMA busy_timeout = {waits}")
            if unclean == PAGES_UNCLEAN:
                self._rewritten_from = now + _CLEANING_PAUSE
                connection.execute("VACUUM")
                connection.execute("UPDATE state SET unclean = ?", (LOG_UNCLEAN,))
                self._rewritten_from = 0.0
            self._waited_from = now + _CLEANING_PAUSE
            if not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                connection.execute("UPDATE state SET unclean = 0")
                self._waited_from = 0.0
        connection.execute(f"PRAGMA busy_timeout = {self._busy_timeout_ms}")

    def _discard(self, error: StoreDamaged, identity: Identity) -> bool:
        """Remove the damaged file, unless somebody else was quicker; whether it is gone."""
        self.close()
        if identity is None or identity != _identity(self.path):
            return True
        log.warning("%s It is derived, and made anew.", error.message)
        # On a disk that may only be read it stays, as it does on Windows while another has it open, and is read as empty.
        for suffix in ("-wal", "-shm", ""):
            with suppress(OSError):
                Path(f"{self.path}{suffix}").unlink()
        return identity != _identity(self.path)


def _identity(path: Path) -> Identity:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _too_new(path: Path) -> SchemaTooNew:
    return SchemaTooNew(
        f"The index of past conversations {path} is of a newer Mindhold.",
        advice="Use that one, or delete the file: it is made anew from the conversations.",
    )
