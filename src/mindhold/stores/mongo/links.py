"""Links between memories, their earlier versions, and scopes."""

from __future__ import annotations

from collections.abc import Sequence

from mindhold.model.errors import Conflict, ScopeNotFound
from mindhold.model.memory import Kind, Link, Relation, Tier, Version
from mindhold.model.query import Filter
from mindhold.model.scope import GLOBAL, Scope
from mindhold.stores.mongo.connection import PATIENT, MongoDatabase, MongoPart
from mindhold.stores.mongo.rows import Document, Query, all_of, matching, metadata_of, visible
from mindhold.stores.mongo.transactions import MEMORIES, METADATA, MongoStep
from mindhold.stores.values import from_micros, to_micros

_TOGETHER = 1_000


class MongoLinks(MongoPart):
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


async def _among(database: MongoDatabase, ids: list[str], condition: Query) -> set[str]:
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


SCOPES = {"type": "scope"}


class MongoScopes(MongoPart):
    """The Scopes protocol."""

    async def scopes(self) -> list[Scope]:
        found = await self._database.read(
            lambda: self._database.metadata.find(SCOPES).sort("scope_name", 1).to_list()
        )
        return [scope_of(document) for document in found]

    async def put_scope(self, scope: Scope) -> None:
        await self._database.write(lambda step: _put(step, scope))

    async def rename_scope(self, old: str, new: str) -> None:
        await self._database.write(lambda step: _rename(step, old, new), patience=PATIENT)

    async def drop_scope(self, name: str) -> None:
        await self._database.write(lambda step: _drop(step, name))


def scope_key(name: str) -> str:
    return f"scope {name}"


def scope_document(scope: Scope) -> Document:
    return {
        **SCOPES,
        "scope_name": scope.name,
        "description": scope.description,
        "created_at": scope.created,
        "created": to_micros(scope.created),
        "active": scope.active,
        "related_keywords": list(scope.keywords),
        "parent_scope": scope.parent,
        "kind": scope.kind,
    }


def scope_of(document: Document) -> Scope:
    return Scope(
        name=document["scope_name"],
        created=from_micros(document["created"]),
        description=document["description"],
        kind=document["kind"],
        parent=document["parent_scope"],
        keywords=tuple(document["related_keywords"]),
        active=document["active"],
    )


async def _all(step: MongoStep) -> dict[str, Scope]:
    return {scope.name: scope for scope in map(scope_of, await step.find(METADATA, SCOPES))}


async def _put(step: MongoStep, scope: Scope) -> None:
    known = await _all(step)
    if scope.parent is not None:
        _existing(known, scope.parent)
        if scope.name in _ancestry(known, scope.parent):
            raise Conflict(
                f"Scope {scope.name!r} can't be inside {scope.parent!r}: that is inside it already.",
                advice="Choose another parent.",
            )
    step.put(METADATA, scope_key(scope.name), scope_document(scope))


async def _rename(step: MongoStep, old: str, new: str) -> None:
    known = await _all(step)
    scope = _existing(known, old)
    if old == new:
        return
    if old == GLOBAL:
        raise Conflict("Global always exists under that name.")
    if new in known:
        raise Conflict(f"There is a scope {new!r} already.", advice="Choose another name.")
    step.put(METADATA, scope_key(new), {**scope_document(scope), "scope_name": new})
    step.rename_all(METADATA, "parent_scope", old, new)
    step.rename_all(MEMORIES, "scope", old, new)
    step.remove(METADATA, {"_id": scope_key(old)})


async def _drop(step: MongoStep, name: str) -> None:
    known = await _all(step)
    _existing(known, name)
    if name == GLOBAL:
        raise Conflict("Global always exists.")
    records = await step.count(MEMORIES, {"scope": name})
    children = sum(scope.parent == name for scope in known.values())
    if records or children:
        raise Conflict(
            f"Scope {name!r} still has {records} memories and {children} scopes in it.",
            advice="Export and forget them first.",
        )
    step.remove(METADATA, {"_id": scope_key(name)})


def _ancestry(known: dict[str, Scope], name: str) -> set[str]:
    """The names from a scope up to its last ancestor."""
    names: set[str] = set()
    current: str | None = name
    while current is not None and current not in names:
        names.add(current)
        current = known[current].parent
    return names


def _existing(known: dict[str, Scope], name: str) -> Scope:
    if name not in known:
        raise ScopeNotFound(name)
    return known[name]
