"""Search: full text by FTS5, vectors by codes in memory that follow the file, both within the filter."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from recollect.model.memory import Memory
from recollect.model.query import Candidates, Filter, Neighbour, Numbers, Search, Vector
from recollect.stores.lexical import best_by_text, occurrences
from recollect.stores.resident import decode, exact_cosines
from recollect.stores.sketch import Slots, distinct
from recollect.stores.sqlite.changes import next_revision, set_vectors
from recollect.stores.sqlite.connection import Part
from recollect.stores.sqlite.filters import as_list
from recollect.stores.sqlite.live import LiveIndex, Rows
from recollect.stores.sqlite.rows import SELECTED, memory_of

_LEADING = 4  # one in so many of the pool, the best ones, bring their neighbours
_SAMPLE = 10  # one in so many of the driving words' limit must be within reach to estimate from
_MARGIN = 1.25  # how many more than asked are rescored, for codes are not exact

# What is not kept in memory of candidates. CROSS JOIN keeps the order of the list.
DETAILS = """
    SELECT memory.row, memory.id, memory.importance, memory.trust, memory.uses, memory.occurred / 1e6, memory.length,
        memory.conversation, ifnull(memory.position, -1), memory.lexemes
    FROM json_each(?) AS wanted CROSS JOIN memory ON memory.row = wanted.value
"""

# Exact vectors of a model.
EXACT = """
    SELECT vector.row, vector.exact
    FROM json_each(?) AS wanted CROSS JOIN vector ON vector.row = wanted.value AND vector.model = ?
"""

# Ids of rows.
IDS = (
    "SELECT memory.row, memory.id FROM json_each(?) AS wanted CROSS JOIN memory ON memory.row = wanted.value"
)

# Records that have no vector of a model: three ranges of an index, each left as soon as there are enough.
UNEMBEDDED = f"""
    SELECT {SELECTED} FROM memory WHERE memory.row IN (
        SELECT row FROM memory WHERE embedded_by IS NULL AND status <> 'forgotten'
        UNION ALL SELECT row FROM memory WHERE embedded_by < ?1 AND status <> 'forgotten'
        UNION ALL SELECT row FROM memory WHERE embedded_by > ?1 AND status <> 'forgotten'
        LIMIT ?2
    )
"""

# Where a vector may be put: the record still says what the vector was made of.
UNCHANGED = "SELECT row FROM memory WHERE id = ? AND content_hash = ?"

# Say which model embedded a record.
EMBEDDED = "UPDATE memory SET embedded_by = ?, revision = ? WHERE row = ?"

# Exact vectors by id.
EXACT_BY_ID = """
    SELECT memory.id, vector.exact
    FROM json_each(?) AS wanted CROSS JOIN memory ON memory.id = wanted.value
        CROSS JOIN vector ON vector.row = memory.row AND vector.model = ?
"""


class IndexPart(Part):
    """The index of the store. Its work is done in the threads that read."""

    _live: LiveIndex

    async def search(self, search: Search) -> Candidates:
        model = search.model if search.vector is not None else None

        def work(connection: sqlite3.Connection) -> Candidates:
            return self._live.following(
                connection, model, lambda: _Searching(self._live, connection, search).candidates()
            )

        return await self._database.read(work)

    async def nearest(
        self, vectors: Sequence[Vector], *, model: str, where: Filter, limit: int
    ) -> list[list[Neighbour]]:
        def work(connection: sqlite3.Connection) -> list[list[Neighbour]]:
            return self._live.following(
                connection, model, lambda: nearest(self._live, connection, vectors, where=where, limit=limit)
            )

        return await self._database.read(work)

    async def unembedded(self, model: str, *, limit: int) -> list[Memory]:
        return await self._database.read(
            lambda connection: [memory_of(row) for row in connection.execute(UNEMBEDDED, (model, limit))]
        )

    async def put_vectors(self, vectors: Mapping[str, tuple[str, Vector]], *, model: str) -> int:
        return await self._database.write(lambda connection: write_vectors(connection, vectors, model=model))

    async def vector_of(self, ids: Sequence[str], *, model: str) -> dict[str, Vector]:
        return await self._database.read(
            lambda connection: {
                memory_id: decode(exact)
                for memory_id, exact in connection.execute(EXACT_BY_ID, (as_list(ids), model))
            }
        )


def write_vectors(
    connection: sqlite3.Connection, vectors: Mapping[str, tuple[str, Vector]], *, model: str
) -> int:
    """Within the caller's transaction; see Index.put_vectors."""
    found: list[tuple[int, str, Any]] = []
    for memory_id, (content_hash, vector) in vectors.items():
        row = connection.execute(UNCHANGED, (memory_id, content_hash)).fetchone()
        if row is not None:
            found.append((row[0], model, vector))
    if found:
        revision = next_revision(connection)
        set_vectors(connection, found)
        connection.executemany(EMBEDDED, [(model, revision, row) for row, _, _ in found])
    return len(found)


def nearest(
    live: LiveIndex, connection: sqlite3.Connection, vectors: Sequence[Vector], *, where: Filter, limit: int
) -> list[list[Neighbour]]:
    """While the index follows the connection; see Index.nearest."""
    resident = live.resident
    found = resident.nearest_each(vectors, live.reach(connection, where), _with_margin(limit))
    rows = resident.rows(distinct(np.concatenate([np.empty(0, np.int64), *(one.slots for one in found)])))
    exact = dict(connection.execute(EXACT, (_as_numbers(rows), resident.model)))
    ids = dict(connection.execute(IDS, (_as_numbers(rows),)))
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


class _Searching:
    """One search, while the index follows the connection."""

    def __init__(self, live: LiveIndex, connection: sqlite3.Connection, search: Search) -> None:
        self._live = live
        self._resident = live.resident
        self._connection = connection
        self._search = search
        self._reach = live.reach(connection, search.filter)
        self._average = self._resident.average_length(self._reach)

    def candidates(self) -> Candidates:
        search, resident = self._search, self._resident
        text, near = self._by_text(), None
        leading = -(-search.pool // _LEADING)
        slots, best = np.sort(text.best), text.best[:leading]
        cosines = np.full(len(slots), np.nan)
        if search.vector is not None and search.model is not None:
            near = resident.nearest(search.vector, self._reach, _with_margin(search.pool))
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
        most = self._live.driving if len(self._resident) > 2 * self._live.driving else None
        found = {lexeme: self._within(lexeme, most) for lexeme in lexemes}
        whole = [within.slots for within in found.values() if within.whole]
        if len(whole) < len(found) and self._fewer_than_asked(whole):
            found = {lexeme: self._within(lexeme, None) for lexeme in lexemes}
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

    def _within(self, lexeme: str, most: int | None) -> _Within:
        """Where a lexeme is within reach: looked for in the oldest records alone, if `most` of them have it."""
        rows = self._live.postings(self._connection, lexeme, most=most)
        slots = self._resident.slots(rows)
        slots = slots[slots >= 0]
        within = slots[self._reach.mask[slots]]
        if most is None or len(rows) < most:
            return _Within(within, True, len(within))
        looked_at = int(np.count_nonzero(self._reach.mask[: int(slots.max(initial=-1)) + 1]))
        if looked_at < max(1, most // _SAMPLE):  # too few to tell the share of the rest
            return self._within(lexeme, None)
        return _Within(within, False, max(1, round(len(within) / looked_at * self._reach.total)))

    def _fewer_than_asked(self, postings: Sequence[Slots]) -> bool:
        """Whether these words alone leave room among the candidates."""
        if sum(map(len, postings)) < self._search.pool:
            return True
        return int(np.count_nonzero(self._among(np.concatenate(postings)))) < self._search.pool

    def _cosines(self, slots: Slots) -> Numbers:
        """Exact ones; NaN where there is no vector of the model."""
        cosines = np.full(len(slots), np.nan)
        rows = self._resident.rows(slots)
        found = self._connection.execute(EXACT, (_as_numbers(rows), self._search.model)).fetchall()
        if found and self._search.vector is not None:
            having = np.isin(rows, [row for row, _ in found]) if len(found) < len(rows) else slice(None)
            cosines[having] = exact_cosines(self._search.vector, [exact for _, exact in found])
        return cosines

    def _details(self, slots: Slots, cosines: Numbers, text: _Text) -> dict[str, Any]:
        rows = self._resident.rows(slots)
        found = self._connection.execute(DETAILS, (_as_numbers(rows),)).fetchall()
        columns = list(zip(*found, strict=True)) or [()] * 10
        if len(found) < len(slots):  # deleted behind our back
            there = np.isin(rows, columns[0])
            slots, cosines = slots[there], cosines[there]
        numbers = [np.array(column, dtype=np.float64) for column in columns[2:7]]
        return {
            "ids": list(columns[1]),
            "counts": self._counts(slots, columns[9], text),
            "cosines": cosines,
            **dict(zip(("importance", "trust", "uses", "occurred", "lengths"), numbers, strict=True)),
            "conversations": list(columns[7]),
            "positions": np.array(columns[8], dtype=np.int64),
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


def _as_numbers(rows: Rows) -> str:
    """For json_each()."""
    return f"[{','.join(map(str, rows.tolist()))}]"
