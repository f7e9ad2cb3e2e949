"""Compressed copies of transcripts, one gzip file each. Contract: mindhold.ports.history.Archive."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mindhold.model.errors import InvalidInput, NotFound, StoreDamaged, StoreError, StoreFull, StoreReadOnly
from mindhold.ports.history import ArchivedTranscript, ArchiveSource, Fits

_BLOCK = 256 << 10
_LEVEL = 6

# RFC 1952: magic, deflate, extra fields; no time; unknown system. Then the fields' length, the name of the first
# field, and in it the bytes of the member and of its content. A second field describes the source of the copy.
_HEADER = struct.Struct("<4sIBBH2sHQQ")
_START, _SIZES = (b"\x1f\x8b\x08\x04", 0, 0, 255), (b"Rc", 16)
_BEFORE_FIELDS, _FIRST_FIELD = 12, 20
_FIELD, _ABOUT = struct.Struct("<2sH"), b"Rd"
LONGEST_ABOUT = 60_000  # bytes
_TRAILER = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class GzipMember:
    """A gzip member: offset, length and header length in the archive, and the start of its content in the file."""

    at: int
    length: int
    head: int
    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


def members(archive: BinaryIO) -> Iterator[GzipMember]:
    """The members that are complete according to their headers, in order."""
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
        yield GzipMember(at, length, head, start, size)
        at, start = at + length, start + size


def about(archive: BinaryIO, member: GzipMember) -> bytes:
    """The stored description of the copy's source; empty if there is none."""
    archive.seek(member.at + _HEADER.size)
    fields = archive.read(member.head - _HEADER.size)
    if len(fields) < _FIELD.size:
        return b""
    name, length = _FIELD.unpack_from(fields)
    return fields[_FIELD.size : _FIELD.size + length] if name == _ABOUT else b""


def contents(archive: BinaryIO, member: GzipMember) -> Iterator[bytes]:
    """The content of a member, in blocks. Raises ValueError if it isn't what was stored."""
    archive.seek(member.at + member.head)
    remaining = member.length - member.head - _TRAILER.size
    inflating, check, size = zlib.decompressobj(-zlib.MAX_WBITS), 0, 0
    while remaining:
        packed = archive.read(min(_BLOCK, remaining))
        if not packed:
            raise ValueError("it ends early")
        remaining -= len(packed)
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
    """The content of all members, without an incomplete last one. Raises ValueError for damaged data."""
    at = 0
    for member in members(archive):
        yield from contents(archive, member)
        at = member.at + member.length
    archive.seek(at)
    if archive.read(_HEADER.size).strip(b"\0"):
        raise ValueError(f"no conversation goes on at byte {at}")


def add_member(
    archive: BinaryIO, at: int, blocks: Iterator[bytes], *, about: bytes = b""
) -> GzipMember | None:
    """Write a member durably at an offset and cut off what followed; None if there is no content.

    The returned `start` is 0, because it isn't known here.
    """
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
    return GzipMember(at, length, head, 0, size)


SUFFIX = ".jsonl.gz"
GROWING = ".jsonl"  # suffix of files that only grow; others are rewritten as a whole

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}(?:~[1-9][0-9]{0,5})?")
_EARLIER = "~"  # precedes the number of a copy whose file was replaced
_MEMBER = 1 << 20
_COMPARED = 4 << 10


@dataclass(frozen=True, slots=True)
class _Copying:
    """A file to copy: its size now, its description, and the check for free room."""

    source: BinaryIO
    size: int
    about: bytes
    fits: Fits | None


class GzipArchive:
    """An archive in a folder, which is created with the first copy."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def all(self) -> list[ArchivedTranscript]:
        transcripts = []
        for name in self.sizes():
            with suppress(FileNotFoundError):  # removed in the meantime
                transcript = self._described(name)
                if transcript.size:  # else its first member is incomplete
                    transcripts.append(transcript)
        return transcripts

    def sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        with _writing(self._folder), suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                name = entry.name.removesuffix(SUFFIX)
                if name != entry.name and _NAME.fullmatch(name):
                    with suppress(FileNotFoundError):
                        sizes[name] = entry.stat().st_size
        return sizes

    def add(
        self, name: str, file: Path, *, about: ArchiveSource | None = None, fits: Fits | None = None
    ) -> ArchivedTranscript:
        """Copy a file.

        A file of lines continues its copy. If the copy is of another file, it is kept under a number and a
        new one is begun. A document is copied as a whole; of its earlier copies only the longest is kept, if
        it is longer.
        """
        path = self._path(name)
        with file.open("rb") as source, _writing(path):
            was = os.fstat(source.fileno())
            copying = _Copying(source, was.st_size, _as_bytes(about), fits)
            if was.st_size and file.suffix == GROWING:
                self._grow(name, path, copying)
            elif was.st_size:
                self._replace(name, path, copying)
            if not path.exists():
                return ArchivedTranscript(name, 0, 0, was.st_mtime_ns, about)
            os.utime(path, ns=(was.st_mtime_ns, was.st_mtime_ns))
            return self._described(name)

    def unpack(self, name: str, target: Path) -> None:
        path = self._path(name)
        beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            archive = path.open("rb")
        except FileNotFoundError as error:
            raise NotFound(f"The archive has no conversation {name!r}.") from error
        try:
            with (
                archive,
                os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out,
            ):
                for block in everything(archive):
                    out.write(block)
            beside.replace(target)
        except ValueError as error:
            raise StoreDamaged(f"The archived conversation {path} is damaged: {error}.") from error
        except OSError as error:
            raise _ours(error, target) from error
        finally:
            beside.unlink(missing_ok=True)

    def remove(self, name: str) -> bool:
        """Remove a copy with its numbered versions and an incomplete one."""
        path = self._path(name)
        earlier = [] if _EARLIER in name else list(self._folder.glob(f"{name}{_EARLIER}*{SUFFIX}"))
        removed = False
        with _writing(path):
            for file in (path, *earlier):
                with suppress(FileNotFoundError):
                    file.unlink()
                    removed = True
            _beside(path).unlink(missing_ok=True)
        return removed

    def _grow(self, name: str, path: Path, copying: _Copying) -> None:
        if path.exists():
            with path.open("r+b") as archive:
                last = _last_sound(archive)
                if last is None or _is_copy(archive, *last, copying.source):
                    _append(archive, None if last is None else last[0], copying)
                    return
            path.rename(self._path(f"{name}{_EARLIER}{self._next_number(name)}"))
        try:
            with _private(path) as archive:
                _append(archive, None, copying)
        except OSError:
            if not self._described(name).size:  # don't leave an empty file that looks like a copy
                path.unlink()
            raise

    def _replace(self, name: str, path: Path, copying: _Copying) -> None:
        before = self._described(name).size if path.exists() else 0
        if before == copying.size and _is_same(path, copying.source):
            return
        beside, earlier = _beside(path), self._path(f"{name}{_EARLIER}1")
        try:
            beside.unlink(missing_ok=True)
            with _private(beside) as archive:
                if _append(archive, None, copying) < copying.size:
                    return
            if before > copying.size:
                earlier_size = self._described(f"{name}{_EARLIER}1").size if earlier.exists() else 0
                if before > earlier_size:
                    path.replace(earlier)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name) or name.endswith("."):
            raise InvalidInput(
                f"{name!r} is no name in the archive.", advice="Use letters, digits, and . _ - within."
            )
        return self._folder / f"{name}{SUFFIX}"

    def _next_number(self, name: str) -> int:
        number = 1
        while self._path(f"{name}{_EARLIER}{number}").exists():
            number += 1
        return number

    def _described(self, name: str) -> ArchivedTranscript:
        path = self._path(name)
        with _writing(path, but=FileNotFoundError), path.open("rb") as archive:
            all_members = list(members(archive))
            description = about(archive, all_members[0]) if all_members else b""
            stat = os.fstat(archive.fileno())
        return ArchivedTranscript(
            name,
            sum(member.size for member in all_members),
            stat.st_size,
            stat.st_mtime_ns,
            _from_bytes(description),
        )


def _append(archive: BinaryIO, last: GzipMember | None, copying: _Copying) -> int:
    """Append what follows the last member as long as it fits; returns how far the copy reaches."""
    at, copied = (0, 0) if last is None else (last.at + last.length, last.end)
    written_bytes = 0
    while copied < copying.size:
        copying.source.seek(copied)
        about = b"" if copied else copying.about
        added = add_member(archive, at, _lines(copying.source, copying.size - copied), about=about)
        if added is None:  # the file was truncated in the meantime
            break
        at, copied, written_bytes = at + added.length, copied + added.size, written_bytes + added.length
        if copying.fits is not None and not copying.fits(written_bytes):
            break
    return copied


def _lines(source: BinaryIO, left: int) -> Iterator[bytes]:
    """About one member's worth of whole lines; a longer line is not split."""
    size = 0
    while left:
        block = source.read(min(_BLOCK, left))
        if not block:
            return
        left -= len(block)
        size += len(block)
        end = block.rfind(b"\n") + 1
        if size >= _MEMBER and end:
            yield block[:end]
            return
        yield block


def _as_bytes(about: ArchiveSource | None) -> bytes:
    if about is None:
        return b""
    fields = {
        "file": str(about.file),
        "source": about.source,
        "session": about.session_id,
        "part_of": about.part_of,
        "folder": about.folder,
        "project": about.project,
    }
    raw = json.dumps({name: value for name, value in fields.items() if value}).encode()
    return raw if len(raw) <= LONGEST_ABOUT else b""


def _from_bytes(raw: bytes) -> ArchiveSource | None:
    try:
        fields = json.loads(raw)
    except ValueError:
        return None
    if not isinstance(fields, dict) or not fields.get("file"):
        return None
    names = ("source", "session", "part_of", "folder", "project")
    return ArchiveSource(Path(str(fields["file"])), *(str(fields.get(name, "")) for name in names))


def _is_same(path: Path, source: BinaryIO) -> bool:
    """Whether the copy is undamaged and equals the file."""
    source.seek(0)
    try:
        with path.open("rb") as archive:
            return all(source.read(len(block)) == block for block in everything(archive))
    except ValueError:
        return False


def _last_sound(archive: BinaryIO) -> tuple[GzipMember, bytes] | None:
    """The last undamaged member, and the end of its content."""
    for member in reversed(list(members(archive))):
        ending = b""
        with suppress(ValueError):
            for block in contents(archive, member):
                ending = (ending + block)[-_COMPARED:]
            return member, ending
    return None


def _is_copy(archive: BinaryIO, last: GzipMember, ending: bytes, source: BinaryIO) -> bool:
    """Whether the copy is of this file: both begin alike, and the file has the copy's end at the same place."""
    first = next(members(archive))
    beginning = next(contents(archive, first))[:_COMPARED]
    source.seek(0)
    if source.read(len(beginning)) != beginning:
        return False
    source.seek(last.end - len(ending))
    return source.read(len(ending)) == ending


def _beside(path: Path) -> Path:
    """The temporary path of a document's copy until it is complete."""
    return path.with_name(f".{path.name}.new")


def _private(path: Path) -> BinaryIO:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
    return os.fdopen(descriptor, "r+b")


@contextmanager
def _writing(path: Path, *, but: type[OSError] | tuple[()] = ()) -> Iterator[None]:
    try:
        yield
    except but:
        raise
    except OSError as error:
        raise _ours(error, path) from error


def _ours(error: OSError, path: Path) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(
            f"There is no room left for {path}; nothing of it is kept by halves.",
            advice="Free some space on its disk and try again.",
        )
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return StoreReadOnly(
            f"{path} can't be written: {error.strerror}.", advice="Check who owns the file and its folder."
        )
    return StoreError(f"{path} can't be read or written: {error.strerror}.")
