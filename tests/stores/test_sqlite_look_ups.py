"""Look-ups of a few rows are read in the calling thread, and wait elsewhere if the file is locked."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from mindhold.model.errors import StoreError
from mindhold.model.query import Candidates, Filter, Search
from mindhold.stores.sqlite import search
from mindhold.stores.sqlite.store import SqliteStore
from mindhold.testing.builders import START, Builder


async def test_a_locked_file_is_waited_for_elsewhere(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db", clock=lambda: START)
    await store.open()
    locking = sqlite3.connect(tmp_path / "locked.db", isolation_level=None)
    locked = sqlite3.connect(tmp_path / "locked.db", isolation_level=None, timeout=0)
    try:
        put = Builder().put("The spare key is under the flowerpot")
        await store.apply([put])
        locking.execute("BEGIN EXCLUSIVE")
        store._database._local.connection = locked  # this thread's, as if the file itself were locked
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            locked.execute("SELECT * FROM sqlite_master")
        assert (await store.get(put.memory.id, viewer="default")).content == put.memory.content
    finally:
        locking.close()
        locked.close()
        await store.close()


async def test_a_search_waits_elsewhere_while_the_index_changes(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db", clock=lambda: START)
    await store.open()
    try:
        put = Builder().put("The spare key is under the flowerpot")
        await store.apply([put])
        asked = Search(Filter(), ("key",))
        assert (await store.search(asked)).ids == [put.memory.id]
        with store._live._gate.changing():
            searching = asyncio.create_task(store.search(asked))
            for _ in range(100):
                await asyncio.sleep(0)
            assert not searching.done()
        assert (await searching).ids == [put.memory.id]
    finally:
        await store.close()


@pytest.mark.parametrize("few", [0, search.FEW])
async def test_a_search_answers_alike_in_either_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(search, "FEW", few)
    threads: list[str] = []
    candidates = search.ResidentSearch.candidates

    def noted(own: search.ResidentSearch) -> Candidates:
        threads.append(threading.current_thread().name)
        return candidates(own)

    monkeypatch.setattr(search.ResidentSearch, "candidates", noted)
    store = SqliteStore(tmp_path / "s.db", clock=lambda: START)
    await store.open()
    try:
        put = Builder().put("The spare key is under the flowerpot")
        await store.apply([put])
        for _ in range(2):  # the first loads the index
            hits = await store.search(Search(Filter(), ("key", "nowhere")))
            assert (hits.ids, hits.counts.tolist(), hits.total) == ([put.memory.id], [[1, 0]], 1)
            await store.touch([put.memory.id], START)
        assert (await store.search(Search(Filter(), ("key",)))).uses.tolist() == [2]
    finally:
        await store.close()
    assert threads[0].startswith("mindhold-read")
    assert threads[-1].startswith("mindhold-read") is (few == 0)


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db", clock=lambda: START)
    await store.open()
    await store.close()
    with pytest.raises(StoreError, match="is not open"):
        await store.scopes()


async def test_reading_again_and_again_lets_others_work(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db", clock=lambda: START)
    await store.open()
    try:
        put = Builder().put("The spare key is under the flowerpot")
        writing = asyncio.create_task(store.apply([put]))
        for _ in range(100_000):  # a reader that never yields would see nothing however long it reads
            if await store.get_many([put.memory.id], viewer="default"):
                break
        assert writing.done() or await store.get_many([put.memory.id], viewer="default")
        await writing
    finally:
        await store.close()
