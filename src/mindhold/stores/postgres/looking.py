"""What one search asks the server, each question once, in as few journeys as may be."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg import sql

from mindhold.model.query import Vector
from mindhold.stores.postgres.adapting import array_text, numbers_text, quoted, unescaped, vector_text
from mindhold.stores.postgres.connection import Connection
from mindhold.stores.postgres.filters import Condition
from mindhold.stores.postgres.session import BREADTH_OF_SESSION

Rows = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Cursor = psycopg.Cursor[tuple[Any, ...]]

_NO_ROWS: Rows = np.empty(0, np.int64)
_MOST_BESIDE = 32  # at the places around one record
_WIDEST = 1_000  # what pgvector lets a search remember at most
_MARGIN = 1.25  # more than asked, or the last one would set the index looking on
_MOST_OF_ALL = 0.5

# The cosine with the question; what has no vector of its model has none.
_COSINE = """
    CASE WHEN {table}.embedded_by = %s AND vector_dims({table}.embedding) = %s
        THEN 1 - ({table}.embedding <=> %s::halfvec) ELSE 'NaN' END
"""

# All that a filter admits, as long as they are few.
ADMITTED = """
    SELECT coalesce(array_agg(row), '{{}}'), coalesce(array_agg(length), '{{}}'),
        coalesce(array_agg(cosine), '{{}}')
    FROM (SELECT row, length, ({cosine})::float8 AS cosine FROM fragments WHERE {where} LIMIT %s) AS admitted
"""

# Where each of some lexemes is, everywhere or among some rows; the row security of `fragments` comes later.
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

# Where a lexeme, or several together, is within a filter.
POSTINGS_WITHIN = """
    SELECT coalesce(array_agg(row), '{{}}'), coalesce(array_agg(length), '{{}}') FROM (
        SELECT said.row, said.length FROM fragment_lexemes AS said JOIN fragments ON fragments.row = said.row
        WHERE said.lexemes @@ %s::tsquery AND {where} LIMIT %s
    ) AS found
"""

# Everything about candidates, column by column: one row of arrays is read much quicker than many rows.
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

# The same of the nearest within a filter, nearest first, by the index of that dimension. What the planner chooses the
# index by is written out, so that a plan may be kept.
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

# The rows of the nearest, found by comparing all.
SURELY_NEAREST = """
    SELECT coalesce(array_agg(row), '{{}}') FROM (
        SELECT row FROM fragments WHERE {where} AND embedded_by = %s AND vector_dims(embedding) = %s
        ORDER BY embedding <=> %s::halfvec LIMIT %s
    ) AS near
"""

# How far the approximate index looks, where that is further than usual.
BREADTH = "SELECT set_config('hnsw.ef_search', %s, true)"

# What stands up to two places before and after some records in their conversations.
BESIDE = """ARRAY(
    SELECT near.row FROM fragments AS best CROSS JOIN LATERAL (
        SELECT row FROM fragments
        WHERE conversation = best.conversation AND position >= 0
            AND position BETWEEN best.position - 2 AND best.position + 2 LIMIT {most}
    ) AS near
    WHERE best.row = ANY(%s::bigint[]) AND best.conversation IS NOT NULL AND best.position >= 0
)"""


@dataclass(frozen=True, slots=True)
class Question:
    """A vector, as statements take it."""

    model: str
    dimensions: int
    text: str
    vector: Vector

    @classmethod
    def of(cls, vector: Vector, model: str) -> Question:
        flat = np.asarray(vector, dtype=np.float32).ravel()
        return cls(model, len(flat), vector_text(flat), flat)

    @property
    def parameters(self) -> tuple[Any, ...]:
        """Of _COSINE."""
        return (self.model, self.dimensions, self.text)


@dataclass(frozen=True, slots=True)
class Admitted:
    """Few enough to be known one by one, in order of row."""

    rows: Rows
    lengths: Rows
    cosines: Reals


@dataclass(frozen=True, slots=True)
class Details:
    """All that is told of candidates, column by column."""

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
        """Those at these places."""
        columns: list[Any] = [getattr(self, name)[chosen] for name in _ARRAYS]
        columns += [[getattr(self, name)[place] for place in chosen.tolist()] for name in _LISTS]
        return Details(*columns)

    def joined(self, other: Details) -> Details:
        """These, then the others that are not among them."""
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
_NO_REALS: Reals = np.empty(0)
NOTHING = Details(
    rows=_NO_ROWS,
    importance=_NO_REALS,
    trust=_NO_REALS,
    uses=_NO_REALS,
    usefulness=_NO_REALS,
    occurred=_NO_REALS,
    lengths=_NO_REALS,
    positions=_NO_ROWS,
    cosines=_NO_REALS,
    ids=[],
    conversations=[],
    lexemes=[],
)


def within(rows: Rows, others: Rows) -> npt.NDArray[np.bool_]:
    """Which of the rows are among the others. NumPy's own looks for the best way longer than this takes."""
    if not len(others):
        return np.zeros(len(rows), dtype=np.bool_)
    ordered = np.sort(others)
    found: npt.NDArray[np.bool_] = ordered[np.searchsorted(ordered[1:], rows, side="right")] == rows
    return found


@dataclass(frozen=True, slots=True)
class Posting:
    """Where a lexeme is."""

    rows: Rows
    lengths: Rows


def cosine(question: Question | None, table: str = "fragments") -> Condition:
    if question is None:
        return Condition("'NaN'::float8", ())
    return Condition(_COSINE.format(table=table), question.parameters)


def admitted(
    connection: Connection, where: Condition, question: Question | None, *, most: int
) -> Admitted | None:
    """None if there are more."""
    measure = cosine(question)
    rows, lengths, cosines = _planned(
        connection,
        ADMITTED.format(cosine=measure.sql, where=where.sql),
        (*measure.parameters, *where.parameters, most + 1),
    )
    if len(rows) > most:
        return None
    order = np.argsort(rows)
    return Admitted(rows[order], lengths[order], cosines[order])


def postings(connection: Connection, queries: Mapping[str, int]) -> list[Posting]:
    """Of each query, which is a lexeme or several, no more rows than it says."""
    if not queries:
        return []
    most = np.array(list(queries.values()), dtype=np.int64)
    found = _binary(connection, POSTINGS, (array_text(queries), numbers_text(most)))
    return _in_places(found, len(queries))


def postings_among(connection: Connection, lexemes: Sequence[str], rows: Rows) -> list[Posting]:
    """The same, of some rows alone; lengths are left out."""
    if not lexemes:
        return []
    queries = [quoted(lexeme) for lexeme in lexemes]
    found = _binary(connection, POSTINGS_AMONG, (numbers_text(rows), queries, queries))
    return _in_places(found, len(queries))


def postings_within(
    connection: Connection, queries: Sequence[str], where: Condition, *, most: int
) -> list[Posting]:
    """Of each query no more than so many rows, all of which the filter admits; slower than postings()."""
    statement = POSTINGS_WITHIN.format(where=where.sql)
    asked = [
        connection.cursor(binary=True).execute(statement, (query, *where.parameters, most), prepare=False)
        for query in queries
    ]
    return [Posting(*cursor.fetchall()[0]) for cursor in asked]


def ask_nearest(
    connection: Connection, where: Condition, question: Question, *, limit: int, share: float
) -> Cursor:
    """By the approximate index. The answer is on its way while other things are asked.

    `share` says how many of all records the filter admits: where they are few, another plan may be better.
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


def surely_nearest(connection: Connection, where: Condition, question: Question, *, limit: int) -> Rows:
    """By comparing all of them, for an approximate index may give up before a filter is satisfied."""
    values = (*where.parameters, *question.parameters, limit)
    rows: Rows = _planned(connection, SURELY_NEAREST.format(where=where.sql), values)[0]
    return rows


def widen(connection: Connection, limit: int, *, share: float) -> None:
    """For this transaction, so far that what the filter leaves of it is enough."""
    breadth = min(_WIDEST, math.ceil(_MARGIN * limit / max(share, _MOST_OF_ALL)))
    if breadth > BREADTH_OF_SESSION:
        connection.execute(BREADTH, (str(breadth),))


def details(connection: Connection, rows: Rows, where: Condition, question: Question | None) -> Details:
    """Of those that the filter admits, in order of row."""
    return told_details(ask_details(connection, rows, where, question)) if len(rows) else NOTHING


def ask_details(connection: Connection, rows: Rows, where: Condition, question: Question | None) -> Cursor:
    """The same, while other things are asked."""
    return _ask_details(connection, "%s::bigint[]", rows, where, question)


def told_details(asked: Cursor) -> Details:
    """What ask_details() or ask_nearest() asked for."""
    found = asked.fetchall()
    if not found:
        return NOTHING
    told = Details(*found[0])  # texts in JSON are as the database keeps them
    return replace(
        told, ids=[unescaped(one) for one in told.ids], lexemes=[unescaped(one) for one in told.lexemes]
    )


def beside(connection: Connection, best: Rows, where: Condition, question: Question | None) -> Details:
    """The same of what stands beside these in their conversations."""
    if not len(best):
        return NOTHING
    return told_details(_ask_details(connection, BESIDE.format(most=_MOST_BESIDE), best, where, question))


def _ask_details(
    connection: Connection, source: str, rows: Rows, where: Condition, question: Question | None
) -> Cursor:
    measure = cosine(question)
    statement = DETAILS.format(cosine=measure.sql, rows=source, where=where.sql)
    values = (*measure.parameters, numbers_text(rows), *where.parameters)
    return connection.cursor(binary=True).execute(statement, values)


def _in_places(found: list[tuple[Any, ...]], number: int) -> list[Posting]:
    postings = [Posting(_NO_ROWS, _NO_ROWS)] * number
    for place, rows, lengths in found:
        postings[place - 1] = Posting(rows, lengths)
    return postings


def _binary(connection: Connection, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return connection.cursor(binary=True).execute(statement, values).fetchall()


def _planned(connection: Connection, statement: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """One row, by a plan for these very values: most filters admit nearly everything, some very little."""
    return connection.cursor(binary=True).execute(statement, values, prepare=False).fetchall()[0]
