"""The line to a Redis: what is wrong for good is told at once, and nobody waits for what is gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from mindhold.model.errors import StoreAway, StoreDenied, StoreError, StoreReadOnly
from mindhold.stores.redis.sidecar import RedisAddress, RedisConnection
from redis_beside import address, eventually, watched
from support.redis_server import RedisSentinels, RedisServer
from support.server_program import free_port

Open = Callable[[RedisAddress], Awaitable[RedisConnection]]
WRONG = "not the password"


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    lines: list[RedisConnection] = []

    async def open_one(where: RedisAddress) -> RedisConnection:
        lines.append(RedisConnection(where))
        await lines[-1].open()
        return lines[-1]

    yield open_one
    for line in lines:
        await line.close()


async def ping(line: RedisConnection) -> Any:
    return await line.ask(lambda redis: redis.ping())


async def answers(line: RedisConnection) -> bool:
    try:
        return bool(await ping(line))
    except StoreError:
        return False


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"password": WRONG}, "redis.password"),
        ({"password": ""}, "redis.password"),
        ({"username": "nobody"}, "redis.password"),
        ({"database": 99}, "redis.database"),
    ],
)
async def test_what_it_refuses_is_an_error_at_start(
    opened: Open, redis_server: RedisServer, changes: dict[str, Any], setting: str
) -> None:
    with pytest.raises(StoreDenied) as refused:
        await opened(address(redis_server, **changes))
    assert setting in refused.value.advice


async def test_a_user_without_rights_is_told_at_start(opened: Open, redis_server: RedisServer) -> None:
    redis_server.command("ACL", "SETUSER", "reader", "on", ">secret", "~*", "+get", "+ping")
    with pytest.raises(StoreDenied, match="needed"):
        await opened(address(redis_server, username="reader", password="secret"))


async def test_no_password_is_told(
    opened: Open, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(StoreDenied) as refused:
        await opened(address(redis_server, password=WRONG))
    line = RedisConnection(address(redis_server, password=WRONG))
    assert WRONG not in f"{refused.value!r} {refused.value} {caplog.text} {line.address} {line.address!r}"


async def test_what_is_no_redis_is_an_error_at_start(opened: Open) -> None:
    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(StoreError, match="no Redis"):
            await opened(RedisAddress(host="127.0.0.1", port=port, timeout=2.0))


async def test_a_replica_is_an_error_at_start(opened: Open, redis_sentinels: RedisSentinels) -> None:
    with pytest.raises(StoreReadOnly, match="replica"):
        await opened(address(redis_sentinels.second))


async def test_a_name_that_the_sentinels_do_not_know_is_an_error_at_start(
    opened: Open, redis_sentinels: RedisSentinels
) -> None:
    where = watched(redis_sentinels)
    unknown = RedisAddress(
        sentinels=where.sentinels, master_name="somebody", password=where.password, timeout=2.0
    )
    with pytest.raises(StoreError, match="no master 'somebody'"):
        await opened(unknown)


async def test_one_that_is_not_there_is_said_and_done_without(
    opened: Open, redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    redis_server.stop()
    line = await opened(address(redis_server))
    assert "left out until it answers" in caplog.text
    with pytest.raises(StoreAway):
        await ping(line)
    redis_server.start()
    await eventually(lambda: answers(line))


async def test_a_dead_one_is_taken_up_again(opened: Open, redis_server: RedisServer) -> None:
    line = await opened(address(redis_server))
    redis_server.kill()
    with pytest.raises(StoreAway):
        await ping(line)
    assert line.fault is not None
    redis_server.start()
    await eventually(lambda: answers(line))
    assert line.fault is None


async def test_a_silent_one_is_waited_for_once(opened: Open, redis_server: RedisServer) -> None:
    line = await opened(address(redis_server, timeout=0.3))
    redis_server.freeze()
    with pytest.raises(StoreAway):
        await ping(line)
    for _ in range(1000):  # each would wait 0.3 seconds
        with pytest.raises(StoreAway):
            await ping(line)


async def test_a_changed_password_is_no_fault_of_the_calls(opened: Open, redis_server: RedisServer) -> None:
    line = await opened(address(redis_server))
    redis_server.command("CONFIG", "SET", "requirepass", "another one")
    right, redis_server.password = redis_server.password, "another one"
    redis_server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    with pytest.raises(StoreError):
        await ping(line)
    await eventually(lambda: _denied(line))
    redis_server.command("CONFIG", "SET", "requirepass", right)
    redis_server.password = right
    await eventually(lambda: answers(line))


async def test_sentinels_lead_to_the_new_master(opened: Open, redis_sentinels: RedisSentinels) -> None:
    line = await opened(watched(redis_sentinels))
    await line.ask(lambda redis: redis.set("mindhold:test", b"1"))
    await asyncio.to_thread(redis_sentinels.fail_over)
    await eventually(lambda: answers(line))
    await line.ask(lambda redis: redis.set("mindhold:test", b"2"))
    assert redis_sentinels.second.command("GET", "mindhold:test") == "2"


async def test_nobody_there_at_all(opened: Open) -> None:
    line = await opened(RedisAddress(host="127.0.0.1", port=free_port(), timeout=0.5))
    assert isinstance(line.fault, StoreAway)
    await line.close()
    await line.close()


async def _denied(line: RedisConnection) -> bool:
    return isinstance(line.fault, StoreDenied)
