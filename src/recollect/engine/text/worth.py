"""How much a text is worth keeping, by rules: does it name something, does it stand by itself, is it more than talk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.engine.text.expression import Expression
from recollect.engine.text.noise import is_noise
from recollect.engine.text.sameness import TOKEN
from recollect.model.lexemes import lexemes, stop_lexemes

CHATTER = 0.1  # the score of what is only talk
REPEATED = 0.3  # the most that one scores which says what another says already
ENOUGH_WORDS = 6  # of content: more don't make a text more telling
ENOUGH_SIGNS = 3
_LONGEST_TALK = 200  # characters: nobody announces a step in more
_LONGEST_ATOM = 1_500
_NAME = Expression(r".*[^\W\d_][A-Z]|.*_|.*\d|[A-Z]{2,}|.*[+#]$")
_SENTENCE_END = ".!?…。！？:"

# What points at something that was said before, where a text begins with it.
_DANGLING = Expression(
    r"(?:it|they|them|he|she|its|it's|that's|this one|that one|the (?:above|former|latter|same))\b"
    r"|(?:this|that|these|those)\s+(?:is|are|was|were|isn't|wasn't|works?|worked|should|can|could|will|would|must|did|does"
    r"|doesn't|didn't|has|have|had|fails?|failed|means?|looks?|seems?|needs?|also|too|way)\b"
    r"|(?:그거|이거|저거|그것|이것|저것|그건|이건|저건|그게|이게|저게|그걸|이걸|위의|위와 같이|아까|방금|거기|그렇게|이렇게)"
    r"|(?:それ|これ|あれ|そこ|そう)(?:は|が|を|で|に|も|です)"
    r"|(?:它|这个|那个|这样|那样|上面的)",
    re.IGNORECASE,
)
# Announcing the next step, or asking for it, is talk, unless it names something. What is asked for in so many words
# may be a preference: only what is too short to say one counts.
_TALK = Expression(
    r"(?:(?:ok(?:ay)?|sure|alright|great|good|right|now|so|well|yes|yeah|no)\b[,.! ]*)*"
    r"(?:let me|let's see|i'?ll|i will|i'?m going to|i am going to|i'?m (?:now )?(?:checking|looking|working|doing|trying)"
    r"|going to|working on|looking into|checking|one moment|just a (?:moment|second|sec|minute)|hold on|give me a"
    r"|(?:can|could|would|will) you|do you|are you|what about|how about)\b"
    r"|잠시만|잠깐만|기다려",
    re.IGNORECASE,
)
_TALK_AT_END = Expression(r"(?:볼게요?|보겠습니다|하겠습니다|할게요?|할까요|주세요|해줘)[.?!~ ]*$")
_SHORT_KOREAN = 16  # characters
_UNSPACED = Expression(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7ff\u0e00-\u0eff]")


@dataclass(frozen=True, slots=True)
class Worth:
    """A score from 0 to 1, and what it is made of."""

    score: float
    signs: int = 0  # names, numbers, dates, paths
    words: int = 0  # of content, each once
    dangling: bool = False  # it speaks of something that it doesn't name
    chatter: bool = False
    repeated: bool = False  # another one says the same


def worth(text: str, *, labels: Sequence[str] = (), repeated: bool = False) -> Worth:
    """Of a text; `labels` (a topic, keywords) say what it speaks of. In any language, best in English and Korean."""
    said = text.strip()
    words = _words(said)
    signs = _signs(said)
    dangling = _DANGLING.match(said) is not None
    if _is_chatter(said, signs=signs):
        return Worth(CHATTER, signs, words, dangling, chatter=True, repeated=repeated)
    specific = 0.5 * min(1.0, words / ENOUGH_WORDS) + 0.5 * min(1.0, signs / ENOUGH_SIGNS)
    whole = 1.0 if words >= 3 else 0.5
    if dangling:
        whole *= 0.6 if any(labels) else 0.3
    if said.endswith(("?", "？")):  # an open question is worth something, an answer more
        whole *= 0.7
    if len(said) > _LONGEST_ATOM:
        whole *= 0.8
    score = 0.2 + 0.45 * specific + 0.35 * whole
    if repeated:
        score = min(score, REPEATED)
    return Worth(round(score, 3), signs, words, dangling, repeated=repeated)


def _is_chatter(said: str, *, signs: int) -> bool:
    if is_noise(said):
        return True
    if len(said) > _LONGEST_TALK or signs:
        return False
    short = len(said) <= _SHORT_KOREAN
    return _TALK.match(said) is not None or (short and _TALK_AT_END.search(said) is not None)


def _words(said: str) -> int:
    """Of content, each once. Lexemes of unspaced scripts overlap, so there are more of them than words."""
    unspaced = len(_UNSPACED.findall(said))
    found = len(set(lexemes(said)) - stop_lexemes())
    return min(found, max(len(said.split()), unspaced // 2)) if unspaced else found


def _signs(said: str) -> int:
    """How many different things of a kind that can be looked up it names."""
    found: set[str] = set()
    start = True  # of a sentence, where a capital says nothing
    for match in TOKEN.finditer(said):
        kind, raw = match.lastgroup or "word", match[0]
        before = said[: match.start()].rstrip()
        start = not before or before[-1] in _SENTENCE_END or before[-1] in "\n-*•"
        if kind in ("date", "path", "number"):
            found.add(raw)
        elif kind == "word" and (_NAME.match(raw) or (raw[0].isupper() and not start and raw not in _PLAIN)):
            found.add(raw.casefold())
        if len(found) >= ENOUGH_SIGNS:
            break
    return len(found) + said.count("`") // 2


_PLAIN = frozenset(("I", "I'm", "I'll", "I've", "I'd", "OK", "Ok"))  # capitals that name nothing
