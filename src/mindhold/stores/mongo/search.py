"""Search: words by a multikey index, vectors by codes in memory that follow the database, both within the filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mindhold.model.memory import Memory
from mindhold.model.query import Candidates, Filter, Neighbour, Search, Vector
from mindhold.stores.mongo.connection import PATIENT, Database, Part
from mindhold.stores.mongo.filters import beyond_search
from mindhold.stores.mongo.live import LiveIndex
from mindhold.stores.mongo.rows import SELECTED, Document, exact_of, memory_of, row_number, vector_fields
from mindhold.stores.mongo.steps import MEMORIES, Step
from mindhold.stores.mongo.vectors import pooled
from mindhold.stores.resident import Found, Reach, decode, exact_cosines
from mindhold.stores.searching import Detail, Rows, Searching, nearest
from mindhold.stores.sketch import distinct

# What is not kept in memory of candidates.
_DETAILS = dict.fromkeys(
    "row importance trust uses usefulness occurred length conversation position lexemes embedding embedded_by".split(),
    1,
)


_FEW = 500  # vectors that are compared one by one


class IndexPart(Part):
    """The index of the store. Its work is done in threads of its own."""

    _live: LiveIndex

    async def search(self, search: Search) -> Candidates:
        live = self._live
        model = search.model if search.vector is not None else None

        def work() -> Candidates:
            source, reach = _ServerSource(live, self._database, search.filter), live.reach(search.filter)
            return Searching(source, live.resident, search, reach=reach, driving=live.driving).candidates()

        return await live.run(model, work, dimensions=0 if search.vector is None else len(search.vector))

    async def nearest(
        self, vectors: Sequence[Vector], *, model: str, where: Filter, limit: int
    ) -> list[list[Neighbour]]:
        live = self._live

        def work() -> list[list[Neighbour]]:
            source, reach = _ServerSource(live, self._database, where), live.reach(where)
            return nearest(source, live.resident, vectors, reach=reach, limit=limit)

        return await live.run(model, work, dimensions=len(vectors[0]) if len(vectors) else 0)

    async def unembedded(self, model: str, *, limit: int, scopes: Sequence[str] = ()) -> list[Memory]:
        if limit <= 0:
            return []
        where: dict[str, Any] = {"embedded_by": {"$ne": model}, "status": {"$ne": "forgotten"}}
        if scopes:
            where["scope"] = {"$in": list(scopes)}
        found = await self._database.read(
            lambda: self._database.memories.find(where, SELECTED).limit(limit).to_list()
        )
        return [memory_of(document) for document in found]

    async def put_vectors(self, vectors: Mapping[str, tuple[str, Vector]], *, model: str) -> int:
        async def work(step: Step) -> int:
            found = await step.find(MEMORIES, {"_id": {"$in": list(vectors)}}, {"content_hash": 1})
            unchanged = [one["_id"] for one in found if one["content_hash"] == vectors[one["_id"]][0]]
            for memory_id in unchanged:
                step.change_record(memory_id, {"$set": vector_fields(vectors[memory_id][1], model)})
            return len(unchanged)

        return await self._database.write(work, patience=PATIENT) if vectors else 0

    async def vector_of(self, ids: Sequence[str], *, model: str) -> dict[str, Vector]:
        where = {"_id": {"$in": list(ids)}, "embedded_by": model}
        found = await self._database.read(
            lambda: self._database.memories.find(where, {"embedding": 1}).to_list()
        )
        return {document["_id"]: decode(exact_of(document["embedding"])) for document in found}


class _ServerSource:
    """What one search has read of the records, each once."""

    def __init__(self, live: LiveIndex, database: Database, where: Filter) -> None:
        self._live = live
        self._database = database
        self._where = where
        self._read: dict[int, Document] = {}

    def postings(self, lexemes: Sequence[str], *, most: int | None) -> dict[str, Rows]:
        return self._live.postings.of(lexemes, most=most)

    def exact(self, rows: Rows) -> list[tuple[int, bytes]]:
        model = self._live.resident.model
        return [
            (one["row"], exact_of(one["embedding"]))
            for one in self._documents(rows)
            if one["embedded_by"] == model
        ]

    def details(self, rows: Rows) -> list[Detail]:
        return [
            (
                one["row"],
                one["_id"],
                one["importance"],
                one["trust"],
                one["uses"],
                one.get("usefulness", 0.0),
                one["occurred"] / 1e6,
                one["length"],
                one["conversation"],
                -1 if one["position"] is None else one["position"],
                " ".join(one["lexemes"]),
            )
            for one in self._documents(rows)
        ]

    def ids(self, rows: Rows) -> dict[int, str]:
        return {one["row"]: one["_id"] for one in self._documents(rows)}

    def near(self, vectors: Sequence[Vector], reach: Reach, limit: int) -> list[Found]:
        found = self._live.resident.nearest_each(vectors, reach, limit)
        return [
            self._with_the_servers(vector, reach, one, limit) if one.elsewhere else one
            for vector, one in zip(vectors, found, strict=True)
        ]

    def _with_the_servers(self, vector: Vector, reach: Reach, held: Found, limit: int) -> Found:
        """With what the server finds among the vectors that are not held here."""
        resident = self._live.resident
        others = resident.elsewhere(reach)
        if len(others) <= _FEW or beyond_search(self._where):  # all of them are read sooner than found
            exact = self.exact(resident.rows(others))
            cosines = exact_cosines(vector, [vector for _, vector in exact])
            best = [exact[place][0] for place in np.argsort(-cosines, kind="stable")[:limit].tolist()]
        else:
            model = resident.model or ""
            best = self._live.ask(
                lambda: self._live.indexes.nearest(vector, model=model, where=self._where, limit=limit)
            )
            drawn = np.random.default_rng(0).choice(
                others, _FEW if held.embedded - held.elsewhere < _FEW else 0
            )
            cosines = exact_cosines(
                vector, [exact for _, exact in self.exact(resident.rows(distinct(drawn)))]
            )
        slots = resident.slots(np.array(best, dtype=np.int64))
        slots = slots[slots >= 0]
        mean, deviation = pooled(held, cosines, len(others))
        return replace(
            held,
            slots=distinct(np.concatenate([held.slots, slots[reach.mask[slots]]])),
            mean=mean,
            deviation=deviation,
            exact=held.exact and len(others) <= _FEW,
        )

    def _documents(self, rows: Rows) -> list[Document]:
        """In the order of the rows; what is gone is left out."""
        wanted = rows.tolist()
        missing = [row_number(row) for row in wanted if row not in self._read]
        if missing:
            where = {"row": {"$in": missing}}
            found = self._live.ask(lambda: self._database.memories.find(where, _DETAILS).to_list())
            self._read |= {one["row"]: one for one in found}
        return [self._read[row] for row in wanted if row in self._read]
