"""The transcripts of Claude Code (projects/<folder>/<session>.jsonl), and the sources of all programs combined."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from mindhold.ports.transcripts import ConversationFile, TranscriptCursor, TranscriptRead, beginning
from mindhold.providers.transcripts.reader import (
    SUBAGENT_PREFIX,
    TRANSCRIPT_SUFFIX,
    TranscriptSource,
    describe_file,
    follow,
    is_folder,
    list_folder,
    read_head,
)

SOURCE = "claude"
NOTES_FILE = "session-memory/summary.md"
MAX_DEPTH = 8  # depth of folders in which sub-agents' files are searched
HEAD_BYTES = 64 << 10  # bytes of a sub-agent's file that name its session
MAX_PARENTS = 10_000  # how many are remembered
LONGEST_NOTE = 20_000
_SESSION = re.compile(rb'"sessionId"\s*:\s*"([^"\\]{1,200})"')


class ClaudeTranscripts(TranscriptSource):
    """The transcripts of Claude Code, as they are on disk at each call; a missing folder has none."""

    name = SOURCE
    withheld = False

    def __init__(self, claude_dir: Path) -> None:
        self._projects = claude_dir / "projects"
        super().__init__([self._projects])
        self._parents: dict[str, str] = {}  # the session of each sub-agent's file that lies next to sessions
        # The last files' paths: making a Path takes longer than the system call.
        self._paths: dict[str, Path] = {}

    def files(self) -> list[ConversationFile]:
        """List all files, sub-agents' too, last written first."""
        files = [file for folder in self._project_folders() for file in self._project_files(folder)]
        self._paths = {str(file.path): file.path for file in files}
        return _last_written_first(files)

    def note(self, file: Path) -> str:
        """Return the notes that Claude Code keeps next to the conversation; empty when it has none."""
        try:
            with (file.with_suffix("") / NOTES_FILE).open(encoding="utf-8", errors="replace") as note:
                return beginning(note.read(LONGEST_NOTE + 1), LONGEST_NOTE).strip()
        except (OSError, ValueError):  # ValueError: a name that no file can have
            return ""

    def follow(
        self, file: Path, cursor: TranscriptCursor, *, most_bytes: int, source: str = ""
    ) -> TranscriptRead | None:
        """Read about `most_bytes` after the cursor, in bounded memory; None when there is no such file."""
        is_stored = file.is_relative_to(self._projects) and file != self._projects
        folder = file.relative_to(self._projects).parts[0] if is_stored else file.parent.name
        return follow(file, cursor, folder, most_bytes=most_bytes)

    def _project_folders(self) -> Iterator[os.DirEntry[str]]:
        """Yield the project folders; a folder that several links lead to comes once."""
        projects = Path(os.path.realpath(self._projects))
        yielded = {projects}
        links: list[os.DirEntry[str]] = []
        for entry in list_folder(self._projects):
            with suppress(OSError):
                if entry.is_symlink():
                    links.append(entry)
                elif entry.is_dir():
                    yielded.add(projects / entry.name)
                    yield entry
        for entry in links:
            with suppress(OSError):
                target = Path(os.path.realpath(entry.path))
                if target not in yielded and entry.is_dir():
                    yielded.add(target)
                    yield entry

    def _project_files(self, folder: os.DirEntry[str]) -> Iterator[ConversationFile]:
        session_folders: dict[str, os.DirEntry[str]] = {}
        files: list[os.DirEntry[str]] = []
        for entry in list_folder(folder.path):
            if entry.name.endswith(TRANSCRIPT_SUFFIX):
                files.append(entry)
            elif is_folder(entry):
                session_folders[entry.name] = entry
        for entry in files:
            if entry.name.startswith(SUBAGENT_PREFIX):
                yield from self._file(entry, folder.name, part_of=self._parent_session(entry))
            else:
                session_folder = session_folders.get(entry.name.removesuffix(TRANSCRIPT_SUFFIX))
                yield from self._file(entry, folder.name, note_modified=_note_modified(session_folder))
        for session, entry in session_folders.items():
            for file in _subagents(f"{entry.path}/subagents", MAX_DEPTH):
                yield from self._file(file, folder.name, part_of=session)

    def _file(
        self, entry: os.DirEntry[str], folder: str, *, part_of: str = "", note_modified: int = 0
    ) -> Iterator[ConversationFile]:
        path = self._paths.get(entry.path)
        return describe_file(
            entry, SOURCE, path=path, folder=folder, part_of=part_of, note_modified=note_modified
        )

    def _parent_session(self, entry: os.DirEntry[str]) -> str:
        """Return the session of a sub-agent's file, which its first line names."""
        if entry.path not in self._parents:
            match = _SESSION.search(read_head(entry.path, HEAD_BYTES))
            if match is None:
                return ""
            if len(self._parents) >= MAX_PARENTS:
                self._parents.clear()
            self._parents[entry.path] = match[1].decode("utf-8", "replace")
        return self._parents[entry.path]


def _subagents(folder: str, deepest: int) -> Iterator[os.DirEntry[str]]:
    for entry in list_folder(folder):
        if entry.name.startswith(SUBAGENT_PREFIX) and entry.name.endswith(TRANSCRIPT_SUFFIX):
            yield entry
        elif deepest and is_folder(entry):
            yield from _subagents(entry.path, deepest - 1)


def _note_modified(session: os.DirEntry[str] | None) -> int:
    try:
        return os.stat(f"{session.path}/{NOTES_FILE}").st_mtime_ns if session else 0  # noqa: PTH116 (see _paths)
    except OSError:
        return 0


def _last_written_first(files: list[ConversationFile]) -> list[ConversationFile]:
    return sorted(files, key=lambda file: (file.modified, str(file.path)), reverse=True)


class CombinedTranscripts:
    """The conversations of all `sources`. `fallback` reads any other file, whether it is one of the sources or not."""

    withheld = False

    def __init__(self, sources: Sequence[TranscriptSource], fallback: ClaudeTranscripts) -> None:
        self._sources = tuple(sources)
        self._fallback = fallback

    def files(self) -> list[ConversationFile]:
        """List all files, sub-agents' too, last written first."""
        return _last_written_first([file for source in self._sources for file in source.files()])

    def roots(self) -> list[Path]:
        """Return the folders of the conversations that exist."""
        return [root for source in self._sources for root in source.roots()]

    def note(self, file: Path) -> str:
        """Return the program's notes about the conversation; empty when it has none."""
        return self._source_of(file, "").note(file)

    def follow(
        self, file: Path, cursor: TranscriptCursor, *, most_bytes: int, source: str = ""
    ) -> TranscriptRead | None:
        """Read about `most_bytes` after the cursor, in bounded memory; None when there is no such file."""
        return self._source_of(file, source).follow(file, cursor, most_bytes=most_bytes)

    def _source_of(self, file: Path, name: str) -> TranscriptSource:
        sources = (*self._sources, self._fallback)
        if name:
            return next((source for source in sources if source.name == name), self._fallback)
        return next((source for source in sources if source.owns(file)), self._fallback)
