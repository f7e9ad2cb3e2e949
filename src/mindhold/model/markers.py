"""Finds and rewrites the block between Mindhold's markers in a document; the rest of the file is not touched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from mindhold.model.errors import MarkersWrong

START, END = "<!-- MEMORY:START -->", "<!-- MEMORY:END -->"
_START, _END = START.encode(), END.encode()
_UTF8, _UTF16 = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
# Also of an item of a list or in a quotation.
_FENCE = re.compile(rb"[ \t]*(?:(?:[-*+]|\d{1,9}[.)]|>)[ \t]+)*(`{3,}(?=[^`]*$)|~{3,})")
_CODE = re.compile(rb" {4}| {0,3}\t")  # how a line of code begins that has no fence


@dataclass(frozen=True, slots=True)
class MarkedBlock:
    """What stands between the markers: from byte `start` to byte `end`, whole lines, of which each ends in `newline`."""

    start: int
    end: int
    newline: bytes


def find_block(data: bytes, *, name: str) -> MarkedBlock | None:
    """Where memory goes in the document of that name; None where it has no markers. Raises MarkersWrong.

    A marker is a line of its own, and none within a block of code, fenced or indented, or within a comment.
    """
    _refuse_utf16(data, name)
    lines = data.splitlines(keepends=True)
    found: list[tuple[int, bytes]] = []  # number of the line, which marker
    number = 0
    while number < len(lines):
        inside = bool(found) and found[-1][1] == _START
        closing = None if inside else _closing(lines, number)
        if closing is None:
            if mark := _mark(lines[number], number, name):
                _check_order(found, number, mark, name)
                found.append((number, mark))
            number += 1
        else:
            number = closing + 1
    if not found:
        return None
    if len(found) == 1:
        _wrong(name, found[0][0], f"{START} has no {END} after it")
    first, last = found[0][0], found[1][0]
    opening = lines[first]
    newline = opening[len(opening.rstrip(b"\r\n")) :]
    return MarkedBlock(
        start=sum(map(len, lines[: first + 1])), end=sum(map(len, lines[:last])), newline=newline or b"\n"
    )


def replace_block(data: bytes, block: str, *, name: str = "The document") -> bytes:
    """The document with that text between its markers, and every other byte as it was. Raises MarkersWrong."""
    place = find_block(data, name=name)
    if place is None:
        raise MarkersWrong(
            f"{name} has no markers.",
            advice=f"Put {START} and {END} on lines of their own where memory is to go.",
        )
    lines = block.removesuffix("\n").split("\n") if block else []
    written = b"".join(line.encode(errors="replace") + place.newline for line in lines)
    return data[: place.start] + written + data[place.end :]


def _mark(line: bytes, number: int, name: str) -> bytes:
    if _CODE.match(line):
        return b""
    text = (line.removeprefix(_UTF8) if number == 0 else line).strip()
    for mark in (_START, _END):
        if text == mark:
            return mark
        if text.startswith(mark):
            _wrong(name, number, f"{mark.decode()} has something after it, and must stand alone")
    return b""


def _check_order(found: Sequence[tuple[int, bytes]], number: int, mark: bytes, name: str) -> None:
    if mark == _END and not found:
        _wrong(name, number, f"{END} has no {START} before it")
    if mark == _START and len(found) == 1:
        _wrong(name, number, f"{START} stands within the block that line {found[0][0] + 1} begins")
    if len(found) == 2:
        _wrong(name, number, f"{mark.decode()} stands there once more after line {found[1][0] + 1}")


def _closing(lines: Sequence[bytes], number: int) -> int | None:
    """The line that ends the fenced block or the comment which begins here; None where none does, or nothing ends it."""
    if _opens_comment(lines[number]):
        return next((later for later in range(number + 1, len(lines)) if _closes_comment(lines[later])), None)
    opening = _FENCE.match(lines[number].rstrip(b"\r\n"))
    if opening is None:
        return None
    fence = opening[1]
    deep = _CODE.match(lines[number]) is not None
    for later in range(number + 1, len(lines)):
        text = lines[later].strip().lstrip(b"> ")
        # What is indented like code is a fence of something indented, or none: one at the margin ends it not.
        if len(text) >= len(fence) and not text.strip(fence[:1]) and not (deep and lines[later][:1] in b"`~"):
            return later
    return None


def _opens_comment(line: bytes) -> bool:
    return line.rpartition(b"<!--")[1] != b"" and b"-->" not in line.rpartition(b"<!--")[2]


def _closes_comment(line: bytes) -> bool:
    """By another end than that of a marker, which stands there to be shown."""
    return b"-->" in line.replace(_START, b"").replace(_END, b"")


def _refuse_utf16(data: bytes, name: str) -> None:
    if data.startswith(_UTF16) and START in data.decode("utf-16", errors="replace"):
        raise MarkersWrong(f"{name} is in UTF-16.", advice="Save it as UTF-8, which its readers expect.")


def _wrong(name: str, number: int, what: str) -> NoReturn:
    raise MarkersWrong(
        f"{name}, line {number + 1}: {what}.",
        advice=f"Leave one {START} and one {END} after it, each on a line of its own.",
    )
