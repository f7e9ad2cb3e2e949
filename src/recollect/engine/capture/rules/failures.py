"""Failures and what mended them: a command that failed, what was done, and the same command succeeding; and what was said of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from recollect.engine.capture.item import SIGNS
from recollect.engine.capture.rules.candidate import LONGEST, Candidate
from recollect.engine.capture.rules.deeds import Deed, bare, base_name, commands, key, purpose_of
from recollect.engine.capture.rules.speech import Sentence
from recollect.engine.capture.rules.standing import announces, hedged, names, stands_alone, tidy
from recollect.engine.text.expression import Expression
from recollect.model.error_signs import error_signs, sign_of
from recollect.model.lexemes import lexemes, stop_lexemes
from recollect.model.memory import Kind
from recollect.ports.transcripts import Role, Step

MOST_OPEN = 8
MOST_FILES = 3
LONGEST_TOLD = 140

_CAUSE = Expression(
    r"\b(?:(?:root |real |actual |underlying )?(?:cause|culprit) (?:is|was|of|:)|root cause|(?:the |main |real |actual )?(?:issue|problem|bug|reason|error|failure|crash)(?:s)? (?:is|was|were|here is|turned out|came from|comes from|occurs|happens|happened)"
    r"|(?:is|was|were|are) (?:caused by|due to|because)|because|caused by|due to|failed because|fails because|didn't|doesn't|missing|which means|mismatch|conflicts?|expects?|expected|should be|instead of|needs? (?:to|a|the)|must|not (?:defined|found|installed|set|exported|available))\b"
    r"|(?:원인은|문제는|때문에|때문입니다)",
    re.IGNORECASE,
)
_STRONG_CAUSE = Expression(
    r"\b(?:root cause|(?:the |main |real |actual )?(?:issue|problem|bug|culprit) (?:is|was|turned out)(?: that)?\b|(?:is|was|were) caused by|failed because|fails because)|(?:원인은|문제는)",
    re.IGNORECASE,
)
_LEAD = Expression(
    r"^(?:the |main |real |actual |root )*(?:issue|problem|bug|cause|culprit|reason|root cause)(?: here)? (?:is|was|turned out to be)(?: that| clear| simple| straightforward)*:?\s+(?!in\b|with\b|here\b|at\b|on\b)|^root cause:?\s+|^problem(?: found)?:\s+|^issue(?: found)?:\s+",
    re.IGNORECASE,
)
_FIXED = Expression(
    r"^(?:fixed|resolved|solved|corrected|repaired)\b(?! in\b)|\b(?:fixed by|resolved by|solved by|the fix (?:is|was)|fix(?:ed)?:|this fixes|now (?:correctly|properly))\b|(?:해결했|수정했|고쳤)",
    re.IGNORECASE,
)
_MENDING = Expression(
    r"^(?:fixed|added|changed|increased|reduced|updated|replaced|removed|set|moved|renamed|switched|corrected|installed|upgraded|pinned|enabled|disabled|the fix (?:is|was) to)\b",
    re.IGNORECASE,
)
_RIGHT = Expression(
    r"\b(?:is|are|which is|looks?) (?:correct|fine|ok|right|expected|intended)\b", re.IGNORECASE
)
_TRIVIAL = Expression(
    r"parse error near|no matches found|unexpected eof|syntax error near|unexpected token|unknown (?:file attribute|option|flag)|usage:|no such file or directory|not a directory|is a directory|permission denied|cannot access|nothing to commit"
    r"|pathspec|already exists|did not match any|no such (?:remote|ref)|bad revision|unknown revision|ambiguous argument|not a git repository|no changes added|command not found: (?:timeout|tree|rg|fd|jq|gh|tac|column)"
)


@dataclass(slots=True)
class Trouble:
    """A failure that waits to be mended. Plain values: it is carried to the next call."""

    key: str
    command: str
    told: str  # its most telling line, as it stood
    signs: list[str]
    line: int
    files: list[str] = field(default_factory=list)
    tries: list[str] = field(default_factory=list)
    reported: str = ""  # what was written down of it while it was open

    def as_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "command": self.command[:200],
            "told": self.told,
            "signs": self.signs[:3],
            "line": self.line,
            "files": self.files[:MOST_FILES],
            "reported": self.reported,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Trouble:
        """Raises KeyError, TypeError for what is none."""
        return cls(
            key=str(value["key"]),
            command=str(value["command"]),
            told=str(value["told"]),
            signs=[str(sign) for sign in value["signs"]],
            line=int(value["line"]),
            files=[str(name) for name in value.get("files", ())],
            reported=str(value.get("reported", "")),
        )


def mended(done: Sequence[Deed], said: Sequence[Sentence], troubles: list[Trouble]) -> Iterator[Candidate]:
    """Failures that were mended; those that were not are left in `troubles`, the oldest first."""
    for deed in done:
        if deed.refused:
            continue
        if deed.writes:
            name = base_name(deed.asked)
            for trouble in troubles:
                if name and name not in trouble.files:
                    trouble.files.append(name)
        elif deed.shell and deed.failed:
            _note(deed, troubles)
        elif deed.shell and deed.answered:
            yield from _succeeded(deed, troubles, said)
    del troubles[:-MOST_OPEN]


def _note(deed: Deed, troubles: list[Trouble]) -> None:
    signs = [sign for sign in deed.signs() if not _TRIVIAL.search(sign)]
    parts = commands(deed.asked)
    tried = next((part for part in reversed(parts) if purpose_of(part)), parts[-1] if parts else "")
    if not signs or not tried:
        return
    known = next((one for one in troubles if one.key == key(tried)), None)
    if known is None:
        troubles.append(Trouble(key(tried), tried, _telling(deed.answer, signs), signs, deed.line))
    elif set(signs).isdisjoint(known.signs):
        known.signs = [*known.signs, *signs][:5]


def _telling(answer: str, signs: Sequence[str]) -> str:
    """The line that the first sign was made of, as it stood."""
    for line in answer.splitlines():
        if signs[0] in error_signs(line):
            found = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", line).split())
            found = re.sub(r"^.*?\b(?:error|err)=\"?(?=[A-Za-z])", "", found)
            found = re.sub(r"^(?:E\s+|\[\w+\]\s+|[│|>×✖]\s*)+", "", found)
            return found if len(found) <= LONGEST_TOLD else found[:LONGEST_TOLD].rsplit(" ", 1)[0] + "…"
    return signs[0]


def _succeeded(deed: Deed, troubles: list[Trouble], said: Sequence[Sentence]) -> Iterator[Candidate]:
    keys = {key(part): part for part in commands(deed.asked)}
    for trouble in [one for one in troubles if one.key in keys]:
        troubles.remove(trouble)
        command = keys[trouble.key]
        how = _how(trouble, command)
        if not how:
            continue
        cause = _cause(said, trouble, until=deed.answered or deed.line)
        told = trouble.told.rstrip(".")
        content = f"`{_short(trouble.command)}` failed: {told}. {cause + ' ' if cause else ''}{how}"
        if len(content) > LONGEST and cause:
            content = f"{told}. {cause} {how}"
        if len(content) > LONGEST:
            content = f"{told}. {cause or how}"
        yield Candidate(
            Kind.ERROR,
            content[:LONGEST],
            trouble.line,
            0.85 if cause else 0.6,
            supersedes=trouble.reported,
            metadata={SIGNS: trouble.signs[:5]},
        )


def _how(trouble: Trouble, command: str) -> str:
    if trouble.files:
        names_ = [f"`{name}`" for name in trouble.files[-MOST_FILES:]]
        return f"Fixed by editing {', '.join(names_)}."
    if bare(command) != bare(trouble.command) and purpose_of(command):
        return f"Worked as `{_short(command)}`."
    return ""


def _short(command: str) -> str:
    command = " ".join(command.split())
    return command if len(command) <= 90 else f"{command[:87]}..."


def _cause(said: Sequence[Sentence], trouble: Trouble, *, until: int) -> str:
    """What the assistant said the cause was, between the failure and its end."""
    best, found = 0, ""
    for sentence in said:
        if sentence.role != Role.CLAUDE or not trouble.line < sentence.line <= until + 3:
            continue
        text = tidy(_LEAD.sub("", sentence.text))
        if len(text) > 170 or len(text) < 25 or announces(text) or text.endswith("?") or not names(text):
            continue
        if not stands_alone(text) or not _shared(text, trouble) or _RIGHT.search(text):
            continue
        score = (
            2 * (_STRONG_CAUSE.search(sentence.text) is not None)
            + (_CAUSE.search(text) is not None)
            - hedged(text)
        )
        if score > best:
            best, found = score, text
    return found


def _shared(text: str, trouble: Trouble) -> bool:
    """Whether it speaks of the failure: it has a name or a telling word in common with it."""
    known = (
        set(lexemes(f"{trouble.told} {' '.join(trouble.files)} {' '.join(trouble.signs)}"))
        - stop_lexemes()
        - _failing()
    )
    return bool(known & set(lexemes(text)))


@cache
def _failing() -> frozenset[str]:
    return frozenset(
        lexemes(
            "error fail failed failure test tests expected got want go py ts js rs line file cmd src type value"
        )
    )


def reported(steps: Sequence[Step], said: Sequence[Sentence], done: Sequence[Deed]) -> Iterator[Candidate]:
    """Failures that the person told of, with what the assistant says it did about them."""
    turns = [number for number, step in enumerate(steps) if step.role == Role.USER and not step.aside]
    for place, number in enumerate(turns):
        step = steps[number]
        signs = [sign for sign in error_signs(step.text) if not _TRIVIAL.search(sign)]
        end = turns[place + 1] if place + 1 < len(turns) else len(steps)
        files = [base_name(deed.asked) for deed in done if deed.writes and number < deed.index < end]
        if not signs or not files:
            continue
        last = steps[end - 1].line
        trouble = Trouble("", "", _telling(step.text, signs), signs, step.line, list(dict.fromkeys(files)))
        cause = _cause(said, trouble, until=last)
        fix = _fix(said, first=step.line, last=last)
        if not cause and not fix:
            continue
        content = f"{trouble.told.rstrip('.')}. {cause}".strip()
        if fix and fix != cause and len(content) + len(fix) < LONGEST:
            content = f"{content} {fix}"
        elif len(content) + len(how := _how(trouble, "")) < LONGEST:
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


def told(said: Sequence[Sentence]) -> Iterator[Candidate]:
    """What was said of a failure's cause, and of how it was mended."""
    for number, sentence in enumerate(said):
        if sentence.role != Role.CLAUDE or sentence.speculative or announces(sentence.text):
            continue
        text = tidy(sentence.text)
        if hedged(text) or text.endswith("?"):
            continue
        if _STRONG_CAUSE.search(sentence.text):
            cause = tidy(_LEAD.sub("", sentence.text))
            after = said[number + 1] if number + 1 < len(said) else None
            fix = (
                tidy(after.text)
                if after and after.line == sentence.line and _FIXED.search(after.text)
                else ""
            )
            content = (
                f"{cause} {fix}".strip() if len(cause) + len(fix) < LONGEST and not announces(fix) else cause
            )
            if (
                names(cause)
                and stands_alone(cause)
                and not _RIGHT.search(cause)
                and not re.search(r"\bI\b", content)
            ):
                yield Candidate(
                    Kind.ERROR,
                    content,
                    sentence.line,
                    0.75 if sentence.closing else 0.65,
                    metadata=_signs(content),
                )
        elif sentence.closing and _FIXED.search(sentence.text) and names(text) and stands_alone(text):
            yield Candidate(Kind.ERROR, text, sentence.line, 0.7, metadata=_signs(text))


def _signs(text: str) -> dict[str, Any]:
    found = error_signs(text)
    return {SIGNS: list(found)} if found else {}


def still_open(troubles: Sequence[Trouble]) -> Iterator[tuple[Trouble, str]]:
    """Failures of tests and builds that nothing has mended yet, in words."""
    for trouble in troubles:
        if purpose_of(trouble.command) and sign_of(trouble.told):
            yield (
                trouble,
                f"Unresolved: `{_short(trouble.command)}` fails: {trouble.told.rstrip('.')}."[:LONGEST],
            )
