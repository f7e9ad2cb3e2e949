"""For a file that can't be opened, or whose pages are damaged: say what is wrong, save what can be read."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mindhold.model.errors import SchemaTooNew, StoreBusy, StoreDamaged, StoreError, StoreReadOnly
from mindhold.ports.store import Finding
from mindhold.stores.sqlite.connection import make_private, transaction, translated
from mindhold.stores.sqlite.migrate import APPLICATION_ID, LIFE, latest, migrate, version_of
from mindhold.stores.sqlite.pages import rows
from mindhold.stores.sqlite.upkeep import DAMAGED, file_findings, mend
from mindhold.stores.values import to_micros

_STEP = 512
_BOUND = 1 << 22  # how far to look where even the last row's number can't be read

# Tables in the order of what depends on what, each with the number that its rows are read by.
_TABLES = {
    "scope": "row",
    "memory": "row",
    "tag": "memory",
    "vector": "row",
    "vector_code": "row",
    "link": "origin",
    "version": "rowid",
    "job": "rowid",
    "entry": "rowid",
    "tombstone": "row",
}

# How many columns they had in the first schema: rows keep as many as there were when they were written.
_FEWEST = {"scope": 8, "memory": 38}

JOURNALS = ("-wal", "-shm", "-journal")
_RESTORE = "Restore a backup or import an export; keep this file until you have."


@dataclass(frozen=True, slots=True)
class Rescue:
    """How many memories are in the new file, and where the damaged one is now."""

    memories: int
    aside: Path


def diagnose(path: Path) -> list[Finding]:
    """What can be said of the file without opening it as a store."""
    if not path.exists():
        return [Finding("file", False, f"There is no file {path}.", "The first thing you remember makes it.")]
    if path.stat().st_size == 0:
        return [Finding("file", True, "The file is empty: a store not yet used.")]
    try:
        with closing(_open_damaged(path)) as connection:
            return [*_identity(connection), *_pages(connection, path), *file_findings(path)]
    except sqlite3.DatabaseError as error:
        return [Finding("file", False, f"{path} can't be read ({error}).", DAMAGED), _readable_finding(path)]


def rescue(path: Path, *, now: datetime) -> Rescue:
    """Put what can be read in the damaged file's place; that one is kept aside.

    Raises StoreBusy while another process has it open, StoreReadOnly when files can't be moved, and as salvage does;
    then everything is as it was before.
    """
    stamp = f"{now:%Y%m%dT%H%M%SZ}"
    target = path.with_name(f"{path.stem}.salvaged-{stamp}{path.suffix}")
    aside = path.with_name(f"{path.stem}.damaged-{stamp}{path.suffix}")
    if aside.exists():
        raise StoreError(f"{aside} exists already.", advice="Try again in a second.")
    refuse_others(path)
    before = trace(path)
    number = salvage(path, target, now=now)
    try:
        refuse_others(path)
        if trace(path) != before:
            raise busy(path)
        # The database before its log: where it can't be moved, it must not be left without.
        moves = [(beside(path, suffix), beside(aside, suffix)) for suffix in ("", *JOURNALS)]
        move_all([*((old, new) for old, new in moves if old.exists()), (target, path)])
    except BaseException:
        discard(target)
        raise
    return Rescue(number, aside)


def move_all(moves: Sequence[tuple[Path, Path]]) -> None:
    """Rename each, or none of them. Raises StoreReadOnly."""
    done: list[tuple[Path, Path]] = []
    try:
        for old, new in moves:
            old.replace(new)
            done.append((old, new))
    except OSError as error:
        for old, new in reversed(done):
            new.replace(old)
        raise StoreReadOnly(
            f"{error.filename} can't be moved aside: {error.strerror}.",
            advice="End the other processes that use it, and check who owns its folder.",
        ) from error


def salvage(path: Path, target: Path, *, now: datetime) -> int:
    """Copy what can be read into a new store; returns how many memories that is. The damaged file is only read.

    Raises StoreError when the target exists, StoreDamaged when no memory can be read, SchemaTooNew; a target that
    could not be finished is removed.
    """
    if target.exists():
        raise StoreError(f"{target} exists already.", advice="Choose another file.")
    _refuse_newer(path)
    try:
        number = _salvage(path, target, now=now)
    except BaseException:
        discard(target)
        raise
    if not number:
        discard(target)
        raise StoreDamaged(f"No memory can be read from {path}.", advice=_RESTORE)
    return number


def _salvage(path: Path, target: Path, *, now: datetime) -> int:
    make_private(target)
    with translated(target), closing(sqlite3.connect(target, isolation_level=None)) as saved:
        migrate(saved, target, now=now)
        with transaction(saved):
            with suppress(sqlite3.DatabaseError), closing(_open_damaged(path)) as damaged:
                for table, key in _TABLES.items():
                    _copy(damaged, saved, table=table, key=key)
                _copy_cursors(damaged, saved)
            for table in ("scope", "memory"):
                _copy_from_pages(path, saved, table=table)
            _complete(saved)
            if _has_no_reviews(path):
                saved.execute("UPDATE memory SET review = ?", (to_micros(now),))
            mend(saved)
        return int(saved.execute("SELECT count(*) FROM memory").fetchone()[0])


def _refuse_newer(path: Path) -> None:
    """What a newer Mindhold wrote has more than would be copied."""
    try:
        with closing(_open_damaged(path)) as connection:
            version = version_of(connection)
    except sqlite3.DatabaseError:
        return
    if version > latest():
        raise SchemaTooNew(
            f"The database {path} has schema {version}; this Mindhold knows up to {latest()}.",
            advice="Upgrade Mindhold, as whoever wrote the file did.",
        )


def _has_no_reviews(path: Path) -> bool:
    """Whether it may be from before there were any: then upkeep looks at each record once, as after a migration."""
    try:
        with closing(_open_damaged(path)) as connection:
            return version_of(connection) < LIFE
    except sqlite3.DatabaseError:
        return True


def refuse_others(path: Path) -> None:
    """Whoever has it open would go on writing into the file that is put aside. Raises StoreBusy.

    A process that does nothing holds a lock all the same, which only one that wants the file for itself meets.
    """
    try:
        with closing(_open_damaged(path, timeout=0)) as connection:
            connection.execute("PRAGMA query_only = off")  # else no lock is to be had
            connection.execute("PRAGMA locking_mode = exclusive")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise busy(path) from error


def busy(path: Path) -> StoreBusy:
    return StoreBusy(
        f"Another process uses the database {path}; nothing was changed.",
        advice="End the other processes that use it, then run it again.",
    )


def trace(path: Path) -> tuple[int, int, int]:
    """Differs when somebody wrote."""
    log, status = beside(path, "-wal"), path.stat()
    return status.st_size, status.st_mtime_ns, log.stat().st_size if log.exists() else 0


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def discard(target: Path) -> None:
    for suffix in ("", *JOURNALS):
        beside(target, suffix).unlink(missing_ok=True)


def _open_damaged(path: Path, *, timeout: float = 5) -> sqlite3.Connection:
    # Without write access SQLite couldn't read what is still in the log.
    mode = "rw" if os.access(path, os.W_OK) else "ro"
    address = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(address, timeout=timeout, uri=True, isolation_level=None)
    connection.execute("PRAGMA query_only = on")
    connection.execute("PRAGMA cell_size_check = on")
    return connection


def _identity(connection: sqlite3.Connection) -> Iterator[Finding]:
    version = version_of(connection)
    ours = connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
    yield Finding(
        "schema",
        ours and version <= latest(),
        f"version {version}" if ours else "the file is another program's",
        "" if ours and version <= latest() else "Upgrade Mindhold." if ours else "Choose another file.",
    )


def _pages(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    try:
        problems = [row[0] for row in connection.execute("PRAGMA quick_check(20)") if row[0] != "ok"]
    except sqlite3.DatabaseError as error:
        problems = [str(error)]
    yield Finding(
        "file", not problems, "; ".join(problems) or "every page is sound", DAMAGED if problems else ""
    )
    if problems:
        yield _readable_finding(path)


def _readable_finding(path: Path) -> Finding:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
        migrate(empty, path, now=datetime.fromtimestamp(0, UTC))
        columns = _columns(empty, "memory")
    number = len({row for row, _ in rows(path, columns=_lengths("memory", columns))})
    return Finding("readable", number > 0, f"{number} memories can be read", DAMAGED if number else _RESTORE)


def _copy(damaged: sqlite3.Connection, saved: sqlite3.Connection, *, table: str, key: str) -> None:
    known = _columns(saved, table)
    columns = [name for name in _columns(damaged, table) if name in known]
    if not columns:
        return  # the file is older than the table
    names = ", ".join(columns)
    insert = f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({', '.join('?' for _ in columns)})"
    for row in _readable(damaged, table=table, key=key, columns=names):
        try:
            saved.execute(insert, row)
        except (sqlite3.IntegrityError, sqlite3.InterfaceError):
            continue  # a row that reads but holds what no column may hold is damaged as well


def _copy_from_pages(path: Path, saved: sqlite3.Connection, *, table: str) -> None:
    """Rows that no query reached, but none that was erased."""
    columns = _columns(saved, table)
    erased = {row[0] for row in saved.execute("SELECT row FROM tombstone")} if table == "memory" else set()
    for number, values in rows(path, columns=_lengths(table, columns)):
        if number in erased:
            continue
        names = columns[: len(values)]
        insert = (
            f"INSERT OR IGNORE INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' for _ in names)})"
        )
        with suppress(sqlite3.IntegrityError, sqlite3.InterfaceError, OverflowError):
            saved.execute(insert, (number, *values[1:]))


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def _lengths(table: str, columns: list[str]) -> range:
    return range(_FEWEST[table], len(columns) + 1)


def _readable(
    connection: sqlite3.Connection, *, table: str, key: str, columns: str
) -> Iterator[tuple[Any, ...]]:
    """Rows in order of their number; ranges that can't be read are halved until single rows are left out."""
    query = f"SELECT {columns} FROM {table} WHERE {key} >= ? AND {key} < ? ORDER BY {key}"
    last = _last(connection, table=table, key=key)
    ranges = [(start, min(start + _STEP, last + 1)) for start in range(last // _STEP * _STEP, -1, -_STEP)]
    while ranges:
        start, end = ranges.pop()
        try:
            rows = connection.execute(query, (start, end)).fetchall()
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            if end - start > 1:
                middle = (start + end) // 2
                ranges += [(middle, end), (start, middle)]
            continue
        yield from rows


def _last(connection: sqlite3.Connection, *, table: str, key: str) -> int:
    for query in (
        f"SELECT max({key}) FROM {table} NOT INDEXED",
        f"SELECT seq FROM sqlite_sequence WHERE name = '{table}'",
        "SELECT max(row) FROM memory NOT INDEXED",
    ):
        try:
            found = connection.execute(query).fetchone()
        except sqlite3.DatabaseError:
            continue
        if found is not None:
            return int(found[0] or 0)
    return _BOUND


def _copy_cursors(damaged: sqlite3.Connection, saved: sqlite3.Connection) -> None:
    try:
        rows = damaged.execute("SELECT name, value FROM cursor").fetchall()
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return
    saved.executemany("INSERT OR REPLACE INTO cursor (name, value) VALUES (?, ?)", rows)


def _complete(saved: sqlite3.Connection) -> None:
    """Scopes that could not be read get a name; the revision goes on from the highest that was."""
    saved.execute(
        "INSERT INTO scope (row, name, created) "
        "SELECT DISTINCT scope, 'recovered ' || scope, 0 FROM memory WHERE scope NOT IN (SELECT row FROM scope)"
    )
    saved.execute("UPDATE scope SET parent = NULL WHERE parent NOT IN (SELECT row FROM scope)")
    saved.execute(
        "UPDATE counter SET value = 1 + max(value, (SELECT coalesce(max(revision), 0) FROM memory)) "
        "WHERE name = 'revision'"
    )
