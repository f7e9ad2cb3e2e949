"""When maintenance runs by itself: every night at an hour of the person's, or as soon as can be after one that was missed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

PATIENCE = timedelta(hours=4)  # so long a due run waits for quiet; then it runs beside other work


@dataclass(frozen=True, slots=True)
class Maintenance:
    """As the settings have it."""

    schedule: bool = True
    hour: time = time(3)
    idle: timedelta = timedelta(minutes=5)
    seconds: float = 600.0


def next_run(last: datetime, now: datetime, zone: ZoneInfo, hour: time) -> datetime:
    """The first time that it is `hour` there after the `last` run: past, if nights were missed, and then it is one run for all.

    An hour that the clocks leave out in spring comes as much later as they are put forward; of one that they repeat in
    autumn the first counts. A `last` that lies ahead, by a clock that was wrong then, counts as now.
    """
    since = min(last, now)
    day = since.astimezone(zone).date() - timedelta(days=1)
    while True:
        moment = datetime.combine(day, hour, tzinfo=zone).astimezone(UTC)
        if moment > since:
            return moment
        day += timedelta(days=1)


def is_time(due: datetime, now: datetime, *, quiet: bool) -> bool:
    """Whether what is due is to begin: at once when it is quiet, else when it has waited long enough."""
    return now >= due and (quiet or now >= due + PATIENCE)
