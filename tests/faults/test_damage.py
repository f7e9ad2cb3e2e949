"""Files that are not what they should be."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from store_process import Start

from mindhold.model.errors import SchemaTooNew, StoreBusy, StoreDamaged, StoreError, StoreReadOnly
from mindhold.model.query import Filter, Search
from mindhold.ports.store import Connect
from mindhold.stores.sqlite.salvage import diagnose, move_all, rescue, salvage
from mindhold.stores.sqlite.store import SqliteStore
from mindhold.testing.builders import START, Builder, unit

New = Callable[[], SqliteStore]


async def filled(new_store: New, records: int = 400) -> None:
    store = new_store()
    await store.open()
    build = Builder()
    await store.put_scope(build.scope("work"))
    puts = [
        build.put(f"number{n} " + "words " * 60, vector=unit(n, 1), tags=("t",), scope="work")
        for n in range(records)
    ]
    await store.apply(puts)
    await store.apply([Connect(build.link(puts[0].memory, puts[-1].memory))])
    await store.close()


def overwrite(path: Path, *phrases: str) -> None:
    """Destroy the pages on which these phrases stand."""
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    for phrase in phrases:
        assert phrase.encode() in content
        while (place := content.find(phrase.encode())) >= 0:
            start = place // size * size
            content[start : start + size] = b"\xa5" * size
    path.write_bytes(content)


async def test_a_file_that_is_no_database(path: Path, new_store: New) -> None:
    await filled(new_store, 5)
    overwrite(path, "SQLite format 3")
    with pytest.raises(StoreDamaged, match=r"store\.db.*doctor"):
        await new_store().open()
    unreadable, readable = diagnose(path)
    assert not unreadable.healthy
    assert readable.detail == "5 memories can be read"
    saved = path.with_name("saved.db")
    assert salvage(path, saved, now=START) == 5
    with pytest.raises(StoreError, match="exists"):
        salvage(path, saved, now=START)

    path.write_bytes(b"\xa5" * 100_000)
    assert not any(finding.healthy for finding in diagnose(path))
    with pytest.raises(StoreDamaged, match="No memory"):
        salvage(path, path.with_name("nothing.db"), now=START)
    assert not path.with_name("nothing.db").exists()


async def test_rows_are_found_when_the_tree_above_them_is_gone(path: Path, new_store: New) -> None:
    store, build = new_store(), Builder()
    await store.open()
    await store.put_scope(build.scope("work"))
    long = build.put("a long text " * 5_000, scope="work", metadata={"n": 1}, importance=1.0)
    erased = build.put("erased " * 100)
    await store.apply([long, erased, *(build.put(f"number{n} " + "words " * 60) for n in range(500))])
    await store.erase([erased.memory.id])
    expected = [memory async for batch in store.scan(Filter()) for memory in batch]
    await store.close()

    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    inner = [start for start in range(size, len(content), size) if content[start] == 5]
    for start in inner:
        content[start : start + size] = bytes(size)
    path.write_bytes(content)
    assert inner

    saved = path.with_name("saved.db")
    assert salvage(path, saved, now=START) == 501
    rescued = SqliteStore(saved, clock=lambda: START)
    await rescued.open()
    assert [memory async for batch in rescued.scan(Filter()) for memory in batch] == expected
    await rescued.close()


async def test_damaged_pages_are_found_and_the_rest_saved(path: Path, new_store: New) -> None:
    await filled(new_store)
    overwrite(path, "number100 words", "number250 words")
    store = new_store()
    await store.open()
    unhealthy = [finding for finding in await store.check() if not finding.healthy]
    assert unhealthy
    assert all(finding.advice for finding in unhealthy)
    await store.close()

    assert not all(finding.healthy for finding in diagnose(path))
    saved = path.with_name("saved.db")
    number = salvage(path, saved, now=START)
    assert 380 < number < 400
    rescued = SqliteStore(saved, clock=lambda: START)
    await rescued.open()
    assert await rescued.count(Filter()) == number
    assert [finding for finding in await rescued.check() if not finding.healthy] == []
    some = (await rescued.find(Filter(), limit=1))[0]
    found = await rescued.search(Search(Filter(), lexemes=(some.content.split()[0],)))
    assert some.id in found.ids
    await rescued.close()


async def test_the_damaged_file_is_put_aside_and_what_was_saved_in_its_place(
    path: Path, new_store: New
) -> None:
    await filled(new_store)
    overwrite(path, "number100 words")
    damaged = path.read_bytes()
    rescued = rescue(path, now=START)
    assert rescued.aside.suffix == ".db"
    assert rescued.aside.read_bytes() == damaged
    assert {file.name for file in path.parent.iterdir()} == {path.name, rescued.aside.name}
    store = new_store()
    await store.open()
    assert await store.count(Filter()) == rescued.memories
    assert [finding for finding in await store.check() if not finding.healthy] == []
    await store.close()
    with pytest.raises(StoreError, match="exists"):
        rescue(path, now=START)


async def test_nothing_is_moved_while_another_process_has_the_file(
    path: Path, new_store: New, start: Start
) -> None:
    await filled(new_store, 50)
    other = start("other")
    assert other.hear() == {"ready": True}
    assert other.ask("open") == {}
    with pytest.raises(StoreBusy, match="nothing was changed"):
        rescue(path, now=START)
    assert not list(path.parent.glob("*-2*"))
    written = other.ask("write", times=1)["ids"]
    other.end()
    assert rescue(path, now=START).memories == 51
    store = new_store()
    await store.open()
    assert await store.get_many(written, viewer="default")
    await store.close()


async def test_what_can_not_be_finished_leaves_nothing(path: Path, new_store: New) -> None:
    folder = path.with_name("folder.db")
    folder.mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        salvage(folder, path, now=START)
    assert [file.name for file in path.parent.iterdir()] == ["folder.db"]


def test_files_are_moved_all_or_none(tmp_path: Path) -> None:
    database, log = tmp_path / "a.db", tmp_path / "a.db-wal"
    database.write_bytes(b"database")
    log.write_bytes(b"log")
    moves = [(database, tmp_path / "b.db"), (log, tmp_path / "b.db-wal")]
    with pytest.raises(StoreReadOnly, match="missing"):
        move_all([*moves, (tmp_path / "missing", database)])
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {
        "a.db": b"database",
        "a.db-wal": b"log",
    }
    move_all(moves)
    assert {file.name for file in tmp_path.iterdir()} == {"b.db", "b.db-wal"}


async def test_reading_a_damaged_record_names_the_file(path: Path, new_store: New) -> None:
    await filled(new_store)
    overwrite(path, "number100 words")
    store = new_store()
    await store.open()
    with pytest.raises(StoreDamaged, match=r"store\.db"):
        _ = [batch async for batch in store.scan(Filter())]
    await store.close()


async def test_a_sound_file_is_diagnosed_as_sound(path: Path, new_store: New) -> None:
    await filled(new_store, 5)
    assert all(finding.healthy for finding in diagnose(path))
    saved = path.with_name("copy.db")
    assert salvage(path, saved, now=START) == 5
    copy = SqliteStore(saved, clock=lambda: START)
    original = new_store()
    await copy.open()
    await original.open()
    assert await copy.find(Filter()) == await original.find(Filter())
    ids = [memory.id for memory in await copy.find(Filter())]
    assert await copy.links_of(ids, viewer="default") == await original.links_of(ids, viewer="default")
    await copy.close()
    await original.close()


async def test_a_missing_and_an_empty_file(path: Path) -> None:
    assert [finding.healthy for finding in diagnose(path)] == [False]
    path.parent.mkdir()
    path.touch()
    assert [finding.healthy for finding in diagnose(path)] == [True]


async def test_a_newer_schema_is_refused(path: Path, new_store: New) -> None:
    await filled(new_store, 5)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 9999")
    connection.close()
    with pytest.raises(SchemaTooNew, match=r"9999.*Upgrade"):
        await new_store().open()
    assert not all(finding.healthy for finding in diagnose(path))
    before = path.read_bytes()
    with pytest.raises(SchemaTooNew, match="Upgrade"):
        rescue(path, now=START)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == before


async def test_another_programs_database_is_refused(path: Path, new_store: New) -> None:
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    with pytest.raises(StoreError, match="another program"):
        await new_store().open()
    assert not all(finding.healthy for finding in diagnose(path))
