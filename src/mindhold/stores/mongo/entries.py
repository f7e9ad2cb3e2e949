"""Small keyed values that may expire."""

from __future__ import annotations

from datetime import datetime

from mindhold.model.entry import Entry
from mindhold.stores.mongo.connection import Part
from mindhold.stores.mongo.rows import Document
from mindhold.stores.values import (
    from_mapping_json,
    from_micros,
    from_optional_micros,
    mapping_json,
    to_micros,
    to_optional_micros,
)


class EntriesPart(Part):
    """The Entries protocol. Values are JSON, for no query looks into them."""

    async def put_entry(self, entry: Entry) -> None:
        fields = {
            "value": mapping_json(entry.value),
            "created": to_micros(entry.created),
            "expires": to_optional_micros(entry.expires),
        }
        key = {"drawer": entry.drawer, "key": entry.key}
        await self._database.ask(
            lambda: self._database.entries.update_one(key, {"$set": fields}, upsert=True)
        )

    async def entry(self, drawer: str, key: str, *, now: datetime) -> Entry | None:
        where = {"drawer": drawer, "key": key, **_alive(now)}
        found = await self._database.ask(lambda: self._database.entries.find_one(where))
        return None if found is None else entry_of(found)

    async def take_entry(self, drawer: str, key: str, *, now: datetime) -> Entry | None:
        where = {"drawer": drawer, "key": key, **_alive(now)}
        taken = await self._database.ask(lambda: self._database.entries.find_one_and_delete(where))
        return None if taken is None else entry_of(taken)

    async def entries(self, drawer: str, *, now: datetime, limit: int = 1000) -> list[Entry]:
        if limit <= 0:
            return []
        newest = [("created", -1), ("_id", -1)]
        where = {"drawer": drawer, **_alive(now)}
        found = await self._database.ask(
            lambda: self._database.entries.find(where).sort(newest).limit(limit).to_list()
        )
        return [entry_of(document) for document in found]

    async def drop_entry(self, drawer: str, key: str) -> bool:
        where = {"drawer": drawer, "key": key}
        dropped = await self._database.ask(lambda: self._database.entries.delete_one(where))
        return dropped.deleted_count > 0

    async def drop_expired(self, now: datetime) -> int:
        where = {"expires": {"$lte": to_micros(now)}}
        dropped = await self._database.ask(lambda: self._database.entries.delete_many(where))
        return dropped.deleted_count


def _alive(now: datetime) -> Document:
    return {"$or": [{"expires": None}, {"expires": {"$gt": to_micros(now)}}]}


def entry_of(document: Document) -> Entry:
    return Entry(
        drawer=document["drawer"],
        key=document["key"],
        value=from_mapping_json(document["value"]),
        created=from_micros(document["created"]),
        expires=from_optional_micros(document["expires"]),
    )
