"""Summaries of conversations when something that they stand for goes: they repeat its words, so they go too, and are made anew
without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mindhold.engine.core import Engine
from mindhold.engine.recap_queue import REMADE, recap_job
from mindhold.model.access import EVERYONE
from mindhold.model.memory import Memory, Status
from mindhold.model.recap import CONVERSATION, RECAP
from mindhold.ports.store import Change, Enqueue, Mark


def is_recap(memory: Memory) -> bool:
    """Whether it stands for messages, or for others of its sort."""
    return RECAP in memory.metadata


def level_of(recap: Memory) -> int:
    """Of what it stands for."""
    level = recap.metadata.get("level")
    return level if isinstance(level, int) else CONVERSATION


async def with_derived(engine: Engine, memories: Iterable[Memory]) -> dict[str, Memory]:
    """By id: these, what was merged from them, and what was merged from that."""
    found = {memory.id: memory for memory in memories}
    ahead = list(found)
    while ahead:
        derived = await engine.store.derived_from(ahead)
        ahead = [memory.id for memory in derived if memory.id not in found]
        found |= {memory.id: memory for memory in derived}
    return found


async def hide_recaps(engine: Engine, forgotten: Sequence[Memory]) -> None:
    """Of what was forgotten a moment ago: nobody finds its words in a summary."""
    found = await with_derived(engine, forgotten)
    named = {memory.id for memory in forgotten}
    hidden = [memory for memory in found.values() if memory.id not in named and is_recap(memory)]
    now = engine.clock()
    marks: list[Change] = [
        Mark(memory.id, Status.FORGOTTEN, previous=memory.status, updated=now, only_from=memory.status)
        for memory in hidden
        if memory.status in (Status.ACTIVE, Status.ARCHIVED)
    ]
    if marks:
        await engine.store.apply(marks)
        await remake(engine, hidden, besides=set(found))


async def remake(engine: Engine, gone: Iterable[Memory], *, besides: set[str]) -> None:
    """For summaries that are gone: those of conversations are made anew, and what others stood for stands for itself again.

    `besides` are ids of what is gone, or hidden, as well.
    """
    changes: dict[str, Change] = {}
    back: list[str] = []
    for recap in filter(is_recap, gone):
        conversation = recap.provenance.conversation
        if level_of(recap) == CONVERSATION and conversation:
            job = recap_job(engine, conversation, scope=recap.scope, agent=recap.agent, why=REMADE)
            changes.setdefault(job.key or job.id, Enqueue(job))
        else:
            back += [source for source in recap.merged_from if source not in besides]
    now = engine.clock()
    for source in (await engine.store.get_many(back, viewer=EVERYONE)).values() if back else ():
        if is_recap(source) and source.status is Status.ARCHIVED:
            changes[source.id] = Mark(
                source.id, Status.ACTIVE, previous=None, updated=now, only_from=Status.ARCHIVED
            )
    if changes:
        await engine.store.apply(list(changes.values()))
