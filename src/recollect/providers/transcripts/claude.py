"""The transcripts that Claude Code keeps: projects/<folder>/<session>.jsonl in its own folder."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from recollect.ports.transcripts import Transcript, TranscriptFile, TranscriptProject
from recollect.providers.transcripts.parse import encoded, parse

HEAD = 256 << 10  # of a file, to learn which folder it is about
HEADS = 3  # files whose heads are looked at
LONGEST_NOTE = 20_000


class ClaudeTranscripts:
    """Reads what is there at the time of the call; a folder that isn't there holds nothing."""

    def __init__(self, claude_dir: Path) -> None:
        self._projects = claude_dir / "projects"

    def projects(self) -> list[TranscriptProject]:
        """All of them, the one used last first."""
        found: list[TranscriptProject] = []
        for folder in _folders(self._projects):
            files = _files(folder)
            if files:
                found.append(
                    TranscriptProject(folder.name, self._path(folder, files), tuple(files), _size(folder))
                )
        return sorted(found, key=lambda project: project.files[0].modified, reverse=True)

    def read(self, file: TranscriptFile, *, most_bytes: int) -> Transcript | None:
        """At most so many bytes of it; None when the file has gone."""
        try:
            with file.path.open("rb") as stream:
                transcript = parse(file.path, stream, most_bytes=most_bytes)
        except OSError:
            return None
        note = _note(file.path)
        return replace(transcript, summary=note) if note else transcript

    def _path(self, folder: Path, files: list[TranscriptFile]) -> str:
        """What the conversations say themselves; the folder's name, which is lossy, when they say nothing."""
        told = ""
        for file in files[:HEADS]:
            head = self.read(file, most_bytes=HEAD)
            cwd = (head.cwd if head else None) or ""
            if cwd and encoded(cwd) == folder.name:
                return cwd
            told = told or cwd
        return told or folder.name


def _folders(parent: Path) -> list[Path]:
    try:
        return [entry for entry in parent.iterdir() if entry.is_dir()]
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


def _size(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".jsonl"):
                with suppress(OSError):
                    total += (Path(parent) / name).stat().st_size
    return total


def _note(path: Path) -> str:
    """The conversation's own notes, where Claude Code keeps some beside it."""
    try:
        with (path.with_suffix("") / "session-memory" / "summary.md").open(
            encoding="utf-8", errors="replace"
        ) as note:
            return note.read(LONGEST_NOTE).strip()
    except OSError:
        return ""
