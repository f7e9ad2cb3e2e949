"""Failures: commands that failed and what fixed them, and the causes that somebody stated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from mindhold.capture.items import LONGEST, SIGNS, RuleCandidate
from mindhold.capture.rules.sentences import (
    Sentence,
    announces,
    asks,
    hedged,
    korean,
    names,
    reports,
    stands_alone,
    stands_as_told,
    tidy,
)
from mindhold.capture.rules.tool_calls import (
    ToolCall,
    base_name,
    changing,
    command_key,
    command_variables,
    commands,
    purpose_of,
    without_variables,
)
from mindhold.model.error_signs import error_signs, sign_of
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role, TranscriptStep
from mindhold.text.pattern import LazyPattern

MOST_FILES = 3
MOST_TRIES = 2
LONGEST_TOLD = 140

# What tells of a slip in the command itself, not of anything that could be mended.
# Failures of the call itself, which another call mends.
_MISCALLED = LazyPattern(
    r"command not found|missing script|unknown|unrecognized|no such (?:option|command)|no module named|not recognized|invalid (?:option|choice|value)|unexpected argument"
)
_LACKING = LazyPattern(
    r"no module named|cannot find (?:module|package)|not found|not set|not installed|is missing|econnrefused|connection refused|does not exist"
)
_THROWN = LazyPattern(r"[\w.]*\w(?:error|exception)\b", re.IGNORECASE)
_TRIVIAL = LazyPattern(
    r"parse error near|no matches found|unexpected eof|syntax error near|unexpected token|unknown (?:file attribute|option|flag)|usage:|no such file or directory|not a directory|is a directory|permission denied|cannot access|nothing to commit"
    r"|pathspec|already exists|did not match any|no such (?:remote|ref)|bad revision|unknown revision|ambiguous argument|not a git repository|no changes added|command not found: (?:timeout|tree|rg|fd|jq|gh|tac|column)"
)


_EDITED = "Fixed by editing"


@dataclass(slots=True)
class OpenFailure:
    """A failure that waits to be mended. Plain values: it is carried to the next call."""

    key: str
    command: str
    told: str  # its most telling line, as it stood
    signs: list[str]
    line: int
    files: list[str] = field(default_factory=list)
    tries: list[str] = field(default_factory=list)  # commands that changed something since
    reported: str = ""  # what was written down of it while it was open

    def as_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "command": self.command[:200],
            "told": self.told,
            "signs": self.signs[:3],
            "line": self.line,
            "files": self.files[:MOST_FILES],
            "tries": self.tries[-MOST_TRIES:],
            "reported": self.reported,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> OpenFailure:
        """Raises KeyError, TypeError for what is none."""
        return cls(
            key=str(value["key"]),
            command=str(value["command"]),
            told=str(value["told"]),
            signs=[str(sign) for sign in value["signs"]],
            line=int(value["line"]),
            files=[str(name) for name in value.get("files", ())],
            tries=[str(name) for name in value.get("tries", ())],
            reported=str(value.get("reported", "")),
        )


def is_slip(sign: str) -> bool:
    """Whether it tells of a slip in the command alone. What a program throws is none, whatever it says."""
    return _TRIVIAL.search(sign) is not None and _THROWN.match(sign) is None


def telling_line(answer: str, signs: Sequence[str]) -> str:
    """The line that the first sign was made of, as it stood."""
    for line in answer.splitlines():
        if signs[0] in error_signs(line):
            found = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", line).split())
            found = re.sub(r"^.*?\b(?:error|err)=\"?(?=[A-Za-z])", "", found)
            found = re.sub(r"^(?:E\s+|\[\w+\]\s+|[│|>×✖]\s*)+", "", found)
            return found if len(found) <= LONGEST_TOLD else found[:LONGEST_TOLD].rsplit(" ", 1)[0] + "…"
    return signs[0]


def edited(how: str) -> bool:
    """Whether it only says where something was changed."""
    return how.startswith(_EDITED)


def how_mended(trouble: OpenFailure, command: str) -> str:
    """By an edit, another call or a command; where something was not there, rather by the command that brought it."""
    lacked = trouble.tries and _LACKING.search(" ".join(trouble.signs))
    if trouble.files and not lacked:
        names_ = [f"`{name}`" for name in trouble.files[-MOST_FILES:]]
        return f"{_EDITED} {', '.join(names_)}."
    if (
        without_variables(command) != without_variables(trouble.command)
        and purpose_of(command)
        and _MISCALLED.search(" ".join(trouble.signs))
    ):
        return f"Worked as `{shortened(command)}`."
    if without_variables(command) == without_variables(trouble.command) and command_variables(
        command
    ) not in (
        "",
        command_variables(trouble.command),
    ):
        return f"Worked as `{shortened(command)}`."
    if trouble.tries:
        return f"Fixed by {' and '.join(f'`{shortened(one)}`' for one in trouble.tries[-MOST_TRIES:])}."
    return ""


def shortened(command: str) -> str:
    command = " ".join(command.split())
    return command if len(command) <= 90 else f"{command[:87]}..."


LONGEST_CAUSE = 200
LONGEST_ACCOUNT = 220
SHORTEST_NAME = 4

_CAUSE = LazyPattern(
    r"\b(?:(?:root |real |actual |underlying )?(?:cause|culprit) (?:is|was|of|:)|root cause|(?:the |main |real |actual )?(?:issue|problem|bug|reason|error|failure|crash)(?:s)? (?:is|was|were|here is|turned out|came from|comes from|occurs|happens|happened)"
    r"|(?:is|was|were|are) (?:caused by|due to|because)|because|caused by|due to|failed because|fails because|didn't|doesn't|missing|which means|mismatch|conflicts?|expects?|expected|should be|instead of|needs? (?:to|a|the)|must|not (?:defined|found|installed|set|exported|available))\b"
    r"|(?:원인은|문제는|때문에|때문입니다)",
    re.IGNORECASE,
)
STRONG_CAUSE = LazyPattern(
    r"\b(?:root cause|(?:the |main |real |actual )?(?:issue|problem|bug|culprit) (?:is|was|turned out)(?: that)?\b|(?:is|was|were) caused by|failed because|fails because)|(?:원인은|문제는)",
    re.IGNORECASE,
)
LEAD = LazyPattern(
    r"^(?:the |main |real |actual |root )*(?:issue|problem|bug|cause|culprit|reason)(?: here)? (?:is|was|turned out to be)"
    r"(?: that\b| clear:| simple:| straightforward:|:)\s*|^root cause:\s+|^problem(?: found)?:\s+|^issue(?: found)?:\s+",
    re.IGNORECASE,
)
# How a report tells of a failure that is mended: why it was, and what was done.
_EXPLAINS = LazyPattern(
    r"\b(?:was|were|is) (?:because|caused by|due to|that)\b|\b(?:failed|crashed|broke|hung|timed out|(?:did not|didn't|couldn't|could not|wouldn't) \w+) (?:because|since|due to|as)\b|\bcame from\b|, so (?:i|we) \w+|\bwas (?:missing|in use|unset|expired|outdated|out of date|wrong|not (?:set|installed|running|found|defined|there))\b"
    r"|^(?:the )?(?:root )?(?:cause|culprit|reason)\b",
    re.IGNORECASE,
)
CURED = LazyPattern(
    r"^(?:(?:so )?(?:i|we)(?:'ve| have)? (?:also |now |just |then )?(?:\w+ed|set|made|put|rewrote|ran)\b|(?:it|this|that|\w+) now \w+|(?:fixed|solved|resolved) (?:it )?(?:by|with)\b|now,? (?!i'll|let)\w+|the fix (?:was|is)\b|(?:installing|adding|setting|removing|changing|updating|restarting|starting|running|using|clearing|pinning)\b[^.]{3,120}\b(?:fixed|solved|helped|resolved))",
    re.IGNORECASE,
)
_CURES = LazyPattern(
    r"[;,] (?:so )?(?:i|we|it|they|that|this) (?:now )?\w+|\bnow\b|\b(?:fixed|solved|resolved)\b",
    re.IGNORECASE,
)
_YET = LazyPattern(
    r"\b(?:let me|i'll|i will|i need|next|still|tests? (?:all )?pass(?:es)?|all tests|i was|my (?:change|edit|mistake|fault)s?|wrong (?:file|path|folder|directory))\b|\?",
    re.IGNORECASE,
)
SAID_TO_BE_RIGHT = LazyPattern(
    r"\b(?:is|are|which is|looks?) (?:correct|fine|ok|right|expected|intended)\b", re.IGNORECASE
)

_CODE = LazyPattern(r"`([^`]+)`")
_NAME = LazyPattern(
    r"\b[a-z]+[A-Z]\w+|\b\w+_\w+|\b[A-Z]\w+\.\w+|\b[\w-]+\.(?:py|go|rs|tsx?|jsx?|ya?ml|json|toml)\b"
)


def cause_statement(text: str) -> str:
    """A sentence that names a cause, as it is written down."""
    return tidy(LEAD.sub("", text))


def account_of(
    said: Sequence[Sentence], trouble: OpenFailure, *, after: int, alone: bool
) -> tuple[str, bool]:
    """What the report that follows a mended failure says of it, and whether that has the cure; `alone`: nothing else was mended."""
    for number, sentence in enumerate(said):
        if sentence.line <= after or sentence.aside:
            continue
        if sentence.role == Role.USER:
            break
        text = tidy(sentence.text)
        if (
            not sentence.closing
            or not _EXPLAINS.search(text)
            or hedged(text)
            or _YET.search(text)
            or not 20 <= len(text) <= LONGEST_ACCOUNT
            or not (alone or _shared(text, trouble))
        ):
            continue
        text, cured = with_its_cure(text, said[number + 1 : number + 2], line=sentence.line)
        return text, cured or _CURES.search(text) is not None
    return "", False


def with_its_cure(text: str, after: Sequence[Sentence], *, line: int) -> tuple[str, bool]:
    """A cause, with what was done about it where the next sentence says so."""
    if not after or after[0].line != line or not CURED.match(after[0].text) or _YET.search(after[0].text):
        return text, False
    cure = tidy(after[0].text)
    return (f"{text} {cure}", True) if len(text) + len(cure) < LONGEST_ACCOUNT else (text, False)


def cause_of(said: Sequence[Sentence], trouble: OpenFailure, *, until: int) -> str:
    """What the assistant said the cause was, between the failure and its end."""
    best, found = 0, ""
    for sentence in said:
        if sentence.role != Role.CLAUDE or not trouble.line < sentence.line <= until + 3:
            continue
        text = cause_statement(sentence.text)
        if (
            len(text) > LONGEST_CAUSE
            or len(text) < 25
            or announces(text)
            or text.endswith("?")
            or not names(text)
        ):
            continue
        if not stands_as_told(text) or not _shared(text, trouble) or SAID_TO_BE_RIGHT.search(text):
            continue
        score = (
            2 * (STRONG_CAUSE.search(sentence.text) is not None)
            + (_CAUSE.search(text) is not None)
            - hedged(text)
        )
        if score > best:
            best, found = score, text
    return found


def _shared(text: str, trouble: OpenFailure) -> bool:
    """Whether it speaks of the failure: it has a name in common with it, or two telling words."""
    failure = f"{trouble.told} {' '.join(trouble.files)} {' '.join(trouble.signs)}"
    if {match[0] for match in _NAME.finditer(failure)} & {match[0] for match in _NAME.finditer(text)}:
        return True
    if any(len(code[1]) >= SHORTEST_NAME and code[1] in failure for code in _CODE.finditer(text)):
        return True
    known = set(lexemes(failure)) - stop_lexemes() - _failing()
    return len(known & set(lexemes(text))) > 1


@cache
def _failing() -> frozenset[str]:
    return frozenset(
        lexemes(
            "error fail failed failure test tests expected got want go py ts js rs line file cmd src type value string case"
        )
    )


MOST_OPEN = 8

# A test that was written before what it tests.
_YET_TO_BE_WRITTEN = LazyPattern(
    r"^\S*(?:_test|\.test|\.spec|test_\w+)\.\w+:.*\b(?:undefined: \w+$|cannot find name '\w+'|name '\w+' is not defined)",
    re.IGNORECASE,
)


def fixed_failures(
    done: Sequence[ToolCall], said: Sequence[Sentence], troubles: list[OpenFailure]
) -> Iterator[RuleCandidate]:
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
            if change := changing(deed.asked):
                for trouble in troubles:
                    trouble.tries.append(change)
    del troubles[:-MOST_OPEN]


def _note(deed: ToolCall, troubles: list[OpenFailure]) -> None:
    signs = [sign for sign in deed.signs() if not is_slip(sign)]
    parts = commands(deed.asked)
    tried = next((part for part in reversed(parts) if purpose_of(part)), parts[-1] if parts else "")
    if not signs or not tried or _YET_TO_BE_WRITTEN.search(told := telling_line(deed.answer, signs)):
        return
    known = next((one for one in troubles if one.key == command_key(tried)), None)
    if known is None:
        troubles.append(OpenFailure(command_key(tried), tried, told, signs, deed.line))
    elif set(signs).isdisjoint(known.signs):
        known.signs = [*known.signs, *signs][:5]


def _succeeded(
    deed: ToolCall, troubles: list[OpenFailure], said: Sequence[Sentence]
) -> Iterator[RuleCandidate]:
    keys = {command_key(part): part for part in commands(deed.asked)}
    mended_now = [one for one in troubles if one.key in keys]
    for trouble in mended_now:
        troubles.remove(trouble)
        how = how_mended(trouble, keys[trouble.key])
        if not how:
            continue
        line = deed.answered or deed.line
        told, cured = account_of(said, trouble, after=line, alone=len(mended_now) == 1 and not troubles)
        cause = told or cause_of(said, trouble, until=line)
        yield RuleCandidate(
            Kind.ERROR,
            _told(trouble, cause, how="" if cured and edited(how) else how),
            trouble.line,
            0.85 if cause else 0.6 if edited(how) else 0.7,
            supersedes=trouble.reported,
            metadata={SIGNS: trouble.signs[:5]},
        )


def _told(trouble: OpenFailure, cause: str, *, how: str) -> str:
    """The failure, why it was and how it was mended, as much as there is room for."""
    failed = trouble.told.rstrip(".")
    for parts in (
        (f"`{shortened(trouble.command)}` failed: {failed}.", cause, how),
        (f"{failed}.", cause, how),
        (f"{failed}.", cause or how),
    ):
        content = " ".join(part for part in parts if part)
        if len(content) <= LONGEST:
            break
    return content[:LONGEST]


def open_failures(troubles: Sequence[OpenFailure]) -> Iterator[tuple[OpenFailure, str]]:
    """Failures of tests and builds that nothing has mended yet, in words."""
    for trouble in troubles:
        if purpose_of(trouble.command) and sign_of(trouble.told):
            yield (
                trouble,
                f"Unresolved: `{shortened(trouble.command)}` fails: {trouble.told.rstrip('.')}."[:LONGEST],
            )


_FIXED = LazyPattern(
    r"^(?:fixed|resolved|solved|corrected|repaired)\b(?! in\b)|\b(?:fixed by|resolved by|solved by|the fix (?:is|was)|fix(?:ed)?:|this fixes|now (?:correctly|properly))\b|(?:해결했|수정했|고쳤)",
    re.IGNORECASE,
)
_THE_FIX = LazyPattern(r"^the fix (?:is|was) to (?=\w+ .*\.$)", re.IGNORECASE)
_MENDING = LazyPattern(
    r"^(?:fixed|added|changed|increased|reduced|updated|replaced|removed|set|moved|renamed|switched|corrected|installed|upgraded|pinned|enabled|disabled|the fix (?:is|was) to)\b",
    re.IGNORECASE,
)
_CONFLICT = LazyPattern(r"^CONFLICT \([^)]*\): .*?\bin (\S+)", re.MULTILINE)
_RESOLVED = LazyPattern(
    r"\b(?:conflicts?|resolved|resolution|both (?:sides|changes)|kept?|combin\w+)\b", re.IGNORECASE
)


def reported_failures(
    steps: Sequence[TranscriptStep], said: Sequence[Sentence], done: Sequence[ToolCall]
) -> Iterator[RuleCandidate]:
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
        trouble = OpenFailure(
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
        yield RuleCandidate(Kind.ERROR, content[:LONGEST], step.line, 0.85, metadata={SIGNS: signs[:5]})


def _fix(said: Sequence[Sentence], *, first: int, last: int) -> str:
    """How the report says it was mended."""
    for sentence in said:
        if sentence.role == Role.CLAUDE and sentence.closing and first < sentence.line <= last:
            text = tidy(sentence.text)
            if _MENDING.match(text) and not hedged(text) and 20 <= len(text) <= 200:
                return text
    return ""


def conflicts(done: Sequence[ToolCall], said: Sequence[Sentence]) -> Iterator[RuleCandidate]:
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
        yield RuleCandidate(
            Kind.ERROR, content[:LONGEST], deed.line, 0.8, metadata={SIGNS: list(error_signs(deed.answer))}
        )


def _resolution(said: Sequence[Sentence], *, first: int) -> str:
    for sentence in said:
        if sentence.role == Role.CLAUDE and sentence.closing and sentence.line > first:
            text = tidy(sentence.text)
            if _RESOLVED.search(text) and names(text) and not hedged(text) and 20 <= len(text) <= 220:
                return text
    return ""


def stated_causes(said: Sequence[Sentence]) -> Iterator[RuleCandidate]:
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
            yield RuleCandidate(Kind.ERROR, content, sentence.line, weight, metadata=metadata)


def _with_its_fix(said: Sequence[Sentence], number: int) -> str:
    """A cause, and the fix if that is said next; empty where the cause can't stand by itself."""
    sentence, after = said[number], said[number + 1] if number + 1 < len(said) else None
    cause = cause_statement(sentence.text)
    if not names(cause) or not stands_as_told(cause) or SAID_TO_BE_RIGHT.search(cause):
        return ""
    if after is None or after.line != sentence.line:
        return cause
    if not _FIXED.search(after.text) or announces(after.text):
        return with_its_cure(cause, [after], line=sentence.line)[0]
    fix = tidy(after.text)
    return f"{cause} {fix}" if len(cause) + len(fix) < LONGEST else cause


FEWEST_WORDS = 6

_WENT_WRONG = LazyPattern(
    r"\b(?:fail(?:ed|s|ing|ures?)?|crash(?:ed|es|ing)?|broke|broken|breaking|kept \w+ing|returned (?:zeros?|null|nothing|nan|empty|wrong)|stayed \w+|never (?:started|came|arrived|finished|returned|fired|showed)|errors?|exceptions?|\w+(?:error|exception)|e[a-z]*(?:refused|resolve|addrinuse|acces|noent|notfound|timedout|perm|connreset|mfile|nospc)|oomkilled|killed|segfault\w*|panic\w*|hung|froze|freeze|deadlock\w*|did(?:n't| not) \w+|wouldn't|couldn't|can't \w+|[45]\d\ds?|(?:was|were|is) (?:so |too |very )?slow|leak\w*|loop|garbage|ran out of|white screen|blank|black|flicker\w*|flak(?:y|iness)|time[ds]?[ -]?outs?|bug|problem|issue|symptom|mismatch|refused|denied|stuck|corrupt\w*|garbled|duplicate[ds]?|lost|stutter\w*|lag(?:ged)?|drift\w*|root cause|culprit|regression|warning)\b"
)
_WHY = LazyPattern(
    r"\b(?:because|since (?:the|we|it|node|python|\w+ (?:was|is|had))|(?:was|were|is|are|been) (?:caused by|due to|down to)|due to|came from|comes from|(?:problem|issue|bug|culprit|cause|reason)(?: (?:for|of|behind) [^.]{3,60})? (?:was|is|were|turned out)|turn(?:ed|s) out|as the \w+ (?:was|had))\b"
)
_CURE = LazyPattern(
    r"\b(?:(?:fixed|solved|resolved|cured|repaired|sorted|healed) (?:it|that|this|the|by|with|everything|all)\b|(?:fixed|solved|resolved)(?=[.!:;]|$)|(?:that |which )?helped\b|did the trick|made (?:it|them) work|went away|disappeared|(?:is|are|was|were) gone (?:after|since|now)|vanished|(?:;|,|but|so) (?:\w+ )?\w+ing [^.;]{3,60} (?:worked|works|fixed|solved|helped)|brought (?:it|that) (?:down|back)|(?:is|was|are|were|gets?) (?:fixed|solved|resolved) (?:by|with|after)|until (?:i|we) \w+|works? (?:now|again) (?:after|since|with)|(?:;|,|so|and) (?:we|i) (?:raised|pinned|added|removed|increased|set|upgraded|downgraded|changed|switched|moved|installed|disabled|enabled|replaced|renamed|bumped|rolled|cleared|deleted|restarted)\b|\w+ing (?:it |that |them )?(?:with [^.]{2,40} |to [^.]{2,30} )?(?:fixes|solves|helps))"
)
_PAST = LazyPattern(
    r"\b(?:was|were|failed|crashed|broke|got|had|did|didn't|came|went|returned|printed|turned out|caused|ran|fixed|solved|resolved|helped|wouldn't|couldn't|threw|complained|hung|froze|until)\b"
)
_PIECES = LazyPattern(
    r"\s(?:was|were|is|are|got) (?:caused|solved|fixed|resolved|due|thrown|gone)\b|\s(?:because|since|due to|until|after|when|went away)\b|[;,]\s|\s[-–—]\s|\.\s"
)
_POINTS = LazyPattern(r"\b(?:that|this)(?=\.$)")  # "pinning it fixed that."
_SELF = LazyPattern(r"\bI\b(?!/)")
_NAMED = LazyPattern(r"[`\"“]([^`\"”]{6,160})[`\"”]")
_WITH = LazyPattern(r"\b(?:with|got|gets?|threw|throws|raised|saw|said|says|of) (?:an? |the )?(?=[A-Z`\"])")


def mishaps(said: Sequence[Sentence]) -> Iterator[RuleCandidate]:
    """Of either speaker; a supposition is none, and of the assistant only what it reports."""
    for number, sentence in enumerate(said):
        low = sentence.text.lower()
        if not _WENT_WRONG.search(low) or korean(sentence.text) or sentence.aside or sentence.speculative:
            continue
        why, cure = _WHY.search(low) is not None, _CURE.search(low) is not None
        own = sentence.role == Role.USER
        if not (cure or (why and _PAST.search(low))) or (
            not own and (sentence.tentative or not sentence.closing)
        ):
            continue
        text = tidy(sentence.text if own else cause_statement(sentence.text))
        if (
            len(text.split()) < FEWEST_WORDS - (not own)
            or hedged(text)
            or announces(text)
            or asks(sentence.text)
            or not stands_as_told(_POINTS.sub("it", _SELF.sub("we", text) if own else text))
        ):
            continue
        if not cure:
            text = _with_its_cure(text, said[number + 1 : number + 2], line=sentence.line)
        signs = signs_in_words(text)
        yield RuleCandidate(
            Kind.ERROR, text, sentence.line, 0.8 if own else 0.7, metadata={SIGNS: signs} if signs else {}
        )


def _with_its_cure(text: str, after: Sequence[Sentence], *, line: int) -> str:
    """What helped is often said in a sentence of its own."""
    if after and after[0].line == line and _CURE.search(after[0].text.lower()) and not asks(after[0].text):
        cure = tidy(after[0].text)
        return f"{text} {cure}" if len(text) + len(cure) < LONGEST else text
    return with_its_cure(text, after, line=line)[0]


def signs_in_words(text: str) -> list[str]:
    """How the failure shows, if the sentence names that: as code, in quotes, or before it says why."""
    found: dict[str, None] = {}
    pieces = [match[1] for match in _NAMED.finditer(text)]
    for piece in _PIECES.sub("\n", text).split("\n"):
        plain = piece.replace("`", "")
        pieces += [plain, *(plain[match.end() :] for match in _WITH.finditer(plain))]
    for piece in pieces:
        told = error_signs(re.sub(r"[\"'`]\s*$", "", piece.strip(' .`"')))
        found.update(dict.fromkeys(told))
    return [one for one in found if not any(one != two and two in one for two in found)][:3]
