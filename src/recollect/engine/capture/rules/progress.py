"""Progress and open ends: what was done and committed, what is left, and what was asked for at the beginning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from recollect.engine.capture.rules.candidate import LONGEST, Candidate
from recollect.engine.capture.rules.deeds import Deed
from recollect.engine.capture.rules.speech import Sentence, is_log, pasted, plain, split_sentences, spoken
from recollect.engine.capture.rules.standing import names, stands_alone, tidy
from recollect.engine.reflect import OPEN_QUESTION
from recollect.engine.text.expression import Expression
from recollect.engine.text.worth import worth
from recollect.model.memory import Kind
from recollect.ports.transcripts import Role, Step

WORDY = 12  # words, from which a report on tests says what was tested
LONGEST_ASKED = 220
MOST_ASKED = 3  # turns in which the person comes to the point

_COMMIT = Expression(r"\bgit\b[^\n&|;]*\bcommit\b")
_HEREDOC = Expression(r"<<-?\s*['\"]?(\w+)['\"]?\n(.*?)\n\s*\1", re.DOTALL)
_MESSAGE = Expression(r"(?:-m|--message)[ =]?(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)')", re.DOTALL)
_COMMITTED = Expression(r"^\[[^\]\n]*\b[0-9a-f]{7,40}\]|\d+ files? changed", re.MULTILINE)
_PULL_REQUEST = Expression(r"\b(?:gh pr create|glab mr create)\b")
_TITLE = Expression(r"(?:--title|-t)[ =](?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)')")
_ADDRESS = Expression(r"https?://\S+/(?:pull|merge_requests)/(\d+)")
_RELEASE = Expression(
    r"\b(?:gh release create|git tag(?: -a)?|npm publish|cargo publish|twine upload|goreleaser release)\s+(v?\d[\w.-]*)"
)
_EMPTY_SUBJECT = Expression(
    r"^(?:wip|fix(?:es|ed)?|update[sd]?|changes?|temp|tmp|test|commit|save|stuff|misc|cleanup|lint|format(?:ting)?)\W*$",
    re.IGNORECASE,
)

_VERBS = (
    "added|updated|fixed|removed|created|implemented|refactored|replaced|renamed|moved|changed|increased|decreased|reduced|switched|extracted|migrated|converted|introduced|configured|enabled|disabled|wired|rewrote"
    "|bumped|upgraded|downgraded|deleted|merged|split|hoisted|consolidated|simplified|registered|documented|deprecated|integrated|pinned|set up|improved|restructured|centralized|unified|dropped|swapped|restored|hardened|resolved|made"
)
_DONE = Expression(
    rf"^(?:(?:`[^`]+`|[\w./ -]{{2,40}}?)\s*(?:\([^)]*\))?\s*[-–—:]+\s*)?(?:now )?(?:{_VERBS})\b"
    rf"|^(?!(?:the|an?|no|only|since|each|every|if|when|exported|this|that)\b)(?:[\w`()./-]+\s+){{1,3}}(?:is |are |was |were |has been |have been )?(?:now )?(?:{_VERBS})(?:\s*$|\s+[-–—]|\s+(?:at|to|in|from|with|instead|once)\b)",
    re.IGNORECASE,
)
_TRIFLE = Expression(
    r"\b(?:added|removed|updated|fixed|cleaned up)\b(?: \w+){0,2} (?:now-)?(?:unused )?(?:`[^`]+` )?(?:imports?|docstrings?|doc comments?|comments?|typos?|whitespace|formatting)\b",
    re.IGNORECASE,
)
_OF_TESTS = Expression(
    r"^[^.]{0,60}\b(?:added|updated|created|wrote|fixed|extended)\b(?: \w+){0,3}? ?(?:[\"`][^\"`]*[\"`] )?(?:(?:unit|integration|regression|new|existing|more|the|a|e2e|failing) )*(?:sub)?(?:tests?|test cases?|cases?|coverage|assertions?|fixtures?)\b"
    r"|`Test\w+`|^`?[\w./-]*(?:_test|\.test|\.spec|test_)[\w.]*`?\s*[-–—:]",
    re.IGNORECASE,
)
_NOT_DONE = Expression(
    r"\b(?:not (?:yet )?|needs? to be|should be|must be|to be|can be|could be|would be|will be|isn't|wasn't|haven't|hasn't|never|if)\b",
    re.IGNORECASE,
)
_OPEN = Expression(
    r"\b(?:still (?:need|needs|have|has|to do|open|missing|fail|broken|unresolved)|next steps?\b|todo\b|to-do|remaining (?:work|item|issue|task|step)s?|left to do|follow-?up|not yet (?:implemented|done|supported|wired|tested|covered|handled)|hasn't been|haven't been"
    r"|needs? to be (?:done|implemented|added|fixed|updated|tested|wired|run|set|configured|merged|rebased|migrated|removed)|you(?:'ll| will)? (?:(?:still )?need to|may want to|might want to|should (?:also )?|want to|must|have to)|(?:one|a) thing (?:left|remaining)|pending\b|remains? (?:to|open|unresolved|undone)|for (?:a )?later|in a future (?:pr|change|release)|future (?:work|improvement)|out of scope)"
    r"|(?:남은 (?:작업|일)|다음 단계|아직 .{2,}(?:않|못|안)|해야 (?:합니다|한다|할))",
    re.IGNORECASE,
)
_OFFER = Expression(
    r"^(?:want|would you|should i|shall|do you|let me know|ready|if you|i can|feel free|happy to|just|you can)\b|\b(?:want me to|let me know|would you like|if you(?:'d| would)? (?:like|want|prefer)|i'd suggest|i recommend)\b",
    re.IGNORECASE,
)
_SPECIFIC = Expression(r"`|\w[/_.]\w|\d\.\d|[a-z][A-Z]|--\w")
_NOT_A_REQUEST = Expression(
    r"^(?:/|<|hello|hi\b|hey\b|thanks|ok\b|yes\b|no\b|continue|go on|commit\b|push\b|review this change for|implement the following plan|operation stopped|\[)",
    re.IGNORECASE,
)


def committed(done: Sequence[Deed]) -> Iterator[Candidate]:
    """Commits, pull requests and releases that were made."""
    for deed in done:
        if not deed.shell or deed.failed or deed.refused or deed.aside:
            continue
        if (
            _COMMIT.search(deed.asked)
            and _COMMITTED.search(deed.answer)
            and (subject := _subject(deed.asked))
        ):
            yield Candidate(Kind.PROGRESS, f"Committed: {subject}", deed.line, 0.9)
        if _PULL_REQUEST.search(deed.asked) and (address := _ADDRESS.search(deed.answer)):
            title = _TITLE.search(deed.asked)
            named = f": {title[1] or title[2]}" if title else ""
            yield Candidate(
                Kind.PROGRESS, f"Opened PR #{address[1]}{named} ({address[0]})"[:LONGEST], deed.line, 0.95
            )
        if released := _RELEASE.search(deed.asked):
            yield Candidate(Kind.PROGRESS, f"Released {released[1]} (`{released[0]}`).", deed.line, 0.9)


def _subject(asked: str) -> str:
    heredoc = _HEREDOC.search(asked)
    message = _MESSAGE.search(asked)
    text = heredoc[2] if heredoc else (message[1] or message[2] or "") if message else ""
    subject = next((line.strip() for line in text.splitlines() if line.strip()), "").replace('\\"', '"')
    if len(subject.split()) < 2 or _EMPTY_SUBJECT.match(subject):
        return ""
    return subject[: LONGEST - 20]


def finished(said: Sequence[Sentence]) -> Iterator[Candidate]:
    """What the assistant says it did, as it reports to the person."""
    for sentence in said:
        if sentence.role != Role.CLAUDE or not sentence.closing or sentence.aside:
            continue
        text = tidy(sentence.text)
        if (
            not _DONE.match(text)
            or _TRIFLE.search(text)
            or (len(text.split()) < WORDY and _OF_TESTS.search(text))
            or not names(text)
            or text.endswith("?")
            or _OFFER.search(text)
        ):
            continue
        if _NOT_DONE.search(" ".join(text.split()[:8])) or not stands_alone(text) or len(text.split()) < 5:
            continue
        yield Candidate(Kind.PROGRESS, text, sentence.line, 0.65)


def open_ends(said: Sequence[Sentence]) -> Iterator[Candidate]:
    """What is left to do, as far as the last report says."""
    last = max((one.line for one in said if one.closing and not one.aside), default=0)
    if any(one.role == Role.USER and one.line > last for one in said):
        return
    for sentence in said:
        if sentence.line != last or not sentence.closing or sentence.role != Role.CLAUDE:
            continue
        text = tidy(sentence.text)
        left = re.search(r"next step|todo|remaining|follow-?up|left|open|still", sentence.section)
        if (
            not (_OPEN.search(text) or (left and sentence.bullet))
            or _OFFER.search(text)
            or text.endswith("?")
        ):
            continue
        if not names(text) or len(text) > LONGEST or len(text.split()) < 5 or worth(text).dangling:
            continue
        if re.match(r"(?:it|this|that|these|those|they)\b", text, re.IGNORECASE):
            continue
        yield Candidate(Kind.PROGRESS, text, sentence.line, 0.65, tags=(OPEN_QUESTION,))


def asked_for(steps: Sequence[Step]) -> Candidate | None:
    """What the person wanted of the conversation, in the first thing that says something."""
    for step in [one for one in steps if one.role == Role.USER and not one.aside][:MOST_ASKED]:
        if pasted(step):
            return None
        if _NOT_A_REQUEST.match(step.text.strip()):
            continue
        said = split_sentences(plain(" ".join(spoken(step).split("\n\n")[0].split())))
        text = ""
        for part in said:
            if len(text) + len(part) > LONGEST_ASKED:
                break
            text = f"{text} {part}".strip()
        text = text.rstrip(":").strip()
        found = worth(text)
        if len(text.split()) < 4 or is_log(text):
            continue
        if len(text) < 25 or found.chatter or found.words < (4 if _SPECIFIC.search(text) else 6):
            continue
        return Candidate(Kind.CONTEXT, f"Asked: {text}", step.line, 0.8)
    return None
