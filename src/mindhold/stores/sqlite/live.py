"""The index in memory, kept where the file is."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from mindhold.model.query import Filter
from mindhold.stores.gate import Gate
from mindhold.stores.resident import EXACT_UP_TO, Batch, Reach, Resident
from mindhold.stores.searching import DRIVING, Rows
from mindhold.stores.sqlite.filters import as_list, matching

T = TypeVar("T")

_LOADED_TOGETHER = 1_000
_MOST_POSTINGS = 2_000_000  # kept from one search to the next, 8 bytes each

# How far the records have changed.
REVISION = "SELECT value FROM counter WHERE name = 'revision'"

# What is kept in memory of records.
_COLUMNS = """
    SELECT memory.row, memory.scope, memory.agent, memory.kind, memory.status, memory.occurred / 1e6, memory.trust,
        memory.length, memory.conversation, memory.position, vector_code.code
    FROM memory LEFT JOIN vector_code ON vector_code.row = memory.row AND vector_code.model = ?
"""
LOAD = f"{_COLUMNS} ORDER BY memory.row"
# The plus has the planner look up the revisions rather than go through all rows in order.
LOAD_CHANGED = f"{_COLUMNS} WHERE memory.revision > ? ORDER BY +memory.row"

# Not less than how many there are.
LAST_ROW = "SELECT max(row) FROM memory"

# The codes of a model.
LOAD_CODES = "SELECT row, code FROM vector_code WHERE model = ? ORDER BY row"

# Records that were erased.
ERASED = "SELECT row FROM tombstone WHERE revision > ?"

# The rows of scopes by their names.
SCOPE_ROWS = "SELECT row FROM scope WHERE name IN (SELECT value FROM json_each(?))"

# The rows that have a lexeme, in one string: a tenth of the time that one result a row takes.
POSTINGS = "SELECT group_concat(rowid) FROM lexeme WHERE lexeme MATCH ?"
FIRST_POSTINGS = "SELECT group_concat(rowid) FROM (SELECT rowid FROM lexeme WHERE lexeme MATCH ? LIMIT ?)"


class LiveIndex:
    """For many threads, each with its own connection."""

    def __init__(self, *, exact_up_to: int = EXACT_UP_TO, driving: int = DRIVING) -> None:
        self._exact_up_to = exact_up_to
        self.driving = driving
        self._gate = Gate()
        self._postings: OrderedDict[str, Rows] = OrderedDict()
        self._postings_held = 0
        self.resident = Resident(exact_up_to=exact_up_to)

    def following(self, connection: sqlite3.Connection, model: str | None, work: Callable[[], T]) -> T:
        """Do the work while the index is where the connection's view of the file is.

        The connection is in a read transaction that has read nothing yet: its view is taken inside the gate, so it
        is never older than what another thread has put into the index.
        """
        with self._gate.looking():
            revision = connection.execute(REVISION).fetchone()[0]
            if revision == self.resident.revision and model in (None, self.resident.model):
                return work()
        with self._gate.changing():
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.execute("BEGIN")
            try:
                self._refresh(connection, model)
            except BaseException:
                self.resident = Resident(
                    exact_up_to=self._exact_up_to
                )  # half of a refresh is worse than none
                raise
            return work()

    def reach(self, connection: sqlite3.Connection, where: Filter) -> Reach:
        """Which records the filter admits."""
        scopes = rows = None
        if where.scopes:
            scopes = [row for (row,) in connection.execute(SCOPE_ROWS, (as_list(where.scopes),))]
        stated = (where.topic, where.conversation, where.positions)
        listed = where.tags or where.keywords or where.ids or where.anchored or where.tiers
        tended = where.due or where.changed or where.unverified or where.unexamined or where.turns
        if listed or tended or any(condition is not None for condition in stated):
            admitted = matching(where)
            found = connection.execute(f"SELECT row FROM memory WHERE {admitted.sql}", admitted.parameters)
            rows = [row for (row,) in found]
        return self.resident.reach(where, scopes=scopes, rows=rows)

    def postings(self, connection: sqlite3.Connection, lexeme: str, *, most: int | None) -> Rows:
        """The rows that have a lexeme, ascending; no more than the first `most`."""
        known = self._postings.get(lexeme)
        if known is not None:
            return known[:most]  # the answer is the same whether they are known or not
        if not _is_indexed(lexeme):
            return np.empty(0, np.int64)
        if most is None:
            found = connection.execute(POSTINGS, (f'"{lexeme}"',)).fetchone()[0]
        else:
            found = connection.execute(FIRST_POSTINGS, (f'"{lexeme}"', most)).fetchone()[0]
        rows = np.fromstring(found, dtype=np.int64, sep=",") if found else np.empty(0, np.int64)
        if most is None or len(rows) < most:
            self._remember(lexeme, rows)
        return rows

    def _refresh(self, connection: sqlite3.Connection, model: str | None) -> None:
        revision = connection.execute(REVISION).fetchone()[0]
        if revision < self.resident.revision:  # another file was put in the place of the one we knew
            self.resident = Resident(exact_up_to=self._exact_up_to)
        resident = self.resident
        if revision != resident.revision or not len(resident):
            self._postings, self._postings_held = OrderedDict(), 0
        if not len(resident):
            resident.forget_codes(model or resident.model)
            resident.reserve(connection.execute(LAST_ROW).fetchone()[0] or 0)
            self._load(connection.execute(LOAD, (resident.model,)))
        elif revision != resident.revision:
            self._load(connection.execute(LOAD_CHANGED, (resident.model, resident.revision)))
            resident.remove(row for (row,) in connection.execute(ERASED, (resident.revision,)))
        if model is not None and model != resident.model:
            resident.forget_codes(model)
            cursor = connection.execute(LOAD_CODES, (model,))
            while found := cursor.fetchmany(_LOADED_TOGETHER):
                rows, codes = zip(*found, strict=True)
                resident.put_codes(rows, codes)
        resident.settle(revision)

    def _load(self, cursor: sqlite3.Cursor) -> None:
        while found := cursor.fetchmany(_LOADED_TOGETHER):
            self.resident.put(Batch(*zip(*found, strict=True)))

    def _remember(self, lexeme: str, rows: Rows) -> None:
        # Readers share this: each step is one operation of the dictionary, and the sum need only be about right.
        self._postings[lexeme] = rows
        self._postings_held += len(rows)
        while self._postings_held > _MOST_POSTINGS and len(self._postings) > 1:
            _, dropped = self._postings.popitem(last=False)
            self._postings_held -= len(dropped)


def _is_indexed(lexeme: str) -> bool:
    """Whether it can be one token of the index; anything else is found nowhere."""
    return bool(lexeme) and all(c.isalnum() or "\ue000" <= c <= "\uefff" for c in lexeme)
