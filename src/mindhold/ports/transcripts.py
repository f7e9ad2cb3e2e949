"""Past conversations that another program keeps on this machine. Read only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

OMITTED = "\n[...]\n"  # where the middle of a text was left out

Check = Callable[[], None]  # raises when nobody waits for the answer any more


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
class TranscriptInfo:
    """What a piece of a file says about the conversation itself; empty where it says nothing."""

    session_id: str = ""  # of a sub-agent's file its own name
    part_of: str = ""  # of a sub-agent's file the session that its entries name
    cwd: str = ""
    model: str = ""
    title: str = ""
    title_by: str = ""  # custom, ai
    summaries: tuple[tuple[str, str], ...] = ()  # the uuid of the entry that each is about, and its text
    uuids: bytes = b""  # `uuid_key` of each entry
    bad_lines: tuple[int, ...] = ()  # the first ones that can't be read
    too_long: tuple[int, ...] = ()  # of them those that are too long for it; 0: all of the file is
    unnamed: int = 0  # how many more can't be read
    ended: datetime | None = None  # the latest moment in it


def uuid_key(uuid: str) -> bytes:
    """Eight bytes that an entry is known by: bits of its uuid, or of a hash where it is none."""
    try:
        key = bytes.fromhex(uuid[24:] + uuid[9:13])  # the parts that differ in all sorts of uuids
    except ValueError:
        key = b""
    return key if len(key) == 8 else hashlib.blake2b(uuid.encode("utf-8", "replace"), digest_size=8).digest()


class Role(StrEnum):
    """Who speaks in a step, in the words of the readable form."""

    USER = "USER"
    CLAUDE = "CLAUDE"
    TOOL = "TOOL"  # what a tool was asked to do
    RESULT = "RESULT"  # what it gave back


@dataclass(frozen=True, slots=True)
class TranscriptStep:
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


def beginning(text: str, longest: int) -> str:
    """How it begins, no word of it cut: half a secret is one, and nobody knows it as such any more."""
    if len(text) <= longest:
        return text
    head = text[:longest]
    if head[-1:].isspace() or text[longest].isspace():
        return head
    *_, last = head.rsplit(maxsplit=1) or [head]
    return head[: len(head) - len(last)]


@dataclass(frozen=True, slots=True)
class TranscriptCursor:
    """How far a file was followed: so many bytes and lines. `mark` tells whether it is still the same file."""

    offset: int = 0
    line: int = 0
    mark: str = ""


@dataclass(frozen=True, slots=True)
class TranscriptRead:
    """What came after a cursor. A last line that isn't whole yet is left for the next time.

    `lines` counts those that had steps; `restarted`: the file is another one now, and was begun anew.
    """

    steps: tuple[TranscriptStep, ...]
    cursor: TranscriptCursor
    lines: int
    more: bool = False
    restarted: bool = False
    cwd: str = ""
    about: TranscriptInfo = TranscriptInfo()
    half: bool = False  # the last line isn't whole: it is being written, or never will be


class Transcripts(Protocol):
    """The conversations there are. The methods read the disk: call them from a thread, and from one at a time.

    What can't be read is absent.
    """

    withheld: bool  # there may be some, and the caller isn't shown them

    def files(self) -> list[ConversationFile]:
        """All that there are, sub-agents' too, those written to last first. Reads folders only."""

    def roots(self) -> list[Path]:
        """The folders under which they lie, of those that are there."""

    def note(self, file: Path) -> str:
        """What the program wrote about the conversation beside it; empty when nothing."""

    def follow(
        self, file: Path, cursor: TranscriptCursor, *, most_bytes: int, source: str = ""
    ) -> TranscriptRead | None:
        """At most about so many bytes after the cursor, in bounded memory; None when there is no such file. `source` says
        whose it is where its place doesn't, as of a copy."""


class NoTranscripts:
    """For callers whom this machine's conversations don't concern."""

    withheld = True

    def files(self) -> list[ConversationFile]:
        return []

    def roots(self) -> list[Path]:
        return []

    def note(self, file: Path) -> str:
        return ""

    def follow(
        self, file: Path, cursor: TranscriptCursor, *, most_bytes: int, source: str = ""
    ) -> TranscriptRead | None:
        return None
