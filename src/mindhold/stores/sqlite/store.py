"""The SQLite store: its parts combined, its snapshots, and its replacement by a restore. Contract: mindhold.testing.store_contract."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from mindhold.model.errors import NotFound, StoreError, StoreFull, StoreReadOnly
from mindhold.ports.backend import CopyProgress, Cursor, Record, ReplacedStore, SnapshotItem, Totals
from mindhold.ports.store import Capability, Clock
from mindhold.stores.columns import is_stale
from mindhold.stores.registry import opened_store
from mindhold.stores.resident_index import DRIVING
from mindhold.stores.sql import SCOPES, SqlCursorValues, SqlEntries, SqlJobs, SqlScopes, count_totals
from mindhold.stores.sqlite.connection import Durability, SqliteDatabase, SqlitePart, migrate
from mindhold.stores.sqlite.records import SqliteErasure, SqliteRecords
from mindhold.stores.sqlite.rows import COLUMNS, SELECTED, SQLITE, memory_of
from mindhold.stores.sqlite.salvage import JOURNALS, discard, refuse_others
from mindhold.stores.sqlite.search import SqliteIndex, SqliteLiveIndex
from mindhold.stores.sqlite.upkeep import SqliteUpkeep
from mindhold.stores.sqlite_file import make_private, sibling_path, translated
from mindhold.stores.vectors import decode

T = TypeVar("T")
RAW_FORM = "sqlite"
BATCH = 500
_PAGES = 2_048  # copied at a time: 8 MB

# All records with their vectors, in order of insertion.
RECORDS = f"SELECT {SELECTED}, exact FROM memory LEFT JOIN vector USING (row) ORDER BY memory.row"

# All links, by the ids of their ends.
LINKS = """
    SELECT origin.id, target.id, relation, link.created, weight, automatic FROM link
    JOIN memory AS origin ON origin.row = link.origin JOIN memory AS target ON target.row = link.target
    ORDER BY link.origin, link.target, relation
"""

_READ: tuple[tuple[str, Callable[[Any], SnapshotItem]], ...] = (
    (SQLITE.sql(SCOPES), COLUMNS.scope.record),
    (RECORDS, lambda row: Record(memory_of(row), None if row[-1] is None else decode(row[-1]))),
    (SQLITE.sql("{versions} ORDER BY version.memory, number"), COLUMNS.version.record),
    (LINKS, COLUMNS.link.record),
    (SQLITE.sql("SELECT {job_columns} FROM job ORDER BY rowid"), COLUMNS.job.record),
    (SQLITE.sql("SELECT {entry_columns} FROM entry ORDER BY rowid"), COLUMNS.entry.record),
    ("SELECT name, value FROM cursor ORDER BY name", lambda row: Cursor(*row)),
)


class SqliteSnapshots(SqlitePart):
    """Implements Snapshots."""

    raw_form = RAW_FORM

    async def copy_raw(self, path: Path, *, told: CopyProgress) -> None:
        await asyncio.to_thread(copy_file, self._database.path, path, told)

    async def snapshot(self) -> AsyncIterator[list[SnapshotItem]]:
        with _one_state(self._database.path) as connection:
            for query, item_of in _READ:
                rows = await asyncio.to_thread(connection.execute, query)
                while batch := await asyncio.to_thread(_batch, self._database.path, rows, item_of):
                    yield batch

    async def totals(self) -> Totals:
        return await self._database.read(
            lambda connection: count_totals(connection, SQLITE, vectors="vector")
        )


def copy_file(source: Path, target: Path, told: CopyProgress) -> None:
    """Copy the file as it is at one moment; later writes of others aren't in it. Raises StoreFull and other StoreErrors."""
    make_private(target)
    with _one_state(source) as connection, translated(target), closing(sqlite3.connect(target)) as copy:
        connection.backup(
            copy, pages=_PAGES, progress=lambda _, left, total: told(total - left, total), sleep=0
        )


@contextmanager
def _one_state(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that sees what is committed now, and nothing later."""
    address = f"{path.as_uri()}?mode=rw"  # without write access what is still in the log can't be read
    with (
        translated(path),
        closing(
            sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
        ) as connection,
    ):
        connection.execute("PRAGMA query_only = on")
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # the view is fixed from here on
        yield connection


def _batch(path: Path, rows: sqlite3.Cursor, item_of: Callable[[Any], SnapshotItem]) -> list[SnapshotItem]:
    with translated(path):
        return [item_of(row) for row in islice(rows, BATCH)]


OLDEST_SQLITE = (3, 37)  # the first version with STRICT tables


class SqliteStore(
    SqliteRecords,
    SqliteErasure,
    SqliteIndex,
    SqlScopes,
    SqlCursorValues,
    SqlEntries,
    SqlJobs,
    SqliteUpkeep,
    SqliteSnapshots,
):
    """One file. Any number of processes may use it at once.

    `durability` "full" survives a power cut, "normal" only the end of the process. `most_pages` limits the file.
    A word that `driving` records have counts as common: in a store twice as large rarer words are looked up first.
    """

    capabilities = frozenset(
        {Capability.FULL_TEXT, Capability.VECTORS, Capability.TRANSACTIONS, Capability.ERASURE_PROOF}
    )

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock,
        busy_timeout_ms: int = 10_000,
        readers: int = 4,
        durability: Durability = "full",
        most_pages: int | None = None,
        driving: int = DRIVING,
    ) -> None:
        self._clock = clock
        self._driving = driving
        self._live = SqliteLiveIndex(driving=driving)
        self._database = SqliteDatabase(
            path,
            busy_timeout_ms=busy_timeout_ms,
            readers=readers,
            durability=durability,
            most_pages=most_pages,
        )

    async def open(self) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise StoreError(
                f"This Python has SQLite {sqlite3.sqlite_version}; "
                f"{'.'.join(map(str, OLDEST_SQLITE))} or newer is needed.",
                advice="Use a newer Python.",
            )
        now = self._clock()
        await self._database.open(lambda connection: migrate(connection, self._database.path, now=now))

    async def close(self) -> None:
        await self._database.close()
        self._live = SqliteLiveIndex(driving=self._driving)  # the next open() may find another file there


_RESTORED, _BEFORE = ".restoring-", ".before-"


class SqliteSite:
    """Implements BackendSite for one file. New and replaced files are next to it."""

    raw_form = RAW_FORM

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self._path = path.absolute()
        self._clock = clock

    async def prepare(self, stamp: str, raw: Path | None = None) -> None:
        new = self._named(_RESTORED, stamp)
        await asyncio.to_thread(self._sweep)
        if new.exists():
            raise StoreError(f"{new} exists already.", advice="Try again in a second.")
        await asyncio.to_thread(_laid, raw, new)

    @asynccontextmanager
    async def beside(self, stamp: str) -> AsyncIterator[SqliteStore]:
        store = SqliteStore(self._named(_RESTORED, stamp), clock=self._clock, durability="normal")
        async with opened_store(store):
            yield store

    async def swap(self, stamp: str, *, now: datetime) -> ReplacedStore | None:
        new, aside = self._named(_RESTORED, stamp), self._named(_BEFORE, stamp)
        return await asyncio.to_thread(_swapped, self._path, new, aside)

    async def discard(self, stamp: str) -> None:
        await asyncio.to_thread(discard, self._named(_RESTORED, stamp))

    async def olds(self) -> list[ReplacedStore]:
        return await asyncio.to_thread(self._olds)

    async def drop_old(self, name: str) -> None:
        if name not in [old.name for old in await self.olds()]:
            raise NotFound(
                f"There is no old database {name!r}.", advice="`mindhold status` names those there are."
            )
        await asyncio.to_thread(discard, self._path.with_name(name))

    def _named(self, mark: str, stamp: str) -> Path:
        return self._path.with_name(f"{self._path.stem}{mark}{stamp}{self._path.suffix}")

    def _sweep(self) -> None:
        """Remove files of restores that died."""
        begin = f"{self._path.stem}{_RESTORED}"
        for path in self._path.parent.glob(f"{begin}*{self._path.suffix}"):
            if is_stale(path.stem.removeprefix(begin), self._clock()):
                discard(path)

    def _olds(self) -> list[ReplacedStore]:
        stores = []
        for path in self._path.parent.glob(f"{self._path.stem}{_BEFORE}*{self._path.suffix}"):
            with suppress(OSError):  # removed meanwhile
                stores.append(_replaced_store(path))
        return sorted(stores, key=lambda old: old.name, reverse=True)


def _laid(raw: Path | None, new: Path) -> None:
    """Put a raw copy or an empty file in the new place. Raises StoreFull, StoreReadOnly."""
    make_private(new)
    if raw is None:
        return
    try:
        raw.replace(new)  # usually on the same disk
    except OSError:
        try:
            shutil.copyfile(raw, new)
        except OSError as error:
            discard(new)
            problem = StoreFull if error.errno == errno.ENOSPC else StoreReadOnly
            raise problem(
                f"{new} can't be written: {error.strerror}.", advice="Make room on its disk."
            ) from error
    new.chmod(0o600)


def _swapped(path: Path, new: Path, aside: Path) -> ReplacedStore | None:
    _to_disk(new)
    if not path.exists() or path.stat().st_size == 0:
        _replaced(new, path)
        return None
    refuse_others(path)
    _settle(path)
    refuse_others(path)
    try:
        _doubled(path, aside)
        for suffix in JOURNALS:  # of a file that is too damaged to take its log in
            if sibling_path(path, suffix).exists():
                _doubled(sibling_path(path, suffix), sibling_path(aside, suffix))
        for suffix in JOURNALS:  # or the old log would be applied to the new file
            sibling_path(path, suffix).unlink(missing_ok=True)
    except OSError as error:
        discard(aside)
        raise _immovable(path, error) from error
    _replaced(new, path)
    return _replaced_store(aside)


def _replaced_store(path: Path) -> ReplacedStore:
    facts = path.stat()
    return ReplacedStore(path.name, str(path), facts.st_size, datetime.fromtimestamp(facts.st_mtime, UTC))


def _settle(path: Path) -> None:
    """Move the log into the file, so that it is complete on its own. A file too damaged for that stays as it is."""
    with (
        suppress(sqlite3.DatabaseError),
        closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection,
    ):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _doubled(old: Path, name: Path) -> None:
    """Give the file a second name; make a copy if the disk has no links. Raises OSError."""
    try:
        os.link(old, name)
    except FileExistsError:
        raise
    except OSError:
        shutil.copy2(old, name)
    _to_disk(name)


def _replaced(new: Path, path: Path) -> None:
    try:
        new.replace(path)
    except OSError as error:
        raise _immovable(path, error) from error
    _folder_to_disk(path.parent)


def _immovable(path: Path, error: OSError) -> StoreError:
    return StoreReadOnly(
        f"{path} can't be put in its place: {error.strerror}.",
        advice="End the other processes that use it, and check who owns its folder.",
    )


def _to_disk(path: Path) -> None:
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


def _folder_to_disk(folder: Path) -> None:
    """Flush the folder, so that new names survive a power cut. Not possible on Windows."""
    if os.name == "nt":
        return
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
