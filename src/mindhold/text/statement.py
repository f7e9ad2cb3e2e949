"""Parses an English sentence into what is compared: content words, tense, negation, limits, amounts and dates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from functools import lru_cache
from math import isclose

from mindhold.model.lexemes import lexemes
from mindhold.text.pattern import LazyPattern
from mindhold.text.similarity import TOKEN, number_key
from mindhold.text.vocabulary import (
    ALIASES,
    CONTRACTIONS,
    DATE_WORDS,
    FUNCTION_WORDS,
    NUMBER_WORDS,
    OPPOSITE_VERBS,
    SINGLE_VALUED,
    UNITS,
    USE_VERBS,
)

_DECIMAL = LazyPattern(r"\d{1,15}(?:\.\d{1,9})?")
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "day": 86400.0, "week": 604800.0}
_KOREAN_SECONDS = {"초": 1.0, "분": 60.0, "시간": 3600.0, "일": 86400.0, "주": 604800.0}
_BYTES = {"byte": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}
_TWOFOLD = {"byte": 1.0, "kb": 2.0**10, "mb": 2.0**20, "gb": 2.0**30, "tb": 2.0**40}  # as many count
_NAMES = tuple(dict.fromkeys(DATE_WORDS.values()))
_WEEKDAYS = frozenset(name for name in _NAMES if name.endswith(("day", "요일"))) - {
    "today",
    "yesterday",
    "weekday",
}
MONTHS = frozenset(_NAMES[_NAMES.index("january") : _NAMES.index("december") + 1])
_KOREAN_DAY = LazyPattern(r"(?:(\d{4})년)?(\d{1,2})월(?:(\d{1,2})일)?")
_DIMENSIONS = (_SECONDS | _KOREAN_SECONDS, _BYTES, _TWOFOLD)


class Amounts(StrEnum):
    """How two values can be held against each other."""

    COMPARABLE = (
        "comparable"  # as they are written: in one unit, converted and different, or no amounts at all
    )
    EQUAL = "equal"
    UNCLEAR = "unclear"


def compared(one: Sequence[str], two: Sequence[str], *, bare: bool) -> Amounts:
    """Of the keys of two values; `bare` where they are numbers, units and signs alone.

    "5 minutes" is 300 seconds, "02:00 UTC" may be "11:00 KST", and of kilometres and miles nothing is known here.
    """
    if not one or not two:
        return Amounts.COMPARABLE
    if not (_is_number(one[0]) and _is_number(two[0])):
        if not bare or any(_is_number(key) for key in (*one, *two)):
            return Amounts.COMPARABLE
        known = any(one[-1] in units and two[-1] in units for units in _DIMENSIONS)
        return Amounts.COMPARABLE if known else Amounts.UNCLEAR
    if one[1:] == two[1:]:
        return Amounts.COMPARABLE
    amounts = [(_amount(one, units), _amount(two, units)) for units in _DIMENSIONS]
    both = [(left, right) for left, right in amounts if left is not None and right is not None]
    if any(isclose(left, right) for left, right in both):
        return Amounts.EQUAL
    return Amounts.COMPARABLE if both else Amounts.UNCLEAR


def _is_number(key: str) -> bool:
    return key[:1].isdigit()


def _amount(keys: Sequence[str], units: Mapping[str, float]) -> float | None:
    """ "5 minutes" in seconds."""
    if len(keys) != 2 or not _DECIMAL.fullmatch(keys[0]) or keys[1] not in units:
        return None
    return float(keys[0]) * units[keys[1]]


def may_be_one_day(one: Sequence[str], two: Sequence[str]) -> bool:
    """Of the keys of two dates: Monday may be the fifth, and the fifth of March be in 2026; Monday is no Thursday."""
    days = [_KOREAN_DAY.fullmatch(key) for keys in (one, two) for key in keys]
    if len(days) == 2 and days[0] and days[1]:
        parts = zip(days[0].groups(), days[1].groups(), strict=True)
        return all(left is None or right is None or int(left) == int(right) for left, right in parts)
    return _form(one) != _form(two)


def _form(keys: Sequence[str]) -> str:
    if any(key in _WEEKDAYS for key in keys):
        return "weekday"
    if any(key in MONTHS or "월" in key for key in keys):
        return "month"
    return "digits" if keys[0][:1].isdigit() else "words"


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
_HEDGES = LazyPattern(
    r"\b(?:might|maybe|perhaps|possibly|probably|sometimes|often|usually|typically|occasionally|rarely|seldom|some|several|few|many|most"
    r"|mostly|nearly|almost|partly|either|or|if|unless|except|when|whenever|whether|only|even|not (?:only|just|always|all|every|everyone"
    r"|necessarily|entirely|completely|fully|many|much|more|less|exactly|so|too)|would|could|another|other|else|both)\b",
)
_MAY = LazyPattern(r"\bmay\b")  # the month has a capital
_LIMITS = LazyPattern(
    r"\b(?:at least|at most|up to|more than|less than|fewer than|no more than|no less than|over|under|above|below|about|around|roughly"
    r"|approximately|nearly|almost|between|within|some|extra|additional)\b|[<>≤≥~≈]|\d\s?\+",
)
_PAST = LazyPattern(
    r"\b(?:used to|previously|formerly|until|originally|initially|at first|in the past|back then|earlier|once was|no longer|before \d"
    r"|last (?:week|month|year|time|sprint|quarter)|yesterday|ago|had been|had)\b",
)
_FUTURE = LazyPattern(
    r"\b(?:will|going to|plan(?:s|ned|ning)? to|want(?:s|ed)? to|tomorrow|next (?:week|month|year|sprint|quarter)|soon|eventually)\b",
)
_COLON = LazyPattern(r"(?<=\w)\s*(?::|=|->|→)\s+(?=\S)|(?<=\w)\s*=\s*(?=\w)")
_HYPHEN = LazyPattern(r"(?<=[^\W\d_])-(?=\w)|(?<=\d)-(?=[^\W\d_])")
_NAME = LazyPattern(r".*[a-z][A-Z]|.*_|.*\d|[A-Z]{2,}|.*[+#]$")


@dataclass(frozen=True, slots=True)
class Word:
    """`key` is what is compared; `kind` one of number, date, path, name, words; `told` whether the verb stands before it."""

    key: str
    raw: str
    kind: str
    told: bool


@dataclass(frozen=True, slots=True)
class ParsedStatement:
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
class StatementChange:
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


def changes_between(old: ParsedStatement, new: ParsedStatement) -> list[StatementChange]:
    matcher = SequenceMatcher(None, old.keys, new.keys, autojunk=False)
    return [
        StatementChange(old.words[a:b], new.words[c:d], old.words[:a], old.words[b:])
        for what, a, b, c, d in matcher.get_opcodes()
        if what != "equal"
    ]


def is_one_frame(old: ParsedStatement, new: ParsedStatement, changes: Sequence[StatementChange]) -> bool:
    """Whether most of it is the same words: of other sentences the rules can't say what they are about."""
    changed = max(sum(len(change.taken) for change in changes), sum(len(change.put) for change in changes))
    return 2 * changed <= max(len(old.words), len(new.words))


@lru_cache(512)
def statement(sentence: str) -> ParsedStatement:
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
    return ParsedStatement(
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


_INDEFINITE = LazyPattern(
    r"(?:there (?:is|are) )?(?:an?|some|any|one|two|three|four|five|six|seven|eight|nine|ten|several|many|few|people|men|women|kids"
    r"|children|someone|somebody|\d+)\b(?! \S+ of the)"
)
_ENDED = LazyPattern(r"\bno longer\b|\bnot\b.*\bany ?more\b|\bstopped\b")
_EVENTS = LazyPattern(
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
