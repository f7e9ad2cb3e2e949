"""A MongoDB that is away, slow, shut to us or stepping down: told in bounded time, and used again once it is back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mindhold.model.errors import SettingsError, StoreAway, StoreBusy, StoreDenied, StoreError, StoreFull
from mindhold.model.query import Filter
from mindhold.stores.mongo.connection import MongoDatabase
from mindhold.stores.mongo.store import MongoStore
from mindhold.testing.builders import START, Builder
from support.mongo_server import MongoServer
from support.server_program import free_port

pytestmark = [
    pytest.mark.needs("mongodb"),
    # The driver's monitor, closed while it connects to a server that refuses it, leaves its socket to the collector.
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
    ),
]

Make = Callable[..., MongoServer]
WAIT_MS = 3_000


def store_at(url: str, **options: Any) -> MongoStore:
    return MongoStore(url, **{"clock": lambda: START, "timeout_ms": WAIT_MS, "lease_seconds": 1.0, **options})


async def bounded(work: Any) -> Any:
    """Within a time that has nothing to do with the server's."""
    return await asyncio.wait_for(work, 90)


async def test_nobody_there() -> None:
    with pytest.raises(StoreAway, match=r"127\.0\.0\.1"):
        await bounded(store_at(f"mongodb://127.0.0.1:{free_port()}/").open())


async def test_who_is_refused_does_not_wait_as_for_an_election(new_mongo_server: Make) -> None:
    patient = {"timeout_ms": 600_000}  # far beyond what this test waits for
    with pytest.raises(StoreAway, match="nobody listens"):
        await bounded(store_at(f"mongodb://127.0.0.1:{free_port()}/", **patient).open())
    server = new_mongo_server()
    store, build = store_at(server.url, **patient), Builder()
    await store.open()
    server.kill()
    for asked in (store.count(Filter()), store.apply([build.put("lost")]), store.facts()):
        with pytest.raises(StoreAway, match="nobody listens"):
            await bounded(asked)
    await asyncio.to_thread(server.start)
    assert await bounded(until_back(store)) == []
    await store.close()


@pytest.mark.parametrize(
    ("path", "given", "name"),
    [
        ("mine", "", "mine"),
        ("mine", "chosen", "chosen"),
        ("", "", "claude_memory"),
        ("admin", "", "claude_memory"),
    ],
)
def test_the_database_is_the_one_that_the_address_names(path: str, given: str, name: str) -> None:
    database = MongoDatabase(
        f"mongodb://me:a%2Fb@one,two:1/{path}?authSource=admin", name=given, timeout_ms=1, max_connections=2
    )
    assert database.place == f"one,two:1/{name}"


@pytest.mark.parametrize("password", ["hunter#2", "hunter?2", "hun/ter2", "hunter@2", "hunter:2", "hunter%2"])
def test_no_part_of_a_password_is_in_the_place(password: str) -> None:
    database = MongoDatabase(
        f"mongodb://me:{password}@one:1/?appName=a@b", name="x", timeout_ms=1, max_connections=2
    )
    assert database.place in ("one:1/x", "an unknown address/x")


async def test_callers_are_told_together_that_nobody_is_there(new_mongo_server: Make) -> None:
    server = new_mongo_server()
    store, build = store_at(server.url), Builder()
    await store.open()
    server.kill()
    tries = [store.apply([build.put(f"number {n}")]) for n in range(40)]
    outcomes = await bounded(asyncio.gather(*tries, return_exceptions=True))
    assert all(isinstance(outcome, StoreError) for outcome in outcomes)
    server.start()
    await store.close()


@pytest.mark.parametrize(
    "uri",
    [
        "http://somewhere",
        "mongodb://ann:kingfisher@host:port/",
        "mongodb://ann:king/fisher@host/",
        "mongodb://ann:king%fisher@host/",
        "mongodb://ann:kingfisher@[host/",
    ],
)
async def test_an_address_that_is_none(uri: str) -> None:
    with pytest.raises(SettingsError, match=r"mongodb\.uri") as caught:
        await store_at(uri).open()
    assert "king" not in str(caught.value)
    assert "fisher" not in str(caught.value)


async def test_a_wrong_password_is_denied_and_not_told(new_mongo_server: Make) -> None:
    server = new_mongo_server(password="open sesame")
    for url in (server.url_for("guess"), server.url_for("")):
        with pytest.raises(StoreDenied) as caught:
            await bounded(store_at(url).open())
        assert "guess" not in str(caught.value)
    store = store_at(server.url)
    await store.open()
    assert "sesame" not in (await store.facts()).location
    await store.close()


async def test_a_password_that_changes(new_mongo_server: Make) -> None:
    server = new_mongo_server(password="open sesame")
    store = store_at(server.url)
    await store.open()
    server.set_password("other")
    server.kill()  # so that no connection is left that was let in before
    server.start()
    with pytest.raises(StoreDenied):
        await bounded(store.count(Filter()))
    await store.close()


@pytest.mark.parametrize("replica", [False, True], ids=["lone", "replica set"])
async def test_it_goes_and_comes_back(new_mongo_server: Make, replica: bool) -> None:
    server = new_mongo_server(replica=replica)
    store, build = store_at(server.url), Builder()
    await store.open()
    kept = [build.put(f"kept {n}") for n in range(5)]
    for put in kept:
        await store.apply([put])
    server.kill()
    for asked in (store.count(Filter()), store.apply([build.put("lost")]), store.facts()):
        with pytest.raises(StoreAway):
            await bounded(asked)
    await asyncio.to_thread(server.start)
    found = await bounded(until_back(store))
    assert {put.memory.id for put in kept} <= {memory.id for memory in found}
    await store.apply([build.put("again")])
    await store.close()
    assert server.running  # it is not ours to stop


async def until_back(store: MongoStore) -> Any:
    while True:
        try:
            return await store.find(Filter())
        except (StoreAway, StoreBusy):
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("replica", [False, True], ids=["lone", "replica set"])
async def test_a_short_absence_is_not_noticed(new_mongo_server: Make, replica: bool) -> None:
    server = new_mongo_server(replica=replica)
    store, build = store_at(server.url, timeout_ms=20_000, refused_seconds=20.0), Builder()
    await store.open()
    await store.apply([build.put("before")])
    server.kill()
    back = asyncio.create_task(asyncio.to_thread(server.start))
    put = build.put("meanwhile")
    await bounded(store.apply([put]))
    await back
    assert (await store.get(put.memory.id, viewer="default")).content == "meanwhile"
    assert await store.count(Filter()) == 2
    await store.close()


async def test_a_primary_that_steps_down(new_mongo_server: Make) -> None:
    server = new_mongo_server(replica=True)
    store, build = store_at(server.url, timeout_ms=20_000), Builder()
    await store.open()
    puts = [build.put(f"number {n}") for n in range(30)]
    stepping = asyncio.create_task(asyncio.to_thread(server.step_down, 1))
    for put in puts:
        await bounded(store.apply([put]))
    await stepping
    assert await store.count(Filter()) == 30
    await store.close()


async def test_a_server_that_says_nothing(new_mongo_server: Make) -> None:
    server = new_mongo_server()
    store = store_at(server.url)
    await store.open()
    stall = {"configureFailPoint": "failCommand", "mode": "alwaysOn"}
    slow = {"failCommands": ["find", "aggregate"], "blockConnection": True, "blockTimeMS": 5_000}
    server.command({**stall, "data": slow})
    with pytest.raises(StoreBusy):
        await bounded(store.count(Filter()))
    server.command({**stall, "mode": "off"})
    assert await store.count(Filter()) == 0
    await store.close()


async def test_more_calls_than_connections(new_mongo_server: Make) -> None:
    server = new_mongo_server()
    store = store_at(server.url, max_connections=2)
    await store.open()
    slow = {"failCommands": ["find"], "blockConnection": True, "blockTimeMS": 3_000}
    server.command({"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": slow})
    outcomes = await asyncio.gather(*(store.cursor("x") for _ in range(6)), return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {StoreBusy}
    server.command({"configureFailPoint": "failCommand", "mode": "off"})
    assert await bounded(store.cursor("x")) is None
    await store.close()


async def test_a_full_disk(new_mongo_server: Make) -> None:
    server = new_mongo_server()
    store, build = store_at(server.url), Builder()
    await store.open()
    await store.apply([build.put("fits")])
    full = {"failCommands": ["update", "insert"], "errorCode": 14031}
    server.command({"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": full})
    with pytest.raises(StoreFull):
        await store.apply([build.put("does not")])
    server.command({"configureFailPoint": "failCommand", "mode": "off"})
    await store.apply([build.put("fits again")])
    assert await store.count(Filter()) == 2
    await store.close()
