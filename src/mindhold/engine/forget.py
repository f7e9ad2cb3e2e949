"""Forgetting: soft hides at once and can be undone; hard leaves nothing and proves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mindhold.engine.capture.blanking import blank_leaflets, off_the_leaflets
from mindhold.engine.capture.erased import note_erased
from mindhold.engine.core import Engine
from mindhold.engine.recap_undo import hide_recaps, remake, with_derived
from mindhold.model.errors import Changed, InvalidInput, MemoryNotFound, Refused
from mindhold.model.life import PROFILE, is_going, is_kept_for_good
from mindhold.model.link import Relation
from mindhold.model.memory import Memory, Status
from mindhold.ports.store import Change, Mark, Receipt


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was forgotten; `receipt` is there when it was for good."""

    memories: tuple[Memory, ...]
    receipt: Receipt | None = None


async def forget(engine: Engine, ids: Sequence[str], *, agent: str, force: bool = False) -> Forgotten:
    """Hide memories everywhere. A permanent or anchored one only with `force`.

    The other parts of a split document go with any of its parts. Raises MemoryNotFound, Refused.
    """
    memories = await _with_parts(
        engine, await forgettable(engine, ids, agent=agent, force=force), agent=agent
    )
    now = engine.clock()
    changes: list[Change] = [
        Mark(memory.id, Status.FORGOTTEN, previous=memory.status, updated=now)
        for memory in memories
        if memory.status is not Status.FORGOTTEN
    ]
    if changes:
        await engine.store.apply(changes)
        await hide_recaps(engine, memories)
        await blank_leaflets(engine)
    return Forgotten(tuple(memory for memory in memories if memory.status is not Status.FORGOTTEN))


async def unforget(engine: Engine, ids: Sequence[str], *, agent: str) -> list[Memory]:
    """Undo a soft forget, or bring back from the archive.

    What somebody else changes at that moment doesn't come back. Raises MemoryNotFound, Refused for one that is neither
    forgotten nor archived, or on its way out for good, Changed, Conflict.
    """
    memories = await _with_parts(engine, await forgettable(engine, ids, agent=agent, force=True), agent=agent)
    for memory in memories:
        if memory.status not in (Status.FORGOTTEN, Status.ARCHIVED):
            raise Refused(f"The memory {memory.id} is neither forgotten nor archived: it is {memory.status}.")
        if is_going(memory):
            raise Refused(f"The memory {memory.id} was archived for its time, and is being removed for good.")
    now = engine.clock()
    back = [
        replace(memory, status=memory.previous_status or Status.ACTIVE, previous_status=None, updated=now)
        for memory in memories
    ]
    marks = [
        Mark(memory.id, new.status, previous=None, updated=now, only_from=memory.status)
        for memory, new in zip(memories, back, strict=True)
    ]
    await engine.store.apply(list[Change](marks))
    there = await engine.store.get_many([memory.id for memory in back], viewer=agent)
    for memory in back:
        if memory.id not in there:
            raise MemoryNotFound(memory.id)
        if there[memory.id].status is not memory.status:
            raise Changed(
                f"The memory {memory.id} was changed meanwhile: it is {there[memory.id].status}.",
                advice="Look at it, then try again.",
            )
    return back


async def erase(engine: Engine, ids: Sequence[str], *, agent: str, force: bool = False) -> Forgotten:
    """Remove memories, all that was derived from them and every trace in the index; returns the proof.

    What was merged from an erased memory repeats its words, so it goes too. Raises MemoryNotFound, Refused.
    """
    memories = await _with_parts(
        engine, await forgettable(engine, ids, agent=agent, force=force), agent=agent
    )
    named = {memory.id for memory in memories}
    doomed = await with_derived(engine, memories)
    await note_erased(engine, list(doomed.values()))
    receipt = await off_the_leaflets(engine, await engine.store.erase(list(doomed)))
    # A summary that somebody names is not wanted; one that went along is made anew.
    await remake(engine, (one for one in doomed.values() if one.id not in named), besides=set(doomed))
    return Forgotten(tuple(doomed.values()), receipt)


async def forgettable(engine: Engine, ids: Sequence[str], *, agent: str, force: bool) -> list[Memory]:
    """The memories, all of which may go. Raises MemoryNotFound, Refused for one that is kept for good."""
    if not ids:
        raise InvalidInput("Nothing was named to forget.", advice="Give at least one id.")
    found = await engine.store.get_many(ids, viewer=agent)
    for memory_id in ids:
        if memory_id not in found:
            raise MemoryNotFound(memory_id)
        memory = found[memory_id]
        if not force and needs_force(memory):
            raise Refused(
                f"The memory {memory_id} is kept for good ({'an anchor' if memory.anchor else 'permanent'}).",
                advice="Say so with `force`.",
            )
    return list(found.values())


def needs_force(memory: Memory) -> bool:
    """Whether it goes only by force. What people said of themselves they take back as they like, though no upkeep may."""
    return is_kept_for_good(memory) and PROFILE not in memory.metadata


async def kept_for_good(engine: Engine, ids: Sequence[str], *, agent: str) -> list[Memory]:
    """Those of them that only go by force: anchors, and permanent ones."""
    found = await engine.store.get_many(ids, viewer=agent)
    return [memory for memory in found.values() if needs_force(memory)]


async def _with_parts(engine: Engine, memories: Sequence[Memory], *, agent: str) -> list[Memory]:
    """A split document is forgotten whole: its parts hang on the first one by part_of."""
    known = {memory.id: memory for memory in memories}
    relations = (Relation.PART_OF,)
    roots = {
        link.target
        for link in await engine.store.links_of(list(known), relations=relations, viewer=agent)
        if link.automatic
    }
    if roots:
        links = await engine.store.links_of(list(roots), relations=relations, viewer=agent)
        ends = {end for link in links if link.automatic for end in (link.origin, link.target)}
        known.update(await engine.store.get_many(list(ends - known.keys()), viewer=agent))
    return list(known.values())
