"""Take out of text what nobody can see, and leave alone what people write."""

from __future__ import annotations

import unicodedata

from mindhold.engine.text.expression import Expression

_ANSI = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]"
_INVISIBLE = Expression(rf"{_ANSI}|[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
_LINE_ENDS = Expression("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_SURROGATE = Expression("[\ud800-\udfff]")

_JOINING = (
    "\u0600-\u08ff\u0900-\u0dff\u0f00-\u0fff\u1000-\u109f\u1780-\u18af"  # Arabic, Indic, Mongolian and kin
)
_SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer: U+200B parts words
_EMOJI = "\u00a9\u00ae\u203c-\u3299\ufe0f\U0001f000-\U0001faff"
_ZERO_WIDTH = Expression(
    "[\u2060-\u2065\u202a-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb\u180e]"
    f"|(?<![{_SPACELESS}])\u200b|\u200b(?![{_SPACELESS}])"
    f"|(?<![{_JOINING}])\u200c|\u200c(?![{_JOINING}])"
    f"|(?<![{_JOINING}{_EMOJI}])\u200d|(?<=[{_EMOJI}])\u200d(?![{_EMOJI}])"
)
_MARKS = Expression("[\u200e\u200f\u061c]")  # of use beside right-to-left letters only
_RIGHT_TO_LEFT = Expression("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
_TAGS = Expression("(\U0001f3f4[\U000e0020-\U000e007e]{1,8}\U000e007f)|[\U000e0000-\U000e007f]")

_BLANKS_AT_END = Expression(r"[ \t\u00a0\u3000]+(?=\n|\Z)")
_BLANK_LINES = Expression(r"\n{4,}")
_UNCLEAN_ASCII = Expression(r"[\x00-\x08\x0b-\x1f\x7f]|[ \t](?=\n)|\n\n\n\n")
_UNCLEAN = Expression(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e007f]|[ \t\u00a0\u3000](?=\n)|\n\n\n\n"
)


def clean(text: str) -> str:
    """NFC, without control characters, terminal escapes, hidden characters, and blanks at the ends of lines.

    May come out empty. Cleaning twice changes nothing.
    """
    unclean = _UNCLEAN_ASCII if text.isascii() else _UNCLEAN
    if unclean.search(text):
        text = _without_hidden(text)
    if not text.isascii() and not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    if text[:1] == "\n" or text[-1:].isspace() or unclean.search(text):
        text = _BLANKS_AT_END.sub("", text)
        text = _BLANK_LINES.sub("\n\n\n", text).strip("\n")
    return text


def _without_hidden(text: str) -> str:
    if _SURROGATE.search(text):  # halves that belong together become one character, the others U+FFFD
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = _LINE_ENDS.sub("\n", text)
    text = _INVISIBLE.sub("", text)
    if text.isascii():
        return text
    text = _TAGS.sub(lambda match: match[1] or "", text)
    text = _ZERO_WIDTH.sub("", text)
    return text if _RIGHT_TO_LEFT.search(text) else _MARKS.sub("", text)
