"""Changes of the MongoDB store are whole and durable, with transactions and without."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pymongo import monitoring

from mindhold.model.errors import Conflict, InvalidInput, MemoryNotFound, StoreAway, StoreError
from mindhold.model.memory import Status
from mindhold.model.query import Filter, Search
from mindhold.ports.store import Connect, Disconnect, Enqueue, Inherit, Mark, Put, Revise
from mindhold.stores.mongo import transactions
from mindhold.stores.mongo.store import MongoStore
from mindhold.testing.builders import MODEL, START, Builder, unit
from support.mongo_server import MongoServer

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


async def test_what_the_server_refuses_half_way_is_put_back(
    mongo_server: MongoServer, opened: Any, build: Builder
) -> None:
    store = await opened(mongo_server)
    old, other = build.put("the old plan", topic="plans"), build.put("other")
    await store.apply([old, other])
    database = store._database.database
    rule = {"content": {"$not": {"$regex": "^bad"}}}
    await database.command("collMod", "conversation_memory", validator=rule)
    changed = replace(old.memory, topic="changed", updated=START)
    job = Enqueue(build.job())
    link = Connect(build.link(old.memory, other.memory))
    for _ in range(2):
        with pytest.raises(StoreError, match="validation"):
            await store.apply([Revise(changed), link, build.put("good"), build.put("bad one"), job])
    # Whoever comes next finds what was there, and goes on.
    again = await opened(mongo_server)
    for one in (store, again):
        assert (await one.get(old.memory.id, viewer="default")).topic == "plans"
        assert await one.count(Filter(statuses=())) == 2
        assert await one.jobs() == await one.links_of([old.memory.id], viewer="default") == []
        assert not (await one.search(Search(Filter(), ("good",), None, None, pool=5))).frequencies.get("good")
        assert all(finding.healthy for finding in await one.check())
    await store.apply([build.put("life goes on")])
    assert await again.count(Filter()) == 3


async def test_one_says_what_another_ceases_to_say(
    mongo_server: MongoServer, opened: Any, build: Builder
) -> None:
    store = await opened(mongo_server)
    first, second = build.put("one"), build.put("two")
    await store.apply([first, second])

    def saying(put: Put, other: Put) -> Put:
        memory = replace(put.memory, content=other.memory.content, content_hash=other.memory.content_hash)
        return replace(put, memory=memory)

    await store.apply([saying(first, second), saying(second, build.put("three"))])
    assert (await store.get(first.memory.id, viewer="default")).content == "two"
    with pytest.raises(Conflict):  # at no moment both can be said
        await store.apply([saying(first, build.put("three")), saying(second, build.put("two"))])
    assert (await store.get(second.memory.id, viewer="default")).content == "three"


async def test_sizes_and_numbers_are_looked_at_before(
    mongo_server: MongoServer, opened: Any, build: Builder
) -> None:
    store = await opened(mongo_server)
    large, used = build.put("large"), build.put("used", uses=2**62)
    large = replace(large, memory=replace(large.memory, content="x" * 9_000_000))
    await store.apply([large, used])
    with pytest.raises(InvalidInput):
        await store.apply([Revise(replace(large.memory, metadata={"k": "z" * 9_000_000}))])
    with pytest.raises(InvalidInput):
        await store.apply([Inherit(used.memory.id, large.memory.id, 0.5, 2**62)])
    assert (await store.get(used.memory.id, viewer="default")).uses == 2**62
    await store.apply([build.put("life goes on")])


async def test_one_who_was_only_slow_destroys_nothing(
    mongo_server: MongoServer, opened: Any, build: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick = await opened(mongo_server, lease_seconds=0.2), await opened(mongo_server, lease_seconds=0.2)
    one, two = build.put("one"), build.put("two")
    await quick.apply([one, two])
    link = build.link(one.memory, two.memory)
    late, woken = asyncio.Event(), asyncio.Event()
    really = transactions.perform

    async def suspended(*given: Any, **options: Any) -> None:
        if late.is_set() or options.get("again"):
            await really(*given, **options)
            return
        late.set()
        await woken.wait()
        await really(*given, **options)

    async def not_renewed(_writer: Any) -> None:
        """As of a process that stands still."""

    monkeypatch.setattr(transactions.JournalWriter, "_renew", not_renewed)
    for change, undone in (
        (slow.erase([one.memory.id]), quick.apply([one, two])),
        (slow.apply([Connect(link)]), quick.apply([Disconnect(link.origin, link.target, link.relation)])),
    ):
        late.clear()
        woken.clear()
        monkeypatch.setattr(transactions, "perform", suspended)
        changing = asyncio.create_task(change)
        await late.wait()
        await undone  # heals first, and is acknowledged
        woken.set()
        await changing  # it was made, by the other
        assert (await quick.get(one.memory.id, viewer="default")).content == "one"
    assert await quick.links_of([one.memory.id], viewer="default") == []
    assert all(finding.healthy for finding in await quick.check())


async def test_the_parts_of_anothers_change_stay(
    mongo_server: MongoServer, opened: Any, build: Builder, database: str
) -> None:
    store = await opened(mongo_server, lease_seconds=1.0)
    old = build.put("the old plan")
    await store.apply([old])
    await killed(mongo_server, database, old.memory.id, 700)
    parts = store._database.database["journal"]
    before = await parts.count_documents({})
    late = transactions.JournalWriter(store._database.database)
    await late._put_aside(2, [b"mine"], [b"back"])  # as one who began before that change
    assert await parts.count_documents({}) == before + 2
    await parts.delete_one({"part": 1})
    with pytest.raises(StoreError, match="parts of it are missing"):
        await store.count(Filter())


async def test_of_those_made_together_each_has_its_own_error(
    mongo_server: MongoServer, opened: Any, build: Builder
) -> None:
    store = await opened(mongo_server)
    wrong: Any = object()
    bad = replace(build.put("bad"), lexemes=(wrong,))
    puts = [build.put(f"say {n}") for n in range(6)]
    outcomes = await asyncio.gather(
        *(store.apply([put]) for put in (*puts[:3], bad, *puts[3:])), return_exceptions=True
    )
    assert [outcome is None for outcome in outcomes] == [True] * 3 + [False] + [True] * 3
    assert isinstance(outcomes[3], Exception), "and no CancelledError"
    assert await store.count(Filter()) == 6


async def test_what_is_made_late_is_made_once(
    mongo_server: MongoServer, opened: Any, build: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(mongo_server, timeout_ms=2_000, lease_seconds=0.2)
    one, two = build.put("one"), build.put("two")
    await store.apply([one, two])
    really = transactions.perform

    async def slow(*given: Any, **options: Any) -> None:
        if not options.get("again"):
            await asyncio.sleep(2.5)
        await really(*given, **options)

    monkeypatch.setattr(transactions, "perform", slow)
    changes = [[build.put("first")], [Inherit(one.memory.id, two.memory.id, 0.5, 10)], [Enqueue(build.job())]]
    outcomes = await asyncio.gather(*(store.apply(change) for change in changes), return_exceptions=True)
    assert all(isinstance(outcome, StoreAway) for outcome in outcomes), outcomes
    monkeypatch.undo()
    assert (await store.get(one.memory.id, viewer="default")).uses in (0, 10)
    assert len(await store.jobs()) <= 1
    assert await store.jobs(limit=0) == []


async def test_the_driver_tries_no_write_again_on_a_lone_server(
    mongo_server: MongoServer, opened: Any
) -> None:
    store = await opened(mongo_server)
    assert not store._database.database.client.options.retry_writes


async def test_an_index_of_the_state_is_made_anew(mongo_replica: MongoServer, opened: Any) -> None:
    store = await opened(mongo_replica)
    await store._database.metadata.drop_index("scope_name_1")
    assert "Made the indexes of Metadata." in await store.repair()
    assert all(finding.healthy for finding in await store.check())


@pytest.mark.parametrize("vector", [[], [float("nan")] * 8, [float("inf")] * 8], ids=["none", "nan", "inf"])
async def test_vectors_that_are_none(
    mongo_server: MongoServer, opened: Any, build: Builder, vector: list[float]
) -> None:
    store = await opened(mongo_server)
    with pytest.raises(InvalidInput):
        await store.apply([replace(build.put("one", vector=unit(1)), vector=np.array(vector, np.float32))])
    assert await store.count(Filter()) == 0
