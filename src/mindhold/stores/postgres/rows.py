"""Memories as rows, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mindhold.model.errors import InvalidInput
from mindhold.model.memory import Kind, Memory, Provenance, Status, Tier
from mindhold.ports.store import Put
from mindhold.stores.postgres.adapting import array_text, vector_text
from mindhold.stores.values import mapping_json

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
