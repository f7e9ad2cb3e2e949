"""Stage 4: memories that say the same become one, the most important; it gets their uses and links."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import perf_counter

from recollect.engine.consolidate.due import Pages
from recollect.engine.consolidate.leaving import TRIES, apply_to_existing
from recollect.engine.consolidate.stage import MOST_TOLD, NOTHING, Bounds, Stage, Told
from recollect.engine.core import Engine
from recollect.engine.draft import gist_of
from recollect.engine.text.sameness import same_statement
from recollect.model.errors import Conflict, MemoryNotFound
from recollect.model.lexemes import lexemes
from recollect.model.life import is_part, is_unswept, is_working
from recollect.model.link import Link, Relation
from recollect.model.memory import Memory, Status, Tier
from recollect.ports.store import Change, Connect, Disconnect, Inherit, Mark

NAME = "duplicates"


@dataclass(slots=True)
class Merged:
    """What was merged: `retired` into `kept`."""

    retired: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    told: list[Told] = field(default_factory=list)


async def run(engine: Engine, within: Bounds) -> Stage:
    """This stage alone; what was due stays due for the others."""
    begun = perf_counter()
    pages = Pages(engine, within, moving=False)
    told: list[Told] = []
    while (page := await pages.next()) is not None:
        told += (await merge(engine, page.memories, read=page.read, dry=within.dry)).told
    return Stage(
        NAME,
        changed=len(told),
        detail=f"{len(told)} merged" if told else NOTHING,
        seconds=perf_counter() - begun,
        more=pages.more,
        looked=pages.looked,
        examples=tuple(told[:MOST_TOLD]),
        counts={"merged": len(told)} if told else {},
    )


async def merge(engine: Engine, memories: Sequence[Memory], *, read: datetime, dry: bool) -> Merged:
    """Merge those that repeat another one of their scope and agent, each looked at once as it is worded."""
    groups: dict[tuple[str, str], list[Memory]] = defaultdict(list)
    for memory in memories:
        if is_unswept(memory) and _mergeable(memory):
            groups[memory.scope, memory.agent].append(memory)
    merged = Merged()
    for (scope, agent), fresh in groups.items():
        gists = await asyncio.to_thread(_gists, fresh)
        wanted = list({gist for gist in gists.values() if gist})
        known = await engine.store.by_gist(wanted, scope=scope, agent=agent)
        for memory in fresh:
            same = _alike(memory, known.get(gists[memory.id], ()), besides=merged.retired)
            if not same:
                continue
            kept, retired = chosen([memory, *same])
            if retired and not dry:
                retired = await _retire(engine, kept, retired, read=read)
            if retired:
                merged.kept.add(kept.id)
                merged.retired.update(old.id for old in retired)
                merged.told += [Told(old.id, "merged", f"says the same as {kept.id}") for old in retired]
    return merged


def chosen(alike: Sequence[Memory]) -> tuple[Memory, list[Memory]]:
    """The one that stays, and those that it stands for: never an anchor, nor a permanent one."""
    ordered = sorted(
        alike, key=lambda one: (not _lasts(one), -one.importance, -one.uses, one.created, one.id)
    )
    kept, *others = ordered
    return kept, [one for one in others if not _lasts(one)]


def _gists(memories: Sequence[Memory]) -> dict[str, str]:
    return {memory.id: gist_of(lexemes(memory.content)) for memory in memories}


def _alike(memory: Memory, known: Sequence[Memory], *, besides: set[str]) -> list[Memory]:
    if memory.id in besides:
        return []
    return [
        other
        for other in known
        if other.id != memory.id
        and other.id not in besides
        and other.kind is memory.kind
        and _mergeable(other)
        and same_statement(memory.content, other.content)
    ]


def _mergeable(memory: Memory) -> bool:
    return memory.status is Status.ACTIVE and not is_part(memory) and not is_working(memory)


def _lasts(memory: Memory) -> bool:
    return memory.anchor or memory.tier is Tier.PERMANENT


async def _retire(engine: Engine, kept: Memory, old: Sequence[Memory], *, read: datetime) -> list[Memory]:
    """Those that were retired by this call: of two that merge the same at once each is counted once."""
    for _ in range(TRIES):
        try:
            await engine.store.apply(_superseding(kept, old, now=read))
            break
        except MemoryNotFound:
            known = await engine.store.get_many([kept.id, *(one.id for one in old)], viewer="system")
            old = [one for one in old if one.id in known]
            if kept.id not in known or not old:
                return []
    else:
        return []
    now = await engine.store.get_many([kept.id, *(one.id for one in old)], viewer="system")
    mine = [one for one in old if one.id in now and _retired_at(now[one.id], read)]
    heir = now.get(kept.id)
    if heir is None or heir.status is not Status.ACTIVE or heir.content_hash != kept.content_hash:
        for one in mine:
            await _bring_back(engine, one, kept)
        return []
    if mine:
        await engine.store.apply(await _inheritance(engine, heir, mine))
    return mine


def _superseding(kept: Memory, old: Sequence[Memory], *, now: datetime) -> list[Change]:
    changes: list[Change] = []
    for one in old:
        changes.append(Mark(one.id, Status.SUPERSEDED, one.status, now, only_from=Status.ACTIVE))
        changes.append(Connect(Link(one.id, kept.id, Relation.SUPERSEDED_BY, now, automatic=True)))
    return changes


def _retired_at(memory: Memory, moment: datetime) -> bool:
    return memory.status is Status.SUPERSEDED and memory.updated == moment


async def _inheritance(engine: Engine, kept: Memory, old: Sequence[Memory]) -> list[Change]:
    """What they had earned, and whom they knew."""
    ids = {one.id for one in old}
    changes: list[Change] = [
        Inherit(
            kept.id,
            supersedes=kept.supersedes or old[0].id,
            importance=max(one.importance for one in old),
            uses=sum(one.uses for one in old),
        )
    ]
    for link in await engine.store.links_of(list(ids), viewer="system"):
        taken = replace(
            link,
            origin=kept.id if link.origin in ids else link.origin,
            target=kept.id if link.target in ids else link.target,
        )
        if taken.origin != taken.target and link.relation is not Relation.SUPERSEDED_BY:
            changes.append(Connect(taken))
    return changes


async def _bring_back(engine: Engine, old: Memory, kept: Memory) -> None:
    """What it was merged into is no longer what it was."""
    try:
        await apply_to_existing(
            engine, [Mark(old.id, Status.ACTIVE, None, engine.clock(), only_from=Status.SUPERSEDED)]
        )
    except Conflict:  # the same was remembered anew
        return
    await engine.store.apply([Disconnect(old.id, kept.id, Relation.SUPERSEDED_BY)])
