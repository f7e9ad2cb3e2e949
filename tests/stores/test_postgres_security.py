"""Row security, tried with plain SQL as a session of the store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest

from mindhold.ports.store import Connect, Keep
from mindhold.stores.postgres.store import PostgresStore
from mindhold.stores.postgres.upkeep import SECURED
from mindhold.testing.builders import START, Builder, unit

Session = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(params=["superuser", "owner"])
def url(request: pytest.FixtureRequest) -> str:
    name = "postgres_url" if request.param == "superuser" else "owned_postgres_url"
    address: str = request.getfixturevalue(name)
    return address


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url, clock=lambda: START)
    await store.open()
    build = Builder()
    hers = build.put("ada private", agent="ada", vector=unit(1), tags=("hers",))
    his = build.put("bob private", agent="bob", vector=unit(1), tags=("his",))
    shared = build.put("public", vector=unit(1), tags=("all",))
    await store.apply(
        [
            hers,
            his,
            shared,
            Connect(build.link(hers.memory, shared.memory)),
            Connect(build.link(his.memory, shared.memory)),
            Keep(build.version(hers.memory, 1, "ada before")),
            Keep(build.version(his.memory, 1, "bob before")),
        ]
    )
    yield store
    await store.close()


@pytest.fixture
def session(store: PostgresStore) -> Iterator[Session]:
    """One of the store's own, set free to write."""
    with store._session.connect() as connection:
        connection.execute("SET default_transaction_read_only = off")
        yield connection


def acting(session: Session, agent: str) -> None:
    session.execute("SELECT set_config('app.current_agent_id', %s, false)", (agent,))


def rows(session: Session, query: str) -> set[Any]:
    return {row[0] for row in session.execute(query).fetchall()}


def test_every_table_of_memories_shows_ones_own_and_everybodys(session: Session) -> None:
    acting(session, "ada")
    assert rows(session, "SELECT agent_id FROM fragments") == {"ada", "default"}
    assert rows(session, "SELECT name FROM fragment_tags") == {"hers", "all"}
    assert rows(session, "SELECT content FROM fragment_versions") == {"ada before"}
    assert rows(session, "SELECT from_id FROM fragment_links") == rows(
        session, "SELECT id FROM fragments WHERE agent_id = 'ada'"
    )


@pytest.mark.parametrize("agent", ["system", "admin"])
def test_some_see_all(session: Session, agent: str) -> None:
    acting(session, agent)
    for table, number in (
        ("fragments", 3),
        ("fragment_tags", 3),
        ("fragment_links", 2),
        ("fragment_versions", 2),
    ):
        assert rows(session, f"SELECT count(*) FROM {table}") == {number}


@pytest.mark.parametrize("agent", ["", "mallory", "ADA", "ada' OR '1'='1"])
def test_strangers_and_nobody_see_what_is_everybodys(session: Session, agent: str) -> None:
    acting(session, agent)
    assert rows(session, "SELECT agent_id FROM fragments") == {"default"}
    assert rows(session, "SELECT count(*) FROM fragment_links") == {0}
    assert rows(session, "SELECT count(*) FROM fragment_versions") == {0}


def test_a_session_that_names_nobody_sees_what_is_everybodys(session: Session) -> None:
    assert rows(session, "SELECT agent_id FROM fragments") == {"default"}


def test_nothing_of_anothers_is_changed_or_removed(session: Session) -> None:
    acting(session, "ada")
    for statement in (
        "UPDATE fragments SET content = 'mine' WHERE agent_id = 'bob'",
        "DELETE FROM fragments WHERE agent_id = 'bob'",
        "UPDATE fragment_tags SET name = 'mine' WHERE name = 'his'",
        "DELETE FROM fragment_tags WHERE name = 'his'",
        "UPDATE fragment_versions SET content = 'mine' WHERE content = 'bob before'",
        "DELETE FROM fragment_versions WHERE content = 'bob before'",
        "DELETE FROM fragment_links WHERE from_id IN (SELECT id FROM fragments WHERE agent_id = 'bob')",
    ):
        assert session.execute(statement).rowcount == 0, statement
    session.execute("DELETE FROM fragment_links; DELETE FROM fragment_versions")
    acting(session, "bob")
    assert rows(session, "SELECT content FROM fragments WHERE agent_id = 'bob'") == {"bob private"}
    assert rows(session, "SELECT name FROM fragment_tags") == {"his", "all"}
    assert rows(session, "SELECT count(*) FROM fragment_links") == {1}
    assert rows(session, "SELECT content FROM fragment_versions") == {"bob before"}


def test_nothing_is_put_in_anothers_name(session: Session) -> None:
    columns = "id, content, topic, topic_folded, type, importance, content_hash, scope, occurred_at"
    values = "'x', 'x', '', '', 'fact', 0.5, 'x', 1, now()"
    acting(session, "ada")
    for statement in (
        f"INSERT INTO fragments ({columns}, agent_id) VALUES ({values}, 'bob')",
        "UPDATE fragments SET agent_id = 'bob' WHERE agent_id = 'ada'",
        "INSERT INTO fragment_tags (row, folded, name, agent_id) SELECT row, 'x', 'x', 'bob' FROM fragments",
        "INSERT INTO fragment_links (from_id, to_id, relation_type) VALUES ('m00000002', 'm00000003', 'part_of')",
        "UPDATE fragment_versions SET fragment_id = 'm00000002'",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute(statement)


def test_it_is_forced_in_the_catalogue(session: Session) -> None:
    found = session.execute(
        "SELECT relname, relrowsecurity AND relforcerowsecurity, "
        "EXISTS (SELECT 1 FROM pg_policy WHERE polrelid = pg_class.oid AND polname = 'fragment_isolation_policy') "
        "FROM pg_class WHERE relnamespace = 'agent_memory'::regnamespace AND relname = ANY(%s)",
        (list(SECURED),),
    ).fetchall()
    assert sorted(found) == sorted((table, True, True) for table in SECURED)


def test_the_role_of_a_superuser_is_below_it(session: Session) -> None:
    assert session.execute(
        "SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
    ).fetchall() == [(False, False)]


async def test_doctor_says_how_it_is_enforced(store: PostgresStore, url: str) -> None:
    (finding,) = [one for one in await store.check() if one.name == "row security"]
    assert finding.healthy
    assert ("mindhold_app" in finding.detail) == ("postgres:" in url)
