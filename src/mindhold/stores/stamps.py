"""The stamps of places that a restore makes, and when nobody is at one any more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

FORM = "%Y%m%dT%H%M%S%fZ"
_STALE = timedelta(days=1)


def moment_of(stamp: str) -> datetime | None:
    """None for what is none."""
    try:
        return datetime.strptime(stamp.upper(), FORM).replace(tzinfo=UTC)
    except ValueError:
        return None


def is_stale(stamp: str, now: datetime) -> bool:
    """Whether a restore that began then is over, or dead."""
    begun = moment_of(stamp)
    return begun is not None and begun + _STALE < now
