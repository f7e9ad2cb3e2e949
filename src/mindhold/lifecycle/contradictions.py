"""Contradictions: list, confirm, dismiss and undo them. Nothing is deleted here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from math import isclose

from pydantic import Field

from mindhold.engine import Engine
from mindhold.lifecycle.contradiction_records import (
    FOUND,
    PENDING,
    SETTLED,
    SHARD_CHARS,
    MemoryPair,
    PairRecord,
    current_pair,
    delete_pair_record,
    new_pair_record,
    pair_namespace,
    pair_namespaces,
    pair_records,
    paired_ids,
    save_pair_record,
)
from mindhold.model.errors import InvalidInput, MemoryNotFound, NotFound
from mindhold.model.lifecycle import OUTDATED_FACTOR, is_kept_for_good
from mindhold.model.memory import Link, Memory, Relation, Status
from mindhold.model.scope import EVERYONE, visible_agents
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.store import Change, Connect, Disconnect, Tend

BATCH = 500
TRIES = 3


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A record with both memories, for a viewer who sees both."""

    record: PairRecord
    pair: MemoryPair
    pending: bool


async def resolve(engine: Engine, pair: MemoryPair, *, by: str, confidence: float) -> bool:
    """Link the pair so that the later memory supersedes the earlier one, which stays readable. False if one is gone."""
    record = new_pair_record(engine, pair, by=by, confidence=confidence)
    applied = await apply(engine, record)
    if not applied:
        await delete_pair_record(engine, FOUND, record)
    await delete_pair_record(engine, PENDING, record)
    return applied


async def postpone(engine: Engine, pair: MemoryPair, *, by: str, confidence: float) -> None:
    """Save the pair as pending, for a model or a person."""
    await save_pair_record(engine, PENDING, new_pair_record(engine, pair, by=by, confidence=confidence))


async def settle(engine: Engine, pair: MemoryPair, *, by: str) -> None:
    """Record that the pair is no contradiction; it isn't raised again while both texts are unchanged."""
    record = new_pair_record(engine, pair, by=by, confidence=0.0)
    await save_pair_record(engine, SETTLED, record)
    await delete_pair_record(engine, PENDING, record)


async def list_contradictions(
    engine: Engine, *, agent: str, pending: bool, limit: int | None = None
) -> list[Contradiction]:
    """The contradictions whose memories the agent sees both, newest first."""
    kind = PENDING if pending else FOUND
    records: list[PairRecord] = []
    for namespace in await pair_namespaces(engine, kind, agents=visible_agents(agent)):
        records += await pair_records(engine, namespace)
    records.sort(key=lambda record: record.created, reverse=True)
    contradictions: list[Contradiction] = []
    for start in range(0, len(records), BATCH):
        contradictions += await with_memories(
            engine, records[start : start + BATCH], agent=agent, pending=pending
        )
        if limit is not None and len(contradictions) >= limit:
            return contradictions[:limit]
    return contradictions


async def with_memories(
    engine: Engine, records: list[PairRecord], *, agent: str, pending: bool
) -> list[Contradiction]:
    """The records whose memories exist, are visible to the agent, and have unchanged texts."""
    memories = await engine.store.get_many(paired_ids(records), viewer=agent)
    return [
        Contradiction(record, pair, pending)
        for record in records
        if (pair := current_pair(record, memories))
        and pair.older.status is not Status.FORGOTTEN
        and pair.newer.status is Status.ACTIVE
    ]


async def apply(engine: Engine, record: PairRecord) -> bool:
    """Create the links and lower the older memory's importance; False if one memory is gone.

    The previous importance is saved first. An interrupted call is continued and never applied twice, since links and
    importance change in one step.
    """
    if record.lowered is not None and await has_link(engine, record.older, record.newer):
        await save_pair_record(engine, FOUND, replace(record, applied=True))
        return True
    for _ in range(TRIES):
        older = await _memory(engine, record.older)
        if older is None:
            return False
        now = engine.clock()
        importance = None if is_kept_for_good(older) else older.importance
        lowered_to = None if importance is None else importance * OUTDATED_FACTOR
        record = replace(record, importance=importance, lowered_to=lowered_to, lowered=now, applied=False)
        await save_pair_record(engine, FOUND, record)
        changes: list[Change] = [*links_of(record)]
        if lowered_to is not None:
            changes.append(Tend(older.id, importance=lowered_to, review=now, unless_since=now))
        try:
            await engine.store.apply(changes)
        except MemoryNotFound:
            return False
        after = await _memory(engine, record.older)
        # If somebody used or changed the memory in between, read it again and lower that value.
        if not record.importance or after is None or after.importance != older.importance:
            break
    await save_pair_record(engine, FOUND, replace(record, applied=True))
    return True


async def withdraw(engine: Engine, record: PairRecord) -> None:
    """Undo `apply`. The importance is raised by the same factor, since it may have decayed; a value set by a person stays."""
    if not record.applied and not await has_link(engine, record.older, record.newer):
        return
    changes: list[Change] = [
        Disconnect(link.origin, link.target, link.relation)
        for change in links_of(record)
        if (link := change.link).origin and link.target
    ]
    older = await _memory(engine, record.older)
    if (
        older is not None
        and record.importance
        and record.lowered_to
        and await _is_importance_unchanged(engine, older, record)
    ):
        now = engine.clock()
        restored = min(1.0, round(older.importance * record.importance / record.lowered_to, 9))
        changes.append(Tend(older.id, importance=restored, review=now, unless_since=now))
    await engine.store.apply(changes)


def links_of(record: PairRecord) -> list[Connect]:
    """The links of a record. A memory that only a person may replace gets no superseded_by link."""
    now = record.lowered or record.created
    links = [
        Link(record.newer, record.older, Relation.CONTRADICTS, now, weight=record.confidence, automatic=True)
    ]
    if record.importance is not None:
        links.append(Link(record.older, record.newer, Relation.SUPERSEDED_BY, now, automatic=True))
    return [Connect(link) for link in links]


async def has_link(engine: Engine, older: str, newer: str) -> bool:
    """Whether the automatic link exists."""
    if not older or not newer:
        return False
    links = await engine.store.links_of([newer], relations=(Relation.CONTRADICTS,), viewer=EVERYONE)
    return any(link.automatic and (link.origin, link.target) == (newer, older) for link in links)


async def _is_importance_unchanged(engine: Engine, older: Memory, record: PairRecord) -> bool:
    """Whether nobody set another importance since. Every amendment left a version with the value before it."""
    since = record.lowered or record.created
    if older.updated <= since:
        return True
    versions = await engine.store.versions_of(older.id)
    importances = [version.importance for version in versions if version.amended > since]
    return all(isclose(before, after) for before, after in pairwise([*importances, older.importance]))


async def _memory(engine: Engine, memory_id: str) -> Memory | None:
    return (await engine.store.get_many([memory_id], viewer=EVERYONE)).get(memory_id) if memory_id else None


LONGEST = 400  # characters shown of each text


class SideView(Output):
    """One memory of a contradiction."""

    id: str = Field(description="Its id.", examples=["01m7gv42a3fzcy3gb19vmek4q7"])
    content: str = Field(description="The text.", examples=["Staging listens on port 5432."])
    occurred: datetime = Field(description="When it happened.", examples=["2026-11-02T08:15:00Z"])
    importance: float = Field(description="Importance, from 0 to 1.", examples=[0.5])


class ContradictionView(Output):
    """Two memories of which the later contradicts the earlier, or may."""

    id: str = Field(description="Its id.", examples=["7c1e09ab"])
    pending: bool = Field(examples=[True])
    older: SideView
    newer: SideView = Field(
        examples=[
            {
                "id": "01m7gv9k5d2w8r6t1p0n4b3xya",
                "content": "Staging listens on port 5433.",
                "occurred": "2026-11-16T10:30:00Z",
                "importance": 0.6,
            }
        ]
    )
    found_by: str = Field(examples=["rules"])
    confidence: float = Field(description="Confidence, from 0 to 1.", examples=[0.7])
    similarity: float = Field(description="Similarity in meaning, from 0 to 1.", examples=[0.93])
    found: datetime = Field(examples=["2026-11-16T10:30:00Z"])


class ListContradictionsInput(Input):
    """How many of each to list."""

    limit: int = Field(default=50, ge=1, le=1000, description="Maximum number of results.", examples=[10])


class ListContradictionsResult(Output):
    """The contradictions whose memories the caller sees both, newest first."""

    found: list[ContradictionView] = Field(examples=[[]])
    pending: list[ContradictionView]


class ContradictionInput(Input):
    """Which contradiction: its id or the beginning of it."""

    id: str = Field(
        min_length=1,
        max_length=64,
        description="The memory's id, or a unique beginning of it.",
        examples=["7c1e09ab"],
    )


class ContradictionResult(Output):
    """The contradiction concerned."""

    contradiction: ContradictionView


async def _list(context: Context, request: ListContradictionsInput) -> ListContradictionsResult:
    """List contradictions: those that were found, and pending ones that somebody has to judge."""
    found, pending = [
        await list_contradictions(context.engine, agent=context.agent, pending=pending, limit=request.limit)
        for pending in (False, True)
    ]
    return ListContradictionsResult(
        found=[_view(contradiction) for contradiction in found],
        pending=[_view(contradiction) for contradiction in pending],
    )


LIST_CONTRADICTIONS = operation("list_contradictions", _list, reads=True)


async def _undo(context: Context, request: ContradictionInput) -> ContradictionResult:
    """Undo a contradiction; it isn't found again.

    The links are removed and the importance is restored. Raises NotFound.
    """
    contradiction = await _find(context, FOUND, request)
    await settle(context.engine, contradiction.pair, by=context.agent)
    await withdraw(context.engine, contradiction.record)
    await delete_pair_record(context.engine, FOUND, contradiction.record)
    return ContradictionResult(contradiction=_view(contradiction))


UNDO_CONTRADICTION = operation("undo_contradiction", _undo, writes=True)


async def _confirm(context: Context, request: ContradictionInput) -> ContradictionResult:
    """Confirm a pending contradiction: the later memory supersedes the earlier one."""
    contradiction = await _find(context, PENDING, request)
    if not await resolve(context.engine, contradiction.pair, by=context.agent, confidence=1.0):
        raise MemoryNotFound(contradiction.pair.older.id)
    return ContradictionResult(contradiction=_view(contradiction))


CONFIRM_CONTRADICTION = operation("confirm_contradiction", _confirm, writes=True)


async def _dismiss(context: Context, request: ContradictionInput) -> ContradictionResult:
    """Dismiss a pending contradiction; it isn't raised again."""
    contradiction = await _find(context, PENDING, request)
    await settle(context.engine, contradiction.pair, by=context.agent)
    return ContradictionResult(contradiction=_view(contradiction))


DISMISS_CONTRADICTION = operation("dismiss_contradiction", _dismiss, writes=True)


async def _find(context: Context, kind: str, request: ContradictionInput) -> Contradiction:
    engine, agent, prefix = context.engine, context.agent, request.id.strip().lower()
    if not prefix:
        raise InvalidInput("An id is empty.", advice="`mindhold contradictions` shows them.")
    matches: list[Contradiction] = []
    for namespace in await pair_namespaces(engine, kind, agents=visible_agents(agent)):
        if len(prefix) < SHARD_CHARS or namespace == pair_namespace(kind, namespace.agent, prefix):
            records = [
                record for record in await pair_records(engine, namespace) if record.key.startswith(prefix)
            ]
            matches += await with_memories(engine, records, agent=agent, pending=kind == PENDING)
    if len(matches) > 1:
        raise InvalidInput(f"{prefix!r} begins several ids.", advice="Give more of it.")
    if not matches:
        what = "pending contradiction" if kind == PENDING else "contradiction"
        raise NotFound(f"There is no {what} {prefix!r}.", advice="`mindhold contradictions` shows them.")
    return matches[0]


def _view(contradiction: Contradiction) -> ContradictionView:
    return ContradictionView(
        id=contradiction.record.key,
        pending=contradiction.pending,
        older=_side(contradiction.pair.older),
        newer=_side(contradiction.pair.newer),
        found_by=contradiction.record.by,
        confidence=contradiction.record.confidence,
        similarity=contradiction.record.similarity,
        found=contradiction.record.created,
    )


def _side(memory: Memory) -> SideView:
    text = memory.content
    short = text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"
    return SideView(id=memory.id, content=short, occurred=memory.occurred, importance=memory.importance)
