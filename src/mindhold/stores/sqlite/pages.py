"""Rows read from a file's pages one by one, for when the tree that leads to them is broken.

The format is SQLite's (file format, sections 1.6 and 2.1): a leaf page of a table begins with 13 and lists its cells.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

MAGIC = b"SQLite format 3\x00"
_LEAF = 13
_FILE_HEADER = 100
_USUAL_PAGE_SIZE = 4096
_LONGEST = 1 << 28

_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # serial type: bytes

Row = tuple[int, list[Any]]


class Unreadable(ValueError):
    """The bytes are no cell of a table."""


def rows(path: Path, *, columns: range) -> Iterator[Row]:
    """Number and values of each row that has so many columns and can be read whole."""
    with path.open("rb") as stream:
        size = page_size(stream)
        number = 0
        while page := _page(stream, number, size):
            start = _FILE_HEADER if number == 0 else 0
            if page[start] == _LEAF:
                for cell in _cells(page, start):
                    try:
                        row, record = _record(stream, page, cell)
                        values = _values(record, columns)
                    except (Unreadable, IndexError, struct.error, UnicodeDecodeError):
                        continue
                    yield row, values
            number += 1


def page_size(stream: BinaryIO) -> int:
    """As the file's header says, or the usual one where there is no header any more."""
    stream.seek(0)
    header = stream.read(18)
    if header[:16] != MAGIC:
        return _USUAL_PAGE_SIZE
    size = int.from_bytes(header[16:18], "big")
    return 65536 if size == 1 else size if size >= 512 and not size & (size - 1) else _USUAL_PAGE_SIZE


def _page(stream: BinaryIO, number: int, size: int) -> bytes:
    stream.seek(number * size)
    page = stream.read(size)
    return page if len(page) == size else b""


def _cells(page: bytes, start: int) -> list[int]:
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    places = page[start + 8 : start + 8 + 2 * count]
    return [int.from_bytes(places[at : at + 2], "big") for at in range(0, len(places) - 1, 2)]


def _record(stream: BinaryIO, page: bytes, place: int) -> tuple[int, bytes]:
    """The row's number and its record, collected from the overflow pages where it is long."""
    length, place = _varint(page, place)
    row, place = _varint(page, place)
    if not 0 < length < _LONGEST:
        raise Unreadable
    usable = len(page)
    local = length
    if length > usable - 35:
        least = (usable - 12) * 32 // 255 - 23
        spread = least + (length - least) % (usable - 4)
        local = spread if spread <= usable - 35 else least
    record = page[place : place + local]
    if len(record) < local:
        raise Unreadable
    if local < length:
        (following,) = struct.unpack_from(">I", page, place + local)
        record += _overflow(stream, following, missing=length - local, size=usable)
    return row, record


def _overflow(stream: BinaryIO, number: int, *, missing: int, size: int) -> bytes:
    parts = []
    while missing > 0:
        page = _page(stream, number - 1, size) if number else b""
        if not page:
            raise Unreadable
        parts.append(page[4 : 4 + missing])
        missing -= len(parts[-1])
        number = int.from_bytes(page[:4], "big")
    return b"".join(parts)


def _values(record: bytes, columns: range) -> list[Any]:
    end, place = _varint(record, 0)
    types = []
    while place < end:
        kind, place = _varint(record, place)
        types.append(kind)
    if place != end or len(types) not in columns:
        raise Unreadable
    values: list[Any] = []
    for kind in types:
        value, place = _value(record, place, kind)
        values.append(value)
    if place != len(record):
        raise Unreadable
    return values


def _value(record: bytes, place: int, kind: int) -> tuple[Any, int]:
    if kind == 0:
        return None, place
    if kind in _INTEGERS:
        end = place + _INTEGERS[kind]
        return int.from_bytes(record[place:end], "big", signed=True), end
    if kind == 7:
        return struct.unpack_from(">d", record, place)[0], place + 8
    if kind in (8, 9):
        return kind - 8, place
    if kind < 12:
        raise Unreadable
    end = place + (kind - 12) // 2
    if end > len(record):
        raise Unreadable
    return (record[place:end].decode() if kind % 2 else record[place:end]), end


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Seven bits a byte, the highest first; a ninth byte counts whole."""
    value = 0
    for count in range(8):
        byte = data[place + count]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + count + 1
    return value << 8 | data[place + 8], place + 9
