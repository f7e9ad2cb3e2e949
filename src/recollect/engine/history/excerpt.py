"""What is shown of a conversation: a stretch that answers, without secrets, and nothing that instructs its reader."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Sequence

from recollect.engine.checks import safe_text
from recollect.engine.core import Engine
from recollect.engine.draft import QUARANTINE_FROM
from recollect.engine.text.suspicion import suspicion
from recollect.model.lexemes import lexemes
from recollect.ports.history import Utterance
from recollect.ports.transcripts import Role

LONGEST_EXCERPT = 400
LONGEST_SUMMARY = 300
LONGEST_TITLE = 100
AROUND = 4_000  # characters around an excerpt that are looked at for secrets
LONGEST_LOOK = 40_000  # characters of one utterance that an excerpt is taken from
SPEECH = 1.5  # what a word is worth that somebody said, against one that a tool was given or gave back
WITHHELD = "[withheld: it reads like instructions to its reader]"
_WORD = re.compile(r"\w[\w'’./+#-]*")


def shown(engine: Engine, text: str, longest: int) -> str:
    """On one line, cut, without secrets; what tries to instruct its reader is not shown at all."""
    return cut(_safe(engine, text[:AROUND]), longest)


def cut(text: str, longest: int) -> str:
    """On one line of so many characters at most."""
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def telling(utterances: Sequence[Utterance], wanted: Collection[str]) -> Utterance:
    """The one that says most of what was asked for; what people say before what tools do, the earlier before the later."""

    def worth(one: Utterance) -> float:
        said = 1 + len(set(wanted).intersection(lexemes(one.text[:LONGEST_LOOK])))
        return said * SPEECH if one.role in (Role.USER, Role.CLAUDE) else said

    return max(utterances, key=worth)


def excerpt_of(engine: Engine, text: str, wanted: Collection[str]) -> str:
    """The stretch of a text that says most of what was asked for."""
    around = _stretch(text[:LONGEST_LOOK], wanted, length=AROUND)
    return _stretch(_safe(engine, around), wanted, length=LONGEST_EXCERPT)


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
    start = text.find(" ", start, start + 20) + 1 or start if start else 0
    part = text[start : start + length].strip()
    return ("…" if start else "") + part + ("…" if start + length < len(text) else "")
