"""Measures how much two texts share, and whether they say the same or one replaces the other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from mindhold.model.lexemes import lexemes, stop_lexemes
from mindhold.text.pattern import LazyPattern
from mindhold.text.vocabulary import (
    ADJUNCT_STARTS,
    ALIASES,
    ARTICLES,
    ATTRIBUTES,
    CONTRACTIONS,
    DATE_WORDS,
    FUNCTION_WORDS,
    NEGATIONS,
    NEGATIONS_INSIDE,
    NUMBER_WORDS,
    SINGLE_VALUED,
    UNITS,
    USE_VERBS,
    are_antonyms,
)

QUANTIFIERS = frozenset(
    """always never sometimes usually often rarely seldom mostly occasionally only all every each any some none most many few both
    must should may might immer manchmal oft selten nur alle toujours parfois souvent siempre veces 가끔 자주 항상 모든""".split()
)
_WORD = re.compile(r"[^\W\d_]+")


def content_words(text: str) -> frozenset[str]:
    """The words that carry meaning, each as its search lexeme."""
    return frozenset(lexemes(text)) - stop_lexemes()


def jaccard(left: Set[str], right: Set[str]) -> float:
    """Jaccard similarity of two word sets, from 0 to 1; 0 if nothing is shared."""
    both = len(left & right)
    return both / (len(left) + len(right) - both) if both else 0.0


def one_contains_other(left: Set[str], right: Set[str]) -> bool:
    """Whether one set contains the other. A replaced word makes a different statement."""
    return left <= right or right <= left


def quantifiers(text: str) -> frozenset[str]:
    """The words in a text that say how often or how many."""
    return frozenset(_WORD.findall(text.casefold())) & QUANTIFIERS


TOKEN = LazyPattern(
    r"(?P<date>\d{4}-\d\d(?:-\d\d)?(?:T[\d:.]+Z?)?|\d{1,2}/\d{1,2}/\d{2,4}|\d{1,4}[년年]|\d{1,2}[월月일日](?![\w]))"
    r"|(?P<path>[a-z][a-z0-9+.-]*://[^\s<>\"']+|(?:[A-Za-z]:\\|~/|\.{0,2}/)[^\s,;\"'()<>]+|(?<![\w.-])[\w.-]{1,80}(?:/[\w.-]{1,80}){1,40}/?|(?<![\w-])[\w-]{1,80}\.[A-Za-z]{1,5}(?!\w))"
    r"|(?P<number>v?\d+(?:[.,:]\d+)*)"
    r"|(?P<cjk>[\u3040-\u30ff\u3400-\u9fff])"
    r"|(?P<word>(?:[^\W\d_]|_)[\w]*(?:['’][^\W\d_]+)?(?:\+\+|\#)?)"
    r"|(?P<sign>(?<![\w)])-(?=\d)|!=|!(?=\w)|[^\w\s.,;:!'\"’‘“”()\[\]{}`*–—…·、。，「」『』-])"
)
_NAME = LazyPattern(r".*[a-z][A-Z]|.*_|.*\d|[A-Z]{2,}|.*[+#]$")
_UPDATES = LazyPattern(
    r"\b(?:no longer|not any ?more|any ?more|now|switched|changed|moved|migrated|replaced|instead of|rather than|as of|from now on)\b"
    r"|이제|더 이상|더이상|바뀌|변경|대신|現在は|今は|もう|代わりに|に変更|现在|不再|改为|改用|取代",
    re.IGNORECASE,
)


# A value, a quotation or an option follows: the case of its letters matters.
_BEFORE_A_VALUE = LazyPattern(
    r"(?:\b(?:is|are|was|were|be|to|now|as|called|named|returns?|equals?|password|token|key|name|user|branch|label|flag)"
    r"\s+(?:(?:the|an?|now)\s+)?|[=:]\s*|['\"`“‘„«]|(?<![\w])--?)$",
    re.IGNORECASE,
)
_QUOTED = LazyPattern(r"`[^`\n]+`|\"[^\"\n]+\"|“[^”\n]+”|(?<!\w)'[^'\n]+'(?!\w)|‘[^’\n]+’(?!\w)")
_OPENS = LazyPattern(r"(?:^|[.!?…。！？\n])[\s\"'“‘(*-]*$")
_AFTER_A_NUMBER = LazyPattern(r"\d\s?$")
_KOREAN_COPULA = LazyPattern("(?:이다|입니다|이에요|예요|임|다)$")
_NEAR = 24  # characters before a word to look at
_LONG_ENOUGH = 4  # letters from which a name in running text is recognised in any case
_SPELLED_UNITS = {"kb": ("KB", "kB"), "mb": ("MB",), "gb": ("GB",), "tb": ("TB",)} | {
    unit: (unit,) for unit in ("m", "g", "s", "h")
}
_NAMES_IN_ANY_CASE = frozenset(ALIASES) | frozenset(ALIASES.values())
_PLAIN_WORDS = FUNCTION_WORDS | USE_VERBS | ADJUNCT_STARTS | ARTICLES | {"not"}

# A phrase with one of these depends on its place: moving it may reverse the sentence.
_BOUND = frozenset(("to", "from", "than", "by", "and", "or"))
_COPULA = LazyPattern(r"\s(?:is|are|was|were)\s", re.IGNORECASE)
_DEFINITE = LazyPattern(r"(?:the|our|my|your|his|her|their|its)\s|[^\W\d_]+['’]s\s", re.IGNORECASE)
_AROUND_A_HALF = " \t\r\n.!,;"
_MOST_ADJUNCTS = 2  # with more of them, which belongs to which depends on their order


@dataclass(frozen=True, slots=True)
class _Token:
    """One token: `key` ignores case, `kind` names a difference in it, `spelling` keeps the case that matters."""

    key: str
    kind: str
    spelling: str


def difference_kinds(a: str, b: str) -> frozenset[str]:
    """The kinds in which two texts differ: number, name, date, path, negation, antonym, order, words. Empty if they are the same."""
    return _differences(_tokens(a), _tokens(b))


def same_statement(a: str, b: str) -> bool:
    """Whether one text is only a rewording of the other, given that their meanings are close."""
    return a == b or not difference_kinds(a, b)


def _differences(left: Sequence[_Token], right: Sequence[_Token]) -> frozenset[str]:
    left_keys, right_keys = [token.key for token in left], [token.key for token in right]
    if left_keys == right_keys:
        return _spelling_differences(left, right)
    only_left, only_right = Counter(left_keys), Counter(right_keys)
    only_left.subtract(right_keys)
    only_right.subtract(left_keys)
    extra = {key for key, count in only_left.items() if count > 0}
    other = {key for key, count in only_right.items() if count > 0}
    if not extra and not other:
        moved = _is_adjunct_moved(left_keys, right_keys)
        return _spelling_differences(left, right) if moved else frozenset({"order"})
    kinds = {token.kind for token in (*left, *right) if token.key in extra or token.key in other}
    if any(are_antonyms(left_key, right_key) for left_key in extra for right_key in other):
        kinds.add("antonym")
    return frozenset(kinds)


def _spelling_differences(left: Sequence[_Token], right: Sequence[_Token]) -> frozenset[str]:
    """For the same words: a value or a unit in another case is a different one."""
    same = Counter(token.spelling for token in left) == Counter(token.spelling for token in right)
    return frozenset() if same else frozenset({"name"})


def _is_adjunct_moved(left: Sequence[str], right: Sequence[str]) -> bool:
    """Whether a phrase such as "for storage" only moved from one end of the sentence to the other."""
    for cut in range(1, len(left)):
        if list(right) == [*left[cut:], *left[:cut]]:
            moved = left[cut:] if left[cut] in ADJUNCT_STARTS else left[:cut]
            if moved[0] in ADJUNCT_STARTS and not _BOUND.intersection(moved):
                return True
    return False


def same_in_other_order(a: str, b: str) -> bool:
    """Whether two texts say the same in another order of words: "9090 is the staging port", "the staging port is 9090".

    Looser than `same_statement`, so nothing is dropped for good because of it. Where an order says who does what to whom
    ("A depends on B"), a text in another order is another statement.
    """
    left, right = _tokens(a), _tokens(b)
    if not left or sorted(_keys(left)) != sorted(_keys(right)):
        return False
    if _are_adjuncts_swapped(_keys(left), _keys(right)):
        return not _spelling_differences(left, right)
    return _is_turned_around(a, b) or _is_turned_around(b, a)


def _are_adjuncts_swapped(left: list[str], right: list[str]) -> bool:
    """Whether both are one sentence with the same two phrases, such as "on Fridays" and "with Helm"."""
    if _BOUND.intersection(left):
        return False
    others = [_phrases(order) for order in _with_first_phrase_last(right)]
    return any(
        own[0] == other[0] and len(own) <= _MOST_ADJUNCTS + 1 and sorted(own) == sorted(other)
        for own in map(_phrases, _with_first_phrase_last(left))
        for other in others
    )


def _with_first_phrase_last(keys: list[str]) -> list[list[str]]:
    """The sentence as it is; or if it begins with a phrase, whose end is unknown, with that at the end."""
    if keys[0] not in ADJUNCT_STARTS:
        return [keys]
    return [[*keys[cut:], *keys[:cut]] for cut in range(2, len(keys)) if keys[cut] not in ADJUNCT_STARTS]


def _phrases(keys: list[str]) -> list[list[str]]:
    """The beginning of a sentence, and each phrase after it that could stand elsewhere."""
    phrases: list[list[str]] = [[]]
    for key in keys:
        if key in ADJUNCT_STARTS:
            phrases.append([])
        phrases[-1].append(key)
    return phrases


def _is_turned_around(a: str, b: str) -> bool:
    """Whether one says "the X is V" and the other "V is the X", where V is a name, a number, a date or a path.

    Without a value it isn't the same: all squares are rectangles.
    """
    (thing, value), (same_value, same_thing) = _around_is(a), _around_is(b)
    if not value or value != same_value or not (_DEFINITE.match(thing) and _DEFINITE.match(same_thing)):
        return False
    tokens = _tokens(f"of {value}")[1:]  # a capital marks a name only after another word
    is_value = all(token.kind in ("number", "name", "date", "path") for token in tokens)
    return is_value and same_statement(thing, same_thing)


def _around_is(text: str) -> tuple[str, str]:
    """What is before and after the only "is"; empty if there is none, or several."""
    found = list(_COPULA.finditer(text))
    if len(found) != 1:
        return "", ""
    before, after = text[: found[0].start()], text[found[0].end() :]
    return before.strip(_AROUND_A_HALF), after.strip(_AROUND_A_HALF)


def _keys(tokens: Sequence[_Token]) -> list[str]:
    return [token.key for token in tokens]


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    progressive = False
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    for match in TOKEN.finditer(text):
        kind, raw = match.lastgroup or "word", match[0]
        if kind in ("path", "date"):
            tokens.append(_token(raw.rstrip("/.:") if kind == "path" else raw, kind))
        elif kind == "number":
            tokens.append(_token(number_key(raw), "number"))
        elif kind == "cjk":
            tokens.append(_token(raw, "negation" if raw in NEGATIONS_INSIDE else "words"))
        elif kind == "sign":
            tokens.append(_token(raw, "number" if raw in "%$€£¥₩-+<>=≤≥≠°" else "words"))
        else:
            within = any(start < match.start() < end for start, end in quoted)
            before = text[max(0, match.start() - _NEAR) : match.start()]
            for part in CONTRACTIONS.get(raw.lower().replace("’", "'"), (raw,)):
                token = _word(part, first=not tokens, progressive=progressive)
                progressive = part.lower() in ("is", "are", "am")
                if token is not None:
                    tokens.append(replace(token, spelling=_spelling(part, token, before, quoted=within)))
            continue
        progressive = False
    return tokens


def _token(key: str, kind: str) -> _Token:
    return _Token(key, kind, key)


def _spelling(raw: str, token: _Token, before: str, *, quoted: bool) -> str:
    """The key, or the exact letters if their case matters. When unsure, it matters."""
    low = raw.lower()
    if raw == low and low not in _SPELLED_UNITS:
        return f"to {raw}" if low in ("may", "march") else token.key  # not a month
    if quoted or (_BEFORE_A_VALUE.search(before) and low not in NEGATIONS - {"none"}):
        case_matters = low not in _NAMES_IN_ANY_CASE or quoted
    elif _AFTER_A_NUMBER.search(before):
        if low in UNITS:
            return token.key if raw in _SPELLED_UNITS.get(low, (raw,)) else f"unit {raw}"
        case_matters = len(raw) <= _LONG_ENOUGH and low not in DATE_WORDS
    elif token.kind in ("number", "date", "negation") or low in _NAMES_IN_ANY_CASE:
        case_matters = False
    elif low in _PLAIN_WORDS:
        case_matters = raw.isupper() and len(raw) > 1  # IT, US
    else:
        case_matters = len(raw) < _LONG_ENOUGH or not raw.isalpha() or _is_korean_value(raw)
    if not case_matters:
        return token.key
    if _OPENS.search(before) and raw[1:] == low[1:] and not quoted:
        return token.key
    return raw if token.key == low else f"{token.key} {raw}"


def _is_korean_value(raw: str) -> bool:
    """Whether it is a foreign word with the Korean "is": "swordfish이다"."""
    return not raw.isascii() and raw[0].isascii() and _KOREAN_COPULA.search(raw) is not None


def number_key(raw: str) -> str:
    """The number without a leading "v" and thousands separators."""
    raw = raw.lstrip("v")
    return raw.replace(",", "") if re.fullmatch(r"\d{1,3}(?:,\d{3})+", raw) else raw


def _word(raw: str, *, first: bool, progressive: bool) -> _Token | None:
    low = raw.lower()
    if low in ARTICLES and (first or raw != "A"):
        return None
    if low in NUMBER_WORDS:
        return _token(NUMBER_WORDS[low], "number")
    if low in NEGATIONS or (not low.isascii() and any(part in low for part in NEGATIONS_INSIDE)):
        return _token(low, "negation")
    if low in DATE_WORDS:
        return _token(DATE_WORDS[low], "date")
    if low in UNITS:
        return _token(UNITS[low], "number")
    is_name = _NAME.match(raw) is not None or (raw[0].isupper() and not first)
    key = ALIASES.get(low, low)
    key = _verb(key, progressive=progressive)
    return _token(ALIASES.get(key, key), "name" if is_name else "words")


def _verb(word: str, *, progressive: bool) -> str:
    """The base form of a verb: "use" for "uses" and "is using". Nouns keep their plural: one service is not all services."""
    if word.endswith("s") and word[:-1] in USE_VERBS:
        return word[:-1]
    if progressive and word.endswith("ing"):
        stem = word[:-3]
        return next((verb for verb in (stem, stem + "e", stem[:-1]) if verb in USE_VERBS), word)
    return word


def replaces(new: str, old: str) -> bool:
    """Whether the new text says outright that the old statement has changed. Prefers precision to recall."""
    if not _UPDATES.search(new):
        return False
    before, after = _tokens(old), _tokens(new)
    old_keys, new_keys = [token.key for token in before], [token.key for token in after]
    return (
        _ends(new_keys, old_keys)
        or _names_what_it_replaces(new_keys, old_keys)
        or _fills_the_same_place(after, before)
        or _ends_in_korean(new, old)
    )


def _ends(new: list[str], old: list[str]) -> bool:
    """Whether the new text ends the old statement: "we no longer use X" against "we use X"."""
    for first, second in (("no", "longer"), ("not", "anymore")):
        if first in new and second in new:
            rest = [key for key in new if key not in (first, second, "do", "does")]
            return rest == old
    return False


def _names_what_it_replaces(new: list[str], old: list[str]) -> bool:
    """Whether the new text replaces the value in the old one: "Y instead of X", "switched from X to Y", "replaced X with Y"."""
    value = _replaced_value(new)
    if not value or len(value) > 3:
        return False
    for start in range(1, len(old) - len(value) + 1):
        end = start + len(value)
        if old[start:end] == value and old[start - 1] in USE_VERBS | {"is", "to", "on", "in", "with", "port"}:
            subject = [key for key in old[:start] if key not in USE_VERBS | FUNCTION_WORDS]
            ends_there = end == len(old) or old[end] in ADJUNCT_STARTS
            same_subject = all(key in new for key in subject) and (bool(subject) or old[0] == new[0])
            return ends_there and same_subject and _same_circumstances(new, old, tail=old[end:])
    return False


def _same_circumstances(new: list[str], old: list[str], *, tail: list[str]) -> bool:
    """Whether "for storage" is in both or only in the old text; a new "for caching" is about something else."""
    starts = [
        index
        for index, key in enumerate(new)
        if key in ADJUNCT_STARTS and not (key == "with" and "replaced" in new)
    ]
    if not starts:
        return True
    words = [key for key in new[starts[0] :] if key not in FUNCTION_WORDS and key not in DATE_WORDS]
    return set(words) <= set(old) and all(key in new for key in tail if key not in FUNCTION_WORDS)


def _replaced_value(new: list[str]) -> list[str]:
    for index, key in enumerate(new):
        following = new[index + 1 :]
        if key in ("instead", "rather") and following[:1] in (["of"], ["than"]):
            return _keys_before(following[1:], ADJUNCT_STARTS | {"now"})
        if key in ("switched", "changed", "moved", "migrated") and "from" in following and "to" in following:
            begin = following.index("from") + 1
            return _keys_before(following[begin:], {"to"})
        if key == "replaced" and "with" in following:
            return _keys_before(following, {"with"})
    return []


def _keys_before(keys: list[str], stops: frozenset[str] | set[str]) -> list[str]:
    for index, key in enumerate(keys):
        if key in stops:
            return keys[:index]
    return keys


def _without_mark(tokens: list[_Token]) -> tuple[list[_Token], int]:
    """The tokens without "now", and its index; -1 if there is none."""
    for mark in (["now"], ["이제"], ["이제는"], list("现在"), list("現在は"), list("今は")):
        for start in range(len(tokens) - len(mark) + 1):
            if [token.key for token in tokens[start : start + len(mark)]] == mark:
                return tokens[:start] + tokens[start + len(mark) :], start
    return tokens, -1


def _fills_the_same_place(new: list[_Token], old: list[_Token]) -> bool:
    """The same sentence with one value replaced by another of its kind: "X now listens on port 9090"."""
    new, mark = _without_mark(new)
    old, _ = _without_mark(old)
    shorter = min(len(new), len(old))
    head = next((index for index in range(shorter) if new[index].key != old[index].key), shorter)
    rest = shorter - head
    tail = next((back for back in range(rest) if new[-1 - back].key != old[-1 - back].key), rest)
    added, removed = new[head : len(new) - tail], old[head : len(old) - tail]
    # The subject precedes "now": "ticket 5 is now closed" says nothing about ticket 4.
    if mark < 1 or head < mark or not added or not removed or len(added) > 2 or len(removed) > 2:
        return False
    shared = [token.key for token in (*old[:head], *old[len(old) - tail :])]
    subject = {key for key in shared if key not in FUNCTION_WORDS and key not in USE_VERBS}
    kinds = {token.kind for token in (*added, *removed)}
    if not subject or "negation" in kinds:
        return False
    if kinds in ({"number"}, {"date"}, {"path"}):
        return True
    if subject & ATTRIBUTES and len(added) == len(removed) == 1:
        return True
    if kinds != {"name"}:
        return False
    verb = old[head - 2].key if head > 1 and old[head - 1].key in ("to", "on", "at", "in", "by") else ""
    return verb in SINGLE_VALUED or (tail > 0 and old[head - 1].key in ("use", "prefer", "choose"))


def _ends_in_korean(new: str, old: str) -> bool:
    """Whether the new text ends the old statement: "더 이상 X를 사용하지 않는다" against "X를 사용한다"."""
    if not re.search("더 ?이상", new) or not re.search("않|안 |없", new):
        return False
    after = re.sub("더 ?이상", " ", new).split()
    before = old.split()
    remaining = [word for word in after if not re.match("않|안$|없", word)]
    return (
        len(before) >= 2
        and len(remaining) == len(before)
        and remaining[:-1] == before[:-1]
        and remaining[-1][:2] == before[-1][:2]
    )
