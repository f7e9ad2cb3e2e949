"""The SQLite store, put together. Contract: recollect.testing.store_contract."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from recollect.model.errors import StoreError
from recollect.ports.clock import Clock
from recollect.ports.store import Capability
from recollect.stores.searching import DRIVING
from recollect.stores.sqlite.connection import Database, Durability
from recollect.stores.sqlite.cursors import CursorsPart
from recollect.stores.sqlite.entries import EntriesPart
from recollect.stores.sqlite.erase import ErasePart
from recollect.stores.sqlite.jobs import JobsPart
from recollect.stores.sqlite.links import LinksPart
from recollect.stores.sqlite.live import LiveIndex
from recollect.stores.sqlite.migrate import migrate
from recollect.stores.sqlite.records import RecordsPart
from recollect.stores.sqlite.scopes import ScopesPart
from recollect.stores.sqlite.search import IndexPart
from recollect.stores.sqlite.snapshot import SnapshotPart
from recollect.stores.sqlite.upkeep import UpkeepPart

OLDEST_SQLITE = (3, 37)  # the first with STRICT tables


class SqliteStore(
    RecordsPart,
    ErasePart,
    IndexPart,
    LinksPart,
    ScopesPart,
    JobsPart,
    CursorsPart,
    EntriesPart,
    UpkeepPart,
    SnapshotPart,
):
    """One file. Any number of processes may use it at once.

    `durability` "full" survives a power cut, "normal" only the end of the process. `most_pages` bounds the file.
    A word that `driving` records have is a common one: in a store twice as large rarer words are looked up first.
    """

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
        self._live = LiveIndex(driving=driving)
        self._database = Database(
            path,
            busy_timeout_ms=busy_timeout_ms,
            readers=readers,
            durability=durability,
            most_pages=most_pages,
        )

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset(
            {Capability.FULL_TEXT, Capability.VECTORS, Capability.TRANSACTIONS, Capability.ERASURE_PROOF}
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
        self._live = LiveIndex(driving=self._driving)  # the next open() may find another file there
