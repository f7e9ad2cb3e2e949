"""A server that falls silent, and callers that wait no longer: every call ends, and what was given up is not done."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from mindhold.model.errors import StoreAway, StoreBusy
from mindhold.model.query import Filter
from mindhold.stores.postgres.driver import Connection
from mindhold.stores.postgres.store import PostgresStore
from mindhold.testing.builders import START, Builder
from support.postgres_server import PostgresServer

LIMITS = {"connection_timeout_ms": 1_000, "query_timeout_ms": 1_000}  # a busy machine is not silent


class Line:
    """To a server, through which nothing comes while it is not `open`."""

    def __init__(self, port: int) -> None:
        self.open = threading.Event()
        self.open.set()
        self.silent_after = b"\0never\0"  # said by a client
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.open.set()
        self._listener.close()
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                here, _ = self._listener.accept()
                there = socket.create_connection(("127.0.0.1", self._server))
                self._ends += [here, there]
                for ends in ((here, there), (there, here)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, origin: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := origin.recv(1 << 16):
                if self.silent_after in data:
                    self.open.clear()
                self.open.wait()
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def line(postgres_server: PostgresServer) -> Iterator[Line]:
    line = Line(postgres_server.port)
    yield line
    line.close()


@pytest.fixture
async def store(
    postgres_server: PostgresServer, postgres_url: str, line: Line
) -> AsyncIterator[PostgresStore]:
    url = postgres_url.replace(f":{postgres_server.port}/", f":{line.port}/")
    store = PostgresStore(url, clock=lambda: START, **LIMITS)
    yield store
    line.open.set()
    await store.close()


async def ended(call: asyncio.Future[object] | asyncio.Task[object]) -> BaseException | None:
    done, _ = await asyncio.wait({call}, timeout=60)
    assert done
    return call.exception()


async def test_what_was_given_up_is_not_written_over_what_was_acknowledged_later(
    store: PostgresStore, line: Line
) -> None:
    await store.open()
    put = Builder().put("one")
    await store.apply([put])
    line.open.clear()
    with pytest.raises(StoreBusy, match="did not answer"):
        await store.apply([replace(put, memory=replace(put.memory, topic="given up"))])
    line.open.set()
    await store.apply([replace(put, memory=replace(put.memory, topic="acknowledged"))])
    assert store._database._threads is not None
    await asyncio.to_thread(store._database._threads.shutdown)  # whatever was still under way has ended
    store._database._threads = None
    await store.open()
    found = await store.get(put.memory.id, viewer="default")
    assert found is not None
    assert found.topic == "acknowledged"


async def test_opening_and_upkeep_end_where_the_server_falls_silent(
    store: PostgresStore, line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    line.silent_after = b"schema_version"
    assert isinstance(await ended(asyncio.ensure_future(store.open())), StoreBusy)
    line.silent_after = b"\0never\0"
    line.open.set()
    await store.open()
    line.open.clear()
    calls = [store.check(), store.repair(), store.optimise(), store.scrub()]
    with caplog.at_level(logging.WARNING, logger="psycopg"):
        errors = await asyncio.gather(*(ended(asyncio.ensure_future(call)) for call in calls))
    assert all(isinstance(error, (StoreBusy, StoreAway)) for error in errors)
    assert not caplog.records
    line.open.set()
    assert await store.count(Filter()) == 0


async def test_upkeep_that_takes_long_is_waited_for(store: PostgresStore) -> None:
    """Longer than any other call may take: for the server answers others meanwhile."""
    await store.open()
    seconds = store._database.limits.total_seconds + 1

    def work(connection: Connection) -> object:
        connection.execute("SET statement_timeout = 0")
        return connection.execute("SELECT 'done' FROM pg_sleep(%s)", (seconds,)).fetchall()

    assert await store._database.alone(work, long=True) == [("done",)]


async def test_a_write_that_was_cancelled_in_the_queue_is_not_made(postgres_url: str) -> None:
    store = PostgresStore(postgres_url, clock=lambda: START, max_connections=2)
    await store.open()
    begun, free, build = threading.Event(), threading.Event(), Builder()

    def occupy(connection: Connection) -> None:
        begun.set()
        free.wait(60)

    occupying = asyncio.create_task(store._database.write(occupy))
    await asyncio.to_thread(begun.wait, 60)
    queued = asyncio.create_task(store.apply([build.put("cancelled")]))
    await asyncio.sleep(0)
    queued.cancel()
    with pytest.raises(asyncio.CancelledError):
        await queued
    free.set()
    await occupying
    assert await store.count(Filter()) == 0
    await store.close()


async def test_a_write_that_was_cancelled_under_way_is_not_committed(postgres_url: str) -> None:
    store = PostgresStore(postgres_url, clock=lambda: START, max_connections=2)
    await store.open()
    begun, free, build = threading.Event(), threading.Event(), Builder()

    def write(connection: Connection) -> None:
        connection.execute("INSERT INTO cursor VALUES ('name', 'value')")
        begun.set()
        free.wait(60)

    writing = asyncio.create_task(store._database.write(write))
    await asyncio.to_thread(begun.wait, 60)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    free.set()
    await store.apply([build.put()])
    assert (
        await store._database.read(lambda connection: connection.execute("SELECT 1 FROM cursor").fetchall())
        == []
    )
    await store.close()


async def test_who_opens_at_the_same_time_waits_until_it_is_open(postgres_url: str) -> None:
    store = PostgresStore(postgres_url, clock=lambda: START)
    opening = asyncio.create_task(store.open())
    await asyncio.sleep(0)
    await store.open()
    assert store._session.role is not None
    await opening
    await store.close()
