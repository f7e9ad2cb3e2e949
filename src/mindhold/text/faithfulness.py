"""Checks that a merged statement says what its sources say: nothing lost, reversed or made up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from mindhold.model.lexemes import lexemes
from mindhold.text.contradiction import StatementRelation, compare_statements
from mindhold.text.similarity import TOKEN, content_words, difference_kinds, jaccard, number_key
from mindhold.text.vocabulary import (
    CONTRACTIONS,
    FUNCTION_WORDS,
    NEGATIONS,
    NEGATIONS_INSIDE,
    NUMBER_WORDS,
)

MOST_LOST = 3  # one of this many words of a source may be missing
MOST_ADDED = 4  # one of this many words may be in no source
NEAR = 0.6  # share of words that nearly equal statements have in common
_VALUES = ("date", "path", "number")
_SENTENCE_END = re.compile(r"[;.!?…。！？]\s|\n")
_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^”\n]+)”")
_NAME = re.compile(r".*[a-z][A-Z]|.*_|.*\d|[A-Z]{2,}|.*[+#]$")
_OPENS = re.compile(r"(?:^|[.!?:;…。！？\n])[\s\"'“‘(*`-]*$")
# Between clauses, each with its own subject.
_ENDS = re.compile(r"[;,.!?…。！？]\s|\n|\s(?:and|but|while|whereas|or)\s", re.IGNORECASE)
# Words that reverse or limit a statement. Those of one row may stand for each other.
_REVERSING = NEGATIONS | frozenset(("instead", "rather", "forbidden"))
_UNIVERSAL = frozenset("always all every each".split())
_OBLIGING = frozenset("must should shall required require requires need needs".split())
_HEDGING = frozenset(
    "may might could optional optionally sometimes often rarely seldom usually mostly".split()
)
LIMITING = frozenset("only some many few most before after until".split())
BINDING = frozenset(("not", "hedge")) | LIMITING  # what may be neither dropped nor added
_DIRECTIONS = frozenset("from to than".split())  # two of them turn a statement round
_NEIGHBOURHOOD = 3  # words within which two belong together
_SHORTEST_STEM = 4  # letters from which one word is the beginning of another form of it
# Verbs that say little: the statement stays the same with another one of them, or without.
LIGHT_WORDS = frozenset(
    lexeme
    for word in """use used using run runs need require make set add do keep kept store stored have take want please ensure
    live work""".split()
    for lexeme in lexemes(word)
)
# What is checked by itself, and so isn't compared as a word.
QUALIFYING_WORDS = frozenset(
    lexeme
    for words in (_REVERSING, _UNIVERSAL, _OBLIGING, _HEDGING, LIMITING)
    for word in words
    for lexeme in lexemes(word)
)
_THEN = re.compile(r"\bthen\b", re.IGNORECASE)  # what comes before and what after


@dataclass(frozen=True, slots=True)
class _Clause:
    """The words of a clause, the values and names among them, and its number words."""

    words: frozenset[str]
    exact: frozenset[str]


def is_faithful(content: str, sources: Sequence[str]) -> bool:
    """Whether `content` can replace all its sources without losing, reversing or adding anything.

    It may say it in its own order and with other plain words. What can't be reworded (numbers, dates, paths, names,
    quotations, negations, limits) has to stay, next to what it was said of.
    """
    words, source_words = content_words(content), [content_words(source) for source in sources]
    everything = frozenset[str]().union(*source_words)
    if not all(source_words) or len(missing_words(words, everything)) * MOST_ADDED > len(words):
        return False
    if not all(_keeps_words(words, index, source_words) for index in range(len(source_words))):
        return False
    if not (has_terms(content, sources) and has_terms("\n".join(sources), [content])):
        return False
    if not _keeps_qualifiers(content, sources, words):
        return False
    one_covers_all = any(all(other <= whole for other in source_words) for whole in source_words)
    if not one_covers_all and not all(keeps_neighbours(source, content) for source in sources):
        return False
    if any(turns_round(source, content) for source in sources) or _mixes(content, sources):
        return False
    if _swaps_negation(content, sources):
        return False
    return all(
        _contains(content, source)
        or compare_statements(source, content).relation is not StatementRelation.OPPOSED
        for source in sources
    )


def missing_words(words: frozenset[str], others: frozenset[str]) -> frozenset[str]:
    """Return the words that are not among the others, not even in another form."""
    return frozenset(
        word
        for word in words - others
        if not any(
            min(len(word), len(other)) >= _SHORTEST_STEM
            and (word.startswith(other) or other.startswith(word))
            for other in others
        )
    )


def _keeps_words(words: frozenset[str], index: int, source_words: Sequence[frozenset[str]]) -> bool:
    """Whether most words of a source are there, and most of those that only this source has."""
    needed = source_words[index] - QUALIFYING_WORDS
    if len(missing_words(needed, words)) * MOST_LOST > len(needed):
        return False
    others = frozenset[str]().union(*source_words[:index], *source_words[index + 1 :])
    own = missing_words(needed, others) - LIGHT_WORDS
    return len(missing_words(own, words)) * 2 <= len(own) - (len(own) == 1)


def has_terms(text: str, others: Sequence[str]) -> bool:
    """Whether each date, path, number, quotation and name of the others stands in the text."""
    folded = _folded(text)
    terms = exact_terms(text) | _all_words(text)
    return all(
        term in terms or (term in quoted and _folded(term) in folded)
        for other in others
        for quoted in [_quotations(other)]
        for term in exact_terms(other)
    )


def _folded(text: str) -> str:
    """The text without quotation marks, in folded case."""
    return " ".join(re.sub(r"[`\"“”'‘’]", "", text).casefold().split())


def _keeps_qualifiers(content: str, sources: Sequence[str], words: frozenset[str]) -> bool:
    """Whether what reverses or limits a statement does so on the same words as in the sources.

    "Always" may be dropped but not added, "must" too. A negation that goes on ("never push or rebase") holds for both words.
    """
    strict, spread = qualified_words(content)
    wanted = frozenset[tuple[str, str]]().union(*(qualified_words(source)[0] for source in sources))
    known = wanted.union(*(qualified_words(source)[1] for source in sources))
    for kind, word in strict:
        if (kind, word) not in known and (kind in BINDING or kind not in {other for other, _ in known}):
            return False
    for kind, word in wanted:
        if kind in BINDING and (kind, word) not in strict | spread:
            said_otherwise = (word not in words and any(other == kind for other, _ in strict)) or (
                kind in ("before", "after") and _THEN.search(content)
            )
            if not said_otherwise:
                return False
    return True


def _contains(content: str, source: str) -> bool:
    """Whether `content` has all neighbours of the source's words: then it says the same, and more."""
    return _pairs(source, 1) <= _pairs(content, 1)


def keeps_neighbours(source: str, content: str) -> bool:
    pairs = _pairs(source, 1)
    near = {frozenset(pair) for pair in _pairs(content, _NEIGHBOURHOOD)}
    return 2 * sum(frozenset(pair) in near for pair in pairs) >= len(pairs)


def turns_round(source: str, content: str) -> bool:
    """Whether subject and object are swapped: "the worker calls the server", "the server calls the worker"."""
    if (" by " in source) == (" by " in content):
        turned = {(third, second, first) for first, second, third in _triples(source) if first != third}
        if turned & _triples(content):
            return True
    directed, others = _directed_words(source), _directed_words(content)
    return any(word in others and not directions & others[word] for word, directions in directed.items())


def _triples(text: str) -> set[tuple[str, str, str]]:
    """Return two things and what is said between them: neighbours, and names or values a little further apart."""
    words = _words_in_order(text)
    exact = frozenset[str]().union(*(clause.exact for clause in _clauses(text)))
    triples = set(zip(words, words[1:], words[2:], strict=False))
    for index, first in enumerate(words):
        for last in range(index + 2, min(len(words), index + 2 + _NEIGHBOURHOOD)):
            if first in exact and words[last] in exact:
                triples |= {(first, between, words[last]) for between in words[index + 1 : last]}
    return triples


def _mixes(content: str, sources: Sequence[str]) -> bool:
    """Whether a clause joins what one source says to what another one is about: "Redis listens on port 5432"."""
    source_words = [_telling_words(source) - LIGHT_WORDS for source in sources]
    for one, other in combinations(source_words, 2):
        own, others = one - other, other - one
        for clause in _clauses(content):
            mine, theirs = clause.words & own, clause.words & others
            if not (mine and theirs):
                continue
            if len(own) > 1 and len(others) > 1 and mine != own and theirs != others:
                return True
    for clause in _clauses(content):
        for value in clause.exact:
            holders = [words for words in source_words if value in words]
            own = frozenset[str]().union(*holders)
            others = frozenset[str]().union(*(words for words in source_words if value not in words))
            # The parts of a compound don't count beside it.
            near = frozenset(word for word in own - others if word not in value)
            is_rival = len(others - own) > 1
            if holders and near and is_rival and clause.words & (others - own) and not clause.words & near:
                return True
    return False


def _telling_words(text: str, start: int = 0, end: int | None = None) -> frozenset[str]:
    """The content words of a part of a text, and its names, also those that look like little words: Go, GET."""
    end = len(text) if end is None else end
    names = (
        _word(match[0])
        for match in TOKEN.finditer(text, start, end)
        if match.lastgroup == "word" and not content_words(match[0]) and _is_name(text, match)
    )
    return content_words(text[start:end]) | frozenset(names)


def _swaps_negation(content: str, sources: Sequence[str]) -> bool:
    """Whether what a source denies is said without a negation, and what is said without one is denied."""
    denied = frozenset[str]().union(*map(_denied_words, sources))
    affirmed = frozenset[str]().union(*(_telling_words(source) - _denied_words(source) for source in sources))
    now_denied = _denied_words(content)
    return bool(now_denied & (affirmed - denied)) and not denied - affirmed <= now_denied


def _denied_words(text: str) -> frozenset[str]:
    """The words of a clause after its negation; "or" goes on with it."""
    words: set[str] = set()
    negated = False
    last = 0
    for match in TOKEN.finditer(text):
        if (end := _ENDS.search(text, last, match.start() + 1)) and end[0].strip().lower() != "or":
            negated = False
        last = max(0, match.end() - 1)
        low = match[0].lower().replace("’", "'")
        for part in CONTRACTIONS.get(low, (low,)):
            if _qualifier(part) == "not":
                negated = True
            elif negated:
                words |= content_words(part) or _telling_words(text, match.start(), match.end())
    return frozenset(words)


def collect_terms(sources: Sequence[str]) -> frozenset[str]:
    """Every date, path, number, quotation, name and word of the sources."""
    return frozenset[str]().union(*map(exact_terms, sources), *map(_all_words, sources))


def uses_only(content: str, terms: frozenset[str]) -> bool:
    """Whether each date, path, number, quotation and name in `content` is among the terms."""
    return exact_terms(content) <= terms


def has_known_values(content: str, shown: str) -> bool:
    """Whether each date, path and number in `content` stands in `shown`, a text in folded case."""
    raw_values = [
        match[0].casefold().rstrip("/.:,") for match in TOKEN.finditer(content) if match.lastgroup in _VALUES
    ]
    return all(raw in shown or number_key(raw) in shown for raw in raw_values)


def word_list(text: str) -> list[str]:
    """The words that say something, in their order."""
    passed_over = LIGHT_WORDS | QUALIFYING_WORDS
    return [word for word in _words_in_order(text) if word not in passed_over]


def _words_in_order(text: str) -> list[str]:
    """The content words, one for each token: a compound counts once."""
    words = (content_words(match[0]) for match in TOKEN.finditer(text))
    return [max(each, key=lambda word: (len(word), word)) for each in words if each]


def _pairs(text: str, distance: int) -> frozenset[tuple[str, str]]:
    words = word_list(text)
    return frozenset(
        pair for step in range(1, distance + 1) for pair in zip(words, words[step:], strict=False)
    )


def _directed_words(text: str) -> dict[str, set[str]]:
    """Return the words that follow "from", "to" or "than", each with these."""
    directed: dict[str, set[str]] = {}
    waiting = ""
    for match in TOKEN.finditer(text):
        if (low := match[0].lower()) in _DIRECTIONS:
            waiting = low
        elif words := sorted(content_words(low)):
            if waiting:
                directed.setdefault(words[0], set()).add(waiting)
            waiting = ""
    return directed


def is_nearly_same(content: str, sources: Sequence[str]) -> bool:
    """Whether each source says the same, except for a few plain words."""
    words = content_words(content)
    return all(
        difference_kinds(content, source) <= {"words", "order"}
        and jaccard(words, content_words(source)) >= NEAR
        for source in sources
    )


def _quotations(text: str) -> set[str]:
    return {part.strip().casefold() for match in _QUOTED.finditer(text) for part in match.groups() if part}


def exact_terms(text: str) -> frozenset[str]:
    """What can't be reworded: dates, paths, numbers, quotations and names."""
    terms = _quotations(text)
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
    low = raw.lower()
    plain = low in FUNCTION_WORDS or low in CONTRACTIONS or _qualifier(low) != ""
    return raw[0].isupper() and not plain and _OPENS.search(text[: match.start()]) is None


def qualified_words(text: str) -> tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]:
    """Words that reverse or limit a statement, by what they do, each with the content word that follows it.

    The second set has the words to which a negation goes on after "or" and "and".
    """
    pairs: set[tuple[str, str]] = set()
    spread: set[tuple[str, str]] = set()
    waiting: list[str] = []
    negated = goes_on = False
    for match in TOKEN.finditer(text):
        low = match[0].lower().replace("’", "'")
        for part in CONTRACTIONS.get(low, (low,)):
            if kind := _qualifier(part):
                waiting.append(kind)
                goes_on = False
            elif part in ("or", "nor", "and", "oder", "ou", "o"):
                goes_on = negated
            elif words := sorted(content_words(part)):
                pairs |= {(kind, words[0]) for kind in waiting}
                negated = negated or "not" in waiting
                if goes_on:
                    spread.add(("not", words[0]))
                goes_on = False
                waiting.clear()
        if _SENTENCE_END.match(text, match.end()):
            negated = False
    return frozenset(pairs | {(kind, "") for kind in waiting}), frozenset(spread)


def count_negations(text: str) -> int:
    """Count the words that reverse a statement."""
    parts = (
        part
        for match in TOKEN.finditer(text)
        for low in [match[0].lower().replace("’", "'")]
        for part in CONTRACTIONS.get(low, (low,))
    )
    return sum(_qualifier(part) == "not" for part in parts)


def _qualifier(word: str) -> str:
    """Return what a word does to the statement; empty where it does nothing."""
    if word in _REVERSING or (not word.isascii() and any(part in word for part in NEGATIONS_INSIDE)):
        return "not"
    for kind, words in (("all", _UNIVERSAL), ("must", _OBLIGING), ("hedge", _HEDGING)):
        if word in words:
            return kind
    return word if word in LIMITING else ""


def _clauses(text: str) -> list[_Clause]:
    """Cut a text into clauses, each with its words."""
    starts = [0, *(match.end() for match in _ENDS.finditer(text))]
    clauses: list[_Clause] = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        exact: set[str] = set()
        for match in TOKEN.finditer(text, start, end):
            is_exact = match.lastgroup in _VALUES or match[0].lower() in NUMBER_WORDS
            if is_exact or (match.lastgroup == "word" and _is_name(text, match)):
                exact.update(_words_in_order(match[0]) or [_word(match[0])])
        clauses.append(_Clause(_telling_words(text, start, end), frozenset(exact)))
    return clauses
