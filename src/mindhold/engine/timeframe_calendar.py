"""The person's calendar: days, weeks and months around the moment in which a phrase was said."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

# Half-open. Naive ends are wall-clock time in the person's zone, so that a day runs from midnight to midnight however
# many hours it has; aware ones are instants.
Span = tuple[datetime, datetime]

DAY = timedelta(days=1)
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Calendar:
    """The person's clock when the phrase was said."""

    now: datetime  # aware, in the person's zone
    week_start: int = 0
    date_order: str = "MDY"

    @property
    def today(self) -> datetime:
        return self.now.replace(tzinfo=None, hour=0, minute=0, second=0, microsecond=0)

    def day(self, offset: int) -> Span:
        start = self.today + timedelta(days=offset)
        return start, start + DAY

    def week(self, day: datetime) -> Span:
        start = day - timedelta(days=(day.weekday() - self.week_start) % 7)
        return start, start + timedelta(days=7)

    def months(self, *, ahead: int, count: int = 1, base: datetime | None = None) -> Span:
        return month_start(base or self.today, ahead), month_start(base or self.today, ahead + count)

    def unit(self, name: str, offset: int) -> Span:
        """The whole day, week, month ... that is `offset` of them from the present one."""
        today = self.today
        if name in ("minute", "hour"):
            instant = self.now.astimezone(UTC) + timedelta(**{f"{name}s": offset})
            slack = timedelta(minutes=30 if name == "hour" else max(2, abs(offset) // 4))
            return instant - slack, instant + slack
        if name == "day":
            return self.day(offset)
        if name in ("week", "fortnight"):
            return self.week(today + timedelta(days=offset * (7 if name == "week" else 14)))
        if name == "month":
            return self.months(ahead=offset)
        if name == "quarter":
            return self.months(ahead=3 * offset - (today.month - 1) % 3, count=3)
        years = 1 if name == "year" else 10
        first = today.year + offset if years == 1 else today.year // 10 * 10 + 10 * offset
        return datetime(first, 1, 1), datetime(first + years, 1, 1)

    def rolling(self, name: str, count: int) -> Span:
        """The last (count < 0) or the next so many units, the present day and moment included."""
        today = self.today
        if name in ("minute", "hour"):
            now = self.now.astimezone(UTC)  # where an hour is an hour, also when the clocks change
            edge = now + timedelta(**{f"{name}s": count})
            return (edge, now + _INSTANT) if count < 0 else (now, edge)
        if name in ("day", "week", "fortnight"):
            edge = today + timedelta(days=count * {"day": 1, "week": 7, "fortnight": 14}[name])
        else:
            edge = _same_day(today, count * {"month": 1, "quarter": 3, "year": 12, "decade": 120}[name])
        return (edge, today + DAY) if count < 0 else (today, edge + DAY)


def month_start(base: datetime, ahead: int) -> datetime:
    year, month = divmod(base.year * 12 + base.month - 1 + ahead, 12)
    return datetime(year, month + 1, 1)


def _same_day(base: datetime, ahead: int) -> datetime:
    first = month_start(base, ahead)
    return first.replace(day=min(base.day, monthrange(first.year, first.month)[1]))


def year_before(moment: datetime) -> datetime:
    """The same day a year earlier; of a 29th of February the 28th."""
    year = moment.year - 1
    return moment.replace(year=year, day=min(moment.day, monthrange(year, moment.month)[1]))


def date_span(year: int, month: int, day: int) -> Span | None:
    """That day, if the calendar has it."""
    if not (1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]):
        return None
    return datetime(year, month, day), datetime(year, month, day) + DAY
