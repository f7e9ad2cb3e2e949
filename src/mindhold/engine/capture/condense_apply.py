"""Doing what a plan says, all of it in one step: a kill leaves everything as it was, or done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mindhold.engine.amend import indexed
from mindhold.engine.capture.condense_plan import DROPPED, Drop, Merge, Plan, Replacement
from mindhold.engine.capture.item import CAPTURED, SIGNS
from mindhold.engine.checks import MOST_LABELS
from mindhold.engine.consolidate.duplicates import taken_links
from mindhold.engine.core import Engine
from mindhold.engine.draft import Draft, Prepared, prepare
from mindhold.engine.evaluate import evaluate_job
from mindhold.engine.kinship import heir, inheritance
from mindhold.engine.records import MOST_MERGED
from mindhold.model.errors import Conflict, InvalidInput, MemoryNotFound
from mindhold.model.life import DOUBTED_AFTER, is_kept_for_good, next_review
from mindhold.model.link import Link, Relation
from mindhold.model.memory import Memory, Provenance, Status
from mindhold.model.query import Vector
from mindhold.ports.store import Change, Connect, Enqueue, Put

TRIES = 3


async def applied(engine: Engine, plan: Plan, *, agent: str) -> tuple[Plan, dict[str, str]]:
    """What of the plan was done, and the new memories' ids by those of their heirs-to-be.

    What somebody changed since the plan was made is left out of it. Raises Conflict, MemoryNotFound where others never let
    go of it, and the store's errors.
    """
    refused: Conflict | MemoryNotFound | None = None
    for _ in range(TRIES):
        now = await engine.store.get_many(sorted(plan.ids()), viewer=agent)
        plan = await _doable(engine, _as_it_was(plan, now), agent=agent)
        if not plan.ids():
            return plan, {}
        changes, made = await _changes(engine, plan)
        try:
            await engine.store.apply(changes)
            return plan, made
        except (Conflict, MemoryNotFound) as error:  # somebody was faster
            refused = error
    assert refused is not None
    raise refused


def heir_of(merge: Merge) -> Memory:
    """The newest of them, whose place the merged one takes."""
    return max(merge.sources, key=lambda one: (one.created, one.id))


def _as_it_was(plan: Plan, now: Mapping[str, Memory]) -> Plan:
    def stands(memory: Memory) -> bool:
        found = now.get(memory.id)
        return (
            found is not None
            and found.status is Status.ACTIVE
            and found.updated == memory.updated
            and not is_kept_for_good(found)
        )

    kept = [
        Merge(tuple(now[one.id] for one in merge.sources), merge.content)
        for merge in plan.merges
        if all(map(stands, merge.sources))
    ]
    drops = [Drop(now[one.memory.id], one.why) for one in plan.drops if stands(one.memory)]
    replaced = [
        Replacement(now[pair.old.id], now[pair.new.id])
        for pair in plan.replaced
        if stands(pair.old) and stands(pair.new)
    ]
    return Plan(tuple(kept), tuple(drops), tuple(replaced))


async def _doable(engine: Engine, plan: Plan, *, agent: str) -> Plan:
    """Without what would say again what a memory outside of it says, or can't be stored."""
    kept: list[Merge] = []
    for merge in plan.merges:
        prepared = _prepared(engine, merge)
        if prepared is None:
            continue
        memory = prepared.memory
        known = await engine.store.by_hash([memory.content_hash], scope=memory.scope, agent=memory.agent)
        if all(one.id in {source.id for source in merge.sources} for one in known.values()):
            kept.append(merge)
    return replace(plan, merges=tuple(kept))


async def _changes(engine: Engine, plan: Plan) -> tuple[list[Change], dict[str, str]]:
    now, model = engine.clock(), engine.meaning.model
    gone = [one for merge in plan.merges for one in merge.sources] + [pair.old for pair in plan.replaced]
    ids = [one.id for one in (*gone, *(drop.memory for drop in plan.drops))]
    vectors = await engine.store.vector_of(ids, model=model) if model is not None else {}
    changes: list[Change] = [_retired(engine, one, vectors.get(one.id), now=now) for one in gone]
    changes += [_archived(engine, drop, vectors.get(drop.memory.id), now=now) for drop in plan.drops]
    links: list[Link] = []
    made: dict[str, str] = {}
    new = [(merge, found) for merge in plan.merges if (found := _prepared(engine, merge)) is not None]
    matrix = await engine.meaning.embed([found.memory.content for _, found in new]) if new else None
    for place, (merge, found) in enumerate(new):
        memory = _merged(merge, found, now=now)
        changes.append(_put(found, memory, None if matrix is None else matrix[place], model=model))
        made[heir_of(merge).id] = memory.id
        links += [_superseded_by(one, memory, now) for one in merge.sources]
        links += await taken_links(engine, memory, merge.sources)
    links += [_superseded_by(pair.old, pair.new, now) for pair in plan.replaced]
    changes += [Connect(link) for link in links]
    changes += [inheritance(pair.new, [pair.old]) for pair in plan.replaced]
    if new:
        changes.append(Enqueue(evaluate_job(engine)))
    return changes, made


def _prepared(engine: Engine, merge: Merge) -> Prepared | None:
    """The record that they become, by the way of everything that is stored; None where it is none to store."""
    first = heir_of(merge)
    tags = dict.fromkeys(tag for one in (first, *merge.sources) for tag in one.tags)
    draft = Draft(
        content=merge.content,
        kind=first.kind,
        scope=first.scope,
        agent=first.agent,
        topic=first.topic,
        tags=tuple(tags)[:MOST_LABELS],
        importance=max(one.importance for one in merge.sources),
        confidence=max(one.confidence for one in merge.sources),
        occurred=max(one.occurred for one in merge.sources),
        provenance=Provenance(
            dialect=first.provenance.dialect,
            source=CAPTURED,
            conversation=first.provenance.conversation,
            file=first.provenance.file,
            line=first.provenance.line,
        ),
        metadata=_metadata(merge.sources),
        keep_noise=True,
    )
    try:
        parts = prepare(engine, draft)
    except InvalidInput:
        return None
    return parts[0] if len(parts) == 1 and parts[0].memory.status is Status.ACTIVE else None


def _metadata(sources: Sequence[Memory]) -> dict[str, Any]:
    """The newest has the say; how an error shows, each may know something of."""
    told: dict[str, Any] = {}
    signs: dict[str, None] = {}
    for one in sorted(sources, key=lambda source: (source.created, source.id)):
        told |= one.metadata
        own = one.metadata.get(SIGNS)
        signs |= dict.fromkeys(sign for sign in own or () if isinstance(sign, str))
    told.pop(DROPPED, None)
    return told | {SIGNS: list(signs)} if signs else told


def _merged(merge: Merge, found: Prepared, *, now: datetime) -> Memory:
    """It names all that its words came from, so that who erases one of those erases it too."""
    sources = sorted(merge.sources, key=lambda one: (one.created, one.id), reverse=True)
    lineage = dict.fromkeys(
        (*(one.id for one in sources), *(old for one in sources for old in one.merged_from))
    )
    # What loses confidence by the day goes on from where the newest of them was.
    since = max(max(one.created, one.updated) for one in sources) if sources[0].kind in DOUBTED_AFTER else now
    return replace(
        heir(found.memory, sources),
        created=since,
        updated=since,
        review=now,
        merged_from=tuple(lineage)[:MOST_MERGED],
        trust=min(one.trust for one in sources),
        last_used=max((one.last_used for one in sources if one.last_used), default=None),
    )


def _put(found: Prepared, memory: Memory, vector: Vector | None, *, model: str | None) -> Put:
    kept = replace(memory, embedded_by=model if vector is not None else None)
    return Put(kept, found.lexemes, labels=found.labels, gist=found.gist, vector=vector)


def _retired(engine: Engine, memory: Memory, vector: Vector | None, *, now: datetime) -> Put:
    """Refused by the store when somebody changed it since it was read, which a mark wouldn't be."""
    old = replace(memory, status=Status.SUPERSEDED, previous_status=memory.status, updated=now)
    return replace(indexed(engine, old, vector=vector), expected=memory.updated)


def _archived(engine: Engine, drop: Drop, vector: Vector | None, *, now: datetime) -> Put:
    memory = drop.memory
    away = replace(
        memory,
        status=Status.ARCHIVED,
        previous_status=memory.status,
        updated=now,
        metadata={**memory.metadata, DROPPED: now.isoformat()},
    )
    away = replace(away, review=next_review(away, now, engine.policy.life))
    return replace(indexed(engine, away, vector=vector), expected=memory.updated)


def _superseded_by(old: Memory, new: Memory, now: datetime) -> Link:
    return Link(old.id, new.id, Relation.SUPERSEDED_BY, now, automatic=True)
