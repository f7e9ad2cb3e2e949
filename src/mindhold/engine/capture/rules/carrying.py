"""What one call leaves to the next of the same conversation: a few kB of plain JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mindhold.engine.capture.rules.failures import MOST_OPEN
from mindhold.engine.capture.rules.offers import Offer
from mindhold.engine.capture.rules.own_choices import MOST_CLAIMS
from mindhold.engine.capture.rules.trouble import Trouble

MOST_SEEN = 150
MOST_COUNTED = 30


@dataclass(slots=True)
class Carried:
    """`seen` are short hashes of what was picked out before; `counts` how often commands succeeded.

    `offer` is what the assistant put to the person last, `claims` what it said last that it chose by itself.
    """

    troubles: list[Trouble] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    offer: Offer | None = None
    claims: list[str] = field(default_factory=list)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Carried:
        """What can't be understood is as if it weren't there."""
        try:
            return cls(
                troubles=[Trouble.from_json(one) for one in value.get("troubles", ())],
                seen=[str(one) for one in value.get("seen", ())],
                counts={str(name): int(count) for name, count in dict(value.get("counts", {})).items()},
                offer=Offer.from_json(value["offer"]) if value.get("offer") else None,
                claims=[str(one) for one in value.get("claims", ())],
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            return cls()

    def as_json(self) -> dict[str, Any]:
        counts = dict(list(self.counts.items())[-MOST_COUNTED:])
        told: dict[str, Any] = {
            "troubles": [one.as_json() for one in self.troubles[-MOST_OPEN:]],
            "seen": self.seen[-MOST_SEEN:],
            "counts": counts,
        }
        if self.offer:
            told["offer"] = self.offer.as_json()
        if self.claims:
            told["claims"] = self.claims[:MOST_CLAIMS]
        return told

    def is_new(self, content: str) -> bool:
        """Whether it was not picked out before; from now on it was."""
        mark = hashlib.sha256(content.casefold().encode()).hexdigest()[:10]
        if mark in self.seen:
            return False
        self.seen.append(mark)
        return True
