"""MongoDB in its other forms keeps the same contract: a replica set of one, and where there is vector search."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from test_mongo import handles

from mindhold.ports.store import Capability
from mindhold.testing.store_contract import Reopen, StoreContract
from support.mongo_server import MongoServer, VectorSearchProxy


@pytest.fixture(scope="module")
def proxy(mongo_server: MongoServer) -> Iterator[VectorSearchProxy]:
    with VectorSearchProxy(mongo_server) as proxy:
        yield proxy


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
