"""The order of memories that answer equally well: importance and recency, or time alone while there are few."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mindhold.engine.beside import beside
from mindhold.engine.chosen import MORE_THAN_ASKED, SPARE
from mindhold.engine.core import Engine
from mindhold.engine.ranked import DAY
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Numbers, Order
from mindhold.model.ranking import boost, boosted, composite, usefulness_nudge

MORE_ROUNDS = 1  # of reading, where the first leaves it open
MOST_SPARE = 50  # beyond the limit: so many may say the same


async def best_equals(engine: Engine, where: Filter, *, limit: int) -> list[Memory]:
    """The best of what matches first, with some to spare; the latest while fewer are within reach than a ranking needs."""
    page = min(limit * MORE_THAN_ASKED, limit + MOST_SPARE) + SPARE
    latest = await engine.store.find(where, order=Order.NEWEST, limit=page)
    if len(latest) < 2 or not await _many(engine, where, known=len(latest)):
        return latest
    memories = latest
    if len(latest) == page:  # there may be more
        memories = await _with_important(engine, where, latest, needed=limit + SPARE)
    worth = _composite(engine, memories) * usefulness_nudge(_numbers(memories, "usefulness"))
    order = np.argsort(-worth, kind="stable").tolist()
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
    """Whether enough memories are within reach; no more are counted."""
    needed = engine.policy.composite_from
    within = Filter(viewer=where.viewer, scopes=where.scopes)
    return known >= needed or await engine.store.count(within, most=needed) >= needed


async def _with_important(
    engine: Engine, where: Filter, latest: list[Memory], *, needed: int
) -> list[Memory]:
    """Read by importance and by time in turn, until nothing unread could be among the best by these, or the rounds end.

    Of very many, a better one may then be unread that is among neither the newest nor the most important. How useful
    they were decides only among those that were read.
    """
    seen = {memory.id: memory for memory in latest}
    page = len(latest)
    important = await engine.store.find(where, order=Order.IMPORTANT, limit=page)
    for _ in range(MORE_ROUNDS):
        seen |= {memory.id: memory for memory in important}
        if len(important) < page or _settled(engine, list(seen.values()), important[-1], latest[-1], needed):
            break
        more = engine.store.find(where, order=Order.IMPORTANT, limit=page, after=important[-1].id)
        async with beside(more) as reading:
            latest = await engine.store.find(where, order=Order.NEWEST, limit=page, after=latest[-1].id)
        important = reading.result()
        seen |= {memory.id: memory for memory in latest}
        if len(latest) < page:  # now everything was read
            break
    return list((seen | {memory.id: memory for memory in important}).values())


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
