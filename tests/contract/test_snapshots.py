"""Every store gives all that it has, as it is at one moment, and can be put in another's place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from mindhold.ports.backend import Backend, BackendSite
from mindhold.stores.mongo.store import MongoSite, MongoStore
from mindhold.stores.postgres.store import PostgresSite, PostgresStore
from mindhold.stores.sqlite.store import SqliteSite, SqliteStore
from mindhold.testing.builders import START
from mindhold.testing.store_contract import SiteContract, SnapshotContract
from support.mongo_server import MongoServer

_numbers = count(1)


class Contract(SnapshotContract, SiteContract):
    @pytest.fixture
    async def backend(self, made: Backend) -> AsyncIterator[Backend]:
        await made.open()
        yield made
        await made.close()


class TestSqlite(Contract):
    @pytest.fixture
    def made(self, tmp_path: Path) -> Backend:
        return SqliteStore(tmp_path / "Ordner #1?" / "store.db", clock=lambda: START)

    @pytest.fixture
    def site(self, tmp_path: Path) -> BackendSite:
        return SqliteSite(tmp_path / "Ordner #1?" / "store.db", clock=lambda: START)


class TestPostgres(Contract):
    """As a superuser."""

    @pytest.fixture
    def made(self, postgres_url: str) -> Backend:
        return PostgresStore(postgres_url, clock=lambda: START)

    @pytest.fixture
    def site(self, postgres_url: str) -> BackendSite:
        return PostgresSite(postgres_url, clock=lambda: START)


class TestOwnedPostgres(Contract):
    """As who owns the database and may do nothing else."""

    @pytest.fixture
    def made(self, owned_postgres_url: str) -> Backend:
        return PostgresStore(owned_postgres_url, clock=lambda: START)

    @pytest.fixture
    def site(self, owned_postgres_url: str) -> BackendSite:
        return PostgresSite(owned_postgres_url, clock=lambda: START)


class TestPlainPostgres(Contract):
    """Without pgvector."""

    @pytest.fixture
    def made(self, plain_postgres_url: str) -> Backend:
        return PostgresStore(plain_postgres_url, clock=lambda: START)

    @pytest.fixture
    def site(self, plain_postgres_url: str) -> BackendSite:
        return PostgresSite(plain_postgres_url, clock=lambda: START)


class MongoContract(Contract):
    @pytest.fixture
    def database(self, server: MongoServer) -> str:
        return f"snapshots_{next(_numbers)}"

    @pytest.fixture
    def made(self, server: MongoServer, database: str) -> Backend:
        return MongoStore(server.url, clock=lambda: START, database=database)

    @pytest.fixture
    def site(self, server: MongoServer, database: str) -> BackendSite:
        @asynccontextmanager
        async def address() -> AsyncIterator[str]:
            yield server.url

        return MongoSite(address, database=database, clock=lambda: START)


class TestMongo(MongoContract):
    """A lone server."""

    @pytest.fixture
    def server(self, mongo_server: MongoServer) -> MongoServer:
        return mongo_server


class TestMongoReplicaSet(MongoContract):
    """Which keeps the past for a while."""

    @pytest.fixture
    def server(self, mongo_replica: MongoServer) -> MongoServer:
        return mongo_replica
