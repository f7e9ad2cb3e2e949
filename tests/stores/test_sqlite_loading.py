"""An index that is loaded from the file finds the same as one that followed every change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mindhold.model.memory import ANY_STATUS, Kind, Status
from mindhold.model.query import Candidates, Filter, Search
from mindhold.stores.sqlite import search
from mindhold.stores.sqlite.store import SqliteStore
from mindhold.testing.builders import MODEL, START, Builder, clustered, position_in, unit

RECORDS = 40
VECTORS = clustered(RECORDS, seed=3)
QUESTIONS = (
    Filter(viewer="system", statuses=ANY_STATUS),
    Filter(viewer="default"),
    Filter(viewer='a, "b"'),
    Filter(viewer="system", scopes=("shop",)),
    Filter(viewer="system", kinds=(Kind.DECISION,)),
    Filter(viewer="system", minimum_trust=0.3),
    Filter(viewer="system", minimum_trust=0.7123456789),
    Filter(viewer="system", since=START.replace(minute=20), until=START.replace(minute=40)),
)


@pytest.fixture(params=(3, 7, 8_192))
def window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_LOADED_TOGETHER", request.param)


def opened(folder: Path) -> SqliteStore:
    return SqliteStore(folder / "s.db", clock=lambda: START)


async def fill(store: SqliteStore) -> None:
    """Records of every kind that the index tells apart, with gaps, without vectors, and of another model's length."""
    build = Builder()
    await store.put_scope(build.scope("shop"))
    puts = [
        build.put(
            f"thing {place}",
            vector=VECTORS[place] if place % 5 else None,
            scope="shop" if place % 3 == 0 else "Global",
            agent='a, "b"' if place % 4 == 0 else "default",
            kind=Kind.DECISION if place % 6 == 0 else Kind.FACT,
            status=Status.ARCHIVED if place % 7 == 0 else Status.ACTIVE,
            trust=(1.0, 0.3, 0.7123456789)[place % 3],
            provenance=position_in('talk, "one"', place),
        )
        for place in range(RECORDS)
    ]
    await store.apply([*puts, build.put("thing of another length", vector=unit(1, dimensions=8))])
    await store.erase([put.memory.id for put in puts[10:25]])


async def answers(store: SqliteStore) -> list[Candidates]:
    return [
        await store.search(Search(where, ("thing", "7"), VECTORS[7], MODEL, pool=6)) for where in QUESTIONS
    ]


@pytest.mark.usefixtures("window")
async def test_a_loaded_index_finds_what_one_that_followed_finds(tmp_path: Path) -> None:
    followed = opened(tmp_path)
    await followed.open()
    await answers(followed)  # loads the empty index, which then follows
    await fill(followed)
    loaded = opened(tmp_path)
    await loaded.open()
    try:
        for one, other in zip(await answers(loaded), await answers(followed), strict=True):
            assert one.ids == other.ids
            assert one.ids
            np.testing.assert_array_equal(one.cosines, other.cosines)
            assert (one.total, one.embedded, one.average_length) == (
                other.total,
                other.embedded,
                other.average_length,
            )
            assert one.cosine_mean == pytest.approx(other.cosine_mean)
    finally:
        await loaded.close()
        await followed.close()


async def test_what_is_nearest_to_no_vector_loads_the_index(tmp_path: Path) -> None:
    writing = opened(tmp_path)
    await writing.open()
    await fill(writing)
    await writing.close()
    store = opened(tmp_path)
    await store.open()
    assert await store.nearest([], model=MODEL, where=QUESTIONS[0], limit=1) == []
    assert (len(store._live.resident), store._live.resident.model) == (RECORDS - 15 + 1, MODEL)
    await store.close()


@pytest.mark.parametrize("most", [400_000, 1])
async def test_a_search_sees_what_changed_since_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """What is held of candidates is read again after a change, and if nothing can be held."""
    monkeypatch.setattr(search, "_MOST_CHARACTERS", most)
    monkeypatch.setattr(search, "_MOST_VECTORS", most)
    monkeypatch.setattr(search, "_MOST_DETAILS", most)
    build = Builder()
    store, other = opened(tmp_path), opened(tmp_path)
    await store.open()
    await other.open()
    try:
        put = build.put("green green boat", vector=unit(1, 0))
        await store.apply([put, build.put("red boat", vector=unit(0, 1))])
        asked = Search(QUESTIONS[0], ("green", "boat"), unit(1, 0), MODEL)

        async def asked_now() -> tuple[list[int], float, int]:
            candidates = await store.search(asked)
            row = candidates.ids.index(put.memory.id)
            counts, cosine = candidates.counts[row].tolist(), round(float(candidates.cosines[row]), 3)
            return counts, cosine, int(candidates.uses[row])

        assert await asked_now() == ([2, 1], 1.0, 0)
        await other.touch([put.memory.id], START)
        assert await asked_now() == ([2, 1], 1.0, 1)
        await other.apply([replace(put, lexemes=["blue", "boat"], vector=unit(0, 1))])
        assert await asked_now() == ([0, 1], 0.0, 1)
        await other.erase([put.memory.id])
        assert put.memory.id not in (await store.search(asked)).ids
    finally:
        await other.close()
        await store.close()
