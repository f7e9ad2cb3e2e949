"""What many records have or link to: little of it is looked at, and the order stays right."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mindhold.model.memory import Memory, Relation
from mindhold.model.query import Filter, Order
from mindhold.ports.store import Connect
from mindhold.stores.sqlite.store import SqliteStore
from mindhold.testing.builders import START, Builder

RECORDS = 4_000
OLD, RARE = 2_500, 40
KEYS: dict[Order, Callable[[Memory], Any]] = {
    Order.NEWEST: lambda memory: (memory.occurred, memory.id),
    Order.IMPORTANT: lambda memory: (memory.importance, memory.id),
}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "s.db", clock=lambda: START)
    await opened.open()
    yield opened
    await opened.close()


async def fill(store: SqliteStore) -> list[Memory]:
    build = Builder()
    puts = [
        build.put(
            f"n{place}",
            keywords=keywords(place),
            importance=place * 37 % 1_009 / 1_009,
            occurred=START + timedelta(minutes=place),
        )
        for place in range(RECORDS)
    ]
    await store.apply(puts)
    return [put.memory for put in puts]


def keywords(place: int) -> tuple[str, ...]:
    named = ["common", "even" if place % 2 else "odd"]
    return (*named, *(["old"] if place < OLD else []), *(["rare"] if place % RARE == 0 else []))


class Measured:
    """A store's reading, with how many instructions of the database it took."""

    def __init__(self, store: SqliteStore) -> None:
        self._read = store._database.read
        self.steps = 0

    async def read(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        def measured(connection: sqlite3.Connection) -> Any:
            connection.set_progress_handler(self._count, 10)
            try:
                return work(connection)
            finally:
                connection.set_progress_handler(None, 10)

        return await self._read(measured)

    def _count(self) -> int:
        self.steps += 10
        return 0


async def _locked(_work: Callable[[sqlite3.Connection], Any]) -> None:
    return None


async def effort(monkeypatch: pytest.MonkeyPatch, store: SqliteStore, ask: Callable[[], Any]) -> int:
    measured = Measured(store)
    with monkeypatch.context() as patched:
        patched.setattr(store._database, "read", measured.read)
        patched.setattr(store._database, "look", _locked)  # so that everything is read there
        await ask()
    return measured.steps


async def test_a_page_of_what_many_have_is_right_and_little_work(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    memories = await fill(store)
    for asked in (("common",), ("old",), ("common", "rare"), ("odd", "common"), ("odd", "even")):
        where = Filter(keywords=asked)
        wanted = [memory for memory in memories if set(asked) <= set(memory.keywords)]
        for order, key in KEYS.items():
            ordered = [memory.id for memory in sorted(wanted, key=key, reverse=True)]
            first = await store.find(where, order=order, limit=30)
            assert [memory.id for memory in first] == ordered[:30]
            if first:
                following = await store.find(where, order=order, limit=30, after=first[-1].id)
                assert [memory.id for memory in following] == ordered[30:60]
    either = Filter(keywords=("odd", "rare"), keywords_any=True)
    assert (
        await store.find(either, limit=9) == [one for one in reversed(memories) if "odd" in one.keywords][:9]
    )

    async def steps(*asked: str) -> int:
        where = Filter(keywords=asked)
        return await effort(monkeypatch, store, lambda: store.find(where, order=Order.IMPORTANT, limit=30))

    assert await steps("common") < RECORDS * 10
    assert await steps("common", "rare") < RECORDS * 15


async def test_links_of_other_relations_are_passed_over_early(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Builder()
    hub, *spokes = [build.put(f"n{place}") for place in range(1_001)]
    drawn = [build.link(spoke.memory, hub.memory) for spoke in spokes]
    await store.apply([hub, *spokes, *map(Connect, drawn)])

    async def steps(relation: Relation) -> int:
        return await effort(
            monkeypatch,
            store,
            lambda: store.links_of([hub.memory.id], relations=(relation,), viewer="default"),
        )

    assert await steps(Relation.CONTRADICTS) * 3 < await steps(drawn[0].relation)
