"""The order of memories that answer equally well: importance and recency, or time alone while there are few."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from recollect.engine.chosen import MORE_THAN_ASKED, SPARE
from recollect.engine.core import Engine
from recollect.engine.ranked import DAY
from recollect.model.memory import Memory
from recollect.model.query import Filter, Numbers, Order
from recollect.model.ranking import boost, boosted, composite, usefulness_nudge
from recollect.ports.store import Store

ROUNDS = 4  # of reading; nearly always the first tells
MOST_READ = 500  # more are counted instead
MOST_REACHED = 1_000  # filters that are remembered

# Of each store as its caller sees it: a fence around a store is a store of its own, so nothing is told across it.
_REACHED: WeakKeyDictionary[Store, set[tuple[Filter, int]]] = WeakKeyDictionary()


async def best_equals(engine: Engine, where: Filter, *, limit: int) -> list[Memory]:
    """The best of what matches first, with some to spare; the latest while fewer are within reach than a ranking needs."""
    page = limit * MORE_THAN_ASKED + SPARE
    latest = await engine.store.find(where, order=Order.NEWEST, limit=page)
    if len(latest) < 2 or not await _many(engine, where, known=len(latest)):
        return latest
    memories = latest
    if len(latest) == page:  # there may be more
        memories = await _with_important(engine, where, latest, needed=limit + SPARE)
    nudges = usefulness_nudge(np.array([memory.usefulness for memory in memories]))
    order = np.argsort(-_composite(engine, memories) * nudges, kind="stable").tolist()
    return [memories[row] for row in order]


def nudged(engine: Engine, scores: Sequence[float], memories: Sequence[Memory]) -> list[float]:
    """The scores of these memories after importance, age, use, trust and usefulness had their say."""
    policy = engine.policy
    boosts = boost(
        _numbers(memories, "importance"),
        age_days=_ages(engine, memories),
        uses=_numbers(memories, "uses"),
        trust=_numbers(memories, "trust"),
        usefulness=_numbers(memories, "usefulness"),
        importance_weight=policy.importance_weight,
        recency_weight=policy.recency_weight,
    )
    final: list[float] = boosted(np.array(scores, dtype=np.float64), boosts).tolist()
    return final


async def _many(engine: Engine, where: Filter, *, known: int) -> bool:
    """Whether enough memories are within reach; looked at until it is so.

    A few are read rather than all counted: in a large store that takes longer than the answer.
    """
    needed = engine.policy.composite_from
    within = Filter(viewer=where.viewer, scopes=where.scopes)
    reached = _REACHED.setdefault(engine.store, set())
    if known >= needed or (within, needed) in reached:
        return True
    if needed > MOST_READ:
        enough = await engine.store.count(within) >= needed
    else:
        enough = len(await engine.store.find(within, limit=needed)) >= needed
    if enough and len(reached) < MOST_REACHED:
        reached.add((within, needed))
    return enough


async def _with_important(
    engine: Engine, where: Filter, latest: list[Memory], *, needed: int
) -> list[Memory]:
    """Read by importance and by time in turn, until nothing unread could be among the best."""
    seen = {memory.id: memory for memory in latest}
    page, after = len(latest), None
    for _ in range(ROUNDS):
        important = await engine.store.find(where, order=Order.IMPORTANT, limit=page, after=after)
        seen |= {memory.id: memory for memory in important}
        if len(important) < page or _settled(engine, list(seen.values()), important[-1], latest[-1], needed):
            break
        after = important[-1].id
        latest = await engine.store.find(where, order=Order.NEWEST, limit=page, after=latest[-1].id)
        seen |= {memory.id: memory for memory in latest}
        if len(latest) < page:
            break
    return list(seen.values())


def _settled(engine: Engine, seen: Sequence[Memory], important: Memory, recent: Memory, needed: int) -> bool:
    """What was not read is no more important than the one, nor more recent than the other."""
    worst = np.sort(_composite(engine, seen))[::-1][min(needed, len(seen)) - 1]
    policy = engine.policy
    bound = composite(
        np.array([important.importance]),
        age_days=_ages(engine, [recent]),
        importance_weight=policy.importance_weight,
        recency_weight=policy.recency_weight,
    )[0]
    return bool(worst >= bound)


def _composite(engine: Engine, memories: Sequence[Memory]) -> Numbers:
    policy = engine.policy
    return composite(
        _numbers(memories, "importance"),
        age_days=_ages(engine, memories),
        importance_weight=policy.importance_weight,
        recency_weight=policy.recency_weight,
    )


def _ages(engine: Engine, memories: Sequence[Memory]) -> Numbers:
    now = engine.clock()
    return np.array([(now - memory.occurred).total_seconds() / DAY for memory in memories])


def _numbers(memories: Sequence[Memory], name: str) -> Numbers:
    return np.array([float(getattr(memory, name)) for memory in memories])
