"""Tells whether a text is English, by its script and its stop words."""

from __future__ import annotations

import re
from functools import cache

from mindhold.model.lexemes import OTHER_STOP_WORDS, STOP_WORDS

_MOST_CHARACTERS = 1_000
_FOREIGN_SHARE = 0.2  # of the letters: a name or a quotation in another script has fewer
_LAST_LATIN = "\u024f"
_WORD = re.compile(r"[^\W\d_]+")
_SHORTEST = 2


def is_english(text: str) -> bool | None:
    """Whether the text is English; None if it can't be told, as of code or a few names."""
    text = text[:_MOST_CHARACTERS]
    if not text.isascii():
        letters = [letter for letter in text if letter.isalpha()]
        foreign = sum(letter > _LAST_LATIN for letter in letters)
        if foreign > _FOREIGN_SHARE * len(letters):
            return False
    words = {word for word in _WORD.findall(text.lower()) if len(word) >= _SHORTEST}
    english, *others = (len(words & stop_words) for stop_words in _stop_words())
    other = max(others)
    if other == 1 and text.isascii():  # one such word may be a name or a command
        other = 0
    return None if english == other else english > other


@cache
def _stop_words() -> tuple[frozenset[str], ...]:
    """The stop words of English and of each other language, without those that English shares with another."""
    others = [frozenset(words.split()) for words in OTHER_STOP_WORDS.values()]
    return (STOP_WORDS.difference(*others), *(words - STOP_WORDS for words in others))
