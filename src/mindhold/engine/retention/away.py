"""Putting memories into the archive by a rule of retention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from mindhold.engine.consolidate.leaving import archive
from mindhold.engine.consolidate.stage import NOTHING, Bounds, Stage, Told
from mindhold.engine.core import Engine
from mindhold.model.life import Fate
from mindhold.model.memory import PART, Memory, Status
from mindhold.model.query import Filter
from mindhold.model.retention import PARTS, may_go

NAME = "retention"


async def put_away(
    engine: Engine, memories: Sequence[Memory], *, why: str, within: Bounds, read: datetime
) -> list[Told]:
    """Archive these; those that went. What somebody used or changed meanwhile stays."""
    leaving = {memory.id: (memory, _away(memory, read)) for memory in memories}
    told = [Told(name, Fate.ARCHIVED, why) for name in leaving]
    if within.dry or not told:
        return told
    await within.before(told)
    gone = await archive(engine, leaving, read=read)
    return [one for one in told if one.memory_id in gone]


async def with_parts(engine: Engine, messages: Sequence[Memory], *, now: datetime) -> list[Memory]:
    """Long messages go whole, or not at all: with one that has to stay, all of it stays."""
    whole: list[Memory] = []
    for message in messages:
        others = await _parts(engine, message) if PARTS in message.metadata else []
        if all(may_go(part, now) for part in others):
            whole += [message, *others]
    return whole


def staged(told: Sequence[Told], words: str, *, looked: int = 0, more: bool = False) -> Stage:
    """What a step did, in words."""
    counts = {str(Fate.ARCHIVED): len(told)} if told else {}
    return Stage(
        NAME,
        len(told),
        words if told else NOTHING,
        more=more,
        looked=looked,
        examples=tuple(told),
        counts=counts,
    )


async def _parts(engine: Engine, message: Memory) -> list[Memory]:
    """The later ones stand at the place of the first."""
    place = message.provenance.position
    if place is None:
        return []
    where = Filter(
        viewer="system",
        scopes=(message.scope,),
        conversation=message.provenance.conversation,
        positions=(place, place),
    )
    found = await engine.store.find(where, limit=int(message.metadata[PARTS]) + 50)
    return [one for one in found if PART in one.metadata and one.agent == message.agent]


def _away(memory: Memory, read: datetime) -> Memory:
    return replace(memory, status=Status.ARCHIVED, previous_status=memory.status, updated=read)
