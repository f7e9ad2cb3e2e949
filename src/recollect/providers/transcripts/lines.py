"""The lines of a file, whatever stands in it, in bounded memory."""

from __future__ import annotations

from typing import BinaryIO, NamedTuple

LONGEST_LINE = 16 << 20


class Line(NamedTuple):
    """A line with its end. Of one that is too long to be held `raw` is only the beginning, which is no JSON any more."""

    raw: bytes
    size: int
    ended: bool  # by a line break

    @property
    def held(self) -> bool:
        """Whether `raw` is all of it."""
        return self.size == len(self.raw)


def read_line(stream: BinaryIO, *, most: int) -> Line | None:
    """The next one; None at the end. Beyond `most` bytes the rest of it is left unread."""
    raw = rest = stream.readline(LONGEST_LINE)
    size = len(raw)
    while len(rest) == LONGEST_LINE and not rest.endswith(b"\n") and size <= most:
        rest = stream.readline(LONGEST_LINE)
        size += len(rest)
    return Line(raw, size, rest.endswith(b"\n")) if raw else None
