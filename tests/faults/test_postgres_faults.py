"""PostgreSQL under stress: no connection free, locks held, a full disk, a changed password, cut connections."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fault_sites import (
    POSTGRES,
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
from support.postgres_server import PostgresServer

pytestmark = [
    pytest.mark.needs("postgres"),
    pytest.mark.parametrize("site_server", [POSTGRES], indirect=True),
]

FEW = {"postgres.max_connections": 3}
LIMIT = 18 * 1024 * 1024  # beyond a file of the write-ahead log, whose end would be the server's


@contextmanager
def locked(settings: dict[str, Any], mode: str) -> Iterator[None]:
    """Another session holds the table of memories."""
    with psycopg.connect(settings["postgres.url"]) as connection:
        connection.execute(f"LOCK TABLE agent_memory.fragments IN {mode} MODE".encode())
        yield
        connection.rollback()


async def test_when_all_connections_are_in_use_calls_fail_soon(site: Site, tmp_path: Path) -> None:
    settings = site.new_database() | FEW
    async with app_on(tmp_path / "home", settings) as app:
        before = await remember(app, "The pump runs at night.")
        with locked(settings, "ACCESS EXCLUSIVE"):
            calls = [code_of(found(app, "pump at night")) for _ in range(20)]
            assert set(await asyncio.gather(*calls)) == {"STORE_BUSY"}
        assert await found(app, "pump at night") == [before]
        assert await remember(app, "The gate is green.")


def take_all(settings: dict[str, Any], taken: list[psycopg.Connection[Any]]) -> None:
    """All connections that the server has left."""
    with suppress(psycopg.OperationalError):
        while True:
            taken.append(psycopg.connect(settings["postgres.url"], autocommit=True))


def cut(by: psycopg.Connection[Any], settings: dict[str, Any], *, spare: Sequence[int] = ()) -> None:
    """End the connections to the app's database."""
    by.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> ALL(%s)",
        [settings["postgres.url"].rpartition("/")[2], [by.info.backend_pid, *spare]],
    )


async def _finds(app: App, memory_id: str) -> bool:
    return await found(app, "pump at night") == [memory_id]


async def test_a_server_that_takes_no_more_connections_is_told(site: Site, tmp_path: Path) -> None:
    settings = site.new_database()
    async with app_on(tmp_path / "home", settings) as app:
        before = await remember(app, "The pump runs at night.")
        with ExitStack() as stack:
            others: list[psycopg.Connection[Any]] = []
            take_all(settings, others)
            cut(others[0], settings, spare=[other.info.backend_pid for other in others])
            take_all(settings, others)
            for other in others:
                stack.enter_context(other)
            assert await code_of(found(app, "pump at night")) in ("STORE_BUSY", "STORE_AWAY")
        await until(lambda: _finds(app, before))


async def test_a_write_that_waits_for_a_lock_is_given_up(site: Site, tmp_path: Path) -> None:
    settings = site.new_database()
    async with app_on(tmp_path / "home", settings) as app:
        before = await remember(app, "The pump runs at night.")
        with locked(settings, "EXCLUSIVE"):
            assert await code_of(remember(app, "The gate is green.")) == "STORE_BUSY"
            # Reading goes on, and no answer is lost because its use could not be counted.
            assert await found(app, "pump at night") == [before]
            await app.engine.use_counter.flush()
        assert await found(app, "green gate") == []
        assert await remember(app, "The gate is green.")


async def test_a_statement_that_takes_too_long_is_given_up(site: Site, tmp_path: Path) -> None:
    settings = site.new_database()
    async with app_on(tmp_path / "home", settings) as app:
        before = await remember(app, "The pump runs at night.")
        with psycopg.connect(settings["postgres.url"], autocommit=True) as connection:
            connection.execute(
                b"CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
                b"$$ BEGIN PERFORM pg_sleep(600); RETURN NEW; END $$"
            )
            connection.execute(
                b"CREATE TRIGGER slow BEFORE INSERT ON agent_memory.fragments "
                b"FOR EACH ROW EXECUTE FUNCTION slow()"
            )
            assert await code_of(remember(app, "The gate is green.")) == "STORE_BUSY"
            assert await found(app, "pump at night") == [before]
            connection.execute(b"DROP TRIGGER slow ON agent_memory.fragments")
        assert await remember(app, "The gate is green.")


async def test_connections_that_were_cut_are_replaced(site: Site, tmp_path: Path) -> None:
    settings = site.new_database()
    async with app_on(tmp_path / "home", settings) as app:
        before = await remember(app, "The pump runs at night.")
        with psycopg.connect(settings["postgres.url"], autocommit=True) as connection:
            for number in range(3):
                cut(connection, settings)
                assert await found(app, "pump at night") == [before]
                cut(connection, settings)
                assert await remember(app, f"Crane number {number} lifts {number * 7} tons.")


async def test_a_changed_password_is_told_and_put_right(site: Site, tmp_path: Path) -> None:
    server: PostgresServer = site.server
    settings = site.new_database()
    name = settings["postgres.url"].rpartition("/")[2]
    role = f"role_of_{name}"
    server.execute(
        f"CREATE ROLE {role} LOGIN PASSWORD 'first'",
        f"ALTER DATABASE {name} OWNER TO {role}",
    )
    settings["postgres.url"] = server.url_of(name, user=role, password="first")
    async with app_on(tmp_path / "home", settings) as app:
        before = await remember(app, "The pump runs at night.")
        server.execute(f"ALTER ROLE {role} PASSWORD 'second'")
        with psycopg.connect(server.url, autocommit=True) as connection:
            cut(connection, settings)
        assert await code_of(found(app, "pump at night")) == "STORE_DENIED"
        assert await code_of(remember(app, "The gate is green.")) == "STORE_DENIED"

        async def opened() -> None:
            async with app_on(tmp_path / "other", settings):
                pass

        assert await code_of(opened()) == "STORE_DENIED"
        server.execute(f"ALTER ROLE {role} PASSWORD 'first'")
        await until(lambda: _finds(app, before))
        assert await remember(app, "The gate is green.")


async def test_no_message_tells_the_password(site: Site, tmp_path: Path) -> None:
    settings = site.new_database()
    right = site.server.password
    settings["postgres.url"] = settings["postgres.url"].replace(right, "not-the-password")
    with pytest.raises(StoreError) as caught:
        async with app_on(tmp_path / "home", settings):
            pass
    assert "not-the-password" not in repr(caught.value) + str(caught.value)


async def test_a_full_disk_writes_nothing_by_halves(site: Site, tmp_path: Path) -> None:
    settings = site.new_database() | {"postgres.query_timeout_ms": 10 * TIMEOUT_MS}
    async with app_on(tmp_path / "home", settings) as app:
        await asyncio.to_thread(site.server.stop)
        with no_file_beyond(LIMIT):
            await asyncio.to_thread(site.server.start)
        store, build, kept = app.engine.store, Builder(), set[str]()

        async def fill() -> None:
            while len(kept) < 2_000:
                puts = [build.put(f"room {build.now} {noise(build)}") for _ in range(2)]
                await store.apply(puts)
                kept.update(put.memory.id for put in puts)

        await until(lambda: _counts(app, 0))
        assert await code_of(fill()) == "STORE_FULL"
        assert kept
        assert {memory.id async for batch in store.scan(Filter()) for memory in batch} == kept

        await asyncio.to_thread(site.server.stop)
        await asyncio.to_thread(site.server.start)
        await remembers_again(app, "There is room again.")
        assert await store.count(Filter()) == len(kept) + 1
        assert [finding for finding in await store.check() if not finding.healthy] == []


async def _counts(app: App, number: int) -> bool:
    return await app.engine.store.count(Filter()) == number


def noise(build: Builder) -> str:
    """A word that no compression makes shorter: 60,000 characters."""
    blocks = [hashlib.sha256(f"{build.now} {block}".encode()).hexdigest() for block in range(960)]
    return "".join(blocks)
