"""Which of very many records are worth a look for what they say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from mindhold.model.query import Numbers
from mindhold.stores.postgres import looking
from mindhold.stores.postgres.adapting import quoted
from mindhold.stores.postgres.connection import Connection
from mindhold.stores.postgres.estimates import Estimate
from mindhold.stores.postgres.filters import Condition
from mindhold.stores.postgres.looking import Posting, Rows
from mindhold.stores.sketch import distinct

_LOOKED_UP = 800  # places of words that choose candidates, the rarest words first; all would be too many
_MOST_OF_ONE = 8_000  # where a question has one word alone
_MARGIN, _SPARE = 1.5, 100  # for words that are more common than they seemed
_PAIRED, _IN_THREES = 4, 5  # the rarest words choose candidates where some of them stand together as well
_MOST_TOGETHER = 150
_MOST_LEXEMES = 64  # the rarest of a long question
_CHECKED = 1.5  # so many times the pool are measured by all words
_TELLING = 20  # records of a sample that must have a word for the sample to tell how common it is
_NEARLY_ALL = 0.8
_SATURATION, _LENGTH_SHARE = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class Wording:
    """Rows that may be the best by text, what each word is worth, and how many records have it, about."""

    rows: Rows
    worth: dict[str, float]
    frequencies: dict[str, int]
    found: Sequence[tuple[tuple[str, ...], Posting]]
    unsure: Sequence[tuple[str, ...]]  # words whose places were not looked up, or not all of them
    whole: bool  # whether all rows that were found are among these


class ByText:
    """One question's words: rare ones choose records, common ones help to order them."""

    def __init__(self, connection: Connection, *, within: Estimate, everywhere: Estimate) -> None:
        self._connection = connection
        self._within = within
        self._everywhere = everywhere
        self._share = min(1.0, within.total / max(everywhere.total, 1))

    def promising(self, lexemes: Sequence[str], *, limit: int) -> Wording:
        """What rare words choose, and where some words are too common, pairs of words.

        A record that has several words of a question is among those of its rarest pair; of those that have one alone
        and are many, some are as good as others.
        """
        ordered = sorted(lexemes, key=self._everywhere.frequency)[:_MOST_LEXEMES]
        single = self._shared_out(ordered)
        together: list[tuple[str, ...]] = []
        if len(single) < len(ordered) or sum(single.values()) > _LOOKED_UP:
            together = [*combinations(ordered[:_PAIRED], 2), *combinations(ordered[:_IN_THREES], 3)]
        queries = {quoted(lexeme): most for lexeme, most in single.items()}
        queries |= {" & ".join(map(quoted, words)): _MOST_TOGETHER for words in together}
        found = looking.postings(self._connection, queries)
        known = {
            lexeme: len(posting.rows)
            for (lexeme, most), posting in zip(single.items(), found, strict=False)
            if len(posting.rows) < most
        }
        frequencies = {lexeme: self._frequency(lexeme, known.get(lexeme)) for lexeme in lexemes}
        worth = {lexeme: self._rarity(frequency) for lexeme, frequency in frequencies.items()}
        asked = [*((lexeme,) for lexeme in single), *together]
        rows, promise = self._gathered(list(zip(asked, found, strict=True)), worth)
        wanted = math.ceil(_CHECKED * limit / max(self._share, 0.05))
        best = rows[np.argsort(-promise, kind="stable")[:wanted]]
        cut = [
            words
            for words, most, posting in zip(asked, queries.values(), found, strict=True)
            if len(posting.rows) >= most
        ]
        left_out = [(lexeme,) for lexeme in lexemes if lexeme not in single]
        return Wording(
            best,
            worth,
            self._told(frequencies),
            found=list(zip(asked, found, strict=True)),
            unsure=[*cut, *left_out],
            whole=len(best) == len(rows),
        )

    def again(self, wording: Wording, where: Condition, *, admitted: Rows, limit: int) -> Wording:
        """Where too few of those are within the filter: what the filter leaves of the words that were cut short.

        They may stand behind very many that it does not admit, which takes as long as it takes. `admitted` are those
        of the rows that were known to be within it.
        """
        most = _MOST_OF_ONE if len(wording.worth) == 1 else max(_MOST_TOGETHER, 2 * limit)
        unsure = [words for words in wording.unsure if len(words) < 3]  # where three are, two of them are
        queries = [" & ".join(map(quoted, words)) for words in unsure]
        more = looking.postings_within(self._connection, queries, where, most=most)
        found = [*wording.found, *zip(unsure, more, strict=True)]
        frequencies: dict[str, float] = dict(wording.frequencies)
        for words, posting in zip(unsure, more, strict=True):
            if len(words) == 1 and len(posting.rows) < most:
                frequencies[words[0]] = len(posting.rows)
        worth = {lexeme: self._rarity(frequency) for lexeme, frequency in frequencies.items()}
        rows, promise = self._gathered(found, worth)
        best = rows[np.argsort(-promise, kind="stable")]
        if wording.whole:
            within = distinct(np.concatenate([admitted, *(posting.rows for posting in more)]))
            best = best[looking.within(best, within)][: math.ceil(_CHECKED * limit)]
        return Wording(best, worth, self._told(frequencies), found=found, unsure=(), whole=True)

    def scores(
        self, wording: Wording, sought: Sequence[str], counts: npt.NDArray[np.int32], lengths: Numbers
    ) -> Numbers:
        """Of records, by which of the words they have: the columns of `counts` are those sought, each counted once."""
        unseen = dict(wording.worth)
        worth = np.array([unseen.pop(lexeme, 0.0) for lexeme in sought])
        said: Numbers = (counts > 0) @ worth
        return said * self._by_length(lengths)

    def _shared_out(self, ordered: Sequence[str]) -> dict[str, int]:
        """How many places of which words are looked up: a common word alone chooses nothing."""
        if len(ordered) == 1:
            return {ordered[0]: _MOST_OF_ONE}
        shares: dict[str, int] = {}
        left = _LOOKED_UP
        for lexeme in ordered:
            about = math.ceil(_MARGIN * self._everywhere.frequency(lexeme))
            if shares and about > left:
                break
            shares[lexeme] = min(about, left) + _SPARE
            left -= about
        return shares

    def _gathered(
        self, found: Sequence[tuple[tuple[str, ...], Posting]], worth: dict[str, float]
    ) -> tuple[Rows, Numbers]:
        """Every row that was found, and what the words that it was found by promise."""
        rows = distinct(np.concatenate([np.empty(0, np.int64), *(posting.rows for _, posting in found)]))
        lengths = np.zeros(len(rows))
        has = {lexeme: np.zeros(len(rows), dtype=np.bool_) for words, _ in found for lexeme in words}
        for words, posting in found:
            place = np.searchsorted(rows, posting.rows)
            lengths[place] = posting.lengths
            for lexeme in words:
                has[lexeme][place] = True
        promise = np.zeros(len(rows))
        for lexeme, here in has.items():
            promise += worth[lexeme] * here
        return rows, promise * self._by_length(lengths)

    def _by_length(self, lengths: Numbers) -> Numbers:
        relative = lengths / max(self._within.average_length, 1.0)
        return 1 / (1 + _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * relative))

    def _rarity(self, frequency: float) -> float:
        return math.log1p((max(self._within.total - frequency, 0.0) + 0.5) / (frequency + 0.5))

    def _frequency(self, lexeme: str, known: int | None) -> float:
        """Within the filter, about. `known` is how many have it anywhere."""
        within = self._within
        told = within.saying.get(lexeme, 0) >= _TELLING and self._share < _NEARLY_ALL
        return within.frequency(lexeme) if known is None or told else known * self._share

    def _told(self, frequencies: Mapping[str, float]) -> dict[str, int]:
        return {
            lexeme: min(self._within.total, math.ceil(frequency)) for lexeme, frequency in frequencies.items()
        }
