"""The Index protocol: search, and the vectors behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mindhold.model.memory import Memory
from mindhold.model.query import Candidates, Filter, Neighbour, Search, Vector
from mindhold.stores.postgres import looking
from mindhold.stores.postgres.adapting import vector_of, vector_text
from mindhold.stores.postgres.choosing import Searching
from mindhold.stores.postgres.connection import Connection, Part
from mindhold.stores.postgres.estimates import Estimates
from mindhold.stores.postgres.filters import Condition, matching
from mindhold.stores.postgres.looking import Question
from mindhold.stores.postgres.rows import SELECTED, memory_of

_COMPARED_HERE = 4  # vectors: more are compared in one matrix rather than each by the server

# Records that have no vector of a model: three ranges of an index, each left as soon as there are enough.
UNEMBEDDED = f"""
    SELECT {SELECTED} FROM fragments WHERE fragments.row IN (
        SELECT row FROM fragments WHERE embedded_by IS NULL AND status <> 'forgotten'
        UNION ALL SELECT row FROM fragments WHERE embedded_by < %(model)s AND status <> 'forgotten'
        UNION ALL SELECT row FROM fragments WHERE embedded_by > %(model)s AND status <> 'forgotten'
        LIMIT %(limit)s
    )
"""

# The same, of some scopes.
UNEMBEDDED_OF = UNEMBEDDED.replace(
    "status <> 'forgotten'",
    "status <> 'forgotten' AND scope IN (SELECT row FROM scope WHERE name = ANY(%(scopes)s))",
)

# Set vectors where the record still says what the vector was made of.
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

# For each of some vectors the nearest records, with their cosines; by the index of that dimension, or surely.
NEAREST_EACH = """
    SELECT asked.place, near.id, near.cosine
    FROM unnest(%s::text[]) WITH ORDINALITY AS asked (vector, place) CROSS JOIN LATERAL (
        SELECT id, 1 - (embedding <=> asked.vector::halfvec) AS cosine FROM fragments
        WHERE {where} AND embedded_by = %s AND embedding IS NOT NULL {alike} ORDER BY {measure} LIMIT %s
    ) AS near ORDER BY asked.place, near.cosine DESC
"""
_INDEXED = "embedding::halfvec({dimensions}) <=> asked.vector::halfvec({dimensions})"
_SURELY = "embedding <=> asked.vector::halfvec"
_ALIKE = "AND vector_dims(embedding) = {dimensions}"  # an index has none of another dimension

# All vectors within a filter, as long as they are few.
ALL_VECTORS = """
    SELECT id, embedding FROM fragments
    WHERE {where} AND embedded_by = %s AND vector_dims(embedding) = %s LIMIT %s
"""


class IndexPart(Part):
    """The index of the store."""

    _has_vectors: bool
    _estimates: Estimates

    async def search(self, search: Search) -> Candidates:
        return await self._database.read(
            lambda connection: Searching(
                connection, search, self._estimates, vectors=self._has_vectors
            ).candidates(),
            viewer=search.filter.viewer,
        )

    async def nearest(
        self, vectors: Sequence[Vector], *, model: str, where: Filter, limit: int
    ) -> list[list[Neighbour]]:
        if not vectors or not self._has_vectors:
            return [[] for _ in vectors]
        questions = [Question.of(vector, model) for vector in vectors]
        return await self._database.read(
            lambda connection: self._nearest(connection, questions, where, limit), viewer=where.viewer
        )

    async def unembedded(self, model: str, *, limit: int, scopes: Sequence[str] = ()) -> list[Memory]:
        if not self._has_vectors:
            return []
        statement = UNEMBEDDED_OF if scopes else UNEMBEDDED
        values = {"model": model, "limit": limit, "scopes": list(scopes)}
        return await self._database.read(
            lambda connection: [memory_of(row) for row in connection.execute(statement, values).fetchall()]
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
        """To be told after vectors were put."""
        raise NotImplementedError

    async def vector_of(self, ids: Sequence[str], *, model: str) -> dict[str, Vector]:
        if not self._has_vectors:
            return {}

        def work(connection: Connection) -> dict[str, Vector]:
            found = connection.cursor(binary=True).execute(VECTORS_OF, (list(ids), model)).fetchall()
            return {memory_id: vector_of(data) for memory_id, data in found}

        return await self._database.read(work)

    def _nearest(
        self, connection: Connection, questions: Sequence[Question], where: Filter, limit: int
    ) -> list[list[Neighbour]]:
        condition, first = matching(where), questions[0]
        known = self._estimates.known(connection, where, model=first.model, dimensions=first.dimensions)
        if known is None:
            found = _among_few(
                connection, questions, condition, limit=limit, most=self._estimates.exact_up_to
            )
            if found is not None:
                return found
            known = self._estimates.draw(connection, where, model=first.model, dimensions=first.dimensions)
        if known is None or not known.indexed:
            return _each(connection, questions, condition, limit=limit, surely=True)
        everywhere = self._estimates.everybody(connection)
        looking.widen(connection, limit, share=known.total / max(everywhere.total, 1))
        answers = _each(connection, questions, condition, limit=limit)
        if any(len(answer) < limit for answer in answers):
            answers = _each(connection, questions, condition, limit=limit, surely=True)
        return answers


def _among_few(
    connection: Connection, questions: Sequence[Question], where: Condition, *, limit: int, most: int
) -> list[list[Neighbour]] | None:
    """By comparing all of them; None if there are too many for that."""
    if len(questions) > _COMPARED_HERE:
        return _compared_here(connection, questions, where, limit=limit, most=most)
    answers = []
    for question in questions:
        few = looking.admitted(connection, where, question, most=most)
        if few is None:
            return None
        known = np.flatnonzero(~np.isnan(few.cosines))
        best = known[np.argsort(-few.cosines[known], kind="stable")[:limit]]
        ids: dict[int, str] = dict(connection.execute(IDS, (few.rows[best].tolist(),)).fetchall())
        answers.append(
            [Neighbour(ids[int(few.rows[place])], float(few.cosines[place])) for place in best.tolist()]
        )
    return answers


def _compared_here(
    connection: Connection, questions: Sequence[Question], where: Condition, *, limit: int, most: int
) -> list[list[Neighbour]] | None:
    first = questions[0]
    statement = ALL_VECTORS.format(where=where.sql)
    values = (*where.parameters, first.model, first.dimensions, most + 1)
    found: list[tuple[Any, ...]] = (
        connection.cursor(binary=True).execute(statement, values, prepare=False).fetchall()
    )
    if len(found) > most:
        return None
    if not found:
        return [[] for _ in questions]
    matrix = np.array([vector_of(data) for _, data in found])
    answers = []
    for question in questions:
        unit = question.vector / max(float(np.linalg.norm(question.vector)), 1e-12)
        cosines = matrix @ unit
        best = np.argsort(-cosines, kind="stable")[:limit].tolist()
        answers.append([Neighbour(found[place][0], float(cosines[place])) for place in best])
    return answers


def _each(
    connection: Connection,
    questions: Sequence[Question],
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
