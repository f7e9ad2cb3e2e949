"""What happened when: memories by the day they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from mindhold.engine.core import Engine
from mindhold.engine.timeframe import Timeframe, parse_timeframe
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order


@dataclass(frozen=True, slots=True)
class Day:
    """The memories of one day in the person's zone, oldest first."""

    date: date
    memories: tuple[Memory, ...]


def timeframe_of(engine: Engine, phrase: str) -> Timeframe:
    """A phrase of time in the person's zone. Raises UnknownTime."""
    return parse_timeframe(
        phrase, now=engine.clock(), zone=engine.zone(), date_order=engine.policy.date_order
    )


async def timeline(engine: Engine, where: Filter, *, limit: int) -> list[Day]:
    """The newest `limit` memories that match, by day from old to new."""
    found = await engine.store.find(where, order=Order.NEWEST, limit=limit)
    return by_day(engine, list(reversed(found)))


def by_day(engine: Engine, memories: Sequence[Memory]) -> list[Day]:
    """Grouped by the local day that each is about."""
    days: dict[date, list[Memory]] = {}
    for memory in memories:
        days.setdefault(memory.occurred.astimezone(engine.zone()).date(), []).append(memory)
    return [Day(day, tuple(items)) for day, items in days.items()]
