"""The keyword sets: never behind what was acknowledged, never the truth."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mindhold.model.errors import Conflict
from mindhold.model.lexemes import keyword_form
from mindhold.model.query import Filter
from mindhold.model.scope import Scope
from mindhold.ports.store import Put, Revise, Store
from mindhold.stores.redis.keywords import MOST_FOUND
from mindhold.stores.redis.sidecar import RedisSidecar
from mindhold.stores.registry import KeywordSetInvalidator
from mindhold.stores.sqlite.store import SqliteStore
from mindhold.testing.builders import START, Builder
from redis_beside import address, beside, whole
from support.redis_server import RedisServer

Open = Callable[..., Awaitable[RedisSidecar]]
HERE = Filter(scopes=("Global",))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = SqliteStore(tmp_path / "store.db", clock=lambda: START)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def another(store: Store, redis_server: RedisServer) -> AsyncIterator[Open]:
    """One more server's."""
    opened: list[RedisSidecar] = []

    async def open_one(of: Store = store, server: RedisServer = redis_server) -> RedisSidecar:
        opened.append(await beside(of, address(server)))
        return opened[-1]

    yield open_one
    for aside in opened:
        await aside.close()


@pytest.fixture
async def aside(another: Open) -> RedisSidecar:
    """Trusted from the beginning."""
    aside = await another()
    await whole(aside)
    return aside


@pytest.fixture
def build() -> Builder:
    return Builder()


def put(build: Builder, *keywords: str, **fields: object) -> Put:
    return build.put(keywords=keywords, **fields)


async def having(aside: RedisSidecar, *keywords: str, where: Filter = HERE) -> list[str] | None:
    return await aside.keywords.having([keyword_form(keyword) for keyword in keywords], where)


async def test_it_finds_what_has_all_keywords_the_newest_first(aside: RedisSidecar, build: Builder) -> None:
    both, one, later = (
        put(build, "Database", "index"),
        put(build, "database"),
        put(build, "Indexes", "databases"),
    )
    await aside.store.apply([both, one, later])
    assert await having(aside, "database", "INDEX") == [later.memory.id, both.memory.id]
    assert await having(aside, "nowhere") == []


async def test_what_was_there_before_is_found_once_it_is_built(
    store: Store, another: Open, build: Builder
) -> None:
    old = [put(build, "old") for _ in range(3)]
    await store.apply(old)
    aside = await another()
    assert await having(aside, "old") is None
    await aside.keywords.built()
    assert await having(aside, "old") == [each.memory.id for each in reversed(old)]


async def test_access_is_kept(aside: RedisSidecar, build: Builder) -> None:
    await aside.store.put_scope(Scope("work", created=START))
    mine, theirs = put(build, "key", agent="ann"), put(build, "key", agent="bob")
    shared, elsewhere = put(build, "key"), put(build, "key", scope="work", agent="ann")
    await aside.store.apply([mine, theirs, shared, elsewhere])
    assert await having(aside, "key", where=replace(HERE, viewer="ann")) == [shared.memory.id, mine.memory.id]
    assert await having(aside, "key", where=Filter(viewer="bob")) == [shared.memory.id, theirs.memory.id]
    everyone = await having(aside, "key", where=Filter(viewer="system"))
    assert everyone is not None
    assert len(everyone) == 4


async def test_amendments_and_erasure_are_followed(
    aside: RedisSidecar, build: Builder, redis_server: RedisServer
) -> None:
    first, second = put(build, "before", "kept"), put(build, "kept")
    await aside.store.apply([first, second])
    amended = replace(first.memory, keywords=("after", "kept"))
    await aside.store.apply([replace(first, memory=amended, expected=first.memory.updated)])
    await aside.store.apply([Revise(replace(second.memory, keywords=("kept", "new")))])
    assert await having(aside, "before") == []
    assert await having(aside, "after", "kept") == [amended.id]
    assert await having(aside, "new") == [second.memory.id]
    await aside.store.erase([amended.id, second.memory.id])
    assert await having(aside, "kept") == []
    assert amended.id not in str(held(redis_server))


async def test_what_is_refused_leaves_nothing_behind(
    aside: RedisSidecar, build: Builder, redis_server: RedisServer
) -> None:
    first = put(build, "twice")
    await aside.store.apply([first])
    again = replace(first, memory=replace(first.memory, id=build.new_id()))
    with pytest.raises(Conflict):
        await aside.store.apply([again])
    assert await having(aside, "twice") == [first.memory.id]
    assert again.memory.id not in str(held(redis_server))


async def test_no_keyword_can_be_read_in_redis(
    aside: RedisSidecar, build: Builder, redis_server: RedisServer
) -> None:
    await aside.store.apply([put(build, "confidential", content="a very private matter")])
    told = str(redis_server.command("KEYS", "*")) + str(held(redis_server))
    assert keyword_form("confidential") not in told
    assert "private" not in told


async def test_a_flushed_server_is_noticed_and_filled_again(
    aside: RedisSidecar, build: Builder, redis_server: RedisServer
) -> None:
    kept = put(build, "kept")
    await aside.store.apply([kept])
    redis_server.flush()
    assert await having(aside, "kept") is None
    await whole(aside)
    assert await having(aside, "kept") == [kept.memory.id]


async def test_a_write_after_a_flush_makes_nothing_whole(
    aside: RedisSidecar, build: Builder, redis_server: RedisServer
) -> None:
    old, new = put(build, "kept"), put(build, "kept")
    await aside.store.apply([old])
    redis_server.flush()
    await aside.store.apply([new])
    assert await having(aside, "kept") is None
    await whole(aside)
    assert await having(aside, "kept") == [new.memory.id, old.memory.id]


async def test_a_restarted_server_is_not_believed(
    aside: RedisSidecar, build: Builder, redis_server: RedisServer
) -> None:
    """It may have lost its last moments."""
    await aside.store.apply([put(build, "kept")])
    redis_server.kill()
    redis_server.start()
    assert await having(aside, "kept") is None
    await whole(aside)
    assert len(await having(aside, "kept") or ()) == 1


async def test_a_write_while_it_is_away_is_not_missed_later(
    aside: RedisSidecar, another: Open, build: Builder, redis_server: RedisServer
) -> None:
    other = await another()
    before, meanwhile = put(build, "kept"), put(build, "kept")
    await aside.store.apply([before])
    redis_server.command("CONFIG", "SET", "maxmemory", "1")  # it takes no write, but answers
    await aside.store.apply([meanwhile])
    assert await having(other, "kept") is None
    redis_server.command("CONFIG", "SET", "maxmemory", "0")
    await whole(other)
    assert await having(other, "kept") == [meanwhile.memory.id, before.memory.id]


async def test_a_writer_without_redis_is_noticed(aside: RedisSidecar, store: Store, build: Builder) -> None:
    theirs = put(build, "kept")
    await KeywordSetInvalidator(store).apply([theirs])
    assert await having(aside, "kept") is None
    await whole(aside)
    assert await having(aside, "kept") == [theirs.memory.id]


async def test_a_writer_that_died_half_way_is_not_missed(
    aside: RedisSidecar, store: Store, build: Builder
) -> None:
    lost = put(build, "kept")
    await aside.keywords.announce([lost.memory.id])
    await store.apply([lost])
    assert await having(aside, "kept") == [lost.memory.id]


async def test_a_server_that_follows_another_redis_is_noticed(
    aside: RedisSidecar, another: Open, build: Builder, tmp_path: Path
) -> None:
    """As when one of two still talks to a master that was replaced."""
    with RedisServer(tmp_path / "other") as server:
        apart = await another(server=server)
        await apart.store.apply([put(build, "kept")])
        assert await having(aside, "kept") is None
        await apart.close()


async def test_a_renamed_scope_is_found_under_its_new_name(aside: RedisSidecar, build: Builder) -> None:
    await aside.store.put_scope(Scope("old name", created=START))
    inside = put(build, "kept", scope="old name")
    await aside.store.apply([inside])
    await aside.store.rename_scope("old name", "new name")
    assert await having(aside, "kept", where=Filter(scopes=("new name",))) is None
    await whole(aside)
    assert await having(aside, "kept", where=Filter(scopes=("new name",))) == [inside.memory.id]


async def test_several_servers_see_each_others_writes(
    aside: RedisSidecar, another: Open, build: Builder
) -> None:
    other = await another()
    theirs = put(build, "shared")
    await other.store.apply([theirs])
    assert await having(aside, "shared") == [theirs.memory.id]


async def test_two_stores_share_a_server(
    aside: RedisSidecar, another: Open, build: Builder, tmp_path: Path
) -> None:
    second = SqliteStore(tmp_path / "second.db", clock=lambda: START)
    await second.open()
    other = await another(second)
    await whole(other)
    mine, theirs = put(build, "same"), put(build, "same")
    await aside.store.apply([mine])
    await other.store.apply([theirs])
    assert await having(aside, "same") == [mine.memory.id]
    assert await having(other, "same") == [theirs.memory.id]
    await other.close()
    await second.close()


async def test_too_many_are_the_stores_to_rank(aside: RedisSidecar, build: Builder) -> None:
    await aside.store.apply(
        [put(build, "common", *(["rare"] if number == 0 else [])) for number in range(MOST_FOUND + 1)]
    )
    assert await having(aside, "common") is None
    assert len(await having(aside, "common", "rare") or ()) == 1


async def test_a_server_that_drops_keys_by_itself_keeps_no_sets(
    another: Open, redis_server: RedisServer
) -> None:
    redis_server.command("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
    aside = await another()
    assert await having(aside, "anything") is None
    await aside.keywords.built()
    facts = await aside.facts()
    assert facts.keywords == "off"
    assert "allkeys" in facts.detail


def held(server: RedisServer) -> list[object]:
    """What the sets and hashes have in them."""
    kinds = {"set": ("SMEMBERS",), "hash": ("HGETALL",)}
    found = []
    for key in server.command("KEYS", "*"):
        if reading := kinds.get(server.command("TYPE", key)):
            found.append(server.command(*reading, key))
    return found
