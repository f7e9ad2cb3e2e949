"""Whether anybody calls: what nobody waits for is done when nobody does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from mindhold.ports.clock import Clock


class Quiet:
    """The calls of one process. Its own questions are none."""

    def __init__(self) -> None:
        self._under_way = 0
        self._last: datetime | None = None

    @contextmanager
    def broken(self, clock: Clock) -> Iterator[None]:
        """For the time of a call."""
        self._under_way += 1
        self._last = clock()
        try:
            yield
        finally:
            self._under_way -= 1
            self._last = clock()

    def lasts(self, now: datetime, at_least: timedelta) -> bool:
        """Whether nobody called for so long. Who starts a process is about to call: it counts from the first look."""
        if self._last is None or self._last > now:
            self._last = now
        return not self._under_way and now - self._last >= at_least
