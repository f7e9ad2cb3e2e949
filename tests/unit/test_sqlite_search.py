"""Full text in a store so large that common words are not looked up in full: tried with a small one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mindhold.model.query import Filter, Search
from mindhold.stores.sqlite.store import SqliteStore
from mindhold.testing.builders import START, Builder

DRIVING = 20


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "s.db", clock=lambda: START, driving=DRIVING)
    await opened.open()
    yield opened
    await opened.close()


async def test_common_words_choose_candidates_where_rare_ones_find_few(store: SqliteStore) -> None:
    build = Builder()
    await store.apply([build.put(f"python p{n}") for n in range(100)])
    both = [build.put(f"python error e{n}") for n in range(30)]
    rare = build.put("a timeout alone")
    await store.apply([*both, rare])
    found = await store.search(Search(Filter(), ("python", "error", "timeout"), pool=31, neighbours=False))
    assert set(found.ids) == {put.memory.id for put in (*both, rare)}
    assert dict(found.frequencies) == {"python": 130, "error": 30, "timeout": 1}


async def test_one_record_found_by_two_rare_words_is_one_candidate(store: SqliteStore) -> None:
    build = Builder()
    await store.apply([build.put(f"python p{n}") for n in range(100)])
    rare = [build.put(f"timeout socket t{n}") for n in range(3)]
    await store.apply(rare)
    found = await store.search(Search(Filter(), ("python", "timeout", "socket"), pool=5, neighbours=False))
    assert len(found.ids) == 5
    assert {put.memory.id for put in rare} <= set(found.ids)


async def test_rare_words_choose_alone_where_they_find_enough(store: SqliteStore) -> None:
    build = Builder()
    rare = [build.put(f"python timeout t{n}") for n in range(10)]
    await store.apply([*(build.put(f"python p{n}") for n in range(90)), *rare])
    found = await store.search(Search(Filter(), ("python", "timeout"), pool=10, neighbours=False))
    assert set(found.ids) == {put.memory.id for put in rare}
    assert found.counts.tolist() == [[1, 1]] * 10
    assert dict(found.frequencies) == {"python": 100, "timeout": 10}  # the first is told by its share


async def test_how_common_a_word_is_counts_within_the_filter(store: SqliteStore) -> None:
    build = Builder()
    await store.put_scope(build.scope("young"))
    await store.apply([build.put("else", scope="young"), *(build.put(f"python p{n}") for n in range(100))])
    young = [build.put(f"python timeout t{n}", scope="young") for n in range(10)]
    await store.apply([*young, *(build.put(f"else e{n}", scope="young") for n in range(30))])
    question = Search(Filter(scopes=("young",)), ("python", "timeout"), pool=10, neighbours=False)
    for _ in range(2):  # what was read for the first answer changes nothing about the second
        found = await store.search(question)
        assert dict(found.frequencies) == {"python": 10, "timeout": 10}
        assert set(found.ids) == {put.memory.id for put in young}


async def test_a_word_that_was_not_met_within_the_filter_yet_is_no_impossible_one(
    store: SqliteStore,
) -> None:
    build = Builder()
    await store.put_scope(build.scope("mixed"))
    await store.apply([build.put(f"else timeout e{n}", scope="mixed") for n in range(12)])
    await store.apply([build.put(f"python p{n}") for n in range(60)])
    await store.apply([build.put(f"python late l{n}", scope="mixed") for n in range(3)])
    question = Search(Filter(scopes=("mixed",)), ("python", "timeout"), pool=10, neighbours=False)
    found = await store.search(question)
    assert found.frequencies["timeout"] == 12
    assert 1 <= found.frequencies["python"] <= 15


async def test_the_answer_is_the_same_when_the_words_are_known(store: SqliteStore) -> None:
    build = Builder()
    await store.apply([build.put(f"python{' timeout' * (n % 3 == 0)} p{n}") for n in range(45)])
    await store.apply([build.put(f"else e{n}") for n in range(20)])
    question = Search(Filter(), ("python", "timeout"), pool=10, neighbours=False)
    before = await store.search(question)
    whole = await store.search(Search(Filter(), ("python",), pool=10))
    assert whole.frequencies["python"] == 45
    after = await store.search(question)
    assert (after.ids, dict(after.frequencies)) == (before.ids, dict(before.frequencies))
