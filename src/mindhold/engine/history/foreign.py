"""What models and their servers say, before it goes anywhere: a model may have been talked into anything by what it read."""

from __future__ import annotations

import re

from mindhold.engine.draft import QUARANTINE_FROM
from mindhold.engine.history.excerpt import cut
from mindhold.engine.text.clean import clean
from mindhold.engine.text.redact import redact
from mindhold.engine.text.suspicion import suspicion
from mindhold.model.errors import RlmConnectionFailed, RlmError, RlmToolFailed

LONGEST_LOOK = 4_000  # characters of what is said that are looked at
LONGEST_REASON = 120
LONGEST_FAULT = 400
UNTOLD = "it says nothing that can be passed on"
# Words that explain need none of these; those that want something done do.
_ADDRESS = re.compile(r"\w://|\bwww\.|\|\s*\w*sh\b|\$\(|\b(?:curl|wget)\s", re.IGNORECASE)
_COMMAND = re.compile(r"[`|$<>{}\\]|&&|(?:^|\s)(?:sudo|rm|bash|sh|npx|pip|eval|chmod)\s", re.IGNORECASE)


def harmless(text: str, longest: int) -> str:
    """On one line of so many characters, without secrets and what nobody sees; empty where it tries to instruct its reader."""
    text = text[:LONGEST_LOOK]
    if suspicion(text).score >= QUARANTINE_FROM:
        return ""
    return cut(redact(clean(text)).text, longest)


def reason(text: str) -> str:
    """Why a reader finds something relevant; empty where that is anything else than a few plain words."""
    told = harmless(text, LONGEST_REASON)
    return "" if _ADDRESS.search(told) or _COMMAND.search(told) else told.replace('"', "'")


def fault(text: str) -> str:
    """What went wrong, as a server tells it."""
    told = harmless(text, LONGEST_FAULT).rstrip(".")
    return UNTOLD if not told or _ADDRESS.search(told) else told


def told_of(error: RlmError) -> RlmError:
    """The same for whoever is told of it: its words may be the server's."""
    kind = RlmConnectionFailed if isinstance(error, RlmConnectionFailed) else RlmToolFailed
    words = fault(error.message)
    if words == UNTOLD:  # what stands before the first colon is ours
        words = f"{error.message.partition(':')[0]}: {UNTOLD}"
    return kind(f"{words}.", advice=harmless(error.advice, LONGEST_FAULT))
