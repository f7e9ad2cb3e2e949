"""Finding a memory's kin by meaning: at once for a few, by a job for many."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from mindhold.engine.core import Engine
from mindhold.engine.kinship import Kin, kin_of, superseding
from mindhold.model.job import Job
from mindhold.model.link import Relation
from mindhold.model.memory import Memory, Status
from mindhold.model.query import Filter, Vector
from mindhold.ports.store import Change, Connect, Inherit, Put

RELATE = "relate"
DRAWN = (Relation.RELATED, Relation.RESOLVED_BY, Relation.SUPERSEDED_BY)
LOOKED_AT = 16  # those of other topics among them are passed over


def relate_job(engine: Engine, ids: Sequence[str]) -> Job:
    """The job that relates memories which were stored in bulk."""
    now = engine.clock()
    return Job(id=engine.new_id(), name=RELATE, created=now, due=now, payload={"ids": list(ids)})


async def kin_by_meaning(engine: Engine, puts: Sequence[Put]) -> dict[str, Kin]:
    """Kin of records that are about to be written; those without a vector have none."""
    return await _kin(engine, [(put.memory, put.vector) for put in puts if put.vector is not None])


async def relate(engine: Engine, ids: Sequence[str]) -> int:
    """Link stored memories to their kin; older ones that they repeat are superseded. Returns the changes made."""
    model = engine.meaning.model
    if model is None:
        return 0
    vectors = await engine.store.vector_of(ids, model=model)
    memories = await engine.store.get_many(list(vectors), viewer="system")
    active = [memory for memory in memories.values() if memory.status is Status.ACTIVE]
    kin = await _kin(engine, [(memory, vectors[memory.id]) for memory in active])
    links = await engine.store.links_of(list(kin), relations=DRAWN, viewer="system")
    drawn = {frozenset((link.origin, link.target)) for link in links}
    had = Counter(max(link.origin, link.target) for link in links if link.automatic)
    changes: list[Change] = []
    retired: set[str] = set()
    for memory in active:
        own = kin.get(memory.id, Kin())
        if memory.id in retired:
            continue
        older = [old for old in own.superseded if old.id < memory.id and old.id not in retired]
        retired.update(old.id for old in older)
        if older:
            changes.append(_inheritance(memory, older))
            changes.extend(superseding(memory, older, now=memory.updated))
        fresh = [
            Connect(link)
            for link in own.links(memory.id, now=engine.clock())
            # Each pair once, when the later of the two is looked at; what is drawn already stays as it is.
            if max(link.origin, link.target) == memory.id
            and frozenset((link.origin, link.target)) not in drawn
        ]
        changes.extend(fresh[: max(0, engine.policy.most_links - had[memory.id])])
    if changes:
        await engine.store.apply(changes)
    return len(changes)


def _inheritance(memory: Memory, older: Sequence[Memory]) -> Inherit:
    return Inherit(
        memory.id,
        supersedes=older[0].id,
        importance=max(old.importance for old in older),
        uses=sum(old.uses for old in older),
    )


async def _kin(engine: Engine, items: Sequence[tuple[Memory, Vector | None]]) -> dict[str, Kin]:
    model = engine.meaning.model
    groups: dict[tuple[str, str], list[tuple[Memory, Vector]]] = defaultdict(list)
    for memory, vector in items:
        if vector is not None:
            groups[memory.scope, memory.agent].append((memory, vector))
    kin: dict[str, Kin] = {}
    for (scope, agent), members in groups.items():
        if model is None:
            continue
        where = Filter(viewer=agent, scopes=(scope,), agents=(agent,))
        near = await engine.store.nearest(
            [vector for _, vector in members], model=model, where=where, limit=LOOKED_AT
        )
        known = await engine.store.get_many(list({hit.id for hits in near for hit in hits}), viewer=agent)
        for (memory, _), hits in zip(members, near, strict=True):
            others = [
                (known[hit.id], engine.meaning.similarity(hit.cosine))
                for hit in hits
                if hit.id in known and hit.id != memory.id
            ]
            kin[memory.id] = kin_of(memory, others, engine.policy)
    return kin
