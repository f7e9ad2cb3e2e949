"""The conversations of several programs as one: whose a file is, its place tells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from mindhold.ports.transcripts import ConversationFile, Cursor, Followed
from mindhold.providers.transcripts.claude import ClaudeTranscripts


class Source(Protocol):
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

    def follow(self, file: Path, cursor: Cursor, *, most_bytes: int) -> Followed | None:
        """What came after the cursor; None when there is no such file."""


class EveryTranscripts:
    """Those of all `sources`. Of any other file `otherwise` tells, whether it is among them or not."""

    withheld = False

    def __init__(self, sources: Sequence[Source], otherwise: ClaudeTranscripts) -> None:
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

    def follow(self, file: Path, cursor: Cursor, *, most_bytes: int, source: str = "") -> Followed | None:
        """At most about so many bytes after the cursor, in bounded memory; None when there is no such file."""
        return self._of(file, source).follow(file, cursor, most_bytes=most_bytes)

    def _of(self, file: Path, name: str) -> Source:
        every = (*self._sources, self._otherwise)
        if name:
            return next((source for source in every if source.name == name), self._otherwise)
        return next((source for source in every if source.owns(file)), self._otherwise)
