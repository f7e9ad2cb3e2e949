"""What the person puts right: "no, the port is 8081, not 8080"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mindhold.engine.capture.rules.candidate import Candidate
from mindhold.engine.capture.rules.manner import owned, passing
from mindhold.engine.capture.rules.speech import Sentence
from mindhold.engine.text.expression import Expression
from mindhold.model.memory import Kind
from mindhold.ports.transcripts import Role

FEWEST_WORDS = 4

_OBJECTS = Expression(
    r"^(?:(?:no+|nope|nah|wrong|incorrect|wait|stop|hm+|actually|correction|careful|sorry|oh|but|ok|not quite|almost|i said|i meant|i told you|again|as i said"
    r"|(?:no,? )?(?:that'?s|this is|that is) (?:wrong|not right|incorrect|not correct|not true|not what i (?:want(?:ed)?|meant|asked for)))\b[\s,.:;!—–-]*)+"
)
_PUTS = Expression(
    r"\b(?:should(?:n't| not)?|must(?:n't| not)?|has to|have to|needs? to|(?:don't|do not|never|always) \w+|we (?:use|call|don't|do|only|write|have|changed|agreed|deploy|store|never|always|need|want)"
    r"|let's (?:use|keep|make|call|go|switch|store|put|not)|(?:is|are) (?:called|named|in|spelled|not)|belongs?|use|not \w+|instead of|rather than)\b"
)
_FIRM = Expression(
    r"^(?:no|nope|nah|wrong|incorrect|correction|actually we|(?:no,? )?that'?s (?:wrong|not right|incorrect|not correct|not true))\b"
)
_SO = Expression(
    r"(?!it\b|i\b|that\b|this\b|you\b)(?:[\w`./'-]+ ){1,6}?(?:is|are|was|were|has|have|uses?|comes?|runs?|renamed|moved|lives?|goes|expects?|returns?)\b .{4,}"
)
_CONTRAST = Expression(
    r"(?:,|;| and| -) not (?!sure|yet|now|that|this|the other|so |a |an |be |in the mood)\S+|^not [\w.`-]+(?: [\w.`-]+)?, |\b(?:use|using|with|is|are|in|called|spelled) \S+(?: \S+){0,3} not (?:in |with |by |from )?[\w.`\"'-]+[.!]?$"
    r"|\b(?:this|our) (?:project|repo|codebase|app|team) (?:uses?|has|needs|wants|is|doesn't)\b"
)
_LOOSE = Expression(r" (?:now|again|here)\b")
_EMPTY = Expression(
    r"\b(?:leave|that one|this one|the other|the same|not that|not this|undo|revert|go back)\b|\bwe (?:have|need) to (?:go|leave|stop|wait|fix|finish)\b"
)


def corrections(said: Sequence[Sentence]) -> Iterator[Candidate]:
    """Only what says how it is, or is to be; "no, the other file" says nothing."""
    for sentence in said:
        if sentence.role != Role.USER:
            continue
        low = sentence.text.lower()
        objected = _OBJECTS.match(low)
        put = objected and (
            _PUTS.search(low, objected.end()) or (_FIRM.match(low) and _SO.match(low, objected.end()))
        )
        if not put and not _CONTRAST.search(low):
            continue
        text = owned(replace(sentence, text=_without_objection(sentence.text)))
        if len(text.split()) < FEWEST_WORDS or _EMPTY.search(low) or passing(_LOOSE.sub("", text)):
            continue
        yield Candidate(Kind.DECISION, text, sentence.line, 0.85 if objected else 0.8)


def _without_objection(text: str) -> str:
    objected = _OBJECTS.match(text.lower())
    return text[objected.end() :] if objected else text
