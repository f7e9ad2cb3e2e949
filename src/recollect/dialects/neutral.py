"""Remembered text on its way to a model: what could pass for the protocol's or the prompt's own markup is made harmless.

Only the bracket or the colon that gives such markup its power is exchanged for a look-alike; every other character,
code and markup of other kinds included, stays as it was stored.
"""

from __future__ import annotations

import re

_NAMES = (
    r"system(?:[-_](?:reminder|prompt|message|note|hint|warning))?|assistant|human|user|developer|tool(?:[-_](?:use|call|result|response|output)s?)?"
    r"|function(?:[-_](?:calls?|results?|response|output))?|invoke|parameter|results?|output|instructions?|important"
    r"|antml:\w+|thinking|reasoning|search_results?|documents?|context|memory|memories|untrusted|task-notification"
    r"|command-(?:name|message|args)|local-command-\w+|user-prompt-submit-hook|prompt"
)
_TAG = re.compile(rf"<(?=\s*/?\s*(?:{_NAMES})\b)", re.IGNORECASE)
_CHAT = re.compile(r"<(?=\|[^|>\n]{1,40}\|>)")  # <|im_start|> and its kin
_BRACKET = re.compile(r"\[(?=/?(?:INST|SYS|SYSTEM|SYSTEM HINT|/?s)\b)", re.IGNORECASE)
_DOUBLE = re.compile(r"<<(?=/?SYS>>)", re.IGNORECASE)
_TURN = re.compile(
    r"^([ \t>*#]*(?:Human|Assistant|System|User|Developer|Tool))(\**):", re.IGNORECASE | re.MULTILINE
)
_UNSEEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]")


def neutral(text: str) -> str:
    """The same words, unable to end the quotation that they stand in."""
    text = _UNSEEN.sub("", text)
    text = _DOUBLE.sub("‹‹", text)
    text = _TAG.sub("‹", text)
    text = _CHAT.sub("‹", text)
    text = _BRACKET.sub("⁅", text)
    return _TURN.sub(r"\1\2꞉", text)
