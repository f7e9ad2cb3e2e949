"""A Redis beside a store, as the tests need it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from mindhold.model.query import Filter
from mindhold.ports.store import Store
from mindhold.stores.redis.sidecar import RedisAddress, RedisSidecar, open_sidecar
from support.redis_server import RedisSentinels, RedisServer

TIMEOUT = 2.0  # a busy machine is no dead server


def address(server: RedisServer, **changes: Any) -> RedisAddress:
    given = {"host": server.host, "port": server.port, "password": server.password, "timeout": TIMEOUT}
    return RedisAddress(**(given | changes))


def watched(sentinels: RedisSentinels) -> RedisAddress:
    return RedisAddress(
        sentinels=(("127.0.0.1", sentinels.port),),
        master_name=sentinels.master_name,
        password=sentinels.password,
        timeout=TIMEOUT,
    )


async def beside(store: Store, where: RedisAddress, *, place: str = "") -> RedisSidecar:
    return await open_sidecar(where, store, place=place, cache_seconds=60, activity_seconds=60)


async def whole(aside: RedisSidecar) -> None:
    """Returns when the keyword sets are trusted, which a look may have to bring about."""

    async def trusted() -> bool:
        await aside.keywords.having(["anything"], Filter())
        await aside.keywords.built()
        return (await aside.facts()).keywords == "whole"

    await eventually(trusted)


async def eventually(holds: Callable[[], Awaitable[bool]], *, seconds: float = 90.0) -> None:
    """Looks again and again, for what another task or server does in its own time."""
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110 - another process does it
            await asyncio.sleep(0.02)


def settings_of(server: RedisServer, **changes: Any) -> dict[str, Any]:
    """For `opened`."""
    return {
        "redis.enabled": True,
        "redis.host": server.host,
        "redis.port": server.port,
        "redis.password": server.password,
        "redis.timeout_ms": int(TIMEOUT * 1000),
    } | changes
