"""Reads a backup part by part, and loads its rows into an empty store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from mindhold.aio import run_uncancelled
from mindhold.backup.file_format import ROWS, BackupPart, BackupReader, decode_rows, open_backup
from mindhold.memories.prepare import index_memory
from mindhold.model.job import Entry, Job
from mindhold.model.memory import Link, Version
from mindhold.model.scope import Scope
from mindhold.ports.backend import Backend, BackendSites, Cursor, Record, SnapshotItem, SnapshotRemoval
from mindhold.ports.store import Capability, Change, Connect, Enqueue, Keep, Put

PLACES = "places"  # the cursor with the stores of projects; dropped when all are put in one store


@dataclass(slots=True)
class StoreLoader:
    """Fills one store from one or several parts.

    `together` merges several parts, which may have copies of each other's scopes: of each part, only the scopes that live
    there are loaded.
    """

    store: Backend
    zone: ZoneInfo
    progress: Callable[[int], None] = lambda _: None
    together: bool = False
    _loaded_ids: set[str] = field(default_factory=set)  # with `together`
    _loaded_scopes: set[str] = field(default_factory=set)
    _done: int = 0

    async def fill(
        self,
        batches: AsyncIterator[list[SnapshotItem]],
        *,
        lives: Collection[str] | None = None,
        elsewhere: Collection[str] = (),
    ) -> None:
        """Load the batches. Raises the store's errors."""
        scopes: list[Scope] = []
        async for batch in batches:
            for kind, run in groupby(batch, key=type):
                if kind is Scope:  # collect all first: parents may come after their children
                    scopes += [item for item in run if isinstance(item, Scope)]
                    continue
                await self._put_scopes(scopes)
                scopes = []
                await self._load(kind, list(run), lives, elsewhere)
            self._done += len(batch)
            self.progress(self._done)
        await self._put_scopes(scopes)

    async def _load(
        self,
        kind: type[SnapshotItem],
        run: list[Any],
        lives: Collection[str] | None,
        elsewhere: Collection[str],
    ) -> None:
        if kind is Record:
            records = [item for item in run if _lives_here(item.memory.scope, lives, elsewhere)]
            await self._put_records(records)
        elif kind is SnapshotRemoval:
            await self.store.erase([item.memory_id for item in run if item.memory_id], references=False)
            for item in run:
                if item.scope:
                    await self.store.drop_scope(item.scope)
        elif kind is Version:
            await self._apply(Keep(item) for item in self._of_loaded(run, lambda item: (item.memory_id,)))
        elif kind is Link:
            await self._apply(
                Connect(item) for item in self._of_loaded(run, lambda item: (item.origin, item.target))
            )
        elif kind is Job:
            await self._apply(Enqueue(item) for item in run)
        elif kind is Entry:
            for entry in run:
                await self.store.put_entry(entry)
        elif kind is Cursor:
            for cursor in run:
                if not (self.together and cursor.name == PLACES):
                    await self.store.set_cursor(cursor.name, cursor.value)

    async def _put_scopes(self, scopes: Sequence[Scope]) -> None:
        """Put parents before their children; skip scopes that another part brought."""
        waiting = {
            scope.name: scope
            for scope in scopes
            if not self.together or scope.name not in self._loaded_scopes
        }
        self._loaded_scopes.update(waiting)
        while waiting:
            ready = [
                scope for scope in waiting.values() if scope.parent is None or scope.parent not in waiting
            ]
            for scope in ready or list(waiting.values()):  # a cycle, which no store makes, is cut
                await self.store.put_scope(scope if ready else replace(scope, parent=None))
                del waiting[scope.name]

    async def _put_records(self, records: Sequence[Record]) -> None:
        if not records:
            return
        if self.together:
            self._loaded_ids.update(record.memory.id for record in records)
        puts = await asyncio.to_thread(lambda: [self._put(record) for record in records])
        await self.store.apply(puts)

    def _put(self, record: Record) -> Put:
        vector = record.vector if Capability.VECTORS in self.store.capabilities else None
        return index_memory(record.memory, self.zone).put(vector, record.memory.embedded_by)

    def _of_loaded(self, items: Iterable[Any], ends: Callable[[Any], tuple[str, ...]]) -> Iterable[Any]:
        """The items whose memories were loaded."""
        return (
            [item for item in items if all(end in self._loaded_ids for end in ends(item))]
            if self.together
            else items
        )

    async def _apply(self, changes: Iterable[Change]) -> None:
        pending = list(changes)
        if pending:
            await self.store.apply(pending)


def _lives_here(scope: str, lives: Collection[str] | None, elsewhere: Collection[str]) -> bool:
    return (lives is None or scope in lives) and scope not in elsewhere


@dataclass(frozen=True, slots=True)
class ReaderContext:
    """What a reader needs: where to create stores, a temporary folder, the time zone and the time."""

    sites: BackendSites
    folder: Path
    zone: ZoneInfo
    now: datetime


class PartReader:
    """One part, which is read once and to its end, in one of these ways. Its summary is verified after that."""

    def __init__(
        self, reader: BackupReader, part: BackupPart, blocks: Iterator[bytes], context: ReaderContext
    ) -> None:
        self._reader = reader
        self._blocks = blocks
        self._context = context
        self.mode = part.mode
        self.form = part.form

    @property
    def summary(self) -> BackupPart:
        """The part as the file describes it, once it has been read."""
        return self._reader.table[-1]

    @property
    def blocks(self) -> Iterable[bytes]:
        """The raw blocks; reading blocks the thread."""
        return self._blocks

    async def to_file(self) -> Path:
        """Write the raw part to the temporary folder. Raises OSError, Refused."""
        path = self._context.folder / f"{self.mode}-{len(self._reader.table)}.raw"

        def write() -> None:
            with path.open("xb") as stream:
                path.chmod(0o600)
                for block in self._blocks:
                    stream.write(block)

        await run_uncancelled(asyncio.to_thread(write))
        return path

    async def rows(self) -> AsyncIterator[list[SnapshotItem]]:
        """The rows, whatever its form. Raises Refused, and the errors of a store."""
        if self.form == ROWS:
            batches = decode_rows(self._blocks, now=self._context.now)
            while (batch := await run_uncancelled(asyncio.to_thread(next, batches, None))) is not None:
                yield batch
            return
        path = await self.to_file()
        async with self._context.sites.opened(self.form, path) as store:
            async for batch in store.snapshot():
                yield batch

    @asynccontextmanager
    async def as_store(self) -> AsyncIterator[Backend]:
        """The part as a temporary store, whatever its form. Raises Refused, and the errors of a store."""
        if self.form != ROWS:
            path = await self.to_file()
            async with self._context.sites.opened(self.form, path) as store:
                yield store
            return
        path = self._context.folder / f"{self.mode}-{len(self._reader.table)}.scratch"
        async with self._context.sites.scratch(path) as store:
            await StoreLoader(store, zone=self._context.zone).fill(self.rows())
            yield store


async def read_parts(path: Path, passphrase: str | None, context: ReaderContext) -> AsyncIterator[PartReader]:
    """The parts; each must be read before the next. Raises OSError, Refused."""
    opening_file = open_backup(path, passphrase)
    # Deriving the key takes a while.
    reader = await run_uncancelled(asyncio.to_thread(opening_file.__enter__))
    try:
        parts = reader.parts()
        while part := await run_uncancelled(asyncio.to_thread(next, parts, None)):
            yield PartReader(reader, *part, context)
    finally:
        opening_file.__exit__(None, None, None)
