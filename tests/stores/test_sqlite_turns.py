"""Messages of a log are counted and listed by their own index: nothing is sorted for it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from mindhold.model.memory import Kind, Provenance
from mindhold.model.query import Filter, Order
from mindhold.stores.sqlite.rows import matching
from mindhold.stores.sqlite.store import SqliteStore
from mindhold.testing.builders import START, Builder

RECORDS = 500
LOG = Filter(scopes=("shop",), turns=True, minimum_trust=0.5)


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    store, build = SqliteStore(path, clock=lambda: START), Builder()
    await store.open()
    await store.put_scope(build.scope("shop"))
    await store.apply(
        [
            build.put(
                f"said n{place}",
                kind=Kind.EPISODE,
                scope="shop" if place % 3 else "Global",
                provenance=Provenance(dialect="project", conversation="talk", position=place),
            )
            for place in range(RECORDS)
        ]
    )
    await store.optimise()
    assert len(await store.find(LOG, order=Order.OLDEST, limit=RECORDS)) == RECORDS - RECORDS // 3 - 1
    await store.close()
    return path


def plan(file: Path, statement: str, where: Filter, *, walked: str = "", order: str = "") -> str:
    condition = matching(where, walked=walked)
    connection = sqlite3.connect(file)
    try:
        rows = connection.execute(
            f"EXPLAIN QUERY PLAN {statement} FROM memory WHERE {condition.sql} {order}", condition.parameters
        )
        return " / ".join(row[3] for row in rows)
    finally:
        connection.close()


def test_counted_by_the_index(file: Path) -> None:
    assert "USING INDEX memory_turn" in plan(file, "SELECT count(*)", LOG)
    assert "USING INDEX memory_turn" in plan(
        file, "SELECT coalesce(memory.embedded_by, ''), count(*)", LOG, order="GROUP BY 1"
    )


@pytest.mark.parametrize("direction", ["ASC", "DESC"])
def test_listed_in_its_order(file: Path, direction: str) -> None:
    order = f"ORDER BY memory.occurred {direction}, memory.id {direction} LIMIT 5"
    found = plan(file, "SELECT memory.row", LOG, walked="occurred", order=order)
    assert "USING INDEX memory_turn" in found
    assert "TEMP B-TREE" not in found
