"""Reads a growing transcript from a cursor on, in pieces and in bounded memory."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol

from mindhold.ports.transcripts import (
    Role,
    TranscriptCursor,
    TranscriptInfo,
    TranscriptRead,
    TranscriptStep,
    beginning,
    uuid_key,
)
from mindhold.providers.transcripts.entries import (
    LONGEST_LINE,
    SPOKEN,
    SYNTHETIC,
    TITLES,
    BadLines,
    Entry,
    TranscriptLine,
    entries_in,
    is_aside,
    model_of,
    moment_of,
    read_line,
    string,
    title_of,
)
from mindhold.providers.transcripts.steps import EntryPosition, is_ours, steps_in

SUFFIX, SUBAGENTS = ".jsonl", "agent-"
LONGEST_FOLDER = 200  # characters of a folder's name before Claude Code cuts it and adds a hash


def encoded(path: str) -> str:
    """The name that Claude Code gives to a folder's transcripts; many folders may share one."""
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in path)


def is_name_of(folder: str, path: str) -> bool:
    """Whether Claude Code would keep conversations held in `path` under that name."""
    name = encoded(path)
    return name == folder or (len(name) > LONGEST_FOLDER and folder.startswith(name[:LONGEST_FOLDER]))


LONGEST_TOLD = 4_000  # characters of a title or a summary: more than is kept, for secrets to be known as such
MOST_SUMMARIES = 1_000  # of one piece
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class ConversationFacts:
    """Of one piece of a file."""

    def __init__(self, file: Path, folder: str) -> None:
        self._stem = file.stem
        self.subagents = file.name.startswith(SUBAGENTS)  # whether all of it was said by or to a sub-agent
        self._folder = folder
        self._session = ""
        self._cwds: dict[str, None] = {}
        self._model = ""
        self._titles: dict[str, str] = {}
        self._summaries: list[tuple[str, str]] = []
        self._uuids: dict[str, None] = {}
        self.bad = BadLines()
        self._ended: datetime | None = None

    def said(self, entry: Entry, uuid: str, moment: datetime | None) -> None:
        """One that a person, the assistant or the program said."""
        if uuid:
            self._uuids[uuid] = None
        if moment is not None and (self._ended is None or moment > self._ended):
            self._ended = moment
        if not self._session:
            self._session = string(entry.get("sessionId"))
        if cwd := string(entry.get("cwd")):
            self._cwds[cwd] = None
        if entry.get("type") == "assistant" and (model := model_of(entry)) and model != SYNTHETIC:
            self._model = model

    def called(self, entry: Entry) -> None:
        """One that says what the conversation is called, or what another was about."""
        if entry.get("type") == "summary":
            leaf, text = string(entry.get("leafUuid")), string(entry.get("summary")).strip()
            if leaf and text and len(self._summaries) < MOST_SUMMARIES:
                self._summaries.append((leaf, beginning(text, LONGEST_TOLD)))
        elif titled := title_of(entry):
            kind, told = titled
            self._titles[kind] = beginning(told.strip(), LONGEST_TOLD) or self._titles.get(kind, "")

    def about(self) -> TranscriptInfo:
        """All of it."""
        kind = next((one for one in TITLES if self._titles.get(one)), "")
        about = TranscriptInfo(
            session_id=self._stem if self._names_itself() else self._session,
            part_of=self._session if self.subagents else "",
            cwd=self._cwd(),
            model=self._model,
            title=self._titles.get(kind, ""),
            title_by=kind.removesuffix("-title"),
            summaries=tuple(self._summaries),
            uuids=b"".join(map(uuid_key, self._uuids)),
            ended=self._ended,
        )
        return self.bad.told_in(about)

    def _names_itself(self) -> bool:
        """Resumed conversations begin with entries of others, and sub-agents' have the session's that they worked for."""
        return self.subagents or _UUID.fullmatch(self._stem) is not None

    def _cwd(self) -> str:
        """The one that the file lies under, else the first that is named."""
        held = (one for one in self._cwds if is_name_of(self._folder, one))
        return next(held, next(iter(self._cwds), ""))


LOOK_BACK, NEAR = 64 << 20, 1 << 20
_BLOCK = 1 << 20
_NAMED = re.compile(rb'"(?:uuid|id)"\s*:\s*"([^"\\]{1,200})"')


class EarlierEntries:
    """Finds it."""

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

    def named(self, step: TranscriptStep) -> TranscriptStep:
        """With the name of its tool, where that is known from before."""
        if step.role is not Role.RESULT or step.tool or step.call not in self._tools:
            return step
        return replace(step, tool=self._tools[step.call])

    def _scan(self, stream: BinaryIO, start: int, before: int) -> None:
        for block in _blocks(stream, max(0, start), before):
            if self._sought.isdisjoint(_NAMED.findall(block)):
                continue
            for raw in block.split(b"\n"):
                if not self._sought.isdisjoint(_NAMED.findall(raw)):
                    self._note(raw)

    def _note(self, raw: bytes) -> None:
        for entry in entries_in(raw)[0]:
            tools: dict[str, str] = {}
            uuid = string(entry.get("uuid"))
            made = steps_in(entry, EntryPosition(0, 0), tools)
            if made and uuid in self._uuids:
                self.repeated.add(uuid)
            self._tools |= {call: name for call, name in tools.items() if call in self._calls}


def _blocks(stream: BinaryIO, place: int, before: int) -> Iterator[bytes]:
    """Of whole lines, as far as those can be held."""
    stream.seek(place)
    if place > 0:  # in the middle of a line, most likely
        place += len(stream.readline(min(LONGEST_LINE, before - place)))
    while place < before and (block := stream.read(min(_BLOCK, before - place))):
        block += stream.readline(min(LONGEST_LINE, before - place - len(block)))
        place += len(block)
        yield block


_BUFFER = 64 << 10
_SAMPLE = 1_024  # bytes at the beginning and before the cursor that a file is known by


class LineCollector(Protocol):
    """What is taken of the lines after a cursor."""

    line: int  # the last one that was taken
    latest: datetime | None  # the latest moment so far

    @property
    def cwd(self) -> str:
        """The folder that was worked in."""

    def take(self, line: TranscriptLine, *, end: int, within: bool) -> bool:
        """Whether it is whole; else nothing of it was taken. `within`: it goes on with the line before."""

    def steps(self, stream: BinaryIO) -> tuple[TranscriptStep, ...]:
        """What happened."""

    def about(self) -> TranscriptInfo:
        """What was said about the conversation itself."""


Begin = Callable[[BinaryIO, TranscriptCursor], LineCollector]


def follow(
    file: Path, cursor: TranscriptCursor, *, most_bytes: int, folder: str = ""
) -> TranscriptRead | None:
    """At most about so many bytes after the cursor, whole lines; None when there is no such file. `folder` is what the
    program calls the project that the file belongs to."""
    telling = ConversationFacts(file, folder or file.parent.name)
    return follow_with(file, cursor, lambda _, start: _Piece(start, telling), most_bytes=most_bytes)


def follow_with(
    file: Path, cursor: TranscriptCursor, begin: Begin, *, most_bytes: int
) -> TranscriptRead | None:
    """The same of a program whose lines say other things: what takes them `begin` gives."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):  # a pipe would keep us waiting
            return None
        with file.open("rb", buffering=_BUFFER) as stream:
            return _followed(stream, cursor, begin, most_bytes=most_bytes)
    except (OSError, ValueError):  # or a name that no file can have
        return None


def _followed(stream: BinaryIO, cursor: TranscriptCursor, begin: Begin, *, most_bytes: int) -> TranscriptRead:
    same = cursor.offset == 0 or _sample(stream, cursor.offset) == cursor.mark.partition(" ")[0]
    start = cursor if same else TranscriptCursor()
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
    return TranscriptRead(
        steps=steps,
        cursor=TranscriptCursor(
            place, piece.line, f"{mark} {piece.latest.isoformat()}" if piece.latest else mark
        ),
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

    def __init__(self, cursor: TranscriptCursor, telling: ConversationFacts) -> None:
        self._telling = telling
        self.line = cursor.line  # the last one that was taken
        self.latest = latest_of(cursor.mark)  # of all entries so far: what is repeated is no later
        self.cwd = ""
        self._offset = cursor.offset
        self._before = self.latest
        self._made: list[tuple[TranscriptStep, str]] = []  # with the entry's uuid
        self._tools: dict[str, str] = {}
        self._seen: set[str] = set()  # uuids
        self._doubtful: set[str] = set()  # of them those that may stand before the piece already

    def take(self, line: TranscriptLine, *, end: int, within: bool) -> bool:
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
            entry,
            EntryPosition(self.line, end, moment, self._telling.subagents or is_aside(entry)),
            self._tools,
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

    def about(self) -> TranscriptInfo:
        """What was said about the conversation itself."""
        return self._telling.about()

    def steps(self, stream: BinaryIO) -> tuple[TranscriptStep, ...]:
        """What happened, without what happened before, and with the names of tools that were called before."""
        results = (step for step, _ in self._made if step.role is Role.RESULT and not step.tool)
        calls = {step.call for step in results if step.call}
        if not self._offset or not (self._doubtful or calls):
            return tuple(step for step, _ in self._made)
        earlier = EarlierEntries(self._doubtful, calls)
        earlier.look(stream, before=self._offset)
        steps = (earlier.named(step) for step, uuid in self._made if uuid not in earlier.repeated)
        return tuple(step for step in steps if not is_ours(step.tool))
