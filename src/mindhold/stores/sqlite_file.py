"""What every SQLite file needs: private permissions, transactions, waiting for locks, and translation of errors."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mindhold.model.errors import (
    Conflict,
    InvalidInput,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from mindhold.stores.columns import storable

_PAUSE_SECONDS = 0.02
_UNFIT = (  # SQLite stores NaN as NULL
    sqlite3.SQLITE_CONSTRAINT_NOTNULL,
    3091,  # SQLITE_CONSTRAINT_DATATYPE, which Python doesn't name
    sqlite3.SQLITE_MISMATCH,
)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction: all or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Translate the driver's errors to ours."""
    try:
        with storable():
            yield
    except sqlite3.Error as error:
        raise store_error(error, path) from error


def make_private(path: Path) -> None:
    """Restrict the file and, if needed, its folder to their owner."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600))
    except (PermissionError, IsADirectoryError) as error:
        raise StoreReadOnly(
            f"The database {path} can't be written: {error.strerror}.",
            advice="Check who owns the file and its folder, or choose another home with MINDHOLD_HOME.",
        ) from error
    except OSError as error:
        if error.errno == errno.EROFS:
            raise StoreReadOnly(f"The database {path} is on a read-only disk.") from error
        raise StoreError(f"The database {path} can't be made: {error.strerror}.") from error


def sibling_path(path: Path, suffix: str) -> Path:
    """The file next to the database whose name has that suffix, such as its log."""
    return path.with_name(path.name + suffix)


def until_free(work: Callable[[], object], *, busy_timeout_ms: int) -> None:
    """Retry while the file is locked. A change of the journal mode ignores the busy timeout, so this is our own wait."""
    deadline = time.monotonic() + busy_timeout_ms / 1000
    while True:
        try:
            work()
            return
        except sqlite3.OperationalError as error:
            if primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_SECONDS)


def primary_code(error: sqlite3.Error) -> int:
    """The primary error code, which is the low byte of the extended one."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def store_error(error: sqlite3.Error, path: Path) -> Exception:
    code = primary_code(error)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(
            f"Another process holds the database {path}.",
            advice="Try again; if it lasts, end the other process.",
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreDamaged(
            f"The database {path} is damaged ({error}).",
            advice="`mindhold doctor` says what can be saved, `mindhold doctor --repair` saves it.",
        )
    if code == sqlite3.SQLITE_FULL or _is_full(error):
        return StoreFull(
            f"There is no room left for the database {path}; nothing was written.",
            advice="Free some space on its disk and try again.",
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StoreReadOnly(
            f"The database {path} can't be opened for writing ({error}).",
            advice="Check who owns the file and its folder.",
        )
    if code == sqlite3.SQLITE_TOOBIG:
        return InvalidInput("The text is too long for the database.")
    if getattr(error, "sqlite_errorcode", None) in _UNFIT:
        return InvalidInput(f"The database takes no such value: {error}.")
    if code == sqlite3.SQLITE_CONSTRAINT:
        return Conflict(f"The database refused the change: {error}.")
    return StoreError(f"The database {path} failed: {error}.")


def _is_full(error: sqlite3.Error) -> bool:
    """Whether the disk is full; the system reports a cut-off write as an I/O error."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_IOERR_WRITE
