"""One writer, several readers, and what the system says no to."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from pathlib import Path

import pytest

from mindhold.model.errors import Conflict, InvalidInput, StoreBusy, StoreError, StoreReadOnly
from mindhold.model.query import Filter
from mindhold.stores.sqlite.connection import SqliteDatabase
from mindhold.stores.sqlite.store import SqliteStore
from mindhold.stores.sqlite_file import translated
from mindhold.testing.builders import START, Builder


def new_store(path: Path, *, busy_timeout_ms: int = 5_000) -> SqliteStore:
    return SqliteStore(path, clock=lambda: START, busy_timeout_ms=busy_timeout_ms)


async def test_writes_that_wait_together_are_committed_together(tmp_path: Path) -> None:
    store, build = new_store(tmp_path / "s.db"), Builder()
    await store.open()
    puts = [build.put() for _ in range(100)]
    bad = [build.put("no scope", scope="nowhere"), build.put(puts[0].memory.content)]
    outcomes = await asyncio.gather(
        *(store.apply([put]) for put in (*puts[:50], *bad, *puts[50:])), return_exceptions=True
    )
    refused = [outcome for outcome in outcomes if outcome is not None]
    assert len(refused) == 2
    assert await store.count(Filter()) == 100
    await store.close()


async def test_a_cancelled_write_leaves_the_others(tmp_path: Path) -> None:
    store, build = new_store(tmp_path / "s.db"), Builder()
    await store.open()
    tasks = [asyncio.create_task(store.apply([build.put()])) for _ in range(20)]
    await asyncio.sleep(0)
    tasks[10].cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(outcome is None for outcome in outcomes) == 19
    assert await store.count(Filter()) in (19, 20)
    await store.close()


async def test_a_store_that_is_not_open_says_so(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s.db")
    with pytest.raises(StoreError, match="not open"):
        await store.count(Filter())
    await store.open()
    await store.open()
    await store.close()
    with pytest.raises(StoreError, match="not open"):
        await store.apply([Builder().put()])


async def test_file_and_folder_are_private(tmp_path: Path) -> None:
    path = tmp_path / "home" / "s.db"
    store = new_store(path)
    await store.open()
    await store.apply([Builder().put()])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    path.chmod(0o644)
    assert [finding.name for finding in await store.check() if not finding.healthy] == ["permissions"]
    await store.close()


async def test_another_process_that_holds_the_file(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = new_store(path, busy_timeout_ms=20)
    await store.open()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy, match=r"s\.db"):
        await store.apply([Builder().put()])
    several = Builder("s")
    outcomes = await asyncio.gather(*(store.apply([several.put()]) for _ in range(5)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreBusy] * 5
    other.execute("COMMIT")
    await store.apply([Builder().put()])

    other.execute("BEGIN")
    other.execute("SELECT count(*) FROM memory").fetchone()
    await store.apply([Builder("later").put("later")])
    with pytest.raises(StoreBusy, match="old bytes"):
        await store.scrub(["anything"])
    other.close()
    await store.close()


async def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StoreReadOnly, match=str(tmp_path)):
        await new_store(tmp_path).open()
    (tmp_path / "file").touch()
    with pytest.raises(StoreError):
        await new_store(tmp_path / "file" / "s.db").open()


async def test_text_without_bytes_is_refused(tmp_path: Path) -> None:
    store, build = new_store(tmp_path / "s.db"), Builder()
    await store.open()
    put = build.put("fine")
    broken = build.put("fine too", topic="\ud800")
    with pytest.raises(InvalidInput):
        await store.apply([put, broken])
    with pytest.raises(InvalidInput):
        await store.apply([build.put("odd", metadata={"when": START})])
    assert await store.count(Filter()) == 0
    await store.close()


@pytest.mark.parametrize("writes", [1, 5])
async def test_every_write_is_answered_whatever_fails(tmp_path: Path, writes: int) -> None:
    opened: list[sqlite3.Connection] = []
    database = SqliteDatabase(
        tmp_path / "s.db", busy_timeout_ms=20, readers=1, durability="full", most_pages=None
    )
    await database.open(opened.append)
    opened[0].close()
    outcomes = await asyncio.wait_for(
        asyncio.gather(
            *(database.write(lambda _: None, lasting=False) for _ in range(writes)), return_exceptions=True
        ),
        timeout=60,
    )
    assert [type(outcome) for outcome in outcomes] == [StoreError] * writes
    await database.close()


@pytest.mark.parametrize(
    ("name", "code", "expected"),
    [
        ("SQLITE_BUSY_SNAPSHOT", 517, StoreBusy),
        ("SQLITE_READONLY_DIRECTORY", 1544, StoreReadOnly),
        ("SQLITE_CONSTRAINT_UNIQUE", 2067, Conflict),
        ("SQLITE_CONSTRAINT_NOTNULL", 1299, InvalidInput),
        ("SQLITE_TOOBIG", 18, InvalidInput),
        ("SQLITE_ERROR", 1, StoreError),
    ],
)
def test_errors_are_told_by_their_code(name: str, code: int, expected: type[Exception]) -> None:
    error = sqlite3.OperationalError(name)
    error.sqlite_errorcode = code
    with pytest.raises(expected), translated(Path("s.db")):
        raise error
