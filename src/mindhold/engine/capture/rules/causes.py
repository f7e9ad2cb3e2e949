"""What the assistant said the cause of a failure was."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from mindhold.engine.capture.rules.speech import Sentence
from mindhold.engine.capture.rules.standing import announces, hedged, names, stands_as_told, tidy
from mindhold.engine.capture.rules.trouble import Trouble
from mindhold.engine.text.expression import Expression
from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.ports.transcripts import Role

LONGEST_CAUSE = 200
LONGEST_ACCOUNT = 220
SHORTEST_NAME = 4

_CAUSE = Expression(
    r"\b(?:(?:root |real |actual |underlying )?(?:cause|culprit) (?:is|was|of|:)|root cause|(?:the |main |real |actual )?(?:issue|problem|bug|reason|error|failure|crash)(?:s)? (?:is|was|were|here is|turned out|came from|comes from|occurs|happens|happened)"
    r"|(?:is|was|were|are) (?:caused by|due to|because)|because|caused by|due to|failed because|fails because|didn't|doesn't|missing|which means|mismatch|conflicts?|expects?|expected|should be|instead of|needs? (?:to|a|the)|must|not (?:defined|found|installed|set|exported|available))\b"
    r"|(?:원인은|문제는|때문에|때문입니다)",
    re.IGNORECASE,
)
STRONG_CAUSE = Expression(
    r"\b(?:root cause|(?:the |main |real |actual )?(?:issue|problem|bug|culprit) (?:is|was|turned out)(?: that)?\b|(?:is|was|were) caused by|failed because|fails because)|(?:원인은|문제는)",
    re.IGNORECASE,
)
LEAD = Expression(
    r"^(?:the |main |real |actual |root )*(?:issue|problem|bug|cause|culprit|reason)(?: here)? (?:is|was|turned out to be)"
    r"(?: that\b| clear:| simple:| straightforward:|:)\s*|^root cause:\s+|^problem(?: found)?:\s+|^issue(?: found)?:\s+",
    re.IGNORECASE,
)
# How a report tells of a failure that is mended: why it was, and what was done.
_EXPLAINS = Expression(
    r"\b(?:was|were|is) (?:because|caused by|due to|that)\b|\b(?:failed|crashed|broke|hung|timed out|(?:did not|didn't|couldn't|could not|wouldn't) \w+) (?:because|since|due to|as)\b|\bcame from\b|, so (?:i|we) \w+|\bwas (?:missing|in use|unset|expired|outdated|out of date|wrong|not (?:set|installed|running|found|defined|there))\b"
    r"|^(?:the )?(?:root )?(?:cause|culprit|reason)\b",
    re.IGNORECASE,
)
CURED = Expression(
    r"^(?:(?:so )?(?:i|we)(?:'ve| have)? (?:also |now |just |then )?(?:\w+ed|set|made|put|rewrote|ran)\b|(?:it|this|that|\w+) now \w+|(?:fixed|solved|resolved) (?:it )?(?:by|with)\b|now,? (?!i'll|let)\w+|the fix (?:was|is)\b|(?:installing|adding|setting|removing|changing|updating|restarting|starting|running|using|clearing|pinning)\b[^.]{3,120}\b(?:fixed|solved|helped|resolved))",
    re.IGNORECASE,
)
_CURES = Expression(
    r"[;,] (?:so )?(?:i|we|it|they|that|this) (?:now )?\w+|\bnow\b|\b(?:fixed|solved|resolved)\b",
    re.IGNORECASE,
)
_YET = Expression(
    r"\b(?:let me|i'll|i will|i need|next|still|tests? (?:all )?pass(?:es)?|all tests|i was|my (?:change|edit|mistake|fault)s?|wrong (?:file|path|folder|directory))\b|\?",
    re.IGNORECASE,
)
SAID_TO_BE_RIGHT = Expression(
    r"\b(?:is|are|which is|looks?) (?:correct|fine|ok|right|expected|intended)\b", re.IGNORECASE
)

_CODE = Expression(r"`([^`]+)`")
_NAME = Expression(
    r"\b[a-z]+[A-Z]\w+|\b\w+_\w+|\b[A-Z]\w+\.\w+|\b[\w-]+\.(?:py|go|rs|tsx?|jsx?|ya?ml|json|toml)\b"
)


def stated(text: str) -> str:
    """A sentence that names a cause, as it is written down."""
    return tidy(LEAD.sub("", text))


def account_of(said: Sequence[Sentence], trouble: Trouble, *, after: int, alone: bool) -> tuple[str, bool]:
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


def cause_of(said: Sequence[Sentence], trouble: Trouble, *, until: int) -> str:
    """What the assistant said the cause was, between the failure and its end."""
    best, found = 0, ""
    for sentence in said:
        if sentence.role != Role.CLAUDE or not trouble.line < sentence.line <= until + 3:
            continue
        text = stated(sentence.text)
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


def _shared(text: str, trouble: Trouble) -> bool:
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
