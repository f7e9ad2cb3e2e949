"""What the assistant decided by itself and plainly says so, unless the person objects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mindhold.engine.capture.rules.candidate import LONGEST, Candidate
from mindhold.engine.capture.rules.manner import telling
from mindhold.engine.capture.rules.speech import Sentence
from mindhold.engine.capture.rules.standing import dangling, hedged, names, tidy
from mindhold.engine.text.expression import Expression
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role

FEWEST_WORDS = 3
SHORTEST = 16  # characters
MOST_CLAIMS = 3
LONGEST_INSTEAD = 80

_LABEL = Expression(
    r"^(?:key |design |main |final |technical |architecture )?decisions?(?: made)?:\s+(?=\S)", re.IGNORECASE
)
_SECTION = Expression(
    r"^(?:\W|\d)*(?:(?:key|design|main|final|technical|architectur\w+|important|implementation|notable|our|my|the) )*(?:decisions?|choices?)(?: (?:made|taken|and (?:trade-?offs|rationale|reasons)))?\W*$",
    re.IGNORECASE,
)
_REASON = r"(?:because|since|so that|instead of|rather than|over|in favou?r of|as (?:it|they|the|we)\b)"
_CHOSE = Expression(
    r"^(?:for [^,]{3,40}, )?(?P<who>i|we)(?:'ve| have)?(?: deliberately| intentionally| also)? (?:(?:chose|chosen|picked|selected|opted for|went with|settled on|decided on|decided against|decided for|decided that|decided to|chose to|opted to)\b"
    rf"|(?:used|kept|put|made|stored|placed|implemented|built|left|avoided)\b(?=[^.]{{3,160}}?\b{_REASON}))\s+(?P<what>.+)$",
    re.IGNORECASE,
)
_STEP = Expression(
    r"^(?:not )?(?:to )?(?:run|look|check|start|test|read|try|begin|wait|stop|go ahead|proceed|continue|investigate|verify|review|ask|commit|push|rerun|re-run|focus|leave (?:it|this|that))\b",
    re.IGNORECASE,
)
_POINTED = Expression(
    r"^(?:not to )?(?:\w+ )?(?:it|this|that|these|those|them|one|your|the (?:first|second|third|other|same|latter|former|above|last|next|current|simplest|easiest|previous|\w+ tool))\b",
    re.IGNORECASE,
)
_ASIDE = Expression(
    r"\b(?:none|tbd|pending|open|up to you|your call|let me know|for you)\b|\?", re.IGNORECASE
)
_LASTING = Expression(
    r"^(?!the (?:test|bug|error|issue|problem|crash)s?\b)[^.;]{4,100}? (?:is|are|lives?|runs?|uses?) (?:now )?(?!not\b)[^.;]{3,120} (?:rather than|instead of) [^.;]{3,80}?,? (?:so that|so (?:it|they|we)|because|since) \S+",
    re.IGNORECASE,
)
_WRONG = Expression(
    r"\b(?:bug|wrong\w*|fail\w*|error\w*|crash\w*|broke\w*|incorrect\w*|should|returns?|returned|panic\w*|missing|stale)\b",
    re.IGNORECASE,
)
_OBJECTS = Expression(
    r"^(?:(?:hm+|oh|wait|sorry|but|well|please|ok(?:ay)?|and)[\s,.!]+)*(?:no\b(?! (?:problem|worries|need))|nope|nah|wrong|incorrect|don't|do not|revert|undo|not |stop|why (?:did|do|not|are)|i (?:said|asked|told|meant|don't|didn't|wanted|would rather|prefer|disagree)|i'd (?:rather|prefer)|change (?:it|that|this) (?:back|to)|that'?s (?:wrong|not)|rather|instead|go back|actually|we (?:don't|never|can't|decided|agreed)|아니|되돌)"
    r"|\binstead\b[.!]?$|\b(?:use|take|prefer) \S+ (?:instead|rather)\b",
    re.IGNORECASE,
)
_TAKES_BACK = Expression(
    r"^(?:no[\s,.!]+)?(?:please )?(?:revert|undo|take (?:it|that|this) back|go back|don't do (?:it|that|this)|change (?:it|that|this) back|i don't (?:want|like) (?:it|that|this))\b|^(?:no|nope|nah)[\s.!]*$",
    re.IGNORECASE,
)
_INSTEAD = Expression(
    r"^(?:(?:no|nope|nah|wrong|hm+|actually|please)[\s,.!]+)*(?P<what>(?:use|take|go with|keep|make) (?!it\b|this\b|that\b|the (?:other|same)\b)[^?]+)$",
    re.IGNORECASE,
)


def own_choices(said: Sequence[Sentence]) -> Iterator[Candidate]:
    """Only as it reports, and only what nobody objects to in the next turn."""
    for number, sentence in enumerate(said):
        if sentence.role != Role.CLAUDE or sentence.aside or not sentence.closing:
            continue
        if found := _choice(sentence):
            answer = _next_of_the_person(said[number + 1 :], first=sentence.line)
            if answer is None or not _OBJECTS.search(answer.text):
                yield found
            elif told := _turned_down(found.content, answer, asked=False):
                yield told


def _choice(sentence: Sentence) -> Candidate | None:
    text = tidy(sentence.text)
    if hedged(text) or _ASIDE.search(text) or not SHORTEST <= len(text) <= LONGEST or text.count("`") % 2:
        return None
    if sentence.bullet and _SECTION.match(sentence.section):
        listed = len(text.split()) >= FEWEST_WORDS and not dangling(text)
        return Candidate(Kind.DECISION, text, sentence.line, 0.85, own=True) if listed else None
    if sentence.speculative:
        return None
    if _LABEL.match(text):
        told = _LABEL.sub("", text)
        stands = len(told.split()) >= FEWEST_WORDS and not dangling(told)
        return Candidate(Kind.DECISION, f"Decision: {told}", sentence.line, 0.9, own=True) if stands else None
    if _LASTING.match(text) and not dangling(text) and not _WRONG.search(text) and telling(text):
        return Candidate(Kind.DECISION, text, sentence.line, 0.7, own=True)
    found = _CHOSE.match(text)
    if (
        not found
        or _STEP.match(found["what"])
        or _POINTED.match(found["what"])
        or not (telling(text[2:]) or names(text))
    ):
        return None
    if found["who"].lower() == "i":
        text = f"{text[: found.start('who')]}{text[found.start('who') + 1 :].lstrip()}"
        text = re.sub(r"^(?:'ve|have) ", "", text)
        text = text[0].upper() + text[1:]
    return Candidate(Kind.DECISION, text, sentence.line, 0.8, own=True)


def _next_of_the_person(later: Sequence[Sentence], *, first: int = 0) -> Sentence | None:
    return next((one for one in later if one.role == Role.USER and not one.aside and one.line > first), None)


def _turned_down(claim: str, answer: Sentence, *, asked: bool) -> Candidate | None:
    """What the person took back, and what they want in its place if they say that in a few words."""
    if not asked and _TAKES_BACK.match(answer.text):
        told = f"Rejected: {claim}"
    elif (instead := _INSTEAD.match(answer.text)) and len(answer.text) <= LONGEST_INSTEAD:
        wanted = tidy(instead["what"])
        told = f"Rejected: {claim} Instead: {wanted[0].lower()}{wanted[1:]}"
    else:
        return None
    return (
        Candidate(Kind.DECISION, told, answer.line, 0.8, supersedes=claim) if len(told) <= LONGEST else None
    )


def put_right(
    found: Sequence[Candidate], said: Sequence[Sentence], claims: Sequence[str], *, asked: bool
) -> list[Candidate]:
    """What was found, with what becomes of the choices that the last call told of where the person's first words object to them.

    `asked`: the assistant had ended with a question, which a bare "no" answers.
    """
    answer = _next_of_the_person(said)
    righted = list(found)
    if not claims or answer is None or not _OBJECTS.search(answer.text):
        return righted
    for claim in claims:
        words = frozenset(lexemes(claim)) - stop_lexemes()
        place = next(
            (
                place
                for place, one in enumerate(righted)
                if one.line == answer.line and not one.supersedes and words & set(lexemes(one.content))
            ),
            None,
        )
        if place is not None:
            righted[place] = replace(righted[place], supersedes=claim)
        elif len(claims) == 1 and (told := _turned_down(claim, answer, asked=asked)):
            righted.append(told)
    return righted
