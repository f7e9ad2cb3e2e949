"""A language model that somebody configured or offered. Never required."""

from __future__ import annotations

from typing import Protocol


class LanguageModel(Protocol):
    """Answers a prompt. Remembered text is handed over as quoted data, never as instruction."""

    @property
    def name(self) -> str:
        """What the answer says it was made by."""

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """The answer's text. Raises ModelError when there is none within a bounded wait."""


class OwnModel(LanguageModel, Protocol):
    """The one that was configured."""

    async def close(self) -> None:
        """Let go of connections. Idempotent."""
