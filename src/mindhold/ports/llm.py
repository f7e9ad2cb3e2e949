"""A language model that somebody configured or offered. Never required."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from mindhold.model.errors import ModelError


class LanguageModel(Protocol):
    """Answers a prompt. Remembered text is handed over as quoted data, never as instruction."""

    @property
    def name(self) -> str:
        """What the answer says it was made by."""

    async def complete(self, prompt: str, *, system: str, most_tokens: int) -> str:
        """The answer's text. Raises ModelError when there is none within a bounded wait."""


class Meter(Protocol):
    """Hears of each attempt of one call, for each may cost something."""

    async def sending(self) -> None:
        """The next is about to be sent. Raises ModelError where it must not be."""

    async def failed(self, error: ModelError) -> None:
        """The last one brought no answer; another may follow."""

    async def counted(self, *, sent: int, answered: int) -> None:
        """How many tokens the last one took, as the service itself says, which may think more than it shows."""


@runtime_checkable
class TryingModel(LanguageModel, Protocol):
    """One that may send a call several times."""

    async def complete_metered(self, prompt: str, *, system: str, most_tokens: int, meter: Meter) -> str:
        """As `complete`; the meter hears of every attempt. Raises ModelError."""


class OwnModel(LanguageModel, Protocol):
    """The one that was configured."""

    async def close(self) -> None:
        """Let go of connections. Idempotent."""
