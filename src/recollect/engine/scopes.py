"""Scopes: create, describe, nest, rename, deactivate, delete with an export first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from recollect.engine.checks import checked_description, checked_scope, checked_scope_name
from recollect.engine.core import Engine
from recollect.engine.keys import follow_scope
from recollect.engine.reach import find_scope
from recollect.engine.transfer import export_to
from recollect.model.errors import Conflict, Refused, ScopeNotFound
from recollect.model.memory import ANY_STATUS
from recollect.model.query import Filter
from recollect.model.scope import GLOBAL, Scope, lineage
from recollect.ports.store import Receipt

PATHS = "projects"  # the drawer with the projects' folders


@dataclass(frozen=True, slots=True)
class ScopeReport:
    """A scope, what is in it and what a call in it sees."""

    scope: Scope
    memories: int
    sees: tuple[str, ...]
    children: tuple[str, ...]
    kinds: dict[str, int]


@dataclass(frozen=True, slots=True)
class DroppedScope:
    """What became of a deleted scope's memories; `export` holds them."""

    name: str
    export: Path | None
    memories: int
    receipt: Receipt | None


async def create_scope(
    engine: Engine,
    name: str,
    *,
    description: str = "",
    kind: str = "general",
    parent: str | None = None,
    keywords: Sequence[str] = (),
) -> Scope:
    """Raises InvalidInput, Conflict when it exists, ScopeNotFound for the parent."""
    scope = checked_scope(
        engine,
        Scope(name, engine.clock(), description=description, kind=kind, keywords=tuple(keywords)),
    )
    await refuse_clash(engine, scope.name)
    if parent is not None:
        await find_scope(engine, parent)
        scope = replace(scope, parent=None if parent == GLOBAL else parent)
    await engine.store.put_scope(scope)
    return scope


async def change_scope(
    engine: Engine,
    name: str,
    *,
    description: str | None = None,
    parent: str | None = None,
    active: bool | None = None,
) -> Scope:
    """Describe, nest (parent Global lifts it to the top) or switch.

    Raises InvalidInput, ScopeNotFound, Conflict for a cycle.
    """
    scope = await find_scope(engine, name)
    if name == GLOBAL and (parent is not None or active is False):
        raise Refused("Global is above every scope and always there.")
    if parent is not None:
        above = (await find_scope(engine, parent)).name
        if name in lineage(above, await engine.store.scopes()):
            raise Conflict(f"{name!r} is above {above!r} already.", advice="Choose another parent.")
        scope = replace(scope, parent=None if above == GLOBAL else above)
    scope = replace(
        scope,
        description=scope.description if description is None else checked_description(engine, description),
        active=scope.active if active is None else active,
    )
    await engine.store.put_scope(scope)
    return scope


async def rename_scope(engine: Engine, old: str, new: str) -> Scope:
    """Memories, children and keys follow. Raises InvalidInput, ScopeNotFound, Conflict, Refused for Global."""
    if old == GLOBAL:
        raise Refused("Global can't be renamed.")
    cleaned = checked_scope_name(engine, new)
    await refuse_clash(engine, cleaned, besides=old)
    await engine.store.rename_scope(old, cleaned)
    await follow_scope(engine, old, cleaned)
    await _follow_path(engine, old, cleaned)
    return await find_scope(engine, cleaned)


async def report_scopes(engine: Engine, *, agent: str) -> list[ScopeReport]:
    """Every scope with its counts."""
    scopes = await engine.store.scopes()
    counts = await engine.store.tally(Filter(viewer=agent), "scope")
    return [
        ScopeReport(
            scope=scope,
            memories=counts.get(scope.name, 0),
            sees=lineage(scope.name, scopes),
            children=tuple(child.name for child in scopes if child.parent == scope.name),
            kinds={},
        )
        for scope in scopes
    ]


async def report_scope(engine: Engine, name: str, *, agent: str) -> ScopeReport:
    """One scope, with its kinds. Raises ScopeNotFound."""
    await find_scope(engine, name)
    kinds = await engine.store.tally(Filter(viewer=agent, scopes=(name,)), "kind")
    for report in await report_scopes(engine, agent=agent):
        if report.scope.name == name:
            return replace(report, kinds=kinds)
    raise ScopeNotFound(name)


async def delete_scope(engine: Engine, name: str, *, agent: str, export: Path | None = None) -> DroppedScope:
    """Export what is in it, erase that, take it from the keys, drop the scope.

    Raises ScopeNotFound, Conflict for one with children, Refused for one that holds what the agent doesn't see.
    """
    if name == GLOBAL:
        raise Refused("Global always exists.", advice="`recollect forget` removes what is in it.")
    await find_scope(engine, name)
    children = [scope.name for scope in await engine.store.scopes() if scope.parent == name]
    if children:
        raise Conflict(
            f"{name!r} still holds the scopes {', '.join(children)}.", advice="Delete or move them first."
        )
    where = Filter(viewer=agent, scopes=(name,), statuses=ANY_STATUS)
    ids = [memory.id async for batch in engine.store.scan(where) for memory in batch]
    if await engine.store.count(replace(where, viewer="system")) > len(ids):
        raise Refused(
            f"{name!r} holds memories of other agents, and you are {agent!r}.",
            advice="Delete it as system: `--agent system`.",
        )
    target = None
    if ids:
        stamp = f"{engine.clock():%Y%m%dT%H%M%SZ}"
        safe = "".join(char if char.isalnum() else "-" for char in name)
        target = export or engine.policy.export_dir / f"scope-{safe}-{stamp}.jsonl"
        await export_to(engine, target, where=where)
    receipt = await engine.store.erase(ids) if ids else None
    await follow_scope(engine, name, None)
    await engine.store.drop_scope(name)
    await _follow_path(engine, name, None)
    return DroppedScope(name, target, len(ids), receipt)


async def _follow_path(engine: Engine, old: str, new: str | None) -> None:
    """What is noted of a project's folder goes with its name."""
    noted = await engine.store.take_entry(PATHS, old, now=engine.clock())
    if noted is not None and new is not None:
        await engine.store.put_entry(replace(noted, key=new))


async def refuse_clash(engine: Engine, name: str, *, besides: str | None = None) -> None:
    """Two names that differ in case only would be mistaken for each other. Raises Conflict."""
    for known in await engine.store.scopes():
        if known.name != besides and known.name.casefold() == name.casefold():
            raise Conflict(
                f"The scope {known.name!r} exists already.", advice="Use it, or choose another name."
            )
