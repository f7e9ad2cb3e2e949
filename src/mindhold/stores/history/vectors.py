"""Vectors of passages as codes in memory, which follow the file: loaded when they are first asked for."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt

from mindhold.model.query import Vector
from mindhold.ports.history import Match
from mindhold.stores.codes import Codes, encode
from mindhold.stores.gate import Gate
from mindhold.stores.history.search import Known, admitted_by

_EXACT_UP_TO = 200_000
_FEWEST = 1024
_LOADED_TOGETHER = 1_000
_SPARE = 64  # heads and last passages that were replaced are still among the codes

MODEL = "SELECT number FROM model WHERE name = ?"
NEW_MODEL = "INSERT OR IGNORE INTO model (name) VALUES (?)"

# What came after, of a model.
LOAD = "SELECT row, passage, code FROM vector WHERE row > ? AND model = ? ORDER BY row"

# How far vectors go in this view, and how often passages were taken away.
STATE = "SELECT removals, (SELECT coalesce(max(row), 0) FROM vector) FROM state"

# Where a vector may be put: the passage is still there.
PUT = "INSERT OR REPLACE INTO vector (model, passage, code) SELECT ?, row, ? FROM passage WHERE row = ?"

THERE = "SELECT row FROM passage WHERE row IN (SELECT value FROM json_each(?))"


class Nearby:
    """The codes of one model. For many threads, each with its own connection."""

    def __init__(self) -> None:
        self._gate = Gate()
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
        known: Known,
    ) -> list[Match]:
        """See HistoryIndex.nearest; `known` is at least what the connection's view has."""
        number = connection.execute(MODEL, (model,)).fetchone()
        if number is None or limit < 1 or (among is not None and not among):
            return []
        state = (number[0], *connection.execute(STATE).fetchone())
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
        while found := cursor.fetchmany(_LOADED_TOGETHER):
            _, passages, codes = zip(*found, strict=True)
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
        known: Known,
    ) -> list[Match]:
        passages = self._passages[: len(self._slots)]
        mask = passages < len(known.conversations)
        if among is not None:
            mask[mask] = admitted_by(known, among)[passages[mask]]
        found = self._codes.nearest(vector, mask, limit + _SPARE)
        rows = passages[found.slots]
        listed = f"[{','.join(map(str, rows.tolist()))}]"
        there = {row for (row,) in connection.execute(THERE, (listed,))}
        matches = [
            Match(int(row), int(known.conversations[row]), float(cosine))
            for row, cosine in zip(rows, found.cosines, strict=True)
            if int(row) in there
        ]
        return matches[:limit]


def put_vectors(connection: sqlite3.Connection, vectors: Mapping[int, Vector], *, model: str) -> None:
    """Within the caller's transaction."""
    connection.execute(NEW_MODEL, (model,))
    (number,) = connection.execute(MODEL, (model,)).fetchone()
    connection.executemany(PUT, [(number, encode(vector)[1], row) for row, vector in vectors.items()])
