"""Taking memories out of the way: into the archive first, for good long after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from math import isclose

from recollect.engine.core import Engine
from recollect.model.errors import Conflict, MemoryNotFound
from recollect.model.life import Fate, fate_of, next_review
from recollect.model.memory import Memory, Status
from recollect.ports.store import Change, Mark, Tend

TRIES = 3


async def archive(
    engine: Engine, leaving: Mapping[str, tuple[Memory, Memory]], *, read: datetime
) -> set[str]:
    """Archive these, given as they were read and as upkeep left them; which of them went.

    What somebody used or changed meanwhile comes back.
    """
    await apply_to_existing(
        engine, [Mark(one, Status.ARCHIVED, Status.ACTIVE, read, only_from=Status.ACTIVE) for one in leaving]
    )
    now = await engine.store.get_many(list(leaving), viewer="system")
    gone = {one.id: one for one in now.values() if one.status is Status.ARCHIVED}
    stirred = {name for name, one in gone.items() if _is_stirred(*leaving[name], one)}
    for name in stirred:
        await _bring_back(engine, *leaving[name], gone[name])
    reviews = [
        Tend(name, review=next_review(one, read, engine.policy.life))
        for name, one in gone.items()
        if name not in stirred
    ]
    await engine.store.apply(reviews)
    return gone.keys() - stirred


async def erase(engine: Engine, ids: Sequence[str]) -> set[str]:
    """Remove those that are to go still; which went. Their words may live on in what was made of them."""
    now, life = engine.clock(), engine.policy.life
    known = await engine.store.get_many(ids, viewer="system")
    doomed = [one.id for one in known.values() if fate_of(one, now, life)[0] is Fate.ERASED]
    if not doomed:
        return set()
    return set((await engine.store.erase(doomed)).ids)


async def apply_to_existing(engine: Engine, marks: Sequence[Mark]) -> None:
    """All of them, but for those whose record somebody erases meanwhile."""
    for _ in range(TRIES):
        try:
            await engine.store.apply(list[Change](marks))
            break
        except MemoryNotFound:
            known = await engine.store.get_many([mark.memory_id for mark in marks], viewer="system")
            marks = [mark for mark in marks if mark.memory_id in known]


async def _bring_back(engine: Engine, before: Memory, tended: Memory, now: Memory) -> None:
    """What was only shown or used is as old as it was; of what was amended the time is lost, so it is now."""
    updated = engine.clock() if _is_amended(before, tended, now) else before.updated
    back = Mark(now.id, Status.ACTIVE, None, updated, only_from=Status.ARCHIVED)
    try:
        await apply_to_existing(engine, [back])
    except Conflict:  # the same was remembered anew
        return


def _is_stirred(before: Memory, tended: Memory, now: Memory) -> bool:
    """Whether somebody used or changed it since it was read."""
    counted = (before.uses, before.shown) == (now.uses, now.shown)
    rated = not _is_close(now.usefulness, tended.usefulness)
    return not counted or rated or _is_amended(before, tended, now)


def _is_amended(before: Memory, tended: Memory, now: Memory) -> bool:
    """Upkeep itself may have been passed over: then the importance is as it was."""
    if not _is_close(now.importance, tended.importance) and not _is_close(now.importance, before.importance):
        return True
    stated = ("content_hash", "kind", "topic", "tags", "keywords", "anchor", "occurred", "metadata")
    return any(getattr(before, name) != getattr(now, name) for name in stated)


def _is_close(one: float, other: float) -> bool:
    """A store may keep fewer digits."""
    return isclose(one, other, abs_tol=1e-6)
