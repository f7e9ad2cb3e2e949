"""Search in the history index: full text by BM25, and vectors by codes in memory."""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mindhold.model.query import Vector
from mindhold.ports.history import PassageMatch
from mindhold.stores.history.connection import lexemes_of
from mindhold.stores.resident_index import ReadWriteLock, best_by_text
from mindhold.stores.vectors import Codes, encode

Rows = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]

_SATURATION, _LENGTH_SHARE = 1.2, 0.75
_MOST_POSTINGS = 4_000_000  # cached postings, 8 bytes each
_LOOKED_AT = 100  # passages that are ranked at least: the first selection counts each word once
_NONE: Rows = np.empty(0, np.int64)

# The last passage in this view of the file, and the number of removals.
STATE = "SELECT removals, (SELECT coalesce(max(row), 0) FROM passage) FROM state"

# Conversation and length of each passage in one string: ten times as fast as one result row each.
NUMBERS = """
    SELECT group_concat(row || ',' || conversation || ',' || length)
    FROM (SELECT row, conversation, length FROM passage WHERE row > ? ORDER BY row)
"""

# The passages with a lexeme, after a given one.
POSTINGS = "SELECT group_concat(rowid) FROM lexeme WHERE lexeme MATCH ? AND rowid > ?"

# The packed text of passages that exist. CROSS JOIN keeps the order of the list.
PACKED = """
    SELECT wording.row, wording.packed
    FROM json_each(?) AS wanted CROSS JOIN wording ON wording.row = wanted.value
"""


@dataclass(frozen=True, slots=True)
class PassageTable:
    """Conversation and length by passage; 0 where there is none."""

    removals: int
    upto: int
    conversations: Numbers
    lengths: Numbers
    total: int
    average: float


@dataclass(frozen=True, slots=True)
class _Posting:
    removals: int
    upto: int
    rows: Rows


_UNKNOWN = PassageTable(-1, 0, np.zeros(1, np.int32), np.zeros(1, np.int32), 0, 0.0)


class HistoryTextSearch:
    """Full-text search for many threads, each with its own connection. Shared values are only replaced as a whole."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known = _UNKNOWN
        self._postings: OrderedDict[str, _Posting] = OrderedDict()
        self._held = 0

    def search(
        self,
        connection: sqlite3.Connection,
        lexemes: Sequence[str],
        *,
        among: Collection[int] | None,
        limit: int,
    ) -> list[PassageMatch]:
        """See HistoryIndex.search; the connection is in a read transaction."""
        searched = [lexeme for lexeme in dict.fromkeys(lexemes) if _is_indexed(lexeme)]
        if not searched or limit < 1 or (among is not None and not among):
            return []
        table = self.known(connection)
        postings = [self._rows(connection, lexeme) for lexeme in searched]
        frequencies = [len(rows) for rows in postings]
        within = [rows[: np.searchsorted(rows, len(table.lengths))] for rows in postings]
        if among is not None:
            admitted = admitted_by(table, among)
            within = [rows[admitted[rows]] for rows in within]
        likely = best_by_text(
            within,
            frequencies=frequencies,
            lengths=table.lengths,
            average_length=table.average,
            total=table.total,
            limit=max(limit, _LOOKED_AT),
        )
        texts = self._lexemes(connection, likely)
        counted = _occurrences(list(texts.values()), searched)
        rows = np.fromiter(texts, np.int64, len(texts))
        scores = _bm25(counted, frequencies=frequencies, lengths=table.lengths[rows], known=table)
        best = np.argsort(-scores, kind="stable")[:limit]
        return [PassageMatch(int(rows[i]), int(table.conversations[rows[i]]), float(scores[i])) for i in best]

    def frequencies(self, connection: sqlite3.Connection, lexemes: Sequence[str]) -> dict[str, int]:
        """See HistoryIndex.frequencies."""
        self.known(connection)
        return {
            lexeme: len(self._rows(connection, lexeme)) if _is_indexed(lexeme) else 0 for lexeme in lexemes
        }

    def known(self, connection: sqlite3.Connection) -> PassageTable:
        """The table of passages, with at least those in the connection's view."""
        removals, upto = connection.execute(STATE).fetchone()
        with self._lock:
            table = self._known
            if table.removals == removals and table.upto >= upto:
                return table
            if table.removals != removals:
                table = _UNKNOWN
                self._postings, self._held = OrderedDict(), 0
            numbers = connection.execute(NUMBERS, (table.upto,)).fetchone()[0]
            self._known = _grown(table, removals, upto, numbers or "")
            return self._known

    def _rows(self, connection: sqlite3.Connection, lexeme: str) -> Rows:
        """The passages with a lexeme, ascending; may include replaced heads."""
        removals, upto = connection.execute(STATE).fetchone()
        posting = self._postings.get(lexeme)
        if posting is None or posting.removals != removals:
            posting = _Posting(removals, 0, _NONE)
        if posting.upto >= upto:
            return posting.rows
        new_rows = connection.execute(POSTINGS, (f'"{lexeme}"', posting.upto)).fetchone()[0]
        rows = posting.rows
        if new_rows:
            rows = np.concatenate([rows, np.fromstring(new_rows, dtype=np.int64, sep=",")])
        self._remember(lexeme, _Posting(removals, upto, rows))
        return rows

    def _remember(self, lexeme: str, posting: _Posting) -> None:
        with self._lock:
            before = self._postings.pop(lexeme, None)
            self._held += len(posting.rows) - (0 if before is None else len(before.rows))
            self._postings[lexeme] = posting
            while self._held > _MOST_POSTINGS and len(self._postings) > 1:
                _, dropped = self._postings.popitem(last=False)
                self._held -= len(dropped.rows)

    def _lexemes(self, connection: sqlite3.Connection, rows: Rows) -> dict[int, str]:
        row_list = f"[{','.join(map(str, rows.tolist()))}]"
        return {row: lexemes_of(packed) for row, packed in connection.execute(PACKED, (row_list,))}


def admitted_by(known: PassageTable, among: Collection[int]) -> npt.NDArray[np.bool_]:
    """By passage: whether it belongs to one of the conversations."""
    is_admitted = np.zeros(int(known.conversations.max(initial=0)) + 1, dtype=np.bool_)
    rows = np.fromiter(among, np.int64, len(among))
    is_admitted[rows[(rows > 0) & (rows < len(is_admitted))]] = True
    return is_admitted[known.conversations]


def _grown(known: PassageTable, removals: int, upto: int, found: str) -> PassageTable:
    columns = np.fromstring(found, dtype=np.int64, sep=",").reshape(-1, 3)
    conversations = np.zeros(upto + 1, np.int32)
    lengths = np.zeros(upto + 1, np.int32)
    conversations[: len(known.conversations)] = known.conversations
    lengths[: len(known.lengths)] = known.lengths
    conversations[columns[:, 0]] = columns[:, 1]
    lengths[columns[:, 0]] = columns[:, 2]
    total = int(np.count_nonzero(conversations))
    return PassageTable(removals, upto, conversations, lengths, total, float(lengths.sum()) / max(total, 1))


def _occurrences(texts: Sequence[str], lexemes: Sequence[str]) -> Numbers:
    """The number of times each lexeme is in each text, which is lexemes joined by blanks."""
    sought = [f" {lexeme} " for lexeme in lexemes]
    counts = np.zeros((len(texts), len(lexemes)), dtype=np.int32)
    for row, text in enumerate(texts):
        # Two blanks between words, or the second of two equal words in a row would not be counted.
        spaced = f" {text.replace(' ', '  ')} "
        counts[row] = [spaced.count(lexeme) for lexeme in sought]
    return counts


def _bm25(
    counts: npt.NDArray[np.int32], *, frequencies: Sequence[int], lengths: Numbers, known: PassageTable
) -> npt.NDArray[np.float64]:
    frequency = np.array(frequencies, dtype=np.float64)
    rarity = np.log(1 + (max(known.total, 1) - frequency + 0.5).clip(0.5) / (frequency + 0.5))
    relative = lengths / max(known.average, 1.0)
    slack = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * relative)[:, np.newaxis]
    scores: npt.NDArray[np.float64] = (rarity * counts * (_SATURATION + 1) / (counts + slack)).sum(axis=1)
    return scores


def _is_indexed(lexeme: str) -> bool:
    """Whether it can be one token of the index; anything else has no matches."""
    return bool(lexeme) and all(c.isalnum() or "\ue000" <= c <= "\uefff" for c in lexeme)


_EXACT_UP_TO = 200_000
_FEWEST = 1024
_LOADED_TOGETHER = 1_000
_SPARE = 64  # replaced heads and last passages still have codes

MODEL = "SELECT number FROM model WHERE name = ?"
NEW_MODEL = "INSERT OR IGNORE INTO model (name) VALUES (?)"

# The vectors of a model after a row.
LOAD = "SELECT row, passage, code FROM vector WHERE row > ? AND model = ? ORDER BY row"

# The last vector in this view, and the number of removals.
VECTOR_STATE = "SELECT removals, (SELECT coalesce(max(row), 0) FROM vector) FROM state"

# Stores a vector if its passage still exists.
PUT = "INSERT OR REPLACE INTO vector (model, passage, code) SELECT ?, row, ? FROM passage WHERE row = ?"

THERE = "SELECT row FROM passage WHERE row IN (SELECT value FROM json_each(?))"


class HistoryVectorSearch:
    """Vector search by the codes of one model, for many threads, each with its own connection."""

    def __init__(self) -> None:
        self._gate = ReadWriteLock()
        self._forget()

    def _forget(self) -> None:
        self._model = 0
        self._removals = self._upto = -1
        self._slots: dict[int, int] = {}
        self._capacity = _FEWEST
        self._passages: npt.NDArray[np.int64] = np.zeros(_FEWEST, np.int64)
        self._codes = Codes(exact_up_to=_EXACT_UP_TO, capacity=_FEWEST)

    def nearest(
        self,
        connection: sqlite3.Connection,
        vector: Vector,
        *,
        model: str,
        among: Collection[int] | None,
        limit: int,
        known: PassageTable,
    ) -> list[PassageMatch]:
        """See HistoryIndex.nearest; `known` has at least the passages in the connection's view."""
        number = connection.execute(MODEL, (model,)).fetchone()
        if number is None or limit < 1 or (among is not None and not among):
            return []
        state = (number[0], *connection.execute(VECTOR_STATE).fetchone())
        with self._gate.looking():
            if self._is_at(*state):
                return self._nearest(connection, vector, among, limit, known)
        with self._gate.changing():
            if not self._is_at(*state):
                self._follow(connection, *state)
            return self._nearest(connection, vector, among, limit, known)

    def _is_at(self, model: int, removals: int, upto: int) -> bool:
        return self._model == model and self._removals == removals and self._upto >= upto

    def _follow(self, connection: sqlite3.Connection, model: int, removals: int, upto: int) -> None:
        if self._model != model or self._removals != removals:
            self._forget()
        cursor = connection.execute(LOAD, (self._upto, model))
        while records := cursor.fetchmany(_LOADED_TOGETHER):
            _, passages, codes = zip(*records, strict=True)
            slots = [self._slots.setdefault(passage, len(self._slots)) for passage in passages]
            if len(self._slots) > self._capacity:
                self._grow(max(len(self._slots), 2 * self._capacity))
            placed = np.array(slots, dtype=np.int64)
            self._passages[placed] = passages
            self._codes.put(placed, codes)
        self._model, self._removals, self._upto = model, removals, upto

    def _grow(self, capacity: int) -> None:
        passages = np.zeros(capacity, np.int64)
        passages[: self._capacity] = self._passages
        self._passages, self._capacity = passages, capacity
        self._codes.grow(capacity)

    def _nearest(
        self,
        connection: sqlite3.Connection,
        vector: Vector,
        among: Collection[int] | None,
        limit: int,
        known: PassageTable,
    ) -> list[PassageMatch]:
        passages = self._passages[: len(self._slots)]
        mask = passages < len(known.conversations)
        if among is not None:
            mask[mask] = admitted_by(known, among)[passages[mask]]
        neighbours = self._codes.nearest(vector, mask, limit + _SPARE)
        rows = passages[neighbours.slots]
        row_list = f"[{','.join(map(str, rows.tolist()))}]"
        existing = {row for (row,) in connection.execute(THERE, (row_list,))}
        matches = [
            PassageMatch(int(row), int(known.conversations[row]), float(cosine))
            for row, cosine in zip(rows, neighbours.cosines, strict=True)
            if int(row) in existing
        ]
        return matches[:limit]


def put_vectors(connection: sqlite3.Connection, vectors: Mapping[int, Vector], *, model: str) -> None:
    """Store vectors within the caller's transaction."""
    connection.execute(NEW_MODEL, (model,))
    (number,) = connection.execute(MODEL, (model,)).fetchone()
    connection.executemany(PUT, [(number, encode(vector)[1], row) for row, vector in vectors.items()])
