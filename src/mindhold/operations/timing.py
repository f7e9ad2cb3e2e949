"""Operations on time: what is remembered of one, and what a phrase means by it."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from pydantic import Field

from mindhold.engine.checks import checked_moment
from mindhold.engine.core import LEAST_TRUST
from mindhold.engine.digest import Digest
from mindhold.engine.period import period
from mindhold.engine.timeframe import Timeframe
from mindhold.engine.timeline import Day, timeframe_of, timeline
from mindhold.model.errors import InvalidInput
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output
from mindhold.operations.digesting import DigestView
from mindhold.operations.reading import Filtering, TimeframeView, as_asked, filter_for, timeframe_view
from mindhold.operations.views import MemoryView

LIMITS_WIN = "The range was used; the phrase was not read."


class TimelineInput(Filtering):
    """Which time, by a phrase or by its limits, and which scope.

    An `overview` wants a time; where both say one, the limits count. Of more than the `limit`, or than an answer has room for,
    it has the first and the last ones, and a digest of all.
    """

    minimum_trust: float = Field(default=LEAST_TRUST, ge=0, le=1)
    limit: int = Field(default=50, ge=1, le=1000)
    overview: bool = False


class DayView(Output):
    """One day, oldest memory first."""

    date: date
    memories: list[MemoryView]


class TimelineResult(Output):
    """Days from old to new. `total` is how many there are, of an overview; not all are here where there is a digest."""

    days: list[DayView]
    count: int
    timeframe: TimeframeView | None = None
    total: int | None = None
    digest: DigestView | None = None
    note: str = ""
    notice: str = ""  # which stores don't answer


class InterpretTimeInput(Input):
    """What people call a time: "last week"."""

    phrase: str


async def _timeline(call: Call, given: TimelineInput) -> TimelineResult:
    exact = given.since is not None or given.until is not None
    if given.overview:
        _check_time(call, given)
    asked = given.model_copy(update={"when": None}) if given.overview and exact else given
    where = await filter_for(call, asked, everywhere=given.everywhere)

    async def told(scopes: tuple[str, ...]) -> tuple[tuple[Day, ...], int | None, Digest | None]:
        own = replace(where, scopes=where.scopes or scopes)
        if not given.overview:
            return tuple(await timeline(call.engine, own, limit=given.limit)), None, None
        found = await period(call.engine, own, limit=given.limit)
        return found.days, found.total, found.digest

    (days, total, digest), left = await as_asked(call, told, everywhere=not where.scopes)
    now = call.engine.clock()
    limited = where.since is not None or where.until is not None
    frame = Timeframe(where.since, where.until, asked.when or "") if limited else None
    count = sum(len(day.memories) for day in days)
    some = f"{count} of {total} are here: the first and the last." if digest else ""
    return TimelineResult(
        days=[
            DayView(date=day.date, memories=[MemoryView.of(memory, now) for memory in day.memories])
            for day in days
        ],
        count=count,
        timeframe=timeframe_view(call, frame, filters=True),
        total=total,
        digest=DigestView.of(digest, call.engine.zone()) if digest else None,
        note=" ".join(filter(None, (LIMITS_WIN if asked is not given and given.when else "", some))),
        notice=left,
    )


def _check_time(call: Call, given: TimelineInput) -> None:
    if not (given.when or given.since or given.until):
        raise InvalidInput(
            "No time is named.", advice='Give a phrase such as "last week", or the limits of a range.'
        )
    limits = [checked_moment(call.engine, one) for one in (given.since, given.until) if one]
    if limits != sorted(set(limits)):
        raise InvalidInput("The range ends before it begins.", advice="Exchange its limits.")


async def _interpret_time(call: Call, given: InterpretTimeInput) -> TimeframeView:
    view = timeframe_view(call, timeframe_of(call.engine, given.phrase), filters=False)
    assert view is not None
    return view


TIMELINE = Operation("timeline", "Memories by day.", TimelineInput, TimelineResult, _timeline, Effect.READS)
INTERPRET_TIME = Operation(
    "interpret_time",
    "The range that a phrase of time means.",
    InterpretTimeInput,
    TimeframeView,
    _interpret_time,
    Effect.READS,
)
