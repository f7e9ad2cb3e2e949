"""Memories: reading them, counting them, and handing changes to the writer."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from pymongo import UpdateMany

from mindhold.model.errors import InvalidInput, MemoryNotFound
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order, Spot
from mindhold.ports.store import Change
from mindhold.stores.mongo.connection import Database, Part
from mindhold.stores.mongo.filters import TURNS, Query, all_of, counted_by_index, matching, visible
from mindhold.stores.mongo.rows import SELECTED, memory_of
from mindhold.stores.mongo.together import Together
from mindhold.stores.mongo.writing import LIGHT
from mindhold.stores.values import to_micros

_LAST_CHARACTER = "\U0010ffff"
_MOST_RESOLVED = 10

# Field and direction of each order; the id goes the same way.
_ORDERS = {
    Order.NEWEST: ("occurred", -1),
    Order.OLDEST: ("occurred", 1),
    Order.IMPORTANT: ("importance", -1),
    Order.USED: ("uses", -1),
    Order.DUE: ("review", 1),
    Order.CHANGED: ("updated", -1),
}

_TALLIED: dict[str, Any] = {
    "kind": "$kind",
    "status": "$status",
    "scope": "$scope",
    "tier": "$tier",
    "topic": "$topic",
    "agent": "$agent",
    "tag": {"$arrayElemAt": ["$tags_folded", "$place"]},
    "embedded_by": {"$ifNull": ["$embedded_by", ""]},
    "conversation": {"$ifNull": ["$conversation", ""]},
    "source": "$source",
}


class RecordsPart(Part):
    """The Records protocol, but for erase()."""

    _together: Together

    async def apply(self, changes: Sequence[Change]) -> None:
        if changes:
            await self._together.apply(changes)

    async def get(self, memory_id: str, *, viewer: str) -> Memory:
        found = await self.get_many([memory_id], viewer=viewer)
        if memory_id not in found:
            raise MemoryNotFound(memory_id)
        return found[memory_id]

    async def get_many(self, ids: Sequence[str], *, viewer: str) -> dict[str, Memory]:
        if not ids:
            return {}
        where = matching(Filter(viewer=viewer, statuses=(), ids=tuple(ids)))
        memories = await self._database.read(lambda: _select(self._database, where))
        return {memory.id: memory for memory in memories}

    async def resolve(self, prefix: str, *, viewer: str) -> list[str]:
        # Ids that begin with a prefix, by the range that they sort in.
        within = all_of({"_id": {"$gte": prefix, "$lt": prefix + _LAST_CHARACTER}}, visible(viewer))

        async def work() -> list[str]:
            found = self._database.memories.find(within, {"_id": 1}).sort("_id", 1).limit(_MOST_RESOLVED)
            return [document["_id"] async for document in found]

        return await self._database.ask(work)

    async def find(
        self,
        where: Filter,
        *,
        order: Order = Order.NEWEST,
        limit: int = 50,
        after: str | Spot | None = None,
    ) -> list[Memory]:
        return await self._database.read(
            lambda: _page(self._database, where, order=order, limit=limit, after=after)
        )

    async def count(self, where: Filter, *, most: int | None = None) -> int:
        condition = matching(where)
        bound: dict[str, Any] = {} if most is None else {"limit": most}
        if counted_by_index(where):
            return await self._database.read(lambda: _counted(self._database, condition, **bound))
        return await self._database.read(lambda: self._database.memories.count_documents(condition, **bound))

    async def tally(self, where: Filter, by: str) -> dict[str, int]:
        if by not in _TALLIED:
            raise InvalidInput(f"Can't count by {by!r}.", advice=f"Choose one of {', '.join(_TALLIED)}.")
        if by == "embedded_by" and counted_by_index(where):
            return await self._database.read(lambda: _by_model(self._database, matching(where)))
        # The commonest first; tags that differ in case alone count as one.
        named = {"$first": "$tags"} if by == "tag" else {"$first": _TALLIED[by]}
        pipeline: list[Query] = [{"$match": matching(where)}]
        if by == "tag":
            pipeline.append({"$unwind": {"path": "$tags", "includeArrayIndex": "place"}})
        pipeline += [
            {"$group": {"_id": _TALLIED[by], "name": named, "count": {"$sum": 1}}},
            {"$sort": {"count": -1, "name": 1}},
        ]

        async def work() -> dict[str, int]:
            cursor = await self._database.memories.aggregate(pipeline)
            return {group["name"]: group["count"] async for group in cursor}

        return await self._database.read(work)

    async def by_hash(self, hashes: Sequence[str], *, scope: str, agent: str) -> dict[str, Memory]:
        where = {"content_hash": {"$in": list(hashes)}, "scope": scope, "agent": agent, "live": True}
        found = await self._database.read(lambda: _select(self._database, where))
        return {memory.content_hash: memory for memory in found}

    async def by_gist(self, gists: Sequence[str], *, scope: str, agent: str) -> dict[str, list[Memory]]:
        wanted = {"$in": [gist for gist in gists if gist]}
        where = {"gist": {**wanted, "$gt": ""}, "scope": scope, "agent": agent, "status": "active"}

        async def work() -> dict[str, list[Memory]]:
            found: dict[str, list[Memory]] = {}
            async for document in self._database.memories.find(where, {**SELECTED, "gist": 1}).sort("_id", 1):
                found.setdefault(document["gist"], []).append(memory_of(document))
            return found

        return await self._database.read(work)

    async def derived_from(self, ids: Sequence[str]) -> list[Memory]:
        if not ids:
            return []
        named = {"$in": list(ids)}
        where = {"refers": named, "merged_from": named}  # the first is indexed
        found = await self._database.read(lambda: _select(self._database, where))
        return sorted(found, key=lambda memory: memory.id)

    async def touch(self, ids: Sequence[str], when: datetime) -> None:
        moment = to_micros(when)
        kept = {"$cond": [{"$eq": ["$tier", "permanent"]}, "$tier", "hot"]}
        await self._count("uses", ids, {**_latest("last_used", moment), **_due(moment), "tier": kept})

    async def note_shown(self, ids: Sequence[str], when: datetime) -> None:
        moment = to_micros(when)
        await self._count("shown", ids, {**_latest("stirred", moment), **_due(moment)})

    async def _count(self, field: str, ids: Sequence[str], also: Query) -> None:
        by_times: dict[int, list[str]] = {}
        for memory_id, times in Counter(ids).items():
            by_times.setdefault(times, []).append(memory_id)
        counted = [
            UpdateMany(
                {"_id": {"$in": some}},
                [{"$set": {field: {"$add": [{"$ifNull": [f"${field}", 0]}, times]}, **also}}],
            )
            for times, some in by_times.items()
        ]
        if counted:
            light = self._database.memories.with_options(write_concern=LIGHT)
            await self._database.ask(lambda: light.bulk_write(counted, ordered=False))

    async def scan(self, where: Filter, *, batch: int = 500) -> AsyncIterator[list[Memory]]:
        condition, last = matching(where), ""
        while True:
            following = all_of(condition, {"_id": {"$gt": last}})
            memories = await self._database.read(
                partial(_select, self._database, following, limit=batch, ordered=True)
            )
            if memories:
                yield memories
                last = memories[-1].id
            if len(memories) < batch:
                return


def _latest(field: str, moment: int) -> Query:
    """A late report doesn't turn the clock back."""
    return {field: {"$max": [f"${field}", moment]}}


def _due(moment: int) -> Query:
    return {"review": {"$min": ["$review", moment]}}  # also where there is none


async def _select(database: Database, where: Query, *, limit: int = 0, ordered: bool = False) -> list[Memory]:
    cursor = database.memories.find(where, SELECTED, limit=limit)
    if ordered:
        cursor = cursor.sort("_id", 1)
    return [memory_of(document) for document in await cursor.to_list()]


async def _page(
    database: Database, where: Filter, *, order: Order, limit: int, after: str | Spot | None
) -> list[Memory]:
    field, direction = _ORDERS[order]
    condition = matching(where)
    if order is Order.DUE and where.due is None:  # what is never reviewed has no place among them
        condition = all_of(condition, {"review": {"$type": "number"}})
    if after is not None:
        place, last = await _place(database, where, field, after)
        beyond = "$lt" if direction < 0 else "$gt"
        following = [{field: {beyond: place}}, {field: place, "_id": {beyond: last}}]
        condition = all_of(condition, {"$or": following})
    if limit <= 0:
        return []
    cursor = (
        database.memories.find(condition, SELECTED)
        .sort([(field, direction), ("_id", direction)])
        .limit(limit)
    )
    return [memory_of(document) for document in await cursor.to_list()]


async def _place(database: Database, where: Filter, field: str, after: str | Spot) -> tuple[Any, str]:
    """Where the page before ended."""
    if isinstance(after, Spot):
        return to_micros(after.value) if isinstance(after.value, datetime) else after.value, after.id
    mark = await database.memories.find_one(all_of({"_id": after}, visible(where.viewer)), {field: 1})
    if mark is None:
        raise MemoryNotFound(after)
    return mark.get(field), after


async def _counted(database: Database, condition: Query, **bound: Any) -> int:
    """Inside the index of messages; the server takes others for as good until it has read every record."""
    told = await database.database.command(
        "count", database.memories.name, query=condition, hint=TURNS, **bound
    )
    return int(told["n"])


async def _by_model(database: Database, condition: Query) -> dict[str, int]:
    """Counted for each model: grouping takes several times as long."""
    counts: dict[str, int] = {}
    total, last = await _counted(database, condition), ""
    while True:
        following = all_of(condition, {"embedded_by": {"$gt": last}})
        found = database.memories.find(following, {"_id": 0, "embedded_by": 1}, hint=TURNS)
        met = await found.sort("embedded_by", 1).limit(1).to_list()
        if not met:
            break
        last = met[0]["embedded_by"]
        counts[last] = await _counted(database, all_of(condition, {"embedded_by": last}))
    if total > sum(counts.values()):
        counts[""] = total - sum(counts.values())
    return dict(sorted(counts.items(), key=lambda one: (-one[1], one[0])))
