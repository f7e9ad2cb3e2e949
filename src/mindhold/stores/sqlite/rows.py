"""Memories as rows, a Filter as a WHERE clause (the one place that decides who sees what), and the keyword table."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from mindhold.model.lexemes import keyword_forms
from mindhold.model.memory import Kind, Memory, Provenance, Status, Tier
from mindhold.model.query import Filter
from mindhold.model.scope import visible_agents
from mindhold.ports.store import Put
from mindhold.stores.values import (
    from_list_json,
    from_mapping_json,
    from_micros,
    from_optional_micros,
    list_json,
    mapping_json,
    to_micros,
    to_optional_micros,
)

# What Revise replaces; the rest belongs to the content.
REVISED = (
    "scope agent kind status previous_status topic topic_folded importance confidence utility trust tier anchor "
    "created updated occurred last_used uses shown usefulness verified examined decayed review supersedes merged_from "
    "dialect source conversation position file line keywords metadata revision"
).split()
CONTENT = "content tokens content_hash gist lexemes length embedded_by".split()
_REPLACED = [
    name for name in [*REVISED, *CONTENT] if name not in ("uses", "last_used", "shown", "usefulness")
]

# Insert a record, or replace the one of the same id in its row; what was counted meanwhile stays.
UPSERT = (
    f"INSERT INTO memory ({', '.join([*REVISED, *CONTENT, 'id'])}) "
    f"VALUES ({', '.join('?' for _ in [*REVISED, *CONTENT, 'id'])}) "
    f"ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _REPLACED)}"
)

# Replace the fields of a record, but not its content, index or vector.
REVISE = f"UPDATE memory SET {', '.join(f'{name} = ?' for name in REVISED)} WHERE id = ?"

# What memory_of() reads, over a table called memory.
SELECTED = """
    memory.id, memory.content, memory.kind, (SELECT name FROM scope WHERE scope.row = memory.scope), memory.agent,
    memory.created, memory.updated, memory.occurred, memory.content_hash, memory.tokens, memory.topic,
    (SELECT json_group_array(name) FROM (SELECT name FROM tag WHERE tag.memory = memory.row ORDER BY place)),
    memory.keywords, memory.importance, memory.confidence, memory.utility, memory.trust, memory.tier, memory.anchor,
    memory.status, memory.previous_status, memory.uses, memory.last_used, memory.supersedes, memory.merged_from,
    memory.dialect, memory.source, memory.conversation, memory.position, memory.file, memory.line, memory.metadata,
    memory.embedded_by, memory.shown, memory.usefulness, memory.verified, memory.examined, memory.decayed, memory.review
"""

_KINDS = {kind.value: kind for kind in Kind}
_STATUSES = {status.value: status for status in Status}
_TIERS = {tier.value: tier for tier in Tier}


def revised(memory: Memory, *, scope: int, revision: int) -> tuple[Any, ...]:
    """The values of REVISED."""
    origin = memory.provenance
    created = to_micros(memory.created)
    return (
        scope,
        memory.agent,
        memory.kind.value,
        memory.status.value,
        None if memory.previous_status is None else memory.previous_status.value,
        memory.topic,
        memory.topic.casefold(),
        memory.importance,
        memory.confidence,
        memory.utility,
        memory.trust,
        memory.tier.value,
        memory.anchor,
        created,
        created if memory.updated is memory.created else to_micros(memory.updated),
        created if memory.occurred is memory.created else to_micros(memory.occurred),
        to_optional_micros(memory.last_used),
        memory.uses,
        memory.shown,
        memory.usefulness,
        to_optional_micros(memory.verified),
        to_optional_micros(memory.examined),
        to_optional_micros(memory.decayed),
        to_optional_micros(memory.review),
        memory.supersedes,
        list_json(memory.merged_from),
        origin.dialect,
        origin.source,
        origin.conversation,
        origin.position,
        origin.file,
        origin.line,
        list_json(memory.keywords),
        mapping_json(memory.metadata),
        revision,
    )


def whole(put: Put, *, scope: int, revision: int) -> tuple[Any, ...]:
    """The values of REVISED, CONTENT and id."""
    memory = put.memory
    return (
        *revised(memory, scope=scope, revision=revision),
        memory.content,
        memory.tokens,
        memory.content_hash,
        put.gist,
        " ".join((*put.lexemes, *put.labels)),
        len(put.lexemes),
        None if put.vector is None else memory.embedded_by,
        memory.id,
    )


def memory_of(row: tuple[Any, ...]) -> Memory:
    """The record in a row of SELECTED."""
    return Memory(
        id=row[0],
        content=row[1],
        kind=_KINDS[row[2]],
        scope=row[3],
        agent=row[4],
        created=from_micros(row[5]),
        updated=from_micros(row[6]),
        occurred=from_micros(row[7]),
        content_hash=row[8],
        tokens=row[9],
        topic=row[10],
        tags=from_list_json(row[11]),
        keywords=from_list_json(row[12]),
        importance=row[13],
        confidence=row[14],
        utility=row[15],
        trust=row[16],
        tier=_TIERS[row[17]],
        anchor=bool(row[18]),
        status=_STATUSES[row[19]],
        previous_status=None if row[20] is None else _STATUSES[row[20]],
        uses=row[21],
        last_used=from_optional_micros(row[22]),
        supersedes=row[23],
        merged_from=from_list_json(row[24]),
        provenance=Provenance(
            dialect=row[25],
            source=row[26],
            conversation=row[27],
            position=row[28],
            file=row[29],
            line=row[30],
        ),
        metadata=from_mapping_json(row[31]),
        embedded_by=row[32],
        shown=row[33],
        usefulness=row[34],
        verified=from_optional_micros(row[35]),
        examined=from_optional_micros(row[36]),
        decayed=from_optional_micros(row[37]),
        review=from_optional_micros(row[38]),
    )


Parameter = str | int | float | bytes | None


@dataclass(frozen=True, slots=True)
class SqliteCondition:
    """SQL that is true of the rows that match, over a table called `alias`, and its parameters in order."""

    sql: str
    parameters: tuple[Parameter, ...]


def visible(viewer: str, alias: str = "memory") -> SqliteCondition:
    """True of the records that `viewer` may see.

    The plus keeps the planner from choosing the index of agents: most records are of one agent or two.
    """
    agents = visible_agents(viewer)
    if agents is None:
        return SqliteCondition("1", ())
    return SqliteCondition(f"+{alias}.agent IN ({_marks(agents)})", tuple(sorted(agents)))


def matching(where: Filter, alias: str = "memory", *, walked: str = "") -> SqliteCondition:
    """True of the records that the filter admits, its viewer's access included.

    `walked` names the column whose index the caller walks in order until it has enough: then no index of scopes,
    agents or kinds should be chosen, for all that it finds would have to be sorted.
    """
    seen = visible(where.viewer, alias)
    clauses, parameters = [seen.sql], list(seen.parameters)

    def add(clause: str, *values: Parameter) -> None:
        clauses.append(clause)
        parameters.extend(values)

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
        kept = "" if ordered else plus  # that index has one kind's records in order of time
        add(f"{kept}{alias}.kind IN ({_marks(where.kinds)})", *where.kinds)
    if where.statuses:
        add(f"{alias}.status IN ({_marks(where.statuses)})", *where.statuses)
    if where.tags_any and where.tags:
        wanted = as_list(tag.casefold() for tag in where.tags)
        add(
            f"{alias}.row IN (SELECT memory FROM tag WHERE folded IN (SELECT value FROM json_each(?)))",
            wanted,
        )
    for tag in () if where.tags_any else where.tags:
        add(f"{alias}.row IN (SELECT memory FROM tag WHERE folded = ?)", tag.casefold())
    if where.keywords:
        named = _named(where, alias)
        add(named.sql, *named.parameters)
    if where.topic is not None:
        stated = f"{alias}.topic_folded <> '' AND " if where.topic else ""  # lets the partial index be used
        add(f"{stated}{alias}.topic_folded = ?", where.topic.casefold())
    if where.since is not None:
        add(f"{alias}.occurred >= ?", to_micros(where.since))
    if where.until is not None:
        add(f"{alias}.occurred < ?", to_micros(where.until))
    if where.changed is not None:
        add(f"{alias}.updated >= ?", to_micros(where.changed))
    if where.conversation is not None:
        add(f"{alias}.conversation = ?", where.conversation)
    if where.positions is not None:
        add(f"{alias}.position BETWEEN ? AND ?", *where.positions)
    if where.minimum_trust > 0:
        add(f"{alias}.trust >= ?", where.minimum_trust)
    if where.tiers:
        add(f"{alias}.tier IN ({_marks(where.tiers)})", *where.tiers)
    if where.anchored:
        add(f"{alias}.anchor = 1")
    if where.due is not None:
        add(f"{alias}.review <= ?", to_micros(where.due))
    waiting = [f"{alias}.verified IS NULL"] if where.unverified else []
    waiting += [f"{alias}.examined IS NULL"] if where.unexamined else []
    if waiting and where.statuses == (Status.ACTIVE,):
        waiting.append(f"{alias}.status = 'active'")  # said so plainly, it lets the partial index be used
    clauses += waiting
    if where.turns:  # in the very words of the partial index
        stated = f"{alias}.dialect = 'project' AND {alias}.kind = 'episode'"
        add(f"{stated} AND json_extract({alias}.metadata, '$.part') IS NULL")
    return SqliteCondition(" AND ".join(clauses), tuple(parameters))


def having_keywords(where: Filter, row: str) -> SqliteCondition:
    """True where the record of that row has the filter's keywords; a look at what it has, one row at a time."""
    has = f"EXISTS (SELECT 1 FROM keyword WHERE keyword.memory = {row} AND"
    if where.keywords_any:
        # The plus: a record has fewer keywords than may be asked for.
        return SqliteCondition(
            f"{has} +keyword.form IN (SELECT value FROM json_each(?)))", (as_list(where.keywords),)
        )
    return SqliteCondition(" AND ".join(f"{has} keyword.form = ?)" for _ in where.keywords), where.keywords)


def rows_with_keywords(where: Filter) -> SqliteCondition:
    """A SELECT of the rows of records that have the filter's keywords, from those that have the first of them on."""
    if where.keywords_any:
        return SqliteCondition(
            "SELECT memory FROM keyword WHERE form IN (SELECT value FROM json_each(?))",
            (as_list(where.keywords),),
        )
    first, *others = where.keywords
    begun, parameters = "SELECT named.memory FROM keyword AS named WHERE named.form = ?", (first,)
    if not others:
        return SqliteCondition(begun, parameters)
    also = having_keywords(replace(where, keywords=tuple(others)), "named.memory")
    return SqliteCondition(f"{begun} AND {also.sql}", (*parameters, *also.parameters))


def _named(where: Filter, alias: str) -> SqliteCondition:
    if where.ids:  # they are few already
        return having_keywords(where, f"{alias}.row")
    rows = rows_with_keywords(where)
    return SqliteCondition(f"{alias}.row IN ({rows.sql})", rows.parameters)


def as_list(values: Iterable[str]) -> str:
    """For json_each(): one parameter however many values, so that the statement stays prepared."""
    return json.dumps(list(values))


def _narrows(where: Filter) -> bool:
    """Whether something picks fewer rows than a scope does."""
    named = where.ids or where.tags or where.keywords or where.topic or where.conversation
    tended = where.due or where.unverified or where.unexamined
    return bool(named or where.anchored or where.changed or tended)


def _marks(values: Iterable[object]) -> str:
    return ", ".join("?" for _ in values)


# Let a record be found by a keyword.
KEYWORD = "INSERT OR IGNORE INTO keyword (memory, form) VALUES (?, ?)"

# Take the keywords off a record.
DROP_KEYWORDS = "DELETE FROM keyword WHERE memory = ?"

# The next records that have keywords.
KEYWORDS_AFTER = "SELECT row, keywords FROM memory WHERE row > ? AND keywords <> '[]' ORDER BY row LIMIT 1000"

# What a record is found by.
FORMS = "SELECT form FROM keyword WHERE memory = ?"

# Forms of records that have no keyword.
UNFOUNDED = "memory NOT IN (SELECT row FROM memory WHERE keywords <> '[]')"


def note_keywords(connection: sqlite3.Connection) -> int:
    """Make the table what the records say, within the caller's transaction; returns how many it had wrong."""
    wrong = connection.execute(f"DELETE FROM keyword WHERE {UNFOUNDED}").rowcount
    last = -1
    while rows := connection.execute(KEYWORDS_AFTER, (last,)).fetchall():
        last = rows[-1][0]
        for row, keywords in rows:
            if _differ(connection, row, keywords):
                connection.execute(DROP_KEYWORDS, (row,))
                forms = keyword_forms(from_list_json(keywords))
                connection.executemany(KEYWORD, [(row, form) for form in forms])
                wrong += 1
    return wrong


def count_wrong(connection: sqlite3.Connection) -> int:
    """How many records aren't found by their keywords, or by others."""
    wrong, last = (
        connection.execute(f"SELECT count(DISTINCT memory) FROM keyword WHERE {UNFOUNDED}").fetchone()[0],
        -1,
    )
    while rows := connection.execute(KEYWORDS_AFTER, (last,)).fetchall():
        last = rows[-1][0]
        wrong += sum(_differ(connection, row, keywords) for row, keywords in rows)
    return int(wrong)


def _differ(connection: sqlite3.Connection, row: int, keywords: str) -> bool:
    kept = {form for (form,) in connection.execute(FORMS, (row,))}
    return kept != set(keyword_forms(from_list_json(keywords)))
