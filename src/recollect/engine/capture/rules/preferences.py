"""Preferences: what the person wants to be done always, or never. Nobody else's words count."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from recollect.engine.capture.rules.candidate import LONGEST, Candidate
from recollect.engine.capture.rules.speech import Sentence
from recollect.engine.capture.rules.standing import tidy
from recollect.engine.text.expression import Expression
from recollect.engine.text.worth import worth
from recollect.model.memory import Kind
from recollect.ports.transcripts import Role

SHORT = 45  # characters of a sentence that needs the one before it

_GENERAL = Expression(
    r"(?:^|\b(?:please|you|you should|you must|you can|we|we should|i|and|but|so|ok|then|should|must)[, ]+)(?:always|never)(?! (?:mind|worked?|actually|happened|seen|saw|been|had|heard|used to|did|shows|showed|gets?|got|fails|failed|returns|runs|ran|ends|had|was|were|\w+ed\b))\b"
    r"|\b(?:from now on|going forward|in (?:the )?future,|every time you|whenever you|each time you|as a rule|by default i|in general,? (?:i|we|please|don't|use)"
    r"|i (?:really |strongly |generally |usually |much |would |'d )?(?:prefer|hate|dislike|like it when|don't like|do not like|like to|want you to always|expect you)"
    r"|we use [^.,]{2,60},? (?:not|never|instead of|rather than|everywhere)\b|i(?:'d| would) rather|make sure (?:to|you|that)\b[^.]*\b(?:every|each|always|all)\b|^(?:please )?(?:prefer|avoid|favou?r) \w+|^(?:please )?keep \w+(?: \w+)? (?:under|below|short|small|simple|within)\b|we (?:prefer|never|always|don't (?:use|do|want|like|allow|write|need)|do not (?:use|do|want|allow)|only use|use \S+ (?:not|instead of|rather than|for all))"
    r"|as (?:lightweight|simple|small|minimal|short|concise|few|little|clean|quick|cheap) as possible|keep (?:it|things|everything) (?:simple|minimal|short|small|clean|concise)|our (?:convention|style|policy|standard|rule)|make sure (?:to always|you always|you never|to never)|remember (?:to|that we|that i)|don't ever|do not ever|no need to ever|stop (?:adding|using|writing|creating|doing|asking|saying|putting|committing))"
    r"|(?:항상|언제나|절대|앞으로는?|매번|무조건).{2,}|.{2,}(?:선호|좋아)(?:해|합니다|한다)|.{3,}(?:하지\s?마(?:세요|라)?|쓰지\s?마(?:세요|라)?|사용하지\s?마)",
    re.IGNORECASE,
)
_CORRECTION = Expression(
    r"^(?:no|nope|nah|wrong|not like that|not that)[,.!]*\s+(?:please\s+)?(?:use|do|don't|write|put|call|keep|make|always|never|i want|we use)\b"
    r"|^(?:please\s+)?(?:don't|do not|never|avoid) (?:use|add|write|create|put|mock|commit|push|include|mention|touch|change|modify|generate|hard-?code|import|skip|make|run|install|call|rely|repeat|introduce|wrap|log|print|leave)\b"
    r"|^(?:please\s+)?use [^.,;]{2,60}(?:, not |,? instead of | rather than | and not | over )"
    r"|\b(?:don't|do not) (?:add|use|write|mention|include) [^.]{3,60} (?:in|to|for) (?:commits?|commit messages|prs?|tests?|code|comments|docs|the docs)\b",
    re.IGNORECASE,
)
_UNSURE = Expression(r"\b(?:maybe|perhaps|not sure|might|could|wonder\w*|i guess)\b|\?", re.IGNORECASE)
_THIS_TIME = Expression(
    r"\b(?:yet|for now|right now|this time|just now|at the moment|today|here|this (?:one|file|pr|commit|branch|time|case|function|test|line|change|step|script|part)|that (?:one|file|function|test|line|part)|the (?:last|first|second|other) (?:one|commit|change|part)"
    r"|anymore|again|so far|currently|already|wasn't|didn't|doesn't|isn't|happen\w*|why|because it|weird|still|i mean|if it|if the|sure if|it (?:always|never))\b|\?",
    re.IGNORECASE,
)


def preferences(said: Sequence[Sentence]) -> Iterator[Candidate]:
    """Only what is meant for more than the step at hand."""
    before: Sentence | None = None
    for sentence in said:
        previous, before = before, sentence
        if sentence.role != Role.USER or sentence.aside:
            continue
        text = own = tidy(sentence.text)
        if (
            len(text) < SHORT
            and previous
            and previous.line == sentence.line
            and len(previous.text) < LONGEST - SHORT
        ):
            text = f"{tidy(previous.text)} {text}"  # "As small as possible please." says nothing by itself
        general = _GENERAL.search(text)
        if (
            not (general or _CORRECTION.search(sentence.text.strip()))
            or not 12 <= len(text) <= LONGEST
            or _UNSURE.search(own)
        ):
            continue
        if _THIS_TIME.search(own) or re.search(
            r"\b(?:it|this|that|them|those|these)\b[.!]?$", text, re.IGNORECASE
        ):
            continue
        if len(text.split()) < 4 and not re.search("[가-힣]", text):
            continue
        found = worth(text)
        if found.chatter or found.dangling or found.words < 2:
            continue
        yield Candidate(Kind.PREFERENCE, text, sentence.line, 0.9 if general else 0.85)
