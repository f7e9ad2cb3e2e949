"""Where the programs of others keep their settings on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Places:
    """`programs` is where applications keep theirs: ~/Library/Application Support, %APPDATA% or ~/.config."""

    user: Path
    programs: Path
    codex: Path
    claude: Path  # Claude Code's folder

    @property
    def claude_settings(self) -> Path:
        return self.claude / "settings.json"

    @property
    def claude_json(self) -> Path:
        """Where Claude Code keeps the servers of a person."""
        usual = self.claude == self.user / ".claude"
        return (self.user if usual else self.claude) / ".claude.json"
