"""Links that a caller draws."""

from __future__ import annotations

from collections.abc import Sequence

from mindhold.engine.core import Engine
from mindhold.model.errors import InvalidInput, MemoryNotFound
from mindhold.model.link import Link, Relation
from mindhold.model.memory import Status
from mindhold.ports.store import Connect, Disconnect


async def connect(
    engine: Engine, origin: str, target: str, *, relation: Relation, agent: str
) -> tuple[Link, bool]:
    """The link, and whether it is new. Raises MemoryNotFound, InvalidInput for a link to itself."""
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


async def disconnect(
    engine: Engine, origin: str, target: str, *, relation: Relation | None, agent: str
) -> list[Link]:
    """The links that were removed, of one relation or of all. Raises MemoryNotFound."""
    await engine.store.get(origin, viewer=agent)
    await engine.store.get(target, viewer=agent)
    wanted: Sequence[Relation] = () if relation is None else (relation,)
    found = [
        link
        for link in await engine.store.links_of([origin], relations=wanted, viewer=agent)
        if (link.origin, link.target) == (origin, target)
    ]
    await engine.store.apply([Disconnect(link.origin, link.target, link.relation) for link in found])
    return found
