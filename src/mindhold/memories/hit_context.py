"""The context of a hit: linked memories, disputes, and its neighbours in the conversation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mindhold.engine import Engine
from mindhold.model.memory import Link, Memory, Relation, Status
from mindhold.model.query import Filter
from mindhold.model.tokens import count_tokens

MOST_TURNS = 200
FIRST_WORDS = 60  # characters of a hit that another hit links to
MOST_DISPUTED = 10  # disputes per hit
READ_AHEAD = 3  # so many times the limit is read at once, for some memories are hidden or too long
DISPUTES = (Relation.CONTRADICTS, Relation.SUPERSEDED_BY)
HIDDEN = frozenset({Status.FORGOTTEN, Status.QUARANTINED})


@dataclass(frozen=True, slots=True)
class LinkedMemory:
    """A memory at the other end of a link."""

    link: Link
    memory: Memory


@dataclass(frozen=True, slots=True)
class Disputes:
    """Ids of memories that a memory contradicts, that contradict it, and that superseded it."""

    contradicts: tuple[str, ...] = ()
    contradicted_by: tuple[str, ...] = ()
    superseded_by: tuple[str, ...] = ()


UNDISPUTED = Disputes()


class Allowance:
    """What is left for the context of hits, in tokens (None: no limit) and in characters."""

    def __init__(self, *, tokens: int | None, characters: int, longest: int) -> None:
        self._tokens = tokens
        self._characters = characters
        self._longest = longest

    def fitted(self, memory: Memory) -> Memory | None:
        """Return the memory, shortened if it is long, and deduct it; None if there is no room for it."""
        short = shortened(memory, self._longest)
        if len(short.content) > self._characters:
            return None
        if self._tokens is not None:
            short = recounted(short)
            if short.tokens > self._tokens:
                return None
            self._tokens -= short.tokens
        self._characters -= len(short.content)
        return short


class Ties:
    """The links of some memories, read once, and the memories at their other ends."""

    def __init__(
        self, engine: Engine, memories: Sequence[Memory], links: Sequence[Link], where: Filter
    ) -> None:
        self._engine = engine
        self._where = where
        self._hits = {memory.id: memory for memory in memories}
        self._links = sorted(links, key=lambda each: (each.automatic, -each.weight))
        self._read: dict[str, Memory] = {}

    async def disputes(self) -> dict[str, Disputes]:
        """Return the disputes of each hit by id, strongest links first and limited in number; without those that have none."""
        links = self._disputing()
        if not links:
            return {}
        await self._look_at([end for link in links for end in (link.origin, link.target)])
        by_memory: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for link in links:
            if self._stands(link.origin) and self._stands(link.target):
                if link.relation is Relation.CONTRADICTS:
                    by_memory[link.origin]["contradicts"].append(link.target)
                    by_memory[link.target]["contradicted_by"].append(link.origin)
                else:
                    by_memory[link.origin]["superseded_by"].append(link.target)
        return {
            memory_id: Disputes(**{name: tuple(ids) for name, ids in by_relation.items()})
            for memory_id, by_relation in by_memory.items()
            if memory_id in self._hits
        }

    def _disputing(self) -> list[Link]:
        links: list[Link] = []
        counts: Counter[str] = Counter()
        for link in self._links:
            near = [end for end in (link.origin, link.target) if end in self._hits]
            if link.relation in DISPUTES and any(counts[end] < MOST_DISPUTED for end in near):
                links.append(link)
                counts.update(near)
        return links

    async def linked(
        self, relations: Sequence[Relation], allowance: Allowance
    ) -> dict[str, tuple[LinkedMemory, ...]]:
        """Return the memories one link away by the hit's id, strongest links first; limited in total, none twice.

        A hit that another hit links to, by more than `related`, is included with its first words only.
        """
        most = self._engine.settings.recall.most_linked
        ends = {
            far: (near, link)
            for link in reversed(self._links)  # the strongest of several links to one memory is stored last
            if not relations or link.relation in relations
            for near, far in [self._ends(link)]
            if far not in self._hits
        }
        waiting = list(reversed(ends.items()))
        linked: dict[str, list[LinkedMemory]] = {}
        count = 0
        while waiting and count < most:
            page, waiting = waiting[: most * READ_AHEAD], waiting[most * READ_AHEAD :]
            await self._look_at([far for far, _ in page])
            for far, (near, link) in page:
                if count < most and self._stands(far):
                    short = allowance.fitted(self._read[far])
                    if short is not None:
                        linked.setdefault(near, []).append(LinkedMemory(link, short))
                        count += 1
        for link in self._between(relations)[: most - count]:
            if (short := allowance.fitted(shortened(self._hits[link.target], FIRST_WORDS))) is not None:
                linked.setdefault(link.origin, []).append(LinkedMemory(link, short))
        return {memory_id: tuple(items) for memory_id, items in linked.items()}

    def _between(self, relations: Sequence[Relation]) -> list[Link]:
        return [
            link
            for link in self._links
            if link.origin in self._hits
            and link.target in self._hits
            and link.relation is not Relation.RELATED
            and (not relations or link.relation in relations)
        ]

    def _ends(self, link: Link) -> tuple[str, str]:
        return (link.origin, link.target) if link.origin in self._hits else (link.target, link.origin)

    async def _look_at(self, ids: Sequence[str]) -> None:
        missing = [
            memory_id
            for memory_id in dict.fromkeys(ids)
            if memory_id not in self._hits and memory_id not in self._read
        ]
        if missing:
            self._read |= await self._engine.store.get_many(missing, viewer=self._where.viewer)

    def _stands(self, memory_id: str) -> bool:
        """Whether the memory may be named: it is a hit, or visible within the filter."""
        other = self._read.get(memory_id)
        return memory_id in self._hits or (other is not None and _may_come_along(other, self._where))


def shortened(memory: Memory, longest: int) -> Memory:
    """Return the memory with its content cut to so many characters."""
    if len(memory.content) <= longest:
        return memory
    content = memory.content[: longest - 1].rstrip() + "…"
    return replace(memory, content=content, tokens=count_tokens(content))


def recounted(memory: Memory) -> Memory:
    """Return the memory with the tokens of its content counted anew."""
    tokens = count_tokens(memory.content)
    return memory if tokens == memory.tokens else replace(memory, tokens=tokens)


async def ties_of(
    engine: Engine, memories: Sequence[Memory], *, relations: Sequence[Relation] | None, where: Filter
) -> Ties:
    """Read disputes, and links of these relations (empty: all; None: no others), at once."""
    read_relations = DISPUTES if relations is None else tuple({*relations, *DISPUTES}) if relations else ()
    ids = [memory.id for memory in memories]
    links = await engine.store.links_of(ids, relations=read_relations, viewer=where.viewer) if ids else []
    return Ties(engine, memories, links, where)


async def around(
    engine: Engine, memory: Memory, *, reach: int, where: Filter, allowance: Allowance
) -> tuple[tuple[Memory, ...], tuple[Memory, ...]]:
    """Return the turns before and after a memory in its conversation; the nearest first if tokens are short."""
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
    neighbours = await engine.store.find(near, limit=MOST_TURNS)
    turns = [turn for turn in neighbours if turn.provenance.position not in (None, position)]
    turns.sort(key=lambda turn: abs((turn.provenance.position or 0) - position))
    fitting = [short for turn in turns if (short := allowance.fitted(turn)) is not None]
    fitting.sort(key=lambda turn: turn.provenance.position or 0)
    before = tuple(turn for turn in fitting if (turn.provenance.position or 0) < position)
    return before, tuple(turn for turn in fitting if (turn.provenance.position or 0) > position)


def _may_come_along(memory: Memory, where: Filter) -> bool:
    trusted = memory.status not in HIDDEN and memory.trust >= where.minimum_trust
    return trusted and (not where.scopes or memory.scope in where.scopes)
