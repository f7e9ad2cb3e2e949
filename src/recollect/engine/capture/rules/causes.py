"""What the assistant said the cause of a failure was."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from recollect.engine.capture.rules.speech import Sentence
from recollect.engine.capture.rules.standing import announces, hedged, names, stands_alone, tidy
from recollect.engine.capture.rules.trouble import Trouble
from recollect.engine.text.expression import Expression
from recollect.model.lexemes import lexemes, stop_lexemes
from recollect.ports.transcripts import Role

LONGEST_CAUSE = 200
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
    r"(?: that\b| clear:| simple:| straightforward:|:|(?= `)|(?-i:(?= [A-Z])))\s*|^root cause:\s+|^problem(?: found)?:\s+|^issue(?: found)?:\s+",
    re.IGNORECASE,
)
_NAMED_CAUSE = Expression(
    r"^(?:the |main |real |actual )*(?:root cause|issue|problem|bug|cause|culprit|reason)(?: here)? (?:is|was|turned out to be) (?=(?:an?|the|missing) )",
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
    if _NAMED_CAUSE.match(text):
        return f"Cause: {tidy(_NAMED_CAUSE.sub('', text))}"
    return tidy(LEAD.sub("", text))


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
        if not stands_alone(text) or not _shared(text, trouble) or SAID_TO_BE_RIGHT.search(text):
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
