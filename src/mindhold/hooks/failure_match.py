"""The solved errors of a hook cache that match a failure."""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import Any

    from mindhold.hooks.hook_cache import HookCache


ALIKE = 0.8  # share of words that two signs must have in common
FEWEST_WORDS = 6  # of signs that are compared word by word
FEWEST_BEGINNING = 4  # words of a sign that another one begins with
_LIKELY = 0.7
_LONGEST = 40_000  # characters of what failed: signs are taken from its beginning and its end
_ADDED = frozenset(("command", "not", "found:", "panic:"))  # what the making of a sign may put in


def match_failure(leaflet: HookCache, text: str, told: Collection[str] = ()) -> list[dict[str, Any]]:
    """The errors that this failure is, the surest first, without those told."""
    if not leaflet.errors:
        return []
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]}\n{text[-_LONGEST // 2 :]}"
    known = [(error, [_words(sign) for sign in error["signs"]]) for error in leaflet.solved()]
    lowered = text.lower()
    likely = [
        (error, signs)
        for error, signs in known
        if error["id"] not in told and any(_likely(words, lowered) for words in signs)
    ]
    if not likely:
        return []
    from mindhold.model.error_signs import error_signs  # compiles for every form of line that it is given

    signs = error_signs(_telling(text, [words for _, signs in likely for words in signs]))
    ranked = [(_nearness(signs, error["signs"]), -place, error) for place, (error, _) in enumerate(likely)]
    ranked.sort(key=lambda one: one[:2], reverse=True)
    return [error for nearness, _, error in ranked if nearness]


def _words(sign: str) -> list[str]:
    """Those that stand in the text as well, wherever the sign was taken from it."""
    words = (word.strip(",;:.()[]") for word in sign.split() if word not in _ADDED)
    return [word for word in words if word and "#" not in word]


def _likely(words: Sequence[str], lowered: str) -> bool:
    """Whether most words of a sign stand in the text, or its first, without taking the text apart."""
    beginning = words[:FEWEST_BEGINNING]
    if len(beginning) == FEWEST_BEGINNING and all(word in lowered for word in beginning):
        return True
    return sum(word in lowered for word in words) >= len(words) * _LIKELY


def _telling(text: str, signs: Sequence[Sequence[str]]) -> str:
    """The lines that a sign may stand in, each with the one before if that announces it."""
    lines = text.splitlines()
    kept: list[str] = []
    for place, line in enumerate(lines):
        lowered = line.lower()
        if any(_likely(words, lowered) for words in signs):
            kept += [lines[place - 1]] if place and lines[place - 1].endswith(":") else []
            kept.append(line)
    return "\n".join(kept)


def _begins(words: Sequence[str], beginning: Sequence[str]) -> bool:
    return len(beginning) >= FEWEST_BEGINNING and words[: len(beginning)] == beginning


def _nearness(signs: Iterable[str], known: Collection[str]) -> float:
    return max((_alike(sign, other) for sign in signs for other in known), default=0.0)


def _alike(sign: str, other: str) -> float:
    """1 for the same, less for nearly the same, else 0.

    What a person wrote down may go on where the failure itself ends: "... when running the tests".
    """
    if sign == other:
        return 1.0
    if _begins(_words(other), _words(sign)):
        return 0.995
    words, others = set(sign.split()), set(other.split())
    if min(len(words), len(others)) < FEWEST_WORDS or sign.split()[0] != other.split()[0]:
        return 0.0
    share = len(words & others) / len(words | others)
    return share * 0.99 if share >= ALIKE else 0.0
