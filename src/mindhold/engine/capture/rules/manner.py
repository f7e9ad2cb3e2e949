"""How a person means what they say: as a question, for the step at hand, or for good."""

from __future__ import annotations

from mindhold.engine.capture.rules.candidate import LONGEST
from mindhold.engine.capture.rules.speech import Sentence
from mindhold.engine.capture.rules.standing import names, tidy
from mindhold.engine.text.expression import Expression
from mindhold.engine.text.worth import worth
from mindhold.ports.transcripts import Role

SHORTEST = 12  # characters

_ASKING = Expression(
    r"\?|^(?:can|could|would|will|should|shall|do|does|did|is|are|was|were|what|why|how|where|which|who|whose|have|has)(?:n't)?\s+"
    r"(?:you|we|i|it|the|there|this|that|they|does|do|is|are|our|my|should|would|can|about|if)\b|(?:나요|까요|는가|습니까|ㄹ까)\W*$"
)
_SUPPOSING = Expression(
    r"\b(?:maybe|perhaps|probably|possibly|not sure|might|could|would|wonder\w*|i guess|i think (?:it|that|this|the)\b|suppose|assuming|imagine|what if|if (?:we|i|you) (?:used|had|were|did|went|chose|switched)|in theory|hypothetical\w*|for example|e\.g\.|unless you)\b"
    r"|\bsaid [\"'“]|(?:아마|혹시|만약|것 같|면 어떨|모르겠)"
)
_MOMENT = Expression(
    r"\b(?:yet|for now|(?<!from )now|this time|at the moment|at this point|today|tonight|tomorrow|yesterday|soon|(?<!and )(?<!or )later|here|already|again|anymore|so far|still|currently|meanwhile|temporarily"
    r"|this (?!project\b|repo|codebase|app\b|service\b|package\b|library\b|plugin\b|game\b|product\b|team\b|company\b|machine\b|is (?:an?|our)\b)\w+|that (?:one|file|function|test|line|part|page|button|change|branch|commit)|these|those|the (?:last|previous|other|second|third|above|next|same) (?!version|minute)\w+"
    r"|in (?:\w+ )?(?:a |an )?(?:few )?(?:seconds?|minutes?|hours?)(?= *[.,!]|$)|i have to\b|(?:i|you) (?:just|already|got|get|had|forgot|ran|tried|see|saw|pushed|did|made|changed|sent|meant|mean)\b)"
    r"|(?:^|\s)(?:이|그|저|요)(?:번(?:에는?|만)?)? (?:파일|함수|버튼|줄|부분|테스트|커밋|코드|페이지|한 번)|(?:지금|일단|잠깐|여기|아까|방금|이번에는?|이번만|다시|오늘|내일|아직|우선|먼저)(?:은|는|만)?(?=\s)"
)
_POINTING = Expression(r"\b(?:it|this|that|them|those|these|one|here|there)[.!]?$")
_HANGUL = Expression("[가-힣]")


def asks(text: str) -> bool:
    """Whether it is a question, or only supposes something."""
    low = text.lower()
    return _ASKING.search(low) is not None or _SUPPOSING.search(low) is not None


def passing(text: str) -> bool:
    """Whether it speaks of the step at hand, or of how things stand this moment."""
    low = text.lower()
    return _MOMENT.search(low) is not None or _POINTING.search(low) is not None


def korean(text: str) -> bool:
    return _HANGUL.search(text) is not None


def owned(sentence: Sentence) -> str:
    """What the person states, as it is written down; empty where it is another's, a question, or says too little."""
    if sentence.role != Role.USER or sentence.aside or sentence.speculative:
        return ""
    text = tidy(sentence.text)
    if not SHORTEST <= len(text) <= LONGEST or asks(sentence.text) or text.count("`") % 2:
        return ""
    found = worth(text)
    if found.chatter or found.dangling or (found.words < 2 and not names(text)):
        return ""
    return text


def telling(text: str) -> bool:
    """Whether it names something: by a capital inside, a number, an address, a path, or code."""
    return names(text) > 0 or _SPECIFIC.search(text) is not None


_SPECIFIC = Expression(
    r"(?<=[\w,;] )[A-Z][\w.+#-]*[a-z0-9]\w*|\b\d|\w\.\w{2,}\b|\w/\w|^[A-Z][a-z]+ (?:is|was|runs|has) (?:the|our|an?)\b"
)
