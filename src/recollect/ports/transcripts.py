"""Past conversations that another program keeps on this machine. Read only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol

OMITTED = "\n[...]\n"  # where the middle of a text was left out
MOST_KEPT = 96 << 20  # bytes of digests that are kept at once

Check = Callable[[], None]  # raises when nobody waits for the answer any more


@dataclass(frozen=True, slots=True)
class Turn:
    """What a person or the assistant said, in words; what tools were given and gave back is not among it."""

    role: str  # user or assistant
    text: str
    line: int  # in the file, from 1: where the turn begins
    timestamp: datetime | None = None
    tools: tuple[str, ...] = ()  # names of what the assistant used in this turn
    start: int = 0  # the bytes of the file that its lines stand in
    end: int = 0


class Said(NamedTuple):
    """A turn without its text: when it was said, and where in the file it stands."""

    line: int
    timestamp: datetime | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TranscriptFile:
    """One conversation's file. `modified` is when it was last written to."""

    path: Path
    size: int
    modified: datetime


@dataclass(frozen=True, slots=True)
class TranscriptProject:
    """A folder that conversations were held in; `path` is what they say themselves, `name` what the program calls it."""

    name: str
    path: str
    files: tuple[TranscriptFile, ...]  # the newest first


@dataclass(frozen=True, slots=True)
class Transcript:
    """One conversation, as far as it was read. `title` and `summary` are what it was called; empty when nothing was."""

    session_id: str
    file: Path
    turns: tuple[Turn, ...]
    title: str = ""
    summary: str = ""
    cwd: str | None = None
    model: str | None = None
    started: datetime | None = None
    ended: datetime | None = None
    bad_lines: int = 0
    bytes_read: int = 0
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Digest:
    """One conversation in the form that is searched; what was said is left in the file.

    `words` has the lexemes of every turn, each between two spaces; `starts` says where each turn begins in it, and where
    the last one ends.
    """

    about: Transcript  # without its turns
    turns: tuple[Said, ...]
    words: bytes
    starts: Sequence[int]
    asked: tuple[str, ...]  # how the person's first turns begin
    size: int  # bytes of memory, about


@dataclass(frozen=True, slots=True)
class ConversationFile:
    """One file of a conversation, as the disk tells without reading it. `modified` is in nanoseconds."""

    path: Path
    size: int
    modified: int
    source: str  # claude, codex, gemini, cursor
    folder: str = ""  # what the program calls the project
    part_of: str = ""  # the session whose sub-agent's it is
    note_modified: int = 0  # of the notes beside it; 0: none


@dataclass(frozen=True, slots=True)
class About:
    """What a piece of a file says about the conversation itself; empty where it says nothing."""

    session_id: str = ""
    cwd: str = ""
    model: str = ""
    title: str = ""
    title_by: str = ""  # custom, ai
    summaries: tuple[tuple[str, str], ...] = ()  # with the uuid of the entry that each is about
    uuids: bytes = b""  # eight bytes for each entry
    bad_lines: tuple[int, ...] = ()  # which can't be read
    ended: datetime | None = None  # the latest moment in it


class Role(StrEnum):
    """Who speaks in a step, in the words of the readable form."""

    USER = "USER"
    CLAUDE = "CLAUDE"
    TOOL = "TOOL"  # what a tool was asked to do
    RESULT = "RESULT"  # what it gave back


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened in a conversation, in order.

    `text` is what was said; of a tool the command, path or question that it was given; of a result its beginning and its
    end. What the program itself put into the conversation is no step. `enough` characters of the text are to be shown to
    anybody; it has more, so that secrets are known as such before it is shortened to that.
    """

    role: Role
    text: str
    line: int  # in the file, from 1
    end: int  # the byte behind that line
    timestamp: datetime | None = None
    tool: str = ""  # of TOOL and RESULT
    call: str = ""  # the id that a result shares with what asked for it
    failed: bool = False  # of RESULT
    aside: bool = False  # said by or to a sub-agent
    enough: int = 20_000


def shortened(text: str, longest: int) -> str:
    """Its beginning and its end."""
    if len(text) <= longest:
        return text
    head = (longest - len(OMITTED)) * 3 // 5
    return text[:head] + OMITTED + text[head + len(OMITTED) - longest :]


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a file was followed: so many bytes and lines. `mark` tells whether it is still the same file."""

    offset: int = 0
    line: int = 0
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Followed:
    """What came after a cursor. A last line that isn't whole yet is left for the next time.

    `lines` counts those that had steps; `restarted`: the file is another one now, and was begun anew.
    """

    steps: tuple[Step, ...]
    cursor: Cursor
    lines: int
    more: bool = False
    restarted: bool = False
    cwd: str = ""
    about: About = About()


class Transcripts(Protocol):
    """The conversations there are. The methods read the disk: call them from a thread, and from one at a time.

    What can't be read is absent.
    """

    withheld: bool  # there may be some, and the caller isn't shown them

    def files(self) -> list[ConversationFile]:
        """All that there are, sub-agents' too, those written to last first. Reads folders only."""

    def roots(self) -> list[Path]:
        """The folders under which they lie, of those that are there."""

    def projects(self) -> list[TranscriptProject]:
        """All of them, the one used last first."""

    def size(self, project: TranscriptProject) -> int:
        """Bytes on the disk, those of sub-agents included."""

    def read(self, file: TranscriptFile, *, most_bytes: int) -> Transcript | None:
        """At most so many bytes of it, from its beginning; None when the file has gone."""

    def kept(self, file: TranscriptFile) -> Digest | None:
        """The digest that was kept of the file as it is now. Reads nothing."""

    def digest(self, file: TranscriptFile, *, most_bytes: int, check: Check) -> Digest | None:
        """Of at most so many bytes, read anew; None when the file has gone. Raises what `check` raises."""

    def keep(self, file: TranscriptFile, digest: Digest) -> None:
        """Until the file changes, or others need the room. Of MOST_KEPT those asked for last stay."""

    def turn(self, file: Path, said: Said) -> Turn | None:
        """It with its text, read anew; None when it doesn't stand there any more."""

    def note(self, file: Path) -> str:
        """What the program wrote about the conversation beside it; empty when nothing."""

    def follow(self, file: Path, cursor: Cursor, *, most_bytes: int) -> Followed | None:
        """At most about so many bytes after the cursor, in bounded memory; None when there is no such file."""


class NoTranscripts:
    """For callers whom this machine's conversations don't concern."""

    withheld = True

    def files(self) -> list[ConversationFile]:
        return []

    def roots(self) -> list[Path]:
        return []

    def projects(self) -> list[TranscriptProject]:
        return []

    def size(self, project: TranscriptProject) -> int:
        return 0

    def read(self, file: TranscriptFile, *, most_bytes: int) -> Transcript | None:
        return None

    def kept(self, file: TranscriptFile) -> Digest | None:
        return None

    def digest(self, file: TranscriptFile, *, most_bytes: int, check: Check) -> Digest | None:
        return None

    def keep(self, file: TranscriptFile, digest: Digest) -> None:
        pass

    def turn(self, file: Path, said: Said) -> Turn | None:
        return None

    def note(self, file: Path) -> str:
        return ""

    def follow(self, file: Path, cursor: Cursor, *, most_bytes: int) -> Followed | None:
        return None
