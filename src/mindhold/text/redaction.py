"""Replaces secrets and personal data in text before the text is written anywhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import or_
from typing import Any

from mindhold.text.credentials import (
    ASSIGNMENT_RULES,
    CREDENTIAL_RULES,
    RANDOM_RULE,
    RedactionRule,
    is_quoted_secret,
    redaction_mark,
    secret_kind,
)
from mindhold.text.password_phrases import PASSWORD_PHRASE_RULES
from mindhold.text.pattern import LazyPattern
from mindhold.text.personal_data import IBAN_RULE, IBAN_START, MANY_DIGITS, NUMBER_RULES, WORD_RULES

# Raise it when the rules change what they find: derived text made under older rules is then made again.
REDACTION_VERSION = "2"

# Marks from one pass may make another rule match in the next; two passes settle all real text.
_MOST_PASSES = 8
_RULES = (*CREDENTIAL_RULES, *ASSIGNMENT_RULES, *PASSWORD_PHRASE_RULES, *WORD_RULES)


# Parts that several triggers share and most words lack.
_GATES = ("pass", "pin", *"_-=:.@~\"'/")
MOST_WORDS, LONGEST_WORD = 50_000, 40  # limits of the cache of words


def _group_triggers(
    triggers: Iterable[tuple[str, int]],
) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
    """Group triggers by a part that they share: a word without that part skips the whole group."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for trigger, rule in triggers:
        gate = next((gate for gate in _GATES if gate in trigger), "")
        groups.setdefault(gate, []).append((trigger, rule))
    return tuple((gate, tuple(group)) for gate, group in groups.items())


# Each rule has a bit, and so has each other feature that a word may have.
_RULES_BY_TRIGGER: dict[str, int] = {}
for _place, _rule in enumerate(_RULES):
    for _trigger in _rule.triggers:
        _RULES_BY_TRIGGER[_trigger] = _RULES_BY_TRIGGER.get(_trigger, 0) | 1 << _place
_TRIGGERS = tuple(_RULES_BY_TRIGGER.items())
_ALL = (1 << len(_RULES)) - 1
_DIGIT, _LONG, _IBAN_GATE, _SPACED = (1 << (len(_RULES) + number) for number in range(4))
_WORDS = tuple((trigger, rule) for trigger, rule in _TRIGGERS if trigger.split() == [trigger])
_MULTI_WORD = tuple(pair for pair in _TRIGGERS if pair not in _WORDS)  # triggers that contain a blank
_EXACT = tuple(pair for pair in _WORDS if pair[0] != pair[0].lower())
_FOREIGN = tuple(pair for pair in _WORDS if not pair[0].isascii())
_FOLDED = _group_triggers(
    [
        *(pair for pair in _WORDS if pair not in _EXACT and pair not in _FOREIGN),
        *((trigger.split()[0], _SPACED) for trigger, _ in _MULTI_WORD),
    ]
)
_ANY_DIGIT = LazyPattern(r"\d", re.ASCII)
_LONG_RUN = LazyPattern(r"[A-Za-z0-9+/_\-]{20}", re.ASCII)
_IBAN_BEGINS = LazyPattern(r"[A-Z][A-Z]\d\d", re.ASCII)


class _Signs(dict[str, int]):
    """A cache of the feature bits of each word. Words recur, so most texts cost little more than splitting them."""

    def __missing__(self, word: str) -> int:
        signs = _find_signs(word)
        if len(word) <= LONGEST_WORD:
            if len(self) >= MOST_WORDS:
                self.clear()
            self[word] = signs
        return signs

    def of(self, text: str) -> int:
        """The bits of all words of a text."""
        return reduce(or_, set(map(self.__getitem__, text.split())), 0)


_signs = _Signs()


@dataclass(frozen=True, slots=True)
class RedactionFinding:
    """What kind of thing was redacted, and how often; never the thing itself."""

    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class Redaction:
    """Redacted text, and what was redacted."""

    text: str
    findings: tuple[RedactionFinding, ...]


@dataclass(frozen=True, slots=True)
class RedactedMetadata:
    """A redacted JSON value, and what was redacted."""

    value: Any
    findings: tuple[RedactionFinding, ...]


def redact(text: str) -> Redaction:
    """Replace each secret and each piece of personal data by a mark such as `[redacted:email]`.

    Redacting the result again changes nothing.
    """
    counts: Counter[str] = Counter()
    text = _redact(text, counts)
    return Redaction(text, _findings(counts))


def redact_metadata(value: Any) -> RedactedMetadata:
    """Redact JSON: every string, every key, and every value under a key that names a secret."""
    counts: Counter[str] = Counter()
    value = _redact_value(value, counts)
    return RedactedMetadata(value, _findings(counts))


def _findings(counts: Counter[str]) -> tuple[RedactionFinding, ...]:
    return tuple(RedactionFinding(kind, count) for kind, count in sorted(counts.items()))


def _redact(text: str, counts: Counter[str]) -> str:
    for _ in range(_MOST_PASSES):
        rules = _applicable_rules(text)
        if not rules:
            return text
        before = text
        for rule in rules:
            text = _apply(rule, text, counts)
        if text == before:
            return text
    return text


def _applicable_rules(text: str) -> list[RedactionRule]:
    """The rules that have a trigger in the text and whose gate it matches."""
    signs = _signs.of(text)
    if not signs:
        return []
    low = text.lower()
    if signs & _SPACED:
        signs |= reduce(or_, [rule for trigger, rule in _MULTI_WORD if trigger in low], 0)
    rules = [rule for rule in _rules_of_bits(signs & _ALL) if rule.gate is None or rule.gate.search(low)]
    if signs & _LONG and RANDOM_RULE.pattern.search(text):
        rules.append(RANDOM_RULE)
    if signs & _IBAN_GATE and IBAN_START.search(text):
        rules.append(IBAN_RULE)
    if signs & _DIGIT and MANY_DIGITS.search(text):
        rules.extend(NUMBER_RULES)
    return rules


@lru_cache(4096)
def _rules_of_bits(signs: int) -> tuple[RedactionRule, ...]:
    return tuple(rule for bit, rule in enumerate(_RULES) if signs >> bit & 1)


def _find_signs(word: str) -> int:
    low = word.lower()
    signs = [rule for trigger, rule in _EXACT if trigger in word]
    for gate, triggers in _FOLDED:
        if gate in low:
            signs += [rule for trigger, rule in triggers if trigger in low]
    if not low.isascii():
        signs += [rule for trigger, rule in _FOREIGN if trigger in low]
    if _ANY_DIGIT.search(word):
        signs.append(_DIGIT)
        if _IBAN_BEGINS.search(word):
            signs.append(_IBAN_GATE)
    if len(word) >= 20 and _LONG_RUN.search(word):
        signs.append(_LONG)
    return reduce(or_, signs, 0)


def _apply(rule: RedactionRule, text: str, counts: Counter[str]) -> str:
    def replace_match(match: re.Match[str]) -> str:
        new = rule.replace(match) if rule.replace else redaction_mark(rule.kind)
        if new is None:
            return match[0]
        counts[rule.kind] += 1
        return new

    return rule.pattern.sub(replace_match, text)


def _redact_value(value: Any, counts: Counter[str]) -> Any:
    if isinstance(value, str):
        return _redact(value, counts)
    if isinstance(value, Mapping):
        result: dict[str, Any] = {}
        for key, item in value.items():
            name = _redact(str(key), counts)
            while name in result:  # two keys may get the same mark; keep both values
                name += "'"
            result[name] = _redact_item(name, item, counts)
        return result
    if isinstance(value, list | tuple):
        return [_redact_value(item, counts) for item in value]
    return value


def _redact_item(name: str, item: Any, counts: Counter[str]) -> Any:
    kind = secret_kind(name)
    if kind is None or isinstance(item, bool) or item is None:
        return _redact_value(item, counts)
    if isinstance(item, list | tuple):
        return [_redact_item(name, part, counts) for part in item]
    is_secret = isinstance(item, str) and item != "" and is_quoted_secret(kind, item)
    if is_secret or (isinstance(item, int | float) and kind in ("password", "secret")):
        counts[kind] += 1
        return redaction_mark(kind)
    return _redact_value(item, counts)
