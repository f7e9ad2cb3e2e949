"""Counts the tokens of a text by cl100k_base, and truncates text to a budget."""

from __future__ import annotations

import unicodedata
from functools import cache
from threading import Lock
from typing import Protocol

ELLIPSIS = "…"
_loading = Lock()
_JOINERS = "\u200d\ufe0f\ufe0e"
_MOST_CHARACTERS_A_TOKEN = 128  # the longest token of cl100k_base is a run of 128 blanks


class _Tokenizer(Protocol):
    def encode_ordinary(self, text: str) -> list[int]: ...


@cache
def _load() -> _Tokenizer:
    from splintr import Tokenizer

    return Tokenizer.from_pretrained("cl100k_base")


def _tokenizer() -> _Tokenizer:
    # The vocabulary is 19 MB: concurrent threads wait for one load.
    with _loading:
        return _load()


def count_tokens(text: str) -> int:
    """The exact count of cl100k_base; a special token counts as plain text."""
    return len(_tokenizer().encode_ordinary(_encodable(text)))


def truncate_to_tokens(text: str, limit: int) -> str:
    """The text if it fits, else its longest prefix that does, with "…" appended, cut between words if possible."""
    text = _encodable(text)
    if limit <= 0:
        return ""
    if len(text) <= limit * _MOST_CHARACTERS_A_TOKEN and count_tokens(text) <= limit:
        return text
    if count_tokens(ELLIPSIS) > limit:
        return ""
    end = _longest_prefix(text, limit)
    while end > 0:
        end = _find_cut(text, end)
        shortened = text[:end].rstrip() + ELLIPSIS
        if count_tokens(shortened) <= limit:
            return shortened
        end -= 1
    return ELLIPSIS


def _longest_prefix(text: str, limit: int) -> int:
    """About the longest prefix that fits with the ellipsis; counts grow with the length, give or take a few tokens."""
    low, high = 0, min(len(text), limit * _MOST_CHARACTERS_A_TOKEN)
    reach = min(high, limit * 8)
    if reach < high and count_tokens(text[:reach] + ELLIPSIS) > limit:
        high = reach
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens(text[:middle] + ELLIPSIS) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def _find_cut(text: str, end: int) -> int:
    """The last position up to `end` between two words, if it costs at most a fifth; else between two characters."""
    if end >= len(text) or text[end].isspace():
        return end
    for position in range(end, max(end * 4 // 5, end - 200), -1):
        if text[position - 1].isspace():
            return position - 1
    while end > 0 and not _is_between_characters(text, end):
        end -= 1
    return end


def _is_between_characters(text: str, position: int) -> bool:
    before, after = text[position - 1], text[position]
    if unicodedata.combining(after) or unicodedata.category(after) in ("Mn", "Mc", "Me"):
        return False
    if after in _JOINERS or before == "\u200d":
        return False
    if "\U0001f3fb" <= after <= "\U0001f3ff":
        return False
    return not (_is_regional(before) and _is_regional(after) and _flags_before(text, position) % 2)


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flags_before(text: str, position: int) -> int:
    start = position
    while start > 0 and _is_regional(text[start - 1]):
        start -= 1
    return position - start


def _encodable(text: str) -> str:
    """Replace unpaired surrogates, which have no bytes, by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
