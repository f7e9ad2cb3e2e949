"""Where the file stands, and how another is put in its place: the old one has two names before it loses its own."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from mindhold.model.errors import NotFound, StoreError, StoreFull, StoreReadOnly
from mindhold.ports.clock import Clock
from mindhold.ports.snapshot import Old
from mindhold.stores.sqlite.salvage import JOURNALS, beside, discard, refuse_others
from mindhold.stores.sqlite.snapshot import RAW_FORM
from mindhold.stores.sqlite.store import SqliteStore
from mindhold.stores.sqlite_file import make_private
from mindhold.stores.stamps import is_stale

_RESTORED, _BEFORE = ".restoring-", ".before-"


class SqliteSite:
    """The Site protocol, for one file. Names of new and old files lie beside it."""

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self._path = path.absolute()
        self._clock = clock

    @property
    def raw_form(self) -> str:
        return RAW_FORM

    async def prepare(self, stamp: str, raw: Path | None = None) -> None:
        new = self._named(_RESTORED, stamp)
        await asyncio.to_thread(self._sweep)
        if new.exists():
            raise StoreError(f"{new} exists already.", advice="Try again in a second.")
        await asyncio.to_thread(_laid, raw, new)

    @asynccontextmanager
    async def beside(self, stamp: str) -> AsyncIterator[SqliteStore]:
        store = SqliteStore(self._named(_RESTORED, stamp), clock=self._clock, durability="normal")
        try:
            await store.open()
            yield store
        finally:
            await store.close()

    async def swap(self, stamp: str, *, now: datetime) -> Old | None:
        new, aside = self._named(_RESTORED, stamp), self._named(_BEFORE, stamp)
        return await asyncio.to_thread(_swapped, self._path, new, aside)

    async def discard(self, stamp: str) -> None:
        await asyncio.to_thread(discard, self._named(_RESTORED, stamp))

    async def olds(self) -> list[Old]:
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
        """What a restore left that died."""
        begin = f"{self._path.stem}{_RESTORED}"
        for path in self._path.parent.glob(f"{begin}*{self._path.suffix}"):
            if is_stale(path.stem.removeprefix(begin), self._clock()):
                discard(path)

    def _olds(self) -> list[Old]:
        found = []
        for path in self._path.parent.glob(f"{self._path.stem}{_BEFORE}*{self._path.suffix}"):
            with suppress(OSError):  # dropped meanwhile
                facts = path.stat()
                since = datetime.fromtimestamp(facts.st_mtime, UTC)
                found.append(Old(path.name, str(path), facts.st_size, since))
        return sorted(found, key=lambda old: old.name, reverse=True)


def _laid(raw: Path | None, new: Path) -> None:
    """Raises StoreFull, StoreReadOnly."""
    make_private(new)
    if raw is None:
        return
    try:
        raw.replace(new)  # for the most part on the same disk
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


def _swapped(path: Path, new: Path, aside: Path) -> Old | None:
    _to_disk(new)
    if not path.exists() or path.stat().st_size == 0:
        _replaced(new, path)
        return None
    refuse_others(path)
    _settle(path)
    refuse_others(path)
    try:
        _doubled(path, aside)
        for suffix in JOURNALS:  # of one that is too damaged to take its log in
            if beside(path, suffix).exists():
                _doubled(beside(path, suffix), beside(aside, suffix))
        _let_go(path)
    except OSError as error:
        discard(aside)
        raise _immovable(path, error) from error
    _replaced(new, path)
    facts = aside.stat()
    return Old(aside.name, str(aside), facts.st_size, datetime.fromtimestamp(facts.st_mtime, UTC))


def _settle(path: Path) -> None:
    """Take the log into the file, so that one file is the whole of it. What is too damaged for that stays as it is."""
    with (
        suppress(sqlite3.DatabaseError),
        closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as one,
    ):
        one.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _doubled(old: Path, name: Path) -> None:
    """The same file under a second name; a copy where the disk has no such thing. Raises OSError."""
    try:
        os.link(old, name)
    except FileExistsError:
        raise
    except OSError:
        shutil.copy2(old, name)
    _to_disk(name)


def _let_go(path: Path) -> None:
    """A log of the old file's would be taken into the new one."""
    for suffix in JOURNALS:
        beside(path, suffix).unlink(missing_ok=True)


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
    """So that a power cut finds the new names. Windows has no such thing."""
    if os.name == "nt":
        return
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
