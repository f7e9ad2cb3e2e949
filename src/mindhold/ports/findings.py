"""What a check of a store tells."""

from __future__ import annotations

from dataclasses import dataclass

REPAIR = "`mindhold doctor --repair` rebuilds it; no memory is touched."  # the advice where repair() mends it


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check looked at."""

    name: str
    healthy: bool
    detail: str
    advice: str = ""

    @property
    def mendable(self) -> bool:
        """Whether it is wrong, and derived: repair() makes it anew."""
        return not self.healthy and self.advice == REPAIR
