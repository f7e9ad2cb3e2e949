"""Plans and estimates at 20,000 records, as an agent: indexes are used in spite of row security, and no hit is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from mindhold.model.lexemes import keyword_forms
from mindhold.model.memory import Tier
from mindhold.model.query import Filter, Order, Search
from mindhold.stores.postgres import search_queries
from mindhold.stores.postgres.driver import quoted
from mindhold.stores.postgres.records import listing
from mindhold.stores.postgres.rows import matching
from mindhold.stores.postgres.store import PostgresStore
from mindhold.testing.builders import MODEL, START, Builder, clustered, unit
from support.postgres_server import PostgresServer

Explain = Callable[[str, Any], str]

RECORDS = 20_000


async def fill(url: str) -> None:
    store = PostgresStore(url, clock=lambda: START, exact_up_to=1_000)
    await store.open()
    build, draw = Builder(), np.random.default_rng(1)
    vectors = clustered(RECORDS, seed=1)
    words = [f"w{number}" for number in range(400)]
    for start in range(0, RECORDS, 2_000):
        await store.apply(
            [
                build.put(
                    f"n{place} the " + " ".join(draw.choice(words, 8)),
                    vector=vectors[place],
                    agent="rare" if place % 50 == 0 else "ada",
                    tags=("special",) if place % 500 == 0 else (f"t{place % 50}",),
                    keywords=("everywhere", f"k{place % 2_000}", f"parity {place % 2}"),
                    review=START + timedelta(minutes=place),
                    verified=None if place % 500 == 7 else START,
                    examined=None if place % 500 == 7 else START,
                )
                for place in range(start, start + 2_000)
            ]
        )
    await store.optimise()
    await store.close()


@pytest.fixture(scope="module")
def url(postgres_server: PostgresServer) -> Iterator[str]:
    address = postgres_server.create_database("plans", template="with_vectors")
    asyncio.run(fill(address))
    yield address
    postgres_server.drop_database("plans")


@pytest.fixture
def opened(url: str) -> Callable[..., PostgresStore]:
    return lambda exact_up_to=1_000: PostgresStore(url, clock=lambda: START, exact_up_to=exact_up_to)


@pytest.fixture
async def many(opened: Callable[..., PostgresStore]) -> AsyncIterator[PostgresStore]:
    store = opened()
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def explain(many: PostgresStore) -> Iterator[Explain]:
    with many._session.connect() as connection:
        connection.execute("SET app.current_agent_id = 'ada'")

        def plan(statement: str, values: Any) -> str:
            return "\n".join(row[0] for row in connection.execute(f"EXPLAIN {statement}", values).fetchall())

        yield plan


def test_words_are_found_by_the_index(explain: Explain) -> None:
    plan = explain(search_queries.POSTINGS, ([quoted("w7"), quoted("n77")], [100, 100]))
    assert "fragment_lexemes_text" in plan
    assert "Seq Scan" not in plan


def test_vectors_are_found_by_the_index(explain: Explain) -> None:
    where = matching(Filter(viewer="ada"))
    statement = search_queries.NEAREST.format(where=where.sql, model=f"'{MODEL}'", dimensions=32, limit=10)
    plan = explain(statement, (*where.parameters, search_queries.VectorQuery.of(unit(1), MODEL).text))
    assert "Index Scan using fragments_embedding_" in plan


@pytest.mark.parametrize(
    ("where", "index"),
    [
        (Filter(viewer="ada", ids=("m00000077",)), "fragments_id_key"),
        (Filter(viewer="ada", tags=("Special",)), "fragment_tags_folded"),
        (Filter(viewer="rare", agents=("rare",)), "fragments_agent"),
        (Filter(viewer="ada", until=START), "fragments_time"),
        (Filter(viewer="ada", conversation="talk", positions=(1, 3)), "fragments_conversation"),
        (Filter(viewer="ada", anchored=True), "fragments_anchor"),
        (Filter(viewer="ada", topic="sailing"), "fragments_topic"),
        (Filter(viewer="ada", keywords=("k7",)), "fragment_keywords_forms"),
        (Filter(viewer="ada", keywords=("k7", "everywhere")), "fragment_keywords_forms"),
        (Filter(viewer="rare", keywords=("k7", "k8"), keywords_any=True), "fragment_keywords_forms"),
        (Filter(viewer="ada", due=START + timedelta(hours=1)), "fragment_standing_due"),
        (Filter(viewer="ada", tiers=(Tier.COLD,)), "fragment_standing_tier"),
        (Filter(viewer="ada", unverified=True), "verified"),  # either of two
        (Filter(viewer="ada", unexamined=True), "fragments_unexamined"),
        (Filter(viewer="ada", turns=True, scopes=("Global",)), "fragments_turn"),
    ],
)
def test_filters_use_theirs(explain: Explain, where: Filter, index: str) -> None:
    condition = matching(where)
    plan = explain(f"SELECT content FROM fragments WHERE {condition.sql}", condition.parameters)
    assert index in plan


async def test_the_newest_are_not_sorted_out_of_all(explain: Explain) -> None:
    condition = matching(Filter(viewer="ada"))
    order = "ORDER BY fragments.occurred_at DESC, fragments.id DESC LIMIT 50"
    plan = explain(f"SELECT content FROM fragments WHERE {condition.sql} {order}", condition.parameters)
    assert "Index Scan Backward using fragments_time" in plan
    assert "Sort" not in plan


@pytest.mark.parametrize("limit", [1, 500])
@pytest.mark.parametrize("days", [1, 1_000])
def test_what_is_due_is_not_sorted_out_of_all(explain: Explain, days: int, limit: int) -> None:
    for viewer in ("ada", "system"):
        where = Filter(viewer=viewer, due=START + timedelta(days=days))
        source, condition = listing(where, Order.DUE, mark=(START, "m"), limit=limit)
        plan = explain(f"SELECT content FROM {source} WHERE {condition.sql}", condition.parameters)
        assert "Scan using fragment_standing_due" in plan
        assert "Sort" not in plan
        assert "Seq Scan" not in plan


def test_the_most_important_are_not_sorted_out_of_all(explain: Explain) -> None:
    source, condition = listing(Filter(viewer="ada"), Order.IMPORTANT, mark=None, limit=50)
    plan = explain(f"SELECT content FROM {source} WHERE {condition.sql}", condition.parameters)
    assert "Scan using fragment_standing_importance" in plan
    assert "Sort" not in plan


def test_the_oldest_that_wait_are_not_sorted_out_of_all(explain: Explain) -> None:
    where = Filter(viewer="system", unexamined=True)
    source, condition = listing(where, Order.OLDEST, mark=None, limit=50)
    plan = explain(f"SELECT content FROM {source} WHERE {condition.sql}", condition.parameters)
    assert "Index Scan using fragments_unexamined" in plan
    assert "Sort" not in plan


async def test_keywords_find_all_that_have_them(many: PostgresStore) -> None:
    def seen(*keywords: str, any_of: bool = False) -> Filter:
        return Filter(viewer="ada", agents=("ada",), keywords=keyword_forms(keywords), keywords_any=any_of)

    assert await many.count(seen("k7")) == 10
    assert await many.count(seen("k7", "parity 1")) == 10
    assert await many.count(seen("k7", "parity 0")) == 0
    assert await many.count(seen("parity 0", "parity 1", any_of=True)) == 19_600
    found = await many.search(Search(seen("k7"), ("the",), unit(1), MODEL, pool=20))
    assert (len(found.ids), found.total, found.exact) == (10, 10, True)


def test_the_graph_is_built_as_the_contract_says(explain: Explain, many: PostgresStore) -> None:
    with many._session.connect() as connection:
        found = connection.execute(
            "SELECT indexdef FROM pg_indexes WHERE indexname LIKE 'fragments_embedding_%'"
        ).fetchall()
    assert len(found) == 1
    for part in (
        "USING hnsw",
        "halfvec(32)",
        "halfvec_cosine_ops",
        "m='16'",
        "ef_construction='64'",
        "IS NOT NULL",
    ):
        assert part in found[0][0]


@pytest.mark.parametrize("exact_up_to", [100, 1_000])
async def test_a_tenant_of_two_in_a_hundred_loses_no_hit(
    opened: Callable[..., PostgresStore], exact_up_to: int
) -> None:
    store = opened(exact_up_to)
    await store.open()
    where = Filter(viewer="rare", agents=("rare",))
    for query in clustered(10, seed=9):
        found = await store.search(Search(where, (), query, MODEL, pool=10))
        assert len(found.ids) == 10
        assert found.total == 400
        assert found.exact == (exact_up_to > 400)
        (near,) = await store.nearest([query], model=MODEL, where=where, limit=10)
        assert len(near) == 10
    await store.close()


async def test_estimates_are_about_right(many: PostgresStore, opened: Callable[..., PostgresStore]) -> None:
    query = unit(*(clustered(RECORDS, seed=1)[123] + 0.05 * clustered(1, seed=11)[0]))
    found = await many.search(Search(Filter(viewer="ada"), ("w7", "the", "n78", "nowhere"), query, MODEL))
    assert not found.exact
    assert found.total == 19_600
    assert found.embedded == 19_600
    assert found.average_length == pytest.approx(10, abs=0.2)
    assert found.frequencies["the"] == pytest.approx(19_600, rel=0.02)
    assert found.frequencies["w7"] == pytest.approx(400, rel=0.3)
    assert found.frequencies["n78"] == 1
    assert found.frequencies["nowhere"] == 0
    exact = opened(50_000)
    await exact.open()
    sure = await exact.search(Search(Filter(viewer="ada"), ("w7", "the", "n78"), query, MODEL))
    await exact.close()
    assert sure.exact
    assert found.cosine_mean == pytest.approx(sure.cosine_mean, abs=0.03)
    assert found.cosine_deviation == pytest.approx(sure.cosine_deviation, abs=0.03)
    best = np.argsort(-sure.cosines)[:10]
    missed = {sure.ids[place] for place in best} - set(found.ids)
    assert len(missed) <= 1
    assert "m00000079" in found.ids  # the one with the rare word


async def test_pairs_of_common_words_choose_too(many: PostgresStore) -> None:
    build = Builder("pair")
    both = replace(build.put("together"), lexemes=["w1", "w2", "the", "common", "other"])
    await many.apply([both])
    found = await many.search(Search(Filter(viewer="ada"), ("w1", "w2"), pool=20))
    assert both.memory.id in found.ids
    assert (found.counts > 0).any(axis=1).all()
    await many.erase([both.memory.id])
