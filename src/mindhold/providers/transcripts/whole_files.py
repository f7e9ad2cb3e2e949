"""Reads conversations in files that their program rewrites as a whole."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mindhold.ports.transcripts import (
    ConversationFile,
    TranscriptCursor,
    TranscriptInfo,
    TranscriptRead,
    TranscriptStep,
)
from mindhold.providers.transcripts.steps import EntryPosition

MAX_BYTES = 64 << 20  # larger files are not read
_HEAD_BYTES = 1_024  # bytes at the beginning that identify a file
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]+")

ReadWhole = Callable[[bytes], tuple[Sequence[TranscriptStep], TranscriptInfo]]


def follow_whole(file: Path, cursor: TranscriptCursor, read: ReadWhole) -> TranscriptRead | None:
    """Read the whole file if it changed since the cursor, else nothing; None when there is no such file."""
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):  # a pipe would block
            return None
        with file.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
            identity = f"{status.st_size} {status.st_mtime_ns} ".encode() + head
            mark = hashlib.blake2b(identity, digest_size=12).hexdigest()
            if mark == cursor.mark:
                return TranscriptRead((), cursor, 0)
            raw = b"" if status.st_size > MAX_BYTES else head + stream.read(MAX_BYTES)
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None
    steps, about = read(raw) if status.st_size <= MAX_BYTES else ((), TranscriptInfo(too_long=(0,)))
    return TranscriptRead(
        steps=tuple(steps),
        cursor=TranscriptCursor(status.st_size, raw.count(b"\n"), mark),
        lines=len({step.line for step in steps}),
        restarted=cursor != TranscriptCursor(),
        cwd=about.cwd,
        about=about,
    )


class JsonMembers:
    """Iterates the members of the object or list in a file, with key and position; `lists` are read element by element.

    It ends where the JSON breaks off: `bad` is that line then, else 0.
    """

    def __init__(self, raw: bytes, lists: Collection[str]) -> None:
        self.bad = 0
        self._text = raw.decode("utf-8", "replace")
        self._lists = lists
        self._at = len(self._text) - len(self._text.lstrip("\ufeff"))
        self._counted = self._byte = 0  # characters read so far, and their bytes
        self._line = 1

    def __iter__(self) -> Iterator[tuple[str, Any, EntryPosition]]:
        try:
            opening = self._take("{[")
            yield from self._object() if opening == "{" else self._list("")
        except (ValueError, RecursionError):
            self.bad = self._position(self._at).line

    def _object(self) -> Iterator[tuple[str, Any, EntryPosition]]:
        while self._next() != "}":
            key, _ = self._value()
            self._take(":")
            if key in self._lists and self._next() == "[":
                self._take("[")
                yield from self._list(str(key))
            else:
                value, position = self._value()
                yield str(key), value, position
            if self._next() != "}":
                self._take(",")

    def _list(self, key: str) -> Iterator[tuple[str, Any, EntryPosition]]:
        while self._next() != "]":
            value, position = self._value()
            yield key, value, position
            if self._next() != "]":
                self._take(",")
        self._take("]")

    def _value(self) -> tuple[Any, EntryPosition]:
        self._next()
        start = self._position(self._at)
        value, self._at = _DECODER.raw_decode(self._text, self._at)
        return value, EntryPosition(start.line, self._position(self._at).end)

    def _next(self) -> str:
        """Return the next character without taking it."""
        if space := _SPACE.match(self._text, self._at):
            self._at = space.end()
        return self._text[self._at : self._at + 1]

    def _take(self, expected: str) -> str:
        character = self._next()
        if not character or character not in expected:
            raise ValueError
        self._at += 1
        return character

    def _position(self, at: int) -> EntryPosition:
        """Return the position of a character; calls must be in ascending order."""
        text = self._text[self._counted : at]
        self._byte += len(text.encode("utf-8", "surrogatepass"))
        self._line += text.count("\n")
        self._counted = at
        return EntryPosition(self._line, self._byte)


def list_folder(folder: str | Path) -> list[os.DirEntry[str]]:
    """List a folder; empty where it can't be read."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def files_under(folder: str | Path, deepest: int) -> Iterator[os.DirEntry[str]]:
    """Yield the files in a folder and its subfolders, down to that depth."""
    for entry in list_folder(folder):
        with suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                if deepest:
                    yield from files_under(entry.path, deepest - 1)
            elif entry.is_file():
                yield entry


def describe_file(
    entry: os.DirEntry[str], source: str, *, folder: str = "", part_of: str = ""
) -> ConversationFile | None:
    """Describe a file by its directory entry; None when it is empty or gone."""
    try:
        status = entry.stat()
    except OSError:
        return None
    if not status.st_size:
        return None
    return ConversationFile(
        Path(entry.path), status.st_size, status.st_mtime_ns, source, folder=folder, part_of=part_of
    )


def read_head(path: str | Path, size: int) -> bytes:
    """Return the beginning of a file; empty where it can't be read."""
    try:
        with Path(path).open("rb") as stream:
            return stream.read(size)
    except (OSError, ValueError):
        return b""


def is_one_object(file: Path, head: bytes) -> bool:
    """Whether a file is one object, not one on each line; a copy may have another name."""
    return file.suffix == ".json" or head.lstrip()[:64].partition(b"\n")[0].strip() == b"{"


def is_under(path: Path, folders: Collection[Path]) -> bool:
    """Whether the file lies in one of the folders, also through links."""
    real = Path(os.path.realpath(path))
    return any(
        path.is_relative_to(folder) or real.is_relative_to(os.path.realpath(folder)) for folder in folders
    )
