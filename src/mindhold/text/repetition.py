"""Decides by rules whether a text says all that another one says. Prefers precision to recall.

Two texts that differ in a number, a name, a path, a quotation or a negation never repeat each other.
"""

from __future__ import annotations

import re

from mindhold.text.faithfulness import (
    BINDING,
    LIGHT_WORDS,
    QUALIFYING_WORDS,
    count_negations,
    exact_terms,
    has_terms,
    qualified_words,
    word_list,
)
from mindhold.text.similarity import content_words, difference_kinds, jaccard, quantifiers

LEAST_SHARED = 0.5  # share of the words about the failure, where only its signs are the same
_CURE = (
    r"(?:fixed|solved|resolved|cured|repaired|mended|worked around) (?:it |this |that )?(?:by|with)\b"
    r"|the (?:fix|cure|solution|remedy|workaround)(?: was| is)?(?: to|:)?(?=\s)"
)
_CODE = re.compile(r"`([^`\n]+)`")
_CURED_BY = re.compile(rf"[\s.,;:—–-]*\b(?:{_CURE})\s*", re.IGNORECASE)
_CURES = re.compile(
    r"(?:^|[.;,]\s+)(?P<cure>[^.;,]{3,200}?)\s+(?:fixed|fixes|solved|solves|resolved|resolves|cured|cures) (?:it|this|that|the \w+)\b",
    re.IGNORECASE,
)


def repeats(content: str, other: str) -> bool:
    """Whether `content` is the same statement as the other: the same words, in the same order, in other forms."""
    words = word_list(content)
    return (
        bool(words)
        and words == word_list(other)
        and _same_terms(content, other)
        and same_limits(content, other)
        and _kinds(other) <= _kinds(content)
        and not difference_kinds(content, other) & {"number", "date", "path", "antonym"}
    )


def same_limits(one: str, other: str) -> bool:
    """Whether both have the same negations and limits, on the same words."""
    return _binding(one) == _binding(other) and count_negations(one) == count_negations(other)


def tells_same_cure(content: str, other: str, *, same_signs: bool, alike: bool) -> bool:
    """Whether both tell of one failure and one cure, and `content` says everything of it that the other says.

    `same_signs`: both failed with the same message. `alike`: they mean the same, by their vectors.
    """
    failure, cure = _split(content)
    other_failure, other_cure = _split(other)
    if not cure or not other_cure or not has_terms(content, [other]):
        return False
    if not same_limits(content, other) or "antonym" in difference_kinds(content, other):
        return False
    if not (_same_terms(cure, other_cure) and _plain_words(other_cure) <= _plain_words(cure)):
        return False
    words, other_words = _plain_words(failure), _plain_words(other_failure)
    if not other_words or other_words <= words:
        return bool(other_words) or same_signs
    shared = len(words & other_words)
    return same_signs and alike and shared >= LEAST_SHARED * min(len(words), len(other_words))


FEWEST_IN_TRAP, SHARED_IN_TRAP, ALIKE_TRAPS = 5, 0.7, 0.5  # words, share of the other text, of both
# Words that tell that something fails and how it is mended, not what.
_TELLING = content_words(
    """fail failed fails failure error errors say says said complain complains break breaks broken crash crashes throw throws raise raises
    stop stops work works fix fixed fixes solve solved solves resolve resolved mend mended run running ran need needs needed require
    required must help helps happen happens get gets give gives return returns report reports until unless because when instead
    without before after first then again use using cause caused command call worked doesn't"""
)


def tells_trap_too(content: str, other: str) -> bool:
    """Whether both tell the same failure, however worded, and `content` says everything of it that the other says.

    They share most words, the other has no word of its own but those that tell that something fails, and neither puts a
    number, a path, a name, a quotation or an option of a command in place of another one.
    """
    words, others = content_words(content), content_words(other)
    shared = len(words & others)
    if shared < FEWEST_IN_TRAP or shared < SHARED_IN_TRAP * len(others) or others - words - _TELLING:
        return False
    if jaccard(words, others) < ALIKE_TRAPS or quantifiers(content) != quantifiers(other):
        return False
    if any(_is_variant(one, another) for one in _CODE.findall(content) for another in _CODE.findall(other)):
        return False
    return _values(other) <= words


def _is_variant(one: str, other: str) -> bool:
    """Whether two commands differ but begin alike: with another option it is another command."""
    return one != other and one.split()[:2] == other.split()[:2]


def _values(text: str) -> frozenset[str]:
    """The words of a text's numbers, paths, names and quotations."""
    return frozenset(word for term in exact_terms(text) for word in content_words(str(term)))


def _split(text: str) -> tuple[str, str]:
    """Return what a text says of a failure, and of its cure; the cure is empty where it tells of none."""
    if match := _CURED_BY.search(text):
        return text[: match.start()], text[match.end() :]
    if match := _CURES.search(text):
        return f"{text[: match.start()]} {text[match.end() :]}", match["cure"]
    return text, ""


def _plain_words(text: str) -> frozenset[str]:
    return content_words(text) - LIGHT_WORDS - QUALIFYING_WORDS


def _same_terms(one: str, other: str) -> bool:
    """Whether both have the same numbers, dates, paths, names and quotations."""
    return has_terms(one, [other]) and has_terms(other, [one])


def _binding(text: str) -> frozenset[tuple[str, str]]:
    """The negations and limits of a text, each with its word."""
    return frozenset((kind, word) for kind, word in qualified_words(text)[0] if kind in BINDING)


def _kinds(text: str) -> frozenset[str]:
    return frozenset(kind for kind, _ in qualified_words(text)[0])


def names_something(text: str) -> bool:
    """Whether a text has a number, a date, a path, a name or a quotation, by which its subject is known."""
    return bool(exact_terms(text))
