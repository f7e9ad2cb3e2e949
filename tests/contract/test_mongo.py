"""MongoDB keeps the store's contract: on a lone server, on a replica set of one, and where it has vector search."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Any

import pytest

from recollect.ports.store import Capability, Store
from recollect.stores.mongo.store import MongoStore
from recollect.testing.builders import START
from recollect.testing.servers.mongo import MongoServer
from recollect.testing.servers.mongo_search import VectorSearchProxy
from recollect.testing.store_contract import Reopen, StoreContract

_numbers = count(1)


async def handles(server: MongoServer, url: str = "", **options: Any) -> AsyncIterator[Reopen]:
    """Opens stores of one fresh database; closed and dropped at the end."""
    opened: list[MongoStore] = []
    name = f"contract_{next(_numbers)}"

    async def open_another() -> Store:
        store = MongoStore(url or server.url, database=name, clock=lambda: START, **options)
        opened.append(store)
        await store.open()
        return store

    yield open_another
    for store in opened:
        await store.close()
    server.command({"dropDatabase": 1}, database=name)


@pytest.fixture(scope="module")
def proxy(mongo_server: MongoServer) -> Iterator[VectorSearchProxy]:
    with VectorSearchProxy(mongo_server) as proxy:
        yield proxy


class TestMongo(StoreContract):
    expects = frozenset({Capability.FULL_TEXT, Capability.VECTORS})

    @pytest.fixture
    async def reopen(self, mongo_server: MongoServer) -> AsyncIterator[Reopen]:
        async for reopen in handles(mongo_server):
            yield reopen


class TestMongoReplicaSet(StoreContract):
    expects = frozenset({Capability.FULL_TEXT, Capability.VECTORS, Capability.TRANSACTIONS})

    @pytest.fixture
    async def reopen(self, mongo_replica: MongoServer) -> AsyncIterator[Reopen]:
        async for reopen in handles(mongo_replica):
            yield reopen


class TestMongoVectorSearch(StoreContract):
    expects = frozenset({Capability.FULL_TEXT, Capability.VECTORS})

    @pytest.fixture
    async def reopen(self, mongo_server: MongoServer, proxy: VectorSearchProxy) -> AsyncIterator[Reopen]:
        async for reopen in handles(mongo_server, proxy.url, held_vectors=2_400):
            yield reopen
