"""The memories of a hook cache that a prompt is about; mostly none."""

from __future__ import annotations

from functools import cache
from itertools import groupby, pairwise
from math import log, sqrt

from mindhold.model.lexemes import STOP_WORDS, fold, lexemes, query_lexemes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from mindhold.hooks.hook_cache import HookCache


_WORDS = """
    able actual actually add added again agent ahead allow already also always another answer anyway app appear application apply
    approach around ask away back bad based basic begin behave behavior behaviour better big bit block both branch break bring broken
    bug build bunch button call called case cause certain change changed check choose class clean clear click close code come command
    comment commit common complete concern config configuration confirm consider contain content context continue copy correct create
    current currently cut data date day default define delete depend describe description detail develop developer different difference
    directory disable display doc docs document documentation double easy edit else empty enable end ensure entire entry environment
    error even evaluate everything exact exactly example exist expect expected explain extra face fail failed failing failure false
    fast feature feedback feel field figure file files fill final finally find fine finish first fix fixed flag folder follow format
    found fresh full function further general generate git github good great group handle happen hard hello help hi high hold hope
    hour idea implement implementation improve include inside instead invoke issue item job keep kind large last later latest lead
    least leave left less level library line link list little load local log logic long look machine main manage matter mean merge
    message method mind miss missing mode modify module moment most mostly move multiple name near nearly need never new next nice
    none note nothing notice number object obvious old open option order original output page part pass path people perfect piece
    place plan play point possible prefer press previous print problem process produce program project prompt proper provide pull
    push put question quick quickly read ready real reason reduce refactor regard related remember remove rename repeat replace repo
    report repository request require rest result return review rewrite right root run running safe save scratch screen script search
    second section see seem select send sense sentence separate set setting settings setup several short show side similar simple
    simplify single size skip small solve sort source space specific split stage start state status step stop store string stuff
    style suggest sure switch system take task team test tested testing tests text think time title today together tool top total
    touch track tree true try turn two type under understand unit unless unused update updated user usual value variable various
    verify version view wait walk want warning watch way week weird well whole wish wonder word work working worry write wrong yeah
    yesterday tomorrow python javascript typescript claude
    """


@cache
def common_lexemes() -> frozenset[str]:
    """In the form that texts are compared in."""
    return frozenset(lexeme for word in _WORDS.split() for lexeme in lexemes(word))


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


def match_prompt(leaflet: HookCache, text: str, told: Collection[str] = ()) -> list[dict[str, Any]]:
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


def _compared(leaflet: HookCache, text: str) -> tuple[float, dict[int, _Shared]]:
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
