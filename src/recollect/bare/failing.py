"""Which solved errors of a leaflet a failure is."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any

    from recollect.bare.leaflet import Leaflet

ALIKE = 0.8  # share of words that two signs must have in common
FEWEST_WORDS = 6  # of signs that are compared word by word
_LIKELY = 0.7
_LONGEST = 40_000  # characters of what failed: signs are taken from its beginning and its end
_ADDED = frozenset(("command", "not", "found:", "panic:"))  # what the making of a sign may put in


def by_failure(leaflet: Leaflet, text: str, told: Collection[str] = ()) -> list[dict[str, Any]]:
    """The errors that this failure is, the surest first, without those told."""
    if not leaflet.errors:
        return []
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]}\n{text[-_LONGEST // 2 :]}"
    lowered = text.lower()
    likely = [
        error
        for error in leaflet.solved()
        if error["id"] not in told and any(_likely(sign, lowered) for sign in error["signs"])
    ]
    if not likely:
        return []
    from recollect.model.error_signs import error_signs  # compiles what takes as long as all else

    signs = error_signs(text)
    ranked = [(_nearness(signs, error["signs"]), -place, error) for place, error in enumerate(likely)]
    ranked.sort(key=lambda one: one[:2], reverse=True)
    return [error for nearness, _, error in ranked if nearness]


def _likely(sign: str, lowered: str) -> bool:
    """Whether most words of a sign stand in the text, without taking the text apart."""
    words = [word for word in sign.split() if "#" not in word and word not in _ADDED]
    return sum(word.strip(",;:.()[]") in lowered for word in words) >= len(words) * _LIKELY


def _nearness(signs: Iterable[str], known: Collection[str]) -> float:
    return max((_alike(sign, other) for sign in signs for other in known), default=0.0)


def _alike(sign: str, other: str) -> float:
    """1 for the same, less for nearly the same, else 0."""
    if sign == other:
        return 1.0
    words, others = set(sign.split()), set(other.split())
    if min(len(words), len(others)) < FEWEST_WORDS or sign.split()[0] != other.split()[0]:
        return 0.0
    share = len(words & others) / len(words | others)
    return share * 0.99 if share >= ALIKE else 0.0
