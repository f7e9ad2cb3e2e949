"""Reads a backup part by part, and loads its rows into an empty store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from mindhold.aio import run_uncancelled
from mindhold.backup.file_format import ROWS, BackupPart, BackupReader, open_backup
from mindhold.backup.rows import from_lines
from mindhold.memories.prepare import index_memory
from mindhold.model.job import Entry, Job
from mindhold.model.memory import Link, Version
from mindhold.model.scope import Scope
from mindhold.ports.backend import Backend, BackendSites, Cursor, Record, SnapshotItem, SnapshotRemoval
from mindhold.ports.store import Capability, Change, Connect, Enqueue, Keep, Put

PLACES = "places"  # the cursor that says where projects live, which is not so where all are put in one store


class StoreLoader:
    """One store being filled, by one part or several.

    `together` makes one store of several parts, which may have copies of each other's: of each the scopes that live there are
    taken, and what belongs to them.
    """

    def __init__(
        self,
        store: Backend,
        *,
        zone: ZoneInfo,
        told: Callable[[int], None] = lambda _: None,
        together: bool = False,
    ) -> None:
        self._store = store
        self._zone = zone
        self._told = told
        self._together = together
        self._vectors = Capability.VECTORS in store.capabilities
        self._ids: set[str] = set()  # of what was taken, where that matters
        self._brought: set[str] = set()  # scopes
        self._done = 0

    async def fill(
        self,
        batches: AsyncIterator[list[SnapshotItem]],
        *,
        lives: Collection[str] | None = None,
        elsewhere: Collection[str] = (),
    ) -> None:
        """Raises the store's errors."""
        scopes: list[Scope] = []
        async for batch in batches:
            for kind, run in groupby(batch, key=type):
                if kind is Scope:  # all of them first: parents may come after their children
                    scopes += [one for one in run if isinstance(one, Scope)]
                    continue
                await self._scopes(scopes)
                scopes = []
                await self._take(kind, list(run), lives, elsewhere)
            self._done += len(batch)
            self._told(self._done)
        await self._scopes(scopes)

    async def _take(
        self,
        kind: type[SnapshotItem],
        run: list[Any],
        lives: Collection[str] | None,
        elsewhere: Collection[str],
    ) -> None:
        if kind is Record:
            wanted = [one for one in run if _lives(one.memory.scope, lives, elsewhere)]
            await self._records(wanted)
        elif kind is SnapshotRemoval:
            await self._store.erase([one.memory_id for one in run if one.memory_id], references=False)
            for one in run:
                if one.scope:
                    await self._store.drop_scope(one.scope)
        elif kind is Version:
            await self._apply(Keep(one) for one in self._known(run, lambda one: (one.memory_id,)))
        elif kind is Link:
            await self._apply(Connect(one) for one in self._known(run, lambda one: (one.origin, one.target)))
        elif kind is Job:
            await self._apply(Enqueue(one) for one in run)
        elif kind is Entry:
            for entry in run:
                await self._store.put_entry(entry)
        elif kind is Cursor:
            for cursor in run:
                if not (self._together and cursor.name == PLACES):
                    await self._store.set_cursor(cursor.name, cursor.value)

    async def _scopes(self, scopes: Sequence[Scope]) -> None:
        """A parent before its children; what another part brought already is left as it is."""
        waiting = {one.name: one for one in scopes if not self._together or one.name not in self._brought}
        self._brought.update(waiting)
        while waiting:
            ready = [one for one in waiting.values() if one.parent is None or one.parent not in waiting]
            for scope in ready or list(waiting.values()):  # a ring, which no store makes, is cut
                await self._store.put_scope(scope if ready else replace(scope, parent=None))
                del waiting[scope.name]

    async def _records(self, records: Sequence[Record]) -> None:
        if not records:
            return
        if self._together:
            self._ids.update(one.memory.id for one in records)
        puts = await asyncio.to_thread(lambda: [self._put(one) for one in records])
        await self._store.apply(puts)

    def _put(self, record: Record) -> Put:
        vector = record.vector if self._vectors else None
        return index_memory(record.memory, self._zone).put(vector, record.memory.embedded_by)

    def _known(self, run: Iterable[Any], ends: Callable[[Any], tuple[str, ...]]) -> Iterable[Any]:
        """Those whose memories were taken."""
        return [one for one in run if all(end in self._ids for end in ends(one))] if self._together else run

    async def _apply(self, changes: Iterable[Change]) -> None:
        wanted = list(changes)
        if wanted:
            await self._store.apply(wanted)


def _lives(scope: str, lives: Collection[str] | None, elsewhere: Collection[str]) -> bool:
    return (lives is None or scope in lives) and scope not in elsewhere


@dataclass(frozen=True, slots=True)
class ReaderContext:
    """What is needed to read one: where stores can be made, a folder for what is only needed meanwhile, who and when."""

    grounds: BackendSites
    room: Path
    zone: ZoneInfo
    now: datetime


class PartReader:
    """One part, which is read once, in one of these ways, and to its end. What is told of it is true after that."""

    def __init__(
        self, reader: BackupReader, part: BackupPart, blocks: Iterator[bytes], opening: ReaderContext
    ) -> None:
        self._reader = reader
        self._blocks = blocks
        self._opening = opening
        self.mode = part.mode
        self.form = part.form

    @property
    def told(self) -> BackupPart:
        """Once it has been read."""
        return self._reader.table[-1]

    @property
    def blocks(self) -> Iterable[bytes]:
        """As they are; reading blocks."""
        return self._blocks

    async def to_file(self) -> Path:
        """As it is, in the room. Raises OSError, Refused."""
        path = self._opening.room / f"{self.mode}-{len(self._reader.table)}.raw"

        def write() -> None:
            with path.open("xb") as stream:
                path.chmod(0o600)
                for block in self._blocks:
                    stream.write(block)

        await run_uncancelled(asyncio.to_thread(write))
        return path

    async def rows(self) -> AsyncIterator[list[SnapshotItem]]:
        """Whatever its form is. Raises Refused, and the errors of a store."""
        if self.form == ROWS:
            batches = from_lines(self._blocks, now=self._opening.now)
            while (batch := await run_uncancelled(asyncio.to_thread(next, batches, None))) is not None:
                yield batch
            return
        path = await self.to_file()
        async with self._opening.grounds.opened(self.form, path) as store:
            async for batch in store.snapshot():
                yield batch

    @asynccontextmanager
    async def as_store(self) -> AsyncIterator[Backend]:
        """In the room, whatever its form is. Raises Refused, and the errors of a store."""
        if self.form != ROWS:
            path = await self.to_file()
            async with self._opening.grounds.opened(self.form, path) as store:
                yield store
            return
        path = self._opening.room / f"{self.mode}-{len(self._reader.table)}.scratch"
        async with self._opening.grounds.scratch(path) as store:
            await StoreLoader(store, zone=self._opening.zone).fill(self.rows())
            yield store


async def parts_of(path: Path, passphrase: str | None, opening: ReaderContext) -> AsyncIterator[PartReader]:
    """Each is to be read before the next is asked for. Raises OSError, Refused."""
    opening_file = open_backup(path, passphrase)
    reader = await run_uncancelled(asyncio.to_thread(opening_file.__enter__))  # making the key takes a while
    try:
        parts = reader.parts()
        while found := await run_uncancelled(asyncio.to_thread(next, parts, None)):
            yield PartReader(reader, *found, opening)
    finally:
        opening_file.__exit__(None, None, None)
