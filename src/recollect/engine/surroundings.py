"""What stands around a hit: linked memories, and its neighbours in the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from recollect.engine.core import Engine
from recollect.model.link import Link, Relation
from recollect.model.memory import Memory, Status
from recollect.model.query import Filter
from recollect.model.tokens import count_tokens

MOST_LINKED = 10
MOST_TURNS = 200
HIDDEN = frozenset({Status.FORGOTTEN, Status.QUARANTINED})


@dataclass(frozen=True, slots=True)
class LinkedMemory:
    """A memory at the other end of a link."""

    link: Link
    memory: Memory


class Allowance:
    """What is left for what stands around the hits, in tokens (None: no limit) and in characters."""

    def __init__(self, *, tokens: int | None, characters: int, longest: int) -> None:
        self._tokens = tokens
        self._characters = characters
        self._longest = longest

    def fitted(self, memory: Memory) -> Memory | None:
        """The memory, shortened if it is long; None when there is no room for it. Taken memories are counted."""
        short = shortened(memory, self._longest)
        if len(short.content) > self._characters:
            return None
        if self._tokens is not None:
            if short.tokens > self._tokens:
                return None
            self._tokens -= short.tokens
        self._characters -= len(short.content)
        return short


def shortened(memory: Memory, longest: int) -> Memory:
    """The memory with at most so many characters of its content."""
    if len(memory.content) <= longest:
        return memory
    content = memory.content[: longest - 1].rstrip() + "…"
    return replace(memory, content=content, tokens=count_tokens(content))


async def linked(
    engine: Engine,
    memories: Sequence[Memory],
    *,
    relations: Sequence[Relation],
    where: Filter,
    allowance: Allowance,
) -> dict[str, tuple[LinkedMemory, ...]]:
    """By id, the memories one link away, the strongest links first; at most ten in all, none twice, no hit again."""
    ids = [memory.id for memory in memories]
    links = await engine.store.links_of(ids, relations=relations, viewer=where.viewer)
    known = set(ids)
    ends = {end for link in links for end in (link.origin, link.target)} - known
    others = await engine.store.get_many(list(ends), viewer=where.viewer)
    found: dict[str, list[LinkedMemory]] = {}
    taken = 0
    for link in sorted(links, key=lambda each: (each.automatic, -each.weight)):
        near, far = (link.origin, link.target) if link.origin in known else (link.target, link.origin)
        other = others.get(far)
        if other is None or taken >= MOST_LINKED or not _may_come_along(other, where):
            continue
        short = allowance.fitted(other)
        if short is not None:
            found.setdefault(near, []).append(LinkedMemory(link, short))
            taken += 1
        del others[far]
    return {memory_id: tuple(items) for memory_id, items in found.items()}


async def around(
    engine: Engine, memory: Memory, *, reach: int, where: Filter, allowance: Allowance
) -> tuple[tuple[Memory, ...], tuple[Memory, ...]]:
    """The turns before and after a memory in its conversation, nearest kept first when tokens are short."""
    position, conversation = memory.provenance.position, memory.provenance.conversation
    if position is None or conversation is None:
        return (), ()
    near = Filter(
        viewer=where.viewer,
        scopes=where.scopes,
        conversation=conversation,
        positions=(position - reach, position + reach),
        minimum_trust=where.minimum_trust,
    )
    found = await engine.store.find(near, limit=MOST_TURNS)
    turns = [turn for turn in found if turn.provenance.position not in (None, position)]
    turns.sort(key=lambda turn: abs((turn.provenance.position or 0) - position))
    kept = [short for turn in turns if (short := allowance.fitted(turn)) is not None]
    kept.sort(key=lambda turn: turn.provenance.position or 0)
    before = tuple(turn for turn in kept if (turn.provenance.position or 0) < position)
    return before, tuple(turn for turn in kept if (turn.provenance.position or 0) > position)


def _may_come_along(memory: Memory, where: Filter) -> bool:
    trusted = memory.status not in HIDDEN and memory.trust >= where.minimum_trust
    return trusted and (not where.scopes or memory.scope in where.scopes)
