"""$vectorSearch, where the server offers it: on Atlas, or beside a community server that has search.

Then only the codes of the newest records are held in memory; the index finds the others. It follows the writes with a
delay, so that what is new or was changed is compared here, exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from pymongo.errors import OperationFailure

from mindhold.model.query import Filter, Vector
from mindhold.stores.mongo.connection import Database
from mindhold.stores.mongo.filters import FILTERED, all_of, matching
from mindhold.stores.resident import Found

INDEX = "memory_vector_idx"
HELD = 10_000  # codes of the newest records

_CANDIDATES = 20  # the server looks at so many for each that is asked for
_MOST_CANDIDATES = 10_000


class VectorIndexes:
    """The server's vector indexes by the length of their vectors; known after look()."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queryable: dict[int, str] = {}
        self.offered = False

    async def look(self) -> None:
        """Which ones can be asked; none where the server has no such thing."""
        try:
            cursor = await self._database.memories.aggregate([{"$listSearchIndexes": {}}])
            listed: list[dict[str, Any]] = await cursor.to_list()
        except OperationFailure:
            self.offered = False
            return
        self.offered = True
        self._queryable = {
            _dimensions(index): index["name"]
            for index in listed
            if index["name"].startswith(INDEX) and index.get("queryable")
        }

    async def ready(self, dimensions: int) -> bool:
        """Whether one for vectors of that length can be asked; if there is none, the server begins to make it."""
        if not self.offered:
            return False
        await self.look()
        if dimensions in self._queryable:
            return True
        fields: list[dict[str, Any]] = [
            {"type": "vector", "path": "embedding", "numDimensions": dimensions, "similarity": "cosine"},
            *({"type": "filter", "path": field} for field in (*FILTERED, "embedded_by")),
        ]
        name = INDEX if not self._queryable else f"{INDEX}_{dimensions}"
        index = {"name": name, "type": "vectorSearch", "definition": {"fields": fields}}
        try:
            await self._database.database.command(
                "createSearchIndexes", self._database.memories.name, indexes=[index]
            )
        except OperationFailure:  # it is being made, or this user may not
            return False
        await self.look()
        return dimensions in self._queryable

    async def nearest(self, vector: Vector, *, model: str, where: Filter, limit: int) -> list[int]:
        """Rows of the nearest records, as far as the index knows them."""
        asked = {
            "index": self._queryable[len(vector)],
            "path": "embedding",
            "queryVector": [float(number) for number in vector],
            "numCandidates": min(max(limit * _CANDIDATES, limit), _MOST_CANDIDATES),
            "limit": min(limit, _MOST_CANDIDATES),
            "filter": all_of({"embedded_by": model}, matching(where)),
        }
        cursor = await self._database.memories.aggregate(
            [{"$vectorSearch": asked}, {"$project": {"row": 1, "_id": 0}}]
        )
        return [document["row"] async for document in cursor]


def pooled(held: Found, cosines: npt.NDArray[np.float64], others: int) -> tuple[float, float]:
    """Mean and deviation of all cosines, by those of the held vectors and a sample of the `others`."""
    here = held.embedded - held.elsewhere
    if not len(cosines):
        return held.mean, held.deviation
    mean = (here * held.mean + others * float(cosines.mean())) / (here + others)
    squares = here * (held.deviation**2 + held.mean**2) + others * float((cosines**2).mean())
    return mean, max(0.0, squares / (here + others) - mean**2) ** 0.5


def _dimensions(index: dict[str, Any]) -> int:
    fields = index["latestDefinition"]["fields"]
    return next((int(field["numDimensions"]) for field in fields if field["type"] == "vector"), 0)
