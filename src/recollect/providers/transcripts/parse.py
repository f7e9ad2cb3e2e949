"""One transcript from its bytes, tolerant of whatever stands in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

from recollect.ports.transcripts import Check, Transcript, Turn
from recollect.providers.transcripts.entries import (
    SYNTHETIC,
    TITLES,
    BadLine,
    Entry,
    entries_in,
    message_id,
    model_of,
    moment_of,
    spoken_by_assistant,
    spoken_by_user,
    string,
    title_of,
    tools_of,
)

LONGEST_LINE = 16 << 20
LONGEST_TURN = 200_000
LONGEST_TITLE = 500


@dataclass(slots=True)
class _Open:
    """A turn that later lines may still add to."""

    role: str
    line: int
    timestamp: datetime | None
    start: int
    end: int
    texts: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)


def parse(path: Path, stream: BinaryIO, *, most_bytes: int, check: Check = lambda: None) -> Transcript:
    """What was said, and what the conversation says about itself. Raises OSError, and what `check` raises."""
    reading = _Reading(path)
    complete = True
    for raw in _lines(stream, most_bytes=most_bytes):
        check()
        complete = raw is not None
        if raw is not None:
            reading.take(raw, end=stream.tell())
    return reading.transcript(bytes_read=min(stream.tell(), most_bytes), complete=complete)


class Line(NamedTuple):
    """A line with its end. Of one that is too long to be held `raw` is only the beginning, which is no JSON any more."""

    raw: bytes
    size: int
    ended: bool  # by a line break

    @property
    def held(self) -> bool:
        """Whether `raw` is all of it."""
        return self.size == len(self.raw)


def read_line(stream: BinaryIO, *, most: int) -> Line | None:
    """The next one, in bounded memory; None at the end. Beyond `most` bytes the rest of it is left unread."""
    raw = rest = stream.readline(LONGEST_LINE)
    size = len(raw)
    while len(rest) == LONGEST_LINE and not rest.endswith(b"\n") and size <= most:
        rest = stream.readline(LONGEST_LINE)
        size += len(rest)
    return Line(raw, size, rest.endswith(b"\n")) if raw else None


def _lines(stream: BinaryIO, *, most_bytes: int) -> Iterator[bytes | None]:
    """Line by line, and None where the limit cuts it off."""
    read = 0
    while line := read_line(stream, most=most_bytes - read):
        read += line.size
        if read > most_bytes:
            yield None
            return
        yield line.raw


class _Reading:
    """One file's way through the parser."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turns: list[_Open] = []
        self._answers: dict[str, _Open] = {}  # by message id
        self._seen: set[str] = set()  # uuids
        self._titles: dict[str, str] = {}
        self._summaries: list[tuple[str, str]] = []  # with the uuid that each is about
        self._sessions: dict[str, None] = {}
        self._folders: dict[str, None] = {}
        self._model: str | None = None
        self._times: tuple[datetime, datetime] | None = None
        self._bad = 0
        self._line = 0
        self._start = self._end = 0  # of the line, in bytes

    def take(self, raw: bytes, *, end: int) -> None:
        """The next line, and where in the file it ends."""
        self._line += 1
        self._start, self._end = self._end, end
        try:
            for entry in entries_in(raw):
                self._entry(entry)
        except BadLine:
            self._bad += 1

    def _entry(self, entry: Entry) -> None:
        kind = entry.get("type")
        if kind in ("user", "assistant"):
            uuid = string(entry.get("uuid"))
            if uuid and uuid in self._seen:  # resumed conversations repeat what was said before
                return
            self._seen.add(uuid)
            self._place(entry)
            if kind == "user":
                self._user(entry)
            else:
                self._assistant(entry)
        elif kind == "summary":
            self._summaries.append((string(entry.get("leafUuid")), string(entry.get("summary"))))
        elif titled := title_of(entry):
            kind, told = titled
            self._titles[kind] = told or self._titles.get(kind, "")

    def _place(self, entry: Entry) -> None:
        if session := string(entry.get("sessionId")):
            self._sessions.setdefault(session)
        if folder := string(entry.get("cwd")):
            self._folders.setdefault(folder)
        if (moment := moment_of(entry)) is not None:
            first, last = self._times or (moment, moment)
            self._times = (min(first, moment), max(last, moment))

    def _open(self, role: str, entry: Entry) -> _Open:
        opened = _Open(role, self._line, moment_of(entry), self._start, self._end)
        self._turns.append(opened)
        return opened

    def _user(self, entry: Entry) -> None:
        if text := spoken_by_user(entry):
            self._open("user", entry).texts.append(text)

    def _assistant(self, entry: Entry) -> None:
        text, tools = spoken_by_assistant(entry), tools_of(entry)
        if (model := model_of(entry)) and model != SYNTHETIC:
            self._model = model
        if not text and not tools:
            return
        answer = self._answers.get(message_id(entry))
        if answer is None:
            answer = self._open("assistant", entry)
            if message_id(entry):
                self._answers[message_id(entry)] = answer
        if text and text not in answer.texts:
            answer.texts.append(text)
            answer.end = self._end
        answer.tools.extend(tools)

    def transcript(self, *, bytes_read: int, complete: bool) -> Transcript:
        """What was taken, put together."""
        turns = tuple(
            Turn(
                role=one.role,
                text="\n\n".join(one.texts)[:LONGEST_TURN],
                line=one.line,
                timestamp=one.timestamp,
                tools=tuple(one.tools),
                start=one.start,
                end=one.end,
            )
            for one in self._turns
            if one.texts
        )
        stem = self._path.stem
        sessions = list(self._sessions)
        return Transcript(
            session_id=stem if stem in sessions or not sessions else sessions[0],
            file=self._path,
            turns=turns,
            title=self._title()[:LONGEST_TITLE],
            summary=self._summary()[:LONGEST_TITLE],
            cwd=self._cwd(),
            model=self._model,
            started=self._times[0] if self._times else None,
            ended=self._times[1] if self._times else None,
            bad_lines=self._bad,
            bytes_read=bytes_read,
            complete=complete,
        )

    def _title(self) -> str:
        return next((told for kind in TITLES if (told := self._titles.get(kind))), self._summary())

    def _summary(self) -> str:
        """The last one that is about this conversation: a file may begin with those of others."""
        return next((text for leaf, text in reversed(self._summaries) if leaf in self._seen and text), "")

    def _cwd(self) -> str | None:
        """The folder whose encoded name the file lies under, else the first one named."""
        folder = self._path.parent.name
        return next((one for one in self._folders if encoded(one) == folder), next(iter(self._folders), None))


def encoded(path: str) -> str:
    """The name that Claude Code gives to a folder's transcripts; many folders may share one."""
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in path)
