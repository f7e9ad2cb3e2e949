"""Progress and open ends: what was done and committed, and what is left to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mindhold.capture.extracted_items import LONGEST, RuleCandidate
from mindhold.capture.rules.sentences import Sentence, clean_sentence, count_names, stands_alone
from mindhold.capture.rules.tool_calls import ToolCall
from mindhold.memories.reflect import OPEN_QUESTION
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role
from mindhold.text.noise import rate_worth
from mindhold.text.pattern import LazyPattern, any_case

WORDS_ABOUT_TESTS = 12  # words from which a report on tests is specific enough
FEWEST_OPEN_WORDS = 5  # words of an open end
FEWEST_LISTED_WORDS = 3
MENTION_SHARE = 0.4  # share of words that a later sentence repeats when it takes up the subject

_RELEASE = LazyPattern(
    r"\b(?:gh release create|git tag(?: -a)?|npm publish|cargo publish|twine upload|goreleaser release)\s+(v?\d[\w.-]*)"
)
_VERBS = (
    "added|updated|fixed|removed|created|implemented|refactored|replaced|renamed|moved|changed|increased|decreased|reduced|switched|extracted|migrated|converted|introduced|configured|enabled|disabled|wired|rewrote"
    "|bumped|upgraded|downgraded|deleted|merged|split|hoisted|consolidated|simplified|registered|documented|deprecated|integrated|pinned|set up|improved|restructured|centralized|unified|dropped|swapped|restored|hardened|resolved|made"
)
_FINISHED = any_case(
    rf"^(?:(?:`[^`]+`|[\w./ -]{{2,40}}?)\s*(?:\([^)]*\))?\s*[-–—:]+\s*)?(?:now )?(?:{_VERBS})\b"
    rf"|^(?!(?:the|an?|no|only|since|each|every|if|when|exported|this|that)\b)(?:[\w`()./-]+\s+){{1,3}}(?:is |are |was |were |has been |have been )?(?:now )?(?:{_VERBS})(?:\s*$|\s+[-–—]|\s+(?:at|to|in|from|with|instead|once)\b)"
)
_TRIFLE = any_case(
    r"\b(?:added|removed|updated|fixed|cleaned up)\b(?: \w+){0,2} (?:now-)?(?:unused )?(?:`[^`]+` )?(?:imports?|docstrings?|doc comments?|comments?|typos?|whitespace|formatting)\b"
)
_ABOUT_TESTS = any_case(
    r"^[^.]{0,60}\b(?:added|updated|created|wrote|fixed|extended)\b(?: \w+){0,3}? ?(?:[\"`][^\"`]*[\"`] )?(?:(?:unit|integration|regression|new|existing|more|the|a|e2e|failing) )*(?:sub)?(?:tests?|test cases?|cases?|coverage|assertions?|fixtures?)\b"
    r"|`Test\w+`|^`?[\w./-]*(?:_test|\.test|\.spec|test_)[\w.]*`?\s*[-–—:]"
)
_NOT_DONE = any_case(
    r"\b(?:not (?:yet )?|needs? to be|should be|must be|to be|can be|could be|would be|will be|isn't|wasn't|haven't|hasn't|never|if)\b"
)
_OPEN_END = any_case(
    r"\b(?:still (?:need|needs|have|has|to do|open|missing|fail|broken|unresolved)|next steps?\b|todo\b|to-do|remaining (?:work|item|issue|task|step)s?|left to do|follow-?up|not yet (?:implemented|done|supported|wired|tested|covered|handled)|hasn't been|haven't been"
    r"|needs? to be (?:done|implemented|added|fixed|updated|tested|wired|run|set|configured|merged|rebased|migrated|removed)|you(?:'ll| will)? (?:(?:still )?need to|may want to|might want to|should (?:also )?|want to|must|have to)|(?:one|a) thing (?:left|remaining)|pending\b|remains? (?:to|open|unresolved|undone)|for (?:a )?later|in a future (?:pr|change|release)|future (?:work|improvement)|out of scope)"
    r"|(?:남은 (?:작업|일)|다음 단계|아직 .{2,}(?:않|못|안)|해야 (?:합니다|한다|할))"
)
# These say plainly that something is left, so they need no name.
_PLAINLY_OPEN = any_case(
    r"^(?:next(?: steps?| up)?|(?:still )?(?:open|missing|remaining|pending|to ?do|left(?: to do)?|outstanding)|what(?:'s| is) (?:left|missing|next|still open)|not (?:yet )?done(?: yet)?|remaining work|follow-?ups?|open (?:question|issue|point|task|item)s?|not (?:covered|implemented|handled|tested|started|included|migrated|wired)(?: up| in)?(?: yet)?|blocked|blocker)\s*[:—–-]\s*\S"
    r"|^(?:the )?(?:next|remaining|last|only remaining) (?:steps?|tasks?|pieces?|parts?|things?|work)(?: left)? (?:is|are|would be|will be)\b|^what (?:remains|is left|is missing|is still (?:open|missing))\b.* (?:is|are)\b|^next,? (?!i\b|i'll|let|we'll check)[^.]*\b(?:has to|have to|needs? to|must|should)\b"
    r"|\b(?:we|you|it|they|\w+s?) (?:should )?still (?:need|needs|have|has|must|lacks?|requires?|add|want)\b|\b(?:is|are) still (?:broken|open|missing|failing|unresolved|disabled|blocked|pending|undocumented|untested|not \w+|to be \w+|hard-?coded|a stub|only \w+)\b|\b(?:has|have) (?:not|yet to)(?: been)? \w+[^.]* yet\b|\b(?:has|have)n't (?:been )?\w+[^.]* yet\b|\b(?:is|are)(?:n't| not)(?: yet)? \w+[^.]* yet\b|\b(?:is|are) not yet \w+"
    r"|\bhas yet to\b|\bi (?:haven't|have not|did not|didn't) (?:yet )?(?:get to|got to|update|updated|write|written|touch|touched|implement|implemented|add|added|migrate|migrated|test|tested|finish|finished|cover|covered|handle|port|ported|document|documented|do|done|run|deploy|deployed|remove|removed)\b|\btomorrow (?:we|you|i) (?:need|have|must|should)\b|\b(?:is|are|remains?) blocked (?:until|by|on)\b|\b(?:only )?half[- ](?:done|finished)\b|\b(?:things?|parts?|pieces?|steps?) (?:are|is) (?:missing|left|open)\b"
    r"|^what(?:'s| is) (?:still )?(?:missing|left|open)\b|^before (?:the |a |any |we )?(?:next )?(?:release|launch|merg\w+|deploy\w*|shipping|ship|going live|go-live|production)[^,]*, [^.]*\b(?:has to|have to|needs? to|must|should)\b|\b(?:is|are) (?:skipped|disabled|commented out|mocked|stubbed|hard-?coded|blocked|on hold) until\b"
    r"|\bbehind a flag until\b|^to finish\b[^,]*, |\b(?:we|you)(?:'ll| will)? still (?:need|have) to\b|\b(?:remains?|left) to be \w+ed\b|\bneeds? to be \w+ed before\b|\bcan't be (?:merged|released|deployed|shipped) (?:until|before)\b|\b(?:once|after|when) [^,]{5,60}, (?:we|you) (?:need|have) to\b"
)
_UP_NEXT = LazyPattern(
    r"next steps?|to-?dos?\b|remaining|follow-?ups?|left to do|still (?:open|to do|missing)|what(?:'s| is) (?:left|missing|next)|not (?:yet )?done|open (?:items|points|tasks|issues|questions)|outstanding|남은|다음 단계|할 일"
)
_OWN_NEXT_STEP = any_case(
    r"\bi(?:'ll| will| still need| need| am| can|'m)\b|\blet me\b|^next,? (?:i|let)\b|\bone more (?:file|thing|look|check)\b"
)
_OFFER = any_case(
    r"^(?:want|would you|should i|shall|do you|let me know|ready|if you|i can|feel free|happy to|just|you can)\b|\b(?:want me to|let me know|would you like|if you(?:'d| would)? (?:like|want|prefer)|i'd suggest|i recommend)\b"
)
_GO_ON = any_case(
    r"^(?:ok(?:ay)?|yes|yeah|yep|sure|please|pls|do|go|continue|proceed|sounds|great|good|perfect|let's|next|now|and|then|네|응|예|좋|그래|진행|계속)\b"
)


def releases(calls: Sequence[ToolCall]) -> Iterator[RuleCandidate]:
    """Yield the releases that were made; of commits and pull requests git tells."""
    for call in calls:
        if not call.shell or call.failed or call.refused or call.aside:
            continue
        if release := _RELEASE.search(call.input):
            yield RuleCandidate(Kind.PROGRESS, f"Released {release[1]} (`{release[0]}`).", call.line, 0.9)


def reported_work(sentences: Sequence[Sentence]) -> Iterator[RuleCandidate]:
    """Yield what the assistant reports that it did."""
    for sentence in sentences:
        if sentence.role != Role.CLAUDE or not sentence.closing or sentence.aside:
            continue
        text = clean_sentence(sentence.text)
        if (
            not _FINISHED.match(text)
            or _TRIFLE.search(text)
            or (len(text.split()) < WORDS_ABOUT_TESTS and _ABOUT_TESTS.search(text))
            or not count_names(text)
            or text.endswith("?")
            or _OFFER.search(text)
        ):
            continue
        if _NOT_DONE.search(" ".join(text.split()[:8])) or not stands_alone(text) or len(text.split()) < 5:
            continue
        yield RuleCandidate(Kind.PROGRESS, text, sentence.line, 0.65)


def open_ends(sentences: Sequence[Sentence]) -> Iterator[RuleCandidate]:
    """Yield what the last report says is left to do, and what earlier ones said plainly and nobody took up."""
    last = max((each.line for each in sentences if each.closing and not each.aside), default=0)
    answered = any(each.role == Role.USER and each.line > last for each in sentences)
    for number, sentence in enumerate(sentences):
        if not sentence.closing or sentence.role != Role.CLAUDE or sentence.aside:
            continue
        text = _open_end(sentence, plainly=answered or sentence.line != last)
        if text and (sentence.line == last or not _is_taken_up(sentence, sentences[number + 1 :])):
            weight = 0.8 if _PLAINLY_OPEN.search(text) else 0.65
            yield RuleCandidate(Kind.PROGRESS, text, sentence.line, weight, tags=(OPEN_QUESTION,))


def _open_end(sentence: Sentence, *, plainly: bool) -> str:
    """Return what the sentence says is left to do; empty where it doesn't."""
    text = clean_sentence(sentence.text)
    is_listed = sentence.bullet and _UP_NEXT.search(sentence.section) is not None
    says_plainly = _PLAINLY_OPEN.search(text) is not None and not _OWN_NEXT_STEP.search(text)
    if (
        _OFFER.search(text)
        or len(text) > LONGEST
        or re.match(r"(?:it|this|that|these|those|they)\b", text, re.IGNORECASE)
    ):
        return ""
    if text.endswith("?") and not text.lower().startswith("open "):
        return ""
    if says_plainly and len(text.split()) >= FEWEST_OPEN_WORDS:
        return text
    if is_listed and len(text.split()) >= FEWEST_LISTED_WORDS and not _OWN_NEXT_STEP.search(text):
        if _OPEN_END.search(text):
            return text
        return f"To do: {text[0].lower() if text[1].islower() else text[0]}{text[1:]}"
    if plainly or not (
        _OPEN_END.search(text) or (sentence.bullet and re.search(r"left|open|still", sentence.section))
    ):
        return ""
    is_clear = count_names(text) and len(text.split()) >= FEWEST_OPEN_WORDS and not rate_worth(text).dangling
    return text if is_clear else ""


def _is_taken_up(sentence: Sentence, later: Sequence[Sentence]) -> bool:
    """Whether the user said to go on with it, or it was mentioned again."""
    words = frozenset(lexemes(sentence.text)) - stop_lexemes()
    answer = next((each for each in later if each.role == Role.USER and not each.aside), None)
    if answer is not None and (_GO_ON.match(answer.text) or len(answer.text.split()) < FEWEST_OPEN_WORDS):
        return True
    return any(
        len(words & set(lexemes(each.text))) >= MENTION_SHARE * len(words)
        for each in later
        if each.line != sentence.line
    )
