"""MongoDB under stress: elections, writes held up, no connection free, a full disk, changed rights and passwords."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fault_sites import (
    MONGO,
    REPLICA,
    SOCKETS_LEFT,
    TIMEOUT_MS,
    Site,
    app_on,
    code_of,
    found,
    no_file_beyond,
    remember,
    remembers_again,
    until,
)

from mindhold.app.application import App
from mindhold.model.errors import StoreError
from mindhold.model.query import Filter
from mindhold.testing.builders import Builder
from servers import server_folder
from support.mongo_server import MongoServer

pytestmark = [pytest.mark.needs("mongodb"), SOCKETS_LEFT]

both = pytest.mark.parametrize("site_server", [MONGO, REPLICA], indirect=True)
replica = pytest.mark.parametrize("site_server", [REPLICA], indirect=True)
standalone = pytest.mark.parametrize("site_server", [MONGO], indirect=True)


async def _finds(app: App, memory_id: str) -> bool:
    return await found(app, "pump at night") == [memory_id]


@replica
async def test_a_primary_that_steps_down_loses_nothing(site: Site, tmp_path: Path) -> None:
    async with app_on(tmp_path / "home", site.new_database()) as app:
        acknowledged: list[str] = []
        tried: list[list[str]] = []
        stopping = asyncio.Event()

        async def write(name: str) -> None:
            build = Builder(prefix=name)
            while not stopping.is_set():
                puts = [build.put() for _ in range(3)]
                tried.append([put.memory.id for put in puts])
                try:
                    await app.engine.store.apply(puts)
                except StoreError:
                    continue
                acknowledged.extend(put.memory.id for put in puts)

        writers = [asyncio.create_task(write(f"w{number}-")) for number in range(4)]

        async def written_since(before: int) -> bool:
            return len(acknowledged) >= before + 30

        for _ in range(2):
            await until(partial(written_since, len(acknowledged)))
            await asyncio.to_thread(site.server.step_down)
        await until(partial(written_since, len(acknowledged)))
        stopping.set()
        await asyncio.gather(*writers)

        kept = {memory.id async for batch in app.engine.store.scan(Filter()) for memory in batch}
        assert set(acknowledged) <= kept
        assert all(len(kept & set(ids)) in (0, 3) for ids in tried)


@replica
async def test_while_there_is_no_primary_calls_fail_soon_or_wait(site: Site, tmp_path: Path) -> None:
    async with app_on(tmp_path / "home", site.new_database()) as app:
        before = await remember(app, "The pump runs at night.")
        await asyncio.to_thread(site.server.step_down, 6)
        assert await code_of(remember(app, "The gate is green.")) in ("STORE_AWAY", "STORE_BUSY")
        await remembers_again(app, "The mill is old.")
        await until(lambda: _finds(app, before))


@contextmanager
def held_up(server: MongoServer) -> Iterator[None]:
    """No write gets through."""
    server.command({"fsync": 1, "lock": True})
    try:
        yield
    finally:
        server.command({"fsyncUnlock": 1})


@both
async def test_a_write_that_is_held_up_is_given_up(site: Site, tmp_path: Path) -> None:
    async with app_on(tmp_path / "home", site.new_database()) as app:
        before = await remember(app, "The pump runs at night.")
        with held_up(site.server):
            assert await code_of(remember(app, "The gate is green.")) == "STORE_BUSY"
            # Reading goes on, and no answer is lost because its use could not be counted.
            assert await found(app, "pump at night") == [before]
        await remembers_again(app, "The mill is old.")
        assert len(await found(app, "old mill")) == 1


@contextmanager
def slow(server: MongoServer, *commands: str) -> Iterator[None]:
    """Each such command of the app takes longer than it may."""
    delay = {"failCommands": list(commands), "blockConnection": True, "blockTimeMS": 4 * TIMEOUT_MS}
    server.command({"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": delay})
    try:
        yield
    finally:
        server.command({"configureFailPoint": "failCommand", "mode": "off"})


@both
async def test_when_all_connections_are_in_use_calls_fail_soon(site: Site, tmp_path: Path) -> None:
    settings = site.new_database() | {"mongodb.max_connections": 2}
    async with app_on(tmp_path / "home", settings) as app:
        before = await remember(app, "The pump runs at night.")
        with slow(site.server, "find", "aggregate", "count"):
            calls = [code_of(found(app, "pump at night")) for _ in range(12)]
            codes = set(await asyncio.gather(*calls))
            # On a busy machine a fresh connection may itself take longer than it may: then the server counts as away.
            assert "STORE_BUSY" in codes
            assert codes <= {"STORE_BUSY", "STORE_AWAY"}
        await until(lambda: _finds(app, before))
        assert await remember(app, "The gate is green.")


def add_user(server: MongoServer, database: str, rights: list[Mapping[str, str]]) -> None:
    server.command({"createUser": "app", "pwd": "first", "roles": rights}, database=database)


def as_app(settings: dict[str, Any], password: str) -> dict[str, Any]:
    """The same, but as a user of that database."""
    _, _, place = settings["mongodb.uri"].partition("@")
    joined = "&" if "?" in place else "?"
    source = f"{joined}authSource={settings['mongodb.database']}"
    return settings | {"mongodb.uri": f"mongodb://app:{password}@{place}{source}"}


@both
async def test_rights_that_were_taken_away_are_told_and_given_back(site: Site, tmp_path: Path) -> None:
    settings = site.new_database()
    name = settings["mongodb.database"]
    rights = [{"role": "dbOwner", "db": name}]
    add_user(site.server, name, rights)
    async with app_on(tmp_path / "home", as_app(settings, "first")) as app:
        before = await remember(app, "The pump runs at night.")
        site.server.command({"updateUser": "app", "roles": []}, database=name)
        assert await code_of(remember(app, "The gate is green.")) == "STORE_DENIED"
        assert await code_of(found(app, "pump at night")) == "STORE_DENIED"
        site.server.command({"updateUser": "app", "roles": rights}, database=name)
        await until(lambda: _finds(app, before))
        assert await remember(app, "The gate is green.")


@both
async def test_a_changed_password_is_told_and_put_right(site: Site, tmp_path: Path) -> None:
    settings = site.new_database()
    name = settings["mongodb.database"]
    add_user(site.server, name, [{"role": "dbOwner", "db": name}])
    async with app_on(tmp_path / "home", as_app(settings, "first")) as app:
        before = await remember(app, "The pump runs at night.")
        site.server.command({"updateUser": "app", "pwd": "second"}, database=name)
        await asyncio.to_thread(site.server.stop)  # a connection outlives its password
        await asyncio.to_thread(site.server.start)

        async def denied() -> bool:
            return await code_of(found(app, "pump at night")) == "STORE_DENIED"

        await until(denied)

        async def opened() -> None:
            async with app_on(tmp_path / "other", as_app(settings, "first")):
                pass

        assert await code_of(opened()) == "STORE_DENIED"
        site.server.command({"updateUser": "app", "pwd": "first"}, database=name)
        await until(lambda: _finds(app, before))
        assert await remember(app, "The gate is green.")


@both
async def test_no_message_tells_the_password(site: Site, tmp_path: Path) -> None:
    settings = site.new_database()
    settings["mongodb.uri"] = site.server.url_for("not-the-password")
    with pytest.raises(StoreError) as caught:
        async with app_on(tmp_path / "home", settings):
            pass
    assert "not-the-password" not in repr(caught.value) + str(caught.value)


@pytest.mark.parametrize("kind", [MONGO, REPLICA])
async def test_a_full_disk_ends_the_server_and_loses_nothing(kind: str, tmp_path: Path) -> None:
    """A mongod that can't write its journal ends itself; with room it comes back with all that it acknowledged."""
    small = ["--wiredTigerEngineConfigString", "log=(file_max=1MB)"]
    with server_folder(kind) as folder:
        site = Site(kind, folder, options=small)
        with site.server:
            async with app_on(tmp_path / "home", site.new_database()) as app:
                await asyncio.to_thread(site.server.stop)
                with no_file_beyond(4 * 1024 * 1024):
                    await asyncio.to_thread(site.server.start)
                store, build, kept = app.engine.store, Builder(), set[str]()

                async def fill() -> None:
                    while len(kept) < 4_000:
                        puts = [build.put(f"room {build.now} {os.urandom(30_000).hex()}") for _ in range(2)]
                        await store.apply(puts)
                        kept.update(put.memory.id for put in puts)

                await until(lambda: _counts(app, 0))
                assert await code_of(fill()) in ("STORE_FULL", "STORE_AWAY", "STORE_BUSY")
                assert kept

                await asyncio.to_thread(site.server.kill)
                await asyncio.to_thread(site.server.start)
                await remembers_again(app, "There is room again.")
                there = {memory.id async for batch in store.scan(Filter()) for memory in batch}
                assert kept <= there
                assert [finding for finding in await store.check() if not finding.healthy] == []


async def _counts(app: App, number: int) -> bool:
    return await app.engine.store.count(Filter()) == number
