"""What is known of a filter that admits very many records: how many, how long they are, what they say and mean.

Counting all of it for each question would cost more than answering. A sample tells the statistics that a ranking needs
well enough; which records are candidates is always found out anew.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from mindhold.model.query import Filter, Vector
from mindhold.stores.postgres.adapting import vector_of
from mindhold.stores.postgres.connection import Connection
from mindhold.stores.postgres.filters import Condition, matching
from mindhold.stores.postgres.vector_indexes import is_indexed

EXACT_UP_TO = 5_000  # records: beyond it statistics are estimated and vectors found by the approximate index

_SAMPLE = 2_000
_SAMPLED_VECTORS = 500
_MOST_KNOWN = 64
_FRESH_SECONDS = 60.0
_CHANGED_SHARE = 0.05  # of the records, after which a sample is drawn anew
_NARROW = 0.2  # share of all records beneath which a sample is drawn from what the filter's index finds

# All that a filter admits, and how many of them have a vector of a model.
TOTALS = """
    SELECT count(*), coalesce(avg(length), 0)::float8, count(*) FILTER (WHERE embedded_by = %s),
        (SELECT coalesce(max(row), 0) FROM fragments)
    FROM fragments WHERE {where}
"""

# Whether they are more than so many.
MANY = "SELECT count(*) FROM (SELECT 1 FROM fragments WHERE {where} LIMIT %s) AS counted"

# What some of them say and mean: of whole pages chosen by chance, or of one row in so many.
SAYING = "SELECT lexemes FROM fragments {pages} WHERE {where}"
MEANING = """
    SELECT embedding FROM fragments {pages} WHERE {where} AND embedded_by = %s AND vector_dims(embedding) = %s
"""
PAGES = "TABLESAMPLE SYSTEM ({share})"
ONE_IN = "fragments.row %% {step} = 0 AND "

# What all records say, whoever may see them.
ALL_SAYING = "SELECT tsvector_to_array(lexemes) FROM fragment_lexemes TABLESAMPLE SYSTEM ({share})"
ALL_SPAN = "SELECT coalesce(max(row), 0) FROM fragment_lexemes"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Of the records that a filter admits."""

    total: int
    average_length: float
    embedded: int
    sampled: int
    saying: Mapping[str, int]  # how many of the sampled have a lexeme
    vectors: npt.NDArray[np.float32]
    indexed: bool = False  # whether the model's vectors have an approximate index

    def frequency(self, lexeme: str) -> float:
        """How many have the lexeme, about; half a record of the sample where none has it."""
        return max(self.saying.get(lexeme, 0), 0.5) / max(self.sampled, 1) * self.total

    def spread(self, vector: Vector) -> tuple[float, float]:
        """Mean and deviation of the cosines with all of them."""
        if not len(self.vectors):
            return 0.0, 0.0
        cosines = self.vectors @ (vector / max(float(np.linalg.norm(vector)), 1e-12))
        return float(cosines.mean()), float(cosines.std())


@dataclass(frozen=True, slots=True)
class _Known:
    estimate: Estimate
    drawn: float
    changes: int  # that had been seen by then


class Estimates:
    """Kept for a while, for each filter and model. Safe for threads."""

    def __init__(
        self, *, exact_up_to: int = EXACT_UP_TO, timer: Callable[[], float] = time.monotonic
    ) -> None:
        self.exact_up_to = exact_up_to
        self._timer = timer
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, _Known] = OrderedDict()
        self._drawing: set[Hashable] = set()
        self._changes = 0

    def changed(self, records: int) -> None:
        """So many were changed, here or elsewhere."""
        with self._lock:
            self._changes += records

    def forget(self) -> None:
        """Nothing is known any more."""
        with self._lock:
            self._known.clear()

    def known(
        self, connection: Connection, where: Filter, *, model: str | None, dimensions: int
    ) -> Estimate | None:
        """What was drawn before, drawn anew if it is old; None if this filter was never found to admit many."""
        key = (_coarse(where), model, dimensions)
        with self._lock:
            known = self._known.get(key)
            if known is None:
                return None
            self._known.move_to_end(key)
        if _coarse(where) != where and not self._admits_many(connection, where):
            return None
        with self._lock:
            if self._is_fresh(known) or key in self._drawing:
                return known.estimate
            self._drawing.add(key)  # others go on with the old one meanwhile
        try:
            return self.draw(connection, where, model=model, dimensions=dimensions)
        finally:
            with self._lock:
                self._drawing.discard(key)

    def _admits_many(self, connection: Connection, where: Filter) -> bool:
        """This very filter: one of the same hour that was looked at before may admit much more."""
        condition = matching(where)
        values = (*condition.parameters, self.exact_up_to + 1)
        found = connection.execute(MANY.format(where=condition.sql), values, prepare=False).fetchall()
        return bool(found[0][0] > self.exact_up_to)

    def draw(
        self, connection: Connection, where: Filter, *, model: str | None, dimensions: int
    ) -> Estimate | None:
        """Look at the records; None if there are so few that nothing has to be estimated."""
        condition = matching(where)
        totals = TOTALS.format(where=condition.sql)
        total, average, embedded, span = connection.execute(
            totals, (model, *condition.parameters), prepare=False
        ).fetchall()[0]
        key = (_coarse(where), model, dimensions)
        if total <= self.exact_up_to:
            with self._lock:
                self._known.pop(key, None)
            return None
        texts = _sampled(connection, SAYING, condition, (), wanted=_SAMPLE, of=total, span=span)
        vectors: list[Any] = []
        if model is not None and embedded:
            own = (model, dimensions)
            vectors = _sampled(
                connection, MEANING, condition, own, wanted=_SAMPLED_VECTORS, of=embedded, span=span
            )
        saying = Counter(lexeme for text in texts for lexeme in set(text.split()))
        matrix = np.array([vector_of(bytes(data)) for data in vectors], dtype=np.float32)
        estimate = Estimate(
            total, average, embedded, len(texts), saying, matrix, is_indexed(connection, model, dimensions)
        )
        self._keep(key, estimate)
        return estimate

    def everybody(self, connection: Connection) -> Estimate:
        """What all records say, whatever the filter: it tells how much it costs to look a word up."""
        with self._lock:
            known = self._known.get("everybody")
            if known is not None and self._is_fresh(known):
                return known.estimate
        span = int(connection.execute(ALL_SPAN).fetchall()[0][0])
        share = min(100.0, 100.0 * _SAMPLE / max(span, 1))
        rows = connection.execute(ALL_SAYING.format(share=share)).fetchall()
        saying = Counter(lexeme for (lexemes,) in rows for lexeme in lexemes)
        estimate = Estimate(span, 0.0, 0, len(rows), saying, np.empty((0, 0), np.float32))
        self._keep("everybody", estimate)
        return estimate

    def _keep(self, key: Hashable, estimate: Estimate) -> None:
        with self._lock:
            self._known[key] = _Known(estimate, self._timer(), self._changes)
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)

    def _is_fresh(self, known: _Known) -> bool:
        changed = self._changes - known.changes
        return (
            self._timer() - known.drawn < _FRESH_SECONDS and changed <= _CHANGED_SHARE * known.estimate.total
        )


def _sampled(
    connection: Connection,
    query: str,
    condition: Condition,
    own: tuple[Any, ...],
    *,
    wanted: int,
    of: int,
    span: int,
) -> list[Any]:
    """About so many of the admitted ones."""
    share = min(1.0, wanted / max(of, 1))
    if of < _NARROW * span:
        step = max(1, round(1 / share))
        text = query.format(pages="", where=ONE_IN.format(step=step) + condition.sql)
    else:
        text = query.format(pages=PAGES.format(share=100 * share), where=condition.sql)
    cursor = connection.cursor(binary=True)
    cursor.execute(text, (*condition.parameters, *own), prepare=False)
    return [row[0] for row in cursor.fetchall()]


def _coarse(where: Filter) -> Filter:
    """To the hour, or every question about the last week would be a new one."""
    return replace(where, since=_hour(where.since), until=_hour(where.until))


def _hour(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(minute=0, second=0, microsecond=0)
