"""How much a text is worth keeping, by rules: does it name something, does it stand by itself, is it more than talk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from mindhold.engine.text.expression import Expression
from mindhold.engine.text.noise import is_noise
from mindhold.engine.text.sameness import TOKEN
from mindhold.model.lexemes import lexemes, stop_lexemes

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
# Announcing the next step, or asking for it, is talk, if there is nothing else: what is announced may be a decision, and
# what is asked for in so many words a preference.
_TALK = Expression(
    r"(?:(?:ok(?:ay)?|sure|alright|great|good|right|now|so|well|yes|yeah|no)\b[,.! ]*)*"
    r"(?:let me|let's see|i'?ll|i will|i'?m going to|i am going to|i'?m (?:now )?(?:checking|looking|working|doing|trying)"
    r"|going to|working on|looking into|checking|one moment|just a (?:moment|second|sec|minute)|hold on|give me a"
    r"|(?:can|could|would|will) you|do you|are you|what about|how about)\b",
    re.IGNORECASE,
)
_STEPS = (
    "check look see take try think get start begin continue proceed go work find read do moment second sec minute bit quick "
    "quickly now first next please again closer thing ready sure help wait know"
)
_KOREAN_TALK = Expression(
    r"(?:(?:네|예|응|넵|좋아요?|좋습니다|알겠습니다|알겠어요?|그럼|그러면|이제|먼저|우선|일단|바로|지금|다시|계속|직접|한\s?번|더|좀|조금만|제가"
    r"|잠시만요?|잠깐만요?|그거|이거|그것|이것|그건|이건)(?:[\s,.!~]+|$))*"
    r"(?:(?:(?:확인|진행|시작|작업|처리|검토|수정|생각|계속|실행)(?:을|를)?\s?해?|찾아|살펴|알아|기다려|해)?\s?"
    r"(?:볼게요?|보겠습니다|하겠습니다|할게요?|할까요|주세요|줘|봐))?[.?!~ ]*$"
)
_UNSPACED = Expression(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7ff\u0e00-\u0eff]")


@dataclass(frozen=True, slots=True)
class Worth:
    """A score from 0 to 1, and what it is made of."""

    score: float
    signs: int = 0  # names, numbers, dates, paths
    words: int = 0  # of content, each once
    dangling: bool = False  # it speaks of something that it doesn't name
    chatter: bool = False
    noise: bool = False  # a greeting, a thank-you, a sign: nobody would call that anything else
    repeated: bool = False  # another one says the same


def worth(text: str, *, labels: Sequence[str] = (), repeated: bool = False) -> Worth:
    """Of a text; `labels` (a topic, keywords) say what it speaks of. In any language, best in English and Korean."""
    said = text.strip()
    words = _words(said)
    signs = _signs(said)
    dangling = _DANGLING.match(said) is not None
    noise = is_noise(said)
    if noise or (not signs and _is_talk(said)):
        return Worth(CHATTER, signs, words, dangling, chatter=True, noise=noise, repeated=repeated)
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


def _is_talk(said: str) -> bool:
    """Whether it announces a step, or asks for one, and says nothing besides."""
    if len(said) > _LONGEST_TALK:
        return False
    if opening := _TALK.match(said):
        return not set(lexemes(said[opening.end() :])) - stop_lexemes() - _steps()
    return bool(said) and _KOREAN_TALK.match(said) is not None


@cache
def _steps() -> frozenset[str]:
    return frozenset(lexemes(_STEPS))


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
