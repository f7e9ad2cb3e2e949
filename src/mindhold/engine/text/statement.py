"""An English sentence as what is compared: its content words, which of them follow the verb, how it is meant, and where
two of them differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

from mindhold.engine.text.expression import Expression
from mindhold.engine.text.opposites import OPPOSITE_VERBS
from mindhold.engine.text.sameness import TOKEN, number_key
from mindhold.engine.text.wording import (
    ALIASES,
    CONTRACTIONS,
    DATE_WORDS,
    FUNCTION_WORDS,
    NUMBER_WORDS,
    SINGLE_VALUED,
    UNITS,
    USE_VERBS,
)
from mindhold.model.lexemes import lexemes

BE = frozenset("is are am be being been was were 's 're isnt".split())
_WAS = frozenset("was were".split())
_DROPPED = frozenset(
    """a an the there do does did also really simply actually basically currently now please just always presently today
    who which that whom whose still already very quite has have having""".split()
)
_MODALS = frozenset("will can must should shall would".split())
_NEGATIONS = frozenset("not never no none cannot without neither nor nobody nothing nowhere hardly".split())
_STANDS_FOR = {
    "nobody": "somebody",
    "nothing": "something",
    "nowhere": "somewhere",
    "without": "with",
    "cannot": "can",
}
_VERBS = (
    frozenset(
        """require support need return expire start begin end stop open close accept reject allow deny belong contain include cost
    weigh take last consist mean equal want know think believe speak live love hate enjoy own lead report serve point connect
    retry fail pass default expose cache encrypt handle process belong play eat ride sit stand walk jump hold look wear
    happen occur meet perform cut talk sing dance swim climb throw catch kick drive push pull drink cook slice peel chop pour put""".split()
    )
    | USE_VERBS
    | SINGLE_VALUED
    | OPPOSITE_VERBS
)
# With one of these a sentence says less than it seems to.
_HEDGES = Expression(
    r"\b(?:might|maybe|perhaps|possibly|probably|sometimes|often|usually|typically|occasionally|rarely|seldom|some|several|few|many|most"
    r"|mostly|nearly|almost|partly|either|or|if|unless|except|when|whenever|whether|only|even|not (?:only|just|always|all|every|everyone"
    r"|necessarily|entirely|completely|fully|many|much|more|less|exactly|so|too)|would|could|another|other|else|both)\b",
)
_MAY = Expression(r"\bmay\b")  # the month has a capital
_LIMITS = Expression(
    r"\b(?:at least|at most|up to|more than|less than|fewer than|no more than|no less than|over|under|above|below|about|around|roughly"
    r"|approximately|nearly|almost|between|within|some|extra|additional)\b|[<>≤≥~≈]|\d\s?\+",
)
_PAST = Expression(
    r"\b(?:used to|previously|formerly|until|originally|initially|at first|in the past|back then|earlier|once was|no longer|before \d"
    r"|last (?:week|month|year|time|sprint|quarter)|yesterday|ago|had been|had)\b",
)
_FUTURE = Expression(
    r"\b(?:will|going to|plan(?:s|ned|ning)? to|want(?:s|ed)? to|tomorrow|next (?:week|month|year|sprint|quarter)|soon|eventually)\b",
)
_COLON = Expression(r"(?<=\w)\s*(?::|=|->|→)\s+(?=\S)|(?<=\w)\s*=\s*(?=\w)")
_HYPHEN = Expression(r"(?<=[^\W\d_])-(?=\w)|(?<=\d)-(?=[^\W\d_])")
_NAME = Expression(r".*[a-z][A-Z]|.*_|.*\d|[A-Z]{2,}|.*[+#]$")


@dataclass(frozen=True, slots=True)
class Word:
    """`key` is what is compared; `kind` one of number, date, path, name, words; `told` whether the verb stands before it."""

    key: str
    raw: str
    kind: str
    told: bool


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence without its articles, auxiliaries and negations, which are told apart."""

    words: tuple[Word, ...]
    verbs: frozenset[str]
    negations: int = 0
    hedged: bool = False
    limited: bool = False
    past: bool = False
    future: bool = False
    ended: bool = False  # "no longer", "not ... anymore"
    event: bool = False  # something that happened once, as far as its verb tells
    definite: bool = True  # its subject is a certain one, not "a man" or "two men"
    linked: bool = False  # by a form of "to be", a colon or an equals sign

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(word.key for word in self.words)


@dataclass(frozen=True, slots=True)
class Change:
    """A place where two statements differ: what the one has there, and what the other."""

    taken: tuple[Word, ...]
    put: tuple[Word, ...]
    before: tuple[Word, ...]  # all that stands before it, of the older one
    after: tuple[Word, ...]

    @property
    def both(self) -> bool:
        return bool(self.taken and self.put)

    @property
    def words(self) -> tuple[Word, ...]:
        return (*self.taken, *self.put)

    @property
    def told(self) -> bool:
        return all(word.told for word in self.words)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(word.kind for word in self.words)

    @property
    def keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return tuple(word.key for word in self.taken), tuple(word.key for word in self.put)

    def preceding(self, back: int = 1) -> str:
        return self.before[-back].key if len(self.before) >= back else ""


def changes_between(old: Statement, new: Statement) -> list[Change]:
    matcher = SequenceMatcher(None, old.keys, new.keys, autojunk=False)
    return [
        Change(old.words[a:b], new.words[c:d], old.words[:a], old.words[b:])
        for what, a, b, c, d in matcher.get_opcodes()
        if what != "equal"
    ]


def is_one_frame(old: Statement, new: Statement, changes: Sequence[Change]) -> bool:
    """Whether most of it is the same words: of other sentences the rules can't say what they are about."""
    changed = max(sum(len(change.taken) for change in changes), sum(len(change.put) for change in changes))
    return 2 * changed <= max(len(old.words), len(new.words))


@lru_cache(512)
def statement(sentence: str) -> Statement:
    """Pure; the last ones are remembered, for each is compared with several."""
    text = _HYPHEN.sub("_", _COLON.sub(" is ", sentence))  # "auth-a" is one name, and its "a" no article
    low = " ".join(text.lower().replace("’", "'").replace("n't", " not").split())
    ended = bool(_ENDED.search(low))
    words: list[Word] = []
    verbs: set[str] = set()
    negations = 0
    told = past = event = linked = False
    for raw, key, kind in _pieces(text):
        if key in BE:
            told, linked = told or bool(words), linked or bool(words)
            past = past or key in _WAS
            verbs.add("be")
            continue
        if key in _NEGATIONS:
            negations += 1
            told = told or (key in ("not", "never") and bool(words))
            if key not in _STANDS_FOR:
                continue
            key = _STANDS_FOR[key]
        named = raw == "A" and bool(words)  # "plan A"
        if (
            key in _MODALS
            or (key in _DROPPED and not named)
            or (ended and key in ("longer", "anymore", "any", "more"))
        ):
            told = told or (key in _MODALS | {"do", "does", "did", "has", "have"} and bool(words))
            event = event or key == "did"
            continue
        stem = _stem(key) if kind == "words" else key
        verb = kind == "words" and bool(words) and _is_verb(key, stem)
        words.append(Word(stem, raw, kind, told))
        if verb:
            told = True
            verbs.add(stem)
            event = event or (key.endswith("ed") and "be" not in verbs and key not in SINGLE_VALUED)
    return Statement(
        words=tuple(words),
        verbs=frozenset(verbs),
        negations=negations,
        hedged=bool(_HEDGES.search(low) or _MAY.search(text)),
        limited=bool(_LIMITS.search(low)),
        past=past or (bool(_PAST.search(low)) and not ended),
        future=bool(_FUTURE.search(low)),
        ended=ended,
        event=event or bool(_EVENTS.search(low)),
        definite=not _INDEFINITE.match(low),
        linked=linked,
    )


_INDEFINITE = Expression(
    r"(?:there (?:is|are) )?(?:an?|some|any|one|two|three|four|five|six|seven|eight|nine|ten|several|many|few|people|men|women|kids"
    r"|children|someone|somebody|\d+)\b(?! \S+ of the)"
)
_ENDED = Expression(r"\bno longer\b|\bnot\b.*\bany ?more\b|\bstopped\b")
_EVENTS = Expression(
    r"\b(?:went|came|said|told|bought|sold|met|saw|made|took|gave|got|found|ran|wrote|built|sent|began|broke|fell|left|won|lost|paid|spent"
    r"|deployed|released|shipped|fixed|merged|closed|opened|reported|visited|finished|completed|failed|crashed|happened|occurred"
    r"|measured|tried|asked|answered|called|talked|discussed|agreed|decided|added|removed)\b"
)


def _pieces(text: str) -> list[tuple[str, str, str]]:
    """Raw form, key and kind of each token; contractions in two."""
    found: list[tuple[str, str, str]] = []
    for match in TOKEN.finditer(text):
        group, raw = match.lastgroup or "word", match[0]
        if group in ("path", "date"):
            found.append((raw, raw.rstrip("/.:").lower(), group))
        elif group == "number":
            found.append((raw, number_key(raw.lower()), "number"))
        elif group == "sign":
            if raw in "%$€£¥₩-+<>≤≥≠°":
                found.append((raw, raw, "number"))
        elif group == "word":
            for part in CONTRACTIONS.get(raw.lower().replace("’", "'"), (raw,)):
                found.append(_of_word(part, first=not found))
        else:
            found.append((raw, raw, "words"))
    return found


def _of_word(raw: str, *, first: bool) -> tuple[str, str, str]:
    low = raw.lower().replace("’", "'").removesuffix("'s")
    if low in NUMBER_WORDS:
        return raw, NUMBER_WORDS[low], "number"
    if low in DATE_WORDS and not (low in ("may", "march", "am") and raw.islower()):
        return raw, DATE_WORDS[low], "date"
    if low in UNITS:
        return raw, UNITS[low], "number"
    named = _NAME.match(raw) is not None or (raw[0].isupper() and not first and low not in FUNCTION_WORDS)
    low = ALIASES.get(low, low)
    return raw, low, "name" if named else "words"


def _is_verb(word: str, stem: str) -> bool:
    return word in _VERBS or stem in _VERBS or stem + "e" in _VERBS


@lru_cache(4096)
def _stem(word: str) -> str:
    found = lexemes(word)
    return found[0] if len(found) == 1 else word
