"""Look-ups of a few rows are read in the calling thread, and wait elsewhere if the file is locked."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from mindhold.model.errors import StoreError
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
