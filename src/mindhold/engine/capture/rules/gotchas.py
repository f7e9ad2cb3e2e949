"""Gotchas and patterns: what surprises, what must be minded, how things are done here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mindhold.engine.capture.rules.candidate import Candidate
from mindhold.engine.capture.rules.manner import asks, passing
from mindhold.engine.capture.rules.speech import Sentence
from mindhold.engine.capture.rules.standing import (
    announces,
    hedged,
    names,
    reports,
    stands_alone,
    stands_as_told,
    tidy,
)
from mindhold.engine.text.expression import Expression
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role

_LABEL = Expression(
    r"^(?:important|note|caveat|gotcha|warning|caution|heads[- ]up|beware|limitation|known issue|trade-?off|key (?:insight|finding|point)|one (?:caveat|note|thing to (?:note|know|remember|watch))|be careful|careful|watch out|attention|pitfall|good to know|important note|known (?:problem|bug)|keep in mind|remember|beware(?: that)?)\s*(?:\([^)]*\))?\s*[:—–-]\s*",
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
# Said plainly enough to be minded, whether or not it names anything that can be looked up.
_MIND = Expression(
    r"^(?:be (?:careful|aware)|careful|watch out|beware|keep in mind|note that|mind that|heads[- ]up|attention|caution|turns out|it turns out|don't forget|fyi)\b|\b(?:(?:must|needs? to|has to|have to) (?:\w+ ){1,12}?(?:before|after|first|every \d+)\b|(?:must|needs?(?: to)?|has to|have to|make sure|set|installed|running|run)\b[^;]*\b(?:otherwise|or else|or (?:the|it|you|we|everything) \w+)"
    r"|only (?:works?|runs?|pass(?:es)?|accepts?|supports?|builds?|compiles?|starts?|applies|loads?|fires?|happens?|updates?|shows?|syncs?|boots?|connects?|responds?) (?:if|when|with|for|on|in|after|once|as|while|inside|from|\w+ (?:that|which|on|with))"
    r"|(?:breaks?|fails?|crash(?:es)?|hangs?|freezes?|times? out|stops? working|loops? forever|deadlocks?|corrupts?|stalls?|misbehaves?|explodes?|(?:is|are) (?:lost|ignored|dropped|overwritten|deleted)|gets? (?:killed|lost|deleted|overwritten|stuck|corrupted|dropped|throttled)|resets?) (?:if|when|whenever|once|as soon as|unless|silently|without|under)\b"
    r"|silently|(?:is|are) case-(?:in)?sensitive|race condition|at least once|at most once|even (?:if|when|for|though|on)\b|limit (?:of|is) \d|limited to \d|(?:takes?|needs?) (?:about |around |up to |at least |roughly )?\d+ ?(?:minutes?|hours?|seconds?|gb|mb|ms)|a \d+ ?ms delay|expires? (?:every|after)|(?:is|are) shared (?:with|between|by)"
    r"|, so (?:\w+[ ,]){1,5}?(?:have|has|need|needs|must|can't|cannot|collide|never|always|don't|do not)\b|(?:deletes?|erases?|wipes?|drops?|overwrites?|truncates?|resets?|also deletes) (?:all|the|every|your|everything)\b|locks? the \w+"
    r"|(?:does|do)(?:n't| not) (?:work|support|handle|run|compile|allow|retry|reload|survive|persist|wait|apply|scale|clear)\b|(?:is|are)(?:n't| not) (?:\w+ly )?(?:supported|unique|deterministic|thread-safe|idempotent|cleared|sent|persisted|validated|escaped|encrypted|cached|atomic|transactional|ordered|guaranteed|in sync|retried|reloaded|reentrant|re-entrant|backwards? compatible|compatible|cleaned up|rolled back|refreshed|invalidated)\b"
    r"|(?:can't|cannot|can not|must not|mustn't|may not) (?:run|be)\b|loops forever|(?:can't|cannot|won't) \w+ (?:when|if|while|unless|without)\b|always (?:returns?|fails?|runs?|succeeds?|starts?|uses?|overwrites?)\b|gets? (?:wiped|reset|deleted|purged|rotated|cleared|restarted|killed|overwritten)\b|known (?:bug|issue|problem) (?:in|with|of)|(?:is|are) (?:in )?(?:local time|utc)\b|also (?:deletes?|removes?|drops?|resets?|overwrites?|restarts?)|(?:is|are) (?:required|necessary|mandatory|needed) (?:after|before|for|when)|so (?:always|never)\b|(?:is|are) slow\b|(?:is|are)(?:n't| not) (?:\w+ )?(?:safe|used|shown|available|allowed|picked up|synced|shared|included|possible)\b|(?:does|do)(?:n't| not) (?:pick up|see|know about|propagate|include|trigger|restart|follow|respect|honou?r|guarantee|validate|escape|check|close|flush|lock|block)\b|twice\b(?:ignores?|strips?|swallows?|truncates?|caches) (?:the|all|unused|any|empty|every|errors|its?)\b|runs? in utc|is utc\b|returns? \d{3} even|not .{2,30} time ?zone|without a time ?zone|by design|off by one|has to be (?:restarted|invalidated|rebuilt|run|installed|set|started|called|closed|flushed|regenerated)|needs? an? \d)"
    r"|^(?:if|unless|when|without)\b[^,.]{3,80}(?:,| )(?: ?the| ?it| ?you| ?we| ?\w+)?[^.]*\b(?:silently|fails?|breaks?|can't|cannot|won't|doesn't|don't|starts? in|falls? back|(?:is|are) lost|crash\w*|gets? \w+ed|ignored|default|hangs?|error|nothing happens|empty|stale|wrong)\b",
    re.IGNORECASE,
)
_HANDS_OFF = Expression(
    r"(?<=\w)(?:,|;| so| and| -) (?:so |please )*(?:don't|do not|never|nobody should) (?:ever )?(?:touch|change|edit|modify|delete|remove|rename|use|call|rely on) (?:it|them)[.!]?$",
    re.IGNORECASE,
)
_ONLY_NOW = Expression(
    r"^(?:if|when|unless) (?:that|this|it|you (?:run into|want|like|need|prefer|can't find))\b|\b(?:i (?:get|got|see|saw)|when i (?:click|run|try|open|press)|my (?:change|branch|test)s?|this (?:test|line|file|change|pr|function)|this (?:fix|ensures|prevents|means|way))\b",
    re.IGNORECASE,
)
_UNDONE = Expression(r"next steps?|to-?do|remaining|follow-?up|left to do|tasks?\b|plan")
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
        if announces(text) or hedged(text) or _OF_THE_MOMENT.search(text):
            continue
        if _to_mind(text, sentence, labelled=labelled):
            yield Candidate(Kind.GOTCHA, text, sentence.line, 0.8)
            continue
        if reports(text) or not names(text) or not stands_alone(text) or sentence.role == Role.USER:
            continue
        if sentence.bullet and sentence.closing and _REVIEWED.search(sentence.section) and _ISSUE.match(text):
            yield Candidate(Kind.GOTCHA, text, sentence.line, 0.6)
        elif _PATTERN.search(text):
            yield Candidate(Kind.PATTERN, text, sentence.line, 0.7 if sentence.closing else 0.55)
        elif labelled or _CUE.search(sentence.text):
            yield Candidate(
                Kind.GOTCHA, text, sentence.line, _weight(sentence, labelled=labelled, found_out=found_out)
            )


def _to_mind(text: str, sentence: Sentence, *, labelled: bool) -> bool:
    """Whether it is a warning that anybody would understand."""
    if (
        not (labelled or _MIND.search(sentence.text) or _HANDS_OFF.search(text))
        or _ONLY_NOW.search(text)
        or reports(text)
    ):
        return False
    if sentence.role == Role.USER:
        told = _HANDS_OFF.sub(".", text)  # "..., don't touch it" speaks of what was named
        return not asks(sentence.text) and not passing(told) and stands_as_told(told)
    return (
        sentence.closing
        and not _UNDONE.search(sentence.section)
        and not _PATTERN.search(text)
        and stands_as_told(text)
    )


def _weight(sentence: Sentence, *, labelled: bool, found_out: bool) -> float:
    if labelled:
        return 0.8
    return 0.65 if sentence.closing or found_out else 0.55
