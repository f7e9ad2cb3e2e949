"""Stage 4: merges memories that say the same; the most important one gets their uses and links."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime

from mindhold.engine import Engine
from mindhold.lifecycle.archive import TRIES, apply_to_existing
from mindhold.lifecycle.stage_report import (
    MAX_EXAMPLES,
    NOTHING,
    DuePages,
    StageExample,
    StageLimits,
    StageResult,
)
from mindhold.memories.duplicates import (
    LOOKED_AT,
    TRAPS,
    inheritance,
    near_by_words,
    superseding,
    tells_trap_of,
)
from mindhold.memories.prepare import gist_of
from mindhold.model.errors import Conflict, MemoryNotFound
from mindhold.model.lexemes import lexemes
from mindhold.model.lifecycle import is_kept_for_good, is_marked, is_part, is_unswept, is_working
from mindhold.model.memory import Link, Memory, Relation, Status
from mindhold.model.query import Filter
from mindhold.ports.store import Change, Connect, Disconnect, Inherit, Mark
from mindhold.text.similarity import content_words, same_statement

DUPLICATES_STAGE = "duplicates"


@dataclass(slots=True)
class MergedDuplicates:
    """The result of a merge: the `retired` memories were merged into the `survivors`."""

    retired: set[str] = field(default_factory=set)
    survivors: set[str] = field(default_factory=set)
    examples: list[StageExample] = field(default_factory=list)


async def run_duplicates(engine: Engine, within: StageLimits) -> StageResult:
    """Run this stage alone; memories stay due for the other stages."""
    pages = DuePages(engine, within, moving=False)
    examples: list[StageExample] = []
    retired: set[str] = set()
    while (page := await pages.next()) is not None:
        merged = await merge_duplicates(
            engine, page.memories, read=page.read, dry=within.dry, besides=retired
        )
        examples += merged.examples
        retired |= merged.retired
    return StageResult(
        DUPLICATES_STAGE,
        changed=len(examples),
        detail=f"{len(examples)} merged" if examples else NOTHING,
        more=pages.more,
        looked=pages.looked,
        examples=tuple(examples[:MAX_EXAMPLES]),
        counts={"merged": len(examples)} if examples else {},
    )


async def merge_duplicates(
    engine: Engine, memories: Sequence[Memory], *, read: datetime, dry: bool, besides: AbstractSet[str]
) -> MergedDuplicates:
    """Merge memories that repeat another one of their scope, agent and topic. Each wording is looked at once.

    `besides` are memories merged on an earlier page, which a dry run still finds unmerged.
    """
    groups: dict[tuple[str, str], list[Memory]] = defaultdict(list)
    for memory in memories:
        if is_unswept(memory) and _is_mergeable(memory):
            groups[memory.scope, memory.agent].append(memory)
    merged = MergedDuplicates()
    if engine.settings.lifecycle_rules.keeps_all:
        return merged
    for (scope, agent), fresh in groups.items():
        gists = await asyncio.to_thread(_gists, fresh)
        distinct = list({gist for gist in gists.values() if gist})
        by_gist = await engine.store.by_gist(distinct, scope=scope, agent=agent)
        traps = Filter(viewer=agent, scopes=(scope,), agents=(agent,), kinds=TRAPS)
        for memory in fresh:
            alike = list(by_gist.get(gists[memory.id], ()))
            if memory.kind in TRAPS:
                words = content_words(memory.content)
                alike += await near_by_words(engine, words, traps, limit=LOOKED_AT)
            duplicates = _find_duplicates(memory, alike, besides=merged.retired | besides)
            if not duplicates:
                continue
            survivor, retired = _choose_survivor([memory, *duplicates])
            if retired and not dry:
                retired = await _retire(engine, survivor, retired, read=read)
            if retired:
                merged.survivors.add(survivor.id)
                merged.retired.update(old.id for old in retired)
                merged.examples += [
                    StageExample(old.id, "merged", f"says the same as {survivor.id}") for old in retired
                ]
    return merged


def _choose_survivor(memories: Sequence[Memory]) -> tuple[Memory, list[Memory]]:
    """The memory that survives and those merged into it; never an anchor, a permanent or a marked one."""

    def rank(memory: Memory) -> tuple[bool, int, float, int, datetime, str]:
        covered = sum(_covers(memory, other) for other in memories)
        return (
            not _is_protected(memory),
            -covered,
            -memory.importance,
            -memory.uses,
            memory.created,
            memory.id,
        )

    survivor, *others = sorted(memories, key=rank)
    return survivor, [memory for memory in others if not _is_protected(memory) and _covers(survivor, memory)]


def _is_protected(memory: Memory) -> bool:
    return is_kept_for_good(memory) or is_marked(memory)


def _gists(memories: Sequence[Memory]) -> dict[str, str]:
    return {memory.id: gist_of(lexemes(memory.content)) for memory in memories}


def _find_duplicates(
    memory: Memory, candidates: Sequence[Memory], *, besides: AbstractSet[str]
) -> list[Memory]:
    if memory.id in besides:
        return []
    found = {
        other.id: other
        for other in candidates
        if other.id != memory.id
        and other.id not in besides
        and other.topic.casefold() == memory.topic.casefold()
        and _is_mergeable(other)
        and (_covers(memory, other) or _covers(other, memory))
    }
    return list(found.values())


def _covers(one: Memory, other: Memory) -> bool:
    """Whether nothing is lost when only one of them stays."""
    same = one.kind is other.kind and same_statement(one.content, other.content)
    return same or tells_trap_of(one, other)


def _is_mergeable(memory: Memory) -> bool:
    return memory.status is Status.ACTIVE and not is_part(memory) and not is_working(memory)


async def _retire(engine: Engine, survivor: Memory, old: Sequence[Memory], *, read: datetime) -> list[Memory]:
    """Supersede duplicates and transfer their uses and links in one transaction; return those that this call retired.

    When two processes merge the same memories at once, each memory is counted once.
    """
    for _ in range(TRIES):
        current = await engine.store.get_many([survivor.id, *(memory.id for memory in old)], viewer="system")
        old = [current[memory.id] for memory in old if _is_unchanged(memory, current.get(memory.id))]
        current_survivor = current.get(survivor.id)
        if current_survivor is None or not _is_unchanged(survivor, current_survivor) or not old:
            return []
        links = await transferred_links(engine, current_survivor, old)
        try:
            await engine.store.apply(
                [
                    *superseding(current_survivor, old, now=read),
                    *map(Connect, links),
                    inheritance(current_survivor, old),
                ]
            )
            break
        except MemoryNotFound:  # one of them was erased meanwhile
            continue
    else:
        return []
    return await _correct_races(engine, current_survivor, old, links, read=read)


async def _correct_races(
    engine: Engine, survivor: Memory, old: Sequence[Memory], links: Sequence[Link], *, read: datetime
) -> list[Memory]:
    """Return the retired memories, after undoing the merge of those that changed in between."""
    current = await engine.store.get_many([survivor.id, *(memory.id for memory in old)], viewer="system")
    retired = [
        memory
        for memory in old
        if (now := current.get(memory.id)) and now.status is Status.SUPERSEDED and now.updated == read
    ]
    invalid = [memory for memory in retired if current[memory.id].content_hash != memory.content_hash]
    current_survivor = current.get(survivor.id)
    if not _is_unchanged(survivor, current_survivor):
        invalid = list(retired)
    for memory in invalid:
        await _bring_back(engine, memory, survivor)
    merged = [memory for memory in retired if memory not in invalid]
    lost_uses = sum(memory.uses for memory in old if memory not in merged)
    changes: list[Change] = []
    if current_survivor is not None and lost_uses:
        changes.append(
            Inherit(
                survivor.id,
                supersedes=current_survivor.supersedes or old[0].id,
                importance=0.0,
                uses=-lost_uses,
            )
        )
    if not merged:
        changes += [Disconnect(link.origin, link.target, link.relation) for link in links]
    if changes:
        await engine.store.apply(changes)
    return merged


def _is_unchanged(before: Memory, now: Memory | None) -> bool:
    return now is not None and now.status is Status.ACTIVE and now.content_hash == before.content_hash


async def transferred_links(engine: Engine, survivor: Memory, old: Sequence[Memory]) -> list[Link]:
    """The links of the old memories redirected to the surviving one, without links that it has."""
    ids = {memory.id for memory in old}
    links = await engine.store.links_of([survivor.id, *ids], viewer="system")
    existing = {(link.origin, link.target, link.relation) for link in links}
    transferred: dict[tuple[str, str, Relation], Link] = {}
    for link in links:
        if link.relation is Relation.SUPERSEDED_BY or (
            link.automatic and link.relation is Relation.CONTRADICTS
        ):
            continue  # automatic contradiction links belong to their own records
        origin = survivor.id if link.origin in ids else link.origin
        target = survivor.id if link.target in ids else link.target
        key = (origin, target, link.relation)
        if origin != target and key not in existing:
            transferred[key] = replace(link, origin=origin, target=target)
    return list(transferred.values())


async def _bring_back(engine: Engine, old: Memory, survivor: Memory) -> None:
    """Reactivate a memory whose survivor changed."""
    try:
        await apply_to_existing(
            engine, [Mark(old.id, Status.ACTIVE, None, engine.clock(), only_from=Status.SUPERSEDED)]
        )
    except Conflict:  # the same content was stored again
        return
    await engine.store.apply([Disconnect(old.id, survivor.id, Relation.SUPERSEDED_BY)])
