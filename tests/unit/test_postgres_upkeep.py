"""What a check finds, what a repair mends, and the index of vectors."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from recollect.model.query import Filter, Search
from recollect.stores.postgres.store import PostgresStore
from recollect.stores.postgres.vector_indexes import name_of
from recollect.testing.builders import DIMENSIONS, MODEL, START, Builder, unit
from recollect.testing.searching import by_text, clustered

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
        ("UPDATE fragments SET embedded_by = NULL", "vectors"),
    ],
)
async def test_what_is_derived_is_made_anew(
    store: PostgresStore, owned_postgres_url: str, damage: str, name: str
) -> None:
    put = Builder().put("findable words", tags=("Tag",), vector=unit(1))
    await store.apply([put])
    execute(owned_postgres_url, damage)
    assert [finding.name for finding in await store.check() if not finding.healthy] == [name]
    assert await store.repair()
    assert all(finding.healthy for finding in await store.check())
    assert (await by_text(store, "findable")).ids == [put.memory.id]
    assert await store.count(Filter(tags=("TAG",))) == 1


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


async def test_facts_name_no_secret(store: PostgresStore, owned_postgres_url: str) -> None:
    facts = await store.facts()
    assert facts.kind == "postgres"
    assert facts.location.startswith(owned_postgres_url.rpartition("/")[2])
    assert "plain_owner" not in repr(facts)
