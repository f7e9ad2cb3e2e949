"""Migrations, and that questions are answered from indexes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mindhold.model.errors import SchemaTooNew
from mindhold.model.lexemes import keyword_forms
from mindhold.model.memory import Kind, Status
from mindhold.model.query import Filter
from mindhold.stores.columns import to_micros
from mindhold.stores.sql import DUE
from mindhold.stores.sql_records import BY_GIST, BY_HASH, UNEMBEDDED
from mindhold.stores.sqlite.connection import latest, migrate, migrations, statements, version_of
from mindhold.stores.sqlite.rows import SQLITE, matching
from mindhold.testing.builders import START

WHERE = Filter(scopes=("work",), agents=("ada",))


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(":memory:", isolation_level=None)
    migrate(opened, Path("s.db"), now=START)
    yield opened
    opened.close()


def plan(
    connection: sqlite3.Connection, query: str, parameters: tuple[object, ...] | dict[str, object]
) -> str:
    rows = connection.execute(f"EXPLAIN QUERY PLAN {query}", parameters).fetchall()
    return "; ".join(row[3] for row in rows)


def test_migrations_are_numbered_without_gap(connection: sqlite3.Connection) -> None:
    assert [number for number, _ in migrations()] == list(range(1, latest() + 1))
    assert version_of(connection) == latest()


def test_migrating_again_changes_nothing(connection: sqlite3.Connection) -> None:
    before = connection.execute("SELECT sql FROM sqlite_schema").fetchall()
    migrate(connection, Path("s.db"), now=START)
    assert connection.execute("SELECT sql FROM sqlite_schema").fetchall() == before


def test_a_later_step_is_added_and_a_failed_one_leaves_nothing(connection: sqlite3.Connection) -> None:
    good = (*migrations(), (latest() + 1, "CREATE TABLE later (a);\n"))
    bad = (*good, (latest() + 2, "CREATE TABLE last (a);\nCREATE TABLE last (a);\n"))
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, Path("s.db"), now=START, steps=bad)
    assert version_of(connection) == latest()
    migrate(connection, Path("s.db"), now=START, steps=good)
    assert version_of(connection) == latest() + 1
    with pytest.raises(SchemaTooNew):
        migrate(connection, Path("s.db"), now=START)
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema")}
    assert "later" in names
    assert "last" not in names


def test_a_script_is_split_at_its_statements() -> None:
    script = "CREATE TABLE a (b);\n-- why; so\nCREATE TRIGGER t AFTER INSERT ON a BEGIN\n SELECT 1;\nEND;\n"
    assert len(list(statements(script))) == 2
    with pytest.raises(ValueError, match="unfinished"):
        list(statements("SELECT 1"))


@pytest.mark.parametrize(
    ("where", "index"),
    [
        (Filter(), "COVERING INDEX memory_scope"),
        (
            Filter(scopes=("work",), since=START),
            "COVERING INDEX memory_scope (scope=? AND status=? AND occurred>?)",
        ),
        (Filter(kinds=(Kind.NOTE,)), "memory_kind"),
        (Filter(tags=("x",)), "tag_folded"),
        (replace(WHERE, topic="x"), "memory_topic"),
        (replace(WHERE, conversation="c"), "memory_conversation"),
        (replace(WHERE, conversation="c", positions=(1, 2)), "conversation=? AND position>? AND position<?"),
        (replace(WHERE, ids=("a",)), "autoindex_memory_1 (id=?)"),
        (replace(WHERE, keywords=("a", "b")), "COVERING INDEX keyword_form (form=?)"),
        (replace(WHERE, keywords=("a", "b"), keywords_any=True), "COVERING INDEX keyword_form (form=?)"),
        (replace(WHERE, due=START), "COVERING INDEX memory_review (review<?)"),
        (replace(WHERE, unverified=True), "SCAN memory USING INDEX memory_unverified"),
        (replace(WHERE, unexamined=True), "SCAN memory USING INDEX memory_unexamined"),
    ],
)
def test_counting_uses_an_index(connection: sqlite3.Connection, where: Filter, index: str) -> None:
    condition = matching(where)
    query = f"SELECT count(*) FROM memory WHERE {condition.sql}"
    assert index in plan(connection, query, condition.parameters)


@pytest.mark.parametrize(
    ("column", "index"),
    [("occurred", "memory_time"), ("importance", "memory_importance"), ("id", "autoindex_memory_1")],
)
def test_a_listing_stops_when_it_has_enough(connection: sqlite3.Connection, column: str, index: str) -> None:
    condition = matching(WHERE, walked=column)
    order = column if column == "id" else f"{column} DESC, id DESC"
    query = f"SELECT row FROM memory WHERE {condition.sql} ORDER BY {order} LIMIT 5"
    how = plan(connection, query, condition.parameters)
    assert index in how
    assert "TEMP B-TREE" not in how


@pytest.mark.parametrize(
    ("where", "order", "index"),
    [
        (replace(WHERE, due=START), "review, id", "memory_review (review<?)"),
        (replace(WHERE, unverified=True), "occurred, id", "memory_unverified"),
        (replace(WHERE, unexamined=True), "occurred DESC, id DESC", "memory_unexamined"),
    ],
)
def test_upkeep_finds_its_work_in_order(
    connection: sqlite3.Connection, where: Filter, order: str, index: str
) -> None:
    for statuses in (where.statuses, (Status.ACTIVE, Status.ARCHIVED)) if where.due else (where.statuses,):
        condition = matching(replace(where, statuses=statuses), walked=order.split(",")[0].split()[0])
        query = f"SELECT row FROM memory WHERE {condition.sql} ORDER BY {order} LIMIT 5"
        how = plan(connection, query, condition.parameters)
        assert index in how
        assert "TEMP B-TREE" not in how


def test_what_was_there_before_upkeep_is_due_once_and_found_by_its_keywords() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, Path("s.db"), now=START, steps=migrations()[:3])
    texts = "id agent kind status topic topic_folded content tier dialect source content_hash gist lexemes".split()
    numbers = "importance confidence utility trust anchor created updated occurred uses tokens length revision".split()
    names = ", ".join([*texts, *numbers, "scope", "merged_from", "metadata", "keywords"])
    for memory_id, keywords in (
        ("a", '["Deploy windows", "東京"]'),
        ("b", "[]"),
        ("c", '["deploy WINDOW", " "]'),
    ):
        values = [memory_id, *("active" for _ in texts[1:]), *(1 for _ in numbers), 1, "[]", "{}", keywords]
        values[texts.index("content_hash")] = memory_id
        connection.execute(f"INSERT INTO memory ({names}) VALUES ({', '.join('?' for _ in values)})", values)
    migrate(connection, Path("s.db"), now=START)
    lives = connection.execute(
        "SELECT review, shown, usefulness, verified, examined, decayed FROM memory"
    ).fetchall()
    moment = to_micros(START)  # it fades from then on, and waits neither to be judged nor to be compared
    assert lives == [(moment, 0, 0.0, moment, moment, moment)] * 3
    found = connection.execute("SELECT memory, form FROM keyword ORDER BY memory, form").fetchall()
    window, tokyo = keyword_forms(["deploy window", "東京"])
    assert found == [(1, window), (1, tokyo), (3, window)]
    connection.close()


def test_lookups_use_their_indexes(connection: sqlite3.Connection) -> None:
    own = {"scope": "a", "agent": "b"}
    assert "memory_hash" in plan(connection, SQLITE.sql(BY_HASH), {"hashes": "[]", **own})
    assert "memory_gist" in plan(connection, SQLITE.sql(BY_GIST), {"gists": "[]", **own})
    assert "memory_referring" in plan(connection, SQLITE.sql("{derived}"), {"ids": "[]"})
    unembedded = plan(connection, SQLITE.sql(UNEMBEDDED), {"model": "model", "most": 1})
    assert unembedded.count("COVERING INDEX memory_embedded (embedded_by") == 3
    assert "SCAN memory" not in unembedded
    due = plan(connection, SQLITE.sql(DUE.replace("{chosen}", "")), {"now": 1})
    assert "job_waiting" in due
    assert "job_running" in due
