"""Search: full text by a GIN index, vectors by pgvector, both within the filter.

Where the filter admits few records, all of them are looked at, as the embedded store does. Where it admits many, rare
words choose the candidates by text, the HNSW index those by vector, and a sample tells the statistics.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from mindhold.model.query import Candidates, Search
from mindhold.stores.lexical import best_by_text
from mindhold.stores.postgres import looking
from mindhold.stores.postgres.adapting import quoted, unescaped
from mindhold.stores.postgres.connection import Connection
from mindhold.stores.postgres.estimates import Estimate, Estimates
from mindhold.stores.postgres.filters import matching
from mindhold.stores.postgres.looking import Admitted, Details, Posting, Question, Rows
from mindhold.stores.postgres.wording import ByText
from mindhold.stores.sketch import distinct

Counts = npt.NDArray[np.int32]

_LEADING = 4  # one in so many of the pool, the best ones, bring their neighbours


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Candidates without what stands beside them, and what a ranking is told of all records."""

    found: Details
    counts: Counts
    leading: Rows
    total: int
    average_length: float
    frequencies: Mapping[str, int]
    mean: float = 0.0
    deviation: float = 0.0
    embedded: int = 0
    exact: bool = True


class Searching:
    """One search, in one transaction."""

    def __init__(
        self, connection: Connection, search: Search, estimates: Estimates, *, vectors: bool
    ) -> None:
        self._connection = connection
        self._search = search
        self._estimates = estimates
        self._where = matching(search.filter)
        asked = vectors and search.vector is not None and search.model is not None
        self._question = Question.of(search.vector, search.model) if asked else None  # type: ignore[arg-type]
        self._lexemes = [lexeme for lexeme in dict.fromkeys(search.lexemes) if lexeme]

    def candidates(self) -> Candidates:
        chosen = self._chosen()
        found = chosen.found
        if self._search.neighbours and any(name is not None for name in found.conversations):
            spoken = np.array([name is not None for name in found.conversations], dtype=np.bool_)
            best = found.rows[spoken & looking.within(found.rows, chosen.leading)]
            found = found.joined(looking.beside(self._connection, best, self._where, self._question))
        sought = self._search.lexemes
        return Candidates(
            ids=found.ids,
            counts=np.concatenate([chosen.counts, self._counts(found.lexemes[len(chosen.found) :])]),
            lengths=found.lengths,
            cosines=found.cosines,
            importance=found.importance,
            trust=found.trust,
            uses=found.uses,
            usefulness=found.usefulness,
            occurred=found.occurred,
            conversations=[None if name is None else unescaped(name) for name in found.conversations],
            positions=found.positions,
            total=chosen.total,
            average_length=chosen.average_length,
            frequencies={lexeme: chosen.frequencies.get(lexeme, 0) for lexeme in sought},
            cosine_mean=chosen.mean,
            cosine_deviation=chosen.deviation,
            embedded=chosen.embedded,
            exact=chosen.exact,
        )

    def _chosen(self) -> _Chosen:
        question = self._question
        model, dimensions = (None, 0) if question is None else (question.model, question.dimensions)
        where = self._search.filter
        estimate = self._estimates.known(self._connection, where, model=model, dimensions=dimensions)
        if estimate is None:
            most = self._estimates.exact_up_to
            few = looking.admitted(self._connection, self._where, question, most=most)
            if few is not None:
                return self._among(few)
            estimate = self._drawn()
            if estimate is None:  # cannot be in one view of the records
                raise AssertionError("a filter admits more records than it admits")
        return self._estimated(estimate)

    def _drawn(self) -> Estimate | None:
        question, where = self._question, self._search.filter
        model, dimensions = (None, 0) if question is None else (question.model, question.dimensions)
        return self._estimates.draw(self._connection, where, model=model, dimensions=dimensions)

    def _among(self, few: Admitted) -> _Chosen:
        """All of them are known one by one."""
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
        known = np.flatnonzero(~np.isnan(few.cosines))
        cosines = few.cosines[known]
        dense = known[np.argsort(-cosines, kind="stable")[: self._search.pool]]
        leading = -(-self._search.pool // _LEADING)
        rows = few.rows[distinct(np.concatenate([best, dense]))]
        found = looking.details(self._connection, rows, self._where, self._question)
        return _Chosen(
            found=found,
            counts=self._counts(found.lexemes),
            leading=few.rows[distinct(np.concatenate([best[:leading], dense[:leading]]))],
            total=len(few.rows),
            average_length=average,
            frequencies=dict(zip(self._lexemes, frequencies, strict=True)),
            mean=float(cosines.mean()) if len(known) else 0.0,
            deviation=float(cosines.std()) if len(known) else 0.0,
            embedded=len(known),
        )

    def _postings(self, few: Admitted) -> list[Posting]:
        """Within reach: from the index where that is most of it, else from the records themselves."""
        if not len(few.rows):
            return [Posting(few.rows, few.rows)] * len(self._lexemes)
        if few.rows[-1] > 2 * self._estimates.exact_up_to:
            return looking.postings_among(self._connection, self._lexemes, few.rows)
        most = 4 * self._estimates.exact_up_to  # more than there are rows
        found = looking.postings(self._connection, {quoted(lexeme): most for lexeme in self._lexemes})
        inside = [np.isin(one.rows, few.rows) for one in found]
        return [
            Posting(one.rows[within], one.lengths[within]) for one, within in zip(found, inside, strict=True)
        ]

    def _estimated(self, estimate: Estimate) -> _Chosen:
        connection, pool = self._connection, self._search.pool
        question = self._question
        everywhere = self._estimates.everybody(connection)
        by_text = ByText(connection, within=estimate, everywhere=everywhere)
        wording = by_text.promising(self._lexemes, limit=pool)
        worded = looking.ask_details(connection, wording.rows, self._where, question)
        asked = None
        if question is not None and estimate.indexed:
            share = estimate.total / max(everywhere.total, 1)
            asked = looking.ask_nearest(connection, self._where, question, limit=pool, share=share)
        said = looking.told_details(worded)
        near = looking.NOTHING if asked is None else looking.told_details(asked)
        if len(said) < pool and (wording.unsure or not wording.whole):
            wording = by_text.again(wording, self._where, admitted=said.rows, limit=pool)
            said = looking.details(connection, wording.rows, self._where, question)
        if question is not None and len(near) < pool:
            rows = looking.surely_nearest(connection, self._where, question, limit=pool)
            near = looking.details(connection, rows, self._where, question)
            near = near.only(np.argsort(-near.cosines, kind="stable"))
            if len(near) > estimate.embedded:  # they have come since it was drawn
                estimate = self._drawn() or estimate
        mean, deviation = (0.0, 0.0) if question is None else estimate.spread(question.vector)
        counts = self._counts(said.lexemes)
        scores = by_text.scores(wording, self._search.lexemes, counts, said.lengths)
        best = np.argsort(-scores, kind="stable")[:pool]
        leading = -(-pool // _LEADING)
        more = best[~looking.within(said.rows[best], near.rows)]
        return _Chosen(
            found=near.joined(said.only(more)),
            counts=np.concatenate([self._counts(near.lexemes), counts[more]]),
            leading=distinct(np.concatenate([said.rows[best[:leading]], near.rows[:leading]])),
            total=estimate.total,
            average_length=estimate.average_length,
            frequencies=wording.frequencies,
            mean=mean,
            deviation=deviation,
            embedded=0 if question is None else estimate.embedded,
            exact=question is None,
        )

    def _counts(self, texts: list[str]) -> Counts:
        """How often each text has each lexeme sought; looked for in all texts at once, for most have few of them."""
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
