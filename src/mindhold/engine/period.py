"""What is remembered of a time: all of it, or of more than an answer has room for its beginning, its end and a digest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mindhold.engine.core import Engine
from mindhold.engine.digest import Digest, digest_of
from mindhold.engine.surroundings import shortened
from mindhold.engine.timeline import Day, by_day
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order

AT_EACH_END = 10  # of more than there is room for


@dataclass(frozen=True, slots=True)
class Period:
    """Days from old to new; `total` is how many memories there are, and with a digest not all of them are here."""

    days: tuple[Day, ...]
    total: int
    digest: Digest | None = None


async def period(engine: Engine, where: Filter, *, limit: int) -> Period:
    """All that match if they are no more than that and fit into an answer; texts are bounded as in a recall."""
    total = await engine.store.count(where)
    if total <= limit:
        found = _bounded(engine, await engine.store.find(where, order=Order.OLDEST, limit=limit))
        if sum(len(memory.content) for memory in found) <= engine.policy.longest_answer:
            return Period(tuple(by_day(engine, found)), total)
    each = max(1, min(AT_EACH_END, total // 2))
    first = await engine.store.find(where, order=Order.OLDEST, limit=each)
    known = {memory.id for memory in first}
    last = await engine.store.find(where, order=Order.NEWEST, limit=each)
    ends = [*first, *(memory for memory in reversed(last) if memory.id not in known)]
    return Period(tuple(by_day(engine, _bounded(engine, ends))), total, await digest_of(engine, where))


def _bounded(engine: Engine, memories: Sequence[Memory]) -> list[Memory]:
    return [shortened(memory, engine.policy.longest_hit) for memory in memories]
