"""Gotchas and patterns: what surprises, what must be minded, how things are done here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from recollect.engine.capture.rules.candidate import Candidate
from recollect.engine.capture.rules.speech import Sentence
from recollect.engine.capture.rules.standing import announces, hedged, names, reports, stands_alone, tidy
from recollect.engine.text.expression import Expression
from recollect.model.memory import Kind
from recollect.ports.transcripts import Role

_LABEL = Expression(
    r"^(?:important|note|caveat|gotcha|warning|caution|heads[- ]up|beware|limitation|known issue|trade-?off|key (?:insight|finding|point)|one (?:caveat|note|thing to note))\s*(?:\([^)]*\))?\s*[:—–-]\s*",
    re.IGNORECASE,
)
_CUE = Expression(
    r"\b(?:turns out|it turned out|note that|be careful|watch out|beware|keep in mind|gotcha|caveat|surprisingly|counter-?intuitive\w*|contrary to"
    r"|(?:must|needs? to|has to|have to|should) [^.;]{3,120}\b(?:otherwise|or else|or the|because|before|since)\b|otherwise\b[^.]{5,}"
    r"|only works? (?:if|when|with|for|on|in)|does(?:n't| not) work (?:if|when|with|for|on|in|because)|won't work|silently|is case-sensitive|are case-sensitive"
    r"|can return (?:nil|null|none|undefined|`)|returns? `?(?:nil|null|none|undefined)\b|never touches|defaults? to|by default|known (?:issue|bug|limitation)|not thread-safe|can be (?:slow|flaky|unpredictable|unreliable|null|nil|empty|stale)|asynchronously|dead code|has no callers|deprecated|race condition|limitation"
    r"|(?:is|are) not (?:supported|available|allowed|enabled|compatible|thread-safe|idempotent)|requires? (?:that|the|a|an|at least|`|[A-Z])|cannot be (?:used|called|set|changed)|can't be (?:used|called|set)|unless\b"
    r"|which means|meaning that|ignores the|overrides the|takes precedence|breaks? (?:if|when)|fails? (?:if|when|silently)|blocks? (?:until|when|on)|waits? (?:indefinitely|for)|even (?:if|though|when))\b"
    r"|(?:주의|반드시 .{3,}(?:해야|합니다)|그렇지 않으면|알고 보니)",
    re.IGNORECASE,
)
_PATTERN = Expression(
    r"\b(?:convention(?:s|ally)?|(?:the|this|same|existing|consistent) pattern|we (?:always|usually) |codebase (?:uses|follows|has)|project (?:uses|follows)|repo(?:sitory)? (?:uses|follows)|all (?:\w+ ){1,3}(?:use|follow|must|are|go|live)|every \w+ (?:uses|follows|must|has)"
    r"|idiomatic|(?:follow|follows|following) the \w+ (?:pattern|convention|style)|naming (?:convention|scheme)|is the (?:standard|canonical|preferred) way)\b|(?:관례|컨벤션|규칙은)",
    re.IGNORECASE,
)
_OF_THE_MOMENT = Expression(
    r"\b(?:test(?:s)? (?:pass|fail)|failing|passes|passing|currently (?:fail|on)|just now|right now|so far|commit [0-9a-f]{6,}|pr #?\d+|#\d+|the (?:diff|output|log)s? (?:show|say)|\d+ (?:tests|files|issues|errors|failures|passed))\b",
    re.IGNORECASE,
)

_FRAGMENT = Expression(
    r"^(?:then|first|next|finally|second|third|lastly|same|used|which|and|or|with)\b", re.IGNORECASE
)

# A list of what a review found: what is wrong, and why.
_REVIEWED = Expression(r"severity|\bissues?\b|\bfindings?\b|\bbugs?\b|\bproblems?\b")
_ISSUE = Expression(r"^(?!#)[^-–—]{6,80}\s[-–—]\s\S")
_FOUND = Expression(
    r"^(?:found (?:it|the)|root cause|turns out|here's the|got it|aha|there it is|that's the)\b",
    re.IGNORECASE,
)


def gotchas(said: Sequence[Sentence]) -> Iterator[Candidate]:
    """What the assistant found out, and what the person knows; only what names its subject."""
    before = ""
    for sentence in said:
        found_out, before = _FOUND.match(before) is not None, sentence.text
        if sentence.aside or sentence.speculative:
            continue
        labelled = _LABEL.match(sentence.text) is not None
        text = tidy(_LABEL.sub("", sentence.text))
        if (
            announces(text)
            or reports(text)
            or hedged(text)
            or not names(text)
            or _OF_THE_MOMENT.search(text)
            or not stands_alone(text)
        ):
            continue
        if sentence.role == Role.USER and not re.search(
            r"\b(?:turns out|note that|be careful|gotcha|keep in mind|only works?|must)\b",
            text,
            re.IGNORECASE,
        ):
            continue
        if sentence.bullet and sentence.closing and _REVIEWED.search(sentence.section) and _ISSUE.match(text):
            yield Candidate(Kind.GOTCHA, text, sentence.line, 0.6)
        elif _PATTERN.search(text):
            yield Candidate(Kind.PATTERN, text, sentence.line, 0.7 if sentence.closing else 0.55)
        elif labelled or _CUE.search(sentence.text):
            yield Candidate(
                Kind.GOTCHA, text, sentence.line, _weight(sentence, labelled=labelled, found_out=found_out)
            )


def _weight(sentence: Sentence, *, labelled: bool, found_out: bool) -> float:
    if labelled:
        return 0.8
    return 0.65 if sentence.closing or found_out else 0.55
