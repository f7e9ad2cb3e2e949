"""Plans don't depend on when somebody gathered statistics."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from mindhold.stores.sqlite.store import SqliteStore
from mindhold.testing.builders import START, Builder


async def test_upkeep_leaves_no_statistics(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store, build = SqliteStore(path, clock=lambda: START), Builder()
    await store.open()
    await store.apply([build.put(f"fact n{place}") for place in range(4)])
    with sqlite3.connect(path) as connection:
        connection.execute("ANALYZE")
        assert connection.execute("SELECT count(*) FROM sqlite_stat1").fetchone()[0]
    connection.close()
    await store.optimise()
    await store.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_stat1").fetchone() == (0,)
    connection.close()
