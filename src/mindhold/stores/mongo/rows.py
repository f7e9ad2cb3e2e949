"""Memories as documents, and a Filter as a query (the only place that decides access). Times are microseconds since 1970 in UTC."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from bson.binary import Binary
from bson.int64 import Int64

from mindhold.model.errors import InvalidInput
from mindhold.model.lexemes import keyword_forms
from mindhold.model.memory import Memory, Status, is_turn
from mindhold.model.query import Filter
from mindhold.model.scope import visible_agents
from mindhold.ports.store import Put
from mindhold.stores.columns import (
    MEMORY,
    Conversions,
    RecordColumns,
    StoreColumns,
    Type,
    from_mapping_json,
    from_micros,
    mapping_json,
    number,
    texts_in,
    to_micros,
)
from mindhold.stores.vectors import decode, encode

Document = dict[str, Any]

LIVE = frozenset({Status.ACTIVE.value, Status.QUARANTINED.value})

_VECTOR_SUBTYPE = 9
_FLOAT32 = b"\x27\x00"  # the type of the numbers, and no padding
_DEEPEST = 40
_LONGEST_REFERENCE = 128


def whole(put: Put) -> Document:
    """All fields except `_id`, `row` and `revision`."""
    memory = put.memory
    return {
        **revised(memory),
        **_CONTENT.document(memory),
        "gist": put.gist,
        "lexemes": [*put.lexemes, *put.labels],
        "length": len(put.lexemes),
        **vector_fields(put.vector, None if put.vector is None else memory.embedded_by),
    }


def vector_fields(vector: Any, model: str | None) -> Document:
    """The vector in the form of $vectorSearch, and the code for in-memory search."""
    if vector is None:
        return {"embedding": None, "code": None, "embedded_by": None}
    if not len(vector) or not np.isfinite(vector).all():
        raise InvalidInput(
            "The database takes no such vector: it is empty, or has what is no number.",
            advice="Look at what the embedding provider gives.",
        )
    exact, code = encode(vector)
    return {"embedding": vector_value(decode(exact)), "code": code, "embedded_by": model}


def vector_value(vector: Any) -> Binary:
    return Binary(_FLOAT32 + np.asarray(vector, dtype="<f4").tobytes(), _VECTOR_SUBTYPE)


def exact_of(value: bytes) -> bytes:
    """The exact vector that encode() returned."""
    return np.frombuffer(value, dtype="<f4", offset=len(_FLOAT32)).astype("<f2").tobytes()


def row_number(row: int) -> Int64:
    """A row number of always eight bytes, so that raw answers can be read as an array."""
    return Int64(row)


def references(supersedes: str | None, merged_from: Any, metadata: Any) -> list[str]:
    """Every text that may be another record's id, for lookup by an erasure."""
    candidates = [*([] if supersedes is None else [supersedes]), *merged_from, *texts_in(metadata)]
    return sorted({text for text in candidates if 0 < len(text) <= _LONGEST_REFERENCE})


def metadata_document(value: Mapping[str, Any]) -> Document | str:
    """A document if every server stores it unchanged, else JSON."""
    return dict(value) if _fits(value, _DEEPEST) else mapping_json(value)


def metadata_of(stored: Document | str) -> Document:
    return from_mapping_json(stored) if isinstance(stored, str) else dict(stored)


def _stored_metadata(value: Mapping[str, Any]) -> Document | str:
    """The metadata as stored. Raises InvalidInput for values that JSON can't express."""
    return metadata_document(json.loads(mapping_json(value)))


def _fits(value: Any, depth: int) -> bool:
    if isinstance(value, Mapping):
        keys = all("\x00" not in key and not key.startswith("$") for key in value)
        return keys and depth > 0 and all(_fits(item, depth - 1) for item in value.values())
    if isinstance(value, list):
        return depth > 0 and all(_fits(item, depth - 1) for item in value)
    return not isinstance(value, int) or -(2**63) <= value < 2**63


CONVERSIONS: Conversions = {
    Type.REAL: (number, None),
    Type.MOMENT: (to_micros, from_micros),
    Type.TEXTS: (list, tuple),
    Type.MAPPING: (_stored_metadata, metadata_of),
    Type.JSON: (mapping_json, from_mapping_json),
}
COLUMNS = StoreColumns("mongo", CONVERSIONS)
_CONTENT = RecordColumns(Memory, [column for column in MEMORY if column.content], "mongo", CONVERSIONS)
_REVISED = RecordColumns(
    Memory, [column for column in MEMORY if not column.content and column.field != "id"], "mongo", CONVERSIONS
)
COUNTED = tuple(column.name("mongo") for column in MEMORY if column.counted)

# The fields for memory_of().
SELECTED = dict.fromkeys(COLUMNS.memory.names, 1)
memory_of = COLUMNS.memory.record_of


def revised(memory: Memory) -> Document:
    """The fields that a Revise replaces; the others belong to the content."""
    document = _REVISED.document(memory)
    # Of tags that differ only in case the first one stays.
    tags = {tag.casefold(): tag for tag in reversed(memory.tags)}
    return document | {
        "live": memory.status.value in LIVE,
        "topic_folded": memory.topic.casefold(),
        "tags": list(reversed(tags.values())),
        "tags_folded": list(reversed(tags)),
        "keyword_forms": list(keyword_forms(memory.keywords)),
        "turn": is_turn(memory),
        "refers": references(memory.supersedes, memory.merged_from, metadata_of(document["metadata"])),
    }


Query = dict[str, Any]
TURNS = "turns"  # the index of the messages of project logs

# Every field that matching() uses, except those of beyond_search().
FILTERED = tuple(
    "_id agent scope kind status tier tags_folded topic_folded occurred conversation position trust anchor".split()
)


def visible(viewer: str) -> Query:
    """The query of records that `viewer` may see."""
    agents = visible_agents(viewer)
    return {} if agents is None else {"agent": {"$in": sorted(agents)}}


def matching(where: Filter) -> Query:
    """The query of a filter, including its viewer's access.

    Uses only comparisons, `$and`, `$in` and equality over the fields of FILTERED, which $vectorSearch supports.
    """
    conditions = [visible(where.viewer)]

    def among(field: str, values: tuple[Any, ...]) -> None:
        if values:
            conditions.append(
                {field: values[0] if len(values) == 1 else {"$in": [str(value) for value in values]}}
            )

    def words(field: str, values: list[str], *, any_of: bool) -> None:
        if any_of and values:
            conditions.append({field: {"$in": values}})
        elif not any_of:
            conditions.extend({field: value} for value in values)

    among("_id", where.ids)
    among("scope", where.scopes)
    among("agent", where.agents)
    among("kind", tuple(kind.value for kind in where.kinds))
    among("status", tuple(status.value for status in where.statuses))
    among("tier", tuple(tier.value for tier in where.tiers))
    words("tags_folded", [tag.casefold() for tag in where.tags], any_of=where.tags_any)
    words("keyword_forms", list(where.keywords), any_of=where.keywords_any)
    for field, comparison, moment in (
        ("occurred", "$gte", where.since),
        ("occurred", "$lt", where.until),
        ("updated", "$gte", where.changed),
        ("review", "$lte", where.due),
    ):
        if moment is not None:
            conditions.append({field: {comparison: to_micros(moment)}})
    if where.topic is not None:
        conditions.append({"topic_folded": where.topic.casefold()})
    if where.conversation is not None:
        conditions.append({"conversation": where.conversation})
    if where.positions is not None:
        first, last = where.positions
        conditions.append({"position": {"$gte": first, "$lte": last}})
    if where.minimum_trust > 0:
        conditions.append({"trust": {"$gte": where.minimum_trust}})
    for stated, condition in (
        (where.anchored, {"anchor": True}),
        (where.unverified, {"verified": None}),
        (where.unexamined, {"examined": None}),
        (where.turns, {"turn": True}),
    ):
        if stated:
            conditions.append(condition)
    return all_of(*conditions)


def beyond_search(where: Filter) -> bool:
    """Whether the filter uses a field that older vector indexes don't have."""
    tended = where.changed or where.due or where.unverified or where.unexamined
    return bool(where.keywords or where.turns or tended)


def counted_by_index(where: Filter) -> bool:
    """Whether the index of messages alone can answer the filter, without reading records."""
    specific = where.ids or where.tags or where.keywords or where.topic or where.conversation is not None
    timed = where.since or where.until or where.changed or where.due
    others = where.kinds or where.positions or where.anchored or where.tiers
    waiting = where.unverified or where.unexamined
    return where.turns and len(where.scopes) == 1 and not (specific or timed or others or waiting)


def all_of(*conditions: Query) -> Query:
    """The query that all conditions are true."""
    stated = [condition for condition in conditions if condition]
    if len(stated) == 1:
        return stated[0]
    return {"$and": stated} if stated else {}
