"""How long to wait for a service, how often to ask, and when to leave it alone for a while."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mindhold.model.errors import ModelAway, ModelError

MINUTE = 60.0
FIRST_HOLD = 5.0
LONGEST_HOLD = 60.0
LONGEST_BY_REQUEST = 600.0  # however long a service asks to be left alone
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 8.0


@dataclass(frozen=True, slots=True)
class Timing:
    """Time, injected so that tests need no sleep. `jitter` is a number from 0 to 1."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random


def pause(attempt: int, jitter: float) -> float:
    """Seconds before the next attempt: doubled each time, and never the same for two callers."""
    longest: float = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (attempt - 1))
    return longest * (0.5 + jitter / 2)


def unasked(error: ModelError) -> ModelError:
    """The same again, of a call that was never sent."""
    again = type(error)(error.message, advice=error.advice)
    again.unasked = True
    return again


class Circuit:
    """Open after a failure: calls then fail at once, until one of them may try again."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._error: ModelError | None = None
        self._until = 0.0
        self._hold = 0.0
        self._trying = False

    def enter(self) -> bool:
        """Whether this call is the trial of an open circuit. Raises the error that opened it, while it is held."""
        if self._error is None:
            return False
        if self._trying or self._timing.now() < self._until:
            raise unasked(self._error)
        self._trying = True
        return True

    def opened(self, error: ModelError, *, at_least: float = 0.0) -> None:
        """Leave the service alone; longer each time, up to a minute, or as long as it asked for."""
        if self._error is None or self._trying:  # of many calls that fail at once, the first counts
            self._hold = min(LONGEST_HOLD, max(FIRST_HOLD, self._hold * 2))
        self._error = error
        hold = max(self._hold, min(at_least, LONGEST_BY_REQUEST))
        self._until = max(self._until, self._timing.now() + hold)

    def closed(self) -> None:
        """All is well again."""
        self._error, self._hold = None, 0.0

    def left(self) -> None:
        """The trial is over, however it ended."""
        self._trying = False


class Pace:
    """At most so many requests and tokens a minute; 0 is no limit. What wasn't used is saved for at most a minute.

    `section` is of the settings that say how many.
    """

    def __init__(self, requests: int, tokens: int, timing: Timing, *, section: str) -> None:
        self._timing = timing
        self._section = section
        self._rates = (requests / MINUTE, tokens / MINUTE)
        self._saved = [float(requests), float(tokens)]
        self._seen = timing.now()

    async def take(self, tokens: int, *, patience: float) -> None:
        """One request with so many tokens, when it is due. Raises ModelAway if that is beyond the patience."""
        now = self._timing.now()
        passed, self._seen = now - self._seen, now
        due = 0.0
        for place, (rate, cost) in enumerate(zip(self._rates, (1.0, float(tokens)), strict=True)):
            if not rate:
                continue
            self._saved[place] = min(rate * MINUTE, self._saved[place] + passed * rate)
            # What is larger than a whole minute's share goes alone, once the minute is saved up.
            short = min(cost, rate * MINUTE) - self._saved[place]
            due = max(due, short / rate)
        if due >= patience:
            raise ModelAway(
                f"The next call of the service is due in {due:.0f} seconds by the limits set here.",
                advice=f"Raise {self._section}.requests_per_minute or {self._section}.tokens_per_minute, or wait.",
            )
        # Taken before the wait, so that whoever comes meanwhile queues behind.
        self._saved[0] -= 1.0
        self._saved[1] -= tokens
        if due > 0:
            await self._timing.sleep(due)
