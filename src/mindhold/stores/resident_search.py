"""One search over the in-memory index: the best records by text and by vector, with the details that ranking needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mindhold.model.query import Candidates, Neighbour, Numbers, Search, Vector
from mindhold.stores.resident_index import AdmittedSlots, ResidentIndex
from mindhold.stores.vectors import NearestCodes, Slots, distinct, exact_cosines

_SATURATION, _LENGTH_SHARE = 1.2, 0.75


def best_by_text(
    postings: Sequence[Slots],
    *,
    frequencies: Sequence[int],
    lengths: npt.NDArray[np.int32],
    average_length: float,
    total: int,
    limit: int,
) -> Slots:
    """The slots with the highest BM25, each word counted once; a ranking counts them properly afterwards.

    `postings` are the slots within reach that have each word.
    """
    scores = np.zeros(len(lengths), dtype=np.float32)
    for slots, frequency in zip(postings, frequencies, strict=True):
        rarity = math.log(1 + (total - frequency + 0.5) / (frequency + 0.5)) if frequency else 0.0
        relative = lengths[slots] / max(average_length, 1.0)
        scores[slots] += rarity / (1 + _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * relative))
    found = np.flatnonzero(scores)
    if limit < 1:
        return found[:0]
    if len(found) > limit:
        found = found[np.argpartition(scores[found], len(found) - limit)[len(found) - limit :]]
    return found[np.argsort(-scores[found], kind="stable")]


def occurrences(texts: Mapping[int, str], lexemes: Sequence[str], *, rows: int) -> npt.NDArray[np.int32]:
    """How often each lexeme is in the texts, which are lexemes joined by blanks; `texts` by the row of the result."""
    counts = np.zeros((rows, len(lexemes)), dtype=np.int32)
    sought = [f" {lexeme} " for lexeme in lexemes]
    for row, text in texts.items():
        # Two blanks between words, or of two equal words in a row the second would not be seen.
        spaced = f" {text.replace(' ', '  ')} "
        counts[row] = [spaced.count(lexeme) for lexeme in sought]
    counts[:, [not lexeme for lexeme in lexemes]] = 0
    return counts


Rows = npt.NDArray[np.int64]

DRIVING = 50_000  # records: a word that more have chooses no candidates where rarer ones find enough

_LEADING = 4  # one in so many of the pool, the best ones, bring their neighbours
_SAMPLE = 10  # one in so many of the driving words' limit must be within reach to estimate from
_MARGIN = 1.25  # how many more than asked are rescored, for codes are not exact

# Row, id, importance, trust, uses, usefulness, time in seconds, length, conversation, position or -1, lexemes joined by blanks.
_NUMBERS = ("importance", "trust", "uses", "usefulness", "occurred", "lengths")
Detail = tuple[int, str, float, float, int, float, float, int, str | None, int, str]


class SearchSource(Protocol):
    """What a store reads for one search."""

    def postings(self, lexemes: Sequence[str], *, most: int | None) -> Mapping[str, Rows]:
        """The rows that have each lexeme, ascending; no more than the first `most`."""

    def exact(self, rows: Rows) -> list[tuple[int, bytes]]:
        """Exact vectors of the search's model, as encode() gave them, in the order of the rows that have one."""

    def details(self, rows: Rows) -> list[Detail]:
        """In the order of the rows; what is gone is left out."""

    def ids(self, rows: Rows) -> dict[int, str]:
        """By row."""

    def near(self, vectors: Sequence[Vector], reach: AdmittedSlots, limit: int) -> list[NearestCodes]:
        """For each vector the nearest, by code or by the store's own index; they are rescored."""


def nearest(
    source: SearchSource,
    resident: ResidentIndex,
    vectors: Sequence[Vector],
    *,
    reach: AdmittedSlots,
    limit: int,
) -> list[list[Neighbour]]:
    """See Index.nearest."""
    found = source.near(vectors, reach, _with_margin(limit))
    rows = resident.rows(distinct(np.concatenate([np.empty(0, np.int64), *(one.slots for one in found)])))
    exact, ids = dict(source.exact(rows)), source.ids(rows)
    answers = []
    for vector, one in zip(vectors, found, strict=True):
        here = [row for row in resident.rows(one.slots).tolist() if row in exact and row in ids]
        cosines = exact_cosines(vector, [exact[row] for row in here])
        best = np.argsort(-cosines, kind="stable")[:limit].tolist()
        answers.append([Neighbour(ids[here[index]], float(cosines[index])) for index in best])
    return answers


@dataclass(frozen=True, slots=True)
class _Text:
    """What full text found."""

    postings: dict[str, Slots]  # within reach, by lexeme
    whole: bool  # False where a common word's postings were cut
    frequencies: dict[str, int]
    best: Slots


@dataclass(frozen=True, slots=True)
class _Within:
    """Where a lexeme is within reach."""

    slots: Slots
    whole: bool  # False where only the oldest records were looked at
    frequency: int


class ResidentSearch:
    """One search. A word that `driving` records have is a common one."""

    def __init__(
        self,
        source: SearchSource,
        resident: ResidentIndex,
        search: Search,
        *,
        reach: AdmittedSlots,
        driving: int,
    ) -> None:
        self._source = source
        self._resident = resident
        self._search = search
        self._reach = reach
        self._driving = driving
        self._average = resident.average_length(reach)

    def candidates(self) -> Candidates:
        search, resident = self._search, self._resident
        text, near = self._by_text(), None
        leading = -(-search.pool // _LEADING)
        slots, best = np.sort(text.best), text.best[:leading]
        cosines = np.full(len(slots), np.nan)
        if search.vector is not None and search.model is not None:
            near = self._source.near([search.vector], self._reach, _with_margin(search.pool))[0]
            slots = distinct(np.concatenate([near.slots, text.best]))
            cosines = self._cosines(slots)
            dense = near.slots[np.argsort(-cosines[np.searchsorted(slots, near.slots)], kind="stable")]
            kept = self._among(np.concatenate([text.best, dense[: search.pool]]))[slots]
            slots, cosines = slots[kept], cosines[kept]
            best = np.concatenate([best, dense[:leading]])
        if search.neighbours:
            beside = distinct(resident.beside(best, self._reach))
            beside = beside[~self._among(slots)[beside]]
            more = np.full(len(beside), np.nan) if near is None else self._cosines(beside)
            slots, cosines = np.concatenate([slots, beside]), np.concatenate([cosines, more])
        return Candidates(
            **self._details(slots, cosines, text),
            total=self._reach.total,
            average_length=self._average,
            frequencies=text.frequencies,
            cosine_mean=0.0 if near is None else near.mean,
            cosine_deviation=0.0 if near is None else near.deviation,
            embedded=0 if near is None else near.embedded,
            exact=near is None or near.exact,
        )

    def _among(self, slots: Slots) -> npt.NDArray[np.bool_]:
        """A mask over all slots: quicker than comparing two lists of them."""
        mask = np.zeros(len(self._resident.lengths), dtype=np.bool_)
        mask[slots] = True
        return mask

    def _by_text(self) -> _Text:
        lexemes = tuple(dict.fromkeys(self._search.lexemes))
        most = self._driving if len(self._resident) > 2 * self._driving else None
        found = self._within(lexemes, most)
        whole = [within.slots for within in found.values() if within.whole]
        if len(whole) < len(found) and self._fewer_than_asked(whole):
            found = self._within(lexemes, None)
        postings = {lexeme: within.slots for lexeme, within in found.items()}
        frequencies = {lexeme: within.frequency for lexeme, within in found.items()}
        driving = [lexeme for lexeme in lexemes if found[lexeme].whole]
        best = best_by_text(
            [postings[lexeme] for lexeme in driving],
            frequencies=[frequencies[lexeme] for lexeme in driving],
            lengths=self._resident.lengths,
            average_length=self._average,
            total=self._reach.total,
            limit=self._search.pool,
        )
        return _Text(postings, len(driving) == len(lexemes), frequencies, best)

    def _within(self, lexemes: Sequence[str], most: int | None) -> dict[str, _Within]:
        """Where lexemes are within reach: looked for in the oldest records alone, if `most` of them have one."""
        found: dict[str, _Within] = {}
        for lexeme, rows in self._source.postings(lexemes, most=most).items():
            slots = self._resident.slots(rows)
            slots = slots[slots >= 0]
            within = slots[self._reach.mask[slots]]
            if most is None or len(rows) < most:
                found[lexeme] = _Within(within, True, len(within))
                continue
            looked_at = int(np.count_nonzero(self._reach.mask[: int(slots.max(initial=-1)) + 1]))
            if looked_at < max(1, most // _SAMPLE):  # too few to tell the share of the rest
                found |= self._within([lexeme], None)
            else:
                frequency = max(1, round(len(within) / looked_at * self._reach.total))
                found[lexeme] = _Within(within, False, frequency)
        return found

    def _fewer_than_asked(self, postings: Sequence[Slots]) -> bool:
        """Whether these words alone leave room among the candidates."""
        if sum(map(len, postings)) < self._search.pool:
            return True
        return int(np.count_nonzero(self._among(np.concatenate(postings)))) < self._search.pool

    def _cosines(self, slots: Slots) -> Numbers:
        """Exact ones; NaN where there is no vector of the model."""
        cosines = np.full(len(slots), np.nan)
        rows = self._resident.rows(slots)
        found = self._source.exact(rows)
        if found and self._search.vector is not None:
            having = np.isin(rows, [row for row, _ in found]) if len(found) < len(rows) else slice(None)
            cosines[having] = exact_cosines(self._search.vector, [exact for _, exact in found])
        return cosines

    def _details(self, slots: Slots, cosines: Numbers, text: _Text) -> dict[str, Any]:
        rows = self._resident.rows(slots)
        found = self._source.details(rows)
        columns: list[tuple[Any, ...]] = list(zip(*found, strict=True)) or [()] * 11
        if len(found) < len(slots):  # deleted behind our back
            there = np.isin(rows, columns[0])
            slots, cosines = slots[there], cosines[there]
        numbers = [np.array(column, dtype=np.float64) for column in columns[2:8]]
        return {
            "ids": list(columns[1]),
            "counts": self._counts(slots, columns[10], text),
            "cosines": cosines,
            **dict(zip(_NUMBERS, numbers, strict=True)),
            "conversations": list(columns[8]),
            "positions": np.array(columns[9], dtype=np.int64),
        }

    def _counts(self, slots: Slots, texts: Sequence[str], text: _Text) -> npt.NDArray[np.int32]:
        if text.whole:
            saying = np.zeros(len(self._resident.lengths), dtype=np.bool_)
            for postings in text.postings.values():
                saying[postings] = True
            told = {index: texts[index] for index in np.flatnonzero(saying[slots]).tolist()}
        else:
            told = dict(enumerate(texts))
        return occurrences(told, self._search.lexemes, rows=len(slots))


def _with_margin(limit: int) -> int:
    return int(limit * _MARGIN) + 16
