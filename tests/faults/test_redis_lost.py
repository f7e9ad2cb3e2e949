"""Redis killed, emptied, frozen, replaced: no acknowledged write is missed by a recall, and nothing waits for it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from mindhold.app.application import App
from mindhold.lifecycle.status import STATUS
from mindhold.memories.forget import FORGET
from mindhold.memories.recall import RECALL, RecallResult
from mindhold.memories.remember import REMEMBER, REMEMBER_MANY
from redis_beside import TIMEOUT, eventually, settings_of
from support.redis_server import RedisSentinels, RedisServer

Open = Callable[..., AbstractAsyncContextManager[App]]
SETS = "keyword sets"
ROUNDS = 60
WORDS = "amber birch cobalt delta ember fjord garnet harbour indigo juniper kelp lagoon marble nectar".split()


async def remember(app: App, number: int) -> str:
    chance = random.Random(number)
    text = f"Entry {number}: {' '.join(chance.choices(WORDS, k=8))} {number * 7919}"
    answer = await app.run(REMEMBER, REMEMBER.takes(content=text, keywords=["ledger"]))
    assert answer.created, answer
    assert answer.id is not None
    return answer.id


async def begin(app: App) -> set[str]:
    """Others that have the keyword not, for a word that all have says nothing; and a few that have it."""
    items = [{"content": f"{WORDS[number % 14]} {number * 104729} stands apart"} for number in range(600)]
    await app.run(REMEMBER_MANY, REMEMBER_MANY.takes(items=items))
    known = {await remember(app, number) for number in range(3)}
    await eventually(lambda: by_sets(app))
    return known


async def recalled(app: App, *, limit: int) -> RecallResult:
    return await app.run(RECALL, RECALL.takes(keywords=["ledger"], limit=limit))


async def by_sets(app: App) -> bool:
    return (await recalled(app, limit=1)).rung == SETS


async def state(app: App) -> dict[str, str]:
    return (await app.run(STATUS, STATUS.takes())).beside


async def test_whatever_happens_to_it_nothing_acknowledged_is_missed(
    opened: Open, redis_server: RedisServer
) -> None:
    chance, settings = random.Random(4), settings_of(redis_server)
    answered: list[str] = []
    async with opened(**settings) as first, opened(**settings) as second, opened() as without:
        known = await begin(first)
        for number in range(100, 100 + ROUNDS):
            match chance.randrange(12):
                case 0 if redis_server.running:
                    redis_server.flush()
                case 1:
                    redis_server.kill()
                case 2:
                    redis_server.start()
                case 3 if redis_server.running:
                    await eventually(lambda: by_sets(second))
                case 4:
                    gone = known.pop()
                    await first.run(FORGET, FORGET.takes(ids=[gone], hard=True))
            writer = chance.choice([first, second])
            known.add(await remember(writer, number))
            for reader in (first, second, without):
                answer = await recalled(reader, limit=len(known))
                assert {hit.id for hit in answer.hits} == known
                answered.append(answer.rung)
    assert SETS in answered
    assert set(answered) != {SETS}


async def test_a_frozen_one_is_waited_for_once(opened: Open, redis_server: RedisServer) -> None:
    async with opened(**settings_of(redis_server, **{"redis.timeout_ms": 3_000})) as app:
        known = await begin(app)
        redis_server.freeze()
        async with asyncio.timeout(90):  # forty calls that waited three seconds each would take longer
            for number in range(10, 30):
                known.add(await remember(app, number))
                assert {hit.id for hit in (await recalled(app, limit=len(known))).hits} == known
        assert (await state(app))["state"] == "away"
        redis_server.thaw()
        await eventually(lambda: by_sets(app))
        assert {hit.id for hit in (await recalled(app, limit=len(known))).hits} == known


async def test_a_changed_password_is_told_and_done_without(opened: Open, redis_server: RedisServer) -> None:
    right = redis_server.password
    async with opened(**settings_of(redis_server)) as app:
        await remember(app, 1)
        redis_server.command("CONFIG", "SET", "requirepass", "another one")
        redis_server.password = "another one"
        redis_server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await remember(app, 2)
        assert len((await recalled(app, limit=2)).hits) == 2

        async def denied() -> bool:
            return (await state(app))["state"] == "denied"

        await eventually(denied)
        redis_server.command("CONFIG", "SET", "requirepass", right)
        redis_server.password = right
        await eventually(lambda: by_sets(app))


async def test_a_failover_loses_nothing(opened: Open, redis_sentinels: RedisSentinels) -> None:
    settings: dict[str, Any] = {
        "redis.enabled": True,
        "redis.sentinel": True,
        "redis.sentinels": redis_sentinels.sentinels,
        "redis.master_name": redis_sentinels.master_name,
        "redis.password": redis_sentinels.password,
        "redis.timeout_ms": int(TIMEOUT * 1000),
    }
    async with opened(**settings) as app:
        known = await begin(app)
        failing = asyncio.create_task(asyncio.to_thread(redis_sentinels.fail_over))
        number = 100
        while not failing.done() and number < 130:
            known.add(await remember(app, number))
            assert {hit.id for hit in (await recalled(app, limit=len(known))).hits} == known
            number += 1
        await failing
        await eventually(lambda: by_sets(app))
        answer = await recalled(app, limit=len(known))
        assert answer.rung == SETS
        assert {hit.id for hit in answer.hits} == known
