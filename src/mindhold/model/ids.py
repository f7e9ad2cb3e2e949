"""Ids that sort by the time they were made: 48 bits of milliseconds and 80 of chance, 26 characters."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: nothing to misread
CHANCE_BITS = 80
LENGTH = 26


class IdMaker:
    """Makes ids; of two made by one maker the later is the greater, also within a millisecond."""

    def __init__(self, clock: Callable[[], datetime], random_bits: Callable[[int], int]) -> None:
        self._clock = clock
        self._random_bits = random_bits
        self._last = 0
        self._lock = threading.Lock()

    def __call__(self) -> str:
        moment = int(self._clock().timestamp() * 1000)
        with self._lock:
            fresh = (moment << CHANCE_BITS) | self._random_bits(CHANCE_BITS)
            self._last = fresh if fresh > self._last else self._last + 1
            return encoded(self._last)


_PAIRS = tuple(one + two for one in ALPHABET for two in ALPHABET)


def encoded(number: int) -> str:
    """26 characters whose order is the numbers' order."""
    return "".join([_PAIRS[(number >> shift) & 1023] for shift in range(120, -1, -10)])


def made_at(one: str) -> datetime | None:
    """When an id was made; None for what is none of ours."""
    if len(one) != LENGTH or not frozenset(one) <= frozenset(ALPHABET):
        return None
    number = 0
    for character in one:
        number = number << 5 | ALPHABET.index(character)
    try:
        return datetime.fromtimestamp((number >> CHANCE_BITS) / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # beyond all years
        return None
