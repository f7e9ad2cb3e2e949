"""No hit is lost where a filter admits many records: side by side with the store that looks at all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from mindhold.model.query import Candidates, Filter, Search
from mindhold.ports.store import Put
from mindhold.stores.postgres.store import PostgresStore
from mindhold.stores.sqlite.store import SqliteStore
from mindhold.testing.builders import START, Builder, clustered, unit
from support.postgres_server import PostgresServer

FEW = 100  # records that a filter may admit for all of them to be looked at
ADA = Filter(viewer="ada", agents=("ada",))


def puts() -> Iterator[Put]:
    """Of ada few say `release`, and they come behind very many of bob's who do."""
    build = Builder()
    for number in range(8_200):
        yield build.put(f"bob release {number}", agent="bob")
    for number in range(1_500):
        words = "deploy" if number % 2 else "thing"
        yield build.put(f"ada {words} n{number}", agent="ada", occurred=START + timedelta(seconds=number))
    for number in range(3):
        yield build.put(f"ada release only{number}", agent="ada", occurred=START + timedelta(hours=-1))


async def fill(url: str, path: Path) -> None:
    changes = list(puts())
    for store in (made(url), SqliteStore(path, clock=lambda: START)):
        await store.open()
        for start in range(0, len(changes), 2_000):
            await store.apply(changes[start : start + 2_000])
        await store.close()


def made(url: str) -> PostgresStore:
    return PostgresStore(url, clock=lambda: START, exact_up_to=FEW)


@pytest.fixture(scope="module")
def places(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    url = postgres_server.create_database("hits", template="with_vectors")
    path = tmp_path_factory.mktemp("hits") / "memory.db"
    asyncio.run(fill(url, path))
    yield url, path
    postgres_server.drop_database("hits")


@pytest.fixture
async def store(places: tuple[str, Path]) -> AsyncIterator[PostgresStore]:
    store = made(places[0])
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def embedded(places: tuple[str, Path]) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(places[1], clock=lambda: START)
    await store.open()
    yield store
    await store.close()


def having(found: Candidates, lexemes: Sequence[str]) -> dict[str, int]:
    """How many of the candidates have each word."""
    return dict(zip(lexemes, (found.counts > 0).sum(axis=0).tolist(), strict=True))


@pytest.mark.parametrize(
    "lexemes",
    [
        ("xyzzy", "deploy"),
        ("deploy", "zzz", "n17"),
        ("release",),
        ("release", "xyzzy"),
        ("ada", "release"),
        ("deploy", "only1"),
    ],
)
async def test_words_that_are_common_find_what_rare_ones_leave_room_for(
    store: PostgresStore, embedded: SqliteStore, lexemes: tuple[str, ...]
) -> None:
    search = Search(ADA, lexemes, pool=60)
    found, sure = await store.search(search), await embedded.search(search)
    assert len(found.ids) == len(sure.ids)
    assert having(found, lexemes) == having(sure, lexemes)
    rare = {place for place, lexeme in enumerate(lexemes) if sure.frequencies[lexeme] < 60}
    for place in rare:
        assert {found.ids[row] for row in (found.counts[:, place] > 0).nonzero()[0]} == {
            sure.ids[row] for row in (sure.counts[:, place] > 0).nonzero()[0]
        }
        assert found.frequencies[lexemes[place]] == sure.frequencies[lexemes[place]]


async def test_a_narrow_time_is_not_answered_as_a_wide_one_of_the_same_hour(
    store: PostgresStore, embedded: SqliteStore
) -> None:
    wide = Search(replace(ADA, since=START), ("ada",), pool=60)
    narrow = Search(replace(ADA, since=START + timedelta(seconds=1_495)), ("ada",), pool=60)
    for search in (wide, narrow):
        found, sure = await store.search(search), await embedded.search(search)
        assert found.total == sure.total
        assert len(found.ids) == len(sure.ids)


async def test_the_vectors_of_a_new_model_are_found_at_once(store: PostgresStore) -> None:
    search = Search(ADA, (), clustered(1, seed=5)[0], "new", pool=10)
    assert (await store.search(search)).embedded == 0
    some = await store.find(ADA, limit=20)
    vectors = {
        memory.id: (memory.content_hash, vector)
        for memory, vector in zip(some, clustered(20, seed=6), strict=True)
    }
    assert await store.put_vectors(vectors, model="new") == 20
    found = await store.search(search)
    assert len(found.ids) == 10
    assert set(found.ids) <= set(vectors)
    assert found.embedded == 20
    assert found.cosine_deviation > 0
    (near,) = await store.nearest([clustered(1, seed=5)[0]], model="new", where=ADA, limit=30)
    assert len(near) == 20


async def test_ids_and_words_with_control_characters_come_back_as_they_were(postgres_url: str) -> None:
    store, build = made(postgres_url), Builder()
    await store.open()
    for number, odd in enumerate(("id\x10x", "id\x00y")):
        put = build.put(f"text {number}", vector=unit(1, number))
        await store.apply([replace(put, memory=replace(put.memory, id=odd), lexemes=[odd, "text"])])
        found = await store.search(Search(Filter(), (odd,)))
        assert found.ids == [odd]
        assert found.counts.tolist() == [[1]]
    await store.close()
