"""Memories as rows, and back."""

from __future__ import annotations

from typing import Any

from mindhold.model.memory import Kind, Memory, Provenance, Status, Tier
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
