"""Health of the database: facts, integrity checks, and repair of derived data."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from mindhold.ports.store import Clock, Receipt, StoreFacts, StoreFinding
from mindhold.stores.columns import phrase_forms
from mindhold.stores.mongo import schema
from mindhold.stores.mongo.connection import PATIENT, MongoDatabase, MongoPart
from mindhold.stores.mongo.rows import Document, exact_of
from mindhold.stores.mongo.schema import INDEXES, SCHEMA, VIEWS, mark_messages, start_upkeep_fields
from mindhold.stores.mongo.search import INDEX, MongoVectorIndexes
from mindhold.stores.mongo.transactions import LINKS, MEMORIES, STATE, VERSIONS, MongoStep
from mindhold.stores.vectors import decode, encode, same_code

_ENDS = {VERSIONS: ["memory"], LINKS: ["origin", "target"]}  # fields that refer to a record
_VECTOR = {"embedding": 1, "code": 1, "embedded_by": 1}

# Fields with text, to check whether a phrase is gone.
_TEXTS = {
    MEMORIES: "content topic tags keywords keyword_forms source file conversation".split(),
    VERSIONS: "content topic tags keywords".split(),
    "jobs": "payload result error".split(),
    "entries": "key value".split(),
}


class MongoUpkeep(MongoPart):
    """Implements StoreAdmin."""

    _embedded: bool
    _clock: Clock

    async def facts(self) -> StoreFacts:
        database = self._database

        async def work() -> StoreFacts:
            sizes = await database.database.command("dbStats")
            state = await database.metadata.find_one(STATE) or {}
            build = await database.database.command("buildInfo")
            indexes = MongoVectorIndexes(database)
            await indexes.look()
            return StoreFacts(
                kind="mongodb",
                location=database.place,
                schema_version=int(state["schema"]),
                bytes_used=int(sizes["storageSize"] + sizes["indexSize"]) or int(sizes["dataSize"]) or 1,
                details={
                    "server": build["version"],
                    "mode": "embedded" if self._embedded else "external",
                    "database": database.name,
                    "replica_set": database.server.get("setName", ""),
                    "transactions": database.transactions,
                    "collection_name": MEMORIES,
                    "total_memories": state["total_memories"],
                    "data_bytes": int(sizes["dataSize"]),
                },
                collection=MEMORIES,
                vector_index=INDEX
                if indexes.offered
                else "resident",  # "resident": in the memory of each process
            )

        return await database.ask(work)

    async def check(self) -> list[StoreFinding]:
        return await self._database.unchanged(lambda: _findings(self._database), patience=PATIENT)

    async def repair(self) -> list[str]:
        database = self._database
        # Before the step: building an index would wait for a transaction that has written to the collection.
        actions = await database.ask(lambda: _make_missing(database), patience=PATIENT)
        noted = await database.ask(lambda: schema.renew(database), patience=PATIENT)
        actions.append(f"Noted the keywords of {noted} memories anew.")
        orphans, stale = await database.read(lambda: _wrong(database), patience=PATIENT)
        return actions + await database.write(
            lambda step: _mend(database, step, orphans, stale), patience=PATIENT
        )

    async def optimise(self) -> int:
        async def work() -> int:
            await start_upkeep_fields(self._database, self._clock())
            await mark_messages(self._database)
            return await self._compact([MEMORIES])

        return await self._database.ask(work, patience=PATIENT)

    async def scrub(self, phrases: Sequence[str] = ()) -> Receipt:
        """Search every document for the phrases. The server's files are out of reach."""

        async def work() -> Receipt:
            freed = await self._compact(INDEXES)
            remaining = {place: await _saying(self._database, place, phrases) for place in _TEXTS}
            return Receipt(ids=(), removed={"bytes": freed}, remaining=remaining)

        return await self._database.ask(work, patience=PATIENT)

    async def _compact(self, collections: Iterable[str]) -> int:
        """Compact collections of a standalone server; a replica set is left to its administrators.

        Returns the number of freed bytes.
        """
        database = self._database.database
        before = await database.command("dbStats")
        for name in () if self._database.transactions else collections:
            await database.command("compact", name)
        after = await database.command("dbStats")
        return max(0, int(before["storageSize"] - after["storageSize"]))


async def _findings(database: MongoDatabase) -> list[StoreFinding]:
    state = await database.metadata.find_one(STATE) or {}
    memories = await database.memories.count_documents({})
    embedded = await database.memories.count_documents({"embedded_by": {"$type": "string"}})
    missing = [name for name in INDEXES if await _lacks_an_index(database, name)]
    expected_views = () if database.prefix else VIEWS  # views belong to the store in use
    views = set(expected_views) - set(await database.database.list_collection_names())
    orphans = {name: await _orphans(database, name) for name in _ENDS}
    stale = sum([len(_stale(batch)) async for batch in _vectors(database)])
    words = await schema.count_wrong(database)
    return [
        StoreFinding("schema", state.get("schema") == SCHEMA, f"version {state.get('schema')}"),
        StoreFinding(
            "journal",
            not state.get("pending"),
            "no change is half made" if not state.get("pending") else "a change waits",
        ),
        StoreFinding.derived("indexes", missing, f"missing in {', '.join(missing)}", "all there"),
        StoreFinding.derived("views", views, f"missing: {', '.join(sorted(views))}", "all there"),
        StoreFinding.derived(
            "counts",
            state.get("total_memories") != memories,
            f"{memories} memories, {state.get('total_memories')} counted",
        ),
        *(
            StoreFinding.derived(f"{name} rows", lost, f"{len(lost)} belong to no memory")
            for name, lost in orphans.items()
        ),
        StoreFinding.derived(
            "vectors",
            stale,
            f"{embedded} of {memories} memories have one" + (f"; {stale} codes don't fit" if stale else ""),
        ),
        StoreFinding.derived(
            "keywords",
            words,
            f"{words} memories are found by others than theirs",
            "they agree with the memories",
        ),
    ]


async def _wrong(database: MongoDatabase) -> tuple[dict[str, list[Any]], list[str]]:
    """The ids of documents that belong to no record, by collection, and of records with wrong vector fields."""
    orphans = {name: await _orphans(database, name) for name in _ENDS}
    return orphans, [memory_id async for batch in _vectors(database) for memory_id in _stale(batch)]


async def _make_missing(database: MongoDatabase) -> list[str]:
    actions = []
    for name, indexes in INDEXES.items():
        if indexes and await _lacks_an_index(database, name):
            await database.database[name].create_indexes(indexes)
            actions.append(f"Made the indexes of {name}.")
    if not database.prefix:  # views belong to the store in use
        views = await schema.make_views(database.database, await database.database.list_collection_names())
        actions += [f"Made the view {name}." for name in views]
    return actions


async def _mend(
    database: MongoDatabase, step: MongoStep, orphans: dict[str, list[Any]], stale_ids: list[str]
) -> list[str]:
    """Repair what was found, checking it again: it may have changed since."""
    actions = []
    for name, ids in orphans.items():
        still = await _still_lost(step, name, ids) if ids else []
        if still:
            step.remove(name, {"_id": {"$in": still}})
        actions.append(f"Dropped {len(still)} documents of {name} that belonged to no memory.")
    stale = _stale(await step.find(MEMORIES, {"_id": {"$in": stale_ids}}, _VECTOR)) if stale_ids else {}
    for memory_id, fields in stale.items():
        step.change_record(memory_id, {"$set": fields})
    actions.append(f"Made {len(stale)} vector codes anew.")
    state = await database.metadata.find_one(STATE) or {}
    step.added = await database.memories.count_documents({}) - int(state["total_memories"])
    if step.added and not step.operations:
        # A step is counted only if it has operations.
        step.change(MEMORIES, {"_id": None}, {"$set": {"live": True}})
    return actions


async def _lacks_an_index(database: MongoDatabase, name: str) -> bool:
    present = await database.database[name].index_information() if INDEXES[name] else {}
    return not {index.document["name"] for index in INDEXES[name]} <= set(present)


async def _still_lost(step: MongoStep, name: str, ids: list[Any]) -> list[Any]:
    documents = await step.find(name, {"_id": {"$in": ids}}, dict.fromkeys(_ENDS[name], 1))
    memory_ids = {document[end] for document in documents for end in _ENDS[name]}
    existing_ids = {
        document["_id"]
        for document in await step.find(MEMORIES, {"_id": {"$in": list(memory_ids)}}, {"_id": 1})
    }
    return [
        document["_id"]
        for document in documents
        if any(document[end] not in existing_ids for end in _ENDS[name])
    ]


async def _orphans(database: MongoDatabase, name: str) -> list[Any]:
    """Documents that refer to a missing record."""
    ends = _ENDS[name]
    joined: list[Document] = [
        {
            "$lookup": {
                "from": database.memories.name,
                "localField": end,
                "foreignField": "_id",
                "as": f"of_{end}",
            }
        }
        for end in ends
    ]
    pipeline = [*joined, {"$match": {"$or": [{f"of_{end}": []} for end in ends]}}, {"$project": {"_id": 1}}]
    return [document["_id"] async for document in await database.database[name].aggregate(pipeline)]


def _vectors(database: MongoDatabase) -> AsyncIterator[list[Document]]:
    """The records that have a vector or name its model."""
    where = {"$or": [{"embedded_by": {"$type": "string"}}, {"embedding": {"$ne": None}}]}
    return database.pages(where, _VECTOR)


def _stale(batch: list[Document]) -> dict[str, Document]:
    """The correct fields of vectors whose fields don't match each other."""
    wrong: dict[str, Document] = {}
    for document in batch:
        if document["embedding"] is None or document["embedded_by"] is None:
            wrong[document["_id"]] = {"embedding": None, "code": None, "embedded_by": None}
            continue
        fresh = encode(decode(exact_of(document["embedding"])))[1]
        if not same_code(document["code"] or b"", fresh):
            wrong[document["_id"]] = {"code": fresh}
    return wrong


async def _saying(database: MongoDatabase, place: str, phrases: Sequence[str]) -> int:
    """The number of documents with one of the phrases, as given or in Unicode's composed form."""
    forms = phrase_forms(phrases)
    conditions = [
        {name: {"$regex": re.escape(form)}} for form in forms for name in _TEXTS[place] if "\x00" not in form
    ]
    return await database.database[place].count_documents({"$or": conditions}) if conditions else 0
