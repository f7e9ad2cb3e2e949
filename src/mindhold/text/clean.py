"""Removes hidden characters from text, and splits long text at natural boundaries."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right

from mindhold.model.errors import InvalidInput
from mindhold.text.pattern import LazyPattern

_ANSI = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]"
_INVISIBLE = LazyPattern(rf"{_ANSI}|[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
_LINE_ENDS = LazyPattern("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_SURROGATE = LazyPattern("[\ud800-\udfff]")

_JOINING = "\u0600-\u08ff\u0900-\u0dff\u0f00-\u0fff\u1000-\u109f\u1780-\u18af"  # Arabic, Indic, Mongolian and related scripts
_SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer: U+200B separates words
_EMOJI = "\u00a9\u00ae\u203c-\u3299\ufe0f\U0001f000-\U0001faff"
_ZERO_WIDTH = LazyPattern(
    "[\u2060-\u2065\u202a-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb\u180e]"
    f"|(?<![{_SPACELESS}])\u200b|\u200b(?![{_SPACELESS}])"
    f"|(?<![{_JOINING}])\u200c|\u200c(?![{_JOINING}])"
    f"|(?<![{_JOINING}{_EMOJI}])\u200d|(?<=[{_EMOJI}])\u200d(?![{_EMOJI}])"
)
_MARKS = LazyPattern("[\u200e\u200f\u061c]")  # useful only next to right-to-left letters
_RIGHT_TO_LEFT = LazyPattern("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
_TAGS = LazyPattern("(\U0001f3f4[\U000e0020-\U000e007e]{1,8}\U000e007f)|[\U000e0000-\U000e007f]")

_BLANKS_AT_END = LazyPattern(r"[ \t\u00a0\u3000]+(?=\n|\Z)")
_BLANK_LINES = LazyPattern(r"\n{4,}")
_UNCLEAN_ASCII = LazyPattern(r"[\x00-\x08\x0b-\x1f\x7f]|[ \t](?=\n)|\n\n\n\n")
_UNCLEAN = LazyPattern(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e007f]|[ \t\u00a0\u3000](?=\n)|\n\n\n\n"
)


def clean(text: str) -> str:
    """Normalise text to NFC and remove control characters, terminal escapes, hidden characters and trailing blanks.

    The result may be empty. Cleaning it again changes nothing.
    """
    unclean = _UNCLEAN_ASCII if text.isascii() else _UNCLEAN
    if unclean.search(text):
        text = _remove_hidden(text)
    if not text.isascii() and not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    if text[:1] == "\n" or text[-1:].isspace() or unclean.search(text):
        text = _BLANKS_AT_END.sub("", text)
        text = _BLANK_LINES.sub("\n\n\n", text).strip("\n")
    return text


def _remove_hidden(text: str) -> str:
    if _SURROGATE.search(text):  # paired halves become one character, single ones U+FFFD
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = _LINE_ENDS.sub("\n", text)
    text = _INVISIBLE.sub("", text)
    if text.isascii():
        return text
    text = _TAGS.sub(lambda match: match[1] or "", text)
    text = _ZERO_WIDTH.sub("", text)
    return text if _RIGHT_TO_LEFT.search(text) else _MARKS.sub("", text)


_FENCE = LazyPattern(r"^[ \t]{0,3}(`{3,}|~{3,})([^\n]*)(?:\n|\Z)", re.MULTILINE)
# Where a part may end, best first; the cut comes after the match.
_BOUNDARIES = (
    LazyPattern(r"\n[ \t]*\n\s*"),
    LazyPattern(r"\n"),
    LazyPattern(r"(?<=[.!?…])[\"'”’)\]]*\s+|[。！？．｡]+[」』”’）]*\s*|[।۔؟]\s*"),
    LazyPattern(r"[,;:，、；：]\s+|[，、；：]"),
    LazyPattern(r"\s+"),
)
# A boundary needs one of these characters; searching for the character first is quicker.
_SIGNS = dict(
    zip(
        _BOUNDARIES,
        map(LazyPattern, (r"\n", r"\n", "[.!?…。！？．｡।۔؟]", "[,;:，、；：]", r"\s")),
        strict=True,
    )
)
# A boundary before this share of the limit makes parts too small: try a weaker boundary.
_LEAST_SHARE = 0.25
_WINDOW = 128  # characters before the limit to search first; most texts have a boundary there


def split(text: str, *, limit: int) -> list[str]:
    """Split text into parts of at most `limit` characters, in order, without losing a word.

    Cuts at paragraphs, then lines, sentences, clauses and words; inside a word only if it is longer than
    the limit. A fenced code block stays whole if it fits. Raises InvalidInput for a limit below 1.
    """
    if limit < 1:
        raise InvalidInput(
            f"Text can't be split into parts of {limit} characters.", advice="Give a limit of at least 1."
        )
    if len(text) <= limit:
        return [text] if text.strip() else []
    fences = [(start, end) for start, end in _find_fences(text) if end - start <= limit]
    parts: list[str] = []
    begin = 0
    while begin < len(text):
        end = _find_cut(text, begin, limit=limit, fences=fences)
        if part := _trim(text[begin:end]):
            parts.append(part)
        while end < len(text) and text[end] in " \t" and text[end - 1] != "\n":
            end += 1
        begin = end
    return parts


def _find_fences(text: str) -> list[tuple[int, int]]:
    """Start and end of each fenced block. Linear, even for a text full of fences that are never closed."""
    lines = list(_FENCE.finditer(text))
    ends: list[int | None] = [None] * len(lines)
    # For each fence character: the closing lines after the current one, nearest last. A longer fence hides shorter ones
    # after it, so lengths decrease; they are stored negated, in ascending order for bisect.
    closers: dict[str, tuple[list[int], list[int]]] = {"`": ([], []), "~": ([], [])}
    for number in range(len(lines) - 1, -1, -1):
        fence, rest = lines[number].groups()
        lengths, positions = closers[fence[0]]
        count = bisect_right(lengths, -len(fence))
        ends[number] = positions[count - 1] if count else None
        if not rest.strip(" \t"):
            while lengths and lengths[-1] >= -len(fence):
                lengths.pop()
                positions.pop()
            lengths.append(-len(fence))
            positions.append(lines[number].end())
    blocks: list[tuple[int, int]] = []
    for line, end in zip(lines, ends, strict=True):
        if end is not None and (not blocks or line.start() >= blocks[-1][1]):
            blocks.append((line.start(), end))
    return blocks


def _find_cut(text: str, begin: int, *, limit: int, fences: list[tuple[int, int]]) -> int:
    at_least, end = begin + 1, begin + limit
    if end >= len(text):
        return len(text)
    least = max(at_least, begin + int(limit * _LEAST_SHARE))
    fence = _fence_over(fences, end)
    if fence is not None and fence[0] >= at_least:
        return fence[0]
    for boundary in _BOUNDARIES:
        for least_end in (least,) if boundary is not _BOUNDARIES[-1] else (least, at_least):
            cut = _last_boundary(boundary, text, least_end, end, fences)
            if cut:
                return cut
    return _character_boundary(text, at_least, end)


def _last_boundary(
    boundary: LazyPattern, text: str, least: int, end: int, fences: list[tuple[int, int]]
) -> int | None:
    # One character on the left for the lookbehind, and as far right as the part may reach.
    first, window = max(0, least - 1), _WINDOW
    if not _SIGNS[boundary].search(text, max(0, first - 1), end + 1):
        return None
    while True:
        # No boundary contains a letter, so a search that starts at a letter finds the same matches.
        start = max(first, end - window)
        while start > first and not text[start].isalnum():
            start -= 1
        best = None
        for match in boundary.finditer(text, start, end + 1):
            position = min(match.end(), end)
            if position >= least and (not fences or _fence_over(fences, position) is None):
                best = position
        if best is not None or start == first:
            return best
        window *= 4


def _fence_over(fences: list[tuple[int, int]], position: int) -> tuple[int, int] | None:
    index = bisect_right(fences, (position, 0)) - 1
    if index < 0:
        return None
    fence = fences[index]
    return fence if fence[0] < position < fence[1] else None


def _character_boundary(text: str, at_least: int, end: int) -> int:
    """The last position up to `end` that doesn't split an accent, joiner or emoji; `end` if there is none."""
    for position in range(end, max(at_least, end - 16) - 1, -1):
        after, before = text[position], text[position - 1]
        if (
            unicodedata.category(after)[0] != "M"
            and "\u200d" not in (after, before)
            and not "\U0001f3fb" <= after <= "\U0001f3ff"
        ):
            return position
    return end


def _trim(part: str) -> str:
    """Remove surrounding blank lines, but keep the indentation of the first line: it may be code."""
    part = part.rstrip()
    first = re.match(r"(?:[^\S\n]*\n)+", part)
    return part[first.end() :] if first else part
