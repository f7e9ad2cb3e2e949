"""How much two texts share, word by word."""

from __future__ import annotations

import re
from collections.abc import Set

from mindhold.model.lexemes import lexemes, stop_lexemes

QUANTIFIERS = frozenset(
    """always never sometimes usually often rarely seldom mostly occasionally only all every each any some none most many few both
    must should may might immer manchmal oft selten nur alle toujours parfois souvent siempre veces 가끔 자주 항상 모든""".split()
)
_WORD = re.compile(r"[^\W\d_]+")


def content_words(text: str) -> frozenset[str]:
    """The words that say something, each in the form that it is searched by."""
    return frozenset(lexemes(text)) - stop_lexemes()


def shared(one: Set[str], other: Set[str]) -> float:
    """Of all words the share that both have: 0 to 1, and 0 where there are none."""
    both = len(one & other)
    return both / (len(one) + len(other) - both) if both else 0.0


def contained(one: Set[str], other: Set[str]) -> bool:
    """Whether one of them says all that the other does. A word in the place of another makes it another statement."""
    return one <= other or other <= one


def quantifiers(text: str) -> frozenset[str]:
    """How often, and of how many, a text says something."""
    return frozenset(_WORD.findall(text.casefold())) & QUANTIFIERS
