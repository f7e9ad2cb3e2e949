"""Take secrets and personal data out of text before it is written anywhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import or_
from typing import Any

from mindhold.engine.text import assignments, credentials, personal
from mindhold.engine.text.credentials import Rule, mark
from mindhold.engine.text.expression import Expression

VERSION = (
    "1"  # of the rules: whoever changes what they find raises it, and what was made by others is made anew
)

# Whether a pass can turn up something new depends on the marks of the one before; two settle all real text.
_MOST_PASSES = 8
_RULES = (*credentials.RULES, *assignments.RULES, *personal.WORD_RULES)


# What several triggers hold, which most words lack.
_GATES = ("pass", "pin", *"_-=:.@~\"'/")
MOST_WORDS, LONGEST_WORD = 50_000, 40  # that are remembered


def _grouped(triggers: Iterable[tuple[str, int]]) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
    """Triggers under something that each of them holds: words that lack it skip them all at once."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for trigger, rule in triggers:
        gate = next((gate for gate in _GATES if gate in trigger), "")
        groups.setdefault(gate, []).append((trigger, rule))
    return tuple((gate, tuple(group)) for gate, group in groups.items())


# Each rule is a bit, and so is each of the other things that a word may show.
_TRIGGERS = tuple((trigger, 1 << place) for place, rule in enumerate(_RULES) for trigger in rule.triggers)
_ALL = (1 << len(_RULES)) - 1
_DIGIT, _LONG, _IBAN, _SPACED = (1 << (len(_RULES) + number) for number in range(4))
_WORDS = tuple((trigger, rule) for trigger, rule in _TRIGGERS if trigger.split() == [trigger])
_SEVERAL = tuple(pair for pair in _TRIGGERS if pair not in _WORDS)  # triggers that have a blank
_EXACT = tuple(pair for pair in _WORDS if pair[0] != pair[0].lower())
_FOREIGN = tuple(pair for pair in _WORDS if not pair[0].isascii())
_FOLDED = _grouped(
    [
        *(pair for pair in _WORDS if pair not in _EXACT and pair not in _FOREIGN),
        *((trigger.split()[0], _SPACED) for trigger, _ in _SEVERAL),
    ]
)
_ANY_DIGIT = Expression(r"\d", re.ASCII)
_LONG_RUN = Expression(r"[A-Za-z0-9+/_\-]{20}", re.ASCII)
_IBAN_BEGINS = Expression(r"[A-Z][A-Z]\d\d", re.ASCII)


class _Signs(dict[str, int]):
    """What each word that was met shows, as bits. Words recur: most texts cost no more than to take them apart."""

    def __missing__(self, word: str) -> int:
        signs = _signs_of(word)
        if len(word) <= LONGEST_WORD:
            if len(self) >= MOST_WORDS:
                self.clear()
            self[word] = signs
        return signs

    def of(self, text: str) -> int:
        """All that its words show."""
        return reduce(or_, set(map(self.__getitem__, text.split())), 0)


_signs = _Signs()


@dataclass(frozen=True, slots=True)
class Finding:
    """What kind of thing was taken out and how often; never the thing itself."""

    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class Redaction:
    text: str
    found: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class RedactedMetadata:
    value: Any
    found: tuple[Finding, ...]


def redact(text: str) -> Redaction:
    """Replace each secret and each piece of personal data by a mark such as `[redacted:email]`.

    Redacting the result again changes nothing.
    """
    found: Counter[str] = Counter()
    text = _redact(text, found)
    return Redaction(text, _findings(found))


def redact_metadata(value: Any) -> RedactedMetadata:
    """The same for JSON: every string, every key, and whatever stands under a key that names a secret."""
    found: Counter[str] = Counter()
    value = _redact_value(value, found)
    return RedactedMetadata(value, _findings(found))


def _findings(found: Counter[str]) -> tuple[Finding, ...]:
    return tuple(Finding(kind, count) for kind, count in sorted(found.items()))


def _redact(text: str, found: Counter[str]) -> str:
    for _ in range(_MOST_PASSES):
        rules = _worth_trying(text)
        if not rules:
            return text
        before = text
        for rule in rules:
            text = _apply(rule, text, found)
        if text == before:
            return text
    return text


def _worth_trying(text: str) -> list[Rule]:
    """Those of whose triggers the text has one, and whose cheaper patterns it holds."""
    signs = _signs.of(text)
    if not signs:
        return []
    low = text.lower()
    if signs & _SPACED:
        signs |= reduce(or_, [rule for trigger, rule in _SEVERAL if trigger in low], 0)
    rules = [rule for rule in _shown(signs & _ALL) if rule.gate is None or rule.gate.search(low)]
    if signs & _LONG and assignments.RANDOM_RULE.pattern.search(text):
        rules.append(assignments.RANDOM_RULE)
    if signs & _IBAN and personal.IBAN_START.search(text):
        rules.append(personal.IBAN_RULE)
    if signs & _DIGIT and personal.MANY_DIGITS.search(text):
        rules.extend(personal.NUMBER_RULES)
    return rules


@lru_cache(4096)
def _shown(signs: int) -> tuple[Rule, ...]:
    return tuple(rule for place, rule in enumerate(_RULES) if signs >> place & 1)


def _signs_of(word: str) -> int:
    low = word.lower()
    found = [rule for trigger, rule in _EXACT if trigger in word]
    for gate, triggers in _FOLDED:
        if gate in low:
            found += [rule for trigger, rule in triggers if trigger in low]
    if not low.isascii():
        found += [rule for trigger, rule in _FOREIGN if trigger in low]
    if _ANY_DIGIT.search(word):
        found.append(_DIGIT)
        if _IBAN_BEGINS.search(word):
            found.append(_IBAN)
    if len(word) >= 20 and _LONG_RUN.search(word):
        found.append(_LONG)
    return reduce(or_, found, 0)


def _apply(rule: Rule, text: str, found: Counter[str]) -> str:
    def once(match: re.Match[str]) -> str:
        new = rule.replace(match) if rule.replace else mark(rule.kind)
        if new is None:
            return match[0]
        found[rule.kind] += 1
        return new

    return rule.pattern.sub(once, text)


def _redact_value(value: Any, found: Counter[str]) -> Any:
    if isinstance(value, str):
        return _redact(value, found)
    if isinstance(value, Mapping):
        result: dict[str, Any] = {}
        for key, item in value.items():
            name = _redact(str(key), found)
            while name in result:  # two keys may become one mark; neither value may be lost
                name += "'"
            result[name] = _redact_item(name, item, found)
        return result
    if isinstance(value, list | tuple):
        return [_redact_value(item, found) for item in value]
    return value


def _redact_item(name: str, item: Any, found: Counter[str]) -> Any:
    kind = assignments.names_secret(name)
    if kind is None or isinstance(item, bool) or item is None:
        return _redact_value(item, found)
    if isinstance(item, list | tuple):
        return [_redact_item(name, part, found) for part in item]
    held = isinstance(item, str) and item != "" and assignments.is_quoted_secret(kind, item)
    if held or (isinstance(item, int | float) and kind in ("password", "secret")):
        found[kind] += 1
        return mark(kind)
    return _redact_value(item, found)
