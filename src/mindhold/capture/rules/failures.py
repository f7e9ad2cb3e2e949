"""Failures: commands that failed and what fixed them, and the causes that somebody stated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import inf
from typing import Annotated, Any

from pydantic import Field

from mindhold.capture.extracted_items import LONGEST, SIGNS, RuleCandidate, signs_metadata
from mindhold.capture.rules.sentences import (
    Sentence,
    announces,
    clean_sentence,
    count_names,
    is_hedged,
    is_korean,
    is_question,
    reports_work,
    stands_alone,
    stands_alone_loosely,
)
from mindhold.capture.rules.tool_calls import (
    ToolCall,
    base_name,
    changing_commands,
    command_key,
    command_variables,
    commands,
    purpose_of,
    without_variables,
)
from mindhold.model.error_signs import error_signs
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role, TranscriptStep
from mindhold.text.pattern import LazyPattern, any_case

MAX_FILES = 3
MAX_TRIES = 2
LONGEST_ERROR_LINE = 140

# Failures of the call itself, which another call fixes.
_WRONG_CALL = LazyPattern(
    r"command not found|missing script|unknown|unrecognized|no such (?:option|command)|no module named|not recognized|invalid (?:option|choice|value)|unexpected argument"
)
_MISSING_THING = LazyPattern(
    r"no module named|cannot find (?:module|package)|not found|not set|not installed|is missing|econnrefused|connection refused|does not exist"
)
_EXCEPTION_NAME = any_case(r"[\w.]*\w(?:error|exception)\b")
_COMMAND_SLIP = LazyPattern(
    r"parse error near|no matches found|unexpected eof|syntax error near|unexpected token|unknown (?:file attribute|option|flag)|usage:|no such file or directory|not a directory|is a directory|permission denied|cannot access|nothing to commit"
    r"|pathspec|already exists|did not match any|no such (?:remote|ref)|bad revision|unknown revision|ambiguous argument|not a git repository|no changes added|command not found: (?:timeout|tree|rg|fd|jq|gh|tac|column)"
)


_EDITED_PREFIX = "Fixed by editing"


@dataclass(slots=True)
class OpenFailure:
    """A failure that isn't fixed yet. It is stored as JSON for the next call."""

    key: str
    command: str
    error_line: Annotated[str, Field(alias="told")]  # its most specific line
    signs: list[str]
    line: int
    files: list[str] = field(default_factory=list)
    tries: list[str] = field(default_factory=list)  # commands that changed something since

    def as_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "command": self.command[:200],
            "told": self.error_line,
            "signs": self.signs[:3],
            "line": self.line,
            "files": self.files[:MAX_FILES],
            "tries": self.tries[-MAX_TRIES:],
        }


def is_slip(sign: str) -> bool:
    """Whether the error is a slip in the command, such as a wrong path; an exception of a program is none."""
    return _COMMAND_SLIP.search(sign) is not None and _EXCEPTION_NAME.match(sign) is None


def error_line_of(answer: str, signs: Sequence[str]) -> str:
    """Return the line of the output that the first sign was made of."""
    for line in answer.splitlines():
        if signs[0] in error_signs(line):
            cleaned = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", line).split())
            cleaned = re.sub(r"^.*?\b(?:error|err)=\"?(?=[A-Za-z])", "", cleaned)
            cleaned = re.sub(r"^(?:E\s+|\[\w+\]\s+|[│|>×✖]\s*)+", "", cleaned)
            if len(cleaned) <= LONGEST_ERROR_LINE:
                return cleaned
            return cleaned[:LONGEST_ERROR_LINE].rsplit(" ", 1)[0] + "…"
    return signs[0]


def is_edit(how: str) -> bool:
    """Whether it only says which file was changed."""
    return how.startswith(_EDITED_PREFIX)


def describe_how_fixed(failure: OpenFailure, command: str) -> str:
    """Say how it was fixed: by an edit, another call or a command; what was missing, rather by the command that added it."""
    was_missing = failure.tries and _MISSING_THING.search(" ".join(failure.signs))
    if failure.files and not was_missing:
        file_names = [f"`{name}`" for name in failure.files[-MAX_FILES:]]
        return f"{_EDITED_PREFIX} {', '.join(file_names)}."
    if without_variables(command) == without_variables(failure.command):
        is_other_call = command_variables(command) not in ("", command_variables(failure.command))
    else:
        is_other_call = bool(purpose_of(command) and _WRONG_CALL.search(" ".join(failure.signs)))
    if is_other_call:
        return f"Worked as `{shorten_command(command)}`."
    if failure.tries:
        attempts = " and ".join(f"`{shorten_command(attempt)}`" for attempt in failure.tries[-MAX_TRIES:])
        return f"Fixed by {attempts}."
    return ""


def shorten_command(command: str) -> str:
    command = " ".join(command.split())
    return command if len(command) <= 90 else f"{command[:87]}..."


LONGEST_CAUSE = 200
LONGEST_ACCOUNT = 220
SHORTEST_NAME = 4

_CAUSE = any_case(
    r"\b(?:(?:root |real |actual |underlying )?(?:cause|culprit) (?:is|was|of|:)|root cause|(?:the |main |real |actual )?(?:issue|problem|bug|reason|error|failure|crash)(?:s)? (?:is|was|were|here is|turned out|came from|comes from|occurs|happens|happened)"
    r"|(?:is|was|were|are) (?:caused by|due to|because)|because|caused by|due to|failed because|fails because|didn't|doesn't|missing|which means|mismatch|conflicts?|expects?|expected|should be|instead of|needs? (?:to|a|the)|must|not (?:defined|found|installed|set|exported|available))\b"
    r"|(?:원인은|문제는|때문에|때문입니다)"
)
STRONG_CAUSE = any_case(
    r"\b(?:root cause|(?:the |main |real |actual )?(?:issue|problem|bug|culprit) (?:is|was|turned out)(?: that)?\b|(?:is|was|were) caused by|failed because|fails because)|(?:원인은|문제는)"
)
LEAD = any_case(
    r"^(?:the |main |real |actual |root )*(?:issue|problem|bug|cause|culprit|reason)(?: here)? (?:is|was|turned out to be)"
    r"(?: that\b| clear:| simple:| straightforward:|:)\s*|^root cause:\s+|^problem(?: found)?:\s+|^issue(?: found)?:\s+"
)
# A report about a fixed failure: why it happened, and what was done.
_EXPLANATION = any_case(
    r"\b(?:was|were|is) (?:because|caused by|due to|that)\b|\b(?:failed|crashed|broke|hung|timed out|(?:did not|didn't|couldn't|could not|wouldn't) \w+) (?:because|since|due to|as)\b|\bcame from\b|, so (?:i|we) \w+|\bwas (?:missing|in use|unset|expired|outdated|out of date|wrong|not (?:set|installed|running|found|defined|there))\b"
    r"|^(?:the )?(?:root )?(?:cause|culprit|reason)\b"
)
CURE_REPORT = any_case(
    r"^(?:(?:so )?(?:i|we)(?:'ve| have)? (?:also |now |just |then )?(?:\w+ed|set|made|put|rewrote|ran)\b|(?:it|this|that|\w+) now \w+|(?:fixed|solved|resolved) (?:it )?(?:by|with)\b|now,? (?!i'll|let)\w+|the fix (?:was|is)\b|(?:installing|adding|setting|removing|changing|updating|restarting|starting|running|using|clearing|pinning)\b[^.]{3,120}\b(?:fixed|solved|helped|resolved))"
)
_CURE_CLAUSE = any_case(
    r"[;,] (?:so )?(?:i|we|it|they|that|this) (?:now )?\w+|\bnow\b|\b(?:fixed|solved|resolved)\b"
)
_UNFINISHED = any_case(
    r"\b(?:let me|i'll|i will|i need|next|still|tests? (?:all )?pass(?:es)?|all tests|i was|my (?:change|edit|mistake|fault)s?|wrong (?:file|path|folder|directory))\b|\?"
)
SAYS_CORRECT = any_case(r"\b(?:is|are|which is|looks?) (?:correct|fine|ok|right|expected|intended)\b")

_CODE = LazyPattern(r"`([^`]+)`")
_NAME = LazyPattern(
    r"\b[a-z]+[A-Z]\w+|\b\w+_\w+|\b[A-Z]\w+\.\w+|\b[\w-]+\.(?:py|go|rs|tsx?|jsx?|ya?ml|json|toml)\b"
)


def cause_statement(text: str) -> str:
    """Clean a sentence that names a cause."""
    return clean_sentence(LEAD.sub("", text))


def report_after_fix(
    sentences: Sequence[Sentence], failure: OpenFailure, *, after: int, alone: bool
) -> tuple[str, bool]:
    """Return what the report after a fix says of the failure, and whether it names the cure; `alone`: nothing else was fixed."""
    for number, sentence in enumerate(sentences):
        if sentence.line <= after or sentence.aside:
            continue
        if sentence.role == Role.USER:
            break
        text = clean_sentence(sentence.text)
        if (
            not sentence.closing
            or not _EXPLANATION.search(text)
            or is_hedged(text)
            or _UNFINISHED.search(text)
            or not 20 <= len(text) <= LONGEST_ACCOUNT
            or not (alone or _is_about(text, failure))
        ):
            continue
        text, has_cure = with_cure(text, _next_in_message(sentences, number))
        return text, has_cure or _CURE_CLAUSE.search(text) is not None
    return "", False


def _next_in_message(sentences: Sequence[Sentence], number: int) -> str:
    """Return the next sentence of the same message; empty where there is none."""
    after = sentences[number + 1 : number + 2]
    return after[0].text if after and after[0].line == sentences[number].line else ""


def with_cure(text: str, after: str) -> tuple[str, bool]:
    """Add what was done about a cause, if the next sentence says so; return whether it does."""
    cure = clean_sentence(after)
    if not CURE_REPORT.match(after) or _UNFINISHED.search(after) or len(text) + len(cure) >= LONGEST_ACCOUNT:
        return text, False
    return f"{text} {cure}", True


def cause_of(sentences: Sequence[Sentence], failure: OpenFailure, *, until: int) -> str:
    """Return what the assistant called the cause, between the failure and its fix."""
    best, cause = 0, ""
    for sentence in sentences:
        if sentence.role != Role.CLAUDE or not failure.line < sentence.line <= until + 3:
            continue
        text = cause_statement(sentence.text)
        if (
            not 25 <= len(text) <= LONGEST_CAUSE
            or announces(text)
            or text.endswith("?")
            or not count_names(text)
            or not stands_alone_loosely(text)
            or not _is_about(text, failure)
            or SAYS_CORRECT.search(text)
        ):
            continue
        score = (
            2 * (STRONG_CAUSE.search(sentence.text) is not None)
            + (_CAUSE.search(text) is not None)
            - is_hedged(text)
        )
        if score > best:
            best, cause = score, text
    return cause


def _is_about(text: str, failure: OpenFailure) -> bool:
    """Whether it speaks of the failure: they share a name, or two specific words."""
    failure_text = f"{failure.error_line} {' '.join(failure.files)} {' '.join(failure.signs)}"
    if {match[0] for match in _NAME.finditer(failure_text)} & {match[0] for match in _NAME.finditer(text)}:
        return True
    if any(len(code[1]) >= SHORTEST_NAME and code[1] in failure_text for code in _CODE.finditer(text)):
        return True
    failure_words = set(lexemes(failure_text)) - stop_lexemes() - _failure_lexemes()
    return len(failure_words & set(lexemes(text))) > 1


@cache
def _failure_lexemes() -> frozenset[str]:
    return frozenset(
        lexemes(
            "error fail failed failure test tests expected got want go py ts js rs line file cmd src type value string case"
        )
    )


MAX_OPEN_FAILURES = 8
_UNDONE = any_case(r"`git (?:stash|checkout|restore|reset|diff|log|status)\b")  # no cure

# A test that was written before the code it tests.
_UNWRITTEN_CODE = any_case(
    r"^\S*(?:_test|\.test|\.spec|test_\w+)\.\w+:.*\b(?:undefined: \w+$|cannot find name '\w+'|name '\w+' is not defined)"
)


def fixed_failures(
    calls: Sequence[ToolCall], sentences: Sequence[Sentence], failures: list[OpenFailure]
) -> Iterator[RuleCandidate]:
    """Yield fixed failures; the others stay in `failures`, oldest first."""
    for call in calls:
        if call.refused:
            continue
        if call.writes:
            name = base_name(call.input)
            for failure in failures:
                if name and name not in failure.files:
                    failure.files.append(name)
        elif call.shell and call.failed:
            _record_failure(call, failures)
        elif call.shell and call.output_line:
            yield from _fixed_by(call, failures, sentences)
            if change := changing_commands(call.input):
                for failure in failures:
                    failure.tries.append(change)
    del failures[:-MAX_OPEN_FAILURES]


def _record_failure(call: ToolCall, failures: list[OpenFailure]) -> None:
    signs = [sign for sign in call.signs() if not is_slip(sign)]
    parts = commands(call.input)
    command = next((part for part in reversed(parts) if purpose_of(part)), parts[-1] if parts else "")
    if not signs or not command or _UNWRITTEN_CODE.search(error_line := error_line_of(call.output, signs)):
        return
    open_failure = next((each for each in failures if each.key == command_key(command)), None)
    if open_failure is None:
        failures.append(OpenFailure(command_key(command), command, error_line, signs, call.line))
    elif set(signs).isdisjoint(open_failure.signs):
        open_failure.signs = [*open_failure.signs, *signs][:5]


def _fixed_by(
    call: ToolCall, failures: list[OpenFailure], sentences: Sequence[Sentence]
) -> Iterator[RuleCandidate]:
    keys = {command_key(part): part for part in commands(call.input)}
    fixed = [each for each in failures if each.key in keys]
    for failure in fixed:
        failures.remove(failure)
        fix = describe_how_fixed(failure, keys[failure.key])
        if not fix:
            continue
        line = call.output_line or call.line
        account, has_cure = report_after_fix(
            sentences, failure, after=line, alone=len(fixed) == 1 and not failures
        )
        cause = account or cause_of(sentences, failure, until=line)
        if not cause and (is_edit(fix) or _UNDONE.search(fix)):
            continue  # which file was edited says nothing without the cause
        yield RuleCandidate(
            Kind.ERROR,
            _describe_fix(failure, cause, fix="" if has_cure and is_edit(fix) else fix),
            failure.line,
            0.85 if cause else 0.7,
            metadata={SIGNS: failure.signs[:5]},
        )


def _describe_fix(failure: OpenFailure, cause: str, *, fix: str) -> str:
    """Combine the failure, its cause and its fix, as far as there is room."""
    error_line = failure.error_line.rstrip(".")
    for parts in (
        (f"`{shorten_command(failure.command)}` failed: {error_line}.", cause, fix),
        (f"{error_line}.", cause, fix),
        (f"{error_line}.", cause or fix),
    ):
        content = " ".join(part for part in parts if part)
        if len(content) <= LONGEST:
            break
    return content[:LONGEST]


_NO_SUCH_CALL = any_case(
    r"unrecognized (?:sub-?command|option|argument)|unknown (?:sub-?command|command|option|flag|argument)|no such (?:option|command)|command not found|is not a \S+ command"
    r"|unexpected argument|missing script|invalid (?:option|choice)|not recognized as"
)
_NOTHING_THERE = any_case(r"no such file|not found|permission denied|cannot find|usage:")
CALLS_APART = 8  # within which the call that works follows
FEWEST_SHARED = 2  # words that both calls have


def wrong_calls(calls: Sequence[ToolCall]) -> Iterator[RuleCandidate]:
    """Yield calls that the program doesn't know, with the one that worked instead: a trap that comes again."""
    shell = [call for call in calls if call.shell and not call.aside and not call.refused]
    warned: set[str] = set()
    for number, call in enumerate(shell):
        message = _NO_SUCH_CALL.search(call.output[:600]) if call.failed else None
        parts = commands(call.input)
        if not message or len(parts) != 1 or parts[0] in warned:
            continue
        words = without_variables(parts[0]).split()
        for later in shell[number + 1 : number + 1 + CALLS_APART]:
            instead = _instead(words, commands(later.input)) if _is_known(later) else ""
            if instead:
                warned.add(parts[0])
                says = next(line.strip() for line in call.output.splitlines() if message[0] in line)
                text = f"`{shorten_command(parts[0])}` doesn't work ({says[:LONGEST_ERROR_LINE].rstrip('.')}); `{shorten_command(instead)}` does."
                if len(text) <= LONGEST:
                    yield RuleCandidate(Kind.GOTCHA, text, call.line, 0.85)
                break


def _is_known(call: ToolCall) -> bool:
    """Whether the program knew what to do: tests that fail were run."""
    return not call.failed or not (_NO_SUCH_CALL.search(call.output) or _NOTHING_THERE.search(call.output))


def _instead(words: Sequence[str], later: Sequence[str]) -> str:
    """Return the command that does the same in other words."""
    purpose = purpose_of(" ".join(words))
    for command in later:
        others = without_variables(command).split()
        shared = set(words) & set(others)
        alike = purpose_of(command) == purpose if purpose else len(shared) >= len(words) - 1
        if others != list(words) and alike and len(shared) >= min(FEWEST_SHARED, len(words) - 1):
            return command
    return ""


_FIX_REPORT = any_case(
    r"^(?:fixed|resolved|solved|corrected|repaired)\b(?! in\b)|\b(?:fixed by|resolved by|solved by|the fix (?:is|was)|fix(?:ed)?:|this fixes|now (?:correctly|properly))\b|(?:해결했|수정했|고쳤)"
)
_THE_FIX = any_case(r"^the fix (?:is|was) to (?=\w+ .*\.$)")
_FIX_START = any_case(
    r"^(?:fixed|added|changed|increased|reduced|updated|replaced|removed|set|moved|renamed|switched|corrected|installed|upgraded|pinned|enabled|disabled|the fix (?:is|was) to)\b"
)
_CONFLICT = LazyPattern(r"^CONFLICT \([^)]*\): .*?\bin (\S+)", re.MULTILINE)
_RESOLUTION = any_case(r"\b(?:conflicts?|resolved|resolution|both (?:sides|changes)|kept?|combin\w+)\b")


def reported_failures(
    steps: Sequence[TranscriptStep], sentences: Sequence[Sentence], calls: Sequence[ToolCall]
) -> Iterator[RuleCandidate]:
    """Yield failures that the user reported, with what the assistant says it did about them."""
    turns = [number for number, step in enumerate(steps) if step.role == Role.USER and not step.aside]
    for turn, number in enumerate(turns):
        step = steps[number]
        signs = [sign for sign in error_signs(step.text) if not is_slip(sign)]
        end = turns[turn + 1] if turn + 1 < len(turns) else len(steps)
        files = [base_name(call.input) for call in calls if call.writes and number < call.index < end]
        if not signs or not files:
            continue
        last = steps[end - 1].line
        failure = OpenFailure(
            "", "", error_line_of(step.text, signs), signs, step.line, list(dict.fromkeys(files))
        )
        cause = cause_of(sentences, failure, until=last)
        fix = next(
            (
                text
                for text in _closing_texts(sentences, step.line, last)
                if _FIX_START.match(text) and len(text) <= 200
            ),
            "",
        )
        if not cause and not fix:
            continue
        content = f"{failure.error_line.rstrip('.')}. {cause}".strip()
        if fix and fix != cause and len(content) + len(fix) < LONGEST:
            content = f"{content} {fix}"
        elif len(content) + len(edits := describe_how_fixed(failure, "")) < LONGEST:
            content = f"{content} {edits}"
        yield RuleCandidate(Kind.ERROR, content[:LONGEST], step.line, 0.85, metadata={SIGNS: signs[:5]})


def _closing_texts(sentences: Sequence[Sentence], first: int, last: float = inf) -> Iterator[str]:
    """Yield what the assistant reports plainly between two lines."""
    for sentence in sentences:
        if sentence.role == Role.CLAUDE and sentence.closing and first < sentence.line <= last:
            text = clean_sentence(sentence.text)
            if len(text) >= 20 and not is_hedged(text):
                yield text


def conflicts(calls: Sequence[ToolCall], sentences: Sequence[Sentence]) -> Iterator[RuleCandidate]:
    """Yield merge conflicts, with the files that were edited and what was said about it."""
    for call in calls:
        conflicting = _CONFLICT.findall(call.output) if call.shell and call.failed else []
        if not conflicting or not (parts := commands(call.input)):
            continue
        edited_files = {
            base_name(other.input) for other in calls if other.writes and other.index > call.index
        }
        files = [base_name(name) for name in conflicting if base_name(name) in edited_files]
        if not files:
            continue
        file_list = ", ".join(f"`{name}`" for name in files[:3])
        conflict = f"`{shorten_command(parts[-1])}` conflicted in {file_list}."
        resolution = next(
            (
                text
                for text in _closing_texts(sentences, call.line)
                if _RESOLUTION.search(text) and count_names(text) and len(text) <= 220
            ),
            "",
        )
        content = f"{conflict} Resolved by editing there."
        if resolution and len(content) + len(resolution) < LONGEST:
            content = f"{conflict} {resolution}"
        yield RuleCandidate(
            Kind.ERROR, content[:LONGEST], call.line, 0.8, metadata={SIGNS: list(error_signs(call.output))}
        )


def stated_causes(sentences: Sequence[Sentence]) -> Iterator[RuleCandidate]:
    """Yield what was said of a failure's cause, and of its fix."""
    for number, sentence in enumerate(sentences):
        if sentence.role != Role.CLAUDE or sentence.speculative or announces(sentence.text):
            continue
        text = clean_sentence(sentence.text)
        if is_hedged(text) or text.endswith("?"):
            continue
        if STRONG_CAUSE.search(sentence.text) and not reports_work(text) and not sentence.tentative:
            content = _cause_with_fix(sentence.text, _next_in_message(sentences, number))
            weight = 0.75 if sentence.closing else 0.65
        elif _THE_FIX.match(text) and count_names(text) and not announces(text):
            content, weight = f"Fix: {_THE_FIX.sub('', text)}", 0.65
        elif (
            sentence.closing
            and _FIX_REPORT.search(sentence.text)
            and count_names(text)
            and stands_alone(text)
        ):
            content, weight = text, 0.7
        else:
            continue
        if content:
            metadata = signs_metadata(error_signs(content))
            yield RuleCandidate(Kind.ERROR, content, sentence.line, weight, metadata=metadata)


def _cause_with_fix(text: str, after: str) -> str:
    """Return a cause, with the fix if that is said next; empty where the cause doesn't stand alone."""
    cause = cause_statement(text)
    if not count_names(cause) or not stands_alone_loosely(cause) or SAYS_CORRECT.search(cause):
        return ""
    if not _FIX_REPORT.search(after) or announces(after):
        return with_cure(cause, after)[0]
    fix = clean_sentence(after)
    return f"{cause} {fix}" if len(cause) + len(fix) < LONGEST else cause


FEWEST_WORDS = 6

_FAILURE = LazyPattern(
    r"\b(?:fail(?:ed|s|ing|ures?)?|crash(?:ed|es|ing)?|broke|broken|breaking|kept \w+ing|returned (?:zeros?|null|nothing|nan|empty|wrong)|stayed \w+|never (?:started|came|arrived|finished|returned|fired|showed)|errors?|exceptions?|\w+(?:error|exception)|e[a-z]*(?:refused|resolve|addrinuse|acces|noent|notfound|timedout|perm|connreset|mfile|nospc)|oomkilled|killed|segfault\w*|panic\w*|hung|froze|freeze|deadlock\w*|did(?:n't| not) \w+|wouldn't|couldn't|can't \w+|[45]\d\ds?|(?:was|were|is) (?:so |too |very )?slow|leak\w*|loop|garbage|ran out of|white screen|blank|black|flicker\w*|flak(?:y|iness)|time[ds]?[ -]?outs?|bug|problem|issue|symptom|mismatch|refused|denied|stuck|corrupt\w*|garbled|duplicate[ds]?|lost|stutter\w*|lag(?:ged)?|drift\w*|root cause|culprit|regression|warning)\b"
)
_REASON = LazyPattern(
    r"\b(?:because|since (?:the|we|it|node|python|\w+ (?:was|is|had))|(?:was|were|is|are|been) (?:caused by|due to|down to)|due to|came from|comes from|(?:problem|issue|bug|culprit|cause|reason)(?: (?:for|of|behind) [^.]{3,60})? (?:was|is|were|turned out)|turn(?:ed|s) out|as the \w+ (?:was|had))\b"
)
_CURE = LazyPattern(
    r"\b(?:(?:fixed|solved|resolved|cured|repaired|sorted|healed) (?:it|that|this|the|by|with|everything|all)\b|(?:fixed|solved|resolved)(?=[.!:;]|$)|(?:that |which )?helped\b|did the trick|made (?:it|them) work|went away|disappeared|(?:is|are|was|were) gone (?:after|since|now)|vanished|(?:;|,|but|so) (?:\w+ )?\w+ing [^.;]{3,60} (?:worked|works|fixed|solved|helped)|brought (?:it|that) (?:down|back)|(?:is|was|are|were|gets?) (?:fixed|solved|resolved) (?:by|with|after)|until (?:i|we) \w+|works? (?:now|again) (?:after|since|with)|(?:;|,|so|and) (?:we|i) (?:raised|pinned|added|removed|increased|set|upgraded|downgraded|changed|switched|moved|installed|disabled|enabled|replaced|renamed|bumped|rolled|cleared|deleted|restarted)\b|\w+ing (?:it |that |them )?(?:with [^.]{2,40} |to [^.]{2,30} )?(?:fixes|solves|helps))"
)
_PAST = LazyPattern(
    r"\b(?:was|were|failed|crashed|broke|got|had|did|didn't|came|went|returned|printed|turned out|caused|ran|fixed|solved|resolved|helped|wouldn't|couldn't|threw|complained|hung|froze|until)\b"
)
_CLAUSE_BREAK = LazyPattern(
    r"\s(?:was|were|is|are|got) (?:caused|solved|fixed|resolved|due|thrown|gone)\b|\s(?:because|since|due to|until|after|when|went away)\b|[;,]\s|\s[-–—]\s|\.\s"
)
_POINTING_END = LazyPattern(r"\b(?:that|this)(?=\.$)")  # "pinning it fixed that."
_FIRST_PERSON = LazyPattern(r"\bI\b(?!/)")
_QUOTED = LazyPattern(r"[`\"“]([^`\"”]{6,160})[`\"”]")
_WITH = LazyPattern(r"\b(?:with|got|gets?|threw|throws|raised|saw|said|says|of) (?:an? |the )?(?=[A-Z`\"])")


def told_failures(sentences: Sequence[Sentence]) -> Iterator[RuleCandidate]:
    """Yield accounts of failures by either speaker, but no suppositions; of the assistant only what it reports."""
    for number, sentence in enumerate(sentences):
        low = sentence.text.lower()
        if not _FAILURE.search(low) or is_korean(sentence.text) or sentence.aside or sentence.speculative:
            continue
        has_reason, has_cure = _REASON.search(low) is not None, _CURE.search(low) is not None
        is_user = sentence.role == Role.USER
        if not (has_cure or (has_reason and _PAST.search(low))) or (
            not is_user and (sentence.tentative or not sentence.closing)
        ):
            continue
        text = clean_sentence(sentence.text if is_user else cause_statement(sentence.text))
        if (
            len(text.split()) < FEWEST_WORDS - (not is_user)
            or is_hedged(text)
            or announces(text)
            or is_question(sentence.text)
            or not stands_alone_loosely(
                _POINTING_END.sub("it", _FIRST_PERSON.sub("we", text) if is_user else text)
            )
        ):
            continue
        if not has_cure:
            text = _with_cure_sentence(text, _next_in_message(sentences, number))
        metadata = signs_metadata(signs_in_words(text))
        yield RuleCandidate(Kind.ERROR, text, sentence.line, 0.8 if is_user else 0.7, metadata=metadata)


def _with_cure_sentence(text: str, after: str) -> str:
    """Add what helped, which often is a sentence of its own."""
    if not _CURE.search(after.lower()) or is_question(after):
        return with_cure(text, after)[0]
    cure = clean_sentence(after)
    return f"{text} {cure}" if len(text) + len(cure) < LONGEST else text


def signs_in_words(text: str) -> list[str]:
    """Return the error signs that a sentence names: as code, in quotes, or before the reason."""
    signs: dict[str, None] = {}
    pieces = [match[1] for match in _QUOTED.finditer(text)]
    for piece in _CLAUSE_BREAK.sub("\n", text).split("\n"):
        bare = piece.replace("`", "")
        pieces += [bare, *(bare[match.end() :] for match in _WITH.finditer(bare))]
    for piece in pieces:
        piece_signs = error_signs(re.sub(r"[\"'`]\s*$", "", piece.strip(' .`"')))
        signs.update(dict.fromkeys(piece_signs))
    return [sign for sign in signs if not any(sign != other and other in sign for other in signs)][:3]
