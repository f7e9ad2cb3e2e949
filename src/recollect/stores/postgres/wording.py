"""Which of very many records are worth a look for what they say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from recollect.model.query import Numbers
from recollect.stores.postgres import looking
from recollect.stores.postgres.adapting import quoted
from recollect.stores.postgres.connection import Connection
from recollect.stores.postgres.estimates import Estimate
from recollect.stores.postgres.looking import Posting, Rows
from recollect.stores.sketch import distinct

_LOOKED_UP = 4_000  # places of rare words that choose candidates; those of all words would be too many
_MOST_OF_ONE = 8_000
_PAIRED = 4  # common words, the rarest of them, choose candidates where two stand together
_MOST_LEXEMES = 64  # the rarest of a long question
_CHECKED = 2  # so many times the pool are measured by all words
_TELLING = 20  # records of a sample that must have a word for the sample to tell how common it is
_SATURATION, _LENGTH_SHARE = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class Wording:
    """Rows that may be the best by text, what each word is worth, and how many records have it, about."""

    rows: Rows
    worth: dict[str, float]
    frequencies: dict[str, int]


class ByText:
    """One question's words: rare ones choose records, common ones help to order them."""

    def __init__(self, connection: Connection, *, within: Estimate, everywhere: Estimate) -> None:
        self._connection = connection
        self._within = within
        self._everywhere = everywhere
        self._share = min(1.0, within.total / max(everywhere.total, 1))

    def promising(self, lexemes: Sequence[str], *, limit: int) -> Wording:
        """What rare words, and pairs of common ones, choose; about so many of them are within the filter."""
        ordered = sorted(lexemes, key=self._everywhere.frequency)[:_MOST_LEXEMES]
        rare = ordered[: self._number_of_rare(ordered)]
        common = ordered[len(rare) :][:_PAIRED]
        pairs = list(combinations(common, 2))
        queries = [*map(quoted, rare), *(f"{quoted(one)} & {quoted(two)}" for one, two in pairs)]
        found = looking.postings(self._connection, queries, most=_MOST_OF_ONE)
        known = {lexeme: len(one.rows) for lexeme, one in zip(rare, found, strict=False)}
        frequencies = {lexeme: self._frequency(lexeme, known.get(lexeme)) for lexeme in lexemes}
        worth = {lexeme: self._rarity(frequency) for lexeme, frequency in frequencies.items()}
        rows, promise = self._gathered(
            [(found[place], worth[lexeme]) for place, lexeme in enumerate(rare)],
            [(found[len(rare) + place], worth[one] + worth[two]) for place, (one, two) in enumerate(pairs)],
        )
        wanted = math.ceil(_CHECKED * limit / max(self._share, 0.05))
        best = rows[np.argsort(-promise, kind="stable")[:wanted]]
        return Wording(best, worth, {lexeme: self._told(many) for lexeme, many in frequencies.items()})

    def scores(
        self, wording: Wording, sought: Sequence[str], counts: npt.NDArray[np.int32], lengths: Numbers
    ) -> Numbers:
        """Of records, by which of the words they have: the columns of `counts` are those sought, each counted once."""
        unseen = dict(wording.worth)
        worth = np.array([unseen.pop(lexeme, 0.0) for lexeme in sought])
        said: Numbers = (counts > 0) @ worth
        return said * self._by_length(lengths)

    def _number_of_rare(self, ordered: Sequence[str]) -> int:
        """As far as their places are few together; one at least."""
        places = np.cumsum([self._everywhere.frequency(lexeme) for lexeme in ordered])
        return max(1, int(np.count_nonzero(places <= _LOOKED_UP)))

    def _gathered(
        self, own: Sequence[tuple[Posting, float]], paired: Sequence[tuple[Posting, float]]
    ) -> tuple[Rows, Numbers]:
        """Every row that was found, and what it promises to be worth."""
        everything = [posting for posting, _ in (*own, *paired)]
        rows = distinct(np.concatenate([np.empty(0, np.int64), *(one.rows for one in everything)]))
        lengths, words, together = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows))
        for posting, worth in own:
            place = np.searchsorted(rows, posting.rows)
            lengths[place] = posting.lengths
            words[place] += worth
        for posting, worth in paired:
            place = np.searchsorted(rows, posting.rows)
            lengths[place] = posting.lengths
            together[place] = np.maximum(together[place], worth)
        return rows, (words + together) * self._by_length(lengths)

    def _by_length(self, lengths: Numbers) -> Numbers:
        relative = lengths / max(self._within.average_length, 1.0)
        return 1 / (1 + _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * relative))

    def _rarity(self, frequency: float) -> float:
        return math.log1p((max(self._within.total - frequency, 0.0) + 0.5) / (frequency + 0.5))

    def _frequency(self, lexeme: str, known: int | None) -> float:
        """Within the filter, about. `known` is how many have it anywhere."""
        within = self._within
        if known is None or known >= _MOST_OF_ONE or within.saying.get(lexeme, 0) >= _TELLING:
            return within.frequency(lexeme)
        return known * self._share

    def _told(self, frequency: float) -> int:
        return min(self._within.total, math.ceil(frequency))
