"""A store that a Redis follows keeps the store's contract still."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mindhold.ports.store import Capability, Store
from mindhold.stores.redis.sidecar import RedisSidecar
from mindhold.stores.sqlite.store import SqliteStore
from mindhold.testing.builders import START
from mindhold.testing.store_contract import Reopen, StoreContract
from redis_beside import address, beside
from support.redis_server import RedisServer


class TestFollowed(StoreContract):
    expects = frozenset(
        {Capability.FULL_TEXT, Capability.VECTORS, Capability.TRANSACTIONS, Capability.ERASURE_PROOF}
    )

    @pytest.fixture
    async def reopen(self, tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Reopen]:
        opened: list[tuple[SqliteStore, RedisSidecar]] = []

        async def open_another() -> Store:
            store = SqliteStore(tmp_path / "store.db", clock=lambda: START)
            await store.open()
            aside = await beside(store, address(redis_server))
            opened.append((store, aside))
            return aside.store

        yield open_another
        for store, aside in opened:
            await aside.close()
            await store.close()
