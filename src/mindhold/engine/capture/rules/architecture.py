"""Architecture: how the thing is built, as it was said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mindhold.engine.capture.rules.candidate import Candidate
from mindhold.engine.capture.rules.speech import Sentence
from mindhold.engine.capture.rules.standing import announces, hedged, names, stands_alone, tidy
from mindhold.engine.text.expression import Expression
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role

_STRUCTURE = Expression(
    r"\b(?:lives? (?:in|at|under)|(?:is|are) (?:defined|located|stored|kept|implemented|declared|registered|configured|written|persisted|handled|loaded|set|managed) (?:in|at|under|by|via|inside|with)|resides? in"
    r"|consists? of|(?:is|are) (?:made up|composed) of|(?:is|are) split into|(?:is|are) responsible for|(?:is|are) the (?:entry ?point|main|single|central|core|only)|is an? (?:[\w-]+ ){0,4}(?:service|module|package|library|wrapper|interface|component|plugin|hook|class|function|helper|endpoint|table|queue|worker|command|script|monorepo|app|application|cli|api|store|cache|struct|type|strategy)"
    r"|stores|persists|reads|writes|loads|merges|delegates to|wraps|implements|extends|inherits from|depends? on|talks? to|connects to|listens on|exposes|handles|dispatches|emits|publishes|subscribes|builds|maps|contains|holds|tracks|uses|use|calls|creates"
    r"|returns|sends|validates|parses|converts|serializes|caches|checks|falls? back to|applies|takes|generates|manages|controls|provides|supports|triggers|receives|fetches|runs (?:on|in|as|before|after|once|every|when|at)|share)\b"
    r"|(?:에 (?:있습니다|있다|저장|정의)|로 구성|담당(?:합니다|한다)|사용합니다)",
    re.IGNORECASE,
)
_STRONG = Expression(
    r"\b(?:lives? (?:in|at|under)|(?:is|are) (?:defined|located|stored|kept|implemented|declared|registered|configured|persisted|managed) (?:in|at|under|by|via|inside|with)|consists? of|responsible for|entry ?point|delegates? to|falls? back to|depends? on)\b",
    re.IGNORECASE,
)
_SUBJECT = Expression(
    r"^(?:the |an? |each |every |all |our |in )?(?:`[^`]+`|[\w.-]*[/._][\w./-]*\w|[A-Z][a-z]+[A-Z]\w*|[A-Z][\w-]+|[a-z][\w-]*)(?:\(\))?(?:\s+\([^)]{1,60}\))?(?:[ -][\w`./()'’-]+){0,5}?\s+(?:now |also |only |always |then |already |directly |first |currently )?$",
)
_NO_SUBJECT = frozenset(
    ("the", "a", "an", "each", "every", "all", "our", "in", "to", "or", "and", "for", "on", "by")
)
_FILE = Expression(r"\w/\w|\w\.(?!\()[a-z]{1,5}\b")
_NOW = Expression(r"\b(?:now|will now|will)\b", re.IGNORECASE)
_PAST = Expression(
    r"\b(?:was|were|used to|previously|before|had|no longer|removed|deleted|would)\b", re.IGNORECASE
)
_LISTED = Expression(
    r"^(?:(?:the )?`[^`]+`(?:\s*\([^)]*\))?:\s+(?:An? |The |(?!(?:Pass|Process|Access|Address)\b)[A-Z][a-z]+s\b)|The [\w`./ -]{4,60}:\s+[A-Z][a-z]+s\b.*; )",
    re.IGNORECASE,
)
_HANGUL = Expression("[가-힣]")
_NOT_BUILT = Expression(
    r"\b(?:test(?:s|ed|ing)? (?:pass|fail|check|verif|cover|don't|never|use)\w*|pr #?\d+|#\d{1,5}\b|commit [0-9a-f]{6,}|reviewer|copilot|linter|lsp|gopls|diagnostics?|you(?:r|'re)?\b|conflict markers?|merge conflict|line \d+|\d+ (?:files?|tests?|lines?) )",
    re.IGNORECASE,
)


def architecture(said: Sequence[Sentence]) -> Iterator[Candidate]:
    """Statements of structure."""
    for sentence in said:
        if sentence.role == Role.CLAUDE and not sentence.speculative and (found := _structure(sentence)):
            yield found


def _structure(sentence: Sentence) -> Candidate | None:
    text = tidy(sentence.text)
    if _FRAGMENT.match(text) or len(text.split()) < 6:
        return None
    if announces(text) or hedged(text) or not stands_alone(text) or _NOT_BUILT.search(text):
        return None
    if not (sentence.closing or (_STRONG.search(text) and _FILE.search(text))) or (
        _PAST.search(text) and not _NOW.search(text)
    ):
        return None
    if _LISTED.match(text) and "_test." not in text and ".test." not in text:
        return Candidate(Kind.ARCHITECTURE, text, sentence.line, 0.75)
    verb = _STRUCTURE.search(text)
    if not verb or ("`" not in text and "/" not in text and names(text) < 2):
        return None
    subject = text[: verb.start()]
    if (not _SUBJECT.match(subject) or subject.strip().lower() in _NO_SUBJECT) and not _HANGUL.search(text):
        return None
    return Candidate(Kind.ARCHITECTURE, text, sentence.line, 0.75 if _STRONG.search(text) else 0.6)


_FRAGMENT = Expression(
    r"^(?:`test|the tests?\b|(?:the )?users?\b|session [A-Z0-9]\b|someone|developer|reviewer|then|first|next|finally|second|third|lastly|no|same|used|only|just|updates?|adds?|removes?|renames?|fixes|missing|unnecessary|duplicate[ds]?|unused|exported but|add|remove|update|move|rename|refactor|extract|use|make|check|ensure|fix|added|updated|changed|removed|created|fixed|moved|renamed|replaced|with|which|and|or)\b|^`[^`]+`\s+(?:with|which|[-–—])\s",
    re.IGNORECASE,
)
