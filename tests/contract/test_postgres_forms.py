"""PostgreSQL in its other forms keeps the same contract: as its owner, and without pgvector."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from test_postgres import EVERYTHING, handles

from mindhold.ports.store import Capability
from mindhold.testing.store_contract import Reopen, StoreContract


class TestPostgresOfItsOwner(StoreContract):
    """As a role that owns the database and may do nothing else."""

    expects = EVERYTHING

    @pytest.fixture
    async def reopen(self, owned_postgres_url: str) -> AsyncIterator[Reopen]:
        async for handle in handles(owned_postgres_url):
            yield handle


class TestPostgresWithoutVectors(StoreContract):
    """On a server that lacks pgvector: everything but meaning."""

    expects = EVERYTHING - {Capability.VECTORS}

    @pytest.fixture
    async def reopen(self, plain_postgres_url: str) -> AsyncIterator[Reopen]:
        async for handle in handles(plain_postgres_url):
            yield handle
