"""Conversations in files that their program rewrites as a whole."""

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

MOST = 64 << 20  # bytes that are read at once; a larger file isn't
_HEAD = 1_024  # of those that a file is known by
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]+")

Read = Callable[[bytes], tuple[Sequence[TranscriptStep], TranscriptInfo]]


def follow_whole(file: Path, cursor: TranscriptCursor, read: Read) -> TranscriptRead | None:
    """All of it if it isn't as it was at the cursor, else nothing; None when there is no such file."""
    try:
        facts = file.stat()
        if not stat.S_ISREG(facts.st_mode):  # a pipe would keep us waiting
            return None
        with file.open("rb") as stream:
            head = stream.read(_HEAD)
            known = f"{facts.st_size} {facts.st_mtime_ns} ".encode() + head
            mark = hashlib.blake2b(known, digest_size=12).hexdigest()
            if mark == cursor.mark:
                return TranscriptRead((), cursor, 0)
            raw = b"" if facts.st_size > MOST else head + stream.read(MOST)
    except (OSError, ValueError):  # or a name that no file can have
        return None
    steps, about = read(raw) if facts.st_size <= MOST else ((), TranscriptInfo(too_long=(0,)))
    return TranscriptRead(
        steps=tuple(steps),
        cursor=TranscriptCursor(facts.st_size, raw.count(b"\n"), mark),
        lines=len({step.line for step in steps}),
        restarted=cursor != TranscriptCursor(),
        cwd=about.cwd,
        about=about,
    )


class Members:
    """What the object or the list in a file holds, one by one, with its key and its place; of `lists` each element.

    It ends where the text can't be read any more: `bad` is that line then, else 0.
    """

    def __init__(self, raw: bytes, lists: Collection[str]) -> None:
        self.bad = 0
        self._text = raw.decode("utf-8", "replace")
        self._lists = lists
        self._at = len(self._text) - len(self._text.lstrip("\ufeff"))
        self._counted = self._byte = 0  # characters behind us, and their bytes
        self._line = 1

    def __iter__(self) -> Iterator[tuple[str, Any, EntryPosition]]:
        try:
            opening = self._take("{[")
            yield from self._object() if opening == "{" else self._list("")
        except (ValueError, RecursionError):
            self.bad = self._place(self._at).line

    def _object(self) -> Iterator[tuple[str, Any, EntryPosition]]:
        while self._next() != "}":
            key, _ = self._value()
            self._take(":")
            if key in self._lists and self._next() == "[":
                self._take("[")
                yield from self._list(str(key))
            else:
                value, place = self._value()
                yield str(key), value, place
            if self._next() != "}":
                self._take(",")

    def _list(self, key: str) -> Iterator[tuple[str, Any, EntryPosition]]:
        while self._next() != "]":
            value, place = self._value()
            yield key, value, place
            if self._next() != "]":
                self._take(",")
        self._take("]")

    def _value(self) -> tuple[Any, EntryPosition]:
        self._next()
        begins = self._place(self._at)
        value, self._at = _DECODER.raw_decode(self._text, self._at)
        return value, EntryPosition(begins.line, self._place(self._at).end)

    def _next(self) -> str:
        """What stands next, not taken."""
        if behind := _SPACE.match(self._text, self._at):
            self._at = behind.end()
        return self._text[self._at : self._at + 1]

    def _take(self, wanted: str) -> str:
        found = self._next()
        if not found or found not in wanted:
            raise ValueError
        self._at += 1
        return found

    def _place(self, at: int) -> EntryPosition:
        """Never before one that was asked for earlier."""
        behind = self._text[self._counted : at]
        self._byte += len(behind.encode("utf-8", "surrogatepass"))
        self._line += behind.count("\n")
        self._counted = at
        return EntryPosition(self._line, self._byte)


def entries_of(folder: str | Path) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing where it can't be read."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def under(folder: str | Path, deepest: int) -> Iterator[os.DirEntry[str]]:
    """The files in a folder and in those within it, so many deep."""
    for entry in entries_of(folder):
        with suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                if deepest:
                    yield from under(entry.path, deepest - 1)
            elif entry.is_file():
                yield entry


def conversation(
    entry: os.DirEntry[str], source: str, *, folder: str = "", part_of: str = ""
) -> ConversationFile | None:
    """It as the disk tells; None when it is empty or has gone."""
    try:
        facts = entry.stat()
    except OSError:
        return None
    if not facts.st_size:
        return None
    return ConversationFile(
        Path(entry.path), facts.st_size, facts.st_mtime_ns, source, folder=folder, part_of=part_of
    )


def head_of(path: str | Path, size: int) -> bytes:
    """How a file begins; nothing where it can't be read."""
    try:
        with Path(path).open("rb") as stream:
            return stream.read(size)
    except (OSError, ValueError):
        return b""


def is_whole(file: Path, head: bytes) -> bool:
    """Whether a file is one object, and not one on each line; a copy of it may have another name."""
    return file.suffix == ".json" or head.lstrip()[:64].partition(b"\n")[0].strip() == b"{"


def lies_under(path: Path, folders: Collection[Path]) -> bool:
    """Whether a file lies in one of the folders, whatever links lead there."""
    real = Path(os.path.realpath(path))
    return any(
        path.is_relative_to(folder) or real.is_relative_to(os.path.realpath(folder)) for folder in folders
    )
