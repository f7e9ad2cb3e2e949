"""Which memories of a leaflet a prompt is about; mostly none."""

from __future__ import annotations

from itertools import groupby, pairwise
from math import log, sqrt

from mindhold.bare.common_words import common_lexemes
from mindhold.model.lexemes import fold, query_lexemes
from mindhold.model.stop_words import STOP_WORDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from mindhold.bare.leaflet import Leaflet

# Characters of a prompt that are looked at: what is asked stands before or after what is pasted.
HEAD, TAIL = 4_000, 2_000
FLOOR = 0.25
NAMED_FLOOR = 0.12  # where a rare identifier is shared
FEWEST = 2  # telling words that must be shared
_FEW_MEMORIES = 100  # of fewer, how often a word occurs tells little
_COMMON_SHARE = 0.1  # of the memories: a word that more of them have says nothing about one
_FAINT = 0.2
_MOST_NAMED = 2  # memories that may have an identifier which tells by itself
_MOST_WORDS = 400
_LONGEST_COMPARED = 24.0
_AROUND = "\"'`.,;:!?()[]{}<>*#~“”‘’…"


def by_prompt(leaflet: Leaflet, text: str, told: Collection[str] = ()) -> list[dict[str, Any]]:
    """The memories that the text is about, best first, without those told; usually none.

    One must share two telling words with it, or a rare identifier, and these must be a good part of what either says.
    """
    if not leaflet.memories:
        return []
    asked, shared = _compared(leaflet, text)
    found = []
    for number, common in shared.items():
        if common.telling < FEWEST and not common.names:
            continue
        memory = leaflet.memory(number)
        score = common.weight / sqrt(max(asked, 1.0) * min(max(memory["telling"], 1.0), _LONGEST_COMPARED))
        if memory["id"] not in told and score >= (NAMED_FLOOR if common.names else FLOOR):
            found.append((score + common.names, -number, memory))
    found.sort(key=lambda one: one[:2], reverse=True)
    return [{**memory, "score": round(score, 3)} for score, _, memory in found]


class _Shared:
    """What a memory has in common with a prompt."""

    def __init__(self) -> None:
        self.telling = 0.0  # words
        self.weight = 0.0
        self.names = 0  # of them, that hardly another memory has


def _compared(leaflet: Leaflet, text: str) -> tuple[float, dict[int, _Shared]]:
    """The weight of all that the text says, and what each memory shares of it."""
    common = common_lexemes()
    size = max(leaflet.memories, _FEW_MEMORIES)
    most = max(2, int(leaflet.memories * _COMMON_SHARE))
    asked = 0.0
    shared: dict[int, _Shared] = {}
    for lexeme, share, name in _words(text):
        having = leaflet.having(lexeme)
        telling = lexeme not in common and len(having) <= most
        weight = (
            log((size + 1) / (len(having) + 0.5)) / log(size + 1) * (share if telling else share * _FAINT)
        )
        asked += weight
        for number in having:
            entry = shared.setdefault(number, _Shared())
            entry.weight += weight
            entry.telling += share if telling else 0.0
            entry.names += name and len(having) <= _MOST_NAMED
    return asked, shared


def _words(text: str) -> list[tuple[str, float, bool]]:
    """Each lexeme once, which share of a written word it is, and whether it names something."""
    if len(text) > HEAD + TAIL:
        text = f"{text[:HEAD]} {text[-TAIL:]}"
    found: dict[str, tuple[str, float, bool]] = {}
    for piece in text.replace("/", " ").split():
        piece = piece.strip(_AROUND)
        lexemes = _lexemes(piece)
        # What is written without spaces has several words; an identifier is one, and its parts tell less.
        share = 1 / len(lexemes) if piece.isascii() and lexemes else 0.5
        for place, lexeme in enumerate(lexemes):
            name = place == 0 and _names(piece)
            found.setdefault(lexeme, (lexeme, 1.0 if name else share, name))
        if len(found) > _MOST_WORDS:
            break
    return list(found.values())


def _lexemes(piece: str) -> list[str]:
    """As `query_lexemes` has them, which would compile for milliseconds what takes Korean, Chinese and Japanese apart."""
    if piece.isascii():
        return [] if piece.replace("'", "").lower() in STOP_WORDS else query_lexemes(piece)
    found: list[str] = []
    for unspaced, run in groupby(piece, _is_unspaced):
        characters = "".join(run)
        if unspaced:
            found += map("".join, pairwise(characters)) if len(characters) > 1 else [characters]
        else:
            found += _lexemes(folded) if (folded := fold(characters)).isascii() else query_lexemes(characters)
    return found


def _is_unspaced(character: str) -> bool:
    return (
        "가" <= character <= "힣"
        or "一" <= character <= "鿕"
        or "ぁ" <= character <= "ゖ"
        or "ァ" <= character <= "ヺ"
        or character == "ー"
    )


def _names(piece: str) -> bool:
    """load_settings, parser.py, HttpClientPool, sha256sum: not what a language is called, nor a product."""
    if not 6 <= len(piece) <= 64 or not piece.isascii():
        return False
    humps = sum(one.islower() and other.isupper() for one, other in pairwise(piece))
    digits = sum(one.isdigit() for one in piece)
    return humps > 1 or any(one in "_." for one in piece) or 0 < digits < len(piece) - 2
