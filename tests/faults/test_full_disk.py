"""No room left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from store_process import Start

from mindhold.model.errors import StoreFull
from mindhold.model.query import Filter
from mindhold.ports.store import Put
from mindhold.stores.sqlite.store import SqliteStore
from mindhold.testing.builders import START, Builder


async def test_a_full_disk_writes_nothing_by_halves(
    start: Start, new_store: Callable[[], SqliteStore]
) -> None:
    process = start("full")
    process.hear()
    process.ask("open")
    answer = process.ask("fill_up", limit=2_000_000)
    assert answer["code"] == "STORE_FULL"
    assert answer["reading"] == len(answer["before"]) > 0
    process.end()

    store = new_store()
    await store.open()
    kept = {memory.id for batch in [b async for b in store.scan(Filter())] for memory in batch}
    assert kept == {*answer["before"], *answer["after"]}
    assert [finding for finding in await store.check() if not finding.healthy] == []
    await store.close()


async def test_a_bounded_file_refuses_and_goes_on(path: Path) -> None:
    store = SqliteStore(path, clock=lambda: START, most_pages=150)
    await store.open()
    build = Builder()
    stored: list[Put] = []

    async def fill() -> None:
        while True:
            puts = [build.put("words " * 500 + str(build.now)), build.put("words " * 400 + str(build.now))]
            await store.apply(puts)
            stored.extend(puts)

    with pytest.raises(StoreFull, match="no room"):
        await fill()
    assert await store.count(Filter()) == len(stored) > 0
    await store.erase([put.memory.id for put in stored[:6]])
    await store.apply([build.put("room again")])
    assert await store.count(Filter()) == len(stored) - 5
    assert [finding for finding in await store.check() if not finding.healthy] == []
    await store.close()


async def test_of_many_writes_at_once_those_that_fit_are_kept(path: Path) -> None:
    store = SqliteStore(path, clock=lambda: START, most_pages=170)
    await store.open()
    build = Builder()
    puts = [build.put("words " * 300 + str(build.now)) for _ in range(200)]
    outcomes = await asyncio.gather(*(store.apply([put]) for put in puts), return_exceptions=True)
    refused = [outcome for outcome in outcomes if outcome is not None]
    assert refused
    assert all(isinstance(outcome, StoreFull) for outcome in refused)
    kept = {put.memory.id for put, outcome in zip(puts, outcomes, strict=True) if outcome is None}
    assert kept
    assert {memory.id for memory in await store.find(Filter(), limit=1000)} == kept
    await store.close()
