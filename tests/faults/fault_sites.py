"""Database servers of one's own, to be killed, filled up and shut out, and apps on them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mindhold.app.application import App, open_app
from mindhold.memories.recall import RECALL
from mindhold.memories.remember import REMEMBER
from mindhold.model.errors import MindholdError
from mindhold.settings.loader import load_settings
from support.mongo_server import MongoServer
from support.postgres_server import PostgresServer

# How long one call may take: what the settings of a Site say, and room for a busy machine.
TIMEOUT_MS = 2_000
BOUND = 60.0
PATIENCE = 120.0  # for what must come about in the end

POSTGRES, MONGO, REPLICA = "postgres", "mongodb", "mongodb-replica"
EVERY_SITE = [
    pytest.param(POSTGRES, marks=pytest.mark.needs("postgres")),
    pytest.param(MONGO, marks=pytest.mark.needs("mongodb")),
    pytest.param(REPLICA, marks=pytest.mark.needs("mongodb")),
]

# MongoDB's driver leaves a socket to the collector when it is told to stop while it connects.
SOCKETS_LEFT = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

_numbers = count(1)


class Site:
    """One server that keeps what it acknowledges, and a fresh database on it for whoever asks."""

    def __init__(self, kind: str, folder: Path, **options: Any) -> None:
        self.kind = kind
        self.server: Any
        if kind == POSTGRES:
            self.server = PostgresServer(folder, durable=True, **options)
        else:
            self.server = MongoServer(folder, replica=kind == REPLICA, password="a secret", **options)

    def new_database(self) -> dict[str, Any]:
        """Settings of an app on a database where nothing is yet."""
        name = f"fault_{next(_numbers)}"
        if self.kind == POSTGRES:
            self.server.create_database(name)
            self.server.execute("CREATE EXTENSION vector", database=name)
            return {
                "store.mode": "postgres",
                "postgres.url": self.server.url_of(name),
                "postgres.connection_timeout_ms": TIMEOUT_MS,
                "postgres.query_timeout_ms": TIMEOUT_MS,
            }
        return {
            "store.mode": "mongodb",
            "mongodb.mode": "external",
            "mongodb.uri": self.server.url,
            "mongodb.database": name,
            "mongodb.timeout_ms": TIMEOUT_MS,
        }

    def settle(self) -> None:
        """As a server is that has run for a minute: what was made is in its files, not only in its log."""
        if self.kind != POSTGRES:
            self.server.command({"fsync": 1})


@asynccontextmanager
async def app_on(home: Path, settings: Mapping[str, Any]) -> AsyncIterator[App]:
    """An app in this process."""
    given = {"home": home, "time_zone": "UTC", "embedding.provider": "hashing"}
    async with open_app(load_settings({**given, **settings}, environ={})) as app:
        yield app


async def remember(app: App, content: str) -> str:
    """Its id."""
    answer = await app.run(REMEMBER, REMEMBER.takes(content=content))
    assert answer.id is not None
    return answer.id


async def found(app: App, query: str) -> list[str]:
    """The ids that a recall gives."""
    return [hit.id for hit in (await app.run(RECALL, RECALL.takes(query=query))).hits]


async def code_of(call: Awaitable[object]) -> str:
    """With which code it fails, in bounded time; empty when it goes well."""
    try:
        await asyncio.wait_for(call, BOUND)
    except MindholdError as error:
        return error.code
    return ""


async def until(call: Callable[[], Awaitable[bool]]) -> None:
    """Ask until it is so, within reason; errors of the store are no answer yet."""
    limit = time.monotonic() + PATIENCE
    told: object = "it is not so"
    while time.monotonic() < limit:
        try:
            if await asyncio.wait_for(call(), BOUND):
                return
        except MindholdError as error:
            told = error
        await asyncio.sleep(0.05)
    raise AssertionError(f"not within {PATIENCE:.0f} seconds: {told}")


async def remembers_again(app: App, content: str) -> str:
    """A write that goes well in the end, by the same app; its id."""
    ids: list[str] = []

    async def remembered() -> bool:
        ids.append(await remember(app, content))
        return True

    await until(remembered)
    return ids[0]


@contextmanager
def no_file_beyond(size: int) -> Iterator[None]:
    """What is started meanwhile can't make a file longer than that: to it the disk is full. Needs no rights."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
