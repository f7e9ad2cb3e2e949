"""Whether a merged statement says what its sources say: nothing lost, reversed or made up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mindhold.text.contradiction import Bearing, bearing
from mindhold.text.similarity import TOKEN, content_words, differences, number_key, shared
from mindhold.text.vocabulary import CONTRACTIONS, FUNCTION_WORDS, NEGATIONS, NEGATIONS_INSIDE

MOST_LOST = 4  # of so many words of a source one may be missing
MOST_ADDED = 5  # of so many words one may be in no source
NEAR = 0.6  # of the words are shared by statements that are nearly the same
_VALUES = ("date", "path", "number")
_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^”\n]+)”")
_NAME = re.compile(r".*[a-z][A-Z]|.*_|.*\d|[A-Z]{2,}|.*[+#]$")
_OPENS = re.compile(r"(?:^|[.!?:;…。！？\n])[\s\"'“‘(*`-]*$")
# Between clauses, each of which has a subject of its own.
_ENDS = re.compile(r"[;,.!?…。！？]\s|\n|\s(?:and|but|while|whereas|or)\s", re.IGNORECASE)
# What turns a statement round, or says how far it goes.
_TURNING = NEGATIONS | frozenset(
    """always sometimes often rarely seldom usually mostly only all every each any some most many few both either must may might
    should shall can could optional optionally required forbidden instead before after until""".split()
)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of a text up to a value or the end of a clause: its words, and whether a value or a name is in it."""

    words: frozenset[str]
    exact: bool


def is_faithful(content: str, sources: Sequence[str]) -> bool:
    """Whether nothing is lost when it stands for all of them."""
    said, known = content_words(content), [content_words(one) for one in sources]
    everything = frozenset[str]().union(*known)
    if any(not words or len(words - said) * MOST_LOST > len(words) for words in known):
        return False
    if len(said - everything) * MOST_ADDED > len(said):
        return False
    own = _all_words(content)
    if not all(_exact(one) <= _exact(content) | own for one in sources):
        return False
    if not says_only(content, all_said(sources)):
        return False
    if _turns(content) != frozenset[tuple[str, str]]().union(*map(_turns, sources)):
        return False
    one_says_all = any(all(other <= words for other in known) for words in known)
    if not one_says_all and not all(_neighbours_kept(one, content) for one in sources):
        return False  # the same words, but who does what is turned round
    pieces = [piece.words & everything for piece in _pieces(content) if piece.exact]
    if not all(any(piece <= words for words in known) for piece in pieces):
        return False  # the number of the one with the name of the other
    return all(bearing(one, content).bearing not in (Bearing.OPPOSED, Bearing.DOUBTFUL) for one in sources)


def all_said(sources: Sequence[str]) -> frozenset[str]:
    """Every date, path, number, quotation, name and word of them."""
    return frozenset[str]().union(*map(_exact, sources), *map(_all_words, sources))


def says_only(content: str, said: frozenset[str]) -> bool:
    """Whether each date, path, number, quotation and name in it is among all that was said."""
    return _exact(content) <= said


def _neighbours_kept(source: str, content: str) -> bool:
    """Whether most words of a source that say something still stand beside the one that they stood beside."""
    pairs, kept = _neighbours(source), _neighbours(content)
    return 2 * len(pairs & kept) >= len(pairs)


def _neighbours(text: str) -> frozenset[tuple[str, str]]:
    said = [word for match in TOKEN.finditer(text) for word in sorted(content_words(match[0]))]
    return frozenset(zip(said, said[1:], strict=False))


def is_nearly_same(content: str, sources: Sequence[str]) -> bool:
    """Whether each of them says it but for a few plain words."""
    said = content_words(content)
    return all(
        differences(content, one) <= {"words", "order"} and shared(said, content_words(one)) >= NEAR
        for one in sources
    )


def _exact(text: str) -> frozenset[str]:
    """What can't be put in other words: dates, paths, numbers, what is quoted, and names."""
    found = {part.strip().casefold() for match in _QUOTED.finditer(text) for part in match.groups() if part}
    for match in TOKEN.finditer(text):
        if match.lastgroup in _VALUES:
            found.add(_value(match[0]))
        elif match.lastgroup == "word" and _is_name(text, match):
            found.add(_word(match[0]))
    return frozenset(found)


def _all_words(text: str) -> frozenset[str]:
    """A name at the beginning of a sentence can't be told from any other word."""
    return frozenset(_word(match[0]) for match in TOKEN.finditer(text) if match.lastgroup == "word")


def _word(raw: str) -> str:
    return raw.casefold().replace("’", "'").removesuffix("'s")


def _value(raw: str) -> str:
    return number_key(raw.casefold().rstrip("/.:,"))


def _is_name(text: str, match: re.Match[str]) -> bool:
    raw = match[0]
    if _NAME.match(raw):
        return True
    plain = raw.lower() in FUNCTION_WORDS or raw.lower() in _TURNING or raw.lower() in CONTRACTIONS
    return raw[0].isupper() and not plain and _OPENS.search(text[: match.start()]) is None


def _turns(text: str) -> frozenset[tuple[str, str]]:
    """Words that turn or bound a statement, each with the first word after it that says something."""
    found: set[tuple[str, str]] = set()
    waiting: list[str] = []
    for match in TOKEN.finditer(text):
        low = match[0].lower().replace("’", "'")
        for part in CONTRACTIONS.get(low, (low,)):
            if part in _TURNING or (not part.isascii() and any(one in part for one in NEGATIONS_INSIDE)):
                waiting.append(part)
            elif words := sorted(content_words(part)):
                found |= {(turn, words[0]) for turn in waiting}
                waiting.clear()
    return frozenset(found | {(turn, "") for turn in waiting})


def _pieces(text: str) -> list[_Piece]:
    cuts = {match.start() for match in _ENDS.finditer(text)} | {len(text)}
    values = {match.end() for match in TOKEN.finditer(text) if match.lastgroup in _VALUES}
    names = [
        match.start() for match in TOKEN.finditer(text) if match.lastgroup == "word" and _is_name(text, match)
    ]
    found: list[_Piece] = []
    start = 0
    for end in sorted(cuts | values):
        exact = end in values or any(start <= name < end for name in names)
        found.append(_Piece(content_words(text[start:end]), exact))
        start = end
    return found
