"""Memories as rows, a Filter as a WHERE clause (the one place that decides who sees what), and the keyword table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from mindhold.model.errors import InvalidInput
from mindhold.model.lexemes import keyword_forms
from mindhold.model.memory import Kind, Memory, Provenance, Status, Tier
from mindhold.model.query import Filter
from mindhold.model.scope import visible_agents
from mindhold.ports.store import Put
from mindhold.stores.postgres.driver import array_text, vector_text
from mindhold.stores.values import mapping_json

Connection = psycopg.Connection[tuple[Any, ...]]

_LONGEST = 500  # characters of a form: what an index takes
_TOGETHER = 2_000

# What some records are found by, and nothing else; those without keywords have no row.
NOTE = """
    WITH unnamed AS (DELETE FROM fragment_keywords WHERE row = ANY(%s::bigint[]))
    INSERT INTO fragment_keywords (row, forms)
    SELECT row, forms::text[] FROM unnest(%s::bigint[], %s::text[]) AS given (row, forms)
    ON CONFLICT (row) DO UPDATE SET forms = excluded.forms
"""

# The next records that have keywords, or are found by some, and by which.
NOTED = """
    SELECT fragments.row, fragments.keywords, found.forms
    FROM fragments LEFT JOIN fragment_keywords AS found ON found.row = fragments.row
    WHERE fragments.row > %s AND (fragments.keywords <> '{}' OR found.row IS NOT NULL)
    ORDER BY fragments.row LIMIT %s
"""


def forms_of(keywords: Iterable[str]) -> list[str]:
    return cut(keyword_forms(keywords))


def cut(forms: Iterable[str]) -> list[str]:
    """As the table has them."""
    return list(dict.fromkeys(form[:_LONGEST] for form in forms))


def note(connection: Connection, keywords: Mapping[int, Sequence[str]]) -> None:
    """Let records, by their rows, be found by their keywords and no others."""
    forms = {row: forms_of(words) for row, words in keywords.items() if words}
    named = {row: some for row, some in forms.items() if some}
    without = [row for row in keywords if row not in named]
    if keywords:
        connection.execute(NOTE, (without, list(named), [array_text(some) for some in named.values()]))


def count_wrong(connection: Connection) -> int:
    """How many records aren't found by their keywords, or by others."""
    return sum(len(wrong) for wrong in _wrong(connection))


def renew(connection: Connection) -> int:
    """Make the table what the records say, within the caller's transaction; returns how many it had wrong."""
    done = 0
    for wrong in _wrong(connection):
        note(connection, wrong)
        done += len(wrong)
    return done


def _wrong(connection: Connection) -> Iterator[dict[int, list[str]]]:
    last = 0
    while rows := connection.execute(NOTED, (last, _TOGETHER)).fetchall():
        last = rows[-1][0]
        yield {row: keywords for row, keywords, forms in rows if set(forms or ()) != set(forms_of(keywords))}


@dataclass(frozen=True, slots=True)
class PostgresCondition:
    """SQL that is true of the rows that match, over a table called `alias`, and its parameters in order."""

    sql: str
    parameters: tuple[Any, ...]


def visible(viewer: str, alias: str = "fragments") -> PostgresCondition:
    """True of the records that `viewer` may see."""
    agents = visible_agents(viewer)
    if agents is None:
        return PostgresCondition("true", ())
    return PostgresCondition(f"{alias}.agent_id = ANY(%s::text[])", (sorted(agents),))


def matching(where: Filter, alias: str = "fragments") -> PostgresCondition:
    """True of the records that the filter admits, its viewer's access included."""
    seen = visible(where.viewer, alias)
    clauses, parameters = [seen.sql], list(seen.parameters)

    def add(clause: str, *values: Any) -> None:
        clauses.append(clause)
        parameters.extend(values)

    if where.ids:
        add(f"{alias}.id = ANY(%s::text[])", list(where.ids))
    if where.turns and len(where.scopes) == 1:  # as one value: their index has them in order then
        add(f"{alias}.scope = (SELECT row FROM scope WHERE name = %s)", where.scopes[0])
    elif where.scopes:
        add(
            f"{alias}.scope = ANY(ARRAY(SELECT row FROM scope WHERE name = ANY(%s::text[])))",
            list(where.scopes),
        )
    if where.agents:
        add(f"{alias}.agent_id = ANY(%s::text[])", list(where.agents))
    if where.kinds:
        add(f"{alias}.type = ANY(%s::text[])", [kind.value for kind in where.kinds])
    if where.statuses:
        add(*_one_or_any(f"{alias}.status", [status.value for status in where.statuses]))
    if where.tags_any and where.tags:
        add(_tagged(alias, "= ANY(%s::text[])"), [tag.casefold() for tag in where.tags])
    for tag in () if where.tags_any else where.tags:
        add(_tagged(alias, "= %s"), tag.casefold())
    if where.keywords:
        comparison = "&&" if where.keywords_any else "@>"
        add(_named(alias, f"{comparison} %s::text[]"), cut(where.keywords))
    if where.topic is not None:
        stated = f"{alias}.topic_folded <> '' AND " if where.topic else ""  # lets the partial index be used
        add(f"{stated}{alias}.topic_folded = %s", where.topic.casefold())
    if where.since is not None:
        add(f"{alias}.occurred_at >= %s", where.since)
    if where.until is not None:
        add(f"{alias}.occurred_at < %s", where.until)
    if where.changed is not None:
        add(f"{alias}.updated_at >= %s", where.changed)
    if where.conversation is not None:
        add(f"{alias}.conversation = %s", where.conversation)
    if where.positions is not None:
        add(f"{alias}.position BETWEEN %s::bigint AND %s::bigint", *where.positions)
    if where.minimum_trust > 0:
        add(f"{alias}.trust >= %s", where.minimum_trust)
    if where.tiers:
        add(_standing(alias, "ttl_tier = ANY(%s::text[])"), [tier.value for tier in where.tiers])
    if where.anchored:
        add(f"{alias}.is_anchor")
    if where.due is not None:
        add(_standing(alias, "review_at <= %s"), where.due)
    waiting = [f"{alias}.verified_at IS NULL"] if where.unverified else []
    waiting += [f"{alias}.examined_at IS NULL"] if where.unexamined else []
    if waiting and where.statuses == (Status.ACTIVE,):
        waiting.append(f"{alias}.status = 'active'")  # said so plainly, it lets the partial index be used
    clauses += waiting
    if where.turns:
        clauses.append(_turn(alias))
    return PostgresCondition(" AND ".join(clauses), tuple(parameters))


def _one_or_any(column: str, values: list[str]) -> tuple[str, Any]:
    """One value is compared as such: then an index that begins with it has its rows in order."""
    if len(values) == 1:
        return f"{column} = %s", values[0]
    return f"{column} = ANY(%s::text[])", values


def _tagged(alias: str, comparison: str) -> str:
    return f"{alias}.row IN (SELECT row FROM fragment_tags WHERE folded {comparison})"


def _named(alias: str, comparison: str) -> str:
    return f"{alias}.row IN (SELECT row FROM fragment_keywords WHERE forms {comparison})"


def _turn(alias: str) -> str:
    """In the very words of the partial index."""
    return f"{alias}.dialect = 'project' AND {alias}.type = 'episode' AND NOT is_later_part({alias}.metadata)"


def _standing(alias: str, condition: str) -> str:
    return f"{alias}.row IN (SELECT row FROM fragment_standing WHERE {condition})"


# What Revise replaces, and what is sent for it; the rest belongs to the content. Lists go as literals of arrays.
REVISED = {
    "scope": "bigint",
    "agent_id": "text",
    "type": "text",
    "status": "text",
    "previous_status": "text",
    "topic": "text",
    "topic_folded": "text",
    "tags": "text",
    "importance": "float8",
    "confidence": "float8",
    "utility_score": "float8",
    "trust": "float8",
    "ttl_tier": "text",
    "is_anchor": "boolean",
    "created_at": "timestamptz",
    "updated_at": "timestamptz",
    "occurred_at": "timestamptz",
    "accessed_at": "timestamptz",
    "access_count": "bigint",
    "shown": "bigint",
    "usefulness": "float8",
    "verified_at": "timestamptz",
    "examined_at": "timestamptz",
    "decayed_at": "timestamptz",
    "review_at": "timestamptz",
    "supersedes": "text",
    "merged_from": "text",
    "dialect": "text",
    "source": "text",
    "conversation": "text",
    "position": "bigint",
    "file": "text",
    "line": "bigint",
    "keywords": "text",
    "metadata": "text",
}
CONTENT = {
    "content": "text",
    "estimated_tokens": "bigint",
    "content_hash": "text",
    "gist": "text",
    "lexemes": "text",
    "length": "bigint",
    "embedded_by": "text",
}
VECTOR = {"embedding": "text"}
_KEPT = {
    "tags": "text[]",
    "merged_from": "text[]",
    "keywords": "text[]",
    "metadata": "json",
    "embedding": "halfvec",
}


def _given(columns: Mapping[str, str]) -> str:
    """All rows in one statement: one array for each column."""
    arrays = ", ".join(f"%s::{kind}[]" for kind in columns.values())
    return f"unnest({arrays}) AS given ({', '.join(columns)})"


def _value(name: str) -> str:
    return f"given.{name}::{_KEPT[name]}" if name in _KEPT else f"given.{name}"


# Replace the fields of records, but not their content, index or vector.
REVISE = (
    f"UPDATE fragments SET {', '.join(f'{name} = {_value(name)}' for name in REVISED)} "
    f"FROM {_given(REVISED | {'id': 'text'})} WHERE fragments.id = given.id"
)

# What memory_of() reads, over a table called fragments.
SELECTED = """
    fragments.id, fragments.content, fragments.type, (SELECT name FROM scope WHERE scope.row = fragments.scope),
    fragments.agent_id, fragments.created_at, fragments.updated_at, fragments.occurred_at, fragments.content_hash,
    fragments.estimated_tokens, fragments.topic, fragments.tags, fragments.keywords, fragments.importance,
    fragments.confidence, fragments.utility_score, fragments.trust, fragments.ttl_tier, fragments.is_anchor,
    fragments.status, fragments.previous_status, fragments.access_count, fragments.accessed_at, fragments.supersedes,
    fragments.merged_from, fragments.dialect, fragments.source, fragments.conversation, fragments.position,
    fragments.file, fragments.line, fragments.metadata, fragments.embedded_by, fragments.shown, fragments.usefulness,
    fragments.verified_at, fragments.examined_at, fragments.decayed_at, fragments.review_at
"""

_COUNTED = ("access_count", "accessed_at", "shown", "usefulness", "id")
_KINDS = {kind.value: kind for kind in Kind}
_STATUSES = {status.value: status for status in Status}
_TIERS = {tier.value: tier for tier in Tier}


def upsert(*, vectors: bool) -> str:
    """Insert records, or replace those of the same ids in their rows; what was counted meanwhile stays."""
    columns = {**REVISED, **CONTENT, **(VECTOR if vectors else {}), "id": "text"}
    replaced = [name for name in columns if name not in _COUNTED]
    return (
        f"INSERT INTO fragments ({', '.join(columns)}) SELECT {', '.join(map(_value, columns))} "
        f"FROM {_given(columns)} "
        f"ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in replaced)}"
    )


def revised(memory: Memory, *, scope: int) -> tuple[Any, ...]:
    """The values of REVISED."""
    origin = memory.provenance
    numbers = (memory.importance, memory.confidence, memory.utility, memory.trust, memory.usefulness)
    if any(map(math.isnan, numbers)):
        raise InvalidInput("The database takes no such value: what is no number can't be stored.")
    return (
        scope,
        memory.agent,
        memory.kind.value,
        memory.status.value,
        None if memory.previous_status is None else memory.previous_status.value,
        memory.topic,
        memory.topic.casefold(),
        array_text(distinct_tags(memory).values()),
        memory.importance,
        memory.confidence,
        memory.utility,
        memory.trust,
        memory.tier.value,
        memory.anchor,
        memory.created,
        memory.updated,
        memory.occurred,
        memory.last_used,
        memory.uses,
        memory.shown,
        memory.usefulness,
        memory.verified,
        memory.examined,
        memory.decayed,
        memory.review,
        memory.supersedes,
        array_text(memory.merged_from),
        origin.dialect,
        origin.source,
        origin.conversation,
        origin.position,
        origin.file,
        origin.line,
        array_text(memory.keywords),
        mapping_json(memory.metadata),
    )


def whole(put: Put, *, scope: int, vectors: bool) -> tuple[Any, ...]:
    """The values of upsert()."""
    memory = put.memory
    vector = vector_text(put.vector) if vectors and put.vector is not None else None
    return (
        *revised(memory, scope=scope),
        memory.content,
        memory.tokens,
        memory.content_hash,
        put.gist,
        " ".join((*put.lexemes, *put.labels)),
        len(put.lexemes),
        None if vector is None else memory.embedded_by,
        *([vector] if vectors else []),
        memory.id,
    )


def distinct_tags(memory: Memory) -> dict[str, str]:
    """By what they are compared by: of two that differ in case alone the first counts."""
    tags: dict[str, str] = {}
    for name in memory.tags:
        tags.setdefault(name.casefold(), name)
    return tags


def memory_of(row: tuple[Any, ...]) -> Memory:
    """The record in a row of SELECTED."""
    return Memory(
        id=row[0],
        content=row[1],
        kind=_KINDS[row[2]],
        scope=row[3],
        agent=row[4],
        created=row[5],
        updated=row[6],
        occurred=row[7],
        content_hash=row[8],
        tokens=row[9],
        topic=row[10],
        tags=tuple(row[11]),
        keywords=tuple(row[12]),
        importance=row[13],
        confidence=row[14],
        utility=row[15],
        trust=row[16],
        tier=_TIERS[row[17]],
        anchor=row[18],
        status=_STATUSES[row[19]],
        previous_status=None if row[20] is None else _STATUSES[row[20]],
        uses=row[21],
        last_used=row[22],
        supersedes=row[23],
        merged_from=tuple(row[24]),
        provenance=Provenance(
            dialect=row[25],
            source=row[26],
            conversation=row[27],
            position=row[28],
            file=row[29],
            line=row[30],
        ),
        metadata=row[31],
        embedded_by=row[32],
        shown=row[33],
        usefulness=row[34],
        verified=row[35],
        examined=row[36],
        decayed=row[37],
        review=row[38],
    )
