"""Copies of transcripts, compressed, one file for each. Contract: recollect.ports.history.Archive.

One process at a time writes, which `recollect.engine.history.turn` sees to.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from recollect.model.errors import InvalidInput, NotFound, StoreDamaged, StoreError, StoreFull, StoreReadOnly
from recollect.ports.history import Archived
from recollect.stores.history.members import Member, add_member, contents, everything, members

SUFFIX = ".jsonl.gz"

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}(?:~[1-9][0-9]{0,5})?")
_EARLIER = "~"  # before the number of a copy whose file was replaced by another
_MEMBER = 1 << 20
_BLOCK = 256 << 10
_COMPARED = 4 << 10
_LONGEST_LINE = 16 << 20  # without its line break, beyond which nobody looks whether it is whole


class GzipArchive:
    """Nothing is made before something is added."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def all(self) -> list[Archived]:
        try:
            entries = list(os.scandir(self._folder))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _ours(error, self._folder) from error
        found = []
        for entry in entries:
            name = entry.name.removesuffix(SUFFIX)
            if name != entry.name and _NAME.fullmatch(name):
                with suppress(OSError):  # gone meanwhile
                    found.append(self._described(name, Path(entry.path)))
        return found

    def add(self, name: str, file: Path, *, start: int) -> int:
        """It goes on where the copy itself ends, whatever the caller thinks. A copy of another file than that is kept under
        a number, and a new one begun."""
        path = self._path(name)
        with file.open("rb") as source:
            until = _whole_lines(source)
            with _writing(path):
                _make_private(self._folder, path)
                with path.open("r+b") as archive:
                    sound = _last_sound(archive)
                    if sound is None or _is_copy(archive, *sound, source):
                        last = None if sound is None else sound[0]
                        return _append(archive, last, source, until=until)
                if not until:
                    return sound[0].end
                path.rename(self._path(f"{name}{_EARLIER}{self._next_number(name)}"))
                _make_private(self._folder, path)
                with path.open("r+b") as archive:
                    return _append(archive, None, source, until=until)

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
        """With the copies of it that were numbered."""
        path = self._path(name)
        earlier = [] if _EARLIER in name else list(self._folder.glob(f"{name}{_EARLIER}*{SUFFIX}"))
        removed = False
        with _writing(path):
            for one in (path, *earlier):
                with suppress(FileNotFoundError):
                    one.unlink()
                    removed = True
        return removed

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

    def _described(self, name: str, path: Path) -> Archived:
        with path.open("rb") as archive:
            size = sum(member.size for member in members(archive))
            about = os.fstat(archive.fileno())
        return Archived(name, size, about.st_size, about.st_mtime_ns)


def _append(archive: BinaryIO, last: Member | None, source: BinaryIO, *, until: int) -> int:
    at, copied = (0, 0) if last is None else (last.at + last.length, last.end)
    while copied < until:
        source.seek(copied)
        added = add_member(archive, at, _lines(source, until - copied))
        if added is None:  # the file was cut meanwhile
            break
        at, copied = at + added.length, copied + added.size
    return copied


def _lines(source: BinaryIO, left: int) -> Iterator[bytes]:
    """About a member's worth of whole lines; a line that is longer comes whole."""
    given = 0
    while left:
        block = source.read(min(_BLOCK, left))
        if not block:
            return
        left -= len(block)
        given += len(block)
        end = block.rfind(b"\n") + 1
        if given >= _MEMBER and end:
            yield block[:end]
            return
        yield block


def _whole_lines(source: BinaryIO) -> int:
    """How far the file's whole lines go. The last may lack its line break: the beginning of an object is none yet."""
    size = end = source.seek(0, os.SEEK_END)
    cut = 0
    while end and not cut:
        start = max(end - _BLOCK, 0)
        source.seek(start)
        cut = source.read(end - start).rfind(b"\n") + 1
        end = start + cut
    if not 0 < size - end < _LONGEST_LINE:
        return end
    source.seek(end)
    return size if _is_object(source.read(size - end)) else end


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _last_sound(archive: BinaryIO) -> tuple[Member, bytes] | None:
    """The last member whose contents are what was put in, with how they end."""
    for member in reversed(list(members(archive))):
        ending = b""
        with suppress(ValueError):
            for block in contents(archive, member):
                ending = (ending + block)[-_COMPARED:]
            return member, ending
    return None


def _is_copy(archive: BinaryIO, last: Member, ending: bytes, source: BinaryIO) -> bool:
    """Whether it is of this file: that begins like it, and has what the copy ends with where it ends."""
    first = next(members(archive))
    beginning = next(contents(archive, first))[:_COMPARED]
    source.seek(0)
    if source.read(len(beginning)) != beginning:
        return False
    source.seek(last.end - len(ending))
    return source.read(len(ending)) == ending


def _make_private(folder: Path, path: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
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
