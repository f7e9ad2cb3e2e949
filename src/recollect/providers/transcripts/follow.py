"""A transcript that goes on: what came after a cursor, in pieces, in bounded memory.

A last line without a line break is whole when it is JSON to its end: the beginning of an object never is. So nothing of a
line that is still being written is taken, and nothing of a finished file is left. What belongs to a piece but stands
before it (the call that a result answers, an entry that is repeated) is looked up there, so that the pieces together give
what the file would give at once; for that no further back than LOOK_BACK.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from recollect.ports.transcripts import Cursor, Followed, Role, Step
from recollect.providers.transcripts.entries import BadLine, Entry, entries_in, string
from recollect.providers.transcripts.parse import Line, read_line
from recollect.providers.transcripts.steps import Place, is_ours, steps_in

LOOK_BACK, NEAR = 64 << 20, 1 << 20
_SAMPLE = 1_024  # bytes at the beginning and before the cursor that a file is known by
_NAMED = re.compile(rb'"(?:uuid|id)"\s*:\s*"([^"\\]{1,200})"')


def follow(file: Path, cursor: Cursor, *, most_bytes: int) -> Followed | None:
    """At most about so many bytes after the cursor, whole lines; None when there is no such file."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):  # a pipe would keep us waiting
            return None
        with file.open("rb") as stream:
            return _followed(stream, cursor, most_bytes=most_bytes)
    except (OSError, ValueError):  # or a name that no file can have
        return None


def _followed(stream: BinaryIO, cursor: Cursor, *, most_bytes: int) -> Followed:
    same = cursor.offset == 0 or _sample(stream, cursor.offset) == cursor.mark.partition(" ")[0]
    start = cursor if same else Cursor()
    piece = _Piece(start)
    place, more = start.offset, False
    within = start.offset > 0 and not _ends_a_line(stream, start.offset)
    stream.seek(start.offset)
    while line := read_line(stream, most=sys.maxsize):
        if not piece.take(line, end=place + line.size, within=within):
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


def _latest(mark: str) -> datetime | None:
    moment = mark.partition(" ")[2]
    with suppress(ValueError):  # another version wrote it
        return datetime.fromisoformat(moment) if moment else None
    return None


def _ends_a_line(stream: BinaryIO, offset: int) -> bool:
    stream.seek(offset - 1)
    return stream.read(1) == b"\n"


class _Piece:
    """What was taken of the lines after a cursor."""

    def __init__(self, cursor: Cursor) -> None:
        self.line = cursor.line  # the last one that was taken
        self.latest = _latest(cursor.mark)  # of all entries so far: what is repeated is no later
        self.cwd = ""
        self._offset = cursor.offset
        self._before = self.latest
        self._made: list[tuple[Step, str]] = []  # with the entry's uuid
        self._tools: dict[str, str] = {}
        self._seen: set[str] = set()  # uuids
        self._doubtful: set[str] = set()  # of them those that may stand before the piece already

    def take(self, line: Line, *, end: int, within: bool) -> bool:
        """Whether it is whole; else nothing of it was taken. `within`: it goes on with the line before."""
        entries: list[Entry] = []
        bad = not line.held
        try:
            for entry in entries_in(line.raw) if line.held else ():
                entries.append(entry)
        except BadLine:
            bad = True
        if bad and not line.ended:
            return False
        self.line += not within
        for entry in entries:
            self._entry(entry, Place(self.line, end))
        return True

    def _entry(self, entry: Entry, place: Place) -> None:
        uuid = string(entry.get("uuid"))
        if uuid and uuid in self._seen:  # resumed conversations repeat what was said before
            return
        made = [(step, uuid) for step in steps_in(entry, place, self._tools)]
        if not made:
            return
        self._made += made
        self._seen.add(uuid)
        moment = made[0][0].timestamp
        if uuid and self._offset and (moment is None or (self._before and moment <= self._before)):
            self._doubtful.add(uuid)
        if moment is not None:
            self.latest = max(self.latest or moment, moment)
        self.cwd = self.cwd or string(entry.get("cwd"))

    def steps(self, stream: BinaryIO) -> tuple[Step, ...]:
        """What happened, without what happened before, and with the names of tools that were called before."""
        results = (step for step, _ in self._made if step.role is Role.RESULT and not step.tool)
        calls = {step.call for step in results if step.call}
        earlier = _Earlier(self._doubtful, calls)
        if self._offset and (self._doubtful or calls):
            earlier.look(stream, before=self._offset)
        steps = (earlier.named(step) for step, uuid in self._made if uuid not in earlier.repeated)
        return tuple(step for step in steps if not is_ours(step.tool))


class _Earlier:
    """What stands before a piece of what is sought there."""

    def __init__(self, uuids: set[str], calls: set[str]) -> None:
        self.repeated: set[str] = set()
        self._tools: dict[str, str] = {}
        self._uuids = uuids
        self._calls = calls
        self._sought = {one.encode("utf-8", "surrogatepass") for one in uuids | calls}

    def look(self, stream: BinaryIO, *, before: int) -> None:
        """Calls mostly stand right before; what may be repeated can stand anywhere."""
        if not self._uuids:
            self._scan(stream, before - NEAR, before)
        if self._uuids or len(self._tools) < len(self._calls):
            self._scan(stream, before - LOOK_BACK, before)

    def named(self, step: Step) -> Step:
        """With the name of its tool, where that is known from before."""
        if step.role is not Role.RESULT or step.tool or step.call not in self._tools:
            return step
        return replace(step, tool=self._tools[step.call])

    def _scan(self, stream: BinaryIO, start: int, before: int) -> None:
        place = max(0, start)
        stream.seek(place)
        cut = place > 0  # in the middle of a line, most likely
        while place < before and (line := read_line(stream, most=sys.maxsize)):
            raw = line.raw[: before - place]
            if not cut and self._sought.intersection(_NAMED.findall(raw)):
                self._note(raw)
            place, cut = place + line.size, False

    def _note(self, raw: bytes) -> None:
        with suppress(BadLine):
            for entry in entries_in(raw):
                tools: dict[str, str] = {}
                uuid = string(entry.get("uuid"))
                made = any(True for _ in steps_in(entry, Place(0, 0), tools))
                if made and uuid in self._uuids:
                    self.repeated.add(uuid)
                self._tools |= {call: name for call, name in tools.items() if call in self._calls}
