"""What hooks hand out without opening the store: made here when something changed, read by recollect.bare.leaflet.

A leaflet is of one folder, and says what is known of the project that the folder is; the one that is called GLOBAL is for
folders that are none. All are derived: who takes something away blanks them at once, and they are made anew without it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from recollect.bare import leaflet as sheets
from recollect.bare.folders import identity, key
from recollect.bare.printing import content_words
from recollect.engine.capture.blanking import HOOKS, LEAFLETS, remove_leaflet, turn
from recollect.engine.capture.item import SIGNS
from recollect.engine.capture.place import scope_of_folder
from recollect.engine.capture.state import read_state
from recollect.engine.context import HEADING, context, standing
from recollect.engine.core import LEAST_TRUST, Engine
from recollect.engine.reach import reach
from recollect.engine.text.resolution import says_how_resolved
from recollect.engine.uses import Uncounted
from recollect.model.error_signs import error_signs
from recollect.model.errors import RecollectError, ScopeNotFound, SettingsError, StoreError
from recollect.model.life import PART_OF_WHOLE, is_working
from recollect.model.link import Link, Relation
from recollect.model.memory import Kind, Memory, Status
from recollect.model.query import Filter, Order
from recollect.model.scope import GLOBAL

VERSION = 1
EVERYWHERE = sheets.GLOBAL  # the key of the leaflet for folders that are no project
MOST = 1_000
LONGEST_TEXT = 400
LONGEST_READ = 2_000  # characters of a memory, whose words it is found by
LONGEST_START = 9_000
FAINT = 0.3  # below this confidence nothing is told unasked
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

Sheet = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Made:
    """How many leaflets were made anew, and how many went with their projects."""

    made: int = 0
    gone: int = 0


async def leaflet(engine: Engine, scope: str, *, agent: str) -> Sheet:
    """What is handed out in a scope. Raises ScopeNotFound, the store's errors."""
    chosen = engine.policy.capture
    where = Filter(
        viewer=agent,
        scopes=await reach(engine, scope),
        kinds=TOLD_KINDS,
        minimum_trust=LEAST_TRUST,
    )
    found = await engine.store.find(where, order=Order.IMPORTANT, limit=MOST)
    memories = [memory for memory in found if is_told(memory)]
    links = await engine.store.links_of(
        [memory.id for memory in memories],
        relations=(Relation.RESOLVED_BY, Relation.CONTRADICTS),
        viewer=agent,
    )
    memories = _undisputed(memories, links)
    memories.sort(key=standing, reverse=True)
    start, ids = await _start(engine, scope, agent=agent)
    return {
        "version": VERSION,
        "scope": scope,
        "agent": agent,
        "made": engine.clock().isoformat(),
        "start": start,
        "start_ids": ids,
        "memories": [
            {
                "id": memory.id,
                "kind": memory.kind.value,
                "text": short(memory.content),
                "words": content_words(memory.content[:LONGEST_READ]),
            }
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
    engine: Engine, folders: Iterable[str] = (), *, agent: str, others: bool = True
) -> Made:
    """Those of these folders, and with `others` all that there are: each as it was made for its agent.

    Nothing is made where no hook has ever asked. Raises the store's errors, OSError.
    """
    home = engine.policy.home
    wanted = {key(identity(folder)): (folder, agent) for folder in folders}
    if wanted:
        wanted[EVERYWHERE] = ("", agent)
    elif not others or not (home / HOOKS / LEAFLETS).is_dir():
        return Made()
    made: list[bool] = []
    away: list[RecollectError] = []
    async with turn(home):
        heads = dict(await asyncio.to_thread(sheets.every, str(home)))
        for name, head in heads.items() if others else ():
            wanted.setdefault(name, (str(head.get("folder") or ""), str(head.get("agent") or agent)))
        for name, (folder, whose) in wanted.items():
            try:
                sheet = await _sheet(engine, name, folder, agent=whose)
            except (StoreError, SettingsError) as error:  # each project may live elsewhere
                away.append(error)
                continue
            await asyncio.to_thread(_place, home, name, sheet, heads.get(name, {}).get("print"))
            made.append(sheet is not None)
    if away:
        raise away[0]
    return Made(made.count(True), made.count(False))


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


async def _start(engine: Engine, scope: str, *, agent: str) -> tuple[str, list[str]]:
    """What a conversation begins with, and the ids in it. Making it is no showing."""
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
        if len(found.text) <= LONGEST_START:  # the hook has a heading of its own
            text = found.text.removeprefix(HEADING).lstrip("\n")
            return text, [memory.id for memory in found.core]
        budget = min(budget - 1, budget * LONGEST_START // len(found.text))
    return "", []


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
        text = short(memory.content) if fix is None else f"{short(memory.content)} → {short(fix.content)}"
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


def short(text: str) -> str:
    """On one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_TEXT else f"{line[: LONGEST_TEXT - 1].rstrip()}…"


async def _sheet(engine: Engine, name: str, folder: str, *, agent: str) -> Sheet | None:
    """None where the folder is no project any more."""
    scope = GLOBAL if name == EVERYWHERE else await scope_of_folder(engine, folder, create=False)
    if scope is None:
        return None
    with suppress(ScopeNotFound):
        return {**await leaflet(engine, scope, agent=agent), "folder": folder}
    return None


def _place(home: Path, name: str, sheet: Sheet | None, before: object) -> None:
    """In the place of the one before, unless that says the same. Raises OSError."""
    if sheet is None:
        remove_leaflet(home, name)
        return
    said = json.dumps({key: value for key, value in sheet.items() if key != "made"})
    told = sha256(said.encode()).hexdigest()
    if told != before:
        sheets.write(str(home), name, {**sheet, "print": told})
