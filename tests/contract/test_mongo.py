"""MongoDB keeps the store's contract: a lone server. `make test-stores` has its other forms."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mindhold.ports.store import Capability, Store
from mindhold.stores.mongo.store import MongoStore
from mindhold.testing.builders import START
from mindhold.testing.store_contract import Reopen, StoreContract
from support.mongo_server import MongoServer

DATABASE = "contract"


async def handles(server: MongoServer, url: str = "", **options: Any) -> AsyncIterator[Reopen]:
    """Opens stores of one empty database; closed at the end. Its indexes stay, for they take longest to make."""
    opened: list[MongoStore] = []

    async def open_another() -> Store:
        store = MongoStore(url or server.url, database=DATABASE, clock=lambda: START, **options)
        opened.append(store)
        await store.open()
        return store

    yield open_another
    for store in opened:
        await store.close()
    there = server.command({"listCollections": 1, "filter": {"type": "collection"}}, database=DATABASE)
    for one in there["cursor"]["firstBatch"]:
        if not one["name"].startswith("system."):
            everything = {"delete": one["name"], "deletes": [{"q": {}, "limit": 0}]}
            server.command(everything, database=DATABASE)


class TestMongo(StoreContract):
    expects = frozenset({Capability.FULL_TEXT, Capability.VECTORS})

    @pytest.fixture
    async def reopen(self, mongo_server: MongoServer) -> AsyncIterator[Reopen]:
        async for reopen in handles(mongo_server):
            yield reopen
