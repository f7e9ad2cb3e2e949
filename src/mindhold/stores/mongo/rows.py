"""Memories as documents, and a Filter as a query (the one place that decides who sees what). Times are microseconds since 1970 in UTC."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from bson.binary import Binary
from bson.int64 import Int64

from mindhold.model.errors import InvalidInput
from mindhold.model.lexemes import keyword_forms
from mindhold.model.memory import Kind, Memory, Provenance, Status, Tier, is_turn
from mindhold.model.query import Filter
from mindhold.model.scope import visible_agents
from mindhold.ports.store import Put
from mindhold.stores.values import (
    from_mapping_json,
    from_micros,
    from_optional_micros,
    mapping_json,
    to_micros,
    to_optional_micros,
)
from mindhold.stores.vectors import decode, encode

Document = dict[str, Any]

LIVE = frozenset({Status.ACTIVE.value, Status.QUARANTINED.value})

# What is read to make a Memory of a document.
SELECTED = dict.fromkeys(
    "content kind scope agent created updated occurred content_hash tokens topic tags keywords importance confidence "
    "utility trust tier anchor status previous_status uses last_used supersedes merged_from dialect source "
    "conversation position file line metadata embedded_by shown usefulness verified examined decayed review".split(),
    1,
)

_VECTOR_SUBTYPE = 9
_FLOAT32 = b"\x27\x00"  # the kind of its numbers, and no padding
_DEEPEST = 40
_LONGEST_REFERENCE = 128
_KINDS = {kind.value: kind for kind in Kind}
_STATUSES = {status.value: status for status in Status}
_TIERS = {tier.value: tier for tier in Tier}


def revised(memory: Memory) -> Document:
    """The fields that a Revise replaces; the rest belongs to the content."""
    origin = memory.provenance
    tags = {
        tag.casefold(): tag for tag in reversed(memory.tags)
    }  # of those that differ in case the first stays
    metadata = json.loads(mapping_json(memory.metadata))
    return {
        "scope": memory.scope,
        "agent": memory.agent,
        "kind": memory.kind.value,
        "status": memory.status.value,
        "live": memory.status.value in LIVE,
        "previous_status": None if memory.previous_status is None else memory.previous_status.value,
        "topic": memory.topic,
        "topic_folded": memory.topic.casefold(),
        "tags": list(reversed(tags.values())),
        "tags_folded": list(reversed(tags)),
        "keywords": list(memory.keywords),
        "keyword_forms": list(keyword_forms(memory.keywords)),
        "importance": number(memory.importance),
        "confidence": number(memory.confidence),
        "utility": number(memory.utility),
        "trust": number(memory.trust),
        "tier": memory.tier.value,
        "anchor": memory.anchor,
        "created": to_micros(memory.created),
        "updated": to_micros(memory.updated),
        "occurred": to_micros(memory.occurred),
        "last_used": to_optional_micros(memory.last_used),
        "uses": memory.uses,
        "shown": memory.shown,
        "usefulness": number(memory.usefulness),
        "verified": to_optional_micros(memory.verified),
        "examined": to_optional_micros(memory.examined),
        "decayed": to_optional_micros(memory.decayed),
        "review": to_optional_micros(memory.review),
        "supersedes": memory.supersedes,
        "merged_from": list(memory.merged_from),
        "dialect": origin.dialect,
        "source": origin.source,
        "conversation": origin.conversation,
        "position": origin.position,
        "file": origin.file,
        "line": origin.line,
        "metadata": metadata_document(metadata),
        "turn": is_turn(memory),
        "refers": references(memory.supersedes, memory.merged_from, metadata),
    }


def whole(put: Put) -> Document:
    """All fields but `_id`, `row` and `revision`."""
    memory = put.memory
    return {
        **revised(memory),
        "content": memory.content,
        "tokens": memory.tokens,
        "content_hash": memory.content_hash,
        "gist": put.gist,
        "lexemes": [*put.lexemes, *put.labels],
        "length": len(put.lexemes),
        **vector_fields(put.vector, None if put.vector is None else memory.embedded_by),
    }


def vector_fields(vector: Any, model: str | None) -> Document:
    """The vector as $vectorSearch takes it, and the code that finds it in memory."""
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
    """What encode() gave as the exact vector."""
    return np.frombuffer(value, dtype="<f4", offset=len(_FLOAT32)).astype("<f2").tobytes()


def number(value: float) -> float:
    """Raises InvalidInput for what is none."""
    if math.isnan(value):
        raise InvalidInput("The database takes no such value: what is no number.")
    return value


def row_number(row: int) -> Int64:
    """Always of eight bytes, so that raw answers can be read as an array."""
    return Int64(row)


def references(supersedes: str | None, merged_from: Any, metadata: Any) -> list[str]:
    """Whatever may be another record's id: an erasure looks it up here."""
    named = [*([] if supersedes is None else [supersedes]), *merged_from, *_texts(metadata)]
    return sorted({text for text in named if 0 < len(text) <= _LONGEST_REFERENCE})


def metadata_document(value: Mapping[str, Any]) -> Document | str:
    """As a document where one holds it unchanged on every server, else as JSON."""
    return dict(value) if _fits(value, _DEEPEST) else mapping_json(value)


def metadata_of(stored: Document | str) -> Document:
    return from_mapping_json(stored) if isinstance(stored, str) else dict(stored)


def memory_of(document: Document) -> Memory:
    """The record in a document of SELECTED."""
    previous = document["previous_status"]
    return Memory(
        id=document["_id"],
        content=document["content"],
        kind=_KINDS[document["kind"]],
        scope=document["scope"],
        agent=document["agent"],
        created=from_micros(document["created"]),
        updated=from_micros(document["updated"]),
        occurred=from_micros(document["occurred"]),
        content_hash=document["content_hash"],
        tokens=document["tokens"],
        topic=document["topic"],
        tags=tuple(document["tags"]),
        keywords=tuple(document["keywords"]),
        importance=document["importance"],
        confidence=document["confidence"],
        utility=document["utility"],
        trust=document["trust"],
        tier=_TIERS[document["tier"]],
        anchor=document["anchor"],
        status=_STATUSES[document["status"]],
        previous_status=None if previous is None else _STATUSES[previous],
        uses=document["uses"],
        last_used=from_optional_micros(document["last_used"]),
        shown=document.get("shown", 0),  # a process of an older version may still write without these
        usefulness=document.get("usefulness", 0.0),
        verified=from_optional_micros(document.get("verified")),
        examined=from_optional_micros(document.get("examined")),
        decayed=from_optional_micros(document.get("decayed")),
        review=from_optional_micros(document.get("review")),
        supersedes=document["supersedes"],
        merged_from=tuple(document["merged_from"]),
        provenance=Provenance(
            dialect=document["dialect"],
            source=document["source"],
            conversation=document["conversation"],
            position=document["position"],
            file=document["file"],
            line=document["line"],
        ),
        metadata=metadata_of(document["metadata"]),
        embedded_by=document["embedded_by"],
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _texts(item)


def _fits(value: Any, depth: int) -> bool:
    if isinstance(value, Mapping):
        keys = all("\x00" not in key and not key.startswith("$") for key in value)
        return keys and depth > 0 and all(_fits(item, depth - 1) for item in value.values())
    if isinstance(value, list):
        return depth > 0 and all(_fits(item, depth - 1) for item in value)
    return not isinstance(value, int) or -(2**63) <= value < 2**63


Query = dict[str, Any]
TURNS = "turns"  # the index of the messages of projects' logs

# Every field that matching() asks about, but for those of beyond_search().
FILTERED = tuple(
    "_id agent scope kind status tier tags_folded topic_folded occurred conversation position trust anchor".split()
)


def visible(viewer: str) -> Query:
    """True of the records that `viewer` may see."""
    agents = visible_agents(viewer)
    return {} if agents is None else {"agent": {"$in": sorted(agents)}}


def matching(where: Filter) -> Query:
    """True of the records that the filter admits, its viewer's access included.

    Of comparisons, `$and`, `$in` and equality alone: what $vectorSearch understands, over the fields of FILTERED.
    """
    conditions = [visible(where.viewer)]

    def among(field: str, values: tuple[Any, ...]) -> None:
        if values:
            conditions.append(
                {field: values[0] if len(values) == 1 else {"$in": [str(value) for value in values]}}
            )

    among("_id", where.ids)
    among("scope", where.scopes)
    among("agent", where.agents)
    among("kind", tuple(kind.value for kind in where.kinds))
    among("status", tuple(status.value for status in where.statuses))
    among("tier", tuple(tier.value for tier in where.tiers))
    if where.tags:
        folded = [tag.casefold() for tag in where.tags]
        conditions += (
            [{"tags_folded": {"$in": folded}}] if where.tags_any else [{"tags_folded": tag} for tag in folded]
        )
    if where.keywords:
        forms = list(where.keywords)
        conditions += (
            [{"keyword_forms": {"$in": forms}}]
            if where.keywords_any
            else [{"keyword_forms": form} for form in forms]
        )
    if where.topic is not None:
        conditions.append({"topic_folded": where.topic.casefold()})
    if where.since is not None:
        conditions.append({"occurred": {"$gte": to_micros(where.since)}})
    if where.until is not None:
        conditions.append({"occurred": {"$lt": to_micros(where.until)}})
    if where.changed is not None:
        conditions.append({"updated": {"$gte": to_micros(where.changed)}})
    if where.conversation is not None:
        conditions.append({"conversation": where.conversation})
    if where.positions is not None:
        first, last = where.positions
        conditions.append({"position": {"$gte": first, "$lte": last}})
    if where.minimum_trust > 0:
        conditions.append({"trust": {"$gte": where.minimum_trust}})
    if where.anchored:
        conditions.append({"anchor": True})
    if where.due is not None:
        conditions.append({"review": {"$lte": to_micros(where.due)}})
    if where.unverified:
        conditions.append({"verified": None})
    if where.unexamined:
        conditions.append({"examined": None})
    if where.turns:
        conditions.append({"turn": True})
    return all_of(*conditions)


def beyond_search(where: Filter) -> bool:
    """Whether it asks about a field that indexes of vectors don't have: those were made before there was one."""
    tended = where.changed or where.due or where.unverified or where.unexamined
    return bool(where.keywords or where.turns or tended)


def counted_by_index(where: Filter) -> bool:
    """Whether the index of messages tells all that is asked, so that none has to be read."""
    named = where.ids or where.tags or where.keywords or where.topic or where.conversation is not None
    timed = where.since or where.until or where.changed or where.due
    others = where.kinds or where.positions or where.anchored or where.tiers
    waiting = where.unverified or where.unexamined
    return where.turns and len(where.scopes) == 1 and not (named or timed or others or waiting)


def all_of(*conditions: Query) -> Query:
    """True where each is."""
    stated = [condition for condition in conditions if condition]
    if len(stated) == 1:
        return stated[0]
    return {"$and": stated} if stated else {}
