"""The partitions: documents of Metadata whose type is "scope"."""

from __future__ import annotations

from mindhold.model.errors import Conflict, ScopeNotFound
from mindhold.model.scope import GLOBAL, Scope
from mindhold.stores.mongo.connection import PATIENT, Part
from mindhold.stores.mongo.rows import Document
from mindhold.stores.mongo.steps import MEMORIES, METADATA, Step
from mindhold.stores.values import from_micros, to_micros

SCOPES = {"type": "scope"}


class ScopesPart(Part):
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


async def _all(step: Step) -> dict[str, Scope]:
    return {scope.name: scope for scope in map(scope_of, await step.find(METADATA, SCOPES))}


async def _put(step: Step, scope: Scope) -> None:
    known = await _all(step)
    if scope.parent is not None:
        _existing(known, scope.parent)
        if scope.name in _ancestry(known, scope.parent):
            raise Conflict(
                f"Scope {scope.name!r} can't be inside {scope.parent!r}: that is inside it already.",
                advice="Choose another parent.",
            )
    step.put(METADATA, scope_key(scope.name), scope_document(scope))


async def _rename(step: Step, old: str, new: str) -> None:
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


async def _drop(step: Step, name: str) -> None:
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
