"""Making and migrating the schema, also by many at once, and what the server offers beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import psycopg
import pytest

from mindhold.model.errors import InvalidInput, SchemaTooNew, SettingsError
from mindhold.model.job import Entry
from mindhold.model.memory import Tier
from mindhold.model.query import Filter, Search
from mindhold.ports.store import Capability, Connect, Rate, Tend
from mindhold.stores.postgres.driver import array_text, escaped, unescaped, vector_text
from mindhold.stores.postgres.schema import latest
from mindhold.stores.postgres.store import PostgresStore
from mindhold.testing.builders import MODEL, START, Builder, unit
from support.postgres_server import PostgresServer


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(postgres_url, clock=lambda: START)
    await store.open()
    yield store
    await store.close()


def asked(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET app.current_agent_id = 'system'; SET search_path TO public, agent_memory")
        cursor = connection.execute(query.encode())
        return cursor.fetchall() if cursor.description else []


@pytest.mark.parametrize("fixture", ["postgres_url", "owned_postgres_url", "plain_postgres_url"])
async def test_many_open_a_new_database_at_once(request: pytest.FixtureRequest, fixture: str) -> None:
    url = request.getfixturevalue(fixture)
    stores = [PostgresStore(url, clock=lambda: START) for _ in range(8)]
    await asyncio.gather(*(store.open() for store in stores))
    assert {(await store.facts()).schema_version for store in stores} == {latest()}
    assert len({store.capabilities for store in stores}) == 1
    await asyncio.gather(*(store.close() for store in stores))


async def test_a_newer_schema_is_left_alone(store: PostgresStore, postgres_url: str) -> None:
    asked(postgres_url, f"INSERT INTO agent_memory.schema_version VALUES ({latest() + 1}, now())")
    with pytest.raises(SchemaTooNew, match=str(latest() + 1)):
        await PostgresStore(postgres_url, clock=lambda: START).open()


async def test_other_tables_of_the_database_are_left_alone(postgres_url: str) -> None:
    asked(postgres_url, "CREATE TABLE fragments (mine text); INSERT INTO fragments VALUES ('stays')")
    store = PostgresStore(postgres_url, clock=lambda: START)
    await store.open()
    await store.apply([Builder().put()])
    await store.close()
    assert asked(postgres_url, "SELECT * FROM public.fragments") == [("stays",)]


async def test_vectors_that_come_later_are_used_from_the_next_opening_on(
    postgres_server: PostgresServer, plain_postgres_url: str
) -> None:
    build = Builder()
    put = build.put("without a vector at first", vector=unit(1))
    store = PostgresStore(plain_postgres_url, clock=lambda: START)
    await store.open()
    await store.apply([put])
    assert Capability.VECTORS not in store.capabilities
    assert await store.unembedded(MODEL, limit=9) == []
    assert await store.put_vectors({put.memory.id: (put.memory.content_hash, unit(1))}, model=MODEL) == 0
    lacking = (await store.facts()).without_vectors
    assert "not in this database" in lacking
    assert "CREATE EXTENSION" in lacking
    await store.close()
    name = plain_postgres_url.rpartition("/")[2]
    postgres_server.execute("CREATE EXTENSION vector", database=name)
    await store.open()
    assert Capability.VECTORS in store.capabilities
    assert [memory.id for memory in await store.unembedded(MODEL, limit=9)] == [put.memory.id]
    assert await store.put_vectors({put.memory.id: (put.memory.content_hash, unit(1))}, model=MODEL) == 1
    found = await store.search(Search(Filter(), (), unit(1), MODEL))
    assert found.ids == [put.memory.id]
    assert (await store.facts()).without_vectors == ""
    await store.close()


async def test_an_old_extension_is_to_be_updated(postgres_url: str) -> None:
    asked(postgres_url, "UPDATE pg_extension SET extversion = '0.5.1' WHERE extname = 'vector' RETURNING 1")
    store = PostgresStore(postgres_url, clock=lambda: START)
    await store.open()
    lacking = (await store.facts()).without_vectors
    await store.close()
    assert "0.5.1 is too old" in lacking
    assert "ALTER EXTENSION vector UPDATE" in lacking


async def test_the_extension_may_be_anywhere(
    postgres_server: PostgresServer, plain_postgres_url: str
) -> None:
    name = plain_postgres_url.rpartition("/")[2]
    postgres_server.execute(
        'CREATE SCHEMA "Ext ensions"',
        'GRANT USAGE ON SCHEMA "Ext ensions" TO PUBLIC',
        'CREATE EXTENSION vector SCHEMA "Ext ensions"',
        database=name,
    )
    store = PostgresStore(plain_postgres_url, clock=lambda: START)
    await store.open()
    put = Builder().put("meant", vector=unit(1))
    await store.apply([put])
    assert (await store.search(Search(Filter(), (), unit(1), MODEL))).ids == [put.memory.id]
    await store.close()


async def test_the_tables_have_the_names_that_people_know(store: PostgresStore, postgres_url: str) -> None:
    build = Builder()
    one, two = build.put("one", keywords=("kafka",)), build.put("two")
    await store.apply([one, two, Connect(build.link(one.memory, two.memory))])
    values = {
        "tool": "recall",
        "relevant": True,
        "sufficient": False,
        "suggestion": "more",
        "context": "c",
        "conversation": "talk",
        "trigger": "voluntary",
        "agent": "ada",
    }
    await store.put_entry(Entry("tool_feedback", "k", values, START))
    effect = {
        "success": True,
        "highlights": ["a", "b"],
        "pain_points": [],
        "conversation": "talk",
        "agent": "ada",
    }
    await store.put_entry(Entry("task_feedback", "k", effect, START))
    linked = "SELECT f.linked_to FROM agent_memory.fragments AS f WHERE keywords && ARRAY['kafka']"
    assert asked(postgres_url, linked) == [([two.memory.id],)]
    feedback = (
        "SELECT tool_name, relevant, sufficient, session_id, trigger_type FROM agent_memory.tool_feedback"
    )
    assert asked(postgres_url, feedback) == [("recall", True, False, "talk", "voluntary")]
    effects = "SELECT overall_success, tool_highlights, tool_pain_points FROM agent_memory.task_feedback"
    assert asked(postgres_url, effects) == [(True, ["a", "b"], [])]


async def test_counting_touches_no_index_of_the_records(store: PostgresStore, postgres_url: str) -> None:
    puts = [Builder(f"p{number}").put(vector=unit(1)) for number in range(20)]
    await store.apply(puts)
    one = puts[0].memory.id
    await store.touch([one], START)  # hot and due from here on
    await store.touch([one], START)
    await store.note_shown([one], START)
    faded = Tend(one, tier=Tier.COLD, importance=0.25, review=START + timedelta(days=9), decayed=START)
    await store.apply([faded])
    await store.touch([one], START)
    await store.apply([Rate(one, by=0.5, when=START)])
    hot = "SELECT pg_stat_get_tuples_hot_updated('agent_memory.fragments'::regclass)"
    await store.close()  # what a session counts is told when it ends
    assert asked(postgres_url, hot) == [(6,)]


def test_no_address() -> None:
    with pytest.raises(SettingsError) as caught:
        PostgresStore("this is no address", clock=lambda: START)
    assert "postgresql://" in caught.value.advice


@pytest.mark.parametrize("text", ["", "plain", "\x00", "\x10", "\x100", "a\x00\x10\x10\x000\x10", "\x10\x00"])
def test_text_is_kept_to_the_letter(text: str) -> None:
    assert "\x00" not in escaped(text)
    assert unescaped(escaped(text)) == text


async def test_odd_text_everywhere(store: PostgresStore) -> None:
    odd = 'a\x00b\x10c"d\\e{,}%s NULL'
    put = Builder().put(odd, agent=odd, topic=odd, tags=(odd, "NULL"), keywords=(odd, "", "NULL"))
    await store.apply([put])
    assert await store.get(put.memory.id, viewer=odd) == put.memory
    await store.set_cursor(odd, odd)
    assert await store.cursor(odd) == odd
    await store.put_entry(Entry(odd, odd, {odd: odd}, START))
    assert await store.entry(odd, odd, now=START) == Entry(odd, odd, {odd: odd}, START)
    with pytest.raises(InvalidInput):
        await store.set_cursor("half", "\ud800")


def test_literals() -> None:
    assert array_text(()) == "{}"
    assert array_text(['a"b', "c\\d", "NULL"]) == '{"a\\"b","c\\\\d","NULL"}'
    assert vector_text(unit(1, dimensions=3)) == "[1,0,0]"
    assert vector_text(unit(dimensions=2)) == "[0,0]"
