"""What a check finds, what a repair mends, and the index of vectors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import psycopg
import pytest

from mindhold.model.errors import InvalidInput, StoreBusy
from mindhold.model.lexemes import keyword_forms
from mindhold.model.query import Filter, Order, Search
from mindhold.stores.postgres.store import PostgresStore
from mindhold.stores.postgres.upkeep import name_of
from mindhold.testing.builders import DIMENSIONS, MODEL, START, Builder, by_text, clustered, unit

WHOLE = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('agent_memory.{name}')"


@pytest.fixture
async def store(owned_postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(owned_postgres_url, clock=lambda: START, exact_up_to=50)
    await store.open()
    yield store
    await store.close()


def execute(url: str, *statements: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET app.current_agent_id = 'system'; SET search_path TO agent_memory, public")
        rows: list[tuple[object, ...]] = []
        for statement in statements:
            cursor = connection.execute(statement.encode())
            rows = cursor.fetchall() if cursor.description else []
        return rows


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        ("DELETE FROM fragment_lexemes WHERE row = 1", "full text"),
        ("UPDATE fragment_lexemes SET lexemes = ''::tsvector", "full text"),
        ("DELETE FROM fragment_tags", "tags"),
        ("DELETE FROM fragment_keywords", "keywords"),
        ("UPDATE fragment_keywords SET forms = '{other}'", "keywords"),
        ("DELETE FROM fragment_standing", "standing"),
        ("UPDATE fragment_standing SET review_at = NULL", "standing"),
        ("UPDATE fragment_standing SET ttl_tier = 'cold', importance = 1", "standing"),
        ("UPDATE fragments SET embedded_by = NULL", "stored vectors"),
    ],
)
async def test_what_is_derived_is_made_anew(
    store: PostgresStore, owned_postgres_url: str, damage: str, name: str
) -> None:
    put = Builder().put("findable words", tags=("Tag",), vector=unit(1), keywords=("Words",), review=START)
    await store.apply([put])
    execute(owned_postgres_url, damage)
    assert [finding.name for finding in await store.check() if not finding.healthy] == [name]
    assert await store.repair()
    assert all(finding.healthy for finding in await store.check())
    assert (await by_text(store, "findable")).ids == [put.memory.id]
    assert await store.count(Filter(tags=("TAG",))) == 1
    assert await store.count(Filter(keywords=keyword_forms(["words"]))) == 1
    assert await store.count(Filter(due=START, tiers=(put.memory.tier,))) == 1
    assert [one.id for one in await store.find(Filter(), order=Order.IMPORTANT)] == [put.memory.id]


async def test_row_security_that_is_off_is_found(store: PostgresStore, owned_postgres_url: str) -> None:
    execute(owned_postgres_url, "ALTER TABLE fragment_links NO FORCE ROW LEVEL SECURITY")
    (finding,) = [one for one in await store.check() if not one.healthy]
    assert "fragment_links" in finding.detail
    execute(owned_postgres_url, finding.advice)
    assert all(one.healthy for one in await store.check())


async def test_an_edit_by_hand_is_found_by_its_words(store: PostgresStore, owned_postgres_url: str) -> None:
    put = Builder().put("before")
    await store.apply([put])
    execute(owned_postgres_url, "UPDATE fragments SET lexemes = 'after that', length = 2")
    assert (await by_text(store, "after")).ids == [put.memory.id]
    assert (await by_text(store, "before")).ids == []


async def test_another_date_of_review_by_hand_is_kept_to(
    store: PostgresStore, owned_postgres_url: str
) -> None:
    put = Builder().put()
    await store.apply([put])
    assert await store.find(Filter(due=START), order=Order.DUE) == []
    execute(owned_postgres_url, f"UPDATE fragments SET review_at = '{START.isoformat()}'")
    assert await store.find(Filter(due=START), order=Order.DUE) == [replace(put.memory, review=START)]
    execute(owned_postgres_url, "UPDATE fragments SET review_at = NULL")
    assert await store.find(Filter(due=START), order=Order.DUE) == []
    assert all(finding.healthy for finding in await store.check())


async def test_a_keyword_longer_than_an_index_takes(store: PostgresStore) -> None:
    long = " ".join(f"part{number}" for number in range(300))
    put = Builder().put(keywords=("short", long))
    await store.apply([put])
    assert await store.find(Filter(keywords=keyword_forms([long, "short"]))) == [put.memory]
    assert all(finding.healthy for finding in await store.check())


async def test_an_index_is_built_for_a_models_vectors_once_they_are_many(
    store: PostgresStore, owned_postgres_url: str
) -> None:
    build = Builder()
    query = WHOLE.format(name=name_of((MODEL, DIMENSIONS)))
    await store.apply([build.put(vector=vector) for vector in clustered(40, seed=1)])
    await store.optimise()
    assert execute(owned_postgres_url, query) == []
    await store.apply([build.put(vector=vector) for vector in clustered(40, seed=2)])
    await store.optimise()
    assert execute(owned_postgres_url, query) == [(True,)]
    last = build.put(vector=unit(1, 2, 3))
    await store.apply([last])
    found = await store.search(Search(Filter(), (), unit(1, 2, 3), MODEL, pool=5))
    assert not found.exact
    assert last.memory.id in found.ids


async def test_an_index_that_was_left_unfinished_is_built_anew(
    store: PostgresStore, owned_postgres_url: str
) -> None:
    build = Builder()
    await store.apply([build.put(vector=vector) for vector in clustered(80, seed=1)])
    name = name_of((MODEL, DIMENSIONS))
    with pytest.raises(psycopg.errors.UniqueViolation):
        execute(owned_postgres_url, f"CREATE UNIQUE INDEX CONCURRENTLY {name} ON fragments (type)")
    assert execute(owned_postgres_url, WHOLE.format(name=name)) == [(False,)]
    assert [one.name for one in await store.check() if not one.healthy] == ["indexes"]
    await store.optimise()
    assert execute(owned_postgres_url, WHOLE.format(name=name)) == [(True,)]
    assert execute(
        owned_postgres_url, f"SELECT indexdef LIKE '%hnsw%' FROM pg_indexes WHERE indexname = '{name}'"
    ) == [(True,)]


async def test_a_model_of_another_dimension_has_an_index_of_its_own(store: PostgresStore) -> None:
    build = Builder()
    await store.apply([build.put(vector=vector) for vector in clustered(80, seed=1)])
    wide = [build.put(vector=unit(1, number, dimensions=64), embedded_by="wide") for number in range(80)]
    await store.apply(wide)
    await store.optimise()
    for model, vector in ((MODEL, unit(1)), ("wide", unit(1, dimensions=64))):
        found = await store.search(Search(Filter(), (), vector, model, pool=5))
        assert len(found.ids) == 5
        assert found.embedded == 80


async def test_vectors_of_two_dimensions_have_no_index_but_other_models_have(
    store: PostgresStore, owned_postgres_url: str
) -> None:
    build = Builder()
    await store.apply([build.put(vector=unit(1, one), embedded_by="mixed") for one in range(40)])
    await store.apply(
        [build.put(vector=unit(1, one, dimensions=64), embedded_by="mixed") for one in range(40)]
    )
    await store.apply([build.put(vector=vector) for vector in clustered(80, seed=1)])
    await store.optimise()
    assert execute(owned_postgres_url, WHOLE.format(name=name_of((MODEL, DIMENSIONS)))) == [(True,)]
    assert all(finding.healthy for finding in await store.check())
    for dimensions in (DIMENSIONS, 64):
        await store.apply([build.put(vector=unit(1, 50, dimensions=dimensions), embedded_by="mixed")])
        search = Search(Filter(), (), unit(1, dimensions=dimensions), "mixed", pool=5)
        assert len((await store.search(search)).ids) == 5


async def test_a_vector_without_numbers_is_refused(store: PostgresStore) -> None:
    empty = np.empty(0, np.float32)
    with pytest.raises(InvalidInput):
        await store.apply([Builder().put(vector=empty)])
    with pytest.raises(InvalidInput):
        await store.search(Search(Filter(), (), empty, MODEL))


@pytest.mark.parametrize("alike", [True, False])
async def test_erasing_finds_what_names_few_or_many_ids(store: PostgresStore, alike: bool) -> None:
    build = Builder()
    drawn = [build.put() for _ in range(26)]
    names = [f"{'same-beginning' if alike else chr(97 + number)}{number}_%" for number in range(26)]
    puts = [replace(put, memory=replace(put.memory, id=name)) for name, put in zip(names, drawn, strict=True)]
    naming = build.put(metadata={"about": names})
    await store.apply([*puts, naming])
    assert (await store.erase([])).ids == ()
    for some in (names[:3], names[3:]):
        receipt = await store.erase(some)
        assert receipt.ids == tuple(some)
        assert receipt.removed["references"] == 1
        assert not any(receipt.remaining.values())
    left = await store.get(naming.memory.id, viewer="default")
    assert left is not None
    assert not left.metadata


async def test_an_erasure_that_nobody_could_look_at_again_says_that_it_was_made(
    store: PostgresStore, owned_postgres_url: str
) -> None:
    put = Builder().put()
    await store.apply([put])
    execute(
        owned_postgres_url,
        "CREATE FUNCTION refuse() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE SQLSTATE '57014'; END $$",
        "ALTER TABLE scope ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
        "CREATE POLICY refusing ON scope USING (refuse())",
    )
    with pytest.raises(StoreBusy, match="1 records are erased"):
        await store.erase([put.memory.id])
    execute(
        owned_postgres_url, "DROP POLICY refusing ON scope", "ALTER TABLE scope DISABLE ROW LEVEL SECURITY"
    )
    assert await store.count(Filter()) == 0


async def test_facts_name_no_secret(store: PostgresStore, owned_postgres_url: str) -> None:
    facts = await store.facts()
    assert facts.kind == "postgres"
    assert facts.location.startswith(owned_postgres_url.rpartition("/")[2])
    assert "plain_owner" not in repr(facts)
