"""Finds and rewrites the block between Mindhold's markers in a document; the rest of the file is unchanged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from mindhold.model.errors import MarkersWrong

START, END = "<!-- MEMORY:START -->", "<!-- MEMORY:END -->"
_START, _END = START.encode(), END.encode()
_UTF8, _UTF16 = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
# Also in a list item or a quotation.
_FENCE = re.compile(rb"[ \t]*(?:(?:[-*+]|\d{1,9}[.)]|>)[ \t]+)*(`{3,}(?=[^`]*$)|~{3,})")
_CODE = re.compile(rb" {4}| {0,3}\t")  # how a line of indented code starts


@dataclass(frozen=True, slots=True)
class MarkedBlock:
    """The block between the markers: whole lines from byte `start` to byte `end`, each ending in `newline`."""

    start: int
    end: int
    newline: bytes


def find_block(data: bytes, *, name: str) -> MarkedBlock | None:
    """Find the block in a document; None if it has no markers. Raises MarkersWrong.

    A marker is a line of its own, outside of code blocks (fenced or indented) and comments.
    """
    _refuse_utf16(data, name)
    lines = data.splitlines(keepends=True)
    markers: list[tuple[int, bytes]] = []  # line number, marker
    number = 0
    while number < len(lines):
        inside = bool(markers) and markers[-1][1] == _START
        closing = None if inside else _closing_line(lines, number)
        if closing is None:
            if mark := _marker_at(lines[number], number, name):
                _check_order(markers, number, mark, name)
                markers.append((number, mark))
            number += 1
        else:
            number = closing + 1
    if not markers:
        return None
    if len(markers) == 1:
        _raise_wrong(name, markers[0][0], f"{START} has no {END} after it")
    first, last = markers[0][0], markers[1][0]
    opening = lines[first]
    newline = opening[len(opening.rstrip(b"\r\n")) :]
    return MarkedBlock(
        start=sum(map(len, lines[: first + 1])), end=sum(map(len, lines[:last])), newline=newline or b"\n"
    )


def replace_block(data: bytes, block: str, *, name: str = "The document") -> bytes:
    """The document with `block` between its markers and every other byte unchanged. Raises MarkersWrong."""
    location = find_block(data, name=name)
    if location is None:
        raise MarkersWrong(
            f"{name} has no markers.",
            advice=f"Put {START} and {END} on lines of their own where memory is to go.",
        )
    lines = block.removesuffix("\n").split("\n") if block else []
    content = b"".join(line.encode(errors="replace") + location.newline for line in lines)
    return data[: location.start] + content + data[location.end :]


def _marker_at(line: bytes, number: int, name: str) -> bytes:
    if _CODE.match(line):
        return b""
    text = (line.removeprefix(_UTF8) if number == 0 else line).strip()
    for mark in (_START, _END):
        if text == mark:
            return mark
        if text.startswith(mark):
            _raise_wrong(name, number, f"{mark.decode()} has something after it, and must stand alone")
    return b""


def _check_order(markers: Sequence[tuple[int, bytes]], number: int, mark: bytes, name: str) -> None:
    if mark == _END and not markers:
        _raise_wrong(name, number, f"{END} has no {START} before it")
    if mark == _START and len(markers) == 1:
        _raise_wrong(name, number, f"{START} stands within the block that line {markers[0][0] + 1} begins")
    if len(markers) == 2:
        _raise_wrong(name, number, f"{mark.decode()} stands there once more after line {markers[1][0] + 1}")


def _closing_line(lines: Sequence[bytes], number: int) -> int | None:
    """The line that ends the fenced block or comment that starts at `number`; None if none starts or ends."""
    if _opens_comment(lines[number]):
        return next((later for later in range(number + 1, len(lines)) if _closes_comment(lines[later])), None)
    opening = _FENCE.match(lines[number].rstrip(b"\r\n"))
    if opening is None:
        return None
    fence = opening[1]
    is_indented = _CODE.match(lines[number]) is not None
    for later in range(number + 1, len(lines)):
        text = lines[later].strip().lstrip(b"> ")
        # A fence that is indented like code isn't closed by a fence at the margin.
        if (
            len(text) >= len(fence)
            and not text.strip(fence[:1])
            and not (is_indented and lines[later][:1] in b"`~")
        ):
            return later
    return None


def _opens_comment(line: bytes) -> bool:
    return line.rpartition(b"<!--")[1] != b"" and b"-->" not in line.rpartition(b"<!--")[2]


def _closes_comment(line: bytes) -> bool:
    """Whether a comment ends here; the end of a marker that is quoted in the comment doesn't count."""
    return b"-->" in line.replace(_START, b"").replace(_END, b"")


def _refuse_utf16(data: bytes, name: str) -> None:
    if data.startswith(_UTF16) and START in data.decode("utf-16", errors="replace"):
        raise MarkersWrong(f"{name} is in UTF-16.", advice="Save it as UTF-8, which its readers expect.")


def _raise_wrong(name: str, number: int, what: str) -> NoReturn:
    raise MarkersWrong(
        f"{name}, line {number + 1}: {what}.",
        advice=f"Leave one {START} and one {END} after it, each on a line of its own.",
    )
