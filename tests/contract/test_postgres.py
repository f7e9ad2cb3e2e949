"""PostgreSQL keeps the store's contract. `make test-stores` has its other forms."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mindhold.ports.store import Capability, Store
from mindhold.stores.postgres.store import PostgresStore
from mindhold.testing.builders import START
from mindhold.testing.store_contract import Reopen, StoreContract

EVERYTHING = frozenset(
    {
        Capability.FULL_TEXT,
        Capability.VECTORS,
        Capability.TRANSACTIONS,
        Capability.CHANGE_NOTICES,
        Capability.ROW_SECURITY,
    }
)


async def handles(url: str) -> AsyncIterator[Reopen]:
    """Opens stores of one database; closed at the end."""
    opened: list[PostgresStore] = []

    async def open_another() -> Store:
        store = PostgresStore(url, clock=lambda: START)
        opened.append(store)
        await store.open()
        return store

    yield open_another
    for store in opened:
        await store.close()


class TestPostgres(StoreContract):
    """As a superuser, as images for Docker have it."""

    expects = EVERYTHING

    @pytest.fixture
    async def reopen(self, postgres_url: str) -> AsyncIterator[Reopen]:
        async for handle in handles(postgres_url):
            yield handle
