"""A transcript that goes on: what came after a cursor, in pieces, in bounded memory.

A last line without a line break is whole when it is JSON to its end: the beginning of an object never is. So nothing of a
line that is still being written is taken, and nothing of a finished file is left. What belongs to a piece but stands
before it (the call that a result answers, an entry that is repeated) is looked up there, so that the pieces together give
what the file would give at once; for that no further back than LOOK_BACK.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from mindhold.ports.transcripts import About, Cursor, Followed, Role, Step
from mindhold.providers.transcripts.about import Telling
from mindhold.providers.transcripts.earlier import Earlier
from mindhold.providers.transcripts.entries import SPOKEN, Entry, entries_in, is_aside, moment_of, string
from mindhold.providers.transcripts.lines import Line, read_line
from mindhold.providers.transcripts.steps import Place, is_ours, steps_in

_BUFFER = 64 << 10
_SAMPLE = 1_024  # bytes at the beginning and before the cursor that a file is known by


class Piece(Protocol):
    """What is taken of the lines after a cursor."""

    line: int  # the last one that was taken
    latest: datetime | None  # the latest moment so far

    @property
    def cwd(self) -> str:
        """The folder that was worked in."""

    def take(self, line: Line, *, end: int, within: bool) -> bool:
        """Whether it is whole; else nothing of it was taken. `within`: it goes on with the line before."""

    def steps(self, stream: BinaryIO) -> tuple[Step, ...]:
        """What happened."""

    def about(self) -> About:
        """What was said about the conversation itself."""


Begin = Callable[[BinaryIO, Cursor], Piece]


def follow(file: Path, cursor: Cursor, *, most_bytes: int, folder: str = "") -> Followed | None:
    """At most about so many bytes after the cursor, whole lines; None when there is no such file. `folder` is what the
    program calls the project that the file belongs to."""
    telling = Telling(file, folder or file.parent.name)
    return follow_with(file, cursor, lambda _, start: _Piece(start, telling), most_bytes=most_bytes)


def follow_with(file: Path, cursor: Cursor, begin: Begin, *, most_bytes: int) -> Followed | None:
    """The same of a program whose lines say other things: what takes them `begin` gives."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):  # a pipe would keep us waiting
            return None
        with file.open("rb", buffering=_BUFFER) as stream:
            return _followed(stream, cursor, begin, most_bytes=most_bytes)
    except (OSError, ValueError):  # or a name that no file can have
        return None


def _followed(stream: BinaryIO, cursor: Cursor, begin: Begin, *, most_bytes: int) -> Followed:
    same = cursor.offset == 0 or _sample(stream, cursor.offset) == cursor.mark.partition(" ")[0]
    start = cursor if same else Cursor()
    piece = begin(stream, start)
    place, more, half = start.offset, False, False
    within = start.offset > 0 and not _ends_a_line(stream, start.offset)
    stream.seek(start.offset)
    while line := read_line(stream, most=sys.maxsize):
        if not piece.take(line, end=place + line.size, within=within):
            half = True
            break
        place, within = place + line.size, False
        if place - start.offset >= most_bytes:
            more = place < os.fstat(stream.fileno()).st_size
            break
    steps = piece.steps(stream)
    mark = _sample(stream, place)
    return Followed(
        steps=steps,
        cursor=Cursor(place, piece.line, f"{mark} {piece.latest.isoformat()}" if piece.latest else mark),
        lines=len({step.line for step in steps}),
        more=more,
        restarted=not same,
        cwd=piece.cwd,
        about=piece.about(),
        half=half,
    )


def _sample(stream: BinaryIO, offset: int) -> str:
    """What the bytes before the cursor are known by; nothing where there are fewer."""
    if offset == 0:
        return ""
    stream.seek(0)
    head = stream.read(min(offset, _SAMPLE))
    stream.seek(max(0, offset - _SAMPLE))
    tail = stream.read(min(offset, _SAMPLE))
    if len(tail) < min(offset, _SAMPLE):
        return ""
    return hashlib.blake2b(head + tail, digest_size=12).hexdigest()


def latest_of(mark: str) -> datetime | None:
    """The latest moment that a cursor's mark tells of."""
    moment = mark.partition(" ")[2]
    with suppress(ValueError):  # another version wrote it
        return datetime.fromisoformat(moment) if moment else None
    return None


def _ends_a_line(stream: BinaryIO, offset: int) -> bool:
    stream.seek(offset - 1)
    return stream.read(1) == b"\n"


class _Piece:
    """What was taken of the lines after a cursor."""

    def __init__(self, cursor: Cursor, telling: Telling) -> None:
        self._telling = telling
        self.line = cursor.line  # the last one that was taken
        self.latest = latest_of(cursor.mark)  # of all entries so far: what is repeated is no later
        self.cwd = ""
        self._offset = cursor.offset
        self._before = self.latest
        self._made: list[tuple[Step, str]] = []  # with the entry's uuid
        self._tools: dict[str, str] = {}
        self._seen: set[str] = set()  # uuids
        self._doubtful: set[str] = set()  # of them those that may stand before the piece already

    def take(self, line: Line, *, end: int, within: bool) -> bool:
        """Whether it is whole; else nothing of it was taken. `within`: it goes on with the line before."""
        entries, whole = entries_in(line.raw) if line.held else ((), False)
        if not whole and not line.ended:
            return False
        self.line += not within
        if not whole:
            self._telling.bad.note(self.line, too_long=not line.held)
        for entry in entries:
            if entry.get("type") in SPOKEN:
                self._entry(entry, end)
            else:
                self._telling.called(entry)
        return True

    def _entry(self, entry: Entry, end: int) -> None:
        uuid, moment = string(entry.get("uuid")), moment_of(entry)
        self._telling.said(entry, uuid, moment)
        if uuid and uuid in self._seen:  # resumed conversations repeat what was said before
            return
        made = steps_in(
            entry, Place(self.line, end, moment, self._telling.subagents or is_aside(entry)), self._tools
        )
        if not made:
            return
        self._made += [(step, uuid) for step in made]
        self._seen.add(uuid)
        if uuid and self._offset and (moment is None or (self._before and moment <= self._before)):
            self._doubtful.add(uuid)
        if moment is not None:
            self.latest = max(self.latest or moment, moment)
        self.cwd = self.cwd or string(entry.get("cwd"))

    def about(self) -> About:
        """What was said about the conversation itself."""
        return self._telling.about()

    def steps(self, stream: BinaryIO) -> tuple[Step, ...]:
        """What happened, without what happened before, and with the names of tools that were called before."""
        results = (step for step, _ in self._made if step.role is Role.RESULT and not step.tool)
        calls = {step.call for step in results if step.call}
        if not self._offset or not (self._doubtful or calls):
            return tuple(step for step, _ in self._made)
        earlier = Earlier(self._doubtful, calls)
        earlier.look(stream, before=self._offset)
        steps = (earlier.named(step) for step, uuid in self._made if uuid not in earlier.repeated)
        return tuple(step for step in steps if not is_ours(step.tool))
