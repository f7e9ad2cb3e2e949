"""What one listener hasn't been told yet.

Nothing is queued for anybody: whoever listens looks at the store, at their own pace and through their own rights, and keeps
in mind only what they were told in the last minute. Writes become visible later than the time that they bear, so each
look goes back a little, and now and then further.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from recollect.operations.following import JobChangeView, RecentChangesInput, RecentChangesResult

LATE = timedelta(seconds=30)  # between the time that a write bears and the moment that it is seen, at most
BRIEF = timedelta(seconds=2)  # and nearly always
FAR_EVERY = timedelta(seconds=10)  # looks that go back as far
MOST_KNOWN_JOBS = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
ENDED = frozenset({"done", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Event:
    """One, as it is sent."""

    name: str
    data: str  # JSON
    id: str = ""

    def encoded(self) -> bytes:
        number = f"id: {self.id}\n" if self.id else ""
        return f"{number}event: {self.name}\ndata: {self.data}\n\n".encode("utf-8", "surrogatepass")


class Listener:
    """Of one stream."""

    def __init__(self, given: RecentChangesInput, *, last: str | None = None) -> None:
        self._given = given
        self._since = _moment(last)
        self._last = "" if self._since is None else str(last)
        self._looked: datetime | None = None
        self._told: dict[str, datetime] = {}  # id -> updated
        self._jobs: dict[str, tuple[JobChangeView, datetime]] = {}  # and when it was seen last
        self._far: datetime | None = None  # when a look went back furthest
        self._behind: datetime | None = None  # since when

    def next_look(self, now: datetime) -> RecentChangesInput:
        """What to ask for."""
        since, back = self._looked or self._since or now, BRIEF
        if self._far is None or now - self._far >= FAR_EVERY:
            self._far, back = now, LATE
        known = [job_id for job_id, (job, _) in self._jobs.items() if job.state not in ENDED]
        return self._given.model_copy(update={"since": since - back, "known": known[:MOST_KNOWN_JOBS]})

    def news(self, found: RecentChangesResult) -> Iterator[Event]:
        """What of that is new to this one."""
        first, self._looked = self._looked is None, found.now
        if first:  # who goes on from somewhere is there until they were told of something
            yield Event("ready", _json({"now": found.now.isoformat()}), self._last or _number(found.now))
        quiet = first and not self._last
        yield from self._lag(found, quiet=quiet)
        for memory in found.memories:
            if self._told.get(memory.id) != memory.updated:
                self._told[memory.id] = memory.updated
                if not quiet:
                    yield Event("memory", memory.model_dump_json(), _number(memory.updated))
        for job in found.jobs:
            before, _ = self._jobs.get(job.id, (None, None))
            self._jobs[job.id] = job, found.now
            if before != job and not (quiet and job.state != "running"):
                yield Event("job", job.model_dump_json())
        self._forget(found.now - 2 * LATE)

    def _forget(self, horizon: datetime) -> None:
        """What no look will find any more."""
        self._told = {one: moment for one, moment in self._told.items() if moment >= horizon}
        self._jobs = {one: (job, seen) for one, (job, seen) in self._jobs.items() if seen >= horizon}

    def _lag(self, found: RecentChangesResult, *, quiet: bool) -> Iterator[Event]:
        if not found.full:
            return
        if not quiet and (self._behind is None or found.now - self._behind >= LATE):
            self._behind = found.now
            yield Event("behind", _json({"since": found.memories[0].updated.isoformat()}))


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value)


def _number(moment: datetime) -> str:
    """An event's id: microseconds, which any other server of this store understands."""
    return str((moment - _EPOCH) // _TICK)


def _moment(last: str | None) -> datetime | None:
    """None for an id that isn't ours: then it is as if none had been given."""
    if last is None or not (last.isascii() and last.isdecimal()) or len(last) > 17:
        return None
    try:
        return _EPOCH + int(last) * _TICK
    except OverflowError:
        return None
