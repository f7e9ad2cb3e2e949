"""What a paid embedding service leaves behind: what it cost, and what was measured of its model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mindhold.model.ranking import Cosines


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms texts are sent to a service. `price` is in dollars a million tokens; None is unknown."""

    price: float | None = None
    daily_tokens: int = 0  # 0: no cap
    redact: bool = True  # whether questions lose secrets and personal data before they are sent

    def dollars(self, tokens: int) -> float | None:
        """What so many tokens cost."""
        return None if self.price is None else tokens * self.price / 1_000_000


@dataclass(frozen=True, slots=True)
class Traits:
    """What the first call showed of a service's model."""

    dimensions: int
    unrelated: Cosines


@dataclass(frozen=True, slots=True)
class Usage:
    """Requests that were made for one batch of texts, and the tokens that the service counted."""

    calls: int = 0
    failed: int = 0
    tokens: int = 0


class ServiceBook(Protocol):
    """Where one service's model is written down. Forgetful rather than failing: no method raises StoreError."""

    async def traits(self) -> Traits | None:
        """What was measured once; None when it never was."""

    async def keep_traits(self, traits: Traits) -> None:
        """Remember them for every process."""

    async def reserve(self, tokens: int) -> None:
        """Before a call. Raises ModelAway when the day's tokens don't suffice, or can't be counted."""

    async def settle(self, used: Usage, *, reserved: int) -> None:
        """After it, whatever became of it."""
