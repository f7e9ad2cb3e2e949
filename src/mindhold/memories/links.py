"""Links between memories: drawing and removing them, and exploring the graph that they form."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from mindhold.engine import LEAST_TRUST, Engine
from mindhold.memories.hit_context import HIDDEN, Allowance, shortened
from mindhold.memories.views import LinkView, MemoryId, View
from mindhold.model.errors import InvalidInput, MemoryNotFound
from mindhold.model.memory import Link, Relation, Status
from mindhold.operations import Context, Input, Output, full_id, operation
from mindhold.ports.store import Connect, Disconnect


async def connect(
    engine: Engine, origin: str, target: str, *, relation: Relation, agent: str
) -> tuple[Link, bool]:
    """Link two memories; return the link, and whether it is new. Raises MemoryNotFound, InvalidInput for a link to itself."""
    if origin == target:
        raise InvalidInput("A memory can't be linked to itself.", advice="Name two different ids.")
    for end in (origin, target):
        if (await engine.store.get(end, viewer=agent)).status is Status.FORGOTTEN:
            raise MemoryNotFound(end)
    for link in await engine.store.links_of([origin], relations=(relation,), viewer=agent):
        if (link.origin, link.target) == (origin, target):
            return link, False
    link = Link(origin, target, relation, engine.clock())
    await engine.store.apply([Connect(link)])
    return link, True


class LinkInput(Input):
    """Two ends and what the first is to the second."""

    origin: MemoryId
    target: str = Field(
        description="The memory that the link leads to.", examples=["01m7gv9k5d2w8r6t1p0n4b3xya"]
    )
    relation: Relation = Field(
        default=Relation.RELATED, description="Kind of the link.", examples=["caused_by"]
    )


class LinkResult(Output):
    """The link, and whether it is new."""

    link: LinkView
    created: bool = Field(description="Whether something was created.", examples=[True])


class UnlinkInput(Input):
    """Two ends; every relation unless one is named."""

    origin: MemoryId
    target: str = Field(
        description="The memory that the link leads to.", examples=["01m7gv9k5d2w8r6t1p0n4b3xya"]
    )
    relation: Relation | None = Field(default=None, description="Kind of the link.")


class UnlinkResult(Output):
    """What was removed."""

    removed: list[LinkView]


async def _link(context: Context, request: LinkInput) -> LinkResult:
    """Say how two memories relate."""
    origin, target = await full_id(context, request.origin), await full_id(context, request.target)
    link, created = await connect(
        context.engine, origin, target, relation=request.relation, agent=context.agent
    )
    return LinkResult(link=LinkView.of(link), created=created)


LINK = operation("link", _link, writes=True)


async def _unlink(context: Context, request: UnlinkInput) -> UnlinkResult:
    """Remove links between two memories."""
    origin, target = await full_id(context, request.origin), await full_id(context, request.target)
    store, agent = context.engine.store, context.agent
    await store.get(origin, viewer=agent)
    await store.get(target, viewer=agent)
    relations = () if request.relation is None else (request.relation,)
    links = await store.links_of([origin], relations=relations, viewer=agent)
    links = [link for link in links if (link.origin, link.target) == (origin, target)]
    await store.apply([Disconnect(link.origin, link.target, link.relation) for link in links])
    return UnlinkResult(removed=[LinkView.of(link) for link in links])


UNLINK = operation("unlink", _unlink, writes=True)


def _strongest(links: Sequence[Link]) -> list[Link]:
    """Sort links: those that a person drew first, then by weight."""
    return sorted(links, key=lambda link: (link.automatic, -link.weight))


class ExploreInput(Input):
    """Where to begin, how far to go, along which relations."""

    start: MemoryId
    depth: int = Field(default=1, ge=1, le=5, description="Number of links from the start.", examples=[2])
    relations: list[Relation] = Field(
        default=[Relation.CAUSED_BY, Relation.RESOLVED_BY], description="Only follow links of these kinds."
    )
    limit: int = Field(default=50, ge=1, le=500, description="Maximum number of results.")


class NodeView(View):
    """A memory in a graph, and how many links it is away from the start."""

    id: str = Field(description="Its id.", examples=["01m7gv42a3fzcy3gb19vmek4q7"])
    content: str = Field(description="The text.", examples=["Staging listens on port 5433."])
    kind: str = Field(description="Its kind.", examples=["fact"])
    topic: str = Field(description="Topic, in a word or two.", examples=["staging"])
    importance: float = Field(description="Importance, from 0 to 1.", examples=[0.6])
    depth: int = Field(description="Number of links from the start.", examples=[0])


class ExploreResult(Output):
    """The start, what was reached (without the start, nearest first), and every link among them."""

    start: NodeView
    nodes: list[NodeView] = Field(
        examples=[[{"id": "01m7gv9k5d2w8r6t1p0n4b3xya", "content": "The proxy moved.", "depth": 1}]]
    )
    edges: list[LinkView]


async def _explore(context: Context, request: ExploreInput) -> ExploreResult:
    """Follow links from one memory.

    In both directions, visiting each memory once. Raises MemoryNotFound.
    """
    engine, agent = context.engine, context.agent
    store, recall = engine.store, engine.settings.recall
    start = await full_id(context, request.start)
    origin = await store.get(start, viewer=agent)
    if origin.status in HIDDEN or origin.trust < LEAST_TRUST:
        raise MemoryNotFound(start)
    first = shortened(origin, recall.longest_hit)
    characters = recall.longest_answer - len(first.content)
    allowance = Allowance(tokens=None, characters=characters, longest=recall.longest_hit)
    off = {scope.name for scope in await store.scopes() if not scope.active} - {origin.scope}
    nodes = {start: NodeView.fill(first, depth=0)}
    links: dict[tuple[str, str, Relation], Link] = {}
    frontier = [start]
    for depth in range(1, request.depth + 2):  # the last round only reads the links of the outermost memories
        if not frontier:
            break
        page = await store.links_of(frontier, relations=request.relations, viewer=agent)
        links |= {(link.origin, link.target, link.relation): link for link in page}
        ends = dict.fromkeys(end for link in _strongest(page) for end in (link.origin, link.target))
        fresh = [end for end in ends if end not in nodes] if depth <= request.depth else []
        memories = await store.get_many(fresh, viewer=agent) if fresh else {}
        frontier = []
        for memory_id in fresh:
            memory = memories.get(memory_id)
            if memory is None or memory.status in HIDDEN or memory.trust < LEAST_TRUST or memory.scope in off:
                continue
            if len(nodes) <= request.limit and (short := allowance.fitted(memory)) is not None:
                nodes[memory_id] = NodeView.fill(short, depth=depth)
                frontier.append(memory_id)
    among = [link for link in links.values() if link.origin in nodes and link.target in nodes]
    return ExploreResult(
        start=nodes.pop(start), nodes=list(nodes.values()), edges=[LinkView.of(link) for link in among]
    )


EXPLORE = operation(
    "explore", _explore, reads=True, shown_ids=lambda result: [node.id for node in result.nodes]
)
