"""Correcting a memory: every earlier version is kept, and the index follows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from recollect.engine.checks import (
    checked_labels,
    checked_metadata,
    checked_moment,
    checked_share,
    checked_topic,
    safe_text,
)
from recollect.engine.core import Engine
from recollect.engine.draft import QUARANTINE_FROM, QUARANTINED_TRUST, content_hash, gist_of, labels_of
from recollect.engine.text.suspicion import suspicion
from recollect.model.errors import Changed, ContentTooLarge, InvalidInput, Refused
from recollect.model.lexemes import lexemes
from recollect.model.memory import Kind, Memory, Status, Tier, Version
from recollect.model.tokens import count_tokens
from recollect.ports.store import Change, Keep, Put

TRIES = 3


@dataclass(frozen=True, slots=True)
class Amendment:
    """What to change; None leaves a field as it is."""

    content: str | None = None
    kind: Kind | None = None
    topic: str | None = None
    tags: tuple[str, ...] | None = None
    keywords: tuple[str, ...] | None = None
    importance: float | None = None
    anchor: bool | None = None
    tier: Tier | None = None
    occurred: datetime | None = None
    metadata: dict[str, Any] | None = None


async def amend(engine: Engine, memory_id: str, amendment: Amendment, *, agent: str) -> Memory:
    """The amended memory. Raises MemoryNotFound, InvalidInput, Refused, Conflict when another one says the same."""
    for _ in range(TRIES):
        try:
            return await _amend(engine, memory_id, amendment, agent=agent)
        except Changed as error:
            changed = error
    raise changed


async def _amend(engine: Engine, memory_id: str, amendment: Amendment, *, agent: str) -> Memory:
    before = await engine.store.get(memory_id, viewer=agent)
    if before.status is Status.FORGOTTEN:
        raise Refused(
            f"The memory {memory_id} is forgotten.",
            advice=f"`recollect forget --undo {memory_id}` brings it back.",
        )
    after = _amended(engine, before, amendment)
    if after == before:
        return before
    after = replace(after, updated=engine.clock())
    kept = await engine.store.versions_of(memory_id)
    number = kept[-1].number + 1 if kept else 1
    changes: list[Change] = [Keep(_version(before, number=number, after=after, by=agent))]
    changes.append(await _reindexed(engine, before, after))
    await engine.store.apply(changes)
    return after


async def _reindexed(engine: Engine, before: Memory, after: Memory) -> Put:
    model = engine.meaning.model
    vector = None
    if after.content != before.content:
        matrix = await engine.meaning.embed([after.content])
        vector = None if matrix is None else matrix[0]
    elif model is not None:
        vector = (await engine.store.vector_of([after.id], model=model)).get(after.id)
    memory = replace(after, embedded_by=model if vector is not None else None)
    return Put(
        memory,
        (said := lexemes(memory.content)),
        labels=labels_of(engine, memory),
        gist=gist_of(said),
        vector=vector,
        expected=before.updated,
    )


def _amended(engine: Engine, before: Memory, amendment: Amendment) -> Memory:
    after = before
    if amendment.content is not None:
        after = _reworded(engine, after, amendment.content)
    if amendment.kind is not None:
        after = replace(after, kind=amendment.kind)
    if amendment.topic is not None:
        after = replace(after, topic=checked_topic(engine, amendment.topic))
    if amendment.tags is not None:
        after = replace(after, tags=checked_labels(engine, amendment.tags, what="tag"))
    if amendment.keywords is not None:
        after = replace(after, keywords=checked_labels(engine, amendment.keywords, what="keyword"))
    if amendment.importance is not None:
        after = replace(after, importance=checked_share(amendment.importance, what="The importance"))
    if amendment.anchor is not None:
        after = replace(after, anchor=amendment.anchor)
    if amendment.tier is not None:
        after = replace(after, tier=amendment.tier)
    if amendment.occurred is not None:
        after = replace(after, occurred=checked_moment(engine, amendment.occurred))
    if amendment.metadata is not None:
        after = replace(after, metadata=checked_metadata(engine, amendment.metadata))
    return after


def _reworded(engine: Engine, memory: Memory, content: str) -> Memory:
    quarantined = suspicion(content).score >= QUARANTINE_FROM
    text = safe_text(engine, content)
    if not text.strip():
        raise InvalidInput("A memory can't be amended to nothing.", advice="`recollect forget` removes one.")
    if len(text) > engine.policy.part_length:
        raise ContentTooLarge(
            f"The new text has {len(text):,} characters; one memory holds {engine.policy.part_length:,}.",
            advice="Remember it anew: long texts are split into linked parts.",
        )
    status = memory.status
    if quarantined:
        status = Status.QUARANTINED
    elif status is Status.QUARANTINED:
        status = Status.ACTIVE
    return replace(
        memory,
        content=text,
        content_hash=content_hash(text),
        tokens=count_tokens(text),
        status=status,
        trust=_trust(memory, quarantined=quarantined),
    )


def _trust(memory: Memory, *, quarantined: bool) -> float:
    if quarantined:
        return QUARANTINED_TRUST
    return 1.0 if memory.status is Status.QUARANTINED else memory.trust


def _version(before: Memory, *, number: int, after: Memory, by: str) -> Version:
    return Version(
        memory_id=before.id,
        number=number,
        content=before.content,
        kind=before.kind,
        topic=before.topic,
        tags=before.tags,
        keywords=before.keywords,
        importance=before.importance,
        anchor=before.anchor,
        occurred=before.occurred,
        tier=before.tier,
        metadata=before.metadata,
        amended=after.updated,
        amended_by=by,
    )
