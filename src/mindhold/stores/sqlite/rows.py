"""Memories as rows, a Filter as a WHERE clause (the only place that decides access), and the keyword table."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mindhold.model.lexemes import keyword_forms
from mindhold.model.memory import Memory
from mindhold.model.query import Filter
from mindhold.model.scope import visible_agents
from mindhold.ports.store import Put
from mindhold.stores.columns import (
    MEMORY,
    Conversions,
    RecordColumns,
    StoreColumns,
    Type,
    from_list_json,
    from_mapping_json,
    from_micros,
    list_json,
    mapping_json,
    to_micros,
)
from mindhold.stores.sql import LIST, Condition, SqlDialect
from mindhold.stores.sql_records import FilterClauses

CONVERSIONS: Conversions = {
    Type.FLAG: (None, bool),
    Type.MOMENT: (to_micros, from_micros),
    Type.TEXTS: (list_json, from_list_json),
    Type.MAPPING: (mapping_json, from_mapping_json),
    Type.JSON: (mapping_json, from_mapping_json),
}
COLUMNS = StoreColumns("sqlite", CONVERSIONS)

# The columns for memory_of(), of a table called memory.
SELECTED = COLUMNS.memory.listed(
    "memory.",
    scope="(SELECT name FROM scope WHERE scope.row = memory.scope)",
    tags="(SELECT json_group_array(name) FROM (SELECT name FROM tag WHERE tag.memory = memory.row ORDER BY place))",
)
memory_of = COLUMNS.memory.record

# Tags have their own table; the id is the last parameter of a Revise.
_ROW = [column for column in MEMORY if column.field != "tags"]
_WHOLE = RecordColumns(Memory, _ROW, "sqlite", CONVERSIONS)
_REVISED = RecordColumns(
    Memory, [column for column in _ROW if not column.content and column.field != "id"], "sqlite", CONVERSIONS
)
_DERIVED = ("topic_folded", "revision")
_OF_CONTENT = ("gist", "lexemes", "length")
_WRITTEN = (*_WHOLE.names, *_DERIVED, *_OF_CONTENT)
_COUNTED = frozenset(column.name("sqlite") for column in MEMORY if column.counted)

# Insert a record, or replace the one with the same id in its row; counts stay.
UPSERT = (
    f"INSERT INTO memory ({', '.join(_WRITTEN)}) VALUES ({', '.join('?' for _ in _WRITTEN)}) ON CONFLICT (id) DO UPDATE "
    f"SET {', '.join(f'{name} = excluded.{name}' for name in _WRITTEN if name not in _COUNTED and name != 'id')}"
)

# Replace the fields of a record, except content, index and vector.
REVISE = f"UPDATE memory SET {', '.join(f'{name} = ?' for name in (*_REVISED.names, *_DERIVED))} WHERE id = ?"


def revised(memory: Memory, *, scope: int, revision: int) -> tuple[Any, ...]:
    """The values of REVISE."""
    return (*_REVISED.values(memory, scope=scope), memory.topic.casefold(), revision, memory.id)


def whole(put: Put, *, scope: int, revision: int) -> tuple[Any, ...]:
    """The values of UPSERT."""
    memory = put.memory
    model = None if put.vector is None else memory.embedded_by
    return (
        *_WHOLE.values(memory, scope=scope, embedded_by=model),
        memory.topic.casefold(),
        revision,
        put.gist,
        " ".join((*put.lexemes, *put.labels)),
        len(put.lexemes),
    )


Parameter = str | int | float | bytes | None


def visible(viewer: str, alias: str = "memory") -> Condition:
    """The condition that `viewer` may see a record.

    The plus keeps the planner from choosing the index of agents: most records belong to one or two agents.
    """
    agents = visible_agents(viewer)
    if agents is None:
        return Condition("1", ())
    return Condition(f"+{alias}.agent IN ({_marks(agents)})", tuple(sorted(agents)))


def matching(where: Filter, alias: str = "memory", *, walked: str = "") -> Condition:
    """The condition of a filter, including its viewer's access.

    `walked` is the column whose index the caller walks in order until it has enough. Then the planner should not choose an
    index of scopes, agents or kinds, because all its results would have to be sorted.
    """
    clauses = FilterClauses(SQLITE, alias, visible(where.viewer, alias))
    add = clauses.add
    if where.ids:
        add(f"{alias}.id IN (SELECT value FROM json_each(?))", as_list(where.ids))
    logged = where.turns and walked in ("", "occurred")  # an index has each scope's messages in order of time
    plus = "+" if _narrows(where) or (walked and not logged) else ""
    if logged and len(where.scopes) == 1:
        add(f"{plus}{alias}.scope = (SELECT row FROM scope WHERE name = ?)", where.scopes[0])
    elif where.scopes:
        add(
            f"{plus}{alias}.scope IN (SELECT row FROM scope WHERE name IN (SELECT value FROM json_each(?)))",
            as_list(where.scopes),
        )
    if where.agents:
        add(f"{plus}{alias}.agent IN ({_marks(where.agents)})", *where.agents)
    if where.kinds:
        ordered = walked == "occurred" and len(where.kinds) == len(where.statuses) == 1
        kind_plus = "" if ordered else plus  # that index has the records of one kind in order of time
        add(f"{kind_plus}{alias}.kind IN ({_marks(where.kinds)})", *where.kinds)
    if where.statuses:
        add(f"{alias}.status IN ({_marks(where.statuses)})", *where.statuses)
    if where.tags_any and where.tags:
        folded_tags = as_list(tag.casefold() for tag in where.tags)
        add(
            f"{alias}.row IN (SELECT memory FROM tag WHERE folded IN (SELECT value FROM json_each(?)))",
            folded_tags,
        )
    for tag in () if where.tags_any else where.tags:
        add(f"{alias}.row IN (SELECT memory FROM tag WHERE folded = ?)", tag.casefold())
    if where.keywords:
        keyword_condition = _named(where, alias)
        add(keyword_condition.sql, *keyword_condition.parameters)
    clauses.add_plain(where)
    if where.tiers:
        add(f"{alias}.tier IN ({_marks(where.tiers)})", *where.tiers)
    if where.due is not None:
        add(f"{alias}.review <= ?", to_micros(where.due))
    if where.turns:  # exactly as in the partial index
        stated = f"{alias}.dialect = 'project' AND {alias}.kind = 'episode'"
        add(f"{stated} AND json_extract({alias}.metadata, '$.part') IS NULL")
    return clauses.condition()


def having_keywords(where: Filter, row: str) -> Condition:
    """The condition that the record of that row has the filter's keywords; looks up one record at a time."""
    has = f"EXISTS (SELECT 1 FROM keyword WHERE keyword.memory = {row} AND"
    if where.keywords_any:
        # The plus: a record has fewer keywords than a filter may have.
        return Condition(
            f"{has} +keyword.form IN (SELECT value FROM json_each(?)))", (as_list(where.keywords),)
        )
    return Condition(" AND ".join(f"{has} keyword.form = ?)" for _ in where.keywords), where.keywords)


def rows_with_keywords(where: Filter) -> Condition:
    """A SELECT of the rows of records with the filter's keywords, starting from those that have the first one."""
    if where.keywords_any:
        return Condition(
            "SELECT memory FROM keyword WHERE form IN (SELECT value FROM json_each(?))",
            (as_list(where.keywords),),
        )
    first, *others = where.keywords
    begun, parameters = "SELECT named.memory FROM keyword AS named WHERE named.form = ?", (first,)
    if not others:
        return Condition(begun, parameters)
    also = having_keywords(replace(where, keywords=tuple(others)), "named.memory")
    return Condition(f"{begun} AND {also.sql}", (*parameters, *also.parameters))


def _named(where: Filter, alias: str) -> Condition:
    if where.ids:  # they are few already
        return having_keywords(where, f"{alias}.row")
    rows = rows_with_keywords(where)
    return Condition(f"{alias}.row IN ({rows.sql})", rows.parameters)


def as_list(values: Iterable[str]) -> str:
    """A list for json_each(): one parameter however many values, so that the statement stays prepared."""
    return json.dumps(list(values))


# Records merged from one of some ids. The first condition is that of the partial index; the plus keeps the
# planner from preferring an index that has the ids in order.
_DERIVED_FROM = f"""
    SELECT {SELECTED} FROM memory
    WHERE (memory.merged_from <> '[]' OR memory.metadata <> '{{}}') AND memory.merged_from <> '[]'
        AND EXISTS (SELECT 1 FROM json_each(memory.merged_from) AS source WHERE source.value = ANY(:ids))
    ORDER BY +memory.id
"""


class SqliteDialect(SqlDialect):
    """SQLite: lists are JSON, times are microseconds, and one writer locks the file."""

    name = "sqlite"
    mark = "?"
    integrity_error = sqlite3.IntegrityError
    _LOCK = re.compile(r"( ORDER BY id)? FOR (NO KEY UPDATE|UPDATE|KEY SHARE)( SKIP LOCKED)?")

    def notation(self, text: str) -> str:
        return self._LOCK.sub("", LIST.sub(r"IN (SELECT value FROM json_each(:\1))", text))

    def many(self, values: Iterable[str]) -> str:
        return as_list(values)

    def moment(self, moment: datetime) -> int:
        return to_micros(moment)

    def is_duplicate(self, error: Exception) -> bool:
        return isinstance(error, sqlite3.IntegrityError) and error.sqlite_errorcode in (
            sqlite3.SQLITE_CONSTRAINT_UNIQUE,
            sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
        )


SQLITE = SqliteDialect(
    COLUMNS,
    memory="memory",
    selected=SELECTED,
    plus="+",  # keeps the planner from choosing an index of scopes or agents
    row="rowid",
    texts_mark="?",
    is_true=" = 1",
    greatest="max",
    stamped=", revision = :revision",
    derived=_DERIVED_FROM,
    tagged="memory JOIN tag ON tag.memory = memory.row",
    tag_name="tag.name",
    tag_group="tag.folded",
    link="link",
    links_with_ends="""link CROSS JOIN memory AS origin ON origin.row = link.origin
        CROSS JOIN memory AS target ON target.row = link.target""",
    disconnect="""
        DELETE FROM link WHERE origin = (SELECT row FROM memory WHERE id = ?)
            AND target = (SELECT row FROM memory WHERE id = ?) AND relation = ?
    """,
    version="version",
    versions=f"""
        SELECT {COLUMNS.version.listed("version.", memory_id="memory.id")}
        FROM version JOIN memory ON memory.row = version.memory
    """,
    version_of="memory.id",
)


def _narrows(where: Filter) -> bool:
    """Whether a condition selects fewer rows than a scope does."""
    specific = where.ids or where.tags or where.keywords or where.topic or where.conversation
    tended = where.due or where.unverified or where.unexamined
    return bool(specific or where.anchored or where.changed or tended)


def _marks(values: Iterable[object]) -> str:
    return ", ".join("?" for _ in values)


# Add a keyword of a record.
KEYWORD = "INSERT OR IGNORE INTO keyword (memory, form) VALUES (?, ?)"

# Remove the keywords of a record.
DROP_KEYWORDS = "DELETE FROM keyword WHERE memory = ?"

# The next records that have keywords.
KEYWORDS_AFTER = "SELECT row, keywords FROM memory WHERE row > ? AND keywords <> '[]' ORDER BY row LIMIT 1000"

# The keyword forms of a record.
FORMS = "SELECT form FROM keyword WHERE memory = ?"

# Keyword forms of records that have no keywords.
UNFOUNDED = "memory NOT IN (SELECT row FROM memory WHERE keywords <> '[]')"


def note_keywords(connection: sqlite3.Connection) -> int:
    """Correct the keyword table within the caller's transaction. Returns how many records were wrong."""
    wrong = connection.execute(f"DELETE FROM keyword WHERE {UNFOUNDED}").rowcount
    for row, forms in _wrong(connection):
        connection.execute(DROP_KEYWORDS, (row,))
        connection.executemany(KEYWORD, [(row, form) for form in forms])
        wrong += 1
    return wrong


def count_wrong(connection: sqlite3.Connection) -> int:
    """The number of records whose rows in the keyword table are wrong."""
    unfounded = f"SELECT count(DISTINCT memory) FROM keyword WHERE {UNFOUNDED}"
    return int(connection.execute(unfounded).fetchone()[0]) + sum(1 for _ in _wrong(connection))


def _wrong(connection: sqlite3.Connection) -> Iterator[tuple[int, Sequence[str]]]:
    """The rows of records with keywords whose forms in the table are wrong, and the right forms."""
    last = -1
    while rows := connection.execute(KEYWORDS_AFTER, (last,)).fetchall():
        last = rows[-1][0]
        for row, keywords in rows:
            forms = keyword_forms(from_list_json(keywords))
            if {form for (form,) in connection.execute(FORMS, (row,))} != set(forms):
                yield row, forms
