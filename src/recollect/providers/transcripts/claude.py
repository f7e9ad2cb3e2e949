"""The transcripts that Claude Code keeps: projects/<folder>/<session>.jsonl in its own folder."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from recollect.ports.transcripts import (
    Check,
    ConversationFile,
    Cursor,
    Digest,
    Followed,
    Said,
    Transcript,
    TranscriptFile,
    TranscriptProject,
    Turn,
)
from recollect.providers.transcripts.digest import Digests, Words, digest_of
from recollect.providers.transcripts.follow import follow
from recollect.providers.transcripts.parse import encoded, parse

HEAD = 256 << 10  # of a file, to learn which folder it is about
HEADS = 3  # files whose heads are looked at
MOST_HEADS = 10_000  # that are remembered
LONGEST_NOTE = 20_000


class ClaudeTranscripts:
    """What is there at the time of the call; a folder that isn't there holds nothing. Files that stayed as they were are
    not read twice."""

    withheld = False

    def __init__(self, claude_dir: Path) -> None:
        self._projects = claude_dir / "projects"
        self._digests = Digests()
        self._words = Words()
        self._heads: dict[tuple[Path, int, datetime | None], str] = {}

    def files(self) -> list[ConversationFile]:
        """All that there are."""
        return []

    def roots(self) -> list[Path]:
        """The folder of projects."""
        return [self._projects] if self._projects.is_dir() else []

    def projects(self) -> list[TranscriptProject]:
        """All of them, the one used last first."""
        found: list[TranscriptProject] = []
        for folder in _folders(self._projects):
            files = _files(folder)
            if files:
                found.append(TranscriptProject(folder.name, self._path(folder, files), tuple(files)))
        return sorted(found, key=lambda project: project.files[0].modified, reverse=True)

    def size(self, project: TranscriptProject) -> int:
        """Bytes on the disk, those of sub-agents included."""
        return _size(str(self._projects / project.name))

    def read(self, file: TranscriptFile, *, most_bytes: int) -> Transcript | None:
        """At most so many bytes of it; None when the file has gone."""
        transcript = _read(file.path, most_bytes=most_bytes)
        note = self.note(file.path)
        return replace(transcript, summary=note) if transcript and note else transcript

    def kept(self, file: TranscriptFile) -> Digest | None:
        """The digest that was kept of the file as it is now."""
        return self._digests.get(file)

    def digest(self, file: TranscriptFile, *, most_bytes: int, check: Check) -> Digest | None:
        """Of at most so many bytes, read anew. Raises what `check` raises."""
        transcript = _read(file.path, most_bytes=most_bytes, check=check)
        return digest_of(transcript, self._words, check) if transcript else None

    def keep(self, file: TranscriptFile, digest: Digest) -> None:
        """Until the file changes, or others need the room."""
        self._digests.put(file, digest)

    def turn(self, file: Path, said: Said) -> Turn | None:
        """It with its text, read anew; None when it doesn't stand there any more."""
        try:
            with file.open("rb") as stream:
                stream.seek(said.start)
                part = io.BytesIO(stream.read(said.end - said.start))
        except OSError:
            return None
        turns = parse(file, part, most_bytes=said.end - said.start).turns
        return replace(turns[0], line=said.line) if turns and turns[0].timestamp == said.timestamp else None

    def note(self, file: Path) -> str:
        """The conversation's own notes, where Claude Code keeps some beside it."""
        try:
            with (file.with_suffix("") / "session-memory" / "summary.md").open(
                encoding="utf-8", errors="replace"
            ) as note:
                return note.read(LONGEST_NOTE).strip()
        except OSError:
            return ""

    def follow(self, file: Path, cursor: Cursor, *, most_bytes: int) -> Followed | None:
        """At most about so many bytes after the cursor, in bounded memory; None when there is no such file."""
        return follow(file, cursor, most_bytes=most_bytes)

    def _path(self, folder: Path, files: list[TranscriptFile]) -> str:
        """What the conversations say themselves; the folder's name, which is lossy, when they say nothing."""
        told = ""
        for file in files[:HEADS]:
            cwd = self._cwd(file)
            if cwd and encoded(cwd) == folder.name:
                return cwd
            told = told or cwd
        return told or folder.name

    def _cwd(self, file: TranscriptFile) -> str:
        """What the file's head says. Files only grow, so that the head of a long one stays what it is."""
        key = (file.path, min(file.size, HEAD), file.modified if file.size < HEAD else None)
        if key not in self._heads:
            head = _read(file.path, most_bytes=HEAD)
            if len(self._heads) >= MOST_HEADS:
                self._heads.clear()
            self._heads[key] = (head.cwd if head else None) or ""
        return self._heads[key]


def _read(path: Path, *, most_bytes: int, check: Check = lambda: None) -> Transcript | None:
    try:
        with path.open("rb") as stream:
            return parse(path, stream, most_bytes=most_bytes, check=check)
    except OSError:
        return None


def _folders(parent: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(parent) if entry.is_dir()]
    except OSError:
        return []


def _files(folder: Path) -> list[TranscriptFile]:
    """The conversations in a folder, the newest first; those of sub-agents are no conversations."""
    files: list[TranscriptFile] = []
    with suppress(OSError):
        for entry in os.scandir(folder):
            if not entry.name.endswith(".jsonl") or entry.name.startswith("agent-"):
                continue
            with suppress(OSError):
                if entry.is_file() and (facts := entry.stat()).st_size:
                    modified = datetime.fromtimestamp(facts.st_mtime, UTC)
                    files.append(TranscriptFile(Path(entry.path), facts.st_size, modified))
    return sorted(files, key=lambda file: (file.modified, file.path.name), reverse=True)


def _size(folder: str) -> int:
    total = 0
    with suppress(OSError):
        for entry in os.scandir(folder):
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    total += _size(entry.path)
                elif entry.name.endswith(".jsonl"):
                    total += entry.stat().st_size
    return total
