"""What is written down of a service, by several processes and over midnight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from mindhold.memories.embedding import TRAITS, EmbeddingServiceLog
from mindhold.memories.model_budget import EMBEDDING, ModelSpend, spent_on_day
from mindhold.model.errors import ModelAway
from mindhold.model.ranking import Cosines
from mindhold.ports.embedder import ServiceModelTraits, ServiceTerms, Usage
from mindhold.stores.sqlite.store import SqliteStore

MODEL = "openai:text-embedding-3-small/1536"


class Day:
    """A clock that is moved by hand, a store, and books of as many processes as are asked for."""

    def __init__(self, store: SqliteStore) -> None:
        self.now = datetime(2026, 3, 1, 22, 59, tzinfo=UTC)
        self.store = store
        self._ids = count()

    def clock(self) -> datetime:
        return self.now

    def book(self, *, price: float = 10.0, daily_tokens: int = 0) -> EmbeddingServiceLog:
        return EmbeddingServiceLog(
            self.store,
            clock=self.clock,
            new_id=lambda: f"id{next(self._ids)}",
            model=MODEL,
            terms=ServiceTerms(price, daily_tokens),
        )

    async def spent(self) -> ModelSpend:
        return await spent_on_day(self.store, clock=self.clock, kind=EMBEDDING)

    async def lines(self) -> int:
        return len(await self.store.entries(f"ledger:{self.now:%Y-%m-%d}", now=self.now))


@pytest.fixture
async def day(tmp_path: Path) -> AsyncIterator[Day]:
    store = SqliteStore(tmp_path / "book.db", clock=lambda: datetime(2026, 3, 1, tzinfo=UTC))
    await store.open()
    yield Day(store)
    await store.close()


async def test_calls_add_up_over_hours_and_processes(day: Day) -> None:
    one, other = day.book(), day.book()
    for book in (one, other, one):
        await book.settle(Usage(2, 1, 100_000), reserved=0)
    assert await day.lines() == 2
    day.now += timedelta(hours=1)
    await one.settle(Usage(1, 0, 50_000), reserved=0)
    assert await day.lines() == 3
    spent = await day.spent()
    assert (spent.calls, spent.failed, spent.tokens) == (7, 3, 350_000)
    assert spent.dollars == pytest.approx(3.5)
    day.now += timedelta(hours=1)
    assert await day.spent() == ModelSpend()


async def test_what_is_reserved_counts_until_it_is_settled(day: Day) -> None:
    book = day.book(daily_tokens=1_000)
    await book.reserve(600)
    assert (await day.spent()).tokens == 600
    with pytest.raises(ModelAway, match="1,000 tokens"):
        await day.book(daily_tokens=1_000).reserve(600)
    await book.settle(Usage(1, 0, 250), reserved=600)
    assert (await day.spent()).tokens == 250
    await book.reserve(600)
    await book.settle(Usage(), reserved=600)
    assert (await day.spent()).tokens == 250


async def test_a_call_that_lasts_into_the_next_hour_is_counted_once(day: Day) -> None:
    book = day.book(daily_tokens=10_000)
    await book.reserve(600)
    day.now += timedelta(minutes=2)
    await book.settle(Usage(1, 0, 500), reserved=600)
    assert (await day.spent()).tokens == 500


async def test_of_many_at_once_no_more_than_the_day_has(day: Day) -> None:
    books = [day.book(daily_tokens=1_000) for _ in range(4)]
    outcomes = await asyncio.gather(
        *(book.reserve(300) for book in books for _ in range(2)), return_exceptions=True
    )
    granted = sum(outcome is None for outcome in outcomes)
    assert granted <= 3
    assert (await day.spent()).tokens == 300 * granted


async def test_traits_are_for_every_process_and_bad_ones_for_none(day: Day) -> None:
    traits = ServiceModelTraits(1536, Cosines(0.25, 0.125))
    assert await day.book().traits() is None
    await day.book().keep_traits(traits)
    assert await day.book().traits() == traits
    for bad in ("no json", "{}", "[]", '{"dimensions": null}'):
        await day.store.set_cursor(TRAITS + MODEL, bad)
        assert await day.book().traits() is None


async def test_a_store_that_fails_is_no_reason_to_fail(day: Day) -> None:
    book, capped = day.book(), day.book(daily_tokens=100)
    await book.settle(Usage(1, 0, 10), reserved=0)
    await day.store.close()
    await book.settle(Usage(1, 0, 10), reserved=0)
    assert await book.traits() is None
    with pytest.raises(ModelAway, match="can't be written"):
        await capped.reserve(10)
    await day.store.open()
    await book.settle(Usage(1, 0, 10), reserved=0)
    assert (await day.spent()).tokens == 30


async def test_an_hour_whose_last_page_could_not_be_written_is_not_lost(day: Day) -> None:
    book = day.book()
    await book.settle(Usage(1, 0, 10), reserved=0)
    await day.store.close()
    await book.settle(Usage(1, 0, 10), reserved=0)
    for _ in range(2):
        day.now += timedelta(minutes=30)
        await book.settle(Usage(1, 0, 10), reserved=0)
    await day.store.open()
    await book.settle(Usage(1, 0, 10), reserved=0)
    day.now = day.now.replace(hour=23)
    assert (await day.spent()).tokens == 50
