"""Constants of conversation summaries and of capture, and when the nightly maintenance is due."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from mindhold.model.memory import Kind

# In the metadata of each: which part of its conversation, or which time, it stands for.
RECAP = "mindhold.recap"
RECAP_SOURCE = "summary"  # Provenance.source of one
RECAP_TAG = "summary"
CONVERSATION_RECAP, MONTH_RECAP, YEAR_RECAP = 1, 2, 3  # levels
# What each is about, so that a store finds those of a level.
RECAP_TOPICS = {
    CONVERSATION_RECAP: "conversation summary",
    MONTH_RECAP: "summary of a month",
    YEAR_RECAP: "summary of a year",
}


CAPTURED_KINDS = frozenset(
    map(Kind, "decision error preference procedure architecture pattern gotcha progress context".split())
)
LONGEST_IDLE_WAIT = timedelta(hours=4)  # so long a due run waits for quiet; then it runs beside other work


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
    return now >= due and (quiet or now >= due + LONGEST_IDLE_WAIT)
