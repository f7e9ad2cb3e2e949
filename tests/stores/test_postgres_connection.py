"""Connections: how many, for how long, and what is said when there is none."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import partial

import psycopg
import pytest

from mindhold.model.errors import (
    Conflict,
    MindholdError,
    SettingsError,
    StoreAway,
    StoreBusy,
    StoreDenied,
    StoreError,
)
from mindhold.model.query import Filter
from mindhold.ports.store import Enqueue, Put, Revise
from mindhold.stores.postgres.driver import Connection
from mindhold.stores.postgres.store import PostgresStore
from mindhold.testing.builders import START, Builder
from support.postgres_server import PostgresServer


def made(url: str, **limits: int) -> PostgresStore:
    given = {"connection_timeout_ms": 2_000, "query_timeout_ms": 5_000, **limits}
    return PostgresStore(url, clock=lambda: START, **given)


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = made(postgres_url)
    await store.open()
    yield store
    await store.close()


def run(connection: Connection, statement: str) -> list[tuple[object, ...]]:
    return connection.execute(statement).fetchall()


def holding(url: str) -> psycopg.Connection[tuple[object, ...]]:
    """Somebody who keeps all records to himself until the connection is closed."""
    connection = psycopg.connect(url)
    connection.execute("LOCK TABLE agent_memory.fragments IN ACCESS EXCLUSIVE MODE")
    return connection


def many_files() -> list[int]:
    """So many that the next one's number is beyond 1,024, where files have such numbers."""
    if sys.platform != "win32":
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4_096, hard)), hard))
    return [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]


async def test_a_store_that_is_not_open(postgres_url: str) -> None:
    with pytest.raises(StoreError, match="not open"):
        await made(postgres_url).count(Filter())


async def test_a_wrong_password_or_name_is_denied(postgres_server: PostgresServer, postgres_url: str) -> None:
    for url, advice in (
        (postgres_url.replace(postgres_server.password, "wrong"), "postgres.url"),
        (postgres_url.replace("//postgres:", "//nobody-of-that-name:"), "postgres.url"),
        (postgres_url.rpartition("/")[0] + "/no_such_database", "CREATE DATABASE"),
    ):
        with pytest.raises(StoreDenied) as caught:
            await made(url).open()
        assert postgres_server.password not in str(caught.value)
        assert "connection to server" not in caught.value.message
        assert advice in caught.value.advice


async def test_a_server_that_is_not_there(postgres_server: PostgresServer) -> None:
    for url in (
        postgres_server.url.replace(str(postgres_server.port), "1"),
        "postgresql://nobody:x@no-such-host.invalid/x",
    ):
        with pytest.raises(StoreAway) as caught:
            await made(url).open()
        assert caught.value.advice
        assert "?" not in caught.value.message


async def test_a_role_without_the_right(postgres_server: PostgresServer, postgres_url: str) -> None:
    postgres_server.create_role("stranger")
    url = postgres_server.url_of(postgres_url.rpartition("/")[2], user="stranger", password="stranger")
    with pytest.raises(StoreDenied):
        await made(url).open()


async def test_a_schema_that_an_administrator_made_is_enough(postgres_server: PostgresServer) -> None:
    postgres_server.create_role("guest")
    postgres_server.create_database("prepared", template="with_vectors")
    postgres_server.execute(
        "REVOKE CREATE ON DATABASE prepared FROM PUBLIC",
        "CREATE SCHEMA agent_memory AUTHORIZATION guest",
        database="prepared",
    )
    store = made(postgres_server.url_of("prepared", user="guest", password="guest"))
    await store.open()
    await store.apply([Builder().put()])
    assert await store.count(Filter()) == 1
    await store.close()
    postgres_server.drop_database("prepared")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:very@secret@localhost/x",
        "postgresql://ada:very/secret@localhost/x",
        "postgresql://ada:12/secret@localhost/x",
    ],
)
def test_a_password_that_is_not_escaped_is_said_without_any_of_it(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        made(url)
    assert "%40" in caught.value.advice
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_all_connections_in_use_is_said_in_bounded_time(
    postgres_url: str, store: PostgresStore
) -> None:
    few = made(postgres_url, max_connections=3, connection_timeout_ms=2_000)
    await few.open()
    with holding(postgres_url):
        waiting = [asyncio.create_task(few.count(Filter())) for _ in range(6)]
        done, _ = await asyncio.wait(waiting, timeout=60)
        assert len(done) == 6
    errors = [task.exception() for task in done]
    assert all(isinstance(error, StoreBusy) for error in errors)
    assert any("connections" in str(error) for error in errors)
    assert await few.count(Filter()) == 0
    await few.close()


async def test_a_statement_that_takes_too_long_is_ended(postgres_url: str) -> None:
    store = made(postgres_url, query_timeout_ms=2_000)
    await store.open()
    with pytest.raises(StoreBusy) as caught:
        await store._database.read(lambda connection: connection.execute("SELECT pg_sleep(60)").fetchall())
    assert "query_timeout_ms" in caught.value.advice
    assert await store.count(Filter()) == 0
    await store.close()


async def test_a_server_that_hangs_is_given_up(postgres_url: str, store: PostgresStore) -> None:
    """It ends no statement by itself: as a machine that stands still would not."""
    hung = made(postgres_url, query_timeout_ms=1_500, connection_timeout_ms=1_500)
    await hung.open()

    def work(connection: Connection) -> object:
        connection.execute("SELECT set_config('statement_timeout', '0', true)")
        return connection.execute("SELECT pg_sleep(600)").fetchall()

    with pytest.raises(StoreBusy, match="did not answer"):
        await hung._database.read(work)
    assert await hung.count(Filter()) == 0
    await hung.close()


async def test_dropped_connections_are_replaced(postgres_server: PostgresServer, postgres_url: str) -> None:
    store = made(postgres_url)
    await store.open()
    build = Builder()
    await asyncio.gather(*(store.apply([build.put()]) for _ in range(5)))
    cut = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        f"WHERE datname = '{postgres_url.rpartition('/')[2]}'"
    )
    for _ in range(2):
        postgres_server.execute(cut)
        await store.apply([build.put()])
        postgres_server.execute(cut)
        assert await store.count(Filter()) > 5
    await store.close()


async def test_it_recovers_from_a_restart_without_being_opened_again(
    new_postgres_server: Callable[..., PostgresServer],
) -> None:
    server = new_postgres_server()
    store = made(server.url_of("postgres"))
    await store.open()
    build = Builder()
    kept = build.put("acknowledged")
    await store.apply([kept])
    server.kill()
    for call in (store.count(Filter()), store.apply([build.put()]), store.facts()):
        with pytest.raises(StoreAway):
            await call
    server.start()
    assert await store.get(kept.memory.id, viewer="default") == kept.memory
    await store.apply([build.put()])
    assert await store.count(Filter()) == 2
    heard = await asyncio.to_thread(store._notices.listening.wait, 30)
    assert heard
    await store.close()


async def test_idle_connections_are_given_back(postgres_server: PostgresServer, postgres_url: str) -> None:
    store = made(postgres_url, idle_timeout_ms=1, max_connections=9)
    await store.open()
    build = Builder()
    await asyncio.gather(*(store.apply([build.put()]) for _ in range(8)))
    name = postgres_url.rpartition("/")[2]
    used = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND application_name = 'mindhold'"

    async def few() -> None:
        while postgres_server.execute(used)[0][0] > 2:  # one to work with and one that listens
            await store.count(Filter())

    await asyncio.wait_for(few(), 90)
    await store.close()
    assert postgres_server.execute(used) == [(0,)]


async def test_idle_connections_are_given_back_also_where_nobody_asks_for_more(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    store = made(postgres_url, idle_timeout_ms=100)
    await store.open()
    await store.count(Filter())
    assert store._database._idle

    async def none() -> None:
        while store._database._idle:
            await asyncio.to_thread(postgres_server.execute, "SELECT 1")

    await asyncio.wait_for(none(), 90)
    await store.close()


async def test_upkeep_takes_the_place_of_an_idle_connection(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    store = made(postgres_url, max_connections=4)
    await store.open()
    assert await asyncio.to_thread(store._notices.listening.wait, 30)
    build = Builder()
    await asyncio.gather(*(store.apply([build.put()]) for _ in range(20)))
    name = postgres_url.rpartition("/")[2]
    used = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'"
    assert await store._database.alone(lambda connection: run(connection, used)) <= [(4,)]
    await store.close()


async def test_others_changes_are_heard_with_very_many_files_open(postgres_url: str) -> None:
    """select() can't wait for a file whose number is 1,024 or more."""
    files = many_files()
    try:
        store, heard = made(postgres_url), threading.Event()
        store._notices._heard = lambda records: heard.set() if records else None
        await store.open()
        assert await asyncio.to_thread(store._notices.listening.wait, 30)
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute("""NOTIFY mindhold_changes, '{"who": "another", "records": 1}'""")
        assert await asyncio.to_thread(heard.wait, 30)
        assert store._notices.listening.is_set()
        await store.close()
    finally:
        for file in files:
            os.close(file)


async def test_no_error_of_the_driver_leaves_the_store(store: PostgresStore) -> None:
    for statement in (
        "SELECT 1/0",
        "SELECT nothing",
        "not SQL",
        "SELECT * FROM nowhere",
        "INSERT INTO job VALUES (1)",
    ):
        with pytest.raises(MindholdError):
            await store._database.read(partial(run, statement=statement))
    assert await store.count(Filter()) == 0


async def test_writers_that_meet_in_other_orders_all_succeed(store: PostgresStore, postgres_url: str) -> None:
    other = made(postgres_url)
    await other.open()
    build = Builder()
    puts = [build.put() for _ in range(10)]
    await store.apply(puts)

    async def write(handle: PostgresStore, order: list[Put]) -> None:
        for _ in range(5):
            await handle.apply(
                [change for put in order for change in (Revise(put.memory), Enqueue(build.job()))]
            )

    await asyncio.gather(write(store, puts), write(other, puts[::-1]), write(store, puts[5:] + puts[:5]))
    assert await store.count(Filter()) == 10
    await other.close()


async def test_puts_of_the_same_records_in_other_orders_wait_for_nobody_in_turn(
    postgres_server: PostgresServer, store: PostgresStore, postgres_url: str
) -> None:
    build, draw = Builder(), random.Random(1)
    puts = [build.put() for _ in range(60)]
    await store.apply(puts)

    async def write() -> None:
        for _ in range(3):
            await store.apply(draw.sample(puts, 40))

    await asyncio.gather(*(write() for _ in range(6)))
    deadlocks = "SELECT pg_stat_force_next_flush(), deadlocks FROM pg_stat_database WHERE datname = '{name}'"
    query = deadlocks.format(name=postgres_url.rpartition("/")[2])
    assert postgres_server.execute(query)[0][1] == 0


async def test_a_conflict_leaves_the_connection_in_order(store: PostgresStore) -> None:
    build = Builder()
    await store.apply([build.put("the same")])
    for _ in range(3):
        with pytest.raises(Conflict):
            await store.apply([build.put("the same")])
    await store.apply([build.put("another")])
    assert await store.count(Filter()) == 2


async def test_runners_of_two_servers_pass_over_what_another_takes(
    store: PostgresStore, postgres_url: str
) -> None:
    build = Builder()
    first, second = build.job(), build.job()
    await store.apply([Enqueue(first), Enqueue(second)])
    with psycopg.connect(postgres_url) as elsewhere:
        elsewhere.execute("SELECT 1 FROM agent_memory.job WHERE id = %s FOR UPDATE", (first.id,))
        held = await store.lease("here", now=START + timedelta(days=1), duration=timedelta(minutes=1))
        assert held is not None
        assert held.id == second.id
        assert await store.lease("here", now=START + timedelta(days=1), duration=timedelta(minutes=1)) is None


async def test_what_one_changes_another_hears(store: PostgresStore, postgres_url: str) -> None:
    other = made(postgres_url)
    heard, number = threading.Event(), [0]

    def hear(records: int) -> None:
        number[0] += records
        if number[0] >= 3:
            heard.set()

    other._notices._heard = hear
    await other.open()
    assert await asyncio.to_thread(other._notices.listening.wait, 30)
    build = Builder()
    await store.apply([build.put(), build.put()])
    await store.apply([build.put()])
    assert await asyncio.to_thread(heard.wait, 30)
    with psycopg.connect(postgres_url, autocommit=True) as stranger:
        stranger.execute("NOTIFY mindhold_changes, 'something else'")
    await other.apply([build.put()])
    await other.close()
