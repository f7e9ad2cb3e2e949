"""Following links from one memory: what caused what, and what resolved it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mindhold.engine.core import LEAST_TRUST, Engine
from mindhold.engine.surroundings import HIDDEN, Allowance, shortened
from mindhold.model.errors import MemoryNotFound
from mindhold.model.link import Link, Relation
from mindhold.model.memory import Memory


@dataclass(frozen=True, slots=True)
class Node:
    """A memory, shortened when it is long, and how many links it is away."""

    memory: Memory
    depth: int


@dataclass(frozen=True, slots=True)
class Graph:
    """What was reached from the start, nearest first, and every link of those relations among all of them."""

    start: Node
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]


async def explore(
    engine: Engine, start: str, *, depth: int, relations: Sequence[Relation], limit: int, agent: str
) -> Graph:
    """Links are followed both ways, each memory is visited once. Raises MemoryNotFound."""
    origin = await engine.store.get(start, viewer=agent)
    if origin.status in HIDDEN or origin.trust < LEAST_TRUST:
        raise MemoryNotFound(start)
    first = shortened(origin, engine.policy.longest_hit)
    allowance = Allowance(
        tokens=None,
        characters=engine.policy.longest_answer - len(first.content),
        longest=engine.policy.longest_hit,
    )
    off = {scope.name for scope in await engine.store.scopes() if not scope.active} - {origin.scope}
    nodes = {start: Node(first, 0)}
    links: dict[tuple[str, str, Relation], Link] = {}
    frontier = [start]
    for level in range(1, depth + 1):
        found = await engine.store.links_of(frontier, relations=relations, viewer=agent)
        links |= {(link.origin, link.target, link.relation): link for link in found}
        ends = dict.fromkeys(end for link in _strongest(found) for end in (link.origin, link.target))
        fresh = [end for end in ends if end not in nodes]
        memories = await engine.store.get_many(fresh, viewer=agent) if fresh else {}
        frontier = []
        for memory_id in fresh:
            memory = memories.get(memory_id)
            if memory is None or memory.status in HIDDEN or memory.trust < LEAST_TRUST or len(nodes) > limit:
                continue
            if memory.scope in off:
                continue
            if (short := allowance.fitted(memory)) is not None:
                nodes[memory_id] = Node(short, level)
                frontier.append(memory_id)
        if not frontier:
            break
    if frontier:
        found = await engine.store.links_of(frontier, relations=relations, viewer=agent)
        links |= {(link.origin, link.target, link.relation): link for link in found}
    among = [link for link in links.values() if link.origin in nodes and link.target in nodes]
    return Graph(nodes.pop(start), tuple(nodes.values()), tuple(among))


def _strongest(links: Sequence[Link]) -> list[Link]:
    """Those that a person drew first, then by weight."""
    return sorted(links, key=lambda link: (link.automatic, -link.weight))
