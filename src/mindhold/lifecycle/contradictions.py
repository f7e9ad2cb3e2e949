"""Contradictions: list, confirm, dismiss and undo them. Nothing is deleted here."""

from __future__ import annotations

from collections.abc import Mapping
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
    SPREAD,
    MemoryPair,
    PairRecord,
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
    """A line with its memories, for somebody who sees both."""

    line: PairRecord
    pair: MemoryPair
    pending: bool


async def resolve(engine: Engine, pair: MemoryPair, *, by: str, confidence: float) -> bool:
    """The later one takes the earlier one's place, which stays readable. False where one of them is gone."""
    line = new_pair_record(engine, pair, by=by, confidence=confidence)
    done = await apply(engine, line)
    if not done:
        await delete_pair_record(engine, FOUND, line)
    await delete_pair_record(engine, PENDING, line)
    return done


async def postpone(engine: Engine, pair: MemoryPair, *, by: str, confidence: float) -> None:
    """For a model that answers, or a person."""
    await save_pair_record(engine, PENDING, new_pair_record(engine, pair, by=by, confidence=confidence))


async def settle(engine: Engine, pair: MemoryPair, *, by: str) -> None:
    """They don't contradict each other, whoever says so: not raised again while both say what they say."""
    line = new_pair_record(engine, pair, by=by, confidence=0.0)
    await save_pair_record(engine, SETTLED, line)
    await delete_pair_record(engine, PENDING, line)


async def undo_contradiction(engine: Engine, key: str, *, agent: str) -> Contradiction:
    """As if it had not been found: links gone, importance back, and never found again. Raises NotFound."""
    found = await _seen(engine, FOUND, key, agent=agent)
    await settle(engine, found.pair, by=agent)
    await withdraw(engine, found.line)
    await delete_pair_record(engine, FOUND, found.line)
    return found


async def confirm_contradiction(engine: Engine, key: str, *, agent: str) -> Contradiction:
    """A pending one is one. Raises NotFound."""
    found = await _seen(engine, PENDING, key, agent=agent)
    if not await resolve(engine, found.pair, by=agent, confidence=1.0):
        raise MemoryNotFound(found.pair.older.id)
    return found


async def dismiss_contradiction(engine: Engine, key: str, *, agent: str) -> Contradiction:
    """A pending one is none. Raises NotFound."""
    found = await _seen(engine, PENDING, key, agent=agent)
    await settle(engine, found.pair, by=agent)
    return found


async def list_contradictions(
    engine: Engine, *, agent: str, pending: bool, limit: int | None = None
) -> list[Contradiction]:
    """Those whose memories the caller sees both of, the newest first."""
    kind = PENDING if pending else FOUND
    lines: list[PairRecord] = []
    for drawer in await pair_namespaces(engine, kind, agents=visible_agents(agent)):
        lines += await pair_records(engine, drawer)
    lines.sort(key=lambda line: line.created, reverse=True)
    found: list[Contradiction] = []
    for start in range(0, len(lines), BATCH):
        found += await with_memories(engine, lines[start : start + BATCH], agent=agent, pending=pending)
        if limit is not None and len(found) >= limit:
            return found[:limit]
    return found


async def with_memories(
    engine: Engine, lines: list[PairRecord], *, agent: str, pending: bool
) -> list[Contradiction]:
    """Those of them whose memories are there, seen by the agent, and say what they said."""
    known = await engine.store.get_many(paired_ids(lines), viewer=agent)
    seen = (_of_line(line, known, pending=pending) for line in lines)
    return [one for one in seen if one is not None]


async def apply(engine: Engine, line: PairRecord) -> bool:
    """Draw the links and lower the older one, noting first what it had; False where one of them is gone.

    What was cut short is gone on with, and not done twice: links and importance change in one step.
    """
    if line.lowered is not None and await is_drawn(engine, line):
        await save_pair_record(engine, FOUND, replace(line, applied=True))
        return True
    for _ in range(TRIES):
        older = await _memory(engine, line.older)
        if older is None:
            return False
        line = _lowering(engine, line, older)
        await save_pair_record(engine, FOUND, line)
        try:
            await engine.store.apply([*links_of(line), *_lowered(line)])
        except MemoryNotFound:
            return False
        after = await _memory(engine, line.older)
        # Where somebody used or changed it in between, what they made of it is read, and lowered.
        if not line.importance or after is None or after.importance != older.importance:
            break
    await save_pair_record(engine, FOUND, replace(line, applied=True))
    return True


async def withdraw(engine: Engine, line: PairRecord) -> None:
    """What `apply` did, undone: by the same share, for it may have faded since; a value that somebody chose meanwhile stands."""
    if not line.applied and not await is_drawn(engine, line):
        return
    changes: list[Change] = [
        Disconnect(link.origin, link.target, link.relation)
        for change in links_of(line)
        if (link := change.link).origin and link.target
    ]
    older = await _memory(engine, line.older)
    if older is not None and line.importance and line.lowered_to and await _is_as_left(engine, older, line):
        now = engine.clock()
        back = min(1.0, round(older.importance * line.importance / line.lowered_to, 9))
        changes.append(Tend(older.id, importance=back, review=now, unless_since=now))
    await engine.store.apply(changes)


def links_of(line: PairRecord) -> list[Connect]:
    """Of what only a person may take the place of, the later one takes no place."""
    now = line.lowered or line.created
    drawn = [Link(line.newer, line.older, Relation.CONTRADICTS, now, weight=line.confidence, automatic=True)]
    if line.importance is not None:
        drawn.append(Link(line.older, line.newer, Relation.SUPERSEDED_BY, now, automatic=True))
    return [Connect(link) for link in drawn]


async def is_drawn(engine: Engine, line: PairRecord) -> bool:
    """Whether upkeep's link is there."""
    if not line.newer or not line.older:
        return False
    found = await engine.store.links_of([line.newer], relations=(Relation.CONTRADICTS,), viewer=EVERYONE)
    ours = (line.newer, line.older)
    return any(link.automatic and (link.origin, link.target) == ours for link in found)


def _lowering(engine: Engine, line: PairRecord, older: Memory) -> PairRecord:
    importance = None if is_kept_for_good(older) else older.importance
    lowered_to = None if importance is None else importance * OUTDATED_FACTOR
    return replace(line, importance=importance, lowered_to=lowered_to, lowered=engine.clock(), applied=False)


def _lowered(line: PairRecord) -> list[Change]:
    if line.importance is None or line.lowered is None:
        return []
    return [Tend(line.older, importance=line.lowered_to, review=line.lowered, unless_since=line.lowered)]


async def _is_as_left(engine: Engine, older: Memory, line: PairRecord) -> bool:
    """Whether no person set another importance since. Each amendment kept what was before it."""
    since = line.lowered or line.created
    if older.updated <= since:
        return True
    versions = await engine.store.versions_of(older.id)
    had = [version.importance for version in versions if version.amended > since]
    return all(isclose(one, two) for one, two in pairwise([*had, older.importance]))


async def _memory(engine: Engine, memory_id: str) -> Memory | None:
    return (await engine.store.get_many([memory_id], viewer=EVERYONE)).get(memory_id) if memory_id else None


async def _seen(engine: Engine, kind: str, key: str, *, agent: str) -> Contradiction:
    wanted = key.strip().lower()
    if not wanted:
        raise InvalidInput("An id is empty.", advice="`mindhold contradictions` shows them.")
    seen: list[Contradiction] = []
    for drawer in await pair_namespaces(engine, kind, agents=visible_agents(agent)):
        if len(wanted) < SPREAD or drawer == pair_namespace(kind, drawer.agent, wanted):
            lines = [line for line in await pair_records(engine, drawer) if line.key.startswith(wanted)]
            seen += await with_memories(engine, lines, agent=agent, pending=kind == PENDING)
    if len(seen) > 1:
        raise InvalidInput(f"{wanted!r} begins several ids.", advice="Give more of it.")
    if not seen:
        what = "pending contradiction" if kind == PENDING else "contradiction"
        raise NotFound(f"There is no {what} {wanted!r}.", advice="`mindhold contradictions` shows them.")
    return seen[0]


def _of_line(line: PairRecord, known: Mapping[str, Memory], *, pending: bool) -> Contradiction | None:
    """None where one is out of sight, not there now, or says something else by now."""
    older, newer = known.get(line.older), known.get(line.newer)
    if older is None or newer is None:
        return None
    pair = MemoryPair(older, newer, line.similarity)
    there = older.status is not Status.FORGOTTEN and newer.status is Status.ACTIVE
    return Contradiction(line, pair, pending) if there and line.is_of(pair) else None


LONGEST = 400  # characters of each text


class SideView(Output):
    """One of the two."""

    id: str = Field(description="Its id.", examples=["01m7gv42a3fzcy3gb19vmek4q7"])
    content: str = Field(description="The text.", examples=["Staging listens on port 5432."])
    occurred: datetime = Field(description="When it happened.", examples=["2026-11-02T08:15:00Z"])
    importance: float = Field(description="Importance, from 0 to 1.", examples=[0.5])


class ContradictionView(Output):
    """Two memories of which the later denies the earlier, or may."""

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
    """How many of each."""

    limit: int = Field(default=50, ge=1, le=1000, description="Maximum number of results.", examples=[10])


class ListContradictionsResult(Output):
    """Those that the caller sees both sides of, the newest first."""

    found: list[ContradictionView] = Field(examples=[[]])
    pending: list[ContradictionView]


class ContradictionInput(Input):
    """Which one; the beginning of its id suffices."""

    id: str = Field(
        min_length=1,
        max_length=64,
        description="The memory's id, or a unique beginning of it.",
        examples=["7c1e09ab"],
    )


class ContradictionResult(Output):
    """The one that it was about."""

    contradiction: ContradictionView


async def _list(context: Context, request: ListContradictionsInput) -> ListContradictionsResult:
    """Memories that deny each other: found ones, and those that wait for somebody to judge them."""
    found, pending = [
        await list_contradictions(context.engine, agent=context.agent, pending=pending, limit=request.limit)
        for pending in (False, True)
    ]
    return ListContradictionsResult(
        found=[_view(one) for one in found], pending=[_view(one) for one in pending]
    )


LIST_CONTRADICTIONS = operation("list_contradictions", _list, reads=True)


async def _undo(context: Context, request: ContradictionInput) -> ContradictionResult:
    """Take a found contradiction back; it isn't found again."""
    return ContradictionResult(
        contradiction=_view(await undo_contradiction(context.engine, request.id, agent=context.agent))
    )


UNDO_CONTRADICTION = operation("undo_contradiction", _undo, writes=True)


async def _confirm(context: Context, request: ContradictionInput) -> ContradictionResult:
    """Say that a pending one is one: the later memory takes the earlier one's place."""
    return ContradictionResult(
        contradiction=_view(await confirm_contradiction(context.engine, request.id, agent=context.agent))
    )


CONFIRM_CONTRADICTION = operation("confirm_contradiction", _confirm, writes=True)


async def _dismiss(context: Context, request: ContradictionInput) -> ContradictionResult:
    """Say that a pending one is none; it isn't raised again."""
    return ContradictionResult(
        contradiction=_view(await dismiss_contradiction(context.engine, request.id, agent=context.agent))
    )


DISMISS_CONTRADICTION = operation("dismiss_contradiction", _dismiss, writes=True)


def _view(one: Contradiction) -> ContradictionView:
    return ContradictionView(
        id=one.line.key,
        pending=one.pending,
        older=_side(one.pair.older),
        newer=_side(one.pair.newer),
        found_by=one.line.by,
        confidence=one.line.confidence,
        similarity=one.line.similarity,
        found=one.line.created,
    )


def _side(memory: Memory) -> SideView:
    text = memory.content
    short = text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"
    return SideView(id=memory.id, content=short, occurred=memory.occurred, importance=memory.importance)
