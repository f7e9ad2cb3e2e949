"""Counts the tokens of a text by cl100k_base and truncates text to a budget."""

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
def _loaded() -> _Tokenizer:
    from splintr import Tokenizer

    tokenizer: _Tokenizer = Tokenizer.from_pretrained("cl100k_base")
    return tokenizer


def _tokenizer() -> _Tokenizer:
    # Its ranks are 19 MB: threads that come at once wait for one reading.
    with _loading:
        return _loaded()


def count_tokens(text: str) -> int:
    """Exactly as cl100k_base counts; what looks like a special token is plain text."""
    return len(_tokenizer().encode_ordinary(_encodable(text)))


def truncate_to_tokens(text: str, limit: int) -> str:
    """The text if it fits, else its longest beginning that does with "…" after it, cut between words if possible."""
    text = _encodable(text)
    if limit <= 0:
        return ""
    if len(text) <= limit * _MOST_CHARACTERS_A_TOKEN and count_tokens(text) <= limit:
        return text
    if count_tokens(ELLIPSIS) > limit:
        return ""
    end = _longest_prefix(text, limit)
    while end > 0:
        end = _good_cut(text, end)
        shortened = text[:end].rstrip() + ELLIPSIS
        if count_tokens(shortened) <= limit:
            return shortened
        end -= 1
    return ELLIPSIS


def _longest_prefix(text: str, limit: int) -> int:
    """About the most characters whose tokens and the ellipsis fit: counts grow with the text but for a few tokens."""
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


def _good_cut(text: str, end: int) -> int:
    """The last place up to `end` between two words, if it costs at most a fifth; else between two characters."""
    if end >= len(text) or text[end].isspace():
        return end
    for place in range(end, max(end * 4 // 5, end - 200), -1):
        if text[place - 1].isspace():
            return place - 1
    while end > 0 and not _is_between_characters(text, end):
        end -= 1
    return end


def _is_between_characters(text: str, place: int) -> bool:
    before, after = text[place - 1], text[place]
    if unicodedata.combining(after) or unicodedata.category(after) in ("Mn", "Mc", "Me"):
        return False
    if after in _JOINERS or before == "\u200d":
        return False
    if "\U0001f3fb" <= after <= "\U0001f3ff":
        return False
    return not (_is_regional(before) and _is_regional(after) and _flags_before(text, place) % 2)


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flags_before(text: str, place: int) -> int:
    start = place
    while start > 0 and _is_regional(text[start - 1]):
        start -= 1
    return place - start


def _encodable(text: str) -> str:
    """Half a surrogate pair has no bytes; it counts as the mark that replaces it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
