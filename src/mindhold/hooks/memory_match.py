"""Finds the memories in a hook cache that a prompt is about, and the solved errors that match a failure; usually none."""

from __future__ import annotations

from functools import cache
from itertools import groupby, pairwise
from math import exp, log, sqrt

from mindhold.model.lexemes import STOP_WORDS, fold, lexemes, query_lexemes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
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
    """Common words as lexemes."""
    return frozenset(lexeme for word in _WORDS.split() for lexeme in lexemes(word))


# Characters of a prompt to search: the question comes before or after pasted text.
HEAD, TAIL = 4_000, 2_000
FLOOR = 0.27  # least probability that the prompt is about the memory
NEAR_SHARE = 0.6  # of the best score, from which on others are told too
LEAST_SHARE = 0.12  # of the prompt that a memory must have, whatever it has of it
# Learned by `make bench-prompts`: from the share of the prompt that a memory has, and from how much it has of it.
_BY_SHARE, _BY_WEIGHT, _BASE = 2.64, 2.5, -4.77
_BY_SIZE = 0.25  # for each doubling of _FEW_MEMORIES: of many memories some come near by chance
_LEAST_WEIGHT, _MOST_WEIGHT = 0.4, 3.0
_LEAST_TOTAL = 0.8
_CLOSE = 0.5  # weight from which on a related word counts for how common a word is
_FEW_MEMORIES = 100  # below this number, frequencies of words say little
_COMMON_SHARE = 0.1  # a word that a larger share of the memories has says little
_FAINT = 0.15
_MOST_NAMED = 2  # memories that may share an identifier that counts by itself
_MOST_WORDS = 400
_LONG = 48.0  # words of a memory, from which on each says less
_AROUND = "\"'`.,;:!?()[]{}<>*#~“”‘’…"


def match_prompt(hook_cache: HookCache, text: str, shown_ids: Collection[str] = ()) -> list[dict[str, Any]]:
    """The memories that the text is about, best first, without those already shown; usually none.

    A memory has a good part of what the text says, in its own or in related words, or a rare identifier of it.
    """
    if not hook_cache.memories:
        return []
    total, shared = _compare(hook_cache, text)
    size = log(max(hook_cache.memories, _FEW_MEMORIES) / _FEW_MEMORIES) / log(2)
    ranked = []
    for number, common in shared.items():
        if common.weight < _LEAST_WEIGHT:
            continue
        memory = hook_cache.memory(number)
        weight = common.weight * min(1.0, sqrt(_LONG / max(memory["telling"], 1.0)))
        share = weight / total
        odds = _BY_SHARE * share + _BY_WEIGHT * min(weight, _MOST_WEIGHT) + _BASE - _BY_SIZE * size
        score = 1 / (1 + exp(-odds))
        if memory["id"] not in shown_ids and share >= LEAST_SHARE and (common.names or score >= FLOOR):
            ranked.append((score + common.names, -number, memory))
    ranked.sort(key=lambda row: row[:2], reverse=True)
    least = min(ranked[0][0], 1.0) * NEAR_SHARE if ranked else 0.0
    return [{**memory, "score": round(score, 3)} for score, _, memory in ranked if score >= least]


class _Shared:
    """What a memory shares with a prompt."""

    def __init__(self) -> None:
        self.weight = 0.0
        self.names = 0  # of these, identifiers that hardly another memory has


def _compare(hook_cache: HookCache, text: str) -> tuple[float, dict[int, _Shared]]:
    """The weight of all words of the text, and what each memory shares of it."""
    common = common_lexemes()
    size = max(hook_cache.memories, _FEW_MEMORIES)
    limit = max(2, int(hook_cache.memories * _COMMON_SHARE))
    total = 0.0
    shared: dict[int, _Shared] = {}
    for lexeme, share, name in _words(text):
        numbers, related = hook_cache.memories_about(lexeme)
        reach = len(numbers) + sum([weight >= _CLOSE for _, weight in related]) / 2
        informative = lexeme not in common and len(numbers) <= limit
        weight = log((size + 1) / (reach + 0.5)) / log(size + 1) * (share if informative else share * _FAINT)
        if weight <= 0:
            continue
        total += weight
        for number, closeness in related:
            entry = shared.get(number)
            if entry is None:
                entry = shared[number] = _Shared()
            entry.weight += weight * closeness
        for number in numbers:
            entry = shared.setdefault(number, _Shared())
            entry.weight += weight
            entry.names += name and len(numbers) <= _MOST_NAMED
    return max(total, _LEAST_TOTAL), shared


def _words(text: str) -> list[tuple[str, float, bool]]:
    """Each lexeme once, its share of a written word, and whether it is an identifier."""
    if len(text) > HEAD + TAIL:
        text = f"{text[:HEAD]} {text[-TAIL:]}"
    words: dict[str, tuple[str, float, bool]] = {}
    for piece in text.replace("/", " ").split():
        piece = piece.strip(_AROUND)
        lexemes = _lexemes(piece)
        # Text without spaces has several words per piece; an identifier is one word, and its parts say less.
        share = 1 / len(lexemes) if piece.isascii() and lexemes else 0.5
        for index, lexeme in enumerate(lexemes):
            name = index == 0 and _is_identifier(piece)
            words.setdefault(lexeme, (lexeme, 1.0 if name else share, name))
        if len(words) > _MOST_WORDS:
            break
    return list(words.values())


def _lexemes(piece: str) -> list[str]:
    """The same as `query_lexemes`, without compiling its pattern for Korean, Chinese and Japanese, which takes milliseconds."""
    if piece.isascii():
        return [] if piece.replace("'", "").lower() in STOP_WORDS else query_lexemes(piece)
    result: list[str] = []
    for unspaced, run in groupby(piece, _is_unspaced):
        characters = "".join(run)
        if unspaced:
            result += map("".join, pairwise(characters)) if len(characters) > 1 else [characters]
        else:
            result += (
                _lexemes(folded) if (folded := fold(characters)).isascii() else query_lexemes(characters)
            )
    return result


def _is_unspaced(character: str) -> bool:
    return (
        "가" <= character <= "힣"
        or "一" <= character <= "鿕"
        or "ぁ" <= character <= "ゖ"
        or "ァ" <= character <= "ヺ"
        or character == "ー"
    )


def _is_identifier(piece: str) -> bool:
    """load_settings, parser.py, HttpClientPool, sha256sum; not names of languages or products."""
    if not 6 <= len(piece) <= 64 or not piece.isascii():
        return False
    humps = sum(left.islower() and right.isupper() for left, right in pairwise(piece))
    digits = sum(map(str.isdigit, piece))
    return humps > 1 or "_" in piece or "." in piece or 0 < digits < len(piece) - 2


ALIKE = 0.8  # share of words that two signs must have in common
FEWEST_WORDS = 6  # words of a sign that is compared word by word
FEWEST_BEGINNING = 4  # words of a sign that another one starts with
_LIKELY = 0.7
_LONGEST = 40_000  # characters of the failure; signs are taken from its start and its end
# words that the construction of a sign may add
_ADDED_WORDS = frozenset(("command", "not", "found:", "panic:"))


def match_failure(hook_cache: HookCache, text: str, shown_ids: Collection[str] = ()) -> list[dict[str, Any]]:
    """The solved errors that match this failure, most certain first, without those already shown."""
    if not hook_cache.errors:
        return []
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]}\n{text[-_LONGEST // 2 :]}"
    candidates = [(error, [_sign_words(sign) for sign in error["signs"]]) for error in hook_cache.solved()]
    lowered = text.lower()
    likely = [
        (error, signs)
        for error, signs in candidates
        if error["id"] not in shown_ids and any(_is_likely(words, lowered) for words in signs)
    ]
    if not likely:
        return []
    from mindhold.model.error_signs import error_signs  # compiles a pattern for each form of line

    signs = error_signs(_likely_lines(text, [words for _, signs in likely for words in signs]))
    ranked = []
    for index, (error, _) in enumerate(likely):
        similarities = (_sign_similarity(sign, other) for sign in signs for other in error["signs"])
        ranked.append((max(similarities, default=0.0), -index, error))
    ranked.sort(key=lambda row: row[:2], reverse=True)
    return [error for similarity, _, error in ranked if similarity]


def _sign_words(sign: str) -> list[str]:
    """The words of a sign that also occur in the original text."""
    words = (word.strip(",;:.()[]") for word in sign.split() if word not in _ADDED_WORDS)
    return [word for word in words if word and "#" not in word]


def _is_likely(words: Sequence[str], lowered: str) -> bool:
    """Whether the text contains most words of a sign, or its first ones; a cheap check."""
    beginning = words[:FEWEST_BEGINNING]
    if len(beginning) == FEWEST_BEGINNING and all(word in lowered for word in beginning):
        return True
    return sum(word in lowered for word in words) >= len(words) * _LIKELY


def _likely_lines(text: str, signs: Sequence[Sequence[str]]) -> str:
    """The lines that may contain a sign, each with the line before if that announces it."""
    lines = text.splitlines()
    likely: list[str] = []
    for index, line in enumerate(lines):
        lowered = line.lower()
        if any(_is_likely(words, lowered) for words in signs):
            likely += [lines[index - 1]] if index and lines[index - 1].endswith(":") else []
            likely.append(line)
    return "\n".join(likely)


def _sign_similarity(sign: str, other: str) -> float:
    """1 for equal signs, less for nearly equal ones, else 0.

    A sign that a person wrote down may continue after the failure ends: "... when running the tests".
    """
    if sign == other:
        return 1.0
    beginning = _sign_words(sign)
    if len(beginning) >= FEWEST_BEGINNING and _sign_words(other)[: len(beginning)] == beginning:
        return 0.995
    words, others = set(sign.split()), set(other.split())
    if min(len(words), len(others)) < FEWEST_WORDS or sign.split()[0] != other.split()[0]:
        return 0.0
    share = len(words & others) / len(words | others)
    return share * 0.99 if share >= ALIKE else 0.0
