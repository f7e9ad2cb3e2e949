"""What was said of failures: by the person who met them, and by the assistant who found the cause."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mindhold.engine.capture.item import SIGNS
from mindhold.engine.capture.rules.candidate import LONGEST, Candidate
from mindhold.engine.capture.rules.causes import (
    SAID_TO_BE_RIGHT,
    STRONG_CAUSE,
    cause_of,
    stated,
    with_its_cure,
)
from mindhold.engine.capture.rules.deeds import Deed, base_name, commands
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
from mindhold.engine.capture.rules.trouble import Trouble, how_mended, is_slip, shortened, telling_line
from mindhold.engine.text.expression import Expression
from mindhold.model.error_signs import error_signs
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role, Step

_FIXED = Expression(
    r"^(?:fixed|resolved|solved|corrected|repaired)\b(?! in\b)|\b(?:fixed by|resolved by|solved by|the fix (?:is|was)|fix(?:ed)?:|this fixes|now (?:correctly|properly))\b|(?:해결했|수정했|고쳤)",
    re.IGNORECASE,
)
_THE_FIX = Expression(r"^the fix (?:is|was) to (?=\w+ .*\.$)", re.IGNORECASE)
_MENDING = Expression(
    r"^(?:fixed|added|changed|increased|reduced|updated|replaced|removed|set|moved|renamed|switched|corrected|installed|upgraded|pinned|enabled|disabled|the fix (?:is|was) to)\b",
    re.IGNORECASE,
)
_CONFLICT = Expression(r"^CONFLICT \([^)]*\): .*?\bin (\S+)", re.MULTILINE)
_RESOLVED = Expression(
    r"\b(?:conflicts?|resolved|resolution|both (?:sides|changes)|kept?|combin\w+)\b", re.IGNORECASE
)


def reported(steps: Sequence[Step], said: Sequence[Sentence], done: Sequence[Deed]) -> Iterator[Candidate]:
    """Failures that the person told of, with what the assistant says it did about them."""
    turns = [number for number, step in enumerate(steps) if step.role == Role.USER and not step.aside]
    for place, number in enumerate(turns):
        step = steps[number]
        signs = [sign for sign in error_signs(step.text) if not is_slip(sign)]
        end = turns[place + 1] if place + 1 < len(turns) else len(steps)
        files = [base_name(deed.asked) for deed in done if deed.writes and number < deed.index < end]
        if not signs or not files:
            continue
        last = steps[end - 1].line
        trouble = Trouble(
            "", "", telling_line(step.text, signs), signs, step.line, list(dict.fromkeys(files))
        )
        cause = cause_of(said, trouble, until=last)
        fix = _fix(said, first=step.line, last=last)
        if not cause and not fix:
            continue
        content = f"{trouble.told.rstrip('.')}. {cause}".strip()
        if fix and fix != cause and len(content) + len(fix) < LONGEST:
            content = f"{content} {fix}"
        elif len(content) + len(how := how_mended(trouble, "")) < LONGEST:
            content = f"{content} {how}"
        yield Candidate(Kind.ERROR, content[:LONGEST], step.line, 0.85, metadata={SIGNS: signs[:5]})


def _fix(said: Sequence[Sentence], *, first: int, last: int) -> str:
    """How the report says it was mended."""
    for sentence in said:
        if sentence.role == Role.CLAUDE and sentence.closing and first < sentence.line <= last:
            text = tidy(sentence.text)
            if _MENDING.match(text) and not hedged(text) and 20 <= len(text) <= 200:
                return text
    return ""


def conflicts(done: Sequence[Deed], said: Sequence[Sentence]) -> Iterator[Candidate]:
    """Merges that conflicted, with the files that were edited for it and what was said of that."""
    for deed in done:
        found = _CONFLICT.findall(deed.answer) if deed.shell and deed.failed else []
        if not found or not (parts := commands(deed.asked)):
            continue
        edited = {base_name(one.asked) for one in done if one.writes and one.index > deed.index}
        files = [base_name(name) for name in found if base_name(name) in edited]
        if not files:
            continue
        named = ", ".join(f"`{name}`" for name in files[:3])
        content = f"`{shortened(parts[-1])}` conflicted in {named}. Resolved by editing there."
        how = _resolution(said, first=deed.line)
        if how and len(content) + len(how) < LONGEST:
            content = f"`{shortened(parts[-1])}` conflicted in {named}. {how}"
        yield Candidate(
            Kind.ERROR, content[:LONGEST], deed.line, 0.8, metadata={SIGNS: list(error_signs(deed.answer))}
        )


def _resolution(said: Sequence[Sentence], *, first: int) -> str:
    for sentence in said:
        if sentence.role == Role.CLAUDE and sentence.closing and sentence.line > first:
            text = tidy(sentence.text)
            if _RESOLVED.search(text) and names(text) and not hedged(text) and 20 <= len(text) <= 220:
                return text
    return ""


def told(said: Sequence[Sentence]) -> Iterator[Candidate]:
    """What was said of a failure's cause, and of how it was mended."""
    for number, sentence in enumerate(said):
        if sentence.role != Role.CLAUDE or sentence.speculative or announces(sentence.text):
            continue
        text = tidy(sentence.text)
        if hedged(text) or text.endswith("?"):
            continue
        if STRONG_CAUSE.search(sentence.text) and not reports(text) and not sentence.tentative:
            content = _with_its_fix(said, number)
            weight = 0.75 if sentence.closing else 0.65
        elif _THE_FIX.match(text) and names(text) and not announces(text):
            content, weight = f"Fix: {_THE_FIX.sub('', text)}", 0.65
        elif sentence.closing and _FIXED.search(sentence.text) and names(text) and stands_alone(text):
            content, weight = text, 0.7
        else:
            continue
        if content:
            signs = error_signs(content)
            metadata = {SIGNS: list(signs)} if signs else {}
            yield Candidate(Kind.ERROR, content, sentence.line, weight, metadata=metadata)


def _with_its_fix(said: Sequence[Sentence], number: int) -> str:
    """A cause, and the fix if that is said next; empty where the cause can't stand by itself."""
    sentence, after = said[number], said[number + 1] if number + 1 < len(said) else None
    cause = stated(sentence.text)
    if not names(cause) or not stands_as_told(cause) or SAID_TO_BE_RIGHT.search(cause):
        return ""
    if after is None or after.line != sentence.line:
        return cause
    if not _FIXED.search(after.text) or announces(after.text):
        return with_its_cure(cause, [after], line=sentence.line)[0]
    fix = tidy(after.text)
    return f"{cause} {fix}" if len(cause) + len(fix) < LONGEST else cause
