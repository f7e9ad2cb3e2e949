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
    """The slots with the highest BM25 score, counting each word once; ranking counts them exactly afterwards.

    `postings` are the admitted slots that have each word.
    """
    scores = np.zeros(len(lengths), dtype=np.float32)
    for slots, frequency in zip(postings, frequencies, strict=True):
        rarity = math.log(1 + (total - frequency + 0.5) / (frequency + 0.5)) if frequency else 0.0
        relative = lengths[slots] / max(average_length, 1.0)
        scores[slots] += rarity / (1 + _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * relative))
    matches = np.flatnonzero(scores)
    if limit < 1:
        return matches[:0]
    if len(matches) > limit:
        matches = matches[np.argpartition(scores[matches], len(matches) - limit)[len(matches) - limit :]]
    return matches[np.argsort(-scores[matches], kind="stable")]


def occurrences(texts: Mapping[int, str], lexemes: Sequence[str], *, rows: int) -> npt.NDArray[np.int32]:
    """The number of times each lexeme is in the texts, which are lexemes joined by blanks; `texts` is by row of the result."""
    counts = np.zeros((rows, len(lexemes)), dtype=np.int32)
    sought = [f" {lexeme} " for lexeme in lexemes]
    for row, text in texts.items():
        # Two blanks between words, or the second of two equal words in a row would not be counted.
        spaced = f" {text.replace(' ', '  ')} "
        counts[row] = [spaced.count(lexeme) for lexeme in sought]
    counts[:, [not lexeme for lexeme in lexemes]] = 0
    return counts


Rows = npt.NDArray[np.int64]

DRIVING = 50_000  # records: a word in more of them chooses no candidates if rarer words find enough

_LEADING = 4  # the best 1/n of the pool add their neighbours
_SAMPLE = 10  # 1/n of the limit must be admitted to estimate from
_MARGIN = 1.25  # factor of candidates to rescore, because codes are not exact

# Row, id, importance, trust, uses, usefulness, time in seconds, length, conversation, position or -1, lexemes joined by blanks.
_NUMBERS = ("importance", "trust", "uses", "usefulness", "occurred", "lengths")
Detail = tuple[int, str, float, float, int, float, float, int, str | None, int, str]


class SearchSource(Protocol):
    """What a search reads from a store."""

    def postings(self, lexemes: Sequence[str], *, most: int | None) -> Mapping[str, Rows]:
        """The rows that have each lexeme, ascending, at most `most`."""

    def exact(self, rows: Rows) -> list[tuple[int, bytes]]:
        """Exact vectors of the search's model, as encode() returned them, in the order of the rows; rows without one are absent."""

    def details(self, rows: Rows) -> list[Detail]:
        """Details in the order of the rows; missing rows are absent."""

    def ids(self, rows: Rows) -> dict[int, str]:
        """Ids by row."""

    def near(self, vectors: Sequence[Vector], reach: AdmittedSlots, limit: int) -> list[NearestCodes]:
        """The nearest slots of each vector, by code or by the store's own index; they are rescored."""


def nearest(
    source: SearchSource,
    resident: ResidentIndex,
    vectors: Sequence[Vector],
    *,
    reach: AdmittedSlots,
    limit: int,
) -> list[list[Neighbour]]:
    """Implements RecordSearch.nearest."""
    matches = source.near(vectors, reach, _with_margin(limit))
    rows = resident.rows(
        distinct(np.concatenate([np.empty(0, np.int64), *(match.slots for match in matches)]))
    )
    exact, ids = dict(source.exact(rows)), source.ids(rows)
    answers = []
    for vector, match in zip(vectors, matches, strict=True):
        match_rows = [row for row in resident.rows(match.slots).tolist() if row in exact and row in ids]
        cosines = exact_cosines(vector, [exact[row] for row in match_rows])
        best = np.argsort(-cosines, kind="stable")[:limit].tolist()
        answers.append([Neighbour(ids[match_rows[index]], float(cosines[index])) for index in best])
    return answers


@dataclass(frozen=True, slots=True)
class _Text:
    """The result of full-text search."""

    postings: dict[str, Slots]  # admitted slots by lexeme
    whole: bool  # False if a common word's postings were cut
    frequencies: dict[str, int]
    best: Slots


@dataclass(frozen=True, slots=True)
class _Within:
    """The admitted slots that have a lexeme."""

    slots: Slots
    whole: bool  # False if only the oldest records were read
    frequency: int


class ResidentSearch:
    """One search. A word that more than `driving` records have counts as common."""

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
            chosen = self._among(np.concatenate([text.best, dense[: search.pool]]))[slots]
            slots, cosines = slots[chosen], cosines[chosen]
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
        """A mask over all slots, which is faster than comparing two lists."""
        mask = np.zeros(len(self._resident.lengths), dtype=np.bool_)
        mask[slots] = True
        return mask

    def _by_text(self) -> _Text:
        lexemes = tuple(dict.fromkeys(self._search.lexemes))
        most = self._driving if len(self._resident) > 2 * self._driving else None
        matches = self._within(lexemes, most)
        whole = [within.slots for within in matches.values() if within.whole]
        if len(whole) < len(matches) and self._fewer_than_asked(whole):
            matches = self._within(lexemes, None)
        postings = {lexeme: within.slots for lexeme, within in matches.items()}
        frequencies = {lexeme: within.frequency for lexeme, within in matches.items()}
        driving = [lexeme for lexeme in lexemes if matches[lexeme].whole]
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
        """The admitted slots of each lexeme; a lexeme in `most` records or more is read from the oldest records only."""
        matches: dict[str, _Within] = {}
        for lexeme, rows in self._source.postings(lexemes, most=most).items():
            slots = self._resident.slots(rows)
            slots = slots[slots >= 0]
            within = slots[self._reach.mask[slots]]
            if most is None or len(rows) < most:
                matches[lexeme] = _Within(within, True, len(within))
                continue
            looked_at = int(np.count_nonzero(self._reach.mask[: int(slots.max(initial=-1)) + 1]))
            if looked_at < max(1, most // _SAMPLE):  # too few to estimate the share in the rest
                matches |= self._within([lexeme], None)
            else:
                frequency = max(1, round(len(within) / looked_at * self._reach.total))
                matches[lexeme] = _Within(within, False, frequency)
        return matches

    def _fewer_than_asked(self, postings: Sequence[Slots]) -> bool:
        """Whether these words alone find fewer candidates than the search asks for."""
        if sum(map(len, postings)) < self._search.pool:
            return True
        return int(np.count_nonzero(self._among(np.concatenate(postings)))) < self._search.pool

    def _cosines(self, slots: Slots) -> Numbers:
        """Exact cosines; NaN without a vector of the model."""
        cosines = np.full(len(slots), np.nan)
        rows = self._resident.rows(slots)
        vectors = self._source.exact(rows)
        if vectors and self._search.vector is not None:
            having = np.isin(rows, [row for row, _ in vectors]) if len(vectors) < len(rows) else slice(None)
            cosines[having] = exact_cosines(self._search.vector, [exact for _, exact in vectors])
        return cosines

    def _details(self, slots: Slots, cosines: Numbers, text: _Text) -> dict[str, Any]:
        rows = self._resident.rows(slots)
        details = self._source.details(rows)
        columns: list[tuple[Any, ...]] = list(zip(*details, strict=True)) or [()] * 11
        if len(details) < len(slots):  # deleted by another process meanwhile
            present = np.isin(rows, columns[0])
            slots, cosines = slots[present], cosines[present]
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
            matching_texts = {index: texts[index] for index in np.flatnonzero(saying[slots]).tolist()}
        else:
            matching_texts = dict(enumerate(texts))
        return occurrences(matching_texts, self._search.lexemes, rows=len(slots))


def _with_margin(limit: int) -> int:
    return int(limit * _MARGIN) + 16
