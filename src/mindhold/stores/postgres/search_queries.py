"""The queries of a search, and estimates for filters that admit very many records."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg import sql

from mindhold.model.query import Filter, Vector
from mindhold.stores.postgres.connection import BREADTH_OF_SESSION
from mindhold.stores.postgres.driver import (
    Connection,
    array_text,
    numbers_text,
    quoted,
    unescaped,
    vector_of,
    vector_text,
)
from mindhold.stores.postgres.rows import matching
from mindhold.stores.postgres.upkeep import is_indexed
from mindhold.stores.sql import Condition

Rows = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Cursor = psycopg.Cursor[tuple[Any, ...]]

_NO_ROWS: Rows = np.empty(0, np.int64)
_MOST_BESIDE = 32  # neighbours of one record
_WIDEST = 1_000  # the largest ef_search of pgvector
_MARGIN = 1.25  # factor of the limit, or the last one would make the index continue
_MOST_OF_ALL = 0.5

# The cosine with the query vector; NaN without a vector of its model.
_COSINE = """
    CASE WHEN fragments.embedded_by = %s AND vector_dims(fragments.embedding) = %s
        THEN 1 - (fragments.embedding <=> %s::halfvec) ELSE 'NaN' END
"""

# All records that a filter admits, if they are few.
ADMITTED = """
    SELECT coalesce(array_agg(row), '{{}}'), coalesce(array_agg(length), '{{}}'),
        coalesce(array_agg(cosine), '{{}}')
    FROM (SELECT row, length, ({cosine})::float8 AS cosine FROM fragments WHERE {where} LIMIT %s) AS admitted
"""

# The rows of each lexeme, everywhere or among some rows; row security of `fragments` is applied later.
POSTINGS = """
    SELECT wanted.place, array_agg(found.row), array_agg(found.length)
    FROM unnest(%s::text[], %s::bigint[]) WITH ORDINALITY AS wanted (query, most, place)
    CROSS JOIN LATERAL (
        SELECT row, length FROM fragment_lexemes WHERE lexemes @@ wanted.query::tsquery LIMIT wanted.most
    ) AS found
    GROUP BY wanted.place
"""
POSTINGS_AMONG = """
    WITH few AS MATERIALIZED (
        SELECT row, lexemes FROM fragment_lexemes
        WHERE row = ANY(%s::bigint[]) AND lexemes @@ (array_to_string(%s::text[], '|'))::tsquery
    )
    SELECT wanted.place, array_agg(few.row), '{}'::bigint[]
    FROM unnest(%s::text[]) WITH ORDINALITY AS wanted (query, place)
    JOIN few ON few.lexemes @@ wanted.query::tsquery GROUP BY wanted.place
"""

# The rows of a lexeme, or of several together, within a filter.
POSTINGS_WITHIN = """
    SELECT coalesce(array_agg(row), '{{}}'), coalesce(array_agg(length), '{{}}') FROM (
        SELECT said.row, said.length FROM fragment_lexemes AS said JOIN fragments ON fragments.row = said.row
        WHERE said.lexemes @@ %s::tsquery AND {where} LIMIT %s
    ) AS found
"""

# Details of candidates, column by column: one row of arrays is read much faster than many rows.
_COLUMNS = """
    array_agg(row), array_agg(importance), array_agg(trust), array_agg(uses), array_agg(usefulness),
    array_agg(occurred), array_agg(length), array_agg(place), array_agg(cosine), json_agg(id),
    json_agg(conversation), json_agg(lexemes)
"""
_OF_EACH = """
    fragments.row, fragments.importance, fragments.trust, fragments.access_count::float8 AS uses,
    fragments.usefulness, extract(epoch FROM fragments.occurred_at)::float8 AS occurred, fragments.length::float8 AS length,
    coalesce(fragments.position, -1) AS place, fragments.id, fragments.conversation, fragments.lexemes
"""
DETAILS = f"""
    SELECT {_COLUMNS} FROM (
        SELECT {_OF_EACH}, ({{cosine}})::float8 AS cosine
        FROM fragments WHERE fragments.row = ANY({{rows}}) AND {{where}} ORDER BY fragments.row
    ) AS found HAVING count(*) > 0
"""

# Details of the nearest within a filter, nearest first, by the index of that dimension. The values by which the
# planner chooses the index are literals, so that the plan can be cached.
NEAREST = f"""
    SELECT {_COLUMNS} FROM (
        SELECT near.*, 1 - distance AS cosine
        FROM (
            SELECT {_OF_EACH}, embedding::halfvec({{dimensions}}) AS vector FROM fragments
            WHERE {{where}} AND embedded_by = {{model}} AND embedding IS NOT NULL
        ) AS near CROSS JOIN LATERAL (SELECT vector <=> %s::halfvec({{dimensions}}) AS distance) AS measured
        ORDER BY distance LIMIT {{limit}}
    ) AS found HAVING count(*) > 0
"""

# The rows of the nearest, by comparing all.
SURELY_NEAREST = """
    SELECT coalesce(array_agg(row), '{{}}') FROM (
        SELECT row FROM fragments WHERE {where} AND embedded_by = %s AND vector_dims(embedding) = %s
        ORDER BY embedding <=> %s::halfvec LIMIT %s
    ) AS near
"""

# How far the approximate index looks, if further than usual.
BREADTH = "SELECT set_config('hnsw.ef_search', %s, true)"

# Records up to two positions before and after some records in their conversations.
NEIGHBOURS = """ARRAY(
    SELECT near.row FROM fragments AS best CROSS JOIN LATERAL (
        SELECT row FROM fragments
        WHERE conversation = best.conversation AND position >= 0
            AND position BETWEEN best.position - 2 AND best.position + 2 LIMIT {most}
    ) AS near
    WHERE best.row = ANY(%s::bigint[]) AND best.conversation IS NOT NULL AND best.position >= 0
)"""


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """A query vector in the form that statements take."""

    model: str
    dimensions: int
    text: str
    vector: Vector

    @classmethod
    def of(cls, vector: Vector, model: str) -> VectorQuery:
        flat = np.asarray(vector, dtype=np.float32).ravel()
        return cls(model, len(flat), vector_text(flat), flat)

    @property
    def parameters(self) -> tuple[Any, ...]:
        """The parameters of _COSINE."""
        return (self.model, self.dimensions, self.text)


@dataclass(frozen=True, slots=True)
class AdmittedRows:
    """The records that a filter admits, few enough to list, ordered by row."""

    rows: Rows
    lengths: Rows
    cosines: Reals


@dataclass(frozen=True, slots=True)
class Details:
    """Details of candidates, column by column."""

    rows: Rows
    importance: Reals
    trust: Reals
    uses: Reals
    usefulness: Reals
    occurred: Reals
    lengths: Reals
    positions: Rows
    cosines: Reals
    ids: list[str]
    conversations: list[str | None]
    lexemes: list[str]

    def __len__(self) -> int:
        return len(self.ids)

    def only(self, chosen: npt.NDArray[np.int64]) -> Details:
        """The details at these indices."""
        columns: list[Any] = [getattr(self, name)[chosen] for name in _ARRAYS]
        columns += [[getattr(self, name)[place] for place in chosen.tolist()] for name in _LISTS]
        return Details(*columns)

    def joined(self, other: Details) -> Details:
        """These details, followed by the others that are not among them."""
        more = other.only(np.flatnonzero(~within(other.rows, self.rows)))
        if not len(more):
            return self
        if not len(self):
            return more
        columns: list[Any] = [np.concatenate([getattr(self, name), getattr(more, name)]) for name in _ARRAYS]
        columns += [getattr(self, name) + getattr(more, name) for name in _LISTS]
        return Details(*columns)


_ARRAYS = ("rows", "importance", "trust", "uses", "usefulness", "occurred", "lengths", "positions", "cosines")
_LISTS = ("ids", "conversations", "lexemes")
PLAIN_DETAILS = (*_ARRAYS[1:], "ids")  # those that Candidates have as they are
_NO_REALS: Reals = np.empty(0)
_EMPTY: list[Any] = [_NO_ROWS, *[_NO_REALS] * 6, _NO_ROWS, _NO_REALS, [], [], []]
NOTHING = Details(*_EMPTY)


def within(rows: Rows, others: Rows) -> npt.NDArray[np.bool_]:
    """Which of the rows are among the others. Faster than NumPy's own function, which first chooses a method."""
    if not len(others):
        return np.zeros(len(rows), dtype=np.bool_)
    ordered = np.sort(others)
    contained: npt.NDArray[np.bool_] = ordered[np.searchsorted(ordered[1:], rows, side="right")] == rows
    return contained


@dataclass(frozen=True, slots=True)
class Posting:
    """The rows of a lexeme."""

    rows: Rows
    lengths: Rows


def _cosine(question: VectorQuery | None) -> Condition:
    return Condition("'NaN'::float8") if question is None else Condition(_COSINE, question.parameters)


def admitted(
    connection: Connection, where: Condition, question: VectorQuery | None, *, most: int
) -> AdmittedRows | None:
    """The records that the filter admits; None if there are more than `most`."""
    measure = _cosine(question)
    rows, lengths, cosines = _planned(
        connection,
        ADMITTED.format(cosine=measure.sql, where=where.sql),
        (*measure.parameters, *where.parameters, most + 1),
    )
    if len(rows) > most:
        return None
    order = np.argsort(rows)
    return AdmittedRows(rows[order], lengths[order], cosines[order])


def postings(connection: Connection, queries: Mapping[str, int]) -> list[Posting]:
    """The rows of each query (a lexeme or several), each with its own limit."""
    if not queries:
        return []
    most = np.array(list(queries.values()), dtype=np.int64)
    return _postings(connection, POSTINGS, (array_text(queries), numbers_text(most)), len(queries))


def postings_among(connection: Connection, lexemes: Sequence[str], rows: Rows) -> list[Posting]:
    """The same among some rows only, without lengths."""
    if not lexemes:
        return []
    queries = [quoted(lexeme) for lexeme in lexemes]
    return _postings(connection, POSTINGS_AMONG, (numbers_text(rows), queries, queries), len(queries))


def postings_within(
    connection: Connection, queries: Sequence[str], where: Condition, *, most: int
) -> list[Posting]:
    """At most `most` rows of each query that the filter admits; slower than postings()."""
    statement = POSTINGS_WITHIN.format(where=where.sql)
    cursors = [
        connection.cursor(binary=True).execute(statement, (query, *where.parameters, most), prepare=False)
        for query in queries
    ]
    return [Posting(*cursor.fetchall()[0]) for cursor in cursors]


def ask_nearest(
    connection: Connection, where: Condition, question: VectorQuery, *, limit: int, share: float
) -> Cursor:
    """Query the approximate index. The caller can send other queries before it reads the answer.

    `share` is the part of all records that the filter admits: if it is small, another plan may be better.
    """
    widen(connection, limit, share=share)
    statement = NEAREST.format(
        where=where.sql,
        model=sql.Literal(question.model).as_string(connection).replace("%", "%%"),
        dimensions=question.dimensions,
        limit=limit,
    )
    narrow = False if share < _MOST_OF_ALL else None
    values = (*where.parameters, question.text)
    return connection.cursor(binary=True).execute(statement, values, prepare=narrow)


def surely_nearest(connection: Connection, where: Condition, question: VectorQuery, *, limit: int) -> Rows:
    """The nearest by comparing all, because an approximate index may stop before a filter is satisfied."""
    values = (*where.parameters, *question.parameters, limit)
    rows: Rows = _planned(connection, SURELY_NEAREST.format(where=where.sql), values)[0]
    return rows


def widen(connection: Connection, limit: int, *, share: float) -> None:
    """Make the approximate index look far enough in this transaction that the filter leaves enough."""
    breadth = min(_WIDEST, math.ceil(_MARGIN * limit / max(share, _MOST_OF_ALL)))
    if breadth > BREADTH_OF_SESSION:
        connection.execute(BREADTH, (str(breadth),))


def details(connection: Connection, rows: Rows, where: Condition, question: VectorQuery | None) -> Details:
    """Details of the rows that the filter admits, ordered by row."""
    return fetch_details(ask_details(connection, rows, where, question)) if len(rows) else NOTHING


def ask_details(
    connection: Connection,
    rows: Rows,
    where: Condition,
    question: VectorQuery | None,
    *,
    source: str = "%s::bigint[]",
) -> Cursor:
    """Query details; the caller can send other queries before it reads the answer.

    `source` is an expression of the rows to describe, in which `rows` are the parameter.
    """
    measure = _cosine(question)
    statement = DETAILS.format(cosine=measure.sql, rows=source, where=where.sql)
    values = (*measure.parameters, numbers_text(rows), *where.parameters)
    return connection.cursor(binary=True).execute(statement, values)


def fetch_details(asked: Cursor) -> Details:
    """The answer of ask_details() or ask_nearest()."""
    rows = asked.fetchall()
    if not rows:
        return NOTHING
    details = Details(*rows[0])  # texts inside JSON are still escaped
    return replace(
        details, ids=list(map(unescaped, details.ids)), lexemes=list(map(unescaped, details.lexemes))
    )


def neighbour_details(
    connection: Connection, best: Rows, where: Condition, question: VectorQuery | None
) -> Details:
    """Details of the neighbours of these rows in their conversations."""
    if not len(best):
        return NOTHING
    source = NEIGHBOURS.format(most=_MOST_BESIDE)
    return fetch_details(ask_details(connection, best, where, question, source=source))


def _postings(connection: Connection, statement: str, values: tuple[Any, ...], number: int) -> list[Posting]:
    """The postings of that many queries in their order; a query without rows is absent in the answer."""
    postings = [Posting(_NO_ROWS, _NO_ROWS)] * number
    for place, rows, lengths in connection.cursor(binary=True).execute(statement, values).fetchall():
        postings[place - 1] = Posting(rows, lengths)
    return postings


def _planned(connection: Connection, statement: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """One row, by a plan for these very values: most filters admit nearly everything, some very little."""
    return connection.cursor(binary=True).execute(statement, values, prepare=False).fetchall()[0]


EXACT_UP_TO = 5_000  # records: beyond it statistics are estimated and vectors found by the approximate index

_SAMPLE = 2_000
_SAMPLED_VECTORS = 500
_MOST_KNOWN = 64
_FRESH_SECONDS = 60.0
_CHANGED_SHARE = 0.05  # share of changed records after which a new sample is drawn
_NARROW = 0.2  # share of all records below which the sample is drawn from the filter's index

# The number of records that a filter admits, and of those with a vector of a model.
TOTALS = """
    SELECT count(*), coalesce(avg(length), 0)::float8, count(*) FILTER (WHERE embedded_by = %s),
        (SELECT coalesce(max(row), 0) FROM fragments)
    FROM fragments WHERE {where}
"""

# Whether there are more than a limit.
MANY = "SELECT count(*) FROM (SELECT 1 FROM fragments WHERE {where} LIMIT %s) AS counted"

# Lexemes and vectors of a sample: of random pages, or of every n-th row.
SAYING = "SELECT lexemes FROM fragments {pages} WHERE {where}"
MEANING = """
    SELECT embedding FROM fragments {pages} WHERE {where} AND embedded_by = %s AND vector_dims(embedding) = %s
"""
PAGES = "TABLESAMPLE SYSTEM ({share})"
ONE_IN = "fragments.row %% {step} = 0 AND "

# Lexemes of all records, whoever may see them.
ALL_SAYING = "SELECT tsvector_to_array(lexemes) FROM fragment_lexemes TABLESAMPLE SYSTEM ({share})"
ALL_SPAN = "SELECT coalesce(max(row), 0) FROM fragment_lexemes"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated statistics of the records that a filter admits."""

    total: int
    average_length: float
    embedded: int
    sampled: int
    saying: Mapping[str, int]  # number of sampled records that have a lexeme
    vectors: npt.NDArray[np.float32]
    indexed: bool = False  # whether the model's vectors have an approximate index

    def frequency(self, lexeme: str) -> float:
        """The approximate number of records with the lexeme; half a sampled record if none has it."""
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
    changes: int  # number of changes seen by then


class Estimates:
    """A cache of estimates by filter and model. Thread-safe."""

    def __init__(self, *, exact_up_to: int) -> None:
        self.exact_up_to = exact_up_to
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, _Known] = OrderedDict()
        self._drawing: set[Hashable] = set()
        self._changes = 0

    def changed(self, records: int) -> None:
        """Note that records were changed, here or elsewhere."""
        with self._lock:
            self._changes += records

    def forget(self) -> None:
        """Drop all estimates."""
        with self._lock:
            self._known.clear()

    def known(self, connection: Connection, where: Filter, question: VectorQuery | None) -> Estimate | None:
        """The cached estimate, renewed if it is old; None if this filter isn't known to admit many records."""
        key = _key(where, question)
        with self._lock:
            cached = self._known.get(key)
            if cached is None:
                return None
            self._known.move_to_end(key)
        if _coarse(where) != where and not self._admits_many(connection, where):
            return None
        with self._lock:
            if self._is_fresh(cached) or key in self._drawing:
                return cached.estimate
            self._drawing.add(key)  # others use the old one meanwhile
        try:
            return self.draw(connection, where, question)
        finally:
            with self._lock:
                self._drawing.discard(key)

    def _admits_many(self, connection: Connection, where: Filter) -> bool:
        """Whether this very filter admits many: one of the same hour that was checked before may admit much more."""
        condition = matching(where)
        values = (*condition.parameters, self.exact_up_to + 1)
        counts = connection.execute(MANY.format(where=condition.sql), values, prepare=False).fetchall()
        return bool(counts[0][0] > self.exact_up_to)

    def draw(self, connection: Connection, where: Filter, question: VectorQuery | None) -> Estimate | None:
        """A new estimate; None if the filter admits so few records that nothing needs estimating."""
        condition = matching(where)
        model = None if question is None else question.model
        totals = TOTALS.format(where=condition.sql)
        total, average, embedded, span = connection.execute(
            totals, (model, *condition.parameters), prepare=False
        ).fetchall()[0]
        key = _key(where, question)
        if total <= self.exact_up_to:
            with self._lock:
                self._known.pop(key, None)
            return None
        texts = _sampled(connection, SAYING, condition, (), wanted=_SAMPLE, of=total, span=span)
        vectors: list[Any] = []
        indexed = False
        if question is not None:
            indexed = is_indexed(connection, question.model, question.dimensions)
            if embedded:
                own = (question.model, question.dimensions)
                vectors = _sampled(
                    connection, MEANING, condition, own, wanted=_SAMPLED_VECTORS, of=embedded, span=span
                )
        saying = Counter(lexeme for text in texts for lexeme in set(text.split()))
        matrix = np.array([vector_of(bytes(data)) for data in vectors], dtype=np.float32)
        estimate = Estimate(total, average, embedded, len(texts), saying, matrix, indexed)
        self._keep(key, estimate)
        return estimate

    def everybody(self, connection: Connection) -> Estimate:
        """The frequencies of lexemes in all records, whatever the filter: they tell the cost of looking up a word."""
        with self._lock:
            cached = self._known.get("everybody")
            if cached is not None and self._is_fresh(cached):
                return cached.estimate
        span = int(connection.execute(ALL_SPAN).fetchall()[0][0])
        share = min(100.0, 100.0 * _SAMPLE / max(span, 1))
        rows = connection.execute(ALL_SAYING.format(share=share)).fetchall()
        saying = Counter(lexeme for (lexemes,) in rows for lexeme in lexemes)
        estimate = Estimate(span, 0.0, 0, len(rows), saying, np.empty((0, 0), np.float32))
        self._keep("everybody", estimate)
        return estimate

    def _keep(self, key: Hashable, estimate: Estimate) -> None:
        with self._lock:
            self._known[key] = _Known(estimate, time.monotonic(), self._changes)
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)

    def _is_fresh(self, known: _Known) -> bool:
        changed = self._changes - known.changes
        return (
            time.monotonic() - known.drawn < _FRESH_SECONDS
            and changed <= _CHANGED_SHARE * known.estimate.total
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
    """A sample of about `wanted` admitted records."""
    share = min(1.0, wanted / max(of, 1))
    if of < _NARROW * span:
        step = max(1, round(1 / share))
        text = query.format(pages="", where=ONE_IN.format(step=step) + condition.sql)
    else:
        text = query.format(pages=PAGES.format(share=100 * share), where=condition.sql)
    cursor = connection.cursor(binary=True)
    cursor.execute(text, (*condition.parameters, *own), prepare=False)
    return [row[0] for row in cursor.fetchall()]


def _key(where: Filter, question: VectorQuery | None) -> Hashable:
    return _coarse(where), question and (question.model, question.dimensions)


def _coarse(where: Filter) -> Filter:
    """The filter with times rounded to the hour, or every query about the last week would need a new estimate."""
    return replace(where, since=_hour(where.since), until=_hour(where.until))


def _hour(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(minute=0, second=0, microsecond=0)
