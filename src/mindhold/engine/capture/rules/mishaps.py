"""Failures told in words: what went wrong, with why it did or what helped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mindhold.engine.capture.item import SIGNS
from mindhold.engine.capture.rules.candidate import LONGEST, Candidate
from mindhold.engine.capture.rules.causes import stated, with_its_cure
from mindhold.engine.capture.rules.manner import asks, korean
from mindhold.engine.capture.rules.speech import Sentence
from mindhold.engine.capture.rules.standing import announces, hedged, stands_as_told, tidy
from mindhold.engine.text.expression import Expression
from mindhold.model.error_signs import error_signs
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role

FEWEST_WORDS = 6

_WENT_WRONG = Expression(
    r"\b(?:fail(?:ed|s|ing|ures?)?|crash(?:ed|es|ing)?|broke|broken|breaking|kept \w+ing|returned (?:zeros?|null|nothing|nan|empty|wrong)|stayed \w+|never (?:started|came|arrived|finished|returned|fired|showed)|errors?|exceptions?|\w+(?:error|exception)|e[a-z]*(?:refused|resolve|addrinuse|acces|noent|notfound|timedout|perm|connreset|mfile|nospc)|oomkilled|killed|segfault\w*|panic\w*|hung|froze|freeze|deadlock\w*|did(?:n't| not) \w+|wouldn't|couldn't|can't \w+|[45]\d\ds?|(?:was|were|is) (?:so |too |very )?slow|leak\w*|loop|garbage|ran out of|white screen|blank|black|flicker\w*|flak(?:y|iness)|time[ds]?[ -]?outs?|bug|problem|issue|symptom|mismatch|refused|denied|stuck|corrupt\w*|garbled|duplicate[ds]?|lost|stutter\w*|lag(?:ged)?|drift\w*|root cause|culprit|regression|warning)\b"
)
_WHY = Expression(
    r"\b(?:because|since (?:the|we|it|node|python|\w+ (?:was|is|had))|(?:was|were|is|are|been) (?:caused by|due to|down to)|due to|came from|comes from|(?:problem|issue|bug|culprit|cause|reason)(?: (?:for|of|behind) [^.]{3,60})? (?:was|is|were|turned out)|turn(?:ed|s) out|as the \w+ (?:was|had))\b"
)
_CURE = Expression(
    r"\b(?:(?:fixed|solved|resolved|cured|repaired|sorted|healed) (?:it|that|this|the|by|with|everything|all)\b|(?:fixed|solved|resolved)(?=[.!:;]|$)|(?:that |which )?helped\b|did the trick|made (?:it|them) work|went away|disappeared|(?:is|are|was|were) gone (?:after|since|now)|vanished|(?:;|,|but|so) (?:\w+ )?\w+ing [^.;]{3,60} (?:worked|works|fixed|solved|helped)|brought (?:it|that) (?:down|back)|(?:is|was|are|were|gets?) (?:fixed|solved|resolved) (?:by|with|after)|until (?:i|we) \w+|works? (?:now|again) (?:after|since|with)|(?:;|,|so|and) (?:we|i) (?:raised|pinned|added|removed|increased|set|upgraded|downgraded|changed|switched|moved|installed|disabled|enabled|replaced|renamed|bumped|rolled|cleared|deleted|restarted)\b|\w+ing (?:it |that |them )?(?:with [^.]{2,40} |to [^.]{2,30} )?(?:fixes|solves|helps))"
)
_PAST = Expression(
    r"\b(?:was|were|failed|crashed|broke|got|had|did|didn't|came|went|returned|printed|turned out|caused|ran|fixed|solved|resolved|helped|wouldn't|couldn't|threw|complained|hung|froze|until)\b"
)
_PIECES = Expression(
    r"\s(?:was|were|is|are|got) (?:caused|solved|fixed|resolved|due|thrown|gone)\b|\s(?:because|since|due to|until|after|when|went away)\b|[;,]\s|\s[-–—]\s|\.\s"
)
_POINTS = Expression(r"\b(?:that|this)(?=\.$)")  # "pinning it fixed that."
_SELF = Expression(r"\bI\b(?!/)")
_NAMED = Expression(r"[`\"“]([^`\"”]{6,160})[`\"”]")
_WITH = Expression(r"\b(?:with|got|gets?|threw|throws|raised|saw|said|says|of) (?:an? |the )?(?=[A-Z`\"])")


def mishaps(said: Sequence[Sentence]) -> Iterator[Candidate]:
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
        text = tidy(sentence.text if own else stated(sentence.text))
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
        yield Candidate(
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
