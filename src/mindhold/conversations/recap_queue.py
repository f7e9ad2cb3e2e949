"""Jobs that summarize conversations, and the removal of summaries whose messages are erased."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from mindhold.access.secrets import fingerprint
from mindhold.engine import Engine
from mindhold.model.job import SCOPE_KEY, Job
from mindhold.model.memory import Memory, Status
from mindhold.model.policies import CONVERSATION_RECAP, RECAP
from mindhold.model.query import Filter
from mindhold.model.scope import EVERYONE
from mindhold.ports.store import Change, Enqueue, Mark

RECAP_JOB = "recap"
AGENT_FIELD, CONVERSATION_FIELD, REASON_FIELD = "agent", "conversation", "why"  # in a job's payload
SILENCE, GROWN, ENDED, REMADE = "silence", "grown", "ended", "remade"  # why
Along = Callable[[Sequence[Memory]], list[Change]]


def recap_job(
    engine: Engine, conversation: str, *, scope: str, agent: str, why: str, due: datetime | None = None
) -> Job:
    """One waits for the silence of a conversation, and one of each other reason to do it now."""
    now = engine.clock()
    key = f"{RECAP_JOB}:{why}:{fingerprint(json.dumps([agent, scope, conversation]))}"
    payload = {SCOPE_KEY: scope, AGENT_FIELD: agent, CONVERSATION_FIELD: conversation, REASON_FIELD: why}
    return Job(engine.new_id(), RECAP_JOB, created=now, due=due or now, payload=payload, key=key)


def recap_jobs(engine: Engine) -> Along:
    """What is written along with messages, of many at once: of each conversation one job for when it is silent, and one for
    now where it has grown by enough."""
    chosen = engine.settings.recaps
    queued: set[tuple[str, str, str, str]] = set()

    def along(messages: Sequence[Memory]) -> list[Change]:
        if not chosen.enabled:
            return []
        changes: list[Change] = []
        for message in messages:
            told = message.provenance
            grown = told.position is not None and (told.position + 1) % chosen.every_messages == 0
            for why in (SILENCE, GROWN) if grown else (SILENCE,):
                place = (message.agent, message.scope, told.conversation or "", why)
                if place in queued:
                    continue
                queued.add(place)
                due = engine.clock() + engine.settings.serve.session_ttl if why == SILENCE else None
                job = recap_job(engine, place[2], scope=message.scope, agent=message.agent, why=why, due=due)
                changes.append(Enqueue(job))
        return changes

    return along


async def queue_ended(engine: Engine, conversation: str, *, agents: Iterable[str] = ()) -> None:
    """It is over: summarise what these agents, or all, said in it in each scope; mostly that is nothing."""
    if not engine.settings.recaps.enabled:
        return
    where = Filter(viewer=EVERYONE, agents=tuple(agents), conversation=conversation, turns=True)
    jobs: list[Change] = [
        Enqueue(recap_job(engine, conversation, scope=scope, agent=agent, why=ENDED))
        for scope in await engine.store.tally(where, "scope")
        for agent in await engine.store.tally(replace(where, scopes=(scope,)), "agent")
    ]
    if jobs:
        await engine.store.apply(jobs)


def is_recap(memory: Memory) -> bool:
    """Whether it stands for messages, or for others of its sort."""
    return RECAP in memory.metadata


def level_of(recap: Memory) -> int:
    """Of what it stands for."""
    level = recap.metadata.get("level")
    return level if isinstance(level, int) else CONVERSATION_RECAP


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
        await queue_recap_rebuild(engine, hidden, besides=set(found))


async def queue_recap_rebuild(engine: Engine, gone: Iterable[Memory], *, besides: set[str]) -> None:
    """For summaries that are gone: those of conversations are made anew, and what others stood for stands for itself again.

    `besides` are ids of what is gone, or hidden, as well.
    """
    changes: dict[str, Change] = {}
    back: list[str] = []
    for recap in filter(is_recap, gone):
        conversation = recap.provenance.conversation
        if level_of(recap) == CONVERSATION_RECAP and conversation:
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
