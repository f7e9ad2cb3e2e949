"""What hooks hand out without opening the store: made here when something changed, read by mindhold.bare.leaflet.

A leaflet is of one folder, and says what is known of the project that the folder is; the one that is called GLOBAL is for
folders that are none. All are derived: who takes something away blanks them at once, and they are made anew without it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from mindhold.bare import leaflet as sheets
from mindhold.bare.folders import identity
from mindhold.bare.leaflet import LONGEST_START, MOST_MEMORIES, VERSION
from mindhold.bare.printing import one_line
from mindhold.engine.capture.blanking import are_there, turn
from mindhold.engine.capture.item import SIGNS
from mindhold.engine.capture.place import scope_of_folder
from mindhold.engine.capture.state import read_state
from mindhold.engine.context import HEADING, Context, context, standing
from mindhold.engine.core import LEAST_TRUST, Engine
from mindhold.engine.reach import reach
from mindhold.engine.scopes import PATHS
from mindhold.engine.text.resolution import says_how_resolved
from mindhold.engine.uses import Uncounted
from mindhold.model.error_signs import error_signs
from mindhold.model.errors import MindholdError, ScopeNotFound, SettingsError, StoreError
from mindhold.model.life import DOUBTED_AFTER, FAINT, PART_OF_WHOLE, doubted_at, is_working
from mindhold.model.link import Link, Relation
from mindhold.model.memory import Kind, Memory, Status
from mindhold.model.query import Filter, Order
from mindhold.model.scope import GLOBAL

LONGEST_READ = 2_000  # characters of a memory, whose words it is found by
MOST_PROJECTS = 10_000
CHARACTERS = 4  # of a token, about
START_KINDS = (
    Kind.PREFERENCE,
    Kind.ERROR,
    Kind.PROCEDURE,
    Kind.DECISION,
    Kind.ARCHITECTURE,
    Kind.PATTERN,
    Kind.GOTCHA,
    Kind.PROGRESS,
)
FAILURE_KINDS = (Kind.ERROR, Kind.GOTCHA, Kind.PROCEDURE)
TOLD_KINDS = tuple(kind for kind in Kind if kind is not Kind.EPISODE)
ALL_FADED = timedelta(days=max(DOUBTED_AFTER.values()) + 1)

Sheet = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Made:
    """How many leaflets were made anew, and how many went with their projects."""

    made: int = 0
    gone: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Whose leaflet it is: of a folder, or without one of Global, and of an agent."""

    folder: str
    agent: str


async def leaflet(engine: Engine, scope: str, *, agent: str) -> Sheet:
    """What is handed out in a scope. Raises ScopeNotFound, the store's errors."""
    chosen = engine.policy.capture
    where = Filter(
        viewer=agent,
        scopes=await reach(engine, scope),
        kinds=TOLD_KINDS,
        minimum_trust=LEAST_TRUST,
    )
    found = await engine.store.find(where, order=Order.IMPORTANT, limit=MOST_MEMORIES)
    memories = [memory for memory in found if is_told(memory)]
    links = await engine.store.links_of(
        [memory.id for memory in memories],
        relations=(Relation.RESOLVED_BY, Relation.CONTRADICTS),
        viewer=agent,
    )
    memories = _undisputed(memories, links)
    memories.sort(key=standing, reverse=True)
    return {
        "version": VERSION,
        "scope": scope,
        "agent": agent,
        "made": engine.clock().isoformat(),
        **await _start(engine, scope, agent=agent),
        "memories": [
            {"id": memory.id, "kind": memory.kind.value, "text": memory.content[:LONGEST_READ]}
            for memory in memories
        ],
        "errors": await solved(engine, memories, links, where=where),
        "limits": {
            "prompt_most": chosen.prompt_most,
            "prompt_chars": chosen.prompt_tokens * CHARACTERS,
            "errors": chosen.errors,
            "start": chosen.start_tokens > 0,
        },
        "status": await _status(engine, scope, agent=agent),
    }


async def make_leaflets(
    engine: Engine,
    folders: Iterable[str] = (),
    *,
    agent: str,
    others: bool = True,
    scopes: Collection[str] = (GLOBAL,),
) -> Made:
    """Those of these folders for the agent, and with `others` all that what was written to `scopes` may concern.

    Nothing is made where no hook has ever asked, unless folders are named; "" is none. Raises the store's errors, OSError.
    """
    home = engine.policy.home
    if not engine.policy.tells_hooks:
        return Made()
    named = {_name(engine, identity(folder), agent): Place(folder, agent) for folder in folders if folder}
    if folders := list(folders):
        named[_name(engine, "", agent)] = Place("", agent)
    elif not others or not are_there(home):
        return Made()
    made: list[bool] = []
    away: list[MindholdError] = []
    async with turn(home):
        heads = dict(await asyncio.to_thread(sheets.every, str(home)))
        wanted = (await concerned(engine, scopes, agent=agent, heads=heads) if others else {}) | named
        for name, place in wanted.items():
            try:
                sheet = await _sheet(engine, place)
            except (StoreError, SettingsError) as error:  # each project may live elsewhere
                away.append(error)
                continue
            await asyncio.to_thread(_put, home, name, sheet, heads.get(name, {}).get("print"))
            made.append(sheet is not None)
    if away:
        raise away[0]
    return Made(made.count(True), made.count(False))


async def concerned(
    engine: Engine, scopes: Collection[str], *, agent: str, heads: dict[str, Sheet] | None = None
) -> dict[str, Place]:
    """The leaflets that tell of one of the scopes, by their names: all that there are of whatever agent, and those of the
    projects with a folder here for this one. A blank one is always among them. Raises the store's errors."""
    if heads is None:
        heads = dict(await asyncio.to_thread(sheets.every, str(engine.policy.home)))
    known = {scope.name for scope in await engine.store.scopes() if scope.active}
    wanted: dict[str, Place] = {}
    for entry in await engine.store.entries(PATHS, now=engine.clock(), limit=MOST_PROJECTS):
        folder, called = str(entry.value.get("path") or ""), str(entry.value.get("identity") or "")
        if entry.key in known and called and Path(folder).is_dir():
            name = _name(engine, called, agent)
            if name not in heads and await _tells_of(engine, entry.key, scopes):
                wanted[name] = Place(folder, agent)
    for name, head in heads.items():
        folder, whose = str(head.get("folder") or ""), str(head.get("agent") or agent)
        if name == sheets.name_of(identity(folder) if folder else ""):
            whose = engine.policy.home_agent  # who may be another by now
        if not head.get("print") or await _tells_of(engine, str(head.get("scope")), scopes):
            wanted[name] = Place(folder, whose)
    return wanted


async def _tells_of(engine: Engine, scope: str, scopes: Collection[str]) -> bool:
    try:
        return GLOBAL in scopes or not set(scopes).isdisjoint(await reach(engine, scope))
    except ScopeNotFound:
        return True  # its project has gone


def _name(engine: Engine, identity: str, agent: str) -> str:
    return sheets.name_of(identity, "" if agent == engine.policy.home_agent else agent)


async def _status(engine: Engine, scope: str, *, agent: str) -> Sheet:
    state = await read_state(engine, scope)
    return {
        "memories": await engine.store.count(Filter(viewer=agent, scopes=(scope,))),
        "captured": state.captured_at.isoformat() if state.captured_at else None,
        "rung": state.rung or "rules",
        "problem": state.problem,
    }


def is_told(memory: Memory) -> bool:
    """Whether it may be told unasked: working memory and pieces of a whole are not."""
    return not is_working(memory) and not any(name in memory.metadata for name in PART_OF_WHOLE)


def _undisputed(memories: Sequence[Memory], links: Iterable[Link]) -> list[Memory]:
    """Without what another one of them contradicts; an anchor stands all the same."""
    known = {memory.id for memory in memories}
    denied = {link.target for link in links if link.relation is Relation.CONTRADICTS and link.origin in known}
    return [memory for memory in memories if memory.anchor or memory.id not in denied]


async def _start(engine: Engine, scope: str, *, agent: str) -> Sheet:
    """What a conversation begins with, and the ids in it; until when, and what from then on. Making it is no showing."""
    found = await _beginning(engine, scope, agent=agent)
    said = _said(found)
    moments = [moment for memory in found.core if (moment := doubted_at(memory, FAINT))] if found else []
    if not moments:
        return said
    then = engine.clock() + ALL_FADED
    rest = await _beginning(replace(engine, clock=lambda: then), scope, agent=agent)
    return {**said, "until": min(moments).timestamp(), "later": _said(rest)}


def _said(found: Context | None) -> Sheet:
    if found is None:
        return {"start": "", "start_ids": []}
    text = found.text.removeprefix(HEADING).lstrip("\n")  # the hook has a heading of its own
    return {"start": text, "start_ids": [memory.id for memory in found.core]}


async def _beginning(engine: Engine, scope: str, *, agent: str) -> Context | None:
    uncounted = replace(engine, uses=Uncounted(engine.store, engine.clock))
    budget = engine.policy.capture.start_tokens
    while budget > 0:
        found = await context(
            uncounted,
            agent=agent,
            budget=budget,
            kinds=START_KINDS,
            conversation=None,
            scope=scope,
            least_confidence=FAINT,
            hints=False,
        )
        if len(found.text) <= LONGEST_START:
            return found
        budget = min(budget - 1, budget * LONGEST_START // len(found.text))
    return None


async def solved(
    engine: Engine, memories: Sequence[Memory], links: Sequence[Link], *, where: Filter
) -> list[Sheet]:
    """Of these the failures that are known with what resolved them, each with how it shows."""
    failures = [memory for memory in memories if memory.kind in FAILURE_KINDS]
    ids = {memory.id for memory in failures}
    pairs = {
        link.origin: link.target
        for link in links
        if link.relation is Relation.RESOLVED_BY and link.origin in ids
    }
    fixes = await engine.store.get_many(list(set(pairs.values())), viewer=where.viewer) if pairs else {}
    known: list[Sheet] = []
    for memory in failures:
        fix = fixes.get(pairs.get(memory.id, ""))
        if fix is not None and not _is_trusted(fix, where):
            fix = None
        signs = _signs(memory)
        if not signs or (fix is None and not says_how_resolved(memory.content)):
            continue
        text = one_line(memory.content) + ("" if fix is None else f" → {one_line(fix.content)}")
        known.append({"id": memory.id, "text": text, "signs": signs})
    return known


def _is_trusted(memory: Memory, where: Filter) -> bool:
    return (
        memory.status is Status.ACTIVE
        and memory.trust >= where.minimum_trust
        and memory.scope in where.scopes
    )


def _signs(memory: Memory) -> list[str]:
    noted = memory.metadata.get(SIGNS)
    if isinstance(noted, list | tuple) and noted:
        return [str(sign) for sign in noted]
    return list(error_signs(memory.content))


async def _sheet(engine: Engine, place: Place) -> Sheet | None:
    """None where the folder is no project any more."""
    scope = await scope_of_folder(engine, place.folder, create=False) if place.folder else GLOBAL
    if scope is None:
        return None
    with suppress(ScopeNotFound):
        return {**await leaflet(engine, scope, agent=place.agent), "folder": place.folder}
    return None


def _put(home: Path, name: str, sheet: Sheet | None, before: object) -> None:
    """In the place of the one before, unless that says the same. Raises OSError."""
    if sheet is None:
        sheets.drop(str(home), name)
        return
    said = json.dumps({key: value for key, value in sheet.items() if key != "made"})
    told = sha256(said.encode()).hexdigest()
    if told != before:
        sheets.write(str(home), name, {**sheet, "print": told})
