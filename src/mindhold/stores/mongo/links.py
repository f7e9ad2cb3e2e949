"""Edges between memories, and their earlier versions."""

from __future__ import annotations

from collections.abc import Sequence

from mindhold.model.link import Link, Relation
from mindhold.model.memory import Kind, Tier, Version
from mindhold.model.query import Filter
from mindhold.stores.mongo.connection import Database, Part
from mindhold.stores.mongo.filters import Query, all_of, matching, visible
from mindhold.stores.mongo.rows import Document, metadata_of
from mindhold.stores.values import from_micros

_TOGETHER = 1_000


class LinksPart(Part):
    """The Links protocol."""

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
            found = await self._database.links.find(where).to_list()
            named = {end for link in found for end in (link["origin"], link["target"])}
            seen = await _among(self._database, list(named), visible(viewer))
            return [link for link in found if link["origin"] in seen and link["target"] in seen]

        found = [link_of(link) for link in await self._database.read(work)]
        return sorted(found, key=lambda link: (link.created, link.origin, link.target, link.relation))

    async def count_links(self, where: Filter) -> int:
        condition = matching(where)

        async def work() -> int:
            count = 0
            cursor = self._database.links.find({}, {"origin": 1, "target": 1}).batch_size(_TOGETHER)
            while some := await cursor.to_list(_TOGETHER):
                named = {end for link in some for end in (link["origin"], link["target"])}
                there = await _among(self._database, list(named), condition)
                count += sum(link["origin"] in there and link["target"] in there for link in some)
            return count

        return await self._database.read(work)

    async def versions_of(self, memory_id: str, *, latest: int | None = None) -> list[Version]:
        async def work() -> list[Version]:
            kept = self._database.versions.find({"memory": memory_id}).sort("number", -1).limit(latest or 0)
            return [version_of(document) for document in await kept.to_list()][::-1]

        return await self._database.read(work)

    async def versions_among(self, ids: Sequence[str]) -> dict[str, list[Version]]:
        async def work() -> dict[str, list[Version]]:
            found: dict[str, list[Version]] = {}
            kept = self._database.versions.find({"memory": {"$in": list(ids)}}).sort(
                [("memory", 1), ("number", 1)]
            )
            async for document in kept:
                found.setdefault(document["memory"], []).append(version_of(document))
            return found

        return await self._database.read(work)


async def _among(database: Database, ids: list[str], condition: Query) -> set[str]:
    """Which of these records match."""
    cursor = database.memories.find(all_of({"_id": {"$in": ids}}, condition), {"_id": 1})
    return {document["_id"] for document in await cursor.to_list()}


def link_of(document: Document) -> Link:
    return Link(
        origin=document["origin"],
        target=document["target"],
        relation=Relation(document["relation"]),
        created=from_micros(document["created"]),
        weight=document["weight"],
        automatic=document["automatic"],
    )


def version_of(document: Document) -> Version:
    return Version(
        memory_id=document["memory"],
        number=document["number"],
        content=document["content"],
        kind=Kind(document["kind"]),
        topic=document["topic"],
        tags=tuple(document["tags"]),
        keywords=tuple(document["keywords"]),
        importance=document["importance"],
        anchor=document["anchor"],
        occurred=from_micros(document["occurred"]),
        tier=Tier(document["tier"]),
        metadata=metadata_of(document["metadata"]),
        amended=from_micros(document["amended"]),
        amended_by=document["amended_by"],
    )
