"""Everything at one moment: as a copy of the file, or as records."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from mindhold.model.totals import content_sum
from mindhold.ports.snapshot import Cursor, Kept, Record, Step, Totals
from mindhold.stores.codes import decode
from mindhold.stores.sqlite.connection import Part
from mindhold.stores.sqlite.entries import COLUMNS as ENTRY_COLUMNS
from mindhold.stores.sqlite.entries import entry_of
from mindhold.stores.sqlite.jobs import COLUMNS as JOB_COLUMNS
from mindhold.stores.sqlite.jobs import job_of
from mindhold.stores.sqlite.links import ALL_VERSIONS, link_of, version_of
from mindhold.stores.sqlite.rows import SELECTED, memory_of
from mindhold.stores.sqlite.scopes import SCOPES, scope_of
from mindhold.stores.sqlite_file import make_private, translated

T = TypeVar("T")
RAW_FORM = "sqlite"
BATCH = 500
_PAGES = 2_048  # copied together: 8 MB

# All records with their vectors, as they came in.
RECORDS = f"SELECT {SELECTED}, exact FROM memory LEFT JOIN vector USING (row) ORDER BY memory.row"

# All links, by the ids of their ends.
LINKS = """
    SELECT origin.id, target.id, relation, link.created, weight, automatic FROM link
    JOIN memory AS origin ON origin.row = link.origin JOIN memory AS target ON target.row = link.target
    ORDER BY link.origin, link.target, relation
"""

_READ: tuple[tuple[str, Callable[[Any], Kept]], ...] = (
    (SCOPES, scope_of),
    (RECORDS, lambda row: Record(memory_of(row[:-1]), None if row[-1] is None else decode(row[-1]))),
    (f"{ALL_VERSIONS} ORDER BY version.memory, number", version_of),
    (LINKS, link_of),
    (f"SELECT {JOB_COLUMNS} FROM job ORDER BY rowid", job_of),
    (f"SELECT {ENTRY_COLUMNS} FROM entry ORDER BY rowid", entry_of),
    ("SELECT name, value FROM cursor ORDER BY name", lambda row: Cursor(*row)),
)


class SnapshotPart(Part):
    """The Snapshots protocol."""

    @property
    def raw_form(self) -> str:
        return RAW_FORM

    async def copy_raw(self, path: Path, *, told: Step) -> None:
        await asyncio.to_thread(copy_file, self._database.path, path, told)

    async def snapshot(self) -> AsyncIterator[list[Kept]]:
        with _one_state(self._database.path) as connection:
            for query, made in _READ:
                rows = await asyncio.to_thread(connection.execute, query)
                while batch := await asyncio.to_thread(_some, self._database.path, rows, made):
                    yield batch

    async def totals(self) -> Totals:
        return await self._database.read(_totals)


def copy_file(source: Path, target: Path, told: Step) -> None:
    """As it is at one moment: others write on meanwhile, and what they write isn't in it. Raises StoreFull and its kin."""
    make_private(target)
    with _one_state(source) as connection, translated(target), closing(sqlite3.connect(target)) as copy:
        connection.backup(
            copy, pages=_PAGES, progress=lambda _, left, total: told(total - left, total), sleep=0
        )


@contextmanager
def _one_state(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that sees what was committed before, and nothing later."""
    address = f"{path.as_uri()}?mode=rw"  # without write access what is still in the log can't be read
    with (
        translated(path),
        closing(sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)) as one,
    ):
        one.execute("PRAGMA query_only = on")
        one.execute("BEGIN")
        one.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # from here on it stands still
        yield one


def _some(path: Path, rows: sqlite3.Cursor, made: Callable[[Any], Kept]) -> list[Kept]:
    with translated(path):
        return [made(row) for row in islice(rows, BATCH)]


def _totals(connection: sqlite3.Connection) -> Totals:
    def count(table: str) -> int:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    memories, content = content_sum(connection.execute("SELECT id, content_hash FROM memory"))
    return Totals(
        memories=memories,
        vectors=count("vector"),
        versions=count("version"),
        links=count("link"),
        scopes=count("scope"),
        jobs=count("job"),
        entries=count("entry"),
        cursors=count("cursor"),
        content=content,
    )
