"""What is shown of a conversation: a stretch that answers, without secrets, and nothing that instructs its reader."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection

from mindhold.engine.checks import safe_text
from mindhold.engine.core import Engine
from mindhold.engine.draft import QUARANTINE_FROM
from mindhold.engine.text.expression import Expression
from mindhold.engine.text.suspicion import suspicion
from mindhold.model.lexemes import lexemes

LONGEST_EXCERPT = 300
LONGEST_SUMMARY = 300
LONGEST_TITLE = 100
AROUND = 4_000  # characters around an excerpt that are looked at for secrets
LONGEST_LOOK = 40_000  # characters of one utterance that an excerpt is taken from
WITHHELD = "[withheld: it reads like instructions to its reader]"
_WORD = re.compile(r"\w[\w'’./+#-]*")
# What Markdown and logs are decorated with; what is written in it stays.
_FENCE = Expression(r"^[ \t]*(?:```|~~~)[^\n]*$", re.MULTILINE)
_LEADING = Expression(
    r"^[ \t]*(?:#{1,6}[ \t]+|[-*+•▪●◦⨯✗✓✔→➜|>][ \t]+)+|^[ \t]*[-=_*|:+─━ ]{3,}$", re.MULTILINE
)
_STRONG = Expression(r"\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*")
_LINK = Expression(r"\[([^\]\n]{1,200})\]\([^)\s]{1,400}\)")
_CODE = Expression(r"`([^`\n]+)`")
_INNER = Expression(r"\s[•⨯▪●◦─━]+(?=\s)")
_ROW = Expression(r"^[ \t]*\|[^\n]*\|[ \t]*$", re.MULTILINE)  # of a table


def shown(engine: Engine, text: str, longest: int) -> str:
    """On one line, cut, without secrets; what tries to instruct its reader is not shown at all."""
    return cut(plain(_safe(engine, text[:AROUND])), longest)


def shown_first(engine: Engine, *texts: str, longest: int) -> str:
    """The first of them that there is and that isn't withheld: a title tells which conversation it is, whatever its summary says."""
    told = [shown(engine, text, longest) for text in texts if text]
    return next((text for text in told if text != WITHHELD), told[0] if told else "")


def cut(text: str, longest: int) -> str:
    """On one line of so many characters at most."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def plain(text: str) -> str:
    """On one line, without what Markdown and logs are decorated with."""
    text = _ROW.sub(lambda row: row[0].replace("|", " "), _FENCE.sub("", text))
    text = _LEADING.sub("", text)
    text = _CODE.sub(r"\1", _LINK.sub(r"\1", _STRONG.sub(r"\1", text)))
    return " ".join(_INNER.sub(" ", text).split())


def excerpt_of(engine: Engine, text: str, wanted: Collection[str], *, place: int = 0) -> str:
    """The stretch of a text that says most of what was asked for, on one line; that from `place` on, where one is named."""
    place = place if len(text) > LONGEST_EXCERPT else 0
    rest = text[place : place + LONGEST_LOOK]
    around = rest[:AROUND] if place else _stretch(rest, wanted, length=AROUND)
    told = plain(_safe(engine, around))
    if place and told != WITHHELD:
        return "…" + cut(told, LONGEST_EXCERPT - 1)
    return _stretch(told, wanted, length=LONGEST_EXCERPT)


def _safe(engine: Engine, text: str) -> str:
    if suspicion(text).score >= QUARANTINE_FROM:
        return WITHHELD
    return safe_text(engine, text)


def _stretch(text: str, wanted: Collection[str], *, length: int) -> str:
    if len(text) <= length:
        return text
    length -= 2  # for what says that something was left out
    places = [
        match.start() for match in _WORD.finditer(text) if any(one in wanted for one in lexemes(match[0]))
    ]
    start, best = 0, 0
    for number, place in enumerate(places):
        within = bisect_left(places, place + length) - number
        if within > best:
            start, best = place, within
    start = max(0, start - length // 6)
    start = text.rfind(" ", max(0, start - 40), start) + 1 or start if start else 0
    part = text[start : start + length].strip()
    return ("…" if start else "") + part + ("…" if start + length < len(text) else "")
