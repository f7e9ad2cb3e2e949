"""How much two texts share, word by word."""

from __future__ import annotations

from collections.abc import Set

from recollect.model.lexemes import lexemes, stop_lexemes


def content_words(text: str) -> frozenset[str]:
    """The words that say something, each in the form that it is searched by."""
    return frozenset(lexemes(text)) - stop_lexemes()


def shared(one: Set[str], other: Set[str]) -> float:
    """Of all words the share that both have: 0 to 1, and 0 where there are none."""
    both = len(one & other)
    return both / (len(one) + len(other) - both) if both else 0.0


def jaccard(a: str, b: str) -> float:
    """The share of their content words that two texts have in common."""
    return shared(content_words(a), content_words(b))
