"""Decisions of the user, and of the assistant where the user does not object."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mindhold.capture.items import LONGEST, RuleCandidate
from mindhold.capture.rules.sentences import (
    Sentence,
    announces,
    blocks,
    dangling,
    hedged,
    names,
    passing,
    plain,
    split_sentences,
    stands_alone,
    telling,
    tidy,
)
from mindhold.capture.rules.tool_calls import ToolCall
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role, TranscriptStep
from mindhold.text.pattern import LazyPattern

SHORTEST = 20  # characters; shorter ones are steps

_ANSWERED = LazyPattern(r"\"([^\"]{5,400}?)\"\s*=\s*\"([^\"]{1,400}?)\"(?=[.,\s]|$)")
_APPROVED = LazyPattern(
    r"user has approved|approved (?:your|the) plan|plan (?:was |has been )?approved", re.IGNORECASE
)
_PLANNED = LazyPattern(r"^\s*(?:please )?implement the following plan", re.IGNORECASE)
_PLAN_SECTION = LazyPattern(
    r"decision|approach|design|strategy|solution|overview|summary|goal|context|problem|background|why|motivation|what we|trade-?off|chosen|architecture",
    re.IGNORECASE,
)
_TITLE = LazyPattern(
    r"^\s*#{1,3}\s+(?:plan:?\s*|implementation plan:?\s*)?(.+?)\s*$", re.IGNORECASE | re.MULTILINE
)
# Whoever says it: something was decided.
_DECIDED = LazyPattern(
    r"\b(?:we(?:'ve| have)? decided|i(?:'ve| have)? decided|decided (?:to|on|against)|decision(?: is|:| was)|we (?:chose|picked|settled on|agreed)|chose to|opted (?:for|to)"
    r"|(?:let's|we'll|i'll|we will|we should|we're going to|let us) (?:go|stick|proceed) with|going with|went with|settled on|agreed (?:to|on|that)"
    r"|(?:i|we) (?:will|'ll) use \S+(?: \S+){0,6} (?:instead|rather|because|since|as)\b|(?:use|using|used|uses|switch(?:ed|ing)? to|prefer(?:red)?|keep|kept) [^.]{3,80}\b(?:instead of|rather than|over)\b"
    r"|switch(?:ed|es)? from|migrated from|replaced [^.]{2,60} with|moved from \S+ to|instead of [^.]{3,60}, (?:use|we|i)|we(?:'re| are)? us(?:ing|e) \S+ for [^.]{3,80} (?:because|since)\b|now \w+s\b[^.]{3,120} (?:instead of|rather than)|(?:is|are|was|were) (?:by design|intentional|deliberate)\b|(?:intentionally|deliberately) \w+|- intentional|on purpose)\b"
    r"|(?:기로 (?:했|결정|합의)|로 결정|(?:으?로) (?:가자|합시다|하자|갑시다)|대신 .{1,30}(?:사용|쓰기|씁니다|쓴다)|를 선택했)",
    re.IGNORECASE,
)
# Of the person: how it will be, or no longer is.
_SETTLED = LazyPattern(
    r"^(?:(?:in the end|after \w+(?: \w+){0,3}|as (?:agreed|discussed|decided)|for (?:now|v\d|the (?:mvp|first version|prototype))),? )*(?:we(?:'re| are| will|'ll)? (?:not )?(?:going to |gonna )?(?:be )?(?:(?:us|mov|migrat|switch|replac|dropp|adopt|standardi[sz]|ship|build|deploy|support|keep|stick|remov)ing\b|(?:use|move|migrate|switch|replace|drop|adopt|standardi[sz]e|ship|build|deploy|support|name|call|release|store|keep|write|run|host|remove|target)\b)"
    r"|we(?:'re| are) (?:not )?going to (?!see|have|need|be\b|lunch|start|look|wait|try|fix|do\b|talk|discuss)\w+ \w+|(?:the |our )?[\w`./+ -]{2,40}? (?:stays?|remains?) (?:until|as|in|at|on|supported|optional|the)\b|we (?:moved|switched|migrated) (?:away |over )?(?:from|to)\b|we(?:'ve| have) (?:moved|switched|migrated|dropped|replaced|adopted|standardi[sz]ed)\b|we (?:dropped|replaced|adopted|standardi[sz]ed on)\b|i(?:'d| would)? (?:go with|choose|pick)\b|i (?:chose|picked|went with|opted)\b|instead of [^,]{2,60},? (?:we|i) (?:use|will|want)\b"
    r"|(?:the |our |all )?[\w`./+ -]{2,50}? (?:will|won't|will not) (?:not |only |always |never )?(?:be|use|run|live|go|stay|have|support|return|come|talk|send|store|get|become|remain|be\w*)\b)"
    r"|\b(?:out of scope|that'?s decided|that is decided|we agreed|as agreed|is settled|final decision|not (?:part of|in) (?:v\d|the mvp|the first version)|(?:in|for) (?:v\d\S*|the mvp|the first version|version \d\S*))\b|^it'?s (?:settled|decided):"
    r"|^use [\w`./+-]+(?: [\w`./+-]+)? for [^,]{3,50}, (?!and\b|then\b)\w+|^we go with\b|^let's (?!see|start|look|try|run|fix|do\b|go\b|first|finish|continue|wait|check|test|begin|get|move on|take|have|talk|think|review|commit|push|merge|deploy|debug|write|add|create|update|open|read|make sure|not worry|leave|focus|say|assume|hope|call it|wrap|clean|stop|find|figure|work)(?:not )?\w+ [^.]*(?:\d|(?-i:[A-Z])\w+[^.]*$)|^let's (?:use|switch to|move to|adopt|go for|do it (?:with|in)|build (?:it|this) (?:with|in|on)|write (?:it|this) in)\s",
    re.IGNORECASE,
)
_NOT_SETTLED = LazyPattern(
    r"\b(?:we'll see|will (?:be (?:back|right|there|fine|ok|great|nice|helpful|late|away|out|in)|have to (?:go|wait|leave))|i will|you will|you'll|it will|that will|this will|they will|what will|will it)\b|^(?:if|when|once|after (?:it|this|that|you)|before (?:it|this|that|you))\b",
    re.IGNORECASE,
)
_OPENED = LazyPattern(
    r"^(?:it'?s (?:settled|decided)|final decision|decision|decided|agreed|as (?:agreed|discussed|decided)|after (?:some|a long|long|much) discussions?)\s*[:,—–-]\s*(?:that )?",
    re.IGNORECASE,
)
_CLOSED = LazyPattern(
    r",? (?:(?:that'?s|that is|it'?s) (?:decided|settled|final)|we(?:'ve)? (?:agreed on|decided|settled) (?:that|it|this)(?: \w+){0,2})(?=\.?$)",
    re.IGNORECASE,
)
# Of the person: what is wanted of the product.
_WANTED = LazyPattern(
    r"^(?:so |and |but |ok(?:ay)?,? |yes,? |yeah,? |no,? |hmm,? |also,? )*(?:i (?:do )?(?:also )?(?:want|would (?:like|want|prefer)|'d (?:like|prefer|rather|want))|we (?:want|should|would want|need to|don't want|shouldn't)"
    r"|(?:we'll|we will|we are going to|we're going to) (?:use|store|keep|ship|support|drop|write|deploy|run|build|call|default)|let's (?:use|keep|make|drop|remove|rename|replace|prefix|switch|move|store|call|change|not|just|only|default|support|add|have|put|skip|avoid|limit)|(?:just )?(?:use|keep|make|drop|remove|rename|replace|prefix|switch|call|default|avoid|prefer) "
    r"|(?:if [^,]{5,80}[, ]+(?:it|we) should\b|(?:the |an? |every |all |each )?(?:`[^`]+`|[\w./-]+)(?: [\w./-]+){0,5} (?:should(?:n't| not)?|must(?:n't| not)?|needs? to|has to|have to) ))",
    re.IGNORECASE,
)
# An announcement that gives its reason is a decision.
_OWN_CHOICE = LazyPattern(
    r"^(?:i'll|i will|we'll|we will|we're|i'm|let's)(?: going to)? (?:use|using|go with|going with|stick with|keep|keeping|choose) (?!it\b|this\b|that\b|the same\b)[^.]{3,120} (?:because|since|instead of|rather than|so that)\b",
    re.IGNORECASE,
)
_HERE = LazyPattern(
    r"^(?:for|in|on) (?:this|our|the) (?:project|repo|repository|codebase|app|service),?\s+", re.IGNORECASE
)
_UNSURE = LazyPattern(
    r"\b(?:maybe|perhaps|not sure|wonder\w*|might|could|possibly|i guess)\b|\?", re.IGNORECASE
)
_LETS = LazyPattern(
    r"(?:,|\bso|\bthen|\band|\bbut) let's (?:just |also |then )?(?:use|keep|make|drop|remove|rename|replace|prefix|switch|move|store|call|default|skip|avoid|limit|support)\b",
    re.IGNORECASE,
)
_WEIGHTY = LazyPattern(
    r"\b(?:instead of|rather than|not|never|only|always|default|should|must|because|so that|since|without|both|every|all|format|prefix|suffix|name[sd]?|want|need|entirely|flag|option)\b",
    re.IGNORECASE,
)
_SETTLES = LazyPattern(
    r"^(?:let's|we'll|we will) (?:use|store|keep|call|default|support|drop|deploy|name)\b", re.IGNORECASE
)
_STEP = LazyPattern(
    r"\b(?:i want you to|start|begin|continue|commit|push|merge|rebase|check ?out|open a|create a (?:branch|pr|commit)|run|try|test it|look|see|review|explain|show|tell|go ahead|proceed|finish|first|do (?:the|that|this|it)|fix (?:this|that|it|them)"
    r"|work on|update the (?:doc|pr|branch)|write (?:me|it|this)|give me|summari[sz]e|clean ?up|pull|deploy|wait|stop|undo|revert|again|next|now|today|tomorrow|later|the other|same)\b",
    re.IGNORECASE,
)
_POINTING = LazyPattern(r"\b(?:this|that|these|those|it|them|here|there|above|below|you)\b", re.IGNORECASE)
_JOINING = LazyPattern(r"\b(?:so|decided|agreed|such|means|want|is) that\b", re.IGNORECASE)
_UNDERSTOOD = LazyPattern(
    r"^(?:i understand|understood|got it|makes sense|you'?re right|good (?:point|idea|catch)|great idea|clear)\b",
    re.IGNORECASE,
)
_SHOULD = LazyPattern(r"\b(?:should(?:n't)?|must(?:n't)?|needs? to)\b", re.IGNORECASE)


def decisions(
    said: Sequence[Sentence],
    steps: Sequence[TranscriptStep],
    done: Sequence[ToolCall],
    agreed: Mapping[int, RuleCandidate],
) -> Iterator[RuleCandidate]:
    """From what was said, from answers to questions, and from plans that were approved. `agreed`: by the line of the assent."""
    yield from agreed.values()
    before, line = "", 0
    for sentence in said:
        assent, line = sentence.line != line and sentence.line in agreed, sentence.line
        understood, before = _UNDERSTOOD.match(before) is not None, sentence.text
        if assent:
            continue  # its first sentence says less than what was agreed to
        if (understood and (found := _restated(sentence))) or (
            not sentence.aside and not sentence.speculative and (found := _spoken(sentence))
        ):
            yield found
    for deed in done:
        if deed.tool == "AskUserQuestion" and not deed.refused:
            yield from _answers(deed)
        elif deed.tool == "ExitPlanMode" and _APPROVED.search(deed.answer):
            yield from plan(deed.asked, deed.line)
    for step in steps:
        if step.role == Role.USER and not step.aside and _PLANNED.match(step.text):
            yield from plan(step.text, step.line)


def _spoken(sentence: Sentence) -> RuleCandidate | None:
    text = tidy(sentence.text)
    if sentence.role == Role.USER:
        return _of_the_person(text, sentence)
    own = _OWN_CHOICE.match(text)
    if not (own or _DECIDED.search(text)) or hedged(text) or text.endswith("?") or not names(text):
        return None
    if own:
        return RuleCandidate(Kind.DECISION, text, sentence.line, 0.65)
    if announces(text) or not stands_alone(text):
        return None
    return RuleCandidate(Kind.DECISION, text, sentence.line, 0.75 if sentence.closing else 0.6)


def _restated(sentence: Sentence) -> RuleCandidate | None:
    """What the person wants, as the assistant understood it."""
    text = tidy(sentence.text)
    if (
        sentence.role != Role.CLAUDE
        or not _SHOULD.search(text)
        or hedged(text)
        or not stands_alone(text)
        or not names(text)
    ):
        return None
    return RuleCandidate(Kind.DECISION, text, sentence.line, 0.7)


def _of_the_person(text: str, sentence: Sentence) -> RuleCandidate | None:
    if (
        text.endswith("?")
        or not SHORTEST <= len(text) <= LONGEST
        or _UNSURE.search(text)
        or text.count("`") % 2
    ):
        return None
    labelled = text.lower().startswith("decision:")
    shorter = text if labelled else _CLOSED.sub("", _OPENED.sub("", text))
    concluded = shorter != text and len(shorter) >= SHORTEST
    if concluded:
        text = shorter[0].upper() + shorter[1:] if shorter[1:2].islower() else shorter
    told = _HERE.sub("", text)
    settled = concluded or (
        _SETTLED.search(text) is not None and not _NOT_SETTLED.search(text) and not passing(told)
    )
    decided = labelled or settled or _DECIDED.search(text)
    wanted = _WANTED.match(told) or _LETS.search(text)
    if not decided and not (wanted and (_WEIGHTY.search(text) or _SETTLES.match(told))):
        return None
    pointing = len(_POINTING.findall(_JOINING.sub("", told)))
    words = len(text.split())
    if (
        words < (6 if pointing else 4 if not settled else 3)
        or (pointing and not names(text) and text.count('"') < 2)
        or pointing > 2
        or re.match(r"(?:it|this|that|they|these)\b", text, re.IGNORECASE)
    ):
        return None
    if not decided and (_STEP.search(text) or (not names(text) and words < 9 and not _SETTLES.match(told))):
        return None
    return RuleCandidate(Kind.DECISION, text, sentence.line, 0.95 if labelled else 0.8 if decided else 0.65)


def _answers(deed: ToolCall) -> Iterator[RuleCandidate]:
    """What a person chose among what was offered."""
    for found in _ANSWERED.finditer(deed.answer):
        question, answer = found[1], found[2]
        chosen = re.sub(
            r"\s*\((?:recommended|default|recomanat|recomendado|empfohlen|권장)\)",
            "",
            answer,
            flags=re.IGNORECASE,
        ).strip()
        if (
            len(chosen) < 2
            or "?" in chosen
            or re.fullmatch(r"(?:yes|no|ok|skip|other|none)\W*", chosen, re.IGNORECASE)
        ):
            continue
        text = f"{plain(question)} Chosen: {plain(chosen)}"[:LONGEST]
        yield RuleCandidate(
            Kind.DECISION, text if text[-1] in ".!?" else f"{text}.", deed.answered or deed.line, 0.95
        )


def plan(text: str, line: int) -> Iterator[RuleCandidate]:
    """What an approved plan says it will do, in its title and the beginning of its approach."""
    title = _TITLE.search(text)
    named = tidy(plain(title[1])) if title else ""
    if len(named) < 8 or re.fullmatch(r"(?:context|overview|summary|plan|goal)\W*", named, re.IGNORECASE):
        named = ""
    told = ""
    for block in blocks(text):
        if (
            block.bullet
            or not _PLAN_SECTION.search(block.section)
            or block.text.endswith(":")
            or re.match(r"\w+:", block.text)
        ):
            continue
        told = split_sentences(block.text)[0]
        if 30 <= len(told) <= 240 and not dangling(told):
            break
        told = ""
    if named or told:
        content = f"Plan agreed: {named} {told}".strip()
        if len(content) > LONGEST:
            content = f"Plan agreed: {named or told}"
        yield RuleCandidate(Kind.DECISION, content[:LONGEST], line, 0.9)
    yield from _plan_decisions(text, line)


def _plan_decisions(text: str, line: int) -> Iterator[RuleCandidate]:
    count = 0
    for block in blocks(text):
        if count < 3 and block.bullet and re.search(r"decision|trade-?off", block.section, re.IGNORECASE):
            told = tidy(block.text)
            if stands_alone(told):
                count += 1
                yield RuleCandidate(Kind.DECISION, told, line, 0.8)


FEWEST_WORDS = 3
SHORTEST_OWN_CHOICE = 16  # characters
MOST_CLAIMS = 3
LONGEST_INSTEAD = 80

_LABEL = LazyPattern(
    r"^(?:key |design |main |final |technical |architecture )?decisions?(?: made)?:\s+(?=\S)", re.IGNORECASE
)
_SECTION = LazyPattern(
    r"^(?:\W|\d)*(?:(?:key|design|main|final|technical|architectur\w+|important|implementation|notable|our|my|the) )*(?:decisions?|choices?)(?: (?:made|taken|and (?:trade-?offs|rationale|reasons)))?\W*$",
    re.IGNORECASE,
)
_REASON = r"(?:because|since|so that|instead of|rather than|over|in favou?r of|as (?:it|they|the|we)\b)"
_CHOSE = LazyPattern(
    r"^(?:for [^,]{3,40}, )?(?P<who>i|we)(?:'ve| have)?(?: deliberately| intentionally| also)? (?:(?:chose|chosen|picked|selected|opted for|went with|settled on|decided on|decided against|decided for|decided that|decided to|chose to|opted to)\b"
    rf"|(?:used|kept|put|made|stored|placed|implemented|built|left|avoided)\b(?=[^.]{{3,160}}?\b{_REASON}))\s+(?P<what>.+)$",
    re.IGNORECASE,
)
_OWN_STEP = LazyPattern(
    r"^(?:not )?(?:to )?(?:run|look|check|start|test|read|try|begin|wait|stop|go ahead|proceed|continue|investigate|verify|review|ask|commit|push|rerun|re-run|focus|leave (?:it|this|that))\b",
    re.IGNORECASE,
)
_POINTED = LazyPattern(
    r"^(?:not to )?(?:\w+ )?(?:it|this|that|these|those|them|one|your|the (?:first|second|third|other|same|latter|former|above|last|next|current|simplest|easiest|previous|\w+ tool))\b",
    re.IGNORECASE,
)
_ASIDE = LazyPattern(
    r"\b(?:none|tbd|pending|open|up to you|your call|let me know|for you)\b|\?", re.IGNORECASE
)
_LASTING = LazyPattern(
    r"^(?!the (?:test|bug|error|issue|problem|crash)s?\b)[^.;]{4,100}? (?:is|are|lives?|runs?|uses?) (?:now )?(?!not\b)[^.;]{3,120} (?:rather than|instead of) [^.;]{3,80}?,? (?:so that|so (?:it|they|we)|because|since) \S+",
    re.IGNORECASE,
)
_WRONG = LazyPattern(
    r"\b(?:bug|wrong\w*|fail\w*|error\w*|crash\w*|broke\w*|incorrect\w*|should|returns?|returned|panic\w*|missing|stale)\b",
    re.IGNORECASE,
)
_OBJECTS = LazyPattern(
    r"^(?:(?:hm+|oh|wait|sorry|but|well|please|ok(?:ay)?|and)[\s,.!]+)*(?:no\b(?! (?:problem|worries|need))|nope|nah|wrong|incorrect|don't|do not|revert|undo|not |stop|why (?:did|do|not|are)|i (?:said|asked|told|meant|don't|didn't|wanted|would rather|prefer|disagree)|i'd (?:rather|prefer)|change (?:it|that|this) (?:back|to)|that'?s (?:wrong|not)|rather|instead|go back|actually|we (?:don't|never|can't|decided|agreed)|아니|되돌)"
    r"|\binstead\b[.!]?$|\b(?:use|take|prefer) \S+ (?:instead|rather)\b",
    re.IGNORECASE,
)
_TAKES_BACK = LazyPattern(
    r"^(?:no[\s,.!]+)?(?:please )?(?:revert|undo|take (?:it|that|this) back|go back|don't do (?:it|that|this)|change (?:it|that|this) back|i don't (?:want|like) (?:it|that|this))\b|^(?:no|nope|nah)[\s.!]*$",
    re.IGNORECASE,
)
_INSTEAD = LazyPattern(
    r"^(?:(?:no|nope|nah|wrong|hm+|actually|please)[\s,.!]+)*(?P<what>(?:use|take|go with|keep|make) (?!it\b|this\b|that\b|the (?:other|same)\b)[^?]+)$",
    re.IGNORECASE,
)


def own_choices(said: Sequence[Sentence]) -> Iterator[RuleCandidate]:
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


def _choice(sentence: Sentence) -> RuleCandidate | None:
    text = tidy(sentence.text)
    if (
        hedged(text)
        or _ASIDE.search(text)
        or not SHORTEST_OWN_CHOICE <= len(text) <= LONGEST
        or text.count("`") % 2
    ):
        return None
    if sentence.bullet and _SECTION.match(sentence.section):
        listed = len(text.split()) >= FEWEST_WORDS and not dangling(text)
        return RuleCandidate(Kind.DECISION, text, sentence.line, 0.85, own=True) if listed else None
    if sentence.speculative:
        return None
    if _LABEL.match(text):
        told = _LABEL.sub("", text)
        stands = len(told.split()) >= FEWEST_WORDS and not dangling(told)
        return (
            RuleCandidate(Kind.DECISION, f"Decision: {told}", sentence.line, 0.9, own=True)
            if stands
            else None
        )
    if _LASTING.match(text) and not dangling(text) and not _WRONG.search(text) and telling(text):
        return RuleCandidate(Kind.DECISION, text, sentence.line, 0.7, own=True)
    found = _CHOSE.match(text)
    if (
        not found
        or _OWN_STEP.match(found["what"])
        or _POINTED.match(found["what"])
        or not (telling(text[2:]) or names(text))
    ):
        return None
    if found["who"].lower() == "i":
        text = f"{text[: found.start('who')]}{text[found.start('who') + 1 :].lstrip()}"
        text = re.sub(r"^(?:'ve|have) ", "", text)
        text = text[0].upper() + text[1:]
    return RuleCandidate(Kind.DECISION, text, sentence.line, 0.8, own=True)


def _next_of_the_person(later: Sequence[Sentence], *, first: int = 0) -> Sentence | None:
    return next((one for one in later if one.role == Role.USER and not one.aside and one.line > first), None)


def _turned_down(claim: str, answer: Sentence, *, asked: bool) -> RuleCandidate | None:
    """What the person took back, and what they want in its place if they say that in a few words."""
    if not asked and _TAKES_BACK.match(answer.text):
        told = f"Rejected: {claim}"
    elif (instead := _INSTEAD.match(answer.text)) and len(answer.text) <= LONGEST_INSTEAD:
        wanted = tidy(instead["what"])
        told = f"Rejected: {claim} Instead: {wanted[0].lower()}{wanted[1:]}"
    else:
        return None
    return (
        RuleCandidate(Kind.DECISION, told, answer.line, 0.8, supersedes=claim)
        if len(told) <= LONGEST
        else None
    )


def correct_choices(
    found: Sequence[RuleCandidate], said: Sequence[Sentence], claims: Sequence[str], *, asked: bool
) -> list[RuleCandidate]:
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
