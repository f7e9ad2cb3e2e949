"""Which turns of past conversations answer a question, by their words. Pure."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from recollect.model.lexemes import lexemes, query_lexemes
from recollect.ports.transcripts import Digest

SATURATION = 1.2  # BM25's k1
LENGTH_SHARE = 0.4  # BM25's b
AVERAGE_LENGTH = 60.0  # lexemes of a usual turn
BEFORE, AFTER = 0.6, 0.4  # what a word is worth that was said one turn earlier or later
STRANGERS = 100  # imagined turns, without which a few conversations would be no yardstick of what is rare
FLOOR = 0.34  # share of the question's weight that an answer must have
LONGEST_LOOK = 40_000  # characters of one turn that an excerpt is taken from
_WORD = re.compile(r"\w[\w'’./+#-]*")


@dataclass(frozen=True, slots=True)
class Scored:
    """The best turn of a conversation: its place, how well it answers from 0 to 1, and by which words."""

    place: int
    score: float
    words: tuple[str, ...]


class WordSearch:
    """One question over many conversations. Take each once, then ask for the scores."""

    def __init__(self, query: str) -> None:
        self._lexemes = tuple(query_lexemes(query))
        self._surface = _surface(query)
        self._turns = 0
        self._frequencies: Counter[str] = Counter()
        self._counts: list[Mapping[int, Mapping[str, float]]] = []  # by conversation, then by turn

    def take(self, digest: Digest, *, before: datetime) -> None:
        """One more conversation, as far as it was held before then."""
        counts: dict[int, dict[str, float]] = {}
        for one in self._lexemes:
            for place, count in self._occurrences(digest, one):
                if (said := digest.turns[place].timestamp) is None or said < before:
                    spaces = digest.words.count(b" ", digest.starts[place], digest.starts[place + 1])
                    counts.setdefault(place, {})[one] = _worth(count, length=spaces - 1)
                    self._frequencies[one] += 1
        self._turns += len(digest.turns)
        self._counts.append(counts)

    def scores(self) -> list[Scored | None]:
        """For each conversation in the order of taking; None for one that doesn't answer."""
        turns = self._turns + STRANGERS
        weights = {
            one: math.log(1 + (turns - self._frequencies[one] + 0.5) / (self._frequencies[one] + 0.5))
            for one in self._lexemes
        }
        most = sum(weights.values())
        return [self._best(counts, weights, most) if most > 0 else None for counts in self._counts]

    @staticmethod
    def _occurrences(digest: Digest, lexeme: str) -> Iterator[tuple[int, int]]:
        """The turns that have it, and how often."""
        words, wanted = digest.words, f" {lexeme} ".encode()
        found = words.find(wanted)
        while found >= 0:
            place = bisect_right(digest.starts, found) - 1
            end, count = digest.starts[place + 1], 0
            while 0 <= found < end:
                count += 1
                found = words.find(wanted, found + len(wanted) - 1)  # neighbours share a space
            yield place, count

    def _best(
        self, counts: Mapping[int, Mapping[str, float]], weights: Mapping[str, float], most: float
    ) -> Scored | None:
        best: Scored | None = None
        for place, own in counts.items():
            before, after = counts.get(place - 1, {}), counts.get(place + 1, {})
            values = {
                one: max(own.get(one, 0.0), BEFORE * before.get(one, 0.0), AFTER * after.get(one, 0.0))
                for one in weights
            }
            score = sum(weights[one] * value for one, value in values.items()) / most
            has = sum(weights[one] for one, value in values.items() if value) / most
            if has >= FLOOR and (best is None or score > best.score):
                best = Scored(place, score, tuple(one for one, value in values.items() if value))
        return best

    def relevance(self, scored: Scored) -> str:
        """Why, in the words of the question."""
        said = dict.fromkeys(self._surface.get(one, one) for one in scored.words)
        asked = dict.fromkeys(self._surface.get(one, one) for one in self._lexemes)
        return f"{len(said)} of {len(asked)} words: {', '.join(said)}"

    def excerpt(self, text: str, *, length: int) -> str:
        """The stretch of a text that says most of what was asked for."""
        if len(text) <= length:
            return text
        places = [
            match.start()
            for match in _WORD.finditer(text[:LONGEST_LOOK])
            if any(one in self._lexemes for one in lexemes(match[0]))
        ]
        start, best = 0, 0
        for number, place in enumerate(places):
            within = bisect_left(places, place + length) - number
            if within > best:
                start, best = place, within
        start = max(0, start - length // 6)
        start = text.find(" ", start, start + 20) + 1 or start if start else 0
        cut = text[start : start + length].strip()
        return ("…" if start else "") + cut + ("…" if start + length < len(text) else "")


def _worth(count: int, *, length: int) -> float:
    """How much a lexeme counts in a turn of so many, from 0 to 1."""
    return count / (count + SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * length / AVERAGE_LENGTH) / 2)


def _surface(query: str) -> dict[str, str]:
    """The words that the lexemes stand for."""
    names: dict[str, str] = {}
    for word in _WORD.findall(query):
        for lexeme in query_lexemes(word):
            names.setdefault(lexeme, word)
    return names
