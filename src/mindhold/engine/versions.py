"""All that a memory has said: every earlier version and the present one, and who changed what when."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from mindhold.engine.core import LEAST_TRUST, Engine
from mindhold.engine.draft import QUARANTINE_FROM
from mindhold.engine.surroundings import HIDDEN
from mindhold.engine.text.suspicion import suspicion
from mindhold.model.errors import MemoryNotFound
from mindhold.model.link import Relation
from mindhold.model.memory import Kind, Memory, Tier, Version

# Changes that need no amendment.
_BY_UPKEEP: dict[str, Callable[[Said, Said], bool]] = {
    "importance": lambda before, after: after.importance < before.importance,
    "tier": lambda before, after: Tier.PERMANENT not in (before.tier, after.tier),
    "anchor": lambda _before, after: after.anchor,
}
WITHHELD = "(It read like instructions to its reader and is not shown.)"


@dataclass(frozen=True, slots=True)
class Said:
    """What can be amended of a memory."""

    content: str
    kind: Kind
    topic: str
    tags: tuple[str, ...]
    keywords: tuple[str, ...]
    importance: float
    anchor: bool
    tier: Tier
    occurred: datetime
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Edition:
    """One version: what it said, from when to when, by whom, and what the amendment that made it changed."""

    number: int
    said: Said
    since: datetime
    until: datetime | None  # None: it is the present one
    by: str
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class History:
    """Oldest first. `earlier` is how many more there were before the first that is told."""

    memory: Memory
    editions: tuple[Edition, ...]
    earlier: int
    superseded_by: tuple[str, ...]


async def versions(engine: Engine, memory_id: str, *, agent: str, limit: int) -> History:
    """The last `limit` versions, as far as an answer has room. Raises MemoryNotFound, also for one that is hidden."""
    memory = await engine.store.get(memory_id, viewer=agent)
    if memory.status in HIDDEN or memory.trust < LEAST_TRUST:
        raise MemoryNotFound(memory_id)
    links = await engine.store.links_of([memory_id], relations=(Relation.SUPERSEDED_BY,), viewer=agent)
    editions = editions_of(memory, await engine.store.versions_of(memory_id))
    room = engine.policy.longest_answer
    told: list[Edition] = []
    for edition in reversed(editions[-limit:]):
        room -= len(edition.said.content)
        if told and room < 0:
            break
        told.append(edition)
    later = tuple(link.target for link in links if link.origin == memory_id)
    return History(memory, tuple(reversed(told)), len(editions) - len(told), later)


def editions_of(memory: Memory, kept: list[Version]) -> list[Edition]:
    """A version is kept with the time and the name of who ended it; the next one is that person's."""
    editions: list[Edition] = []
    since, by, before = memory.created, memory.agent, None
    for version in kept:
        said = _of(version)
        editions.append(Edition(version.number, said, since, version.amended, by, _changed(before, said)))
        since, by, before = version.amended, version.amended_by, said
    now = _of(memory)
    number = editions[-1].number + 1 if editions else 1
    return [*editions, Edition(number, now, since, None, by, _changed(before, now))]


def _of(record: Memory | Version) -> Said:
    withheld = isinstance(record, Version) and suspicion(record.content).score >= QUARANTINE_FROM
    return Said(
        content=WITHHELD if withheld else record.content,
        kind=record.kind,
        topic=record.topic,
        tags=record.tags,
        keywords=record.keywords,
        importance=record.importance,
        anchor=record.anchor,
        tier=record.tier,
        occurred=record.occurred,
        metadata=record.metadata,
    )


def _changed(before: Said | None, after: Said) -> tuple[str, ...]:
    """Upkeep lowers importance, cools and anchors without an amendment: what it may have done is not told as one's change.

    Unless nothing else differs: each version is an amendment's, which changed something.
    """
    if before is None:
        return ()
    names = (field.name for field in fields(Said))
    differing = [name for name in names if getattr(before, name) != getattr(after, name)]
    said = [name for name in differing if name not in _BY_UPKEEP or not _BY_UPKEEP[name](before, after)]
    return tuple(said or differing)
