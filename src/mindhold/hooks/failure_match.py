"""Finds the solved errors in a hook cache that match a failure."""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import Any

    from mindhold.hooks.hook_cache import HookCache


ALIKE = 0.8  # share of words that two signs must have in common
FEWEST_WORDS = 6  # words of a sign that is compared word by word
FEWEST_BEGINNING = 4  # words of a sign that another one starts with
_LIKELY = 0.7
_LONGEST = 40_000  # characters of the failure; signs are taken from its start and its end
# words that the construction of a sign may add
_ADDED_WORDS = frozenset(("command", "not", "found:", "panic:"))


def match_failure(hook_cache: HookCache, text: str, shown_ids: Collection[str] = ()) -> list[dict[str, Any]]:
    """The solved errors that match this failure, most certain first, without those already shown."""
    if not hook_cache.errors:
        return []
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]}\n{text[-_LONGEST // 2 :]}"
    candidates = [(error, [_words(sign) for sign in error["signs"]]) for error in hook_cache.solved()]
    lowered = text.lower()
    likely = [
        (error, signs)
        for error, signs in candidates
        if error["id"] not in shown_ids and any(_is_likely(words, lowered) for words in signs)
    ]
    if not likely:
        return []
    from mindhold.model.error_signs import error_signs  # compiles a pattern for each form of line

    signs = error_signs(_likely_lines(text, [words for _, signs in likely for words in signs]))
    ranked = [(_similarity(signs, error["signs"]), -index, error) for index, (error, _) in enumerate(likely)]
    ranked.sort(key=lambda row: row[:2], reverse=True)
    return [error for similarity, _, error in ranked if similarity]


def _words(sign: str) -> list[str]:
    """The words of a sign that also occur in the original text."""
    words = (word.strip(",;:.()[]") for word in sign.split() if word not in _ADDED_WORDS)
    return [word for word in words if word and "#" not in word]


def _is_likely(words: Sequence[str], lowered: str) -> bool:
    """Whether the text contains most words of a sign, or its first ones; a cheap check."""
    beginning = words[:FEWEST_BEGINNING]
    if len(beginning) == FEWEST_BEGINNING and all(word in lowered for word in beginning):
        return True
    return sum(word in lowered for word in words) >= len(words) * _LIKELY


def _likely_lines(text: str, signs: Sequence[Sequence[str]]) -> str:
    """The lines that may contain a sign, each with the line before if that announces it."""
    lines = text.splitlines()
    likely: list[str] = []
    for index, line in enumerate(lines):
        lowered = line.lower()
        if any(_is_likely(words, lowered) for words in signs):
            likely += [lines[index - 1]] if index and lines[index - 1].endswith(":") else []
            likely.append(line)
    return "\n".join(likely)


def _starts_with(words: Sequence[str], beginning: Sequence[str]) -> bool:
    return len(beginning) >= FEWEST_BEGINNING and words[: len(beginning)] == beginning


def _similarity(signs: Iterable[str], others: Collection[str]) -> float:
    return max((_sign_similarity(sign, other) for sign in signs for other in others), default=0.0)


def _sign_similarity(sign: str, other: str) -> float:
    """1 for equal signs, less for nearly equal ones, else 0.

    A sign that a person wrote down may continue after the failure ends: "... when running the tests".
    """
    if sign == other:
        return 1.0
    if _starts_with(_words(other), _words(sign)):
        return 0.995
    words, others = set(sign.split()), set(other.split())
    if min(len(words), len(others)) < FEWEST_WORDS or sign.split()[0] != other.split()[0]:
        return 0.0
    share = len(words & others) / len(words | others)
    return share * 0.99 if share >= ALIKE else 0.0
