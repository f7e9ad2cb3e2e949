"""Decisions of the user, and of the assistant where the user does not object."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from mindhold.capture.extracted_items import LONGEST, RuleCandidate
from mindhold.capture.rules.sentences import (
    Sentence,
    announces,
    clean_sentence,
    count_names,
    is_dangling,
    is_hedged,
    is_momentary,
    is_specific,
    split_blocks,
    split_sentences,
    stands_alone,
    strip_markdown,
)
from mindhold.capture.rules.tool_calls import ToolCall
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role, TranscriptStep
from mindhold.text.pattern import LazyPattern, any_case

SHORTEST = 20  # characters; shorter sentences are steps
MOST_LISTED = 3  # decisions that a plan lists

_QUESTION_ANSWER = LazyPattern(r"\"([^\"]{5,400}?)\"\s*=\s*\"([^\"]{1,400}?)\"(?=[.,\s]|$)")
_PREFERRED_MARK = any_case(r"\s*\((?:recommended|default|recomanat|recomendado|empfohlen|권장)\)")
_BARE_ANSWER = any_case(r"(?:yes|no|ok|skip|other|none)\W*")
_APPROVAL = any_case(r"user has approved|approved (?:your|the) plan|plan (?:was |has been )?approved")
_PLAN_REQUEST = any_case(r"^\s*(?:please )?implement the following plan")
_PLAN_SECTION = any_case(
    r"decision|approach|design|strategy|solution|overview|summary|goal|context|problem|background|why|motivation|what we|trade-?off|chosen|architecture"
)
_TITLE = LazyPattern(
    r"^\s*#{1,3}\s+(?:plan:?\s*|implementation plan:?\s*)?(.+?)\s*$", re.IGNORECASE | re.MULTILINE
)
_EMPTY_TITLE = any_case(r"(?:context|overview|summary|plan|goal)\W*")
_DECISION_SECTION = any_case(r"decision|trade-?off")
# By either speaker: something was decided.
_DECISION = any_case(
    r"\b(?:we(?:'ve| have)? decided|i(?:'ve| have)? decided|decided (?:to|on|against)|decision(?: is|:| was)|we (?:chose|picked|settled on|agreed)|chose to|opted (?:for|to)"
    r"|(?:let's|we'll|i'll|we will|we should|we're going to|let us) (?:go|stick|proceed) with|going with|went with|settled on|agreed (?:to|on|that)"
    r"|(?:i|we) (?:will|'ll) use \S+(?: \S+){0,6} (?:instead|rather|because|since|as)\b|(?:use|using|used|uses|switch(?:ed|ing)? to|prefer(?:red)?|keep|kept) [^.]{3,80}\b(?:instead of|rather than|over)\b"
    r"|switch(?:ed|es)? from|migrated from|replaced [^.]{2,60} with|moved from \S+ to|instead of [^.]{3,60}, (?:use|we|i)|we(?:'re| are)? us(?:ing|e) \S+ for [^.]{3,80} (?:because|since)\b|now \w+s\b[^.]{3,120} (?:instead of|rather than)|(?:is|are|was|were) (?:by design|intentional|deliberate)\b|(?:intentionally|deliberately) \w+|- intentional|on purpose)\b"
    r"|(?:기로 (?:했|결정|합의)|로 결정|(?:으?로) (?:가자|합시다|하자|갑시다)|대신 .{1,30}(?:사용|쓰기|씁니다|쓴다)|를 선택했)"
)
# By the user: how it will be, or no longer is.
_SETTLED = any_case(
    r"^(?:(?:in the end|after \w+(?: \w+){0,3}|as (?:agreed|discussed|decided)|for (?:now|v\d|the (?:mvp|first version|prototype))),? )*(?:we(?:'re| are| will|'ll)? (?:not )?(?:going to |gonna )?(?:be )?(?:(?:us|mov|migrat|switch|replac|dropp|adopt|standardi[sz]|ship|build|deploy|support|keep|stick|remov)ing\b|(?:use|move|migrate|switch|replace|drop|adopt|standardi[sz]e|ship|build|deploy|support|name|call|release|store|keep|write|run|host|remove|target)\b)"
    r"|we(?:'re| are) (?:not )?going to (?!see|have|need|be\b|lunch|start|look|wait|try|fix|do\b|talk|discuss)\w+ \w+|(?:the |our )?[\w`./+ -]{2,40}? (?:stays?|remains?) (?:until|as|in|at|on|supported|optional|the)\b|we (?:moved|switched|migrated) (?:away |over )?(?:from|to)\b|we(?:'ve| have) (?:moved|switched|migrated|dropped|replaced|adopted|standardi[sz]ed)\b|we (?:dropped|replaced|adopted|standardi[sz]ed on)\b|i(?:'d| would)? (?:go with|choose|pick)\b|i (?:chose|picked|went with|opted)\b|instead of [^,]{2,60},? (?:we|i) (?:use|will|want)\b"
    r"|(?:the |our |all )?[\w`./+ -]{2,50}? (?:will|won't|will not) (?:not |only |always |never )?(?:be|use|run|live|go|stay|have|support|return|come|talk|send|store|get|become|remain|be\w*)\b)"
    r"|\b(?:out of scope|that'?s decided|that is decided|we agreed|as agreed|is settled|final decision|not (?:part of|in) (?:v\d|the mvp|the first version)|(?:in|for) (?:v\d\S*|the mvp|the first version|version \d\S*))\b|^it'?s (?:settled|decided):"
    r"|^use [\w`./+-]+(?: [\w`./+-]+)? for [^,]{3,50}, (?!and\b|then\b)\w+|^we go with\b|^let's (?!see|start|look|try|run|fix|do\b|go\b|first|finish|continue|wait|check|test|begin|get|move on|take|have|talk|think|review|commit|push|merge|deploy|debug|write|add|create|update|open|read|make sure|not worry|leave|focus|say|assume|hope|call it|wrap|clean|stop|find|figure|work)(?:not )?\w+ [^.]*(?:\d|(?-i:[A-Z])\w+[^.]*$)|^let's (?:use|switch to|move to|adopt|go for|do it (?:with|in)|build (?:it|this) (?:with|in|on)|write (?:it|this) in)\s"
)
_NOT_SETTLED = any_case(
    r"\b(?:we'll see|will (?:be (?:back|right|there|fine|ok|great|nice|helpful|late|away|out|in)|have to (?:go|wait|leave))|i will|you will|you'll|it will|that will|this will|they will|what will|will it)\b|^(?:if|when|once|after (?:it|this|that|you)|before (?:it|this|that|you))\b"
)
_OPENING = any_case(
    r"^(?:it'?s (?:settled|decided)|final decision|decision|decided|agreed|as (?:agreed|discussed|decided)|after (?:some|a long|long|much) discussions?)\s*[:,—–-]\s*(?:that )?"
)
_CLOSING = any_case(
    r",? (?:(?:that'?s|that is|it'?s) (?:decided|settled|final)|we(?:'ve)? (?:agreed on|decided|settled) (?:that|it|this)(?: \w+){0,2})(?=\.?$)"
)
# By the user: a wish about the product.
_WISH = any_case(
    r"^(?:so |and |but |ok(?:ay)?,? |yes,? |yeah,? |no,? |hmm,? |also,? )*(?:i (?:do )?(?:also )?(?:want|would (?:like|want|prefer)|'d (?:like|prefer|rather|want))|we (?:want|should|would want|need to|don't want|shouldn't)"
    r"|(?:we'll|we will|we are going to|we're going to) (?:use|store|keep|ship|support|drop|write|deploy|run|build|call|default)|let's (?:use|keep|make|drop|remove|rename|replace|prefix|switch|move|store|call|change|not|just|only|default|support|add|have|put|skip|avoid|limit)|(?:just )?(?:use|keep|make|drop|remove|rename|replace|prefix|switch|call|default|avoid|prefer) "
    r"|(?:if [^,]{5,80}[, ]+(?:it|we) should\b|(?:the |an? |every |all |each )?(?:`[^`]+`|[\w./-]+)(?: [\w./-]+){0,5} (?:should(?:n't| not)?|must(?:n't| not)?|needs? to|has to|have to) ))"
)
# An announcement that gives its reason is a decision.
_OWN_CHOICE = any_case(
    r"^(?:i'll|i will|we'll|we will|we're|i'm|let's)(?: going to)? (?:use|using|go with|going with|stick with|keep|keeping|choose) (?!it\b|this\b|that\b|the same\b)[^.]{3,120} (?:because|since|instead of|rather than|so that)\b"
)
_IN_PROJECT = any_case(
    r"^(?:for|in|on) (?:this|our|the) (?:project|repo|repository|codebase|app|service),?\s+"
)
_UNSURE = any_case(r"\b(?:maybe|perhaps|not sure|wonder\w*|might|could|possibly|i guess)\b|\?")
_LETS_CLAUSE = any_case(
    r"(?:,|\bso|\bthen|\band|\bbut) let's (?:just |also |then )?(?:use|keep|make|drop|remove|rename|replace|prefix|switch|move|store|call|default|skip|avoid|limit|support)\b"
)
_WEIGHTY = any_case(
    r"\b(?:instead of|rather than|not|never|only|always|default|should|must|because|so that|since|without|both|every|all|format|prefix|suffix|name[sd]?|want|need|entirely|flag|option)\b"
)
_SETTLING = any_case(r"^(?:let's|we'll|we will) (?:use|store|keep|call|default|support|drop|deploy|name)\b")
_STEP = any_case(
    r"\b(?:i want you to|start|begin|continue|commit|push|merge|rebase|check ?out|open a|create a (?:branch|pr|commit)|run|try|test it|look|see|review|explain|show|tell|go ahead|proceed|finish|first|do (?:the|that|this|it)|fix (?:this|that|it|them)"
    r"|work on|update the (?:doc|pr|branch)|write (?:me|it|this)|give me|summari[sz]e|clean ?up|pull|deploy|wait|stop|undo|revert|again|next|now|today|tomorrow|later|the other|same)\b"
)
_POINTING = any_case(r"\b(?:this|that|these|those|it|them|here|there|above|below|you)\b")
_JOINING = any_case(r"\b(?:so|decided|agreed|such|means|want|is) that\b")
_UNDERSTANDING = any_case(
    r"^(?:i understand|understood|got it|makes sense|you'?re right|good (?:point|idea|catch)|great idea|clear)\b"
)
_SHOULD = any_case(r"\b(?:should(?:n't)?|must(?:n't)?|needs? to)\b")


def decisions(
    sentences: Sequence[Sentence],
    steps: Sequence[TranscriptStep],
    calls: Sequence[ToolCall],
    agreed: Mapping[int, RuleCandidate],
) -> Iterator[RuleCandidate]:
    """Yield decisions from statements, from answers to questions, and from approved plans. `agreed` is keyed by the answer's line."""
    yield from agreed.values()
    previous, line = "", 0
    for sentence in sentences:
        is_assent, line = sentence.line != line and sentence.line in agreed, sentence.line
        is_restated, previous = _UNDERSTANDING.match(previous) is not None, sentence.text
        if is_assent:
            continue  # its first sentence says less than the agreement
        if (is_restated and (candidate := _restated_wish(sentence))) or (
            not sentence.aside and not sentence.speculative and (candidate := _stated_decision(sentence))
        ):
            yield candidate
    for call in calls:
        if call.tool == "AskUserQuestion" and not call.refused:
            yield from _chosen_answers(call)
        elif call.tool == "ExitPlanMode" and _APPROVAL.search(call.output):
            yield from plan_decisions(call.input, call.line)
    for step in steps:
        if step.role == Role.USER and not step.aside and _PLAN_REQUEST.match(step.text):
            yield from plan_decisions(step.text, step.line)


def _stated_decision(sentence: Sentence) -> RuleCandidate | None:
    text = clean_sentence(sentence.text)
    if sentence.role == Role.USER:
        return _user_decision(text, sentence)
    own_choice = _OWN_CHOICE.match(text)
    if (
        not (own_choice or _DECISION.search(text))
        or is_hedged(text)
        or text.endswith("?")
        or not count_names(text)
    ):
        return None
    if own_choice:
        return RuleCandidate(Kind.DECISION, text, sentence.line, 0.65)
    if announces(text) or not stands_alone(text):
        return None
    return RuleCandidate(Kind.DECISION, text, sentence.line, 0.75 if sentence.closing else 0.6)


def _restated_wish(sentence: Sentence) -> RuleCandidate | None:
    """Return the user's wish as the assistant restated it."""
    text = clean_sentence(sentence.text)
    if (
        sentence.role != Role.CLAUDE
        or not _SHOULD.search(text)
        or is_hedged(text)
        or not stands_alone(text)
        or not count_names(text)
    ):
        return None
    return RuleCandidate(Kind.DECISION, text, sentence.line, 0.7)


def _user_decision(text: str, sentence: Sentence) -> RuleCandidate | None:
    if (
        text.endswith("?")
        or not SHORTEST <= len(text) <= LONGEST
        or _UNSURE.search(text)
        or text.count("`") % 2
    ):
        return None
    is_labelled = text.lower().startswith("decision:")
    trimmed = text if is_labelled else _CLOSING.sub("", _OPENING.sub("", text))
    is_concluded = trimmed != text and len(trimmed) >= SHORTEST
    if is_concluded:
        text = trimmed[0].upper() + trimmed[1:] if trimmed[1:2].islower() else trimmed
    statement = _IN_PROJECT.sub("", text)
    is_settled = is_concluded or (
        _SETTLED.search(text) is not None and not _NOT_SETTLED.search(text) and not is_momentary(statement)
    )
    is_decided = is_labelled or is_settled or _DECISION.search(text)
    wish = _WISH.match(statement) or _LETS_CLAUSE.search(text)
    if not is_decided and not (wish and (_WEIGHTY.search(text) or _SETTLING.match(statement))):
        return None
    pointers = len(_POINTING.findall(_JOINING.sub("", statement)))
    words = len(text.split())
    if (
        words < (6 if pointers else 4 if not is_settled else 3)
        or (pointers and not count_names(text) and text.count('"') < 2)
        or pointers > 2
        or re.match(r"(?:it|this|that|they|these)\b", text, re.IGNORECASE)
    ):
        return None
    if not is_decided and (
        _STEP.search(text) or (not count_names(text) and words < 9 and not _SETTLING.match(statement))
    ):
        return None
    return RuleCandidate(
        Kind.DECISION, text, sentence.line, 0.95 if is_labelled else 0.8 if is_decided else 0.65
    )


def _chosen_answers(call: ToolCall) -> Iterator[RuleCandidate]:
    """Yield what the user chose among the offered answers."""
    for match in _QUESTION_ANSWER.finditer(call.output):
        question, choice = match[1], _PREFERRED_MARK.sub("", match[2]).strip()
        if len(choice) < 2 or "?" in choice or _BARE_ANSWER.fullmatch(choice):
            continue
        chosen = f"Chosen: {strip_markdown(choice)}"[:LONGEST]
        text = f"{_end_of(strip_markdown(question), LONGEST - len(chosen) - 2)} {chosen}".strip()
        yield RuleCandidate(
            Kind.DECISION,
            text if text[-1] in ".!?。！？" else f"{text}.",
            call.output_line or call.line,
            0.95,
        )


def _end_of(question: str, longest: int) -> str:
    """The last sentences of a question that fit: what is asked stands at its end."""
    kept = ""
    for sentence in reversed(split_sentences(question.lstrip(")] .,;"))):
        longer = f"{sentence} {kept}".strip()
        if len(longer) > longest:
            break
        kept = longer
    return kept


PLAN_AGREED = "Plan agreed: "


def plan_decisions(text: str, line: int) -> Iterator[RuleCandidate]:
    """Yield the decisions of an approved plan: its title, and its list of decisions. The rest describes how things were before."""
    title = _TITLE.search(text)
    plan_title = clean_sentence(strip_markdown(title[1])) if title else ""
    if len(plan_title) < 8 or _EMPTY_TITLE.fullmatch(plan_title):
        plan_title = ""
    blocks = list(split_blocks(text))
    if plan_title:
        yield RuleCandidate(Kind.DECISION, f"{PLAN_AGREED}{plan_title}"[:LONGEST], line, 0.9)
    listed = [
        clean_sentence(block.text)
        for block in blocks
        if block.bullet and _DECISION_SECTION.search(block.section)
    ]
    for decision in list(filter(stands_alone, listed))[:MOST_LISTED]:
        yield RuleCandidate(Kind.DECISION, decision, line, 0.8)


FEWEST_WORDS = 3
SHORTEST_OWN_CHOICE = 16  # characters
MOST_CLAIMS = 3
LONGEST_INSTEAD = 80

_LABEL = any_case(r"^(?:key |design |main |final |technical |architecture )?decisions?(?: made)?:\s+(?=\S)")
_SECTION = any_case(
    r"^(?:\W|\d)*(?:(?:key|design|main|final|technical|architectur\w+|important|implementation|notable|our|my|the) )*(?:decisions?|choices?)(?: (?:made|taken|and (?:trade-?offs|rationale|reasons)))?\W*$"
)
_REASON = r"(?:because|since|so that|instead of|rather than|over|in favou?r of|as (?:it|they|the|we)\b)"
_CHOSE = any_case(
    r"^(?:for [^,]{3,40}, )?(?P<who>i|we)(?:'ve| have)?(?: deliberately| intentionally| also)? (?:(?:chose|chosen|picked|selected|opted for|went with|settled on|decided on|decided against|decided for|decided that|decided to|chose to|opted to)\b"
    rf"|(?:used|kept|put|made|stored|placed|implemented|built|left|avoided)\b(?=[^.]{{3,160}}?\b{_REASON}))\s+(?P<what>.+)$"
)
_OWN_STEP = any_case(
    r"^(?:not )?(?:to )?(?:run|look|check|start|test|read|try|begin|wait|stop|go ahead|proceed|continue|investigate|verify|review|ask|commit|push|rerun|re-run|focus|leave (?:it|this|that))\b"
)
_POINTING_START = any_case(
    r"^(?:not to )?(?:\w+ )?(?:it|this|that|these|those|them|one|your|the (?:first|second|third|other|same|latter|former|above|last|next|current|simplest|easiest|previous|\w+ tool))\b"
)
_ASIDE = any_case(r"\b(?:none|tbd|pending|open|up to you|your call|let me know|for you)\b|\?")
_LASTING = any_case(
    r"^(?!the (?:test|bug|error|issue|problem|crash)s?\b)[^.;]{4,100}? (?:is|are|lives?|runs?|uses?) (?:now )?(?!not\b)[^.;]{3,120} (?:rather than|instead of) [^.;]{3,80}?,? (?:so that|so (?:it|they|we)|because|since) \S+"
)
_FAULT = any_case(
    r"\b(?:bug|wrong\w*|fail\w*|error\w*|crash\w*|broke\w*|incorrect\w*|should|returns?|returned|panic\w*|missing|stale)\b"
)
_OBJECTION = any_case(
    r"^(?:(?:hm+|oh|wait|sorry|but|well|please|ok(?:ay)?|and)[\s,.!]+)*(?:no\b(?! (?:problem|worries|need))|nope|nah|wrong|incorrect|don't|do not|revert|undo|not |stop|why (?:did|do|not|are)|i (?:said|asked|told|meant|don't|didn't|wanted|would rather|prefer|disagree)|i'd (?:rather|prefer)|change (?:it|that|this) (?:back|to)|that'?s (?:wrong|not)|rather|instead|go back|actually|we (?:don't|never|can't|decided|agreed)|아니|되돌)"
    r"|\binstead\b[.!]?$|\b(?:use|take|prefer) \S+ (?:instead|rather)\b"
)
_TAKES_BACK = any_case(
    r"^(?:no[\s,.!]+)?(?:please )?(?:revert|undo|take (?:it|that|this) back|go back|don't do (?:it|that|this)|change (?:it|that|this) back|i don't (?:want|like) (?:it|that|this))\b|^(?:no|nope|nah)[\s.!]*$"
)
_INSTEAD = any_case(
    r"^(?:(?:no|nope|nah|wrong|hm+|actually|please)[\s,.!]+)*(?P<what>(?:use|take|go with|keep|make) (?!it\b|this\b|that\b|the (?:other|same)\b)[^?]+)$"
)


def own_choices(sentences: Sequence[Sentence]) -> Iterator[RuleCandidate]:
    """Yield the assistant's own choices that it reports and the user doesn't object to in the next turn."""
    for number, sentence in enumerate(sentences):
        if sentence.role != Role.CLAUDE or sentence.aside or not sentence.closing:
            continue
        if choice := _own_choice(sentence):
            answer = _next_of_user(sentences[number + 1 :], first=sentence.line)
            if answer is None or not _OBJECTION.search(answer.text):
                yield choice
            elif rejection := _rejection(choice.content, answer, asked=False):
                yield rejection


def _own_choice(sentence: Sentence) -> RuleCandidate | None:
    text = clean_sentence(sentence.text)
    if (
        is_hedged(text)
        or _ASIDE.search(text)
        or not SHORTEST_OWN_CHOICE <= len(text) <= LONGEST
        or text.count("`") % 2
    ):
        return None
    candidate = partial(RuleCandidate, Kind.DECISION, line=sentence.line, own=True)
    if sentence.bullet and _SECTION.match(sentence.section):
        return candidate(text, weight=0.85) if _is_complete(text) else None
    if sentence.speculative:
        return None
    if _LABEL.match(text):
        decision = _LABEL.sub("", text)
        return candidate(f"Decision: {decision}", weight=0.9) if _is_complete(decision) else None
    if _LASTING.match(text) and not is_dangling(text) and not _FAULT.search(text) and is_specific(text):
        return candidate(text, weight=0.7)
    match = _CHOSE.match(text)
    if (
        not match
        or _OWN_STEP.match(match["what"])
        or _POINTING_START.match(match["what"])
        or not (is_specific(text[2:]) or count_names(text))
    ):
        return None
    if match["who"].lower() == "i":
        text = f"{text[: match.start('who')]}{text[match.start('who') + 1 :].lstrip()}"
        text = re.sub(r"^(?:'ve|have) ", "", text)
        text = text[0].upper() + text[1:]
    return candidate(text, weight=0.8)


def _is_complete(text: str) -> bool:
    return len(text.split()) >= FEWEST_WORDS and not is_dangling(text)


def _next_of_user(later: Sequence[Sentence], *, first: int = 0) -> Sentence | None:
    return next(
        (
            sentence
            for sentence in later
            if sentence.role == Role.USER and not sentence.aside and sentence.line > first
        ),
        None,
    )


def _rejection(claim: str, answer: Sentence, *, asked: bool) -> RuleCandidate | None:
    """Return what the user rejected, and what they want instead if they say that briefly."""
    if not asked and _TAKES_BACK.match(answer.text):
        content = f"Rejected: {claim}"
    elif (instead := _INSTEAD.match(answer.text)) and len(answer.text) <= LONGEST_INSTEAD:
        replacement = clean_sentence(instead["what"])
        content = f"Rejected: {claim} Instead: {replacement[0].lower()}{replacement[1:]}"
    else:
        return None
    if len(content) > LONGEST:
        return None
    return RuleCandidate(Kind.DECISION, content, answer.line, 0.8, supersedes=claim)


def correct_choices(
    candidates: Sequence[RuleCandidate], sentences: Sequence[Sentence], claims: Sequence[str], *, asked: bool
) -> list[RuleCandidate]:
    """Add what becomes of the last call's choices, if the user's first words object to them.

    `asked`: the assistant had ended with a question, which a bare "no" answers.
    """
    answer = _next_of_user(sentences)
    result = list(candidates)
    if not claims or answer is None or not _OBJECTION.search(answer.text):
        return result
    for claim in claims:
        words = frozenset(lexemes(claim)) - stop_lexemes()
        index = next(
            (
                index
                for index, candidate in enumerate(result)
                if candidate.line == answer.line
                and not candidate.supersedes
                and words & set(lexemes(candidate.content))
            ),
            None,
        )
        if index is not None:
            result[index] = replace(result[index], supersedes=claim)
        elif len(claims) == 1 and (rejection := _rejection(claim, answer, asked=asked)):
            result.append(rejection)
    return result
