"""The transcripts of Claude Code (projects/<folder>/<session>.jsonl), alone or together with other programs'."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from mindhold.ports.transcripts import ConversationFile, TranscriptCursor, TranscriptRead, beginning
from mindhold.providers.transcripts.reader import SUBAGENTS, SUFFIX, follow

SOURCE = "claude"
NOTES = "session-memory/summary.md"
DEEPEST = 8  # folders under one another in which sub-agents' files are looked for
HEAD = 64 << 10  # of a sub-agent's file, to learn whose it is
MOST_PARENTS = 10_000  # that are remembered
_SESSION = re.compile(rb'"sessionId"\s*:\s*"([^"\\]{1,200})"')


class Folders:
    """All there is under one folder of projects at the time of the call; what can't be read is absent."""

    def __init__(self, projects: Path) -> None:
        self.projects = projects
        self._parents: dict[str, str] = {}  # sessions, by the files of sub-agents that lie beside theirs
        self._paths: dict[
            str, Path
        ] = {}  # of the files found last: making a Path takes longer than asking the disk

    def files(self) -> list[ConversationFile]:
        """Those written to last first."""
        found = [file for folder in self._folders() for file in self._in_project(folder)]
        self._paths = {str(file.path): file.path for file in found}
        return sorted(found, key=lambda file: (file.modified, str(file.path)), reverse=True)

    def _folders(self) -> Iterator[os.DirEntry[str]]:
        """Those of projects; what several links lead to is there once."""
        here = Path(os.path.realpath(self.projects))
        seen = {here}
        linked: list[os.DirEntry[str]] = []
        for entry in _entries(self.projects):
            with suppress(OSError):
                if entry.is_symlink():
                    linked.append(entry)
                elif entry.is_dir():
                    seen.add(here / entry.name)
                    yield entry
        for entry in linked:
            with suppress(OSError):
                leads = Path(os.path.realpath(entry.path))
                if leads not in seen and entry.is_dir():
                    seen.add(leads)
                    yield entry

    def _in_project(self, folder: os.DirEntry[str]) -> Iterator[ConversationFile]:
        beside: dict[str, os.DirEntry[str]] = {}
        files: list[os.DirEntry[str]] = []
        for entry in _entries(folder.path):
            if entry.name.endswith(SUFFIX):
                files.append(entry)
            elif _is_folder(entry):
                beside[entry.name] = entry
        for entry in files:
            if entry.name.startswith(SUBAGENTS):
                yield from self._file(entry, folder.name, part_of=self._parent(entry))
            else:
                own = beside.get(entry.name.removesuffix(SUFFIX))
                yield from self._file(entry, folder.name, note_modified=_note_modified(own))
        for session, entry in beside.items():
            for file in _subagents(f"{entry.path}/subagents", DEEPEST):
                yield from self._file(file, folder.name, part_of=session)

    def _file(
        self, entry: os.DirEntry[str], folder: str, *, part_of: str = "", note_modified: int = 0
    ) -> Iterator[ConversationFile]:
        """It, if it is a file that has something in it."""
        with suppress(OSError):
            if entry.is_file() and (facts := entry.stat()).st_size:
                yield ConversationFile(
                    path=self._paths.get(entry.path) or Path(entry.path),
                    size=facts.st_size,
                    modified=facts.st_mtime_ns,
                    source=SOURCE,
                    folder=folder,
                    part_of=part_of,
                    note_modified=note_modified,
                )

    def _parent(self, entry: os.DirEntry[str]) -> str:
        """The session whose sub-agent's it is: it says so itself, in its first line."""
        if entry.path not in self._parents:
            found = _SESSION.search(_head(entry.path))
            if found is None:
                return ""
            if len(self._parents) >= MOST_PARENTS:
                self._parents.clear()
            self._parents[entry.path] = found[1].decode("utf-8", "replace")
        return self._parents[entry.path]


def _entries(folder: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _subagents(folder: str, deepest: int) -> Iterator[os.DirEntry[str]]:
    for entry in _entries(folder):
        if entry.name.startswith(SUBAGENTS) and entry.name.endswith(SUFFIX):
            yield entry
        elif deepest and _is_folder(entry):
            yield from _subagents(entry.path, deepest - 1)


def _note_modified(session: os.DirEntry[str] | None) -> int:
    try:
        return os.stat(f"{session.path}/{NOTES}").st_mtime_ns if session else 0  # noqa: PTH116 (see _paths)
    except OSError:
        return 0


def _head(path: str) -> bytes:
    try:
        with Path(path).open("rb") as stream:
            return stream.read(HEAD)
    except OSError:
        return b""


LONGEST_NOTE = 20_000


class ClaudeTranscripts:
    """What is there at the time of the call; a folder that isn't there holds nothing."""

    name = SOURCE
    withheld = False

    def __init__(self, claude_dir: Path) -> None:
        self._projects = claude_dir / "projects"
        self._folders = Folders(self._projects)

    def files(self) -> list[ConversationFile]:
        """All that there are, sub-agents' too, those written to last first."""
        return self._folders.files()

    def roots(self) -> list[Path]:
        """The folder of projects."""
        return [self._projects] if self._projects.is_dir() else []

    def owns(self, path: Path) -> bool:
        """Whether a file lies in it."""
        return path.is_relative_to(self._projects)

    def note(self, file: Path) -> str:
        """The conversation's own notes, where Claude Code keeps some beside it."""
        try:
            with (file.with_suffix("") / NOTES).open(encoding="utf-8", errors="replace") as note:
                return beginning(note.read(LONGEST_NOTE + 1), LONGEST_NOTE).strip()
        except (OSError, ValueError):  # or a name that no file can have
            return ""

    def follow(
        self, file: Path, cursor: TranscriptCursor, *, most_bytes: int, source: str = ""
    ) -> TranscriptRead | None:
        """At most about so many bytes after the cursor, in bounded memory; None when there is no such file."""
        return follow(file, cursor, most_bytes=most_bytes, folder=self._folder(file))

    def _folder(self, file: Path) -> str:
        """What Claude Code calls the project that the file belongs to."""
        if file.is_relative_to(self._projects) and file != self._projects:
            return file.relative_to(self._projects).parts[0]
        return file.parent.name


class TranscriptSource(Protocol):
    """One program's conversations. What can't be read is absent."""

    name: str  # claude, codex, gemini, cursor

    def files(self) -> list[ConversationFile]:
        """All that there are."""

    def roots(self) -> list[Path]:
        """The folders under which they lie, of those that are there."""

    def owns(self, path: Path) -> bool:
        """Whether a file lies where the program keeps its conversations."""

    def note(self, file: Path) -> str:
        """What the program wrote about the conversation beside it; empty when nothing."""

    def follow(self, file: Path, cursor: TranscriptCursor, *, most_bytes: int) -> TranscriptRead | None:
        """What came after the cursor; None when there is no such file."""


class CombinedTranscripts:
    """Those of all `sources`. Of any other file `otherwise` tells, whether it is among them or not."""

    withheld = False

    def __init__(self, sources: Sequence[TranscriptSource], otherwise: ClaudeTranscripts) -> None:
        self._sources = tuple(sources)
        self._otherwise = otherwise

    def files(self) -> list[ConversationFile]:
        """All that there are, sub-agents' too, those written to last first."""
        found = [file for source in self._sources for file in source.files()]
        return sorted(found, key=lambda file: (file.modified, str(file.path)), reverse=True)

    def roots(self) -> list[Path]:
        """The folders under which they lie, of those that are there."""
        return [root for source in self._sources for root in source.roots()]

    def note(self, file: Path) -> str:
        """What the program wrote about the conversation beside it; empty when nothing."""
        return self._of(file, "").note(file)

    def follow(
        self, file: Path, cursor: TranscriptCursor, *, most_bytes: int, source: str = ""
    ) -> TranscriptRead | None:
        """At most about so many bytes after the cursor, in bounded memory; None when there is no such file."""
        return self._of(file, source).follow(file, cursor, most_bytes=most_bytes)

    def _of(self, file: Path, name: str) -> TranscriptSource:
        every = (*self._sources, self._otherwise)
        if name:
            return next((source for source in every if source.name == name), self._otherwise)
        return next((source for source in every if source.owns(file)), self._otherwise)
