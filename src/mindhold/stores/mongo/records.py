"""Reading, counting, changing and erasing memories; links between them, their earlier versions, and scopes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from pymongo import UpdateMany

from mindhold.model.errors import MemoryNotFound
from mindhold.model.memory import Link, Memory, Relation, Version
from mindhold.model.query import Filter, Order, PagePosition
from mindhold.model.scope import Scope
from mindhold.ports.store import Change, Receipt
from mindhold.stores.base import (
    LAST_CHARACTER,
    MOST_RESOLVED,
    ORDERS,
    Erased,
    SingleRecords,
    check_counted_by,
    check_droppable,
    check_empty,
    check_new_name,
    check_parent,
)
from mindhold.stores.columns import (
    beginning,
    entry_without,
    job_without,
    mentions,
    texts_in,
    to_micros,
    without,
)
from mindhold.stores.mongo.changes import ChangeQueue
from mindhold.stores.mongo.connection import PATIENT, MongoDatabase, MongoPart
from mindhold.stores.mongo.rows import (
    COLUMNS,
    SELECTED,
    TURNS,
    Document,
    Query,
    all_of,
    counted_by_index,
    matching,
    memory_of,
    metadata_document,
    metadata_of,
    references,
    row_number,
    visible,
)
from mindhold.stores.mongo.transactions import (
    CURSORS,
    ENTRIES,
    JOBS,
    LIGHT,
    LINKS,
    MEMORIES,
    METADATA,
    TOMBSTONES,
    VERSIONS,
    MongoStep,
)

_TOGETHER = 1_000


class MongoLinks(MongoPart):
    """Implements Links."""

    async def links_of(
        self, ids: Sequence[str], *, relations: Sequence[Relation] = (), viewer: str
    ) -> list[Link]:
        if not ids:
            return []
        ends = {"$in": list(ids)}
        where: Query = {"$or": [{"origin": ends}, {"target": ends}]}
        if relations:
            where["relation"] = {"$in": [relation.value for relation in relations]}

        async def work() -> list[Document]:
            links = await self._database.links.find(where).to_list()
            end_ids = {end for link in links for end in (link["origin"], link["target"])}
            seen = await _among(self._database, list(end_ids), visible(viewer))
            return [link for link in links if link["origin"] in seen and link["target"] in seen]

        links = [COLUMNS.link.record_of(link) for link in await self._database.read(work)]
        return sorted(links, key=lambda link: (link.created, link.origin, link.target, link.relation))

    async def count_links(self, where: Filter) -> int:
        condition = matching(where)

        async def work() -> int:
            count = 0
            cursor = self._database.links.find({}, {"origin": 1, "target": 1}).batch_size(_TOGETHER)
            while batch := await cursor.to_list(_TOGETHER):
                end_ids = {end for link in batch for end in (link["origin"], link["target"])}
                matching_ids = await _among(self._database, list(end_ids), condition)
                count += sum(
                    link["origin"] in matching_ids and link["target"] in matching_ids for link in batch
                )
            return count

        return await self._database.read(work)

    async def versions_of(self, memory_id: str, *, latest: int | None = None) -> list[Version]:
        async def work() -> list[Version]:
            cursor = self._database.versions.find({"memory": memory_id}).sort("number", -1).limit(latest or 0)
            return [COLUMNS.version.record_of(document) for document in await cursor.to_list()][::-1]

        return await self._database.read(work)

    async def versions_among(self, ids: Sequence[str]) -> dict[str, list[Version]]:
        async def work() -> dict[str, list[Version]]:
            versions: dict[str, list[Version]] = {}
            cursor = self._database.versions.find({"memory": {"$in": list(ids)}}).sort(
                [("memory", 1), ("number", 1)]
            )
            async for document in cursor:
                versions.setdefault(document["memory"], []).append(COLUMNS.version.record_of(document))
            return versions

        return await self._database.read(work)


async def _among(database: MongoDatabase, ids: list[str], condition: Query) -> set[str]:
    """Those of the records that match."""
    cursor = database.memories.find(all_of({"_id": {"$in": ids}}, condition), {"_id": 1})
    return {document["_id"] for document in await cursor.to_list()}


SCOPES = {"type": "scope"}


class MongoScopes(MongoPart):
    """Implements Scopes."""

    async def scopes(self) -> list[Scope]:
        documents = await self._database.read(
            lambda: self._database.metadata.find(SCOPES).sort("scope_name", 1).to_list()
        )
        return [COLUMNS.scope.record_of(document) for document in documents]

    async def put_scope(self, scope: Scope) -> None:
        async def work(step: MongoStep) -> None:
            check_parent(await _all(step), scope)
            step.put(METADATA, scope_key(scope.name), scope_document(scope))

        await self._database.write(work)

    async def rename_scope(self, old: str, new: str) -> None:
        await self._database.write(lambda step: _rename(step, old, new), patience=PATIENT)

    async def drop_scope(self, name: str) -> None:
        await self._database.write(lambda step: _drop(step, name))


def scope_key(name: str) -> str:
    return f"scope {name}"


def scope_document(scope: Scope) -> Document:
    return {**SCOPES, "created_at": scope.created, **COLUMNS.scope.document(scope)}


async def _all(step: MongoStep) -> dict[str, Scope]:
    return {scope.name: scope for scope in map(COLUMNS.scope.record_of, await step.find(METADATA, SCOPES))}


async def _rename(step: MongoStep, old: str, new: str) -> None:
    scopes = await _all(step)
    if not check_new_name(scopes, old, new):
        return
    step.put(METADATA, scope_key(new), {**scope_document(scopes[old]), "scope_name": new})
    step.rename_all(METADATA, "parent_scope", old, new)
    step.rename_all(MEMORIES, "scope", old, new)
    step.remove(METADATA, {"_id": scope_key(old)})


async def _drop(step: MongoStep, name: str) -> None:
    scopes = await _all(step)
    check_droppable(scopes, name)
    check_empty(scopes, name, await step.count(MEMORIES, {"scope": name}))
    step.remove(METADATA, {"_id": scope_key(name)})


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


class MongoRecords(MongoPart, SingleRecords):
    """Implements Records, except erase()."""

    _together: ChangeQueue

    async def apply(self, changes: Sequence[Change]) -> None:
        if changes:
            await self._together.apply(changes)

    async def get_many(self, ids: Sequence[str], *, viewer: str) -> dict[str, Memory]:
        if not ids:
            return {}
        where = matching(Filter(viewer=viewer, statuses=(), ids=tuple(ids)))
        memories = await self._database.read(lambda: _select(self._database, where))
        return {memory.id: memory for memory in memories}

    async def resolve(self, prefix: str, *, viewer: str) -> list[str]:
        # Ids with a prefix are one range of the sort order.
        within = all_of({"_id": {"$gte": prefix, "$lt": prefix + LAST_CHARACTER}}, visible(viewer))

        async def work() -> list[str]:
            cursor = self._database.memories.find(within, {"_id": 1}).sort("_id", 1).limit(MOST_RESOLVED)
            return [document["_id"] async for document in cursor]

        return await self._database.ask(work)

    async def find(
        self,
        where: Filter,
        *,
        order: Order = Order.NEWEST,
        limit: int = 50,
        after: str | PagePosition | None = None,
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
        check_counted_by(by)
        if by == "embedded_by" and counted_by_index(where):
            return await self._database.read(lambda: _by_model(self._database, matching(where)))
        # Most common first; tags that differ only in case count as one.
        first_name = {"$first": "$tags"} if by == "tag" else {"$first": _TALLIED[by]}
        pipeline: list[Query] = [{"$match": matching(where)}]
        if by == "tag":
            pipeline.append({"$unwind": {"path": "$tags", "includeArrayIndex": "place"}})
        pipeline += [
            {"$group": {"_id": _TALLIED[by], "name": first_name, "count": {"$sum": 1}}},
            {"$sort": {"count": -1, "name": 1}},
        ]

        async def work() -> dict[str, int]:
            cursor = await self._database.memories.aggregate(pipeline)
            return {group["name"]: group["count"] async for group in cursor}

        return await self._database.read(work)

    async def by_hash(self, hashes: Sequence[str], *, scope: str, agent: str) -> dict[str, Memory]:
        where = {"content_hash": {"$in": list(hashes)}, "scope": scope, "agent": agent, "live": True}
        memories = await self._database.read(lambda: _select(self._database, where))
        return {memory.content_hash: memory for memory in memories}

    async def by_gist(self, gists: Sequence[str], *, scope: str, agent: str) -> dict[str, list[Memory]]:
        gist_filter = {"$in": [gist for gist in gists if gist]}
        where = {"gist": {**gist_filter, "$gt": ""}, "scope": scope, "agent": agent, "status": "active"}

        async def work() -> dict[str, list[Memory]]:
            memories: dict[str, list[Memory]] = {}
            async for document in self._database.memories.find(where, {**SELECTED, "gist": 1}).sort("_id", 1):
                memories.setdefault(document["gist"], []).append(memory_of(document))
            return memories

        return await self._database.read(work)

    async def derived_from(self, ids: Sequence[str]) -> list[Memory]:
        if not ids:
            return []
        ids_in = {"$in": list(ids)}
        where = {"refers": ids_in, "merged_from": ids_in}  # `refers` is indexed
        memories = await self._database.read(lambda: _select(self._database, where))
        return sorted(memories, key=lambda memory: memory.id)

    async def touch(self, ids: Sequence[str], when: datetime) -> None:
        moment = to_micros(when)
        tier = {"$cond": [{"$eq": ["$tier", "permanent"]}, "$tier", "hot"]}
        await self._count("uses", ids, {**_latest("last_used", moment), **_due(moment), "tier": tier})

    async def note_shown(self, ids: Sequence[str], when: datetime) -> None:
        moment = to_micros(when)
        await self._count("shown", ids, {**_latest("stirred", moment), **_due(moment)})

    async def _count(self, field: str, ids: Sequence[str], also: Query) -> None:
        by_times: dict[int, list[str]] = {}
        for memory_id, times in Counter(ids).items():
            by_times.setdefault(times, []).append(memory_id)
        updates = [
            UpdateMany(
                {"_id": {"$in": counted_ids}},
                [{"$set": {field: {"$add": [{"$ifNull": [f"${field}", 0]}, times]}, **also}}],
            )
            for times, counted_ids in by_times.items()
        ]
        if updates:
            light = self._database.memories.with_options(write_concern=LIGHT)
            await self._database.ask(lambda: light.bulk_write(updates, ordered=False))

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
    """The later of two times, so that a late report doesn't set the time back."""
    return {field: {"$max": [f"${field}", moment]}}


def _due(moment: int) -> Query:
    return {"review": {"$min": ["$review", moment]}}  # also works without a review date


async def _select(
    database: MongoDatabase, where: Query, *, limit: int = 0, ordered: bool = False
) -> list[Memory]:
    cursor = database.memories.find(where, SELECTED, limit=limit)
    if ordered:
        cursor = cursor.sort("_id", 1)
    return [memory_of(document) for document in await cursor.to_list()]


async def _page(
    database: MongoDatabase, where: Filter, *, order: Order, limit: int, after: str | PagePosition | None
) -> list[Memory]:
    field, descending = ORDERS[order]
    condition = matching(where)
    if order is Order.DUE and where.due is None:  # records that are never reviewed are left out
        condition = all_of(condition, {"review": {"$type": "number"}})
    if after is not None:
        place, last = await _place(database, where, field, after)
        beyond = "$lt" if descending else "$gt"
        following = [{field: {beyond: place}}, {field: place, "_id": {beyond: last}}]
        condition = all_of(condition, {"$or": following})
    if limit <= 0:
        return []
    direction = -1 if descending else 1
    cursor = database.memories.find(condition, SELECTED, limit=limit)
    cursor = cursor.sort([(field, direction), ("_id", direction)])
    return [memory_of(document) for document in await cursor.to_list()]


async def _place(
    database: MongoDatabase, where: Filter, field: str, after: str | PagePosition
) -> tuple[Any, str]:
    """The position where the previous page ended."""
    if isinstance(after, PagePosition):
        return to_micros(after.value) if isinstance(after.value, datetime) else after.value, after.id
    mark = await database.memories.find_one(all_of({"_id": after}, visible(where.viewer)), {field: 1})
    if mark is None:
        raise MemoryNotFound(after)
    return mark.get(field), after


async def _counted(database: MongoDatabase, condition: Query, **bound: Any) -> int:
    """Count in the index of messages, which the server wouldn't choose by itself."""
    answer = await database.database.command(
        "count", database.memories.name, query=condition, hint=TURNS, **bound
    )
    return int(answer["n"])


async def _by_model(database: MongoDatabase, condition: Query) -> dict[str, int]:
    """Counts by model, with one query each: grouping takes several times as long."""
    counts: dict[str, int] = {}
    total, last = await _counted(database, condition), ""
    while True:
        following = all_of(condition, {"embedded_by": {"$gt": last}})
        cursor = database.memories.find(following, {"_id": 0, "embedded_by": 1}, hint=TURNS)
        following_models = await cursor.sort("embedded_by", 1).limit(1).to_list()
        if not following_models:
            break
        last = following_models[0]["embedded_by"]
        counts[last] = await _counted(database, all_of(condition, {"embedded_by": last}))
    if total > sum(counts.values()):
        counts[""] = total - sum(counts.values())
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


# Texts that the check after an erasure searches for an id, besides indexed fields.
_TEXTS = {
    VERSIONS: "content topic tags keywords".split(),
    CURSORS: "_id value".split(),
    METADATA: "scope_name description related_keywords".split(),
    ENTRIES: "key value".split(),
}


class MongoErasure(MongoPart):
    """Implements erase()."""

    async def erase(self, ids: Sequence[str], *, references: bool = True) -> Receipt:
        unique_ids = tuple(dict.fromkeys(ids))
        erased = await self._database.write(
            lambda step: _erase(step, unique_ids, with_references=references), patience=PATIENT
        )
        remaining = await self._database.read(lambda: _remaining(self._database, erased), patience=PATIENT)
        return erased.receipt(remaining)


async def _erase(step: MongoStep, ids: tuple[str, ...], *, with_references: bool) -> Erased:
    among_ids = {"$in": list(ids)}
    records = await step.find(
        MEMORIES, {"_id": among_ids}, {"row": 1, "embedded_by": 1, "lexemes": {"$slice": 1}}
    )
    touching = {"$or": [{"origin": among_ids}, {"target": among_ids}]}
    removed = {
        "text": sum(bool(record["lexemes"]) for record in records),
        "links": await step.count(LINKS, touching),
        "versions": await step.count(VERSIONS, {"memory": among_ids}),
        "vectors": sum(record["embedded_by"] is not None for record in records),
        "memories": len(records),
    }
    # First the tombstones, which tell in-memory indexes about removed rows.
    for record in records:
        step.put(TOMBSTONES, row_number(record["row"]), {})
    if removed["links"]:
        step.remove(LINKS, touching)
    if removed["versions"]:
        step.remove(VERSIONS, {"memory": among_ids})
    if with_references:
        removed["jobs"], removed["references"] = await _drop_references(step, ids)
    if records:
        step.remove(MEMORIES, {"_id": among_ids})
        step.added -= len(records)
    rows = {record["_id"]: record["row"] for record in records}
    return Erased(ids, rows, removed, references=with_references)


async def _drop_references(step: MongoStep, ids: tuple[str, ...]) -> tuple[int, int]:
    """Remove jobs about one of the ids, and references to the ids elsewhere."""
    erased, dropped = frozenset(ids), 0
    changed = await _leave_out_of_records(step, erased)
    naming = _naming(ids)
    for job in await step.find(JOBS, {"$or": [{"payload": naming}, {"result": naming}]}):
        payload, result = json.loads(job["payload"]), json.loads(job["result"] or "null")
        remainder = job_without(payload, result, erased)
        if remainder is not None and remainder.dropped:
            step.remove(JOBS, {"_id": job["_id"]})
            dropped += 1
        elif remainder is not None:
            fields = {
                "payload": _text(remainder.payload),
                "result": None if remainder.result is None else _text(remainder.result),
            }
            step.change(JOBS, {"_id": job["_id"], "payload": job["payload"]}, {"$set": fields})
            changed += 1
    for entry in await step.find(ENTRIES, {"$or": [{"key": naming}, {"value": naming}]}):
        if entry["key"] in erased:
            step.remove(ENTRIES, {"_id": entry["_id"]})
            changed += 1
        elif (value := entry_without(json.loads(entry["value"]), erased)) is not None:
            unchanged = {"_id": entry["_id"], "value": entry["value"]}  # unless it was replaced since
            step.change(ENTRIES, unchanged, {"$set": {"value": _text(value)}})
            changed += 1
    return dropped, changed


async def _leave_out_of_records(step: MongoStep, gone: frozenset[str]) -> int:
    where = {"refers": {"$in": list(gone)}, "_id": {"$nin": list(gone)}}
    fields = {"supersedes": 1, "merged_from": 1, "metadata": 1}
    records = await step.find(MEMORIES, where, fields)
    for record in records:
        supersedes = None if record["supersedes"] in gone else record["supersedes"]
        merged_from = without(record["merged_from"], gone)[0] or []
        metadata: dict[str, Any] = without(metadata_of(record["metadata"]), gone)[0] or {}
        fields_left = {
            "supersedes": supersedes,
            "merged_from": merged_from,
            "metadata": metadata_document(metadata),
            "refers": references(supersedes, merged_from, metadata),
        }
        step.change_record(record["_id"], {"$set": fields_left})
    return len(records)


async def _remaining(database: MongoDatabase, erased: Erased) -> dict[str, int]:
    """What the check after an erasure finds in each place; `mentions` counts other texts that contain an id."""
    among_ids = {"$in": list(erased.ids)}
    rows = {"row": {"$in": [row_number(row) for row in erased.rows.values()]}}
    memories = database.memories
    counts = {
        "text": await memories.count_documents({**rows, "lexemes": {"$exists": True, "$ne": []}}),
        "links": await database.links.count_documents(
            {"$or": [{"origin": among_ids}, {"target": among_ids}]}
        ),
        "versions": await database.versions.count_documents({"memory": among_ids}),
        "vectors": await memories.count_documents({**rows, "embedded_by": {"$type": "string"}}),
        "memories": await memories.count_documents({"$or": [rows, {"_id": among_ids}]}),
    }
    if not erased.references:
        return counts
    counts["jobs"] = await _mentions(database, JOBS, "payload result error key".split(), erased.ids)
    counts["references"] = await memories.count_documents({"refers": among_ids})
    counts["mentions"] = await memories.count_documents(
        {"$or": [{"lexemes": among_ids}, {"conversation": among_ids}]}
    )
    for collection, fields in _TEXTS.items():
        counts["mentions"] += await _mentions(database, collection, fields, erased.ids)
    return counts


async def _mentions(database: MongoDatabase, collection: str, fields: list[str], ids: tuple[str, ...]) -> int:
    """The number of documents that contain an id; the common prefix of the ids excludes most of them at once."""
    likely = {"$or": [{name: _naming(ids)} for name in fields]}
    cursor = database.database[collection].find(likely, dict.fromkeys(fields, 1))
    texts = [" ".join(texts_in([document.get(name) for name in fields])) async for document in cursor]
    return mentions(texts, frozenset(ids))


def _naming(ids: tuple[str, ...]) -> Document:
    return {"$regex": re.escape(beginning(ids).replace("\x00", ""))}


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
