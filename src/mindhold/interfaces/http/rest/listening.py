"""What one listener hasn't been told yet.

Nothing is queued for anybody: whoever listens looks at the store, at their own pace and through their own rights, and keeps
in mind only what they were told in the last minute. Writes become visible later than the time that they bear, so each
round of looks goes back a little, and now and then further.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from mindhold.operations.following import ChangeView, JobChangeView, RecentChangesInput, RecentChangesResult

LATE = timedelta(seconds=30)  # between the time that a write bears and the moment that it is seen, at most
BRIEF = timedelta(seconds=2)  # and nearly always
FAR_EVERY = timedelta(seconds=10)  # looks that go back as far
MOST_KNOWN_JOBS = 200
MOST_PAGES = 250  # that one is told from where they were; what is before them is passed over
FEW_PAGES = 25  # that are looked at before one is heard
MOST_TOLD = 10_000  # that are kept in mind
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
ENDED = frozenset({"done", "failed", "cancelled"})
_Place = tuple[datetime, str]  # among changes: when, and the id


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
    """Of one stream.

    It looks in rounds. The store tells the latest changes first, so a round goes back page by page to where the last one
    ended, keeping in mind only where each page begins, and then forward again, telling each.
    """

    def __init__(self, given: RecentChangesInput, *, last: str | None = None) -> None:
        self._given = given
        self._upto = _moment(last)  # where the last round ended
        self._last = "" if self._upto is None else str(last)
        self._ready = False
        self._since: datetime | None = None  # how far the round goes back; None between two
        self._low: _Place = _EPOCH, ""  # what is before has been told in this one
        self._pages: list[
            tuple[str, _Place]
        ] = []  # still to be told, the oldest last: a cursor, and its place
        self._told: dict[str, datetime] = {}  # id -> updated
        self._floor = _EPOCH  # no look goes further back
        self._jobs: dict[str, tuple[JobChangeView, datetime]] = {}  # and when it was seen last
        self._far: datetime | None = None  # when a round went back furthest

    @property
    def is_ready(self) -> bool:
        """Whether this one was told that they are heard."""
        return self._ready

    @property
    def under_way(self) -> bool:
        """Whether there is more to look at already."""
        return self._since is not None

    def next_look(self, now: datetime) -> RecentChangesInput:
        """What to ask for."""
        if self._since is None:
            back = BRIEF
            if self._far is None or now - self._far >= FAR_EVERY:
                self._far, back = now, LATE
            self._since = max((self._upto or now) - back, self._floor)
            self._low = self._since, ""
        before = self._pages[-1][0] if self._pages else None
        known = [job_id for job_id, (job, _) in self._jobs.items() if job.state not in ENDED]
        asked = {"since": self._since, "before": before, "known": known[:MOST_KNOWN_JOBS]}
        return self._given.model_copy(update=asked)

    def news(self, found: RecentChangesResult) -> Iterator[Event]:
        """What of that is new to this one. Who doesn't go on from somewhere isn't told what there is already."""
        first = not self._ready
        quiet = first and not self._last
        memories = list(self._memories(found, quiet=quiet))
        if first and not (quiet and self.under_way):
            self._ready = True
            # Who goes on from somewhere is there until they were told of something.
            yield Event("ready", _json({"now": found.now.isoformat()}), self._last or _number(found.now))
        if not quiet:
            yield from memories
        if self._ready:
            yield from self._job_news(found, quiet=quiet)
        self._forget(found.now - 2 * LATE)

    def _memories(self, found: RecentChangesResult, *, quiet: bool) -> Iterator[Event]:
        if found.next is not None and (oldest := _place(found.memories[0])) > self._low:
            if len(self._pages) < (FEW_PAGES if quiet else MOST_PAGES):
                self._pages.append((found.next, oldest))
                return
            if self._told.get(oldest[1]) != oldest[0]:
                yield Event("behind", _json({"since": oldest[0].isoformat()}))
            self._floor = max(self._floor, oldest[0] + _TICK)
        for memory in found.memories:
            if _place(memory) >= self._low and self._told.get(memory.id) != memory.updated:
                self._told[memory.id] = memory.updated
                yield Event("memory", memory.model_dump_json(), _number(memory.updated))
        if self._pages:
            self._low = self._pages.pop()[1]
        else:
            self._since, self._upto = None, found.now

    def _job_news(self, found: RecentChangesResult, *, quiet: bool) -> Iterator[Event]:
        for job in found.jobs:
            before, _ = self._jobs.get(job.id, (None, None))
            self._jobs[job.id] = job, found.now
            if before != job and not (quiet and job.state != "running"):
                yield Event("job", job.model_dump_json())

    def _forget(self, horizon: datetime) -> None:
        """What no look will find any more. Of very many the latest half is kept, and no look goes back further."""
        if len(self._told) > MOST_TOLD:
            self._floor = max(self._floor, sorted(self._told.values())[-MOST_TOLD // 2] + _TICK)
        oldest = max(horizon, self._floor)
        self._told = {one: moment for one, moment in self._told.items() if moment >= oldest}
        self._jobs = {one: (job, seen) for one, (job, seen) in self._jobs.items() if seen >= horizon}


def _place(memory: ChangeView) -> _Place:
    return memory.updated, memory.id


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
