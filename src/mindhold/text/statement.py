"""Parses an English sentence for comparison: content words, tense, negation, limits, amounts and dates."""

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
# binary multiples, which many people use
_BINARY_BYTES = {"byte": 1.0, "kb": 2.0**10, "mb": 2.0**20, "gb": 2.0**30, "tb": 2.0**40}
_NAMES = tuple(dict.fromkeys(DATE_WORDS.values()))
_WEEKDAYS = frozenset(name for name in _NAMES if name.endswith(("day", "요일"))) - {
    "today",
    "yesterday",
    "weekday",
}
MONTHS = frozenset(_NAMES[_NAMES.index("january") : _NAMES.index("december") + 1])
_KOREAN_DAY = LazyPattern(r"(?:(\d{4})년)?(\d{1,2})월(?:(\d{1,2})일)?")
_DIMENSIONS = (_SECONDS | _KOREAN_SECONDS, _BYTES, _BINARY_BYTES)


class AmountRelation(StrEnum):
    """How two amounts compare."""

    COMPARABLE = "comparable"  # as written: same unit, converted and different, or not amounts
    EQUAL = "equal"
    UNCLEAR = "unclear"


def compare_amounts(left: Sequence[str], right: Sequence[str], *, bare: bool) -> AmountRelation:
    """Compare the keys of two values; `bare` if they consist of numbers, units and signs only.

    "5 minutes" equals 300 seconds, "02:00 UTC" may be "11:00 KST", and kilometres and miles are not converted.
    """
    if not left or not right:
        return AmountRelation.COMPARABLE
    if not (_is_number(left[0]) and _is_number(right[0])):
        if not bare or any(_is_number(key) for key in (*left, *right)):
            return AmountRelation.COMPARABLE
        convertible = any(left[-1] in units and right[-1] in units for units in _DIMENSIONS)
        return AmountRelation.COMPARABLE if convertible else AmountRelation.UNCLEAR
    if left[1:] == right[1:]:
        return AmountRelation.COMPARABLE
    amounts = [(_amount(left, units), _amount(right, units)) for units in _DIMENSIONS]
    both = [(a, b) for a, b in amounts if a is not None and b is not None]
    if any(isclose(a, b) for a, b in both):
        return AmountRelation.EQUAL
    return AmountRelation.COMPARABLE if both else AmountRelation.UNCLEAR


def _is_number(key: str) -> bool:
    return key[:1].isdigit()


def _amount(keys: Sequence[str], units: Mapping[str, float]) -> float | None:
    if len(keys) != 2 or not _DECIMAL.fullmatch(keys[0]) or keys[1] not in units:
        return None
    return float(keys[0]) * units[keys[1]]


def may_be_same_day(left: Sequence[str], right: Sequence[str]) -> bool:
    """Whether two dates may be the same day: Monday may be the fifth, 5 March may be in 2026; Monday isn't Thursday."""
    days = [_KOREAN_DAY.fullmatch(key) for keys in (left, right) for key in keys]
    if len(days) == 2 and days[0] and days[1]:
        parts = zip(days[0].groups(), days[1].groups(), strict=True)
        return all(
            left_part is None or right_part is None or int(left_part) == int(right_part)
            for left_part, right_part in parts
        )
    return _date_form(left) != _date_form(right)


def _date_form(keys: Sequence[str]) -> str:
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
_POSITIVE_FORMS = {
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
# Words that make a sentence say less than it seems to.
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
    """A word: `key` is compared; `kind` is number, date, path, name or words; `in_predicate` if it follows the verb."""

    key: str
    raw: str
    kind: str
    in_predicate: bool


@dataclass(frozen=True, slots=True)
class ParsedStatement:
    """A sentence as its content words; articles, auxiliaries and negations are recorded separately."""

    words: tuple[Word, ...]
    verbs: frozenset[str]
    negations: int = 0
    hedged: bool = False
    limited: bool = False
    past: bool = False
    future: bool = False
    ended: bool = False  # "no longer", "not ... anymore"
    event: bool = False  # something that happened once, judging by its verb
    definite: bool = True  # its subject is a specific one, not "a man" or "two men"
    linked: bool = False  # by a form of "be", a colon or an equals sign

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(word.key for word in self.words)


@dataclass(frozen=True, slots=True)
class StatementChange:
    """A place where two statements differ: the words of the old one and the words of the new one."""

    removed: tuple[Word, ...]
    added: tuple[Word, ...]
    before: tuple[Word, ...]  # everything before it in the older statement
    after: tuple[Word, ...]

    @property
    def both(self) -> bool:
        return bool(self.removed and self.added)

    @property
    def words(self) -> tuple[Word, ...]:
        return (*self.removed, *self.added)

    @property
    def in_predicate(self) -> bool:
        return all(word.in_predicate for word in self.words)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(word.kind for word in self.words)

    @property
    def keys(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return tuple(word.key for word in self.removed), tuple(word.key for word in self.added)

    @property
    def values(self) -> str:
        """Both values, for an explanation."""
        removed, added = (" ".join(word.raw for word in words) for words in (self.removed, self.added))
        return f"{removed} against {added}"

    def preceding(self, back: int = 1) -> str:
        return self.before[-back].key if len(self.before) >= back else ""


def changes_between(old: ParsedStatement, new: ParsedStatement) -> list[StatementChange]:
    """The places where two statements differ, in order."""
    matcher = SequenceMatcher(None, old.keys, new.keys, autojunk=False)
    return [
        StatementChange(old.words[a:b], new.words[c:d], old.words[:a], old.words[b:])
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    ]


def share_most_words(old: ParsedStatement, new: ParsedStatement, changes: Sequence[StatementChange]) -> bool:
    """Whether most words are the same: otherwise the rules can't tell what the sentences are about."""
    changed = max(
        sum(len(change.removed) for change in changes), sum(len(change.added) for change in changes)
    )
    return 2 * changed <= max(len(old.words), len(new.words))


@lru_cache(512)
def parse_statement(sentence: str) -> ParsedStatement:
    """Parse a sentence. Cached, because each is compared with several others."""
    text = _HYPHEN.sub("_", _COLON.sub(" is ", sentence))  # "auth-a" is one name, and its "a" not an article
    low = " ".join(text.lower().replace("’", "'").replace("n't", " not").split())
    ended = bool(_ENDED.search(low))
    words: list[Word] = []
    verbs: set[str] = set()
    negations = 0
    in_predicate = past = event = linked = False
    for raw, key, kind in _pieces(text):
        if key in BE:
            in_predicate, linked = in_predicate or bool(words), linked or bool(words)
            past = past or key in _WAS
            verbs.add("be")
            continue
        if key in _NEGATIONS:
            negations += 1
            in_predicate = in_predicate or (key in ("not", "never") and bool(words))
            if key not in _POSITIVE_FORMS:
                continue
            key = _POSITIVE_FORMS[key]
        is_label = raw == "A" and bool(words)  # "plan A"
        if (
            key in _MODALS
            or (key in _DROPPED and not is_label)
            or (ended and key in ("longer", "anymore", "any", "more"))
        ):
            in_predicate = in_predicate or (
                key in _MODALS | {"do", "does", "did", "has", "have"} and bool(words)
            )
            event = event or key == "did"
            continue
        stem = _stem(key) if kind == "words" else key
        verb = kind == "words" and bool(words) and _is_verb(key, stem)
        words.append(Word(stem, raw, kind, in_predicate))
        if verb:
            in_predicate = True
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
    """Raw form, key and kind of each token; a contraction gives two."""
    pieces: list[tuple[str, str, str]] = []
    for match in TOKEN.finditer(text):
        group, raw = match.lastgroup or "word", match[0]
        if group in ("path", "date"):
            pieces.append((raw, raw.rstrip("/.:").lower(), group))
        elif group == "number":
            pieces.append((raw, number_key(raw.lower()), "number"))
        elif group == "sign":
            if raw in "%$€£¥₩-+<>≤≥≠°":
                pieces.append((raw, raw, "number"))
        elif group == "word":
            for part in CONTRACTIONS.get(raw.lower().replace("’", "'"), (raw,)):
                pieces.append(_word_piece(part, first=not pieces))
        else:
            pieces.append((raw, raw, "words"))
    return pieces


def _word_piece(raw: str, *, first: bool) -> tuple[str, str, str]:
    low = raw.lower().replace("’", "'").removesuffix("'s")
    if low in NUMBER_WORDS:
        return raw, NUMBER_WORDS[low], "number"
    if low in DATE_WORDS and not (low in ("may", "march", "am") and raw.islower()):
        return raw, DATE_WORDS[low], "date"
    if low in UNITS:
        return raw, UNITS[low], "number"
    is_name = _NAME.match(raw) is not None or (raw[0].isupper() and not first and low not in FUNCTION_WORDS)
    low = ALIASES.get(low, low)
    return raw, low, "name" if is_name else "words"


def _is_verb(word: str, stem: str) -> bool:
    return word in _VERBS or stem in _VERBS or stem + "e" in _VERBS


@lru_cache(4096)
def _stem(word: str) -> str:
    stems = lexemes(word)
    return stems[0] if len(stems) == 1 else word
