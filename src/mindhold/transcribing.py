"""Which programs' conversations are read: settings in, transcripts out."""

from __future__ import annotations

from mindhold.providers.transcripts.claude import ClaudeTranscripts
from mindhold.providers.transcripts.codex import CodexTranscripts
from mindhold.providers.transcripts.cursor import CursorTranscripts
from mindhold.providers.transcripts.every import EveryTranscripts, Source
from mindhold.providers.transcripts.gemini import GeminiTranscripts
from mindhold.settings.capture import listed
from mindhold.settings.declared import Settings


def transcripts_of(settings: Settings) -> EveryTranscripts:
    """Of the programs that are named. Claude Code's form is known in any case: hooks tell of its files."""
    claude = ClaudeTranscripts(settings.claude_dir)
    sources: dict[str, Source] = {
        "claude": claude,
        "codex": CodexTranscripts(settings.codex_dir),
        "gemini": GeminiTranscripts(settings.gemini_dir),
    }
    if settings.cursor_dir is not None:
        sources["cursor"] = CursorTranscripts(settings.cursor_dir)
    named = set(listed(settings.history.agents))
    return EveryTranscripts([source for name, source in sources.items() if name in named], claude)
