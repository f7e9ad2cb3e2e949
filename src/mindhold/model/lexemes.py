"""What a text is searched by.

One analyser feeds the full-text index, the query and every score computed outside the index, so the three agree.
A lexeme is made of characters that SQLite's `unicode61 remove_diacritics 0` tokenizer takes for one token and leaves
as they are: lower-case letters and digits that Unicode has known for long, and private-use pairs that stand for the
rest (vowel signs of Indic and Thai scripts, letters of later Unicode versions).
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import pairwise

import Stemmer

from mindhold.model.stop_words import ASIAN_QUESTIONS, STOP_WORDS

LONGEST_LEXEME = 64
MOST_LEXEMES = 1 << 18  # of one text: what a megabyte of prose has

_MOST_PIECES = 8  # of one identifier: beyond it is an encoded blob, not words
_SHORT_RUN = 8
_FIRST_UNSPACED = "\u0e00"  # what sorts before is Latin, Greek, Cyrillic, Arabic, Indic ...
_FIRST_OF_PAIR, _SECOND_OF_PAIR = 0xE000, 0xE800

_PAIR = "[\ue000-\ue21f][\ue800-\uefff]"
_CJK_UNIT = (
    "(?:[\u1100-\u11ff\u3005-\u3007\u3021-\u3029\u3031-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]|[\ue040-\ue07f][\ue800-\uefff])"
)
_UNSPACED_UNIT = f"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff](?:{_PAIR})*"  # Thai, Lao, Burmese, Khmer
_LETTER = (
    "[0-9A-Za-z\u00aa-\u0dff\u0f00-\u0fff\u10a0-\u10ff\u1200-\u177f\u1800-\u3004\u3190-\u319f\u31c0-\u31ef"
    "\u4dc0-\u4dff\ua000-\ua95f\ua980-\uabff\ue000-\uefff\ufb00-\uffff\U00010000-\U0001ffff]"
)
_ASCII_CHUNK = re.compile(
    r"[cC]\+\+|[cCfF]\#"
    r"|[0-9A-Za-z]+(?:(?:[-_./\\@'&]|(?<=[0-9]):(?=[0-9])|(?<=[0-9]),(?=[0-9]{3}(?![0-9])))[0-9A-Za-z]+){0,15}"
)
_SYMBOLIC = {"c++": "cplusplus", "c#": "csharp", "f#": "fsharp"}
_CLITIC = re.compile(r"'(?:s|re|ll|ve|d|m)$", re.IGNORECASE)
_NEGATION = re.compile(r"[a-z]+n't$", re.IGNORECASE)
_NUMERIC = re.compile(r"[vV]?[0-9]+(?:[-.:/,][0-9]+)+")
_THOUSANDS = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+")
_JOINER = re.compile(r"[-_.:,@'&]")
_STEP = re.compile(r"[/\\@]")  # of a path or an address
_BETWEEN = re.compile(r"[^\w\ue000-\uefff]|_")
_NOTHING = dict.fromkeys(map(ord, "-_./\\@'&:,"))
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^A-Za-z0-9]+")
_STEMMABLE = re.compile(r"[a-z]{4,}")

_OPTIONAL_MARKS = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed\u1ab0-\u1aff"
    "\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe00-\ufe2f\u00ad\u200b-\u200d\u2060\ufeff]|[\U000e0100-\U000e01ef]"
)
_PLAIN = {
    "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D",
    "ð": "d", "Ð": "D", "þ": "th", "Þ": "TH", "ß": "ss", "ẞ": "SS", "ı": "i", "ħ": "h", "Ħ": "H", "ё": "е",
    "Ё": "е", "’": "'", "‘": "'", "ʼ": "'", "‐": "-", "‑": "-", "−": "-",
}  # fmt: skip

_local = threading.local()


def lexemes(text: str) -> list[str]:
    """The lexemes of a stored text, in order, repetitions kept."""
    found: list[str] = []
    for chunk in _chunks(text):
        found += _of_chunk(chunk)
        if len(found) > MOST_LEXEMES:
            return found[:MOST_LEXEMES]
    return found


@cache
def stop_lexemes() -> frozenset[str]:
    """What stop words become: in every text, and telling of none."""
    return frozenset(lexeme for word in STOP_WORDS for lexeme in lexemes(word))


def query_lexemes(text: str) -> list[str]:
    """The lexemes to look for, each once, in order; without stop words, unless there is nothing else."""
    if not text.isascii():
        asking = ASIAN_QUESTIONS.sub(" ", unicodedata.normalize("NFKC", text))
        found = _unique(map(_sought, _chunks(asking)))
        if found:
            return found
    return _unique(map(_sought, _chunks(text))) or _unique(map(_every_sought, _chunks(text)))


def fold(text: str) -> str:
    """One spelling of the same text: compatibility forms, diacritics, digits and marks made alike."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text).translate(_FOLDED)


def _chunks(text: str) -> list[str]:
    return _ASCII_CHUNK.findall(text) if text.isascii() else _any_chunk().findall(fold(text))


@cache
def _any_chunk() -> re.Pattern[str]:
    """Made when first needed: classes of so many characters take tens of milliseconds."""
    return re.compile(
        r"[cC]\+\+|[cCfF]\#"
        rf"|{_LETTER}+(?:(?:[-_./\\@'&]|(?<=[0-9]):(?=[0-9])|(?<=[0-9]),(?=[0-9]{{3}}(?![0-9]))){_LETTER}+){{0,15}}"
        rf"|(?:{_CJK_UNIT})+|(?:{_UNSPACED_UNIT})+"
    )


@cache
def _unit() -> re.Pattern[str]:
    return re.compile(f"{_CJK_UNIT}|{_UNSPACED_UNIT}")


def _content(text: str) -> set[str]:
    found: set[str] = set()
    for chunk in _chunks(text):
        if not _is_stop_chunk(chunk):
            found.update(_of_chunk(chunk))
    return found


def _unique(groups: Iterable[tuple[str, ...]]) -> list[str]:
    return list(dict.fromkeys(lexeme for group in groups for lexeme in group))[:MOST_LEXEMES]


@lru_cache(4096)
def _is_stop_chunk(chunk: str) -> bool:
    return _CLITIC.sub("", chunk).replace("'", "").lower() in STOP_WORDS


def _of_chunk(chunk: str) -> tuple[str, ...]:
    # Words recur, so they are remembered; long runs and blobs hardly do, and would fill the memory.
    if len(chunk) <= LONGEST_LEXEME and chunk < _FIRST_UNSPACED:
        return _of_common_word(chunk)
    return _of_short_run(chunk) if len(chunk) <= _SHORT_RUN else _of_run(chunk)


@lru_cache(65536)
def _of_common_word(chunk: str) -> tuple[str, ...]:
    return _of_word(chunk)


@lru_cache(8192)
def _of_short_run(chunk: str) -> tuple[str, ...]:
    return _of_run(chunk)


def _of_run(chunk: str) -> tuple[str, ...]:
    units = _units(chunk)
    if not units:
        return _of_word(chunk)
    pairs = [*map("".join, pairwise(units)), ""]
    return tuple([lexeme for both in zip(units, pairs, strict=True) for lexeme in both if lexeme])


def _sought(chunk: str) -> tuple[str, ...]:
    if _is_stop_chunk(chunk):
        return ()
    return tuple(lexeme for lexeme in _every_sought(chunk) if lexeme not in STOP_WORDS)


def _every_sought(chunk: str) -> tuple[str, ...]:
    units = _units(chunk)
    if len(units) > 1:
        return tuple(map("".join, pairwise(units)))
    return tuple(units) or _of_chunk(chunk)


def _units(chunk: str) -> list[str]:
    """The characters of a run of Chinese, Japanese, Korean, Thai ...; nothing for other words."""
    return _unit().findall(chunk) if chunk >= _FIRST_UNSPACED and _unit().match(chunk) else []


def _of_word(chunk: str) -> tuple[str, ...]:
    if chunk.isalpha() and chunk.islower():
        return (_stem(chunk[:LONGEST_LEXEME]),)
    if symbolic := _SYMBOLIC.get(chunk.lower()):
        return (symbolic,)
    if chunk[-1].isdecimal() and _NUMERIC.fullmatch(chunk):
        return _of_number(chunk.lstrip("vV"))
    found: list[str] = []
    segments = _STEP.split(chunk) if not chunk.isalnum() else [chunk]
    for segment in segments:
        found += _of_segment(segment)
    if len(segments) > 1:
        found += _joined(chunk.translate(_NOTHING) if chunk.isascii() else _BETWEEN.sub("", chunk))
    return tuple(dict.fromkeys(found))


def _of_number(number: str) -> tuple[str, ...]:
    if _THOUSANDS.fullmatch(number):
        return (number.replace(",", ""),)
    found: list[str] = []
    for group in (number, *re.split(r"[:/,]", number)):  # an address, then its host and its port
        parts = re.split(r"[-.:/,]", group)
        # Joined by a letter, for 3.11 is neither 311 nor 31.1.
        found += [*_joined("d".join(parts)), *(part[:LONGEST_LEXEME] for part in parts)]
    return tuple(dict.fromkeys(found))


@lru_cache(65536)  # the folders of paths recur, if whole paths don't
def _of_segment(segment: str) -> tuple[str, ...]:
    if segment.isalpha() and segment.islower() and segment.isascii() and len(segment) <= LONGEST_LEXEME:
        return (_stem(segment),)
    if "'" in segment:
        segment = _CLITIC.sub("", segment)
        if _NEGATION.fullmatch(segment):
            return (segment.replace("'", "").lower(),)
    words = [word for word in _JOINER.split(segment) if word]
    pieces = [piece for word in words for piece in _pieces(word)]
    pieces = [piece for piece in pieces if len(piece) > 1 or not piece.isalpha()] or pieces
    if len(words) == 1 and len(words[0]) > LONGEST_LEXEME:
        return (words[0][:LONGEST_LEXEME].lower(),)
    whole = _joined("".join(words))
    return tuple(dict.fromkeys([*whole, *(_stem(piece[:LONGEST_LEXEME].lower()) for piece in pieces)]))


def _pieces(word: str) -> list[str]:
    """getUserName: get, User, Name. python3: python, 3. What alternates like a hash stays whole."""
    pieces: list[str] = _CAMEL.findall(word)
    if len(pieces) == 1:
        return pieces
    digits = sum(piece.isdigit() for piece in pieces)
    short = sum(len(piece) == 1 and piece.isalpha() for piece in pieces)
    blob = len(pieces) > _MOST_PIECES or digits > 1 or (digits and short) or short * 2 > len(pieces)
    return [word] if blob or len(word) > LONGEST_LEXEME or not word.isascii() else pieces


def _joined(word: str) -> list[str]:
    return [_stem(word.lower())] if len(word) <= LONGEST_LEXEME else []


def _stem(word: str) -> str:
    if not _STEMMABLE.fullmatch(word):
        return word
    try:
        stemmer = _local.stemmer
    except AttributeError:
        # One a thread: a stemmer keeps the word it is working on. Our cache does for its own.
        stemmer = _local.stemmer = Stemmer.Stemmer("english", 0)
    stem: str = stemmer.stemWord(word)
    return stem


class _Folded(dict[int, str]):
    """What each character becomes, worked out when it is first met."""

    def __missing__(self, point: int) -> str:
        folded = self[point] = _fold_character(chr(point))
        return folded


def _fold_character(character: str) -> str:
    if character.isascii():
        return character
    if character in _PLAIN:
        return _PLAIN[character]
    if _OPTIONAL_MARKS.match(character):
        return ""
    if unicodedata.category(character) == "Nd":
        return str(unicodedata.decimal(character))
    base = unicodedata.normalize("NFD", character)[0]
    if unicodedata.name(character, "").startswith(("LATIN", "GREEK")):
        character = _PLAIN.get(base, base)
    if character.isascii():
        return character
    return "".join(map(_indexable, unicodedata.normalize("NFKC", character.casefold())))


def _indexable(character: str) -> str:
    if character.isascii() or unicodedata.ucd_3_2_0.category(character)[0] in "LN":
        return character if character.isalnum() else " "
    if unicodedata.category(character)[0] in "LMN":
        point = ord(character)
        return chr(_FIRST_OF_PAIR + (point >> 11)) + chr(_SECOND_OF_PAIR + (point & 0x7FF))
    return " "


_FOLDED = _Folded()
