"""Past conversations that another program keeps on this machine. Read only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Turn:
    """What a person or the assistant said, in words; what tools were given and gave back is not among it."""

    role: str  # user or assistant
    text: str
    line: int  # in the file, from 1: where the turn begins
    timestamp: datetime | None = None
    tools: tuple[str, ...] = ()  # names of what the assistant used in this turn


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
    size: int  # bytes, those of sub-agents included


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


class Transcripts(Protocol):
    """The conversations there are. The methods read the disk: call them from a thread. What can't be read is absent."""

    def projects(self) -> list[TranscriptProject]:
        """All of them, the one used last first."""

    def read(self, file: TranscriptFile, *, most_bytes: int) -> Transcript | None:
        """At most so many bytes of it, from its beginning; None when the file has gone."""


class NoTranscripts:
    """For callers whom this machine's conversations don't concern."""

    def projects(self) -> list[TranscriptProject]:
        return []

    def read(self, file: TranscriptFile, *, most_bytes: int) -> Transcript | None:
        return None
