"""Which words of a conversation answer: what was found out, done or decided before the words that asked for it. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mindhold.engine.text.expression import Expression
from mindhold.engine.text.resolution import says_how_resolved
from mindhold.model.lexemes import lexemes
from mindhold.ports.history import Utterance
from mindhold.ports.transcripts import Role

LONGEST_LOOK = 40_000  # characters of one utterance that are looked at
SPEECH = 1.5  # what a word is worth that somebody said, against one that a tool was given or gave back
INHERITED = 0.5  # what a word of the prompt is worth for the answer to it
CONCLUDED, RESOLVED = 3.0, 5.0  # what it is worth to say what came of it; to say how, where that was asked
TALK = 0.7  # of what only announces what is done next
FURTHER = 0.15  # that each passage further on costs
LEAST_LETTERS = 25  # of a statement: "Done." tells nothing
_SENTENCE_END = Expression(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])|\n+")
_HOW = Expression(
    r"\b(?:fix(?:ed|es|ing)?|solv(?:e[ds]?|ing)|resolv(?:e[ds]?|ing)|repair(?:ed|ing)?|debug(?:ged)?|work(?:ed)? around|get rid of|got rid of)\b"
    r"|\b(?:why|cause[ds]?|reason|culprit|warum|wieso|weshalb|ursache|behoben|gelöst|por ?qu[eé]|pourquoi)\b"
    r"|해결|고쳤|수정|원인|왜|解決|修正|原因|なぜ|为什么|為什麼|怎么解决",
    re.IGNORECASE,
)
_CONCLUDES = Expression(
    r"\b(?:fixed|fixes|resolved|solved|implemented|updated|replaced|renamed|removed|increased|decreased|changed|added|created|moved|decided|agreed|works now"
    r"|(?:all|the) tests pass|because|due to|caused by|root cause|turns? out|turned out|found (?:it|the (?:issue|problem|bug|cause|culprit))"
    r"|the (?:fix|cause|reason|problem|issue|culprit|solution|answer) (?:is|was)|behoben|gelöst|geändert|hinzugefügt|weil|ursache|entschieden)\b"
    r"|수정했|추가했|완료|해결|변경했|원인|때문|修正し|追加し|変更し|原因|ため|已修|已添加|因为|因為",
    re.IGNORECASE,
)
_CAUSE = Expression(
    r"\b(?:because|due to|caused by|root cause|turned out|turns out|found (?:it|the (?:issue|problem|bug|cause|culprit))"
    r"|the (?:fix|cause|reason|problem|issue|culprit|solution) (?:is|was)|that fixes|weil|ursache)\b|원인|때문|原因|ため|因为|因為",
    re.IGNORECASE,
)
_TALK = Expression(
    r"(?:(?:ok(?:ay)?|sure|great|good|perfect|now|alright|excellent)\b[,.! ]*)*(?:let me|i'?ll|i will|now i|i'?m going to|let's|i need to)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """An utterance, and where in it that is said which the question asks how; else `place` is 0."""

    said: Utterance
    place: int = 0


def asks_how(query: str) -> bool:
    """Whether it asks how something was resolved, or what caused it."""
    return _HOW.search(query) is not None


def answering(
    passages: Sequence[Sequence[Utterance]], wanted: Collection[str], *, how: bool
) -> Statement | None:
    """The utterance that answers, of passages in order, the first of which is the one that was found; None where nothing was said.

    What the assistant says came of it goes before the prompt that asked for it, unless it shares no word with the question and
    the question isn't `how`; what people say goes before what tools do, the earlier before the later.
    """
    best: tuple[float, Statement] | None = None
    sought = frozenset(wanted)
    prompt: frozenset[str] = frozenset()
    for number, passage in enumerate(passages):
        for one in passage:
            if number and one.role not in (Role.USER, Role.CLAUDE):
                continue  # further on only what somebody says of it answers
            own = sought.intersection(lexemes(one.text[:LONGEST_LOOK]))
            prompt = own if one.role is Role.USER else prompt
            place, worth = _concluding(one, how=how)
            if worth and not own and not how:
                place, worth = 0, 0.0
            inherited = INHERITED * len(prompt - own) if worth else 0.0
            value = (1 + len(own) + inherited) * _speech(one) + worth - FURTHER * number
            if best is None or value > best[0]:
                best = value, Statement(one, place if how else 0)
    return best[1] if best else None


def concludes(one: Utterance) -> bool:
    """Whether the assistant says what came of something."""
    return _concluding(one, how=False)[1] > 0


def _speech(one: Utterance) -> float:
    if one.role is Role.CLAUDE:
        announces = len(one.text) < 10 * LEAST_LETTERS and _TALK.match(one.text) is not None
        return SPEECH * TALK if announces else SPEECH
    return SPEECH if one.role is Role.USER else 1.0


def _concluding(one: Utterance, *, how: bool) -> tuple[int, float]:
    """Where it says what came of it, and what that is worth."""
    if one.role is not Role.CLAUDE or len(one.text) < LEAST_LETTERS:
        return 0, 0.0
    text = one.text[:LONGEST_LOOK]
    ends = [found.end() for found in _SENTENCE_END.finditer(text)]
    concluded: int | None = None
    announces = False
    for start, end in zip([0, *ends], [*ends, len(text)], strict=True):
        sentence = text[start:end]
        announces = _TALK.match(sentence) is not None if sentence.strip() else announces
        if announces or sentence.rstrip().endswith(("?", "？")):
            continue
        if how and (_CAUSE.search(sentence) or says_how_resolved(sentence)):
            return start, RESOLVED
        if concluded is None and _CONCLUDES.search(sentence):
            concluded = start
    if concluded is None or announces:  # it ends with what is done next
        return 0, 0.0
    return concluded, CONCLUDED
