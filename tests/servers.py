"""Real servers for the tests that need them: one of each kind for a worker, started when first asked for.

A server that can't be had fails its tests. `--without postgres,mongodb,redis` leaves out the tests that need these, and
says how many.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from left_out import leave_out
from support.mongo_server import MongoServer
from support.postgres_server import PostgresServer
from support.redis_server import RedisSentinels, RedisServer

_SHARED = Path("/dev/shm")
_MUCH_ROOM = 4 * 1024**3
# Which fixture stands for which server: a test that uses it, through whatever other fixture, needs the server.
FIXTURES = {
    "postgres": "postgres_server",
    "mongodb": "mongo_server",
    "redis": "redis_server",
    "namespace": "namespace",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--without", default="", help=f"Leave out tests that need these servers: {', '.join(FIXTURES)}."
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(server): starts that server itself.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    unwanted = [name.strip() for name in config.getoption("--without").split(",") if name.strip()]
    for name in unwanted:
        if name not in FIXTURES:
            raise pytest.UsageError(f"--without knows {', '.join(FIXTURES)}, not {name!r}")
    for name in unwanted:
        leave_out(config, items, partial(_needs, name), why=f"tests that need {name}")


def _needs(name: str, item: pytest.Item) -> bool:
    named = any(name in mark.args for mark in item.iter_markers("needs"))
    return named or FIXTURES[name] in getattr(item, "fixturenames", ())


def _in_memory() -> str | None:
    """A folder that no disk is waited for in, where there is one with room: killing a process leaves it as it is."""
    there = _SHARED.is_dir() and os.access(_SHARED, os.W_OK) and shutil.disk_usage(_SHARED).free > _MUCH_ROOM
    return str(_SHARED) if there else None


@contextmanager
def server_folder(name: str) -> Iterator[Path]:
    """A folder that a server's own user can reach, which those of tests are not; gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=f"mindhold-{name}-", dir=_in_memory()))
    folder.chmod(0o755)
    try:
        yield folder / "server"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with server_folder("postgres") as folder, PostgresServer(folder) as server:
        server.create_database("with_vectors")
        server.execute("CREATE EXTENSION vector", database="with_vectors")
        yield server


_numbers = count(1)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh database with pgvector, as the superuser."""
    name = f"fresh_{next(_numbers)}"
    yield postgres_server.create_database(name, template="with_vectors")
    postgres_server.drop_database(name)


@pytest.fixture
def owned_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh database with pgvector, as a role that owns it and may do nothing else."""
    name = f"owned_{next(_numbers)}"
    yield postgres_server.create_database(name, template="with_vectors", owner="plain_owner")
    postgres_server.drop_database(name)


@pytest.fixture
def plain_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh database without pgvector, as a role that can't bring it."""
    name = f"plain_{next(_numbers)}"
    yield postgres_server.create_database(name, owner="plain_owner")
    postgres_server.drop_database(name)


@pytest.fixture
def new_postgres_server() -> Iterator[Callable[..., PostgresServer]]:
    """Makes servers of one's own, to be killed, filled up or shut out."""
    with server_folder("postgres") as folder:
        made: list[PostgresServer] = []

        def make(**options: object) -> PostgresServer:
            server = PostgresServer(folder.with_name(f"server{len(made)}"), **options)  # type: ignore[arg-type]
            made.append(server)
            server.start()
            return server

        yield make
        for server in made:
            server.stop()


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[RedisServer]:
    with server_folder("redis") as folder, RedisServer(folder, password="open sesame") as server:
        yield server


@pytest.fixture
def redis_server(shared_redis: RedisServer) -> RedisServer:
    """A running, empty one; a test may flush, kill or pause it, for the next gets it whole again."""
    shared_redis.restore()
    return shared_redis


@pytest.fixture
def redis_sentinels(redis_server: RedisServer) -> Iterator[RedisSentinels]:
    """A master with a replica, watched; of this test only. The plain one says that the test needs a Redis."""
    assert redis_server.running
    with server_folder("sentinels") as folder, RedisSentinels(folder, password="open sesame") as sentinels:
        yield sentinels


@pytest.fixture(scope="session")
def mongo_server() -> Iterator[MongoServer]:
    """A lone one, which has no transactions. It knows nobody and lets everybody in."""
    with server_folder("mongo") as folder, MongoServer(folder) as server:
        yield server


@pytest.fixture(scope="session")
def mongo_replica(mongo_server: MongoServer) -> Iterator[MongoServer]:
    """A replica set of one, which has transactions. The plain one says that the test needs a MongoDB."""
    assert mongo_server.running
    with server_folder("mongo-replica") as folder, MongoServer(folder, replica=True) as server:
        yield server


@pytest.fixture
def new_mongo_server() -> Iterator[Callable[..., MongoServer]]:
    """Makes servers of one's own, to be killed, stepped down or shut out. Its tests are marked needs("mongodb")."""
    with server_folder("mongo") as folder:
        made: list[MongoServer] = []

        def make(**options: object) -> MongoServer:
            server = MongoServer(folder.with_name(f"server{len(made)}"), **options)  # type: ignore[arg-type]
            made.append(server)
            server.start()
            return server

        yield make
        for server in made:
            server.stop()
