"""Cutting a stream of bytes into lines, however it comes in pieces."""

from __future__ import annotations

from dataclasses import dataclass

_MARK = b"\xef\xbb\xbf"  # with which some programs begin UTF-8
_NOTHING = b" \t\r"


@dataclass(frozen=True, slots=True)
class Line:
    """One that says something, by its number from 1; `text` is None for one that is too long."""

    number: int
    text: bytes | None


class LineCutter:
    """Holds no more than one line. Empty ones are counted and passed over, and so is the rest of a long one."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._begun = bytearray()
        self._number = 0
        self._dropping = False

    @property
    def held(self) -> int:
        """Bytes of a line that hasn't ended yet."""
        return len(self._begun)

    def feed(self, piece: bytes) -> list[Line]:
        """The lines that end in it."""
        found: list[Line] = []
        start = 0
        while (end := piece.find(b"\n", start)) >= 0:
            found += self._ended(piece[start:end])
            start = end + 1
        self._keep(piece[start:])
        return found

    def end(self) -> list[Line]:
        """The last line, if it says something; a line's end after it is no matter."""
        return self._ended(b"")

    def _keep(self, rest: bytes) -> None:
        if not self._dropping:
            self._begun += rest
        if len(self._begun) > self._longest + len(_MARK) + 1:
            self._begun.clear()
            self._dropping = True

    def _ended(self, rest: bytes) -> list[Line]:
        self._number += 1
        dropped, self._dropping = self._dropping, False
        text = bytes(self._begun) + rest
        self._begun.clear()
        if self._number == 1:
            text = text.removeprefix(_MARK)
        text = text.strip(_NOTHING)
        if dropped or len(text) > self._longest:
            return [Line(self._number, None)]
        return [Line(self._number, text)] if text else []
