"""Tags that a person writes into the text itself: `#login`."""

from __future__ import annotations

import re
import unicodedata

MOST_TAGS = 20
LONGEST_TAG = 50  # beyond it is no word that somebody tags with
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_SHARP = re.compile(r"(?<![\w#&/?=.@%:;+-])[#＃](?=[^\W_])")
_COLOUR = re.compile(r"(?=[0-9a-f]*\d)(?:[0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})", re.IGNORECASE)


def hashtags(text: str) -> tuple[str, ...]:
    """Each once, in order, without the sharp; none in code, addresses, numbers and colours."""
    plain = _CODE.sub(" ", text)
    found: dict[str, str] = {}
    for sharp in _SHARP.finditer(plain):
        tag = _word(plain, sharp.end())
        if len(tag) <= LONGEST_TAG and not tag.isdecimal() and not _COLOUR.fullmatch(tag):
            found.setdefault(tag.casefold(), tag)
    return tuple(found.values())[:MOST_TAGS]


def _word(text: str, start: int) -> str:
    end = start
    while end < len(text) and (is_of_word(text[end]) or text[end] in "_-"):
        end += 1
    return text[start:end].rstrip("_-")


def is_of_word(character: str) -> bool:
    """A letter or digit, or a mark that belongs to the letter before it, as in Hindi."""
    return character.isalnum() or unicodedata.category(character)[0] == "M"
