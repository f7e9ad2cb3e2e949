"""What stands around a hit: linked memories, and its neighbours in the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recollect.engine.core import Engine
from recollect.model.link import Link, Relation
from recollect.model.memory import Memory, Status
from recollect.model.query import Filter

MOST_LINKED = 10
HIDDEN = frozenset({Status.FORGOTTEN, Status.QUARANTINED})


@dataclass(frozen=True, slots=True)
class LinkedMemory:
    """A memory at the other end of a link."""

    link: Link
    memory: Memory


class Allowance:
    """How many tokens are left for what stands around; None is no limit."""

    def __init__(self, tokens: int | None) -> None:
        self._left = tokens

    def takes(self, memory: Memory) -> bool:
        """Whether it fits; if so, it is counted."""
        if self._left is None:
            return True
        if memory.tokens > self._left:
            return False
        self._left -= memory.tokens
        return True


async def linked(
    engine: Engine,
    memories: Sequence[Memory],
    *,
    relations: Sequence[Relation],
    agent: str,
    allowance: Allowance,
) -> dict[str, tuple[LinkedMemory, ...]]:
    """By id, the memories one link away, the strongest links first; at most ten in all, none twice, no hit again."""
    ids = [memory.id for memory in memories]
    links = await engine.store.links_of(ids, relations=relations, viewer=agent)
    known = set(ids)
    ends = {end for link in links for end in (link.origin, link.target)} - known
    others = await engine.store.get_many(list(ends), viewer=agent)
    found: dict[str, list[LinkedMemory]] = {}
    taken = 0
    for link in sorted(links, key=lambda each: (each.automatic, -each.weight)):
        near, far = (link.origin, link.target) if link.origin in known else (link.target, link.origin)
        other = others.get(far)
        if other is None or other.status in HIDDEN or taken >= MOST_LINKED or not allowance.takes(other):
            continue
        found.setdefault(near, []).append(LinkedMemory(link, other))
        del others[far]
        taken += 1
    return {memory_id: tuple(items) for memory_id, items in found.items()}


async def around(
    engine: Engine, memory: Memory, *, reach: int, agent: str, allowance: Allowance
) -> tuple[tuple[Memory, ...], tuple[Memory, ...]]:
    """The turns before and after a memory in its conversation, nearest kept first when tokens are short."""
    position, conversation = memory.provenance.position, memory.provenance.conversation
    if position is None or conversation is None:
        return (), ()
    where = Filter(viewer=agent, conversation=conversation)
    turns: list[Memory] = []
    async for batch in engine.store.scan(where):
        turns.extend(
            turn
            for turn in batch
            if turn.id != memory.id
            and turn.provenance.position is not None
            and 0 < abs(turn.provenance.position - position) <= reach
        )
    turns.sort(key=lambda turn: abs((turn.provenance.position or 0) - position))
    kept = [turn for turn in turns if allowance.takes(turn)]
    kept.sort(key=lambda turn: turn.provenance.position or 0)
    before = tuple(turn for turn in kept if (turn.provenance.position or 0) < position)
    return before, tuple(turn for turn in kept if turn not in before)
