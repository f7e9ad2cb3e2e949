"""Reading a backup part by part, without keeping others waiting: as rows, as a file, or as a store for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from mindhold.engine.backup_file import ROWS, BackupReader, Part, opened
from mindhold.engine.backup_load import Loading
from mindhold.engine.backup_rows import from_lines
from mindhold.engine.core import unbroken
from mindhold.ports.snapshot import Grounds, House, Kept


@dataclass(frozen=True, slots=True)
class Opening:
    """What is needed to read one: where stores can be made, a folder for what is only needed meanwhile, who and when."""

    grounds: Grounds
    room: Path
    zone: ZoneInfo
    now: datetime


class PartReading:
    """One part, which is read once, in one of these ways, and to its end. What is told of it is true after that."""

    def __init__(self, reader: BackupReader, part: Part, blocks: Iterator[bytes], opening: Opening) -> None:
        self._reader = reader
        self._blocks = blocks
        self._opening = opening
        self.mode = part.mode
        self.form = part.form

    @property
    def told(self) -> Part:
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

        await unbroken(asyncio.to_thread(write))
        return path

    async def rows(self) -> AsyncIterator[list[Kept]]:
        """Whatever its form is. Raises Refused, and the errors of a store."""
        if self.form == ROWS:
            batches = from_lines(self._blocks, now=self._opening.now)
            while (batch := await unbroken(asyncio.to_thread(next, batches, None))) is not None:
                yield batch
            return
        path = await self.to_file()
        async with self._opening.grounds.opened(self.form, path) as store:
            async for batch in store.snapshot():
                yield batch

    @asynccontextmanager
    async def as_store(self) -> AsyncIterator[House]:
        """In the room, whatever its form is. Raises Refused, and the errors of a store."""
        if self.form != ROWS:
            path = await self.to_file()
            async with self._opening.grounds.opened(self.form, path) as store:
                yield store
            return
        path = self._opening.room / f"{self.mode}-{len(self._reader.table)}.scratch"
        async with self._opening.grounds.scratch(path) as store:
            await Loading(store, zone=self._opening.zone).fill(self.rows())
            yield store


async def parts_of(path: Path, passphrase: str | None, opening: Opening) -> AsyncIterator[PartReading]:
    """Each is to be read before the next is asked for. Raises OSError, Refused."""
    opening_file = opened(path, passphrase)
    reader = await unbroken(asyncio.to_thread(opening_file.__enter__))  # making the key takes a while
    try:
        parts = reader.parts()
        while found := await unbroken(asyncio.to_thread(next, parts, None)):
            yield PartReading(reader, *found, opening)
    finally:
        opening_file.__exit__(None, None, None)
