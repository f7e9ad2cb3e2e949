"""Memories of a period by day, with a digest if there are many, and the meaning of time phrases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Annotated

from pydantic import Field

from mindhold.engine import LEAST_TRUST, Engine
from mindhold.memories.digest import DigestView, digest_of
from mindhold.memories.filters import (
    Filtering,
    TimeframeView,
    as_asked,
    filter_for,
    timeframe_of,
    timeframe_view,
)
from mindhold.memories.hit_context import shortened
from mindhold.memories.prepare import checked_moment
from mindhold.memories.views import MemoryView, Notice
from mindhold.model.errors import InvalidInput
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order
from mindhold.operations import Context, Input, Output, operation
from mindhold.text.timeframe import Timeframe

AT_EACH_END = 10  # memories from each end, if there are too many


async def _overview(
    engine: Engine, where: Filter, *, limit: int
) -> tuple[list[Memory], int, DigestView | None]:
    """Return all matching memories if they fit the limit and an answer, else both ends and a digest; and how many match.

    They are in order of time, and long texts are shortened as in a recall.
    """
    total = await engine.store.count(where)
    if total <= limit:
        memories = _shortened(engine, await engine.store.find(where, order=Order.OLDEST, limit=limit))
        if sum(len(memory.content) for memory in memories) <= engine.settings.recall.longest_answer:
            return memories, total, None
    each = max(1, min(AT_EACH_END, total // 2))
    first = await engine.store.find(where, order=Order.OLDEST, limit=each)
    first_ids = {memory.id for memory in first}
    last = await engine.store.find(where, order=Order.NEWEST, limit=each)
    ends = [*first, *(memory for memory in reversed(last) if memory.id not in first_ids)]
    return _shortened(engine, ends), total, await digest_of(engine, where)


def _shortened(engine: Engine, memories: Sequence[Memory]) -> list[Memory]:
    return [shortened(memory, engine.settings.recall.longest_hit) for memory in memories]


LIMITS_WIN = "The range was used; the phrase was not read."


class TimelineInput(Filtering):
    """Which time, by a phrase or by its limits, and which scope.

    An `overview` wants a time; where both say one, the limits count. Of more than the `limit`, or than an answer has room for,
    it has the first and the last ones, and a digest of all.
    """

    minimum_trust: float = Field(default=LEAST_TRUST, ge=0, le=1, description="Minimum trust, from 0 to 1.")
    limit: int = Field(default=50, ge=1, le=1000, description="Maximum number of results.")
    overview: bool = Field(
        default=False,
        description="If there are too many, return the first, the last and a digest. Needs a period.",
    )


class DayView(Output):
    """One day, oldest memory first."""

    date: Annotated[date, Field(examples=["2026-11-16"])]
    memories: list[MemoryView] = Field(description="Memories.")


class TimelineResult(Output):
    """Days from old to new. `total` is how many there are, of an overview; not all are here where there is a digest."""

    days: list[DayView] = Field(description="One entry per day.")
    count: int = Field(description="Number of items in this answer.", examples=[1])
    timeframe: TimeframeView | None = None
    total: int | None = Field(default=None, description="Total number.")
    digest: DigestView | None = Field(default=None, description="A digest of all matches.")
    note: str = Field(default="", description="A note about it.")
    notice: Notice = ""  # which stores don't answer


class InterpretTimeInput(Input):
    """What people call a time: "last week"."""

    phrase: str = Field(description="A period in words, such as `last week`.", examples=["last week"])


async def _timeline(context: Context, request: TimelineInput) -> TimelineResult:
    """Memories by day."""
    engine = context.engine
    exact = request.since is not None or request.until is not None
    if request.overview:
        _check_time(context, request)
    effective = request.model_copy(update={"when": None}) if request.overview and exact else request
    where = await filter_for(context, effective, everywhere=request.everywhere)

    async def find(scopes: tuple[str, ...]) -> tuple[list[Memory], int | None, DigestView | None]:
        own = replace(where, scopes=where.scopes or scopes)
        if request.overview:
            return await _overview(engine, own, limit=request.limit)
        newest = await engine.store.find(own, order=Order.NEWEST, limit=request.limit)
        return newest[::-1], None, None

    (memories, total, digest), notice = await as_asked(context, find, everywhere=not where.scopes)
    days: dict[date, list[MemoryView]] = defaultdict(list)
    for memory in memories:
        day = memory.occurred.astimezone(engine.zone()).date()
        days[day].append(MemoryView.of(memory, engine.clock()))
    limited = where.since is not None or where.until is not None
    frame = Timeframe(where.since, where.until, effective.when or "") if limited else None
    some = f"{len(memories)} of {total} are here: the first and the last." if digest else ""
    return TimelineResult(
        days=[DayView(date=day, memories=views) for day, views in days.items()],
        count=len(memories),
        timeframe=timeframe_view(context, frame, filters=True),
        total=total,
        digest=digest,
        note=" ".join(filter(None, (LIMITS_WIN if effective is not request and request.when else "", some))),
        notice=notice,
    )


TIMELINE = operation("timeline", _timeline, reads=True)


def _check_time(context: Context, given: TimelineInput) -> None:
    if not (given.when or given.since or given.until):
        raise InvalidInput(
            "No time is named.", advice='Give a phrase such as "last week", or the limits of a range.'
        )
    limits = [checked_moment(context.engine, moment) for moment in (given.since, given.until) if moment]
    if limits != sorted(set(limits)):
        raise InvalidInput("The range ends before it begins.", advice="Exchange its limits.")


async def _interpret_time(context: Context, request: InterpretTimeInput) -> TimeframeView:
    """The range that a phrase of time means."""
    view = timeframe_view(context, timeframe_of(context.engine, request.phrase), filters=False)
    assert view is not None
    return view


INTERPRET_TIME = operation("interpret_time", _interpret_time, reads=True)
