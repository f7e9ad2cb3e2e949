"""SQLite keeps the store's contract."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mindhold.ports.store import Capability, Store
from mindhold.stores.sqlite.store import SqliteStore
from mindhold.testing.builders import START
from mindhold.testing.store_contract import Reopen, StoreContract


class TestSqlite(StoreContract):
    expects = frozenset(
        {Capability.FULL_TEXT, Capability.VECTORS, Capability.TRANSACTIONS, Capability.ERASURE_PROOF}
    )

    @pytest.fixture
    async def reopen(self, tmp_path: Path) -> AsyncIterator[Reopen]:
        opened: list[SqliteStore] = []

        async def open_another() -> Store:
            store = SqliteStore(tmp_path / "a home" / "Ordner #1?" / "store.db", clock=lambda: START)
            opened.append(store)
            await store.open()
            return store

        yield open_another
        for store in opened:
            await store.close()
