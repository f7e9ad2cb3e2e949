"""Read-only access to past conversations that other programs keep on this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

OMITTED = "\n[...]\n"  # replaces the omitted middle of a text

Check = Callable[[], None]  # raises if nobody waits for the answer any more


@dataclass(frozen=True, slots=True)
class ConversationFile:
    """A file of a conversation, described without reading it. `modified` is in nanoseconds."""

    path: Path
    size: int
    modified: int
    source: str  # claude, codex, gemini, cursor
    folder: str = ""  # the program's name for the project
    part_of: str = ""  # for a sub-agent's file: the session that it worked for
    note_modified: int = 0  # modification time of the notes next to it; 0: no notes


@dataclass(frozen=True, slots=True)
class TranscriptInfo:
    """What a part of a file says about the conversation itself; fields are empty if it says nothing."""

    session_id: str = ""  # for a sub-agent's file: its own name
    part_of: str = ""  # for a sub-agent's file: the session that its entries name
    cwd: str = ""
    model: str = ""
    title: str = ""
    title_by: str = ""  # custom or ai
    summaries: tuple[tuple[str, str], ...] = ()  # uuid of the summarised entry, text of the summary
    uuids: bytes = b""  # `uuid_key` of each entry
    bad_lines: tuple[int, ...] = ()  # the first unreadable lines
    too_long: tuple[int, ...] = ()  # those of bad_lines that are too long; 0: the whole file is
    unnamed: int = 0  # number of further unreadable lines
    ended: datetime | None = None  # the latest time in it


def uuid_key(uuid: str) -> bytes:
    """An eight-byte key of an entry: bits of its uuid, or of a hash if it is no uuid."""
    try:
        key = bytes.fromhex(uuid[24:] + uuid[9:13])  # the parts that differ in all versions of uuids
    except ValueError:
        key = b""
    return key if len(key) == 8 else hashlib.blake2b(uuid.encode("utf-8", "replace"), digest_size=8).digest()


class Role(StrEnum):
    """The speaker of a step, in the words of the readable form."""

    USER = "USER"
    CLAUDE = "CLAUDE"
    TOOL = "TOOL"  # the request to a tool
    RESULT = "RESULT"  # the tool's answer


@dataclass(frozen=True, slots=True)
class TranscriptStep:
    """One event of a conversation.

    `text` is what was said; for a tool its command, path or question; for a result its beginning and its end. Text that
    the program itself inserted is no step. Only `enough` characters of the text may be shown: the rest is there so that
    secrets are recognised before the text is shortened.
    """

    role: Role
    text: str
    line: int  # in the file, counted from 1
    end: int  # offset of the byte after that line
    timestamp: datetime | None = None
    tool: str = ""  # for TOOL and RESULT
    call: str = ""  # the id that a tool request and its result share
    failed: bool = False  # for RESULT
    aside: bool = False  # said by or to a sub-agent
    enough: int = 20_000
    objecting: bool = False  # for USER: said to refuse a tool call, or after stopping the assistant


def shortened(text: str, longest: int) -> str:
    """The beginning and the end of a text that is too long."""
    if len(text) <= longest:
        return text
    head = (longest - len(OMITTED)) * 3 // 5
    return text[:head] + OMITTED + text[head + len(OMITTED) - longest :]


def beginning(text: str, longest: int) -> str:
    """The beginning of a text, cut between words: half a secret is still a secret, but can't be recognised."""
    if len(text) <= longest:
        return text
    head = text[:longest]
    if head[-1:].isspace() or text[longest].isspace():
        return head
    *_, last = head.rsplit(maxsplit=1) or [head]
    return head[: len(head) - len(last)]


@dataclass(frozen=True, slots=True)
class TranscriptCursor:
    """A position in a followed file, in bytes and lines. `mark` tells whether it is still the same file."""

    offset: int = 0
    line: int = 0
    mark: str = ""


@dataclass(frozen=True, slots=True)
class TranscriptRead:
    """What follows a cursor. An incomplete last line is left for the next read.

    `lines` counts the lines with steps; `restarted` means that the file was replaced and was read from its beginning.
    """

    steps: tuple[TranscriptStep, ...]
    cursor: TranscriptCursor
    lines: int
    more: bool = False
    restarted: bool = False
    cwd: str = ""
    about: TranscriptInfo = TranscriptInfo()
    half: bool = False  # the last line is incomplete: it is still being written, or never will be complete


class Transcripts(Protocol):
    """The conversations on this machine. Methods read the disk: call them from a thread, one at a time.

    Unreadable files are absent.
    """

    withheld: bool  # true if the caller isn't allowed to see whether there are any

    def files(self) -> list[ConversationFile]:
        """All files, also those of sub-agents, most recently written first. Reads folders only."""

    def roots(self) -> list[Path]:
        """The existing folders that contain the files."""

    def note(self, file: Path) -> str:
        """The program's notes next to the conversation; empty if there are none."""

    def follow(
        self, file: Path, cursor: TranscriptCursor, *, most_bytes: int, source: str = ""
    ) -> TranscriptRead | None:
        """Read about `most_bytes` after the cursor, in bounded memory; None if there is no such file. `source` names the
        program if the path doesn't, as for a copy.
        """


class NoTranscripts:
    """Transcripts for callers who may not see this machine's conversations."""

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
