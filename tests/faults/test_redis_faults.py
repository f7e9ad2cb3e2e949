"""Redis lost, emptied, mute, full or shut: nothing is lost, nothing waits for long, and it is used again when it is back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fault_sites import app_on, code_of, remember, until

from mindhold.app.application import App
from mindhold.lifecycle.status import STATUS
from mindhold.memories.recall import RECALL
from mindhold.memories.remember import REMEMBER
from servers import server_folder
from support.redis_server import RedisServer

pytestmark = pytest.mark.needs("redis")

SECRET = "a secret"
NUMBER = 12


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with server_folder("redis") as folder, RedisServer(folder, password=SECRET) as server:
        yield server


@pytest.fixture
def redis(server: RedisServer) -> Iterator[RedisServer]:
    """Running and empty, whatever the test before did to it."""
    server.start()
    server.flush()
    yield server
    server.start()


def beside(redis: RedisServer, **changes: Any) -> dict[str, Any]:
    given = {
        "redis.enabled": True,
        "redis.host": "127.0.0.1",
        "redis.port": redis.port,
        "redis.password": SECRET,
        "redis.timeout_ms": 1_000,
    }
    return given | changes


async def furnish(app: App) -> set[str]:
    ids = set()
    for number in range(NUMBER):
        content = f"Crane number {number} lifts {number * 7} tons of steel."
        answer = await app.run(REMEMBER, REMEMBER.takes(content=content, keywords=["crane", f"n{number}"]))
        ids.add(answer.id or "")
    return ids


async def by_keyword(app: App) -> set[str]:
    given = RECALL.takes(keywords=["crane"], limit=NUMBER)
    return {hit.id for hit in (await app.run(RECALL, given)).hits}


async def state(app: App) -> dict[str, str]:
    return (await app.run(STATUS, STATUS.takes())).beside


async def is_whole(app: App) -> bool:
    await by_keyword(app)
    told = await state(app)
    return (told["state"], told["keywords"]) == ("ok", "whole")


async def test_an_emptied_redis_loses_nothing_and_is_filled_again(redis: RedisServer, tmp_path: Path) -> None:
    async with app_on(tmp_path / "home", beside(redis)) as app:
        ids = await furnish(app)
        await until(lambda: is_whole(app))
        for turn in range(3):
            redis.flush()
            assert await by_keyword(app) == ids
            hoist = f"Hoist number {turn} stands idle."
            assert (await app.run(REMEMBER, REMEMBER.takes(content=hoist, keywords=["hoist"]))).created
            assert await by_keyword(app) == ids
            await until(lambda: is_whole(app))
            assert await by_keyword(app) == ids
        assert redis.command("DBSIZE") > 0


async def test_a_killed_redis_slows_nothing_down_and_is_used_again(
    redis: RedisServer, tmp_path: Path
) -> None:
    async with app_on(tmp_path / "home", beside(redis)) as app:
        ids = await furnish(app)
        await until(lambda: is_whole(app))
        await asyncio.to_thread(redis.kill)
        assert await by_keyword(app) == ids
        assert await remember(app, "The gate is green.")
        assert await by_keyword(app) == ids
        assert (await state(app))["state"] == "away"

        await asyncio.to_thread(redis.start)
        await until(lambda: is_whole(app))
        assert await by_keyword(app) == ids


async def test_writes_that_went_past_a_dead_redis_are_not_missed_afterwards(
    redis: RedisServer, tmp_path: Path
) -> None:
    async with app_on(tmp_path / "home", beside(redis)) as app:
        await furnish(app)
        await until(lambda: is_whole(app))
        await asyncio.to_thread(redis.kill)
        meanwhile = [
            (await app.run(REMEMBER, REMEMBER.takes(content=text, keywords=["winch"]))).id
            for text in ("The winch creaks.", "A second winch was ordered on Friday.")
        ]
        await asyncio.to_thread(redis.start)

        async def found() -> set[str]:
            given = RECALL.takes(keywords=["winch"], limit=2)
            return {hit.id for hit in (await app.run(RECALL, given)).hits}

        assert await found() == set(meanwhile)
        await until(lambda: is_whole(app))
        assert await found() == set(meanwhile)


async def test_a_mute_redis_is_waited_for_only_a_little(redis: RedisServer, tmp_path: Path) -> None:
    async with app_on(tmp_path / "home", beside(redis)) as app:
        ids = await furnish(app)
        await until(lambda: is_whole(app))
        redis.command("CLIENT", "PAUSE", "60000", "ALL")
        assert await by_keyword(app) == ids
        assert await remember(app, "The gate is green.")
        await asyncio.to_thread(redis.kill)  # which also ends the pause
        await asyncio.to_thread(redis.start)
        await until(lambda: is_whole(app))


async def test_a_redis_without_room_loses_nothing(redis: RedisServer, tmp_path: Path) -> None:
    async with app_on(tmp_path / "home", beside(redis)) as app:
        redis.command("CONFIG", "SET", "maxmemory", "1")
        ids = await furnish(app)
        assert await by_keyword(app) == ids
        redis.command("CONFIG", "SET", "maxmemory", "0")
        await until(lambda: is_whole(app))
        assert await by_keyword(app) == ids


async def test_a_changed_password_is_an_error_at_the_start_only(redis: RedisServer, tmp_path: Path) -> None:
    async with app_on(tmp_path / "home", beside(redis)) as app:
        ids = await furnish(app)
        await until(lambda: is_whole(app))
        redis.command("CONFIG", "SET", "requirepass", "another")
        try:
            redis.password = "another"
            redis.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            assert await by_keyword(app) == ids
            assert await remember(app, "The gate is green.")

            async def opened() -> None:
                async with app_on(tmp_path / "other", beside(redis)):
                    pass

            assert await code_of(opened()) == "STORE_DENIED"
        finally:
            redis.command("CONFIG", "SET", "requirepass", SECRET)
            redis.password = SECRET
        await until(lambda: is_whole(app))
        assert await by_keyword(app) == ids


async def test_without_redis_at_the_start_everything_works(redis: RedisServer, tmp_path: Path) -> None:
    await asyncio.to_thread(redis.kill)
    async with app_on(tmp_path / "home", beside(redis)) as app:
        ids = await furnish(app)
        assert await by_keyword(app) == ids
        await asyncio.to_thread(redis.start)
        await until(lambda: is_whole(app))
        assert await by_keyword(app) == ids
