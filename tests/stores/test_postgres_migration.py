"""A database that the first version made is brought up to date: nothing is lost, and what is new is filled in."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mindhold.model.lexemes import keyword_forms
from mindhold.model.memory import Tier
from mindhold.model.query import Filter, Order, Search
from mindhold.ports.store import Tend
from mindhold.stores.postgres.schema import latest, migrations, prepare, version_of
from mindhold.stores.postgres.store import PostgresStore
from mindhold.testing.builders import MODEL, START, unit

BEFORE = START - timedelta(days=9)

OLD = """
    INSERT INTO agent_memory.fragments
        (id, content, topic, topic_folded, keywords, type, importance, content_hash, agent_id, created_at, verified_at,
        occurred_at, scope, lexemes, length, access_count, ttl_tier)
    VALUES (%(id)s, %(id)s || ' says this', '', '', %(keywords)s, 'fact', 0.5, %(id)s, %(agent)s, %(before)s, %(before)s,
        %(before)s, 1, %(id)s || ' says this', 3, 4, 'cold')
"""


def make_old(url: str, records: dict[str, tuple[str, list[str]]]) -> None:
    """The schema as the first version had it, with an agent and keywords for each record."""
    session = PostgresStore(url, clock=lambda: START)._session
    with session.connect(as_login=True) as connection:
        prepare(connection, session, now=BEFORE, steps=migrations()[:1])
        assert version_of(connection) == 1
        for memory_id, (agent, keywords) in records.items():
            values: dict[str, Any] = {"id": memory_id, "agent": agent, "keywords": keywords, "before": BEFORE}
            connection.execute(OLD, values)
        connection.execute("UPDATE agent_memory.fragments SET access_count = 5 WHERE id = 'a'")


@pytest.fixture(params=["postgres_url", "owned_postgres_url", "plain_postgres_url"])
def url(request: pytest.FixtureRequest) -> str:
    address: str = request.getfixturevalue(request.param)
    make_old(
        address,
        {
            "a": ("default", ["Databases", "Deploy windows"]),
            "b": ("ada", ["database"]),
            "c": ("default", []),
        },
    )
    return address


async def test_records_stay_and_wait_for_upkeep(url: str) -> None:
    store = PostgresStore(url, clock=lambda: START)
    await store.open()
    assert (await store.facts()).schema_version == latest()
    old = await store.get("a", viewer="default")
    assert (old.updated, old.created, old.uses, old.tier) == (BEFORE, BEFORE, 5, Tier.COLD)
    assert (old.verified, old.examined, old.decayed, old.review) == (START, START, START, START)
    assert (old.shown, old.usefulness) == (0, 0.0)
    everything = Filter(viewer="system", due=START)
    assert [one.id for one in await store.find(everything, order=Order.DUE)] == ["a", "b", "c"]
    assert await store.count(Filter(viewer="system", tiers=(Tier.COLD,))) == 3
    assert len(await store.find(Filter(viewer="ada"), order=Order.IMPORTANT)) == 3
    assert await store.count(Filter(viewer="system", unverified=True)) == 0
    assert await store.count(Filter(viewer="system", unexamined=True)) == 0
    assert (await store.search(Search(Filter(), ("says",)))).usefulness.tolist() == [0.0, 0.0]
    assert all(finding.healthy for finding in await store.check())
    await store.apply([Tend("a", review=START + timedelta(days=1), unless_since=BEFORE)])
    assert [one.id for one in await store.find(everything, order=Order.DUE)] == ["b", "c"]
    await store.close()


async def test_keywords_are_found_by_their_forms(url: str) -> None:
    store = PostgresStore(url, clock=lambda: START)
    await store.open()
    wanted = keyword_forms(["DATABASE"])
    assert [one.id for one in await store.find(Filter(keywords=wanted))] == ["a"]
    assert await store.count(Filter(viewer="ada", keywords=wanted)) == 2
    assert await store.count(Filter(keywords=keyword_forms(["deploy window"]))) == 1
    receipt = await store.erase(["a"])
    assert (receipt.removed["keywords"], receipt.removed["standing"]) == (1, 1)
    assert await store.count(Filter(keywords=wanted)) == 0
    await store.close()


async def test_by_many_at_once(url: str) -> None:
    stores = [PostgresStore(url, clock=lambda: START) for _ in range(6)]
    await asyncio.gather(*(store.open() for store in stores))
    assert {await store.count(Filter(viewer="system", due=START)) for store in stores} == {3}
    await asyncio.gather(*(store.close() for store in stores))


async def test_no_record_is_written_anew(postgres_url: str) -> None:
    """However many there are: with vectors, writing each would take an index of them as long as making it."""
    make_old(postgres_url, {f"m{number}": ("default", [f"k{number}"]) for number in range(50)})
    places = "SELECT id, ctid FROM agent_memory.fragments ORDER BY id"
    store = PostgresStore(postgres_url, clock=lambda: START)
    with store._session.connect(as_login=True) as connection:
        before = connection.execute(places).fetchall()
        await store.open()
        assert connection.execute(places).fetchall() == before
    if store._has_vectors:
        assert len(await store.unembedded(MODEL, limit=99)) == 50
        hashes = {f"m{number}": (f"m{number}", unit(number)) for number in range(50)}
        assert await store.put_vectors(hashes, model=MODEL) == 50
    await store.close()
