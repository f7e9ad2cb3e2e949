"""Forgetting for good, and looking again."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mindhold.ports.store import Receipt
from mindhold.stores.mongo.connection import PATIENT, Database, Part
from mindhold.stores.mongo.rows import Document, metadata_document, metadata_of, references, row_number
from mindhold.stores.mongo.steps import (
    CURSORS,
    ENTRIES,
    JOBS,
    LINKS,
    MEMORIES,
    METADATA,
    TOMBSTONES,
    VERSIONS,
    Step,
)
from mindhold.stores.references import beginning, entry_left, job_left, mentions, without

# Texts in which a second look searches for an id, besides what is indexed.
_TEXTS = {
    VERSIONS: "content topic tags keywords".split(),
    CURSORS: "_id value".split(),
    METADATA: "scope_name description related_keywords".split(),
    ENTRIES: "key value".split(),
}


@dataclass(frozen=True, slots=True)
class _Erased:
    ids: tuple[str, ...]
    found: frozenset[str]
    rows: tuple[int, ...]
    removed: dict[str, int] = field(default_factory=dict)


class ErasePart(Part):
    """Records.erase()."""

    async def erase(self, ids: Sequence[str], *, references: bool = True) -> Receipt:
        wanted = tuple(dict.fromkeys(ids))
        erased = await self._database.write(
            lambda step: _erase(step, wanted, with_references=references), patience=PATIENT
        )
        remaining = await self._database.read(
            lambda: _remaining(self._database, erased, with_references=references), patience=PATIENT
        )
        found = tuple(memory_id for memory_id in wanted if memory_id in erased.found)
        return Receipt(ids=found, removed=erased.removed, remaining=remaining)


async def _erase(step: Step, ids: tuple[str, ...], *, with_references: bool) -> _Erased:
    named = {"$in": list(ids)}
    records = await step.find(
        MEMORIES, {"_id": named}, {"row": 1, "embedded_by": 1, "lexemes": {"$slice": 1}}
    )
    touching = {"$or": [{"origin": named}, {"target": named}]}
    removed = {
        "text": sum(bool(record["lexemes"]) for record in records),
        "links": await step.count(LINKS, touching),
        "versions": await step.count(VERSIONS, {"memory": named}),
        "vectors": sum(record["embedded_by"] is not None for record in records),
        "memories": len(records),
    }
    # First what tells indexes in memory that rows are gone.
    for record in records:
        step.put(TOMBSTONES, row_number(record["row"]), {})
    if removed["links"]:
        step.remove(LINKS, touching)
    if removed["versions"]:
        step.remove(VERSIONS, {"memory": named})
    if with_references:
        removed["jobs"], removed["references"] = await _drop_references(step, ids)
    if records:
        step.remove(MEMORIES, {"_id": named})
        step.added -= len(records)
    return _Erased(
        ids, frozenset(one["_id"] for one in records), tuple(one["row"] for one in records), removed
    )


async def _drop_references(step: Step, ids: tuple[str, ...]) -> tuple[int, int]:
    """Drop jobs that are about one of the ids, and take the ids out of what else refers to them."""
    gone, dropped = frozenset(ids), 0
    changed = await _leave_out_of_records(step, gone)
    naming = _naming(ids)
    for job in await step.find(JOBS, {"$or": [{"payload": naming}, {"result": naming}]}):
        payload, result = json.loads(job["payload"]), json.loads(job["result"] or "null")
        left = job_left(payload, result, gone)
        if left is not None and left.dropped:
            step.remove(JOBS, {"_id": job["_id"]})
            dropped += 1
        elif left is not None:
            fields = {
                "payload": _text(left.payload),
                "result": None if left.result is None else _text(left.result),
            }
            step.change(JOBS, {"_id": job["_id"], "payload": job["payload"]}, {"$set": fields})
            changed += 1
    for entry in await step.find(ENTRIES, {"$or": [{"key": naming}, {"value": naming}]}):
        if entry["key"] in gone:
            step.remove(ENTRIES, {"_id": entry["_id"]})
            changed += 1
        elif (value := entry_left(json.loads(entry["value"]), gone)) is not None:
            unchanged = {"_id": entry["_id"], "value": entry["value"]}  # somebody may have put another since
            step.change(ENTRIES, unchanged, {"$set": {"value": _text(value)}})
            changed += 1
    return dropped, changed


async def _leave_out_of_records(step: Step, gone: frozenset[str]) -> int:
    where = {"refers": {"$in": list(gone)}, "_id": {"$nin": list(gone)}}
    fields = {"supersedes": 1, "merged_from": 1, "metadata": 1}
    found = await step.find(MEMORIES, where, fields)
    for record in found:
        supersedes = None if record["supersedes"] in gone else record["supersedes"]
        merged_from = without(record["merged_from"], gone)[0] or []
        metadata: dict[str, Any] = without(metadata_of(record["metadata"]), gone)[0] or {}
        left = {
            "supersedes": supersedes,
            "merged_from": merged_from,
            "metadata": metadata_document(metadata),
            "refers": references(supersedes, merged_from, metadata),
        }
        step.change_record(record["_id"], {"$set": left})
    return len(found)


async def _remaining(database: Database, erased: _Erased, *, with_references: bool) -> dict[str, int]:
    """What a second look finds in each place; `mentions` counts texts elsewhere in which an id stands."""
    named = {"$in": list(erased.ids)}
    rows = {"row": {"$in": [row_number(row) for row in erased.rows]}}
    memories = database.memories
    found = {
        "text": await memories.count_documents({**rows, "lexemes": {"$exists": True, "$ne": []}}),
        "links": await database.links.count_documents({"$or": [{"origin": named}, {"target": named}]}),
        "versions": await database.versions.count_documents({"memory": named}),
        "vectors": await memories.count_documents({**rows, "embedded_by": {"$type": "string"}}),
        "memories": await memories.count_documents({"$or": [rows, {"_id": named}]}),
    }
    if not with_references:
        return found
    found["jobs"] = await _mentions(database, JOBS, "payload result error key".split(), erased.ids)
    found["references"] = await memories.count_documents({"refers": named})
    found["mentions"] = await memories.count_documents({"$or": [{"lexemes": named}, {"conversation": named}]})
    for collection, fields in _TEXTS.items():
        found["mentions"] += await _mentions(database, collection, fields, erased.ids)
    return found


async def _mentions(database: Database, collection: str, fields: list[str], ids: tuple[str, ...]) -> int:
    """In how many documents an id stands; what the ids begin with alike tells most of them apart at once."""
    likely = {"$or": [{name: _naming(ids)} for name in fields]}
    cursor = database.database[collection].find(likely, dict.fromkeys(fields, 1))
    return mentions([_joined(document, fields) async for document in cursor], frozenset(ids))


def _joined(document: Document, fields: list[str]) -> str:
    values = [document.get(name) for name in fields]
    return " ".join(" ".join(value) if isinstance(value, list) else str(value) for value in values if value)


def _naming(ids: tuple[str, ...]) -> Document:
    return {"$regex": re.escape(beginning(ids).replace("\x00", ""))}


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
