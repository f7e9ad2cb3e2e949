"""Stage 4: merges memories that say the same; the most important one gets their uses and links."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import perf_counter

from mindhold.engine import Engine
from mindhold.lifecycle.archive import TRIES, apply_to_existing
from mindhold.lifecycle.stages import MOST_TOLD, NOTHING, DuePages, StageExample, StageLimits, StageResult
from mindhold.memories.duplicates import inheritance, superseding
from mindhold.memories.prepare import gist_of
from mindhold.model.errors import Conflict, MemoryNotFound
from mindhold.model.lexemes import lexemes
from mindhold.model.lifecycle import is_kept_for_good, is_marked, is_part, is_unswept, is_working
from mindhold.model.memory import Link, Memory, Relation, Status
from mindhold.ports.store import Change, Connect, Disconnect, Inherit, Mark
from mindhold.text.similarity import same_statement

DUPLICATES_STAGE = "duplicates"


@dataclass(slots=True)
class MergedDuplicates:
    """What was merged: `retired` into `kept`."""

    retired: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    told: list[StageExample] = field(default_factory=list)


async def run_duplicates(engine: Engine, within: StageLimits) -> StageResult:
    """This stage alone; what was due stays due for the others."""
    begun = perf_counter()
    pages = DuePages(engine, within, moving=False)
    told: list[StageExample] = []
    retired: set[str] = set()
    while (page := await pages.next()) is not None:
        merged = await merge_duplicates(
            engine, page.memories, read=page.read, dry=within.dry, besides=retired
        )
        told += merged.told
        retired |= merged.retired
    return StageResult(
        DUPLICATES_STAGE,
        changed=len(told),
        detail=f"{len(told)} merged" if told else NOTHING,
        seconds=perf_counter() - begun,
        more=pages.more,
        looked=pages.looked,
        examples=tuple(told[:MOST_TOLD]),
        counts={"merged": len(told)} if told else {},
    )


async def merge_duplicates(
    engine: Engine, memories: Sequence[Memory], *, read: datetime, dry: bool, besides: AbstractSet[str]
) -> MergedDuplicates:
    """Merge those that repeat another one of their scope, agent and topic, each looked at once as it is worded.

    `besides` are those that were merged on an earlier page, which a dry run finds as they were.
    """
    groups: dict[tuple[str, str], list[Memory]] = defaultdict(list)
    for memory in memories:
        if is_unswept(memory) and _mergeable(memory):
            groups[memory.scope, memory.agent].append(memory)
    merged = MergedDuplicates()
    if engine.settings.lifecycle_rules.keeps_all:
        return merged
    for (scope, agent), fresh in groups.items():
        gists = await asyncio.to_thread(_gists, fresh)
        wanted = list({gist for gist in gists.values() if gist})
        known = await engine.store.by_gist(wanted, scope=scope, agent=agent)
        for memory in fresh:
            same = _alike(memory, known.get(gists[memory.id], ()), besides=merged.retired | besides)
            if not same:
                continue
            kept, retired = choose_survivor([memory, *same])
            if retired and not dry:
                retired = await _retire(engine, kept, retired, read=read)
            if retired:
                merged.kept.add(kept.id)
                merged.retired.update(old.id for old in retired)
                merged.told += [
                    StageExample(old.id, "merged", f"says the same as {kept.id}") for old in retired
                ]
    return merged


def choose_survivor(alike: Sequence[Memory]) -> tuple[Memory, list[Memory]]:
    """The one that stays, and those that it stands for: never an anchor, a permanent or a marked one."""
    ordered = sorted(
        alike, key=lambda one: (not _stays(one), -one.importance, -one.uses, one.created, one.id)
    )
    kept, *others = ordered
    return kept, [one for one in others if not _stays(one)]


def _stays(memory: Memory) -> bool:
    return is_kept_for_good(memory) or is_marked(memory)


def _gists(memories: Sequence[Memory]) -> dict[str, str]:
    return {memory.id: gist_of(lexemes(memory.content)) for memory in memories}


def _alike(memory: Memory, known: Sequence[Memory], *, besides: AbstractSet[str]) -> list[Memory]:
    if memory.id in besides:
        return []
    return [
        other
        for other in known
        if other.id != memory.id
        and other.id not in besides
        and other.kind is memory.kind
        and other.topic.casefold() == memory.topic.casefold()
        and _mergeable(other)
        and same_statement(memory.content, other.content)
    ]


def _mergeable(memory: Memory) -> bool:
    return memory.status is Status.ACTIVE and not is_part(memory) and not is_working(memory)


async def _retire(engine: Engine, kept: Memory, old: Sequence[Memory], *, read: datetime) -> list[Memory]:
    """Those that were retired by this call, in one piece with what they leave: broken off, all is as it was or done.

    Of two that merge the same at once each is counted once.
    """
    for _ in range(TRIES):
        known = await engine.store.get_many([kept.id, *(one.id for one in old)], viewer="system")
        old = [known[one.id] for one in old if _is_as_it_was(one, known.get(one.id))]
        heir = known.get(kept.id)
        if heir is None or not _is_as_it_was(kept, heir) or not old:
            return []
        taken = await transferred_links(engine, heir, old)
        try:
            await engine.store.apply(_superseding(heir, old, taken, now=read))
            break
        except MemoryNotFound:  # one of them was erased meanwhile
            continue
    else:
        return []
    return await _settled(engine, heir, old, taken, read=read)


async def _settled(
    engine: Engine, kept: Memory, old: Sequence[Memory], taken: Sequence[Link], *, read: datetime
) -> list[Memory]:
    """Those that did go; what others changed between the look and the merging is put right."""
    now = await engine.store.get_many([kept.id, *(one.id for one in old)], viewer="system")
    mine = [one for one in old if one.id in now and _retired_at(now[one.id], read)]
    wrong = [one for one in mine if now[one.id].content_hash != one.content_hash]
    heir = now.get(kept.id)
    if heir is None or heir.status is not Status.ACTIVE or heir.content_hash != kept.content_hash:
        wrong = list(mine)
    for one in wrong:
        await _bring_back(engine, one, kept)
    merged = [one for one in mine if one not in wrong]
    lost = sum(one.uses for one in old if one not in merged)
    changes: list[Change] = []
    if heir is not None and lost:
        changes.append(Inherit(kept.id, supersedes=heir.supersedes or old[0].id, importance=0.0, uses=-lost))
    if not merged:
        changes += [Disconnect(link.origin, link.target, link.relation) for link in taken]
    if changes:
        await engine.store.apply(changes)
    return merged


def _superseding(
    kept: Memory, old: Sequence[Memory], taken: Sequence[Link], *, now: datetime
) -> list[Change]:
    """They go, and leave what they had earned, and whom they knew."""
    connects = (Connect(link) for link in taken)
    return [*superseding(kept, old, now=now), *connects, inheritance(kept, old)]


def _is_as_it_was(before: Memory, now: Memory | None) -> bool:
    return now is not None and now.status is Status.ACTIVE and now.content_hash == before.content_hash


def _retired_at(memory: Memory, moment: datetime) -> bool:
    return memory.status is Status.SUPERSEDED and memory.updated == moment


async def transferred_links(engine: Engine, kept: Memory, old: Sequence[Memory]) -> list[Link]:
    """The old ones' links as the kept one's, without those that it has."""
    ids = {one.id for one in old}
    links = await engine.store.links_of([kept.id, *ids], viewer="system")
    has = {(link.origin, link.target, link.relation) for link in links}
    taken: dict[tuple[str, str, Relation], Link] = {}
    for link in links:
        if link.relation is Relation.SUPERSEDED_BY or (
            link.automatic and link.relation is Relation.CONTRADICTS
        ):
            continue  # what upkeep found stays with its own book
        origin = kept.id if link.origin in ids else link.origin
        target = kept.id if link.target in ids else link.target
        key = (origin, target, link.relation)
        if origin != target and key not in has:
            taken[key] = replace(link, origin=origin, target=target)
    return list(taken.values())


async def _bring_back(engine: Engine, old: Memory, kept: Memory) -> None:
    """What it was merged into is no longer what it was."""
    try:
        await apply_to_existing(
            engine, [Mark(old.id, Status.ACTIVE, None, engine.clock(), only_from=Status.SUPERSEDED)]
        )
    except Conflict:  # the same was remembered anew
        return
    await engine.store.apply([Disconnect(old.id, kept.id, Relation.SUPERSEDED_BY)])
