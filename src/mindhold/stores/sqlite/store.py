"""The SQLite store, put together. Contract: mindhold.testing.store_contract."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from mindhold.model.errors import StoreError
from mindhold.ports.clock import Clock
from mindhold.ports.store import Capability
from mindhold.stores.searching import DRIVING
from mindhold.stores.sqlite.connection import Database, Durability
from mindhold.stores.sqlite.cursors import CursorsPart
from mindhold.stores.sqlite.entries import EntriesPart
from mindhold.stores.sqlite.erase import ErasePart
from mindhold.stores.sqlite.jobs import JobsPart
from mindhold.stores.sqlite.links import LinksPart
from mindhold.stores.sqlite.live import LiveIndex
from mindhold.stores.sqlite.migrate import migrate
from mindhold.stores.sqlite.records import RecordsPart
from mindhold.stores.sqlite.scopes import ScopesPart
from mindhold.stores.sqlite.search import IndexPart
from mindhold.stores.sqlite.snapshot import SnapshotPart
from mindhold.stores.sqlite.upkeep import UpkeepPart

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
