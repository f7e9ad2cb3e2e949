"""When the night's maintenance is due: an hour of the person's day, whatever the clocks do."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from mindhold.model.errors import SettingsError
from mindhold.model.policies import LONGEST_IDLE_WAIT, is_time, next_run
from mindhold.settings.loader import load_settings

BERLIN, NEW_YORK, SYDNEY = (
    ZoneInfo("Europe/Berlin"),
    ZoneInfo("America/New_York"),
    ZoneInfo("Australia/Sydney"),
)
KATHMANDU = ZoneInfo("Asia/Kathmandu")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "hour", "last", "due"),
    [
        # An ordinary night: before the hour the same day, after it the next.
        (BERLIN, "03:00", "2026-01-10 01:00", "2026-01-10 02:00"),
        (BERLIN, "03:00", "2026-01-10 02:00", "2026-01-11 02:00"),
        (BERLIN, "03:00", "2026-01-10 23:30", "2026-01-11 02:00"),
        (KATHMANDU, "03:00", "2026-01-10 12:00", "2026-01-10 21:15"),
        (ZoneInfo("UTC"), "00:00", "2026-01-10 00:00", "2026-01-11 00:00"),
        # Clocks go forward at 02:00 to 03:00: the night is an hour shorter, and 02:30 comes an hour later.
        (BERLIN, "03:00", "2026-03-28 02:00", "2026-03-29 01:00"),
        (BERLIN, "02:30", "2026-03-28 01:30", "2026-03-29 01:30"),
        (BERLIN, "02:30", "2026-03-29 01:30", "2026-03-30 00:30"),
        (NEW_YORK, "02:30", "2026-03-07 07:30", "2026-03-08 07:30"),
        (NEW_YORK, "02:30", "2026-03-08 07:30", "2026-03-09 06:30"),
        # Clocks go back at 03:00 to 02:00: 02:30 comes twice and counts once.
        (BERLIN, "03:00", "2026-10-24 01:00", "2026-10-25 02:00"),
        (BERLIN, "02:30", "2026-10-24 00:30", "2026-10-25 00:30"),
        (BERLIN, "02:30", "2026-10-25 00:30", "2026-10-26 01:30"),
        (BERLIN, "02:30", "2026-10-25 01:30", "2026-10-26 01:30"),
        (SYDNEY, "03:00", "2026-04-03 16:00", "2026-04-04 17:00"),
    ],
)
def test_the_next_is_due_at_the_hour(zone: ZoneInfo, hour: str, last: str, due: str) -> None:
    hours, minutes = map(int, hour.split(":"))
    assert next_run(utc(last), utc(last), zone, time(hours, minutes)) == utc(due)


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK, SYDNEY, KATHMANDU])
@pytest.mark.parametrize("hour", [time(0), time(2, 30), time(3), time(23, 59)])
def test_a_year_of_nights_has_one_run_each(zone: ZoneInfo, hour: time) -> None:
    last = utc("2025-12-31 23:59")
    days = []
    for _ in range(365):
        last = next_run(last, last, zone, hour)
        days.append(last.astimezone(zone).date())
    assert len(set(days)) == 365
    assert days[-1] - days[0] == timedelta(days=364)


def test_missed_nights_are_one_run() -> None:
    last, now = utc("2026-01-10 02:00"), utc("2026-01-20 09:00")
    due = next_run(last, now, BERLIN, time(3))
    assert due < now
    assert is_time(due, now, quiet=True)
    assert next_run(now, now, BERLIN, time(3)) == utc("2026-01-21 02:00")


def test_a_run_that_a_wrong_clock_put_ahead_does_not_stop_it() -> None:
    now = utc("2026-01-10 12:00")
    assert next_run(utc("2031-01-01 00:00"), now, BERLIN, time(3)) == utc("2026-01-11 02:00")


def test_it_waits_for_quiet_but_not_for_ever() -> None:
    due = utc("2026-01-10 02:00")
    assert not is_time(due, due - timedelta(seconds=1), quiet=True)
    assert is_time(due, due, quiet=True)
    assert not is_time(due, due + LONGEST_IDLE_WAIT - timedelta(seconds=1), quiet=False)
    assert is_time(due, due + LONGEST_IDLE_WAIT, quiet=False)


@pytest.mark.parametrize("hour", ["25:00", "3", "03:0", "three", "03:60", "-1:00", ""])
def test_what_is_no_hour_is_told(hour: str) -> None:
    with pytest.raises(SettingsError, match="maintenance"):
        load_settings({"maintenance.hour": hour}, environ={})


def test_an_hour_is_read() -> None:
    assert load_settings({"maintenance.hour": "3:05"}, environ={}).settings.maintenance.hour == "3:05"
