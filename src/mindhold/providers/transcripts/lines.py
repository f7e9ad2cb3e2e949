"""The lines of a file, whatever stands in it, in bounded memory."""

from __future__ import annotations

from dataclasses import replace
from typing import BinaryIO, NamedTuple

from mindhold.ports.transcripts import About

LONGEST_LINE = 16 << 20
MOST_NAMED = 100  # lines of one piece that can't be read


class Line(NamedTuple):
    """A line with its end. Of one that is too long to be held `raw` is only the beginning, which is no JSON any more."""

    raw: bytes
    size: int
    ended: bool  # by a line break

    @property
    def held(self) -> bool:
        """Whether `raw` is all of it."""
        return self.size == len(self.raw)


class BadLines:
    """Those of a piece that can't be read: the first ones by number, of the rest how many."""

    def __init__(self) -> None:
        self._named: list[int] = []
        self._too_long: list[int] = []
        self._unnamed = self._last = 0

    def note(self, number: int, *, too_long: bool = False) -> None:
        """One after the other; a line may come in two parts."""
        if number == self._last:
            return
        self._last = number
        if len(self._named) >= MOST_NAMED:
            self._unnamed += 1
            return
        self._named.append(number)
        if too_long:
            self._too_long.append(number)

    def told_in(self, about: About) -> About:
        """With them."""
        named, too_long = tuple(self._named), tuple(self._too_long)
        return replace(about, bad_lines=named, too_long=too_long, unnamed=self._unnamed)


def read_line(stream: BinaryIO, *, most: int) -> Line | None:
    """The next one; None at the end. Beyond `most` bytes the rest of it is left unread."""
    raw = rest = stream.readline(LONGEST_LINE)
    size = len(raw)
    while len(rest) == LONGEST_LINE and not rest.endswith(b"\n") and size <= most:
        rest = stream.readline(LONGEST_LINE)
        size += len(rest)
    return Line(raw, size, rest.endswith(b"\n")) if raw else None
