"""One archived conversation: gzip members, one after the other, which `zcat` reads as one file.

Each member's header says how long it is, so the end is found without unpacking, and the first one's what it is a copy of.
The header is written after what it describes: a member that was cut short has none, and is overwritten by the next.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

_BLOCK = 256 << 10
_LEVEL = 6

# Of RFC 1952: magic, deflate, fields of ours; no time; unknown system. Then the fields' length; the first one's name, and
# in it the bytes of the whole member and of what it holds; a second one has what the copy is of.
_HEADER = struct.Struct("<4sIBBH2sHQQ")
_START, _SIZES = (b"\x1f\x8b\x08\x04", 0, 0, 255), (b"Rc", 16)
_BEFORE_FIELDS, _FIRST_FIELD = 12, 20
_FIELD, _ABOUT = struct.Struct("<2sH"), b"Rd"
LONGEST_ABOUT = 60_000  # bytes
_TRAILER = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class Member:
    """Where it begins in the archive, its bytes there, those of its header, and where what it holds begins in the
    conversation."""

    at: int
    length: int
    head: int
    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


def members(archive: BinaryIO) -> Iterator[Member]:
    """Those that are whole by their headers, in order."""
    room = archive.seek(0, os.SEEK_END)
    at = start = 0
    while at + _HEADER.size + _TRAILER.size <= room:
        archive.seek(at)
        header = archive.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return
        *beginning, fields, name, width, length, size = _HEADER.unpack(header)
        head = _BEFORE_FIELDS + fields
        if tuple(beginning) != _START or (name, width) != _SIZES or fields < _FIRST_FIELD:
            return
        if length < head + _TRAILER.size or at + length > room:
            return
        yield Member(at, length, head, start, size)
        at, start = at + length, start + size


def about(archive: BinaryIO, member: Member) -> bytes:
    """What the copy is of, as it was told; nothing where it wasn't."""
    archive.seek(member.at + _HEADER.size)
    fields = archive.read(member.head - _HEADER.size)
    if len(fields) < _FIELD.size:
        return b""
    name, length = _FIELD.unpack_from(fields)
    return fields[_FIELD.size : _FIELD.size + length] if name == _ABOUT else b""


def contents(archive: BinaryIO, member: Member) -> Iterator[bytes]:
    """What it holds, in blocks. Raises ValueError when that isn't what was put in."""
    archive.seek(member.at + member.head)
    left = member.length - member.head - _TRAILER.size
    inflating, check, size = zlib.decompressobj(-zlib.MAX_WBITS), 0, 0
    while left:
        packed = archive.read(min(_BLOCK, left))
        if not packed:
            raise ValueError("it ends early")
        left -= len(packed)
        while packed:
            try:
                block = inflating.decompress(packed, _BLOCK)
            except zlib.error as error:
                raise ValueError("it is no deflated data") from error
            packed = inflating.unconsumed_tail
            check, size = zlib.crc32(block, check), size + len(block)
            if block:
                yield block
    if archive.read(_TRAILER.size) != _TRAILER.pack(check, size & 0xFFFFFFFF) or size != member.size:
        raise ValueError("its checksum is another")


def everything(archive: BinaryIO) -> Iterator[bytes]:
    """What all members hold, without one at the end that was cut short. Raises ValueError for what isn't sound."""
    at = 0
    for member in members(archive):
        yield from contents(archive, member)
        at = member.at + member.length
    archive.seek(at)
    if archive.read(_HEADER.size).strip(b"\0"):
        raise ValueError(f"no conversation goes on at byte {at}")


def add_member(archive: BinaryIO, at: int, blocks: Iterator[bytes], *, about: bytes = b"") -> Member | None:
    """Write one there, durably, and cut off what followed; None for nothing. Its start isn't known here: it is 0."""
    deflating, check, size = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS), 0, 0
    fields = _FIELD.pack(_ABOUT, len(about)) + about if about else b""
    head = _HEADER.size + len(fields)
    archive.seek(at)
    archive.truncate()
    archive.write(bytes(head))
    for block in blocks:
        archive.write(deflating.compress(block))
        check, size = zlib.crc32(block, check), size + len(block)
    archive.write(deflating.flush() + _TRAILER.pack(check, size & 0xFFFFFFFF))
    length = archive.tell() - at
    if not size:
        archive.seek(at)
        archive.truncate()
        return None
    archive.flush()
    archive.seek(at)
    archive.write(_HEADER.pack(*_START, _FIRST_FIELD + len(fields), *_SIZES, length, size) + fields)
    archive.flush()
    os.fsync(archive.fileno())
    return Member(at, length, head, 0, size)
