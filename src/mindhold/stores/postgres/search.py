"""Search: full text by a GIN index, vectors by pgvector, both within the filter; and storing vectors."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from mindhold.model.query import Candidates, Filter, Neighbour, Numbers, Search, Vector
from mindhold.stores.postgres import search_queries
from mindhold.stores.postgres.connection import PostgresPart
from mindhold.stores.postgres.driver import Connection, quoted, unescaped, vector_of, vector_text
from mindhold.stores.postgres.rows import matching
from mindhold.stores.postgres.search_queries import (
    AdmittedRows,
    Details,
    Estimate,
    Estimates,
    Posting,
    Rows,
    VectorQuery,
)
from mindhold.stores.resident_index import best_by_text
from mindhold.stores.sql import Condition
from mindhold.stores.vectors import distinct

_LOOKED_UP = 800  # postings of words that choose candidates, rarest words first; all would be too many
_MOST_OF_ONE = 8_000  # postings for a query of one word
_MARGIN, _SPARE = 1.5, 100  # for words that are more common than estimated
_PAIRED, _IN_THREES = 4, 5  # the rarest words also choose candidates in pairs and in threes
_MOST_TOGETHER = 150
_MOST_LEXEMES = 64  # the rarest of a long query
_CHECKED = 1.5  # factor of the pool that is scored by all words
_TELLING = 20  # sampled records that must have a word for a usable estimate of its frequency
_NEARLY_ALL = 0.8
_SATURATION, _LENGTH_SHARE = 1.2, 0.75


@dataclass(frozen=True, slots=True)
class TextCandidates:
    """Rows that may be the best by text, the weight of each word, and its approximate frequency."""

    rows: Rows
    worth: dict[str, float]
    frequencies: dict[str, int]
    postings: Sequence[tuple[tuple[str, ...], Posting]]  # by the words that a query combines
    unsure: Sequence[tuple[str, ...]]  # words whose postings were not read, or not completely
    whole: bool  # whether these are all rows that were found


class TextSearch:
    """The words of one query: rare ones choose records, common ones help to rank them."""

    def __init__(self, connection: Connection, *, within: Estimate, everywhere: Estimate) -> None:
        self._connection = connection
        self._within = within
        self._everywhere = everywhere
        self._share = min(1.0, within.total / max(everywhere.total, 1))

    def promising(self, lexemes: Sequence[str], *, limit: int) -> TextCandidates:
        """Candidates of rare words and, if some words are too common, of pairs of words.

        A record with several words of the query is among those of its rarest pair; of many records that have only one word,
        some are as good as others.
        """
        ordered = sorted(lexemes, key=self._everywhere.frequency)[:_MOST_LEXEMES]
        single = self._shared_out(ordered)
        together: list[tuple[str, ...]] = []
        if len(single) < len(ordered) or sum(single.values()) > _LOOKED_UP:
            together = [*combinations(ordered[:_PAIRED], 2), *combinations(ordered[:_IN_THREES], 3)]
        queries = {quoted(lexeme): most for lexeme, most in single.items()}
        queries |= {" & ".join(map(quoted, words)): _MOST_TOGETHER for words in together}
        postings = search_queries.postings(self._connection, queries)
        exact_counts = {
            lexeme: len(posting.rows)
            for (lexeme, most), posting in zip(single.items(), postings, strict=False)
            if len(posting.rows) < most
        }
        frequencies = {lexeme: self._frequency(lexeme, exact_counts.get(lexeme)) for lexeme in lexemes}
        worth = {lexeme: self._rarity(frequency) for lexeme, frequency in frequencies.items()}
        word_groups = [*((lexeme,) for lexeme in single), *together]
        by_words = list(zip(word_groups, postings, strict=True))
        rows, promise = self._gathered(by_words, worth)
        enough = math.ceil(_CHECKED * limit / max(self._share, 0.05))
        best = rows[np.argsort(-promise, kind="stable")[:enough]]
        cut = [
            words
            for (words, posting), most in zip(by_words, queries.values(), strict=True)
            if len(posting.rows) >= most
        ]
        left_out = [(lexeme,) for lexeme in lexemes if lexeme not in single]
        whole = len(best) == len(rows)
        return TextCandidates(best, worth, self._rounded(frequencies), by_words, [*cut, *left_out], whole)

    def again(
        self, wording: TextCandidates, where: Condition, *, admitted: Rows, limit: int
    ) -> TextCandidates:
        """Candidates within the filter for words whose postings were cut, used if too few candidates passed the filter.

        They may come after very many that the filter excludes, so this may take long. `admitted` are the rows that are known
        to pass it.
        """
        most = _MOST_OF_ONE if len(wording.worth) == 1 else max(_MOST_TOGETHER, 2 * limit)
        # Records with three of the words also have two of them.
        unsure = [words for words in wording.unsure if len(words) < 3]
        queries = [" & ".join(map(quoted, words)) for words in unsure]
        more = search_queries.postings_within(self._connection, queries, where, most=most)
        postings = [*wording.postings, *zip(unsure, more, strict=True)]
        frequencies: dict[str, float] = dict(wording.frequencies)
        for words, posting in zip(unsure, more, strict=True):
            if len(words) == 1 and len(posting.rows) < most:
                frequencies[words[0]] = len(posting.rows)
        worth = {lexeme: self._rarity(frequency) for lexeme, frequency in frequencies.items()}
        rows, promise = self._gathered(postings, worth)
        best = rows[np.argsort(-promise, kind="stable")]
        if wording.whole:
            within = distinct(np.concatenate([admitted, *(posting.rows for posting in more)]))
            best = best[search_queries.within(best, within)][: math.ceil(_CHECKED * limit)]
        return TextCandidates(best, worth, self._rounded(frequencies), postings, unsure=(), whole=True)

    def scores(
        self, wording: TextCandidates, sought: Sequence[str], counts: npt.NDArray[np.int32], lengths: Numbers
    ) -> Numbers:
        """Scores of records by the words that they have: the columns of `counts` are those sought, each counted once."""
        unused = dict(wording.worth)
        worth = np.array([unused.pop(lexeme, 0.0) for lexeme in sought])
        weights: Numbers = (counts > 0) @ worth
        return weights * self._by_length(lengths)

    def _shared_out(self, ordered: Sequence[str]) -> dict[str, int]:
        """How many postings of which words to read: a common word alone chooses nothing."""
        if len(ordered) == 1:
            return {ordered[0]: _MOST_OF_ONE}
        shares: dict[str, int] = {}
        remaining = _LOOKED_UP
        for lexeme in ordered:
            about = math.ceil(_MARGIN * self._everywhere.frequency(lexeme))
            if shares and about > remaining:
                break
            shares[lexeme] = min(about, remaining) + _SPARE
            remaining -= about
        return shares

    def _gathered(
        self, postings: Sequence[tuple[tuple[str, ...], Posting]], worth: dict[str, float]
    ) -> tuple[Rows, Numbers]:
        """Every row that was found, and a score by the words that it was found by."""
        rows = distinct(np.concatenate([np.empty(0, np.int64), *(posting.rows for _, posting in postings)]))
        lengths = np.zeros(len(rows))
        has = {lexeme: np.zeros(len(rows), dtype=np.bool_) for words, _ in postings for lexeme in words}
        for words, posting in postings:
            place = np.searchsorted(rows, posting.rows)
            lengths[place] = posting.lengths
            for lexeme in words:
                has[lexeme][place] = True
        promise = np.zeros(len(rows))
        for lexeme, present in has.items():
            promise += worth[lexeme] * present
        return rows, promise * self._by_length(lengths)

    def _by_length(self, lengths: Numbers) -> Numbers:
        relative = lengths / max(self._within.average_length, 1.0)
        return 1 / (1 + _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * relative))

    def _rarity(self, frequency: float) -> float:
        return math.log1p((max(self._within.total - frequency, 0.0) + 0.5) / (frequency + 0.5))

    def _frequency(self, lexeme: str, known: int | None) -> float:
        """The approximate frequency within the filter. `known` is the total frequency, if known."""
        within = self._within
        sampled = within.saying.get(lexeme, 0) >= _TELLING and self._share < _NEARLY_ALL
        return within.frequency(lexeme) if known is None or sampled else known * self._share

    def _rounded(self, frequencies: Mapping[str, float]) -> dict[str, int]:
        return {
            lexeme: min(self._within.total, math.ceil(frequency)) for lexeme, frequency in frequencies.items()
        }


Counts = npt.NDArray[np.int32]

_LEADING = 4  # the best 1/n of the pool add their neighbours


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Candidates without their neighbours."""

    details: Details
    counts: Counts
    leading: Rows  # the best of them, whose neighbours are added
    statistics: Mapping[str, Any]  # of all records: the fields of Candidates that ranking needs


class PostgresSearch:
    """One search, in one transaction."""

    def __init__(
        self, connection: Connection, search: Search, estimates: Estimates, *, vectors: bool
    ) -> None:
        self._connection = connection
        self._search = search
        self._estimates = estimates
        self._where = matching(search.filter)
        by_vector = vectors and search.vector is not None and search.model is not None
        self._question = VectorQuery.of(search.vector, search.model) if by_vector else None  # type: ignore[arg-type]
        self._lexemes = [lexeme for lexeme in dict.fromkeys(search.lexemes) if lexeme]

    def candidates(self) -> Candidates:
        choice = self._chosen()
        details = choice.details
        if self._search.neighbours and any(name is not None for name in details.conversations):
            spoken = np.array([name is not None for name in details.conversations], dtype=np.bool_)
            best = details.rows[spoken & search_queries.within(details.rows, choice.leading)]
            details = details.joined(
                search_queries.neighbour_details(self._connection, best, self._where, self._question)
            )
        return Candidates(
            **{name: getattr(details, name) for name in search_queries.PLAIN_DETAILS},
            counts=np.concatenate([choice.counts, self._counts(details.lexemes[len(choice.details) :])]),
            conversations=[None if name is None else unescaped(name) for name in details.conversations],
            openings=[words.partition(" ")[0] for words in details.lexemes],
            **choice.statistics,
        )

    def _chosen(self) -> _Chosen:
        connection, where, question = self._connection, self._search.filter, self._question
        estimate = self._estimates.known(connection, where, question)
        if estimate is None:
            most = self._estimates.exact_up_to
            few = search_queries.admitted(connection, self._where, question, most=most)
            if few is not None:
                return self._among(few)
            estimate = self._estimates.draw(connection, where, question)
            if estimate is None:  # impossible in one consistent view
                raise AssertionError("a filter admits more records than it admits")
        return self._estimated(estimate)

    def _among(self, few: AdmittedRows) -> _Chosen:
        """Candidates if the filter admits few records, which are all compared."""
        slots = [np.searchsorted(few.rows, posting.rows) for posting in self._postings(few)]
        frequencies = [len(some) for some in slots]
        average = float(few.lengths.mean()) if len(few.rows) else 0.0
        best = best_by_text(
            slots,
            frequencies=frequencies,
            lengths=few.lengths.astype(np.int32),
            average_length=average,
            total=len(few.rows),
            limit=self._search.pool,
        )
        embedded = np.flatnonzero(~np.isnan(few.cosines))
        cosines = few.cosines[embedded]
        dense = embedded[np.argsort(-cosines, kind="stable")[: self._search.pool]]
        leading = -(-self._search.pool // _LEADING)
        rows = few.rows[distinct(np.concatenate([best, dense]))]
        details = search_queries.details(self._connection, rows, self._where, self._question)
        return _Chosen(
            details=details,
            counts=self._counts(details.lexemes),
            leading=few.rows[distinct(np.concatenate([best[:leading], dense[:leading]]))],
            statistics={
                "total": len(few.rows),
                "average_length": average,
                "frequencies": self._frequencies(dict(zip(self._lexemes, frequencies, strict=True))),
                "cosine_mean": float(cosines.mean()) if len(embedded) else 0.0,
                "cosine_deviation": float(cosines.std()) if len(embedded) else 0.0,
                "embedded": len(embedded),
                "exact": True,
            },
        )

    def _postings(self, few: AdmittedRows) -> list[Posting]:
        """Admitted rows of each lexeme: from the whole index if the store is small, else from the admitted rows alone."""
        if not len(few.rows):
            return [Posting(few.rows, few.rows)] * len(self._lexemes)
        if few.rows[-1] > 2 * self._estimates.exact_up_to:
            return search_queries.postings_among(self._connection, self._lexemes, few.rows)
        most = 4 * self._estimates.exact_up_to  # more than there are rows
        postings = search_queries.postings(
            self._connection, {quoted(lexeme): most for lexeme in self._lexemes}
        )
        inside = [np.isin(posting.rows, few.rows) for posting in postings]
        return [
            Posting(posting.rows[within], posting.lengths[within])
            for posting, within in zip(postings, inside, strict=True)
        ]

    def _estimated(self, estimate: Estimate) -> _Chosen:
        connection, pool = self._connection, self._search.pool
        question = self._question
        everywhere = self._estimates.everybody(connection)
        by_text = TextSearch(connection, within=estimate, everywhere=everywhere)
        wording = by_text.promising(self._lexemes, limit=pool)
        worded = search_queries.ask_details(connection, wording.rows, self._where, question)
        pending = None
        if question is not None and estimate.indexed:
            share = estimate.total / max(everywhere.total, 1)
            pending = search_queries.ask_nearest(connection, self._where, question, limit=pool, share=share)
        by_words = search_queries.fetch_details(worded)
        near = search_queries.NOTHING if pending is None else search_queries.fetch_details(pending)
        if len(by_words) < pool and (wording.unsure or not wording.whole):
            wording = by_text.again(wording, self._where, admitted=by_words.rows, limit=pool)
            by_words = search_queries.details(connection, wording.rows, self._where, question)
        if question is not None and len(near) < pool:
            rows = search_queries.surely_nearest(connection, self._where, question, limit=pool)
            near = search_queries.details(connection, rows, self._where, question)
            near = near.only(np.argsort(-near.cosines, kind="stable"))
            if len(near) > estimate.embedded:  # they were added since the estimate
                estimate = self._estimates.draw(connection, self._search.filter, question) or estimate
        mean, deviation = (0.0, 0.0) if question is None else estimate.spread(question.vector)
        counts = self._counts(by_words.lexemes)
        scores = by_text.scores(wording, self._search.lexemes, counts, by_words.lengths)
        best = np.argsort(-scores, kind="stable")[:pool]
        leading = -(-pool // _LEADING)
        more = best[~search_queries.within(by_words.rows[best], near.rows)]
        return _Chosen(
            details=near.joined(by_words.only(more)),
            counts=np.concatenate([self._counts(near.lexemes), counts[more]]),
            leading=distinct(np.concatenate([by_words.rows[best[:leading]], near.rows[:leading]])),
            statistics={
                "total": estimate.total,
                "average_length": estimate.average_length,
                "frequencies": self._frequencies(wording.frequencies),
                "cosine_mean": mean,
                "cosine_deviation": deviation,
                "embedded": 0 if question is None else estimate.embedded,
                "exact": question is None,
            },
        )

    def _frequencies(self, known: Mapping[str, int]) -> dict[str, int]:
        return {lexeme: known.get(lexeme, 0) for lexeme in self._search.lexemes}

    def _counts(self, texts: list[str]) -> Counts:
        """How often each text has each lexeme. Searches all texts at once, because most contain few of them."""
        counts = np.zeros((len(texts), len(self._search.lexemes)), dtype=np.int32)
        whole = " " + " \n ".join(texts) + " "
        ends = list(accumulate(len(text) + 3 for text in texts))
        for column, lexeme in enumerate(self._search.lexemes):
            sought = f" {lexeme} "
            place = whole.find(sought) if lexeme else -1
            while place >= 0:
                counts[bisect_right(ends, place), column] += 1
                place = whole.find(sought, place + len(sought) - 1)
        return counts


_COMPARED_HERE = 4  # vectors: more are compared in one matrix instead of by the server

# Set vectors if the record still has the content that the vector was made from.
SET_VECTORS = """
    UPDATE fragments SET embedding = given.vector::halfvec, embedded_by = %s
    FROM (
        SELECT fragments.row, wanted.vector
        FROM unnest(%s::text[], %s::text[], %s::text[]) AS wanted (id, hash, vector)
        JOIN fragments ON fragments.id = wanted.id AND fragments.content_hash = wanted.hash
        ORDER BY fragments.id FOR NO KEY UPDATE OF fragments
    ) AS given WHERE fragments.row = given.row
"""

# Vectors by id.
VECTORS_OF = "SELECT id, embedding FROM fragments WHERE id = ANY(%s::text[]) AND embedded_by = %s"

# Ids of rows.
IDS = "SELECT row, id FROM fragments WHERE row = ANY(%s::bigint[])"

# The nearest records of each vector, with cosines; by the index of that dimension, or by comparing all.
NEAREST_EACH = """
    SELECT asked.place, near.id, near.cosine
    FROM unnest(%s::text[]) WITH ORDINALITY AS asked (vector, place) CROSS JOIN LATERAL (
        SELECT id, 1 - (embedding <=> asked.vector::halfvec) AS cosine FROM fragments
        WHERE {where} AND embedded_by = %s AND embedding IS NOT NULL {alike} ORDER BY {measure} LIMIT %s
    ) AS near ORDER BY asked.place, near.cosine DESC
"""
_INDEXED = "embedding::halfvec({dimensions}) <=> asked.vector::halfvec({dimensions})"
_SURELY = "embedding <=> asked.vector::halfvec"
_ALIKE = "AND vector_dims(embedding) = {dimensions}"  # an index has only one dimension

# All vectors within a filter, if they are few.
ALL_VECTORS = """
    SELECT id, embedding FROM fragments
    WHERE {where} AND embedded_by = %s AND vector_dims(embedding) = %s LIMIT %s
"""


class PostgresIndex(PostgresPart):
    """Implements RecordSearch."""

    _has_vectors: bool
    _estimates: Estimates

    async def search(self, search: Search) -> Candidates:
        return await self._database.read(
            lambda connection: PostgresSearch(
                connection, search, self._estimates, vectors=self._has_vectors
            ).candidates(),
            viewer=search.filter.viewer,
        )

    async def nearest(
        self, vectors: Sequence[Vector], *, model: str, where: Filter, limit: int
    ) -> list[list[Neighbour]]:
        if not vectors or not self._has_vectors:
            return [[] for _ in vectors]
        questions = [VectorQuery.of(vector, model) for vector in vectors]
        return await self._database.read(
            lambda connection: self._nearest(connection, questions, where, limit), viewer=where.viewer
        )

    async def put_vectors(self, vectors: Mapping[str, tuple[str, Vector]], *, model: str) -> int:
        if not vectors or not self._has_vectors:
            return 0
        texts = [vector_text(vector) for _, vector in vectors.values()]
        values = (model, list(vectors), [content_hash for content_hash, _ in vectors.values()], texts)
        number = await self._database.write(
            lambda connection: connection.execute(SET_VECTORS, values).rowcount
        )
        self._embedded(model, len(next(iter(vectors.values()))[1]), number)
        return number

    def _embedded(self, model: str, dimensions: int, number: int) -> None:
        """Called after vectors were stored."""
        raise NotImplementedError

    async def vector_of(self, ids: Sequence[str], *, model: str) -> dict[str, Vector]:
        if not self._has_vectors:
            return {}

        def work(connection: Connection) -> dict[str, Vector]:
            rows = connection.cursor(binary=True).execute(VECTORS_OF, (list(ids), model)).fetchall()
            return {memory_id: vector_of(data) for memory_id, data in rows}

        return await self._database.read(work)

    def _nearest(
        self, connection: Connection, questions: Sequence[VectorQuery], where: Filter, limit: int
    ) -> list[list[Neighbour]]:
        condition, first = matching(where), questions[0]
        estimate = self._estimates.known(connection, where, first)
        if estimate is None:
            neighbours = _among_few(
                connection, questions, condition, limit=limit, most=self._estimates.exact_up_to
            )
            if neighbours is not None:
                return neighbours
            estimate = self._estimates.draw(connection, where, first)
        if estimate is None or not estimate.indexed:
            return _each(connection, questions, condition, limit=limit, surely=True)
        everywhere = self._estimates.everybody(connection)
        search_queries.widen(connection, limit, share=estimate.total / max(everywhere.total, 1))
        answers = _each(connection, questions, condition, limit=limit)
        if any(len(answer) < limit for answer in answers):
            answers = _each(connection, questions, condition, limit=limit, surely=True)
        return answers


def _among_few(
    connection: Connection, questions: Sequence[VectorQuery], where: Condition, *, limit: int, most: int
) -> list[list[Neighbour]] | None:
    """The nearest of each vector by comparing all; None if there are too many."""
    if len(questions) > _COMPARED_HERE:
        return _compared_here(connection, questions, where, limit=limit, most=most)
    answers = []
    for question in questions:
        few = search_queries.admitted(connection, where, question, most=most)
        if few is None:
            return None
        embedded = np.flatnonzero(~np.isnan(few.cosines))
        best = embedded[np.argsort(-few.cosines[embedded], kind="stable")[:limit]]
        ids: dict[int, str] = dict(connection.execute(IDS, (few.rows[best].tolist(),)).fetchall())
        answers.append(
            [Neighbour(ids[int(few.rows[place])], float(few.cosines[place])) for place in best.tolist()]
        )
    return answers


def _compared_here(
    connection: Connection, questions: Sequence[VectorQuery], where: Condition, *, limit: int, most: int
) -> list[list[Neighbour]] | None:
    first = questions[0]
    statement = ALL_VECTORS.format(where=where.sql)
    values = (*where.parameters, first.model, first.dimensions, most + 1)
    rows: list[tuple[Any, ...]] = (
        connection.cursor(binary=True).execute(statement, values, prepare=False).fetchall()
    )
    if len(rows) > most:
        return None
    if not rows:
        return [[] for _ in questions]
    matrix = np.array([vector_of(data) for _, data in rows])
    answers = []
    for question in questions:
        unit = question.vector / max(float(np.linalg.norm(question.vector)), 1e-12)
        cosines = matrix @ unit
        best = np.argsort(-cosines, kind="stable")[:limit].tolist()
        answers.append([Neighbour(rows[place][0], float(cosines[place])) for place in best])
    return answers


def _each(
    connection: Connection,
    questions: Sequence[VectorQuery],
    where: Condition,
    *,
    limit: int,
    surely: bool = False,
) -> list[list[Neighbour]]:
    first = questions[0]
    measure, alike = (_SURELY, _ALIKE) if surely else (_INDEXED, "")
    size = first.dimensions
    statement = NEAREST_EACH.format(
        where=where.sql, measure=measure.format(dimensions=size), alike=alike.format(dimensions=size)
    )
    values = ([question.text for question in questions], *where.parameters, first.model, limit)
    answers: list[list[Neighbour]] = [[] for _ in questions]
    for place, memory_id, cosine in connection.execute(statement, values, prepare=False).fetchall():
        answers[place - 1].append(Neighbour(memory_id, cosine))
    return answers
