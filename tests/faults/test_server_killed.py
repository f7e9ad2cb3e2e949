"""Power cuts: a database server that is killed while many write loses nothing that it acknowledged."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fault_sites import SOCKETS_LEFT, Site, app_on, until

from mindhold.app.application import App
from mindhold.model.errors import StoreError
from mindhold.model.query import Filter, Search
from mindhold.testing.builders import MODEL, Builder, unit

ROUNDS = 3
WRITERS = 6
STEP = 3  # records in one change

pytestmark = SOCKETS_LEFT


class Writers:
    """Several at once, each writing steps of three until the store fails."""

    def __init__(self, app: App) -> None:
        self._store = app.engine.store
        self.acknowledged: set[str] = set()
        self.tried: list[list[str]] = []

    async def run(self, turn: int, *, enough: asyncio.Event, at_least: int) -> None:
        goal = len(self.acknowledged) + at_least
        await asyncio.gather(*(self._write(f"t{turn}w{n}-", enough, goal) for n in range(WRITERS)))

    async def _write(self, name: str, enough: asyncio.Event, goal: int) -> None:
        build = Builder(prefix=name)
        while True:
            puts = [build.put(f"common {build.now} {name} {n}", vector=unit(n, 1)) for n in range(STEP)]
            ids = [put.memory.id for put in puts]
            self.tried.append(ids)
            try:
                await self._store.apply(puts)
            except StoreError:
                return
            self.acknowledged |= set(ids)
            if len(self.acknowledged) >= goal:
                enough.set()


async def all_ids(app: App) -> set[str]:
    return {memory.id async for batch in app.engine.store.scan(Filter()) for memory in batch}


async def whole(app: App, writers: Writers) -> bool:
    """Everything acknowledged is there, and every change is there or not."""
    kept = await all_ids(app)
    assert writers.acknowledged <= kept
    assert all(len(kept & set(ids)) in (0, STEP) for ids in writers.tried)
    return True


async def test_every_acknowledged_write_is_there_after_each_death(site: Site, tmp_path: Path) -> None:
    async with app_on(tmp_path / "home", site.new_database()) as app:
        await asyncio.to_thread(site.settle)
        writers = Writers(app)
        for turn in range(ROUNDS):
            enough = asyncio.Event()
            writing = asyncio.create_task(writers.run(turn, enough=enough, at_least=30 + 25 * turn))
            await enough.wait()
            await asyncio.to_thread(site.server.kill)
            await writing
            await asyncio.to_thread(site.server.start)
            await until(lambda: whole(app, writers))

        number = len(await all_ids(app))
        seen = await app.engine.store.search(
            Search(Filter(), lexemes=("common",), vector=unit(1, 1), model=MODEL)
        )
        assert seen.embedded == number
        assert [finding for finding in await app.engine.store.check() if not finding.healthy] == []


async def test_one_who_opens_after_a_death_finds_everything_whole(site: Site, tmp_path: Path) -> None:
    settings = site.new_database()
    async with app_on(tmp_path / "home", settings) as app:
        await asyncio.to_thread(site.settle)
        writers = Writers(app)
        enough = asyncio.Event()
        writing = asyncio.create_task(writers.run(0, enough=enough, at_least=60))
        await enough.wait()
        await asyncio.to_thread(site.server.kill)
        await writing
    await asyncio.to_thread(site.server.start)
    async with app_on(tmp_path / "other", settings) as other:
        await until(lambda: whole(other, writers))
        assert [finding for finding in await other.engine.store.check() if not finding.healthy] == []
