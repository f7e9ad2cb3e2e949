"""Scopes: create, describe, nest, rename, deactivate, delete with an export first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mindhold.engine.capture.blanking import off_the_leaflets
from mindhold.engine.capture.erased import follow_erased, note_erased
from mindhold.engine.capture.item import CAPTURED
from mindhold.engine.capture.pending import drop_pending_of
from mindhold.engine.checks import checked_description, checked_labels, checked_scope, checked_scope_name
from mindhold.engine.core import Engine
from mindhold.engine.keys import follow_scope
from mindhold.engine.reach import find_scope
from mindhold.engine.storage import as_far_as_it_goes
from mindhold.engine.tenants import follow_name, refuse_shared
from mindhold.engine.transfer import export_to
from mindhold.model.errors import Conflict, Refused
from mindhold.model.memory import ANY_STATUS, Memory
from mindhold.model.query import Filter
from mindhold.model.scope import GLOBAL, Scope, lineage
from mindhold.ports.houses import Watch
from mindhold.ports.store import Receipt

LOT = 2_000  # memories that are erased at once
LONGEST_FILE = 40  # characters of a scope's name in that of a file, which may have 255 bytes
PATHS = "projects"  # the drawer with the projects' folders
CAPTURES = ("capture:state", "capture:condensed")  # those with what is noted of a project's captures


@dataclass(frozen=True, slots=True)
class ScopeReport:
    """A scope, what is in it and what a call in it sees."""

    scope: Scope
    memories: int | None  # None where its store doesn't answer
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
    keywords: Sequence[str] | None = None,
) -> Scope:
    """Describe, nest (parent Global lifts it to the top), switch, or name the words that speak of it.

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
        keywords=scope.keywords if keywords is None else checked_labels(engine, keywords, what="keyword"),
    )
    await engine.store.put_scope(scope)
    return scope


async def rename_scope(engine: Engine, old: str, new: str) -> Scope:
    """Memories, children and keys follow. Raises InvalidInput, ScopeNotFound, Conflict, Refused for Global."""
    if old == GLOBAL:
        raise Refused("Global can't be renamed.")
    cleaned = checked_scope_name(engine, new)
    await refuse_clash(engine, cleaned, besides=old)
    await refuse_shared(engine, old, what="renamed")
    await engine.store.rename_scope(old, cleaned)
    await follow_name(engine, old, cleaned)
    await follow_scope(engine, old, cleaned)
    await _follow_path(engine, old, cleaned)
    await follow_erased(engine, old, cleaned)
    return await find_scope(engine, cleaned)


async def report_scopes(engine: Engine, *, agent: str) -> tuple[list[ScopeReport], str]:
    """Every scope with its counts, and words about stores that don't answer."""
    scopes = await engine.store.scopes()

    async def counted(names: tuple[str, ...]) -> dict[str, int]:
        counts = await engine.store.tally(Filter(viewer=agent, scopes=names), "scope")
        return {name: counts.get(name, 0) for name in names or [scope.name for scope in scopes]}

    counts, notice = await as_far_as_it_goes(engine, counted)
    return [_report(scope, scopes, memories=counts.get(scope.name)) for scope in scopes], notice


async def report_scope(engine: Engine, name: str, *, agent: str) -> ScopeReport:
    """One scope, with its kinds. Raises ScopeNotFound."""
    scope = await find_scope(engine, name)
    kinds = await engine.store.tally(Filter(viewer=agent, scopes=(name,)), "kind")
    report = _report(scope, await engine.store.scopes(), memories=sum(kinds.values()))
    return replace(report, kinds=kinds)


def _report(scope: Scope, scopes: Sequence[Scope], *, memories: int | None) -> ScopeReport:
    return ScopeReport(
        scope=scope,
        memories=memories,
        sees=lineage(scope.name, scopes),
        children=tuple(child.name for child in scopes if child.parent == scope.name),
        kinds={},
    )


async def delete_scope(
    engine: Engine, name: str, *, agent: str, export: Path | None = None, always: bool = False
) -> DroppedScope:
    """Export what is in it (`always`: also if that is nothing), erase that, take it from the keys, drop the scope.

    Raises ScopeNotFound, Conflict for one with children, Refused for one that holds what the agent doesn't see.
    """
    if name == GLOBAL:
        raise Refused("Global always exists.", advice="`mindhold forget` removes what is in it.")
    await find_scope(engine, name)
    children = [scope.name for scope in await engine.store.scopes() if scope.parent == name]
    if children:
        raise Conflict(
            f"{name!r} still holds the scopes {', '.join(children)}.", advice="Delete or move them first."
        )
    await refuse_shared(engine, name, what="deleted")
    await _refuse_tied(engine, name)
    where = Filter(viewer=agent, scopes=(name,), statuses=ANY_STATUS)
    ids: list[str] = []
    captured: list[Memory] = []
    async for batch in engine.store.scan(where):
        ids += [memory.id for memory in batch]
        captured += [memory for memory in batch if memory.provenance.source == CAPTURED]
    if await engine.store.count(replace(where, viewer="system")) > len(ids):
        raise Refused(
            f"{name!r} holds memories of other agents, and you are {agent!r}.",
            advice="Delete it as system: `--agent system`.",
        )
    target = None
    if ids or always:
        target = export or _export_file(engine, name)
        await export_to(engine, target, where=where)
    if ids:
        await note_erased(engine, captured)
    receipt = await off_the_leaflets(engine, await _erased(engine, ids)) if ids else None
    await follow_scope(engine, name, None)
    await engine.store.drop_scope(name)
    await _follow_path(engine, name, None)
    return DroppedScope(name, target, len(ids), receipt)


async def _erased(engine: Engine, ids: Sequence[str]) -> Receipt:
    """In lots, so that others may write in between."""
    removed, remaining = Counter[str](), Counter[str]()
    for start in range(0, len(ids), LOT):
        receipt = await engine.store.erase(ids[start : start + LOT])
        removed.update(receipt.removed)
        remaining.update(receipt.remaining)
    return Receipt(tuple(ids), removed, remaining)


def _export_file(engine: Engine, name: str) -> Path:
    """A new one, also for two whose names are alike in letters."""
    safe = "".join(char if char.isalnum() else "-" for char in name)[:LONGEST_FILE]
    return engine.policy.export_dir / (
        f"scope-{safe}-{engine.clock():%Y%m%dT%H%M%SZ}-{engine.new_id()[-6:]}.jsonl"
    )


async def _refuse_tied(engine: Engine, name: str) -> None:
    """Before anything is erased. Raises Conflict for one that is being moved, the errors of a store that is away."""
    place = (await engine.houses.places(fresh=True)).get(name)
    if place is None:
        return
    if place.move is not None and not Watch().gone(place.move, now=engine.clock()):
        raise Conflict(
            f"The project {name!r} is being moved to another store.", advice="Wait until that is done."
        )
    for mode in place.modes():
        await (await engine.houses.house(mode)).scopes()


async def _follow_path(engine: Engine, old: str, new: str | None) -> None:
    """What is noted of a project's folder and of its captures goes with its name."""
    for drawer in (PATHS, *CAPTURES):
        noted = await engine.store.take_entry(drawer, old, now=engine.clock())
        if noted is not None and new is not None:
            await engine.store.put_entry(replace(noted, key=new))
    await drop_pending_of(engine, old)


async def refuse_clash(engine: Engine, name: str, *, besides: str | None = None) -> None:
    """Two names that differ in case only would be mistaken for each other. Raises Conflict."""
    for known in await engine.store.scopes():
        if known.name != besides and known.name.casefold() == name.casefold():
            what = "project" if known.kind == "project" else "scope"
            raise Conflict(
                f"The {what} {known.name!r} exists already.", advice="Use it, or choose another name."
            )
