"""Reads a transcript from a cursor on, in pieces and in bounded memory; also files that their program rewrites as a whole."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from mindhold.ports.transcripts import (
    ConversationFile,
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
    MESSAGE_TYPES,
    SYNTHETIC_MODEL,
    TITLE_TYPES,
    BadLines,
    Entry,
    EntryPosition,
    TranscriptLine,
    as_text,
    is_interruption,
    is_own_tool,
    model_of,
    parse_line,
    read_line,
    steps_in,
    timestamp_of,
    title_of,
)

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
    entry: os.DirEntry[str],
    source: str,
    *,
    path: Path | None = None,
    folder: str = "",
    part_of: str = "",
    note_modified: int = 0,
) -> Iterator[ConversationFile]:
    """Yield the description of a directory entry, if it is a file with content."""
    with suppress(OSError):
        if entry.is_file() and (status := entry.stat()).st_size:
            yield ConversationFile(
                path or Path(entry.path),
                status.st_size,
                status.st_mtime_ns,
                source,
                folder,
                part_of,
                note_modified,
            )


def is_folder(entry: os.DirEntry[str], *, follow_symlinks: bool = False) -> bool:
    """Whether a directory entry is a folder; False where that can't be read."""
    try:
        return entry.is_dir(follow_symlinks=follow_symlinks)
    except OSError:
        return False


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


class TranscriptSource(ABC):
    """The conversations of one program, in `folders`, as they are on disk at each call. Files that can't be read are left out."""

    name: str  # claude, codex, gemini, cursor

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders

    @abstractmethod
    def files(self) -> list[ConversationFile]:
        """List all files, sub-agents' too."""

    def roots(self) -> list[Path]:
        """Return the folders of the conversations that exist."""
        return [folder for folder in self._folders if folder.is_dir()]

    def owns(self, path: Path) -> bool:
        """Whether the file lies in one of the folders, also through links."""
        real = Path(os.path.realpath(path))
        return any(
            path.is_relative_to(folder) or real.is_relative_to(os.path.realpath(folder))
            for folder in self._folders
        )

    def note(self, file: Path) -> str:
        """Return the program's notes about the conversation; empty when it has none."""
        return ""

    @abstractmethod
    def follow(self, file: Path, cursor: TranscriptCursor, *, most_bytes: int) -> TranscriptRead | None:
        """Read what was added after the cursor; None when there is no such file."""


TRANSCRIPT_SUFFIX, SUBAGENT_PREFIX = ".jsonl", "agent-"
LONGEST_FOLDER = 200  # characters of a folder's name before Claude Code cuts it and adds a hash


def folder_name(path: str) -> str:
    """Return the name that Claude Code gives to a folder's transcripts; several folders may share one."""
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in path)


def is_folder_name(folder: str, path: str) -> bool:
    """Whether Claude Code would store conversations of `path` under that name."""
    name = folder_name(path)
    return name == folder or (len(name) > LONGEST_FOLDER and folder.startswith(name[:LONGEST_FOLDER]))


# Characters of a title or summary: more than is stored, so that redaction sees secrets whole.
LONGEST_TITLE = 4_000
MAX_SUMMARIES = 1_000  # in one read
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


LOOK_BACK_BYTES, NEAR_BYTES = 64 << 20, 1 << 20
_BLOCK_BYTES = 1 << 20
_NAME = re.compile(rb'"(?:uuid|id)"\s*:\s*"([^"\\]{1,200})"')


class EarlierEntries:
    """Searches the part of a file before a cursor, for repeated entries and the tool names of calls."""

    def __init__(self, uuids: set[str], calls: set[str]) -> None:
        self.repeated: set[str] = set()
        self._tools: dict[str, str] = {}
        self._uuids = uuids
        self._calls = calls
        self._names = {name.encode("utf-8", "surrogatepass") for name in uuids | calls}

    def look(self, stream: BinaryIO, *, before: int) -> None:
        """Search the file. Calls are mostly right before the cursor; repeated entries can be anywhere."""
        if not self._uuids:
            self._scan(stream, before - NEAR_BYTES, before)
        if self._uuids or len(self._tools) < len(self._calls):
            self._scan(stream, before - LOOK_BACK_BYTES, before)

    def with_tool_name(self, step: TranscriptStep) -> TranscriptStep:
        """Add the tool's name to a result, if the call was found."""
        if step.role is not Role.RESULT or step.tool or step.call not in self._tools:
            return step
        return replace(step, tool=self._tools[step.call])

    def _scan(self, stream: BinaryIO, start: int, before: int) -> None:
        for block in _blocks(stream, max(0, start), before):
            if self._names.isdisjoint(_NAME.findall(block)):
                continue
            for raw in block.split(b"\n"):
                if not self._names.isdisjoint(_NAME.findall(raw)):
                    self._add_line(raw)

    def _add_line(self, raw: bytes) -> None:
        for entry in parse_line(raw)[0]:
            tools: dict[str, str] = {}
            uuid = as_text(entry.get("uuid"))
            steps = steps_in(entry, EntryPosition(0, 0), tools)
            if steps and uuid in self._uuids:
                self.repeated.add(uuid)
            self._tools |= {call: name for call, name in tools.items() if call in self._calls}


def _blocks(stream: BinaryIO, offset: int, before: int) -> Iterator[bytes]:
    """Yield blocks of whole lines, as far as they fit the longest line."""
    stream.seek(offset)
    if offset > 0:  # in the middle of a line, most likely
        offset += len(stream.readline(min(LONGEST_LINE, before - offset)))
    while offset < before and (block := stream.read(min(_BLOCK_BYTES, before - offset))):
        block += stream.readline(min(LONGEST_LINE, before - offset - len(block)))
        offset += len(block)
        yield block


_BUFFER_BYTES = 64 << 10
_SAMPLE_BYTES = 1_024  # bytes at the beginning and before the cursor that identify a file


class LineCollector(ABC):
    """Collects the steps of the lines after a cursor."""

    def __init__(self, cursor: TranscriptCursor) -> None:
        self.line = cursor.line  # the last line that was taken
        self.latest = latest_in_mark(cursor.mark)  # of all entries so far: a repeated one is not later
        self.cwd = ""
        self._offset = cursor.offset
        self._tools: dict[str, str] = {}  # the tool names of call ids
        self._bad = BadLines()
        # Marks of messages that were queued, and that will stand in the file once more when the assistant gets them.
        self.queued = cursor.mark.split(" ")[2:]

    def take(self, line: TranscriptLine, *, end: int, within: bool) -> bool:
        """Take a line; False if it is incomplete, and then nothing is taken. `within`: it continues the line before."""
        entries, whole = parse_line(line.raw) if line.is_complete else ((), False)
        if not whole and not line.ended:
            return False
        self.line += not within
        if not whole:
            self._bad.note(self.line, too_long=not line.is_complete)
        for entry in entries:
            self._add_entry(entry, end)
        return True

    @abstractmethod
    def _add_entry(self, entry: Entry, end: int) -> None:
        """Collect the steps and details of an entry of the current line, which ends at that offset."""

    @abstractmethod
    def steps(self, stream: BinaryIO) -> tuple[TranscriptStep, ...]:
        """Return the steps, with the names of tools that were called before the cursor."""

    @abstractmethod
    def about(self) -> TranscriptInfo:
        """Return the details of the conversation."""


BeginCollector = Callable[[BinaryIO, TranscriptCursor], LineCollector]


def follow(file: Path, cursor: TranscriptCursor, folder: str, *, most_bytes: int) -> TranscriptRead | None:
    """Read about `most_bytes` of whole lines after the cursor; None when there is no such file.

    `folder` is the name that the program gave to the file's project.
    """

    def begin(_stream: BinaryIO, start: TranscriptCursor) -> LineCollector:
        return _ClaudeCollector(start, file, folder)

    return follow_with(file, cursor, begin, most_bytes=most_bytes)


def follow_with(
    file: Path, cursor: TranscriptCursor, begin: BeginCollector, *, most_bytes: int
) -> TranscriptRead | None:
    """Do the same for another program's lines, with the collector that `begin` makes."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):  # a pipe would block
            return None
        with file.open("rb", buffering=_BUFFER_BYTES) as stream:
            return _read_from(stream, cursor, begin, most_bytes=most_bytes)
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None


def _read_from(
    stream: BinaryIO, cursor: TranscriptCursor, begin: BeginCollector, *, most_bytes: int
) -> TranscriptRead:
    is_same_file = cursor.offset == 0 or _sample(stream, cursor.offset) == cursor.mark.partition(" ")[0]
    start = cursor if is_same_file else TranscriptCursor()
    piece = begin(stream, start)
    offset, more, half = start.offset, False, False
    within = start.offset > 0 and not _ends_a_line(stream, start.offset)
    stream.seek(start.offset)
    while line := read_line(stream, most=sys.maxsize):
        if not piece.take(line, end=offset + line.size, within=within):
            half = True
            break
        offset, within = offset + line.size, False
        if offset - start.offset >= most_bytes:
            more = offset < os.fstat(stream.fileno()).st_size
            break
    steps = piece.steps(stream)
    mark = _sample(stream, offset)
    if piece.latest:
        mark = " ".join((mark, piece.latest.isoformat(), *piece.queued))
    return TranscriptRead(
        steps=steps,
        cursor=TranscriptCursor(offset, piece.line, mark),
        lines=len({step.line for step in steps}),
        more=more,
        restarted=not is_same_file,
        cwd=piece.cwd,
        about=piece.about(),
        half=half,
    )


def _sample(stream: BinaryIO, offset: int) -> str:
    """Hash the bytes that identify the file up to the cursor; empty where it is shorter."""
    if offset == 0:
        return ""
    stream.seek(0)
    head = stream.read(min(offset, _SAMPLE_BYTES))
    stream.seek(max(0, offset - _SAMPLE_BYTES))
    tail = stream.read(min(offset, _SAMPLE_BYTES))
    if len(tail) < min(offset, _SAMPLE_BYTES):
        return ""
    return hashlib.blake2b(head + tail, digest_size=12).hexdigest()


def latest_in_mark(mark: str) -> datetime | None:
    """Return the latest time in a cursor's mark."""
    moment = mark.split(" ")[1:2]
    with suppress(ValueError):  # another version wrote it
        return datetime.fromisoformat(moment[0]) if moment else None
    return None


MAX_QUEUED = 20  # queued messages that are remembered until the assistant gets them


def _queued_mark(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def _ends_a_line(stream: BinaryIO, offset: int) -> bool:
    stream.seek(offset - 1)
    return stream.read(1) == b"\n"


class _ClaudeCollector(LineCollector):
    """Collects the steps and the details of Claude Code's lines after a cursor."""

    def __init__(self, cursor: TranscriptCursor, file: Path, folder: str) -> None:
        super().__init__(cursor)
        self._stem = file.stem
        self._folder = folder
        self._by_subagent = file.name.startswith(SUBAGENT_PREFIX)
        self._before = self.latest
        self._steps: list[tuple[TranscriptStep, str]] = []  # each with its entry's uuid
        self._seen: set[str] = set()  # uuids of entries with steps
        self._maybe_repeated: set[str] = set()  # uuids that may stand before the cursor already
        self._session = ""
        self._cwds: dict[str, None] = {}
        self._model = ""
        self._titles: dict[str, str] = {}
        self._summaries: list[tuple[str, str]] = []
        self._uuids: dict[str, None] = {}
        self._ended: datetime | None = None
        self._interrupted = False

    def _add_entry(self, entry: Entry, end: int) -> None:
        if entry.get("type") not in MESSAGE_TYPES:
            self._add_title(entry)
            return
        uuid, moment = as_text(entry.get("uuid")), timestamp_of(entry)
        self._add_details(entry, uuid, moment)
        if uuid and uuid in self._seen:  # resumed conversations repeat earlier entries
            return
        aside = self._by_subagent or bool(entry.get("isSidechain"))
        steps = steps_in(entry, EntryPosition(self.line, end, moment, aside), self._tools)
        steps = [step for step in steps if not self._was_queued(entry, step)]
        if steps and steps[0].role is Role.USER and self._interrupted:
            steps[0] = replace(steps[0], objecting=True)
        self._interrupted = is_interruption(entry) or (self._interrupted and not steps)
        if not steps:
            return
        self._steps += [(step, uuid) for step in steps]
        self._seen.add(uuid)
        if uuid and self._offset and (moment is None or (self._before and moment <= self._before)):
            self._maybe_repeated.add(uuid)
        if moment is not None:
            self.latest = max(self.latest or moment, moment)
        self.cwd = self.cwd or as_text(entry.get("cwd"))

    def _was_queued(self, entry: Entry, step: TranscriptStep) -> bool:
        """Whether the user's message was taken when it was queued; a queued one is noted."""
        if step.role is not Role.USER or step.objecting:
            return False
        mark = _queued_mark(step.text)
        if entry.get("type") == "queue-operation":
            self.queued = [*self.queued, mark][-MAX_QUEUED:]
        elif mark in self.queued:
            self.queued.remove(mark)
            return True
        return False

    def _add_details(self, entry: Entry, uuid: str, moment: datetime | None) -> None:
        if uuid:
            self._uuids[uuid] = None
        if moment is not None:
            self._ended = max(self._ended or moment, moment)
        self._session = self._session or as_text(entry.get("sessionId"))
        if cwd := as_text(entry.get("cwd")):
            self._cwds[cwd] = None
        if entry.get("type") == "assistant" and (model := model_of(entry)) and model != SYNTHETIC_MODEL:
            self._model = model

    def _add_title(self, entry: Entry) -> None:
        """Add an entry with a title, or with the summary of another conversation."""
        if entry.get("type") == "summary":
            leaf, text = as_text(entry.get("leafUuid")), as_text(entry.get("summary")).strip()
            if leaf and text and len(self._summaries) < MAX_SUMMARIES:
                self._summaries.append((leaf, beginning(text, LONGEST_TITLE)))
        elif title_entry := title_of(entry):
            kind, title = title_entry
            self._titles[kind] = beginning(title.strip(), LONGEST_TITLE) or self._titles.get(kind, "")

    def about(self) -> TranscriptInfo:
        """Return the details of the conversation."""
        kind = next((title_type for title_type in TITLE_TYPES if self._titles.get(title_type)), "")
        # Entries of resumed conversations and sub-agents name another session than the file.
        is_named_by_session = self._by_subagent or _UUID.fullmatch(self._stem) is not None
        # The working folder that the file is stored under, else the first one named.
        cwds = (cwd for cwd in self._cwds if is_folder_name(self._folder, cwd))
        info = TranscriptInfo(
            session_id=self._stem if is_named_by_session else self._session,
            part_of=self._session if self._by_subagent else "",
            cwd=next(cwds, next(iter(self._cwds), "")),
            model=self._model,
            title=self._titles.get(kind, ""),
            title_by=kind.removesuffix("-title"),
            summaries=tuple(self._summaries),
            uuids=b"".join(map(uuid_key, self._uuids)),
            ended=self._ended,
        )
        return self._bad.add_to(info)

    def steps(self, stream: BinaryIO) -> tuple[TranscriptStep, ...]:
        """Return the steps, without repeated ones."""
        results = (step for step, _ in self._steps if step.role is Role.RESULT and not step.tool)
        calls = {step.call for step in results if step.call}
        if not self._offset or not (self._maybe_repeated or calls):
            return tuple(step for step, _ in self._steps)
        earlier = EarlierEntries(self._maybe_repeated, calls)
        earlier.look(stream, before=self._offset)
        steps = (earlier.with_tool_name(step) for step, uuid in self._steps if uuid not in earlier.repeated)
        return tuple(step for step in steps if not is_own_tool(step.tool))
