"""Finding and mending what is derived; making sure that bytes are gone."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from mindhold.model.query import Filter, Search
from mindhold.ports.store import Connect, Keep, Put
from mindhold.stores.sqlite.store import SqliteStore
from mindhold.stores.sqlite.upkeep import occurrences
from mindhold.testing.builders import MODEL, START, Builder, unit


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(path, clock=lambda: START)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def puts(store: SqliteStore) -> list[Put]:
    build = Builder()
    made = [build.put(f"word{n} common", vector=unit(n, 1), tags=("t",), keywords=("k",)) for n in range(5)]
    link, version = build.link(made[0].memory, made[1].memory), build.version(made[0].memory, 1, "old")
    await store.apply([*made, Connect(link), Keep(version)])
    return made


def tamper(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("INSERT INTO lexeme (lexeme) VALUES ('delete-all')", "full text"),
        ("INSERT INTO lexeme (rowid, lexemes) VALUES (77, 'ghost')", "full text"),
        ("INSERT INTO tag (memory, name, folded, place) VALUES (77, 'x', 'x', 0)", "tag rows"),
        ("INSERT INTO keyword (memory, form) VALUES (77, 'x')", "keyword rows"),
        ("INSERT INTO keyword (memory, form) VALUES (1, 'strange')", "keywords"),
        ("DELETE FROM keyword WHERE memory = 2", "keywords"),
        ("UPDATE memory SET keywords = '[]' WHERE row = 3", "keywords"),
        ("INSERT INTO vector (row, model, exact) VALUES (77, 'm', x'00')", "vector rows"),
        ("INSERT INTO vector_code (row, model, code) VALUES (77, 'm', x'00')", "vector_code rows"),
        ("INSERT INTO link VALUES (1, 77, 'related', 0, 1.0, 0)", "link rows"),
        ("DELETE FROM vector_code WHERE row = 1", "vectors"),
        ("UPDATE vector_code SET model = 'other' WHERE row = 1", "vectors"),
        ("DELETE FROM vector WHERE row = 2", "vectors"),
        ("UPDATE memory SET embedded_by = NULL WHERE row = 3", "vectors"),
    ],
)
async def test_what_is_derived_is_found_wrong_and_mended(
    store: SqliteStore, puts: list[Put], path: Path, statement: str, finding: str
) -> None:
    tamper(path, statement)
    unhealthy = [each for each in await store.check() if not each.healthy]
    assert finding in {each.name for each in unhealthy}
    assert all("--repair" in each.advice for each in unhealthy)
    await store.repair()
    assert [each for each in await store.check() if not each.healthy] == []
    found = await store.search(Search(Filter(), lexemes=("word1",), vector=unit(1, 1), model=MODEL))
    assert puts[1].memory.id in found.ids
    assert await store.count(Filter()) == 5


async def test_an_index_that_lost_rows_is_made_anew(store: SqliteStore, puts: list[Put], path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        (schema,) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'memory_time'").fetchone()
        narrowed = f"{schema} WHERE row > 3"
        connection.execute("PRAGMA writable_schema = on")
        connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'memory_time'", (narrowed,))
        connection.commit()
    tamper(path, "REINDEX memory_time")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema = on")
        connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'memory_time'", (schema,))
        connection.commit()
        version = connection.execute("PRAGMA schema_version").fetchone()[0]
        connection.execute(f"PRAGMA schema_version = {version + 1}")
    assert "file" in {each.name for each in await store.check() if not each.healthy}
    await store.repair()
    assert [each for each in await store.check() if not each.healthy] == []
    assert await store.count(Filter()) == 5


def test_a_phrase_across_chunks_is_counted_once(tmp_path: Path) -> None:
    file = tmp_path / "bytes"
    file.write_bytes(b"a needle here, needleneedle there, no needl" + b"e")
    for chunk_size in range(1, 60):
        assert occurrences(file, [b"needle"], chunk_size=chunk_size) == 4
    assert occurrences(file, [b"needle", b"there"]) == 5
    assert occurrences(tmp_path / "missing", [b"needle"]) == 0


async def test_a_decomposed_phrase_is_looked_for_composed(store: SqliteStore) -> None:
    await store.apply([Builder().put("Z\u00fcrich")])
    assert (await store.scrub(["Zu\u0308rich"])).remaining["database"] == 1
    assert set((await store.scrub()).remaining.values()) == {0}


async def test_words_of_erased_records_leave_the_index(store: SqliteStore, puts: list[Put]) -> None:
    build = Builder("x")
    secret = build.put("xylophonesecret common")
    await store.apply([secret, Keep(build.version(secret.memory, 1, "xylophonesecret before"))])
    receipt = await store.erase([secret.memory.id])
    assert receipt.removed["text"] == 1
    assert receipt.remaining["text"] == 0
    assert set((await store.scrub(["xylophonesecret", secret.memory.id])).remaining.values()) == {0}


async def test_an_id_in_free_text_is_told(store: SqliteStore) -> None:
    build = Builder()
    gone = build.put("gone")
    await store.apply([gone, build.put(f"see {gone.memory.id}", metadata={"part": gone.memory.id, "n": 1})])
    receipt = await store.erase([gone.memory.id])
    assert receipt.remaining["mentions"] == 1
    (left,) = await store.find(Filter())
    assert left.metadata == {"n": 1}
