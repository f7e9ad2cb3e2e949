"""Links between memories, their earlier versions, and scopes."""

from __future__ import annotations

from collections.abc import Sequence

from mindhold.model.memory import Link, Relation, Version
from mindhold.model.query import Filter
from mindhold.model.scope import Scope
from mindhold.stores.base import check_droppable, check_empty, check_new_name, check_parent
from mindhold.stores.mongo.connection import PATIENT, MongoDatabase, MongoPart
from mindhold.stores.mongo.rows import COLUMNS, Document, Query, all_of, matching, visible
from mindhold.stores.mongo.transactions import MEMORIES, METADATA, MongoStep

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
            while some := await cursor.to_list(_TOGETHER):
                end_ids = {end for link in some for end in (link["origin"], link["target"])}
                matching_ids = await _among(self._database, list(end_ids), condition)
                count += sum(
                    link["origin"] in matching_ids and link["target"] in matching_ids for link in some
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
        await self._database.write(lambda step: _put(step, scope))

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


async def _put(step: MongoStep, scope: Scope) -> None:
    check_parent(await _all(step), scope)
    step.put(METADATA, scope_key(scope.name), scope_document(scope))


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
