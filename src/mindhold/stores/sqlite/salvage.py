"""Repair of a damaged file: diagnoses it and saves the readable rows, page by page if needed."""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from mindhold.model.errors import SchemaTooNew, StoreBusy, StoreDamaged, StoreError, StoreReadOnly
from mindhold.ports.store import StoreFinding
from mindhold.stores.columns import to_micros
from mindhold.stores.sqlite.connection import APPLICATION_ID, LIFE, latest, migrate, version_of
from mindhold.stores.sqlite.upkeep import DAMAGED, file_findings, mend
from mindhold.stores.sqlite_file import make_private, primary_code, sibling_path, transaction, translated

MAGIC = b"SQLite format 3\x00"
_LEAF = 13
_FILE_HEADER = 100
_USUAL_PAGE_SIZE = 4096
_LONGEST = 1 << 28

_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # serial type: bytes

Row = tuple[int, list[Any]]


class UnreadableCell(ValueError):
    """The bytes are no valid cell of a table."""


def rows(path: Path, *, columns: range) -> Iterator[Row]:
    """Number and values of each row with that many columns that can be read completely."""
    with path.open("rb") as stream:
        size = page_size(stream)
        number = 0
        while page := _page(stream, number, size):
            start = _FILE_HEADER if number == 0 else 0
            if page[start] == _LEAF:
                for cell in _cells(page, start):
                    try:
                        row, record = _record(stream, page, cell)
                        values = _values(record, columns)
                    except (UnreadableCell, IndexError, struct.error, UnicodeDecodeError):
                        continue
                    yield row, values
            number += 1


def page_size(stream: BinaryIO) -> int:
    """The page size in the file's header, or the usual one if there is no header."""
    stream.seek(0)
    header = stream.read(18)
    if header[:16] != MAGIC:
        return _USUAL_PAGE_SIZE
    size = int.from_bytes(header[16:18], "big")
    return 65536 if size == 1 else size if size >= 512 and not size & (size - 1) else _USUAL_PAGE_SIZE


def _page(stream: BinaryIO, number: int, size: int) -> bytes:
    stream.seek(number * size)
    page = stream.read(size)
    return page if len(page) == size else b""


def _cells(page: bytes, start: int) -> list[int]:
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    places = page[start + 8 : start + 8 + 2 * count]
    return [int.from_bytes(places[at : at + 2], "big") for at in range(0, len(places) - 1, 2)]


def _record(stream: BinaryIO, page: bytes, place: int) -> tuple[int, bytes]:
    """The row's number and its record, including its overflow pages."""
    length, place = _varint(page, place)
    row, place = _varint(page, place)
    if not 0 < length < _LONGEST:
        raise UnreadableCell
    usable = len(page)
    local = length
    if length > usable - 35:
        least = (usable - 12) * 32 // 255 - 23
        spread = least + (length - least) % (usable - 4)
        local = spread if spread <= usable - 35 else least
    record = page[place : place + local]
    if len(record) < local:
        raise UnreadableCell
    if local < length:
        (following,) = struct.unpack_from(">I", page, place + local)
        record += _overflow(stream, following, missing=length - local, size=usable)
    return row, record


def _overflow(stream: BinaryIO, number: int, *, missing: int, size: int) -> bytes:
    parts = []
    while missing > 0:
        page = _page(stream, number - 1, size) if number else b""
        if not page:
            raise UnreadableCell
        parts.append(page[4 : 4 + missing])
        missing -= len(parts[-1])
        number = int.from_bytes(page[:4], "big")
    return b"".join(parts)


def _values(record: bytes, columns: range) -> list[Any]:
    end, place = _varint(record, 0)
    types = []
    while place < end:
        kind, place = _varint(record, place)
        types.append(kind)
    if place != end or len(types) not in columns:
        raise UnreadableCell
    values: list[Any] = []
    for kind in types:
        value, place = _value(record, place, kind)
        values.append(value)
    if place != len(record):
        raise UnreadableCell
    return values


def _value(record: bytes, place: int, kind: int) -> tuple[Any, int]:
    if kind == 0:
        return None, place
    if kind in _INTEGERS:
        end = place + _INTEGERS[kind]
        return int.from_bytes(record[place:end], "big", signed=True), end
    if kind == 7:
        return struct.unpack_from(">d", record, place)[0], place + 8
    if kind in (8, 9):
        return kind - 8, place
    if kind < 12:
        raise UnreadableCell
    end = place + (kind - 12) // 2
    if end > len(record):
        raise UnreadableCell
    return (record[place:end].decode() if kind % 2 else record[place:end]), end


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A variable-length integer: seven bits per byte, highest first; a ninth byte counts in full."""
    value = 0
    for count in range(8):
        byte = data[place + count]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + count + 1
    return value << 8 | data[place + 8], place + 9


_STEP = 512
_BOUND = 1 << 22  # how far to search if the last row's number is unreadable

# Tables in order of dependency, each with its key.
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

# Number of columns in the first schema: rows keep the number of columns that they were written with.
_FEWEST = {"scope": 8, "memory": 38}

JOURNALS = ("-wal", "-shm", "-journal")
_RESTORE = "Restore a backup or import an export; keep this file until you have."


@dataclass(frozen=True, slots=True)
class Rescue:
    """The number of memories in the new file, and the present path of the damaged one."""

    memories: int
    aside: Path


def diagnose(path: Path) -> list[StoreFinding]:
    """What can be found out about the file without opening it as a store."""
    if not path.exists():
        return [
            StoreFinding("file", False, f"There is no file {path}.", "The first thing you remember makes it.")
        ]
    if path.stat().st_size == 0:
        return [StoreFinding("file", True, "The file is empty: a store not yet used.")]
    try:
        with closing(_open_damaged(path)) as connection:
            return [_identity(connection), *_pages(connection, path), *file_findings(path)]
    except sqlite3.DatabaseError as error:
        return [
            StoreFinding("file", False, f"{path} can't be read ({error}).", DAMAGED),
            _readable_finding(path),
        ]


def rescue(path: Path, *, now: datetime) -> Rescue:
    """Replace the damaged file by a new one with all readable data; the damaged one is kept.

    Raises StoreBusy while another process has it open, StoreReadOnly if files can't be moved, and the errors of salvage();
    in these cases nothing has changed.
    """
    stamp = f"{now:%Y%m%dT%H%M%SZ}"
    target = path.with_name(f"{path.stem}.salvaged-{stamp}{path.suffix}")
    aside = path.with_name(f"{path.stem}.damaged-{stamp}{path.suffix}")
    if aside.exists():
        raise StoreError(f"{aside} exists already.", advice="Try again in a second.")
    refuse_others(path)
    before = _trace(path)
    number = salvage(path, target, now=now)
    try:
        refuse_others(path)
        if _trace(path) != before:
            raise _busy(path)
        # The database before its log: if it can't be moved, it must keep its log.
        moves = [(sibling_path(path, suffix), sibling_path(aside, suffix)) for suffix in ("", *JOURNALS)]
        move_all([*((old, new) for old, new in moves if old.exists()), (target, path)])
    except BaseException:
        discard(target)
        raise
    return Rescue(number, aside)


def move_all(moves: Sequence[tuple[Path, Path]]) -> None:
    """Rename all files or none. Raises StoreReadOnly."""
    completed: list[tuple[Path, Path]] = []
    try:
        for old, new in moves:
            old.replace(new)
            completed.append((old, new))
    except OSError as error:
        for old, new in reversed(completed):
            new.replace(old)
        raise StoreReadOnly(
            f"{error.filename} can't be moved aside: {error.strerror}.",
            advice="End the other processes that use it, and check who owns its folder.",
        ) from error


def salvage(path: Path, target: Path, *, now: datetime) -> int:
    """Copy all readable data into a new store. Returns the number of memories. The damaged file is only read.

    Raises StoreError if the target exists, StoreDamaged if no memory can be read, and SchemaTooNew. An unfinished target
    is removed.
    """
    if target.exists():
        raise StoreError(f"{target} exists already.", advice="Choose another file.")
    version = _version(path)
    if version is not None and version > latest():  # it has more than would be copied
        raise SchemaTooNew(
            f"The database {path} has schema {version}; this Mindhold knows up to {latest()}.",
            advice="Upgrade Mindhold, as whoever wrote the file did.",
        )
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
            if (_version(path) or 0) < LIFE:  # without review dates: upkeep checks each record once
                saved.execute("UPDATE memory SET review = ?", (to_micros(now),))
            mend(saved)
        return int(saved.execute("SELECT count(*) FROM memory").fetchone()[0])


def _version(path: Path) -> int | None:
    """The version of the file's schema; None if it can't be read."""
    try:
        with closing(_open_damaged(path)) as connection:
            return version_of(connection)
    except sqlite3.DatabaseError:
        return None


def refuse_others(path: Path) -> None:
    """Raises StoreBusy if another process has the file open, since it would go on writing into the replaced file.

    Even an idle process holds a lock, which only an exclusive lock conflicts with.
    """
    try:
        with closing(_open_damaged(path, timeout=0)) as connection:
            connection.execute("PRAGMA query_only = off")  # otherwise no lock can be taken
            connection.execute("PRAGMA locking_mode = exclusive")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
    except sqlite3.DatabaseError as error:
        if primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise _busy(path) from error


def _busy(path: Path) -> StoreBusy:
    return StoreBusy(
        f"Another process uses the database {path}; nothing was changed.",
        advice="End the other processes that use it, then run it again.",
    )


def _trace(path: Path) -> tuple[int, int, int]:
    """A value that changes when somebody writes."""
    log, status = sibling_path(path, "-wal"), path.stat()
    return status.st_size, status.st_mtime_ns, log.stat().st_size if log.exists() else 0


def discard(target: Path) -> None:
    for suffix in ("", *JOURNALS):
        sibling_path(target, suffix).unlink(missing_ok=True)


def _open_damaged(path: Path, *, timeout: float = 5) -> sqlite3.Connection:
    # Without write access SQLite couldn't read what is still in the log.
    mode = "rw" if os.access(path, os.W_OK) else "ro"
    address = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(address, timeout=timeout, uri=True, isolation_level=None)
    connection.execute("PRAGMA query_only = on")
    connection.execute("PRAGMA cell_size_check = on")
    return connection


def _identity(connection: sqlite3.Connection) -> StoreFinding:
    version = version_of(connection)
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        return StoreFinding("schema", False, "the file is another program's", "Choose another file.")
    newer = version > latest()
    return StoreFinding("schema", not newer, f"version {version}", "Upgrade Mindhold." if newer else "")


def _pages(connection: sqlite3.Connection, path: Path) -> Iterator[StoreFinding]:
    try:
        problems = [row[0] for row in connection.execute("PRAGMA quick_check(20)") if row[0] != "ok"]
    except sqlite3.DatabaseError as error:
        problems = [str(error)]
    yield StoreFinding(
        "file", not problems, "; ".join(problems) or "every page is sound", DAMAGED if problems else ""
    )
    if problems:
        yield _readable_finding(path)


def _readable_finding(path: Path) -> StoreFinding:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
        migrate(empty, path, now=datetime.fromtimestamp(0, UTC))
        columns = _columns(empty, "memory")
    number = len({row for row, _ in rows(path, columns=_lengths("memory", columns))})
    return StoreFinding(
        "readable", number > 0, f"{number} memories can be read", DAMAGED if number else _RESTORE
    )


def _copy(damaged: sqlite3.Connection, saved: sqlite3.Connection, *, table: str, key: str) -> None:
    current_columns = _columns(saved, table)
    columns = [name for name in _columns(damaged, table) if name in current_columns]
    if not columns:
        return  # the file is older than the table
    names = ", ".join(columns)
    insert = f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({', '.join('?' for _ in columns)})"
    for row in _readable(damaged, table=table, key=key, columns=names):
        try:
            saved.execute(insert, row)
        except (sqlite3.IntegrityError, sqlite3.InterfaceError):
            continue  # a readable row with invalid values is damaged as well


def _copy_from_pages(path: Path, saved: sqlite3.Connection, *, table: str) -> None:
    """Copy rows that no query reached, except erased ones."""
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
    """Rows in order of their number; unreadable ranges are halved until only single rows are skipped."""
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
            row = connection.execute(query).fetchone()
        except sqlite3.DatabaseError:
            continue
        if row is not None:
            return int(row[0] or 0)
    return _BOUND


def _copy_cursors(damaged: sqlite3.Connection, saved: sqlite3.Connection) -> None:
    try:
        rows = damaged.execute("SELECT name, value FROM cursor").fetchall()
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return
    saved.executemany("INSERT OR REPLACE INTO cursor (name, value) VALUES (?, ?)", rows)


def _complete(saved: sqlite3.Connection) -> None:
    """Give names to unreadable scopes, and continue the revision from the highest one."""
    saved.execute(
        "INSERT INTO scope (row, name, created) "
        "SELECT DISTINCT scope, 'recovered ' || scope, 0 FROM memory WHERE scope NOT IN (SELECT row FROM scope)"
    )
    saved.execute("UPDATE scope SET parent = NULL WHERE parent NOT IN (SELECT row FROM scope)")
    saved.execute(
        "UPDATE counter SET value = 1 + max(value, (SELECT coalesce(max(revision), 0) FROM memory)) "
        "WHERE name = 'revision'"
    )
