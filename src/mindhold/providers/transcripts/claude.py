"""The transcripts that Claude Code keeps: projects/<folder>/<session>.jsonl in its own folder."""

from __future__ import annotations

from pathlib import Path

from mindhold.ports.transcripts import ConversationFile, Cursor, Followed, beginning
from mindhold.providers.transcripts.folders import NOTES, SOURCE, Folders
from mindhold.providers.transcripts.follow import follow

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

    def follow(self, file: Path, cursor: Cursor, *, most_bytes: int, source: str = "") -> Followed | None:
        """At most about so many bytes after the cursor, in bounded memory; None when there is no such file."""
        return follow(file, cursor, most_bytes=most_bytes, folder=self._folder(file))

    def _folder(self, file: Path) -> str:
        """What Claude Code calls the project that the file belongs to."""
        if file.is_relative_to(self._projects) and file != self._projects:
            return file.relative_to(self._projects).parts[0]
        return file.parent.name
