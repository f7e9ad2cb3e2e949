"""Checks that a merged statement says what its sources say: nothing lost, reversed or made up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mindhold.text.contradiction import StatementRelation, compare_statements
from mindhold.text.similarity import TOKEN, content_words, difference_kinds, jaccard, number_key
from mindhold.text.vocabulary import CONTRACTIONS, FUNCTION_WORDS, NEGATIONS, NEGATIONS_INSIDE

MOST_LOST = 4  # one of this many words of a source may be missing
MOST_ADDED = 5  # one of this many words may be in no source
NEAR = 0.6  # share of words that nearly equal statements have in common
_VALUES = ("date", "path", "number")
_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^”\n]+)”")
_NAME = re.compile(r".*[a-z][A-Z]|.*_|.*\d|[A-Z]{2,}|.*[+#]$")
_OPENS = re.compile(r"(?:^|[.!?:;…。！？\n])[\s\"'“‘(*`-]*$")
# Between clauses, each with its own subject.
_ENDS = re.compile(r"[;,.!?…。！？]\s|\n|\s(?:and|but|while|whereas|or)\s", re.IGNORECASE)
# Words that reverse a statement, or limit it.
_QUALIFIERS = NEGATIONS | frozenset(
    """always sometimes often rarely seldom usually mostly only all every each any some most many few both either must may might
    should shall can could optional optionally required forbidden instead before after until""".split()
)


@dataclass(frozen=True, slots=True)
class _Piece:
    """The words up to a value or the end of a clause, and whether a value or a name is among them."""

    words: frozenset[str]
    exact: bool


def is_faithful(content: str, sources: Sequence[str]) -> bool:
    """Whether `content` can replace all its sources without losing, reversing or adding anything."""
    words, source_words = content_words(content), [content_words(source) for source in sources]
    everything = frozenset[str]().union(*source_words)
    if any(not needed or len(needed - words) * MOST_LOST > len(needed) for needed in source_words):
        return False
    if len(words - everything) * MOST_ADDED > len(words):
        return False
    terms = _exact_terms(content) | _all_words(content)
    if not all(_exact_terms(source) <= terms for source in sources):
        return False
    if not uses_only(content, collect_terms(sources)):
        return False
    if _qualified_words(content) != frozenset[tuple[str, str]]().union(*map(_qualified_words, sources)):
        return False
    one_covers_all = any(all(other <= whole for other in source_words) for whole in source_words)
    if not one_covers_all and not all(_keeps_neighbours(source, content) for source in sources):
        return False  # the same words, but subject and object are swapped
    pieces = [piece.words & everything for piece in _pieces(content) if piece.exact]
    if not all(any(piece <= whole for whole in source_words) for piece in pieces):
        return False  # the number of one source with the name of another
    return all(
        compare_statements(source, content).relation
        not in (StatementRelation.OPPOSED, StatementRelation.DOUBTFUL)
        for source in sources
    )


def collect_terms(sources: Sequence[str]) -> frozenset[str]:
    """Every date, path, number, quotation, name and word of the sources."""
    return frozenset[str]().union(*map(_exact_terms, sources), *map(_all_words, sources))


def uses_only(content: str, terms: frozenset[str]) -> bool:
    """Whether each date, path, number, quotation and name in `content` is among the terms."""
    return _exact_terms(content) <= terms


def _keeps_neighbours(source: str, content: str) -> bool:
    pairs = _neighbours(source)
    return 2 * len(pairs & _neighbours(content)) >= len(pairs)


def _neighbours(text: str) -> frozenset[tuple[str, str]]:
    words = [word for match in TOKEN.finditer(text) for word in sorted(content_words(match[0]))]
    return frozenset(zip(words, words[1:], strict=False))


def is_nearly_same(content: str, sources: Sequence[str]) -> bool:
    """Whether each source says the same, except for a few plain words."""
    words = content_words(content)
    return all(
        difference_kinds(content, source) <= {"words", "order"}
        and jaccard(words, content_words(source)) >= NEAR
        for source in sources
    )


def _exact_terms(text: str) -> frozenset[str]:
    """What can't be reworded: dates, paths, numbers, quotations and names."""
    terms = {part.strip().casefold() for match in _QUOTED.finditer(text) for part in match.groups() if part}
    for match in TOKEN.finditer(text):
        if match.lastgroup in _VALUES:
            terms.add(_value(match[0]))
        elif match.lastgroup == "word" and _is_name(text, match):
            terms.add(_word(match[0]))
    return frozenset(terms)


def _all_words(text: str) -> frozenset[str]:
    """Every word; at the start of a sentence a name looks like any other word."""
    return frozenset(_word(match[0]) for match in TOKEN.finditer(text) if match.lastgroup == "word")


def _word(raw: str) -> str:
    return raw.casefold().replace("’", "'").removesuffix("'s")


def _value(raw: str) -> str:
    return number_key(raw.casefold().rstrip("/.:,"))


def _is_name(text: str, match: re.Match[str]) -> bool:
    raw = match[0]
    if _NAME.match(raw):
        return True
    plain = raw.lower() in FUNCTION_WORDS or raw.lower() in _QUALIFIERS or raw.lower() in CONTRACTIONS
    return raw[0].isupper() and not plain and _OPENS.search(text[: match.start()]) is None


def _qualified_words(text: str) -> frozenset[tuple[str, str]]:
    """Words that reverse or limit a statement, each with the content word that follows it."""
    pairs: set[tuple[str, str]] = set()
    waiting: list[str] = []
    for match in TOKEN.finditer(text):
        low = match[0].lower().replace("’", "'")
        for part in CONTRACTIONS.get(low, (low,)):
            if part in _QUALIFIERS or (
                not part.isascii() and any(negation in part for negation in NEGATIONS_INSIDE)
            ):
                waiting.append(part)
            elif words := sorted(content_words(part)):
                pairs |= {(turn, words[0]) for turn in waiting}
                waiting.clear()
    return frozenset(pairs | {(turn, "") for turn in waiting})


def _pieces(text: str) -> list[_Piece]:
    cuts = {match.start() for match in _ENDS.finditer(text)} | {len(text)}
    values = {match.end() for match in TOKEN.finditer(text) if match.lastgroup in _VALUES}
    names = [
        match.start() for match in TOKEN.finditer(text) if match.lastgroup == "word" and _is_name(text, match)
    ]
    pieces: list[_Piece] = []
    start = 0
    for end in sorted(cuts | values):
        exact = end in values or any(start <= name < end for name in names)
        pieces.append(_Piece(content_words(text[start:end]), exact))
        start = end
    return pieces
