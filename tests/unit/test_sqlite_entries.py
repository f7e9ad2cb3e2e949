"""Entries in the file: brought in by a migration, saved from a damaged one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from mindhold.model.job import Entry
from mindhold.model.query import Filter
from mindhold.stores.sqlite.connection import migrate, migrations
from mindhold.stores.sqlite.salvage import salvage
from mindhold.stores.sqlite.store import SqliteStore
from mindhold.stores.sqlite_file import make_private
from mindhold.testing.builders import START, Builder

KEPT = Entry("key", "k", {"name": "laptop"}, START)


def first_schema(path: Path) -> None:
    """A file of the Mindhold that knew no entries."""
    make_private(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, path, now=START, steps=migrations()[:1])


async def reopened(path: Path) -> SqliteStore:
    store = SqliteStore(path, clock=lambda: START)
    await store.open()
    return store


async def test_an_older_file_gains_the_table(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    first_schema(path)
    store = await reopened(path)
    await store.put_entry(KEPT)
    assert await store.entries("key", now=START) == [KEPT]
    assert all(finding.healthy for finding in await store.check())
    await store.close()


async def test_entries_are_saved_with_the_rest(tmp_path: Path) -> None:
    path, saved = tmp_path / "store.db", tmp_path / "saved.db"
    store = await reopened(path)
    await store.apply([Builder().put()])
    await store.put_entry(Entry("key", "revoked", {}, START))
    await store.put_entry(KEPT)
    await store.drop_entry("key", "revoked")
    await store.close()
    assert salvage(path, saved, now=START) == 1
    rescued = await reopened(saved)
    assert await rescued.entries("key", now=START) == [KEPT]
    await rescued.close()


async def test_a_file_older_than_the_table_is_saved_too(tmp_path: Path) -> None:
    path, saved = tmp_path / "store.db", tmp_path / "saved.db"
    store = await reopened(path)
    await store.apply([Builder().put()])
    await store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE entry")
        connection.execute("PRAGMA user_version = 1")
    assert salvage(path, saved, now=START) == 1
    rescued = await reopened(saved)
    assert await rescued.count(Filter()) == 1
    assert await rescued.entries("key", now=START) == []
    await rescued.close()


async def test_what_was_dropped_leaves_no_bytes(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = await reopened(path)
    await store.put_entry(Entry("visit", "v", {"client": "zanzibar"}, START))
    await store.drop_entry("visit", "v")
    receipt = await store.scrub(["zanzibar"])
    assert set(receipt.remaining.values()) == {0}
    await store.close()
