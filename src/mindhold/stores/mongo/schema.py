"""Collections, indexes, views and first documents, created at first use; the keyword field; swapping collections at a restore."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from datetime import datetime
from typing import Any

from pymongo import ASCENDING, DESCENDING, IndexModel, UpdateOne
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import CollectionInvalid, DuplicateKeyError, OperationFailure

from mindhold.model.errors import SchemaTooNew, StoreError
from mindhold.model.lexemes import keyword_forms
from mindhold.model.memory import LOG_DIALECT, PART_KEY, Kind
from mindhold.model.scope import GLOBAL, Scope
from mindhold.stores.columns import to_micros
from mindhold.stores.mongo.connection import MongoDatabase
from mindhold.stores.mongo.records import scope_document, scope_key
from mindhold.stores.mongo.rows import TURNS, Document
from mindhold.stores.mongo.transactions import (
    CURSORS,
    DURABLE,
    ENTRIES,
    JOBS,
    JOURNAL,
    LINKS,
    MEMORIES,
    METADATA,
    STATE,
    TOMBSTONES,
    VERSIONS,
)


async def count_wrong(database: MongoDatabase) -> int:
    """The number of records whose keyword forms are wrong."""
    return sum([len(wrong) async for wrong in _wrong(database)])


async def renew(database: MongoDatabase) -> int:
    """Correct the keyword forms. Returns how many were wrong. A concurrent change of a record wins."""
    corrected = 0
    async for wrong in _wrong(database):
        corrected += len(wrong)
        updates = [
            UpdateOne(
                {"_id": document["_id"], "keywords": document["keywords"]},
                {"$set": {"keyword_forms": list(keyword_forms(document["keywords"]))}},
            )
            for document in wrong
        ]
        if updates:
            await database.memories.bulk_write(updates, ordered=False)
    return corrected


async def _wrong(database: MongoDatabase) -> AsyncIterator[list[Document]]:
    async for batch in database.pages({}, {"keywords": 1, "keyword_forms": 1}):
        yield [
            document
            for document in batch
            if document.get("keyword_forms") != list(keyword_forms(document["keywords"]))
        ]


SWAP = "swap"  # a collection with one document while a swap is under way
COLLECTIONS = (MEMORIES, VERSIONS, LINKS, JOBS, CURSORS, ENTRIES, TOMBSTONES, JOURNAL)
_KEY = {"_id": "swap"}
_GONE, _THERE = 26, 48  # error codes if another process renamed or created a collection first


async def begin_swap(database: AsyncDatabase[Document], *, new: str, aside: str) -> None:
    """Begin a swap. From here on the collections with the prefix `new` are the store, whoever finishes it."""
    written = database[SWAP].with_options(write_concern=DURABLE)
    await written.replace_one(_KEY, {"new": new, "aside": aside}, upsert=True)


async def finish_swap(database: AsyncDatabase[Document]) -> bool:
    """Finish a swap. Returns whether there was one. Each step may have been done before."""
    swap = await database[SWAP].find_one(_KEY)
    if swap is None:
        return False
    new, aside = swap["new"], swap["aside"]
    existing = set(await database.list_collection_names())
    # The state is moved away first and back last, so that nobody takes a half-moved store for a whole one.
    for name in (METADATA, *COLLECTIONS):
        if name in existing and new + name in existing and aside + name not in existing:
            await _rename(database, name, aside + name)
    for name in (*COLLECTIONS, METADATA):
        if new + name in existing:
            await _rename(database, new + name, name, over=aside + name in existing)
    await database[SWAP].drop()
    return True


async def _rename(database: AsyncDatabase[Document], old: str, name: str, *, over: bool = False) -> None:
    """Rename a collection, replacing with `over` one that was created while the swap stood still."""
    options: dict[str, Any] = {"dropTarget": True} if over else {}
    try:
        await database[old].rename(name, **options)
    except OperationFailure as error:
        if error.code not in (_GONE, _THERE):
            raise


SCHEMA = 4
_LIVES = 2  # from this version on records have a review date, and keywords their forms
_TURNS = 4  # from this version on messages are marked


def _index(*keys: str, **options: Any) -> IndexModel:
    """An index; a minus before a field makes its order descending."""
    directed = [(key.lstrip("-"), DESCENDING if key.startswith("-") else ASCENDING) for key in keys]
    return IndexModel(directed, **options)


def _where(**condition: Any) -> dict[str, Any]:
    return {"partialFilterExpression": condition}


INDEXES = {
    MEMORIES: [
        _index("row", unique=True),
        _index("revision"),
        # Full text: one key for each word of a record. It finds the rows of a word without reading records.
        _index("lexemes", "row"),
        _index("content_hash", "scope", "agent", unique=True, **_where(live=True)),
        _index("gist", "scope", "agent", **_where(gist={"$gt": ""})),
        _index("occurred", "_id"),
        _index("importance", "_id"),
        _index("scope", "status", "occurred", "_id"),
        _index("kind", "status", "occurred", "_id"),
        _index("conversation", "position", **_where(conversation={"$gt": ""})),
        _index("conversation", "occurred", **_where(conversation={"$gt": ""})),
        _index("tags_folded"),
        _index("topic_folded", **_where(topic_folded={"$gt": ""})),
        _index("refers"),
        _index("embedded_by", "status"),
        _index("importance", "_id", name="anchors", **_where(anchor=True)),
        _index("keyword_forms"),
        _index("review", "_id"),
        _index("updated", "_id"),
        _index("verified", "occurred", "_id"),
        _index("examined", "occurred", "_id"),
        # Messages of project logs, counted without reading records.
        _index(*"turn scope status agent embedded_by trust".split(), name=TURNS, **_where(turn=True)),
    ],
    METADATA: [
        _index("scope_name", unique=True, **_where(type="scope")),
        _index("parent_scope", **_where(type="scope")),
    ],
    VERSIONS: [_index("memory", "number")],
    LINKS: [_index("origin"), _index("target")],
    JOBS: [
        _index("key", unique=True, **_where(state="waiting", key={"$type": "string"})),
        _index("state", "due", "_id"),
        _index("created", "_id"),
    ],
    ENTRIES: [_index("drawer", "key", unique=True), _index("drawer", "created"), _index("expires")],
    TOMBSTONES: [_index("revision")],
    CURSORS: [],
    JOURNAL: [],
}

_ACTIVE = {"status": "active"}  # views show active memories, not forgotten, replaced or quarantined ones
_IS_TURN = {
    **_ACTIVE,
    "kind": "episode",
    "conversation": {"$type": "string"},
    "metadata.message_type": {"$exists": True},
}
_IS_SUMMARY = {
    **_ACTIVE,
    "$or": [{"source": {"$in": ["end of conversation", "summary"]}}, {"kind": "context"}],
}


def _date(field: str) -> Document:
    return {"$toDate": {"$toLong": {"$divide": [field, 1000]}}}


def _named(kind: Document) -> Document:
    """A topic with its latest record, of the records that match."""
    pair = {"k": {"$cond": [{"$eq": ["$topic", ""]}, "$_id", "$topic"]}, "v": "$content"}
    return {"$push": {"$cond": [kind, pair, "$$REMOVE"]}}


VIEWS: dict[str, list[Document]] = {
    "ConversationHistory": [
        {"$match": _IS_TURN},
        {
            "$project": {
                "conversation_id": "$conversation",
                "timestamp": _date("$occurred"),
                "speaker": "$metadata.message_type",
                "text": "$content",
                "scope": 1,
                "tags": 1,
                "embedding": 1,
            }
        },
    ],
    "Summaries": [
        {"$match": _IS_SUMMARY},
        {
            "$project": {
                "conversation_id": "$conversation",
                "topic_id": "$topic",
                "summary_text": "$content",
                "time_range": {"from": _date("$occurred"), "to": _date("$updated")},
                "message_refs": "$merged_from",
                "scope": 1,
                "tags": 1,
                "embedding": 1,
            }
        },
    ],
    "UserProfile": [
        {"$match": {**_ACTIVE, "$or": [{"kind": "preference"}, {"kind": "fact", "anchor": True}]}},
        {"$sort": {"occurred": 1}},
        {
            "$group": {
                "_id": "$agent",
                "preferences": _named({"$eq": ["$kind", "preference"]}),
                "facts": _named({"$eq": ["$kind", "fact"]}),
                "notes": {"$push": "$content"},
            }
        },
        {
            "$project": {
                "user_id": "$_id",
                "preferences": {"$arrayToObject": "$preferences"},
                "facts": {"$arrayToObject": "$facts"},
                "notes": 1,
            }
        },
    ],
    "MemoryIndex": [
        {"$match": {**_ACTIVE, "embedded_by": {"$type": "string"}}},
        {
            "$project": {
                "embedding": 1,
                "source_collection": MEMORIES,
                "source_id": "$_id",
                "scope": 1,
                "metadata": {
                    "timestamp": _date("$occurred"),
                    "tags": "$tags",
                    "kind": "$kind",
                    "model": "$embedded_by",
                },
            }
        },
    ],
}


async def prepare(database: MongoDatabase, *, clock: Callable[[], datetime]) -> None:
    """Create what is missing; safe if others do so at the same time. Raises SchemaTooNew."""
    if not database.prefix:
        await finish_swap(database.database)
    state = await database.metadata.find_one(STATE, {"schema": 1})
    version = 0 if state is None else int(state["schema"])
    if version > SCHEMA:
        raise SchemaTooNew(
            f"MongoDB at {database.place} has schema {version}; this Mindhold knows up to {SCHEMA}.",
            advice="Upgrade Mindhold, as whoever wrote it did.",
        )
    if version == SCHEMA:
        return
    await _try_a_round_trip(database)
    existing = set(await database.database.list_collection_names())
    for name, indexes in INDEXES.items():
        if name not in existing:
            await _created(database.database, name)
        if indexes:
            await database.database[name].create_indexes(indexes)
    if not database.prefix:  # otherwise they come with the swap
        await make_views(database.database, existing)
    now = clock()
    if 0 < version < _LIVES:  # if interrupted, it continues at the next opening
        await start_upkeep_fields(database, now)
        await renew(database)
    if 0 < version < _TURNS:
        await mark_messages(database)
    scope = scope_document(Scope(GLOBAL, now))
    await _first(database, {"_id": scope_key(GLOBAL)}, scope)
    first = {"type": "stats", "schema": SCHEMA, "revision": 0, "row": 0, "total_memories": 0, "recent": []}
    await _first(database, STATE, first)
    await database.metadata.update_one({**STATE, "schema": {"$lt": SCHEMA}}, {"$set": {"schema": SCHEMA}})


async def make_views(database: AsyncDatabase[Document], there: Collection[str]) -> list[str]:
    """Create the views that are not there yet. Returns their names."""
    missing = [name for name in VIEWS if name not in there]
    for name in missing:
        await _created(database, name, viewOn=MEMORIES, pipeline=VIEWS[name])
    return missing


async def mark_messages(database: MongoDatabase) -> None:
    """Mark the messages of project logs that a process of an earlier schema wrote."""
    unmarked = {
        "dialect": LOG_DIALECT,
        "kind": Kind.EPISODE.value,
        "turn": {"$exists": False},
        f"metadata.{PART_KEY}": {"$exists": False},
    }
    await database.memories.update_many(unmarked, {"$set": {"turn": True}})


async def start_upkeep_fields(database: MongoDatabase, now: datetime) -> None:
    """Make upkeep see records that a process of the first schema wrote, even after the schema changed; they fade from now on.

    They count as judged and compared, so that the past is neither sent to a model nor processed in one night.
    """
    fields = dict.fromkeys(("review", "decayed", "verified", "examined"), to_micros(now))
    await database.memories.update_many({"review": {"$exists": False}}, {"$set": fields})


async def _created(database: AsyncDatabase[Document], name: str, **options: Any) -> None:
    try:
        await database.create_collection(name, **options)
    except CollectionInvalid:
        pass  # another process was faster
    except OperationFailure as error:
        if error.code != _THERE:
            raise


async def _first(database: MongoDatabase, key: Document, document: Document) -> None:
    with suppress(DuplicateKeyError):  # another process was faster
        await database.metadata.update_one(key, {"$setOnInsert": document}, upsert=True)


async def _try_a_round_trip(database: MongoDatabase) -> None:
    """Write, read and remove a document, so that missing privileges show now and not later."""
    word = secrets.token_hex(8)
    probe = {"_id": f"round trip {word}"}
    await database.metadata.insert_one({**probe, "type": "probe", "word": word})
    stored = await database.metadata.find_one(probe)
    await database.metadata.delete_one(probe)
    if stored is None or stored["word"] != word:
        raise StoreError(f"MongoDB at {database.place} doesn't give back what was written.")
