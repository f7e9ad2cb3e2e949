"""Changes of the MongoDB store are whole and durable, with transactions and without."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pymongo import monitoring

from recollect.model.errors import Conflict, MemoryNotFound
from recollect.model.memory import Status
from recollect.model.query import Filter, Search
from recollect.ports.store import Enqueue, Mark
from recollect.stores.mongo.store import MongoStore
from recollect.testing.builders import MODEL, START, Builder, unit
from recollect.testing.servers.mongo import MongoServer

CHILD = Path(__file__).with_name("mongo_child.py")
_numbers = count(1)


class Commands(monitoring.CommandListener):
    """What clients that are made later send."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self.sent.append(dict(event.command))

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        pass

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        pass


COMMANDS = Commands()
monitoring.register(COMMANDS)


@pytest.fixture
def build() -> Builder:
    return Builder()


@pytest.fixture
def database() -> str:
    return f"writing_{next(_numbers)}"


@pytest.fixture
async def opened(database: str) -> AsyncIterator[Callable[..., Any]]:
    stores: list[tuple[MongoServer, MongoStore]] = []

    async def open_one(server: MongoServer, **options: Any) -> MongoStore:
        store = MongoStore(server.url, database=database, clock=lambda: START, **options)
        stores.append((server, store))
        await store.open()
        return store

    yield open_one
    for _, store in stores:
        await store.close()
    for server, _ in stores:
        server.command({"dropDatabase": 1}, database=database)


async def killed(
    server: MongoServer, database: str, old: str, bulk: int
) -> subprocess.CompletedProcess[bytes]:
    """A child that has made a change and done nothing of it."""
    command = [sys.executable, str(CHILD), server.url, database, old, str(bulk)]
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=120, check=False)


@pytest.mark.parametrize("bulk", [2, 700], ids=["small", "in several parts"])
async def test_a_crash_between_the_writes_is_found_and_healed(
    mongo_server: MongoServer, opened: Any, build: Builder, database: str, bulk: int
) -> None:
    store = await opened(mongo_server, lease_seconds=1.0)
    old = build.put("the old plan")
    await store.apply([old])
    child = await killed(mongo_server, database, old.memory.id, bulk)
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    state = await store._database.metadata.find_one({"_id": "state"})
    assert state["pending"]["revision"] == state["revision"] + 1
    assert await store._database.memories.count_documents({}) == 1

    # Whoever reads next finds the change whole.
    assert await store.count(Filter()) == bulk
    assert (await store.get(old.memory.id, viewer="default")).status is Status.SUPERSEDED
    found = await store.search(Search(Filter(), ("child",), unit(0, 1), MODEL, pool=5))
    assert found.total == found.embedded == found.frequencies["child"] == bulk
    assert len(await store.links_of(["child00000001"], viewer="default")) == 1
    assert all(finding.healthy for finding in await store.check())
    assert await store._database.database["journal"].count_documents({}) == 0
    await store.apply([build.put("life goes on")])
    assert await store.count(Filter()) == bulk + 1


async def test_opening_heals_too(
    mongo_server: MongoServer, opened: Any, build: Builder, database: str
) -> None:
    store = await opened(mongo_server)
    old = build.put("the old plan")
    await store.apply([old])
    await killed(mongo_server, database, old.memory.id, 3)
    other = await opened(mongo_server)
    state = await other._database.metadata.find_one({"_id": "state"})
    assert "pending" not in state
    assert await other.count(Filter()) == 3


@pytest.mark.parametrize("kind", ["mongo_server", "mongo_replica"])
async def test_what_is_refused_leaves_nothing(
    request: pytest.FixtureRequest, kind: str, opened: Any, build: Builder
) -> None:
    store = await opened(request.getfixturevalue(kind))
    good, twin = build.put("good"), build.put("twin")
    await store.apply([twin])
    job = Enqueue(build.job())
    gone = Mark("gone", Status.ACTIVE, None, START)
    for failing, error in ((build.put("twin"), Conflict), (gone, MemoryNotFound)):
        with pytest.raises(error):
            await store.apply([good, job, failing])
    assert await store.count(Filter(statuses=())) == 1
    assert await store.jobs() == []
    assert await store._database.database["journal"].count_documents({}) == 0


@pytest.mark.parametrize("kind", ["mongo_server", "mongo_replica"])
async def test_a_change_is_in_the_journal_before_it_is_acknowledged(
    request: pytest.FixtureRequest, kind: str, opened: Any, build: Builder
) -> None:
    store = await opened(request.getfixturevalue(kind))
    COMMANDS.sent.clear()
    await store.apply([build.put("kept")])
    durable = {"w": "majority", "j": True}
    if kind == "mongo_replica":
        concerns = [command["writeConcern"] for command in COMMANDS.sent if "commitTransaction" in command]
        assert concerns == [durable]
        assert all("txnNumber" in command for command in COMMANDS.sent if "insert" in command)
    else:
        made = [one for one in COMMANDS.sent if "update" in one and "'pending':" in str(one.get("updates"))]
        assert made[0]["writeConcern"] == durable
    COMMANDS.sent.clear()
    await store.set_cursor("place", "1")
    assert [command["writeConcern"] for command in COMMANDS.sent] == [durable]


async def test_many_writers_in_two_handles(mongo_server: MongoServer, opened: Any, build: Builder) -> None:
    one, two = await opened(mongo_server), await opened(mongo_server)
    puts = [build.put(f"number n{n}", vector=unit(n, 1)) for n in range(60)]
    await asyncio.gather(*((one, two)[n % 2].apply([put]) for n, put in enumerate(puts)))
    assert await one.count(Filter()) == 60
    rows = await one._database.memories.distinct("row")
    assert len(rows) == 60
    state = await one._database.metadata.find_one({"_id": "state"})
    assert state["total_memories"] == 60


async def test_changes_made_together_fail_each_for_itself(
    mongo_server: MongoServer, opened: Any, build: Builder
) -> None:
    store = await opened(mongo_server)
    puts = [build.put(f"say {n % 8}") for n in range(16)]  # each is said twice
    outcomes = await asyncio.gather(*(store.apply([put]) for put in puts), return_exceptions=True)
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 8
    assert await store.count(Filter()) == 8
