"""Jobs that summarize conversations, and the removal of summaries whose messages are erased."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
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
SILENCE, GROWN, ENDED, REMADE = "silence", "grown", "ended", "remade"  # reasons
ChangesOf = Callable[[Sequence[Memory]], list[Change]]


@dataclass(frozen=True, slots=True)
class ConversationRef:
    """A conversation of an agent in a scope."""

    conversation: str
    scope: str
    agent: str


def recap_job(engine: Engine, ref: ConversationRef, *, why: str, due: datetime | None = None) -> Job:
    """A job that updates a conversation's recap. At most one per conversation and reason waits."""
    now = engine.clock()
    key = f"{RECAP_JOB}:{why}:{fingerprint(json.dumps([ref.agent, ref.scope, ref.conversation]))}"
    payload = {
        SCOPE_KEY: ref.scope,
        AGENT_FIELD: ref.agent,
        CONVERSATION_FIELD: ref.conversation,
        REASON_FIELD: why,
    }
    return Job(engine.new_id(), RECAP_JOB, created=now, due=due or now, payload=payload, key=key)


def recap_jobs(engine: Engine) -> ChangesOf:
    """Returns a function that gives the recap jobs to write along with messages.

    Each conversation gets one job for when it is silent, and one for now whenever it has grown by enough messages.
    """
    settings = engine.settings.recaps
    queued: set[tuple[ConversationRef, str]] = set()

    def along(messages: Sequence[Memory]) -> list[Change]:
        if not settings.enabled:
            return []
        changes: list[Change] = []
        for message in messages:
            ref = ConversationRef(message.provenance.conversation or "", message.scope, message.agent)
            position = message.provenance.position
            grown = position is not None and (position + 1) % settings.every_messages == 0
            for why in (SILENCE, GROWN) if grown else (SILENCE,):
                if (ref, why) not in queued:
                    queued.add((ref, why))
                    due = engine.clock() + engine.settings.serve.session_ttl if why == SILENCE else None
                    changes.append(Enqueue(recap_job(engine, ref, why=why, due=due)))
        return changes

    return along


async def queue_ended(engine: Engine, conversation: str, *, agents: Iterable[str] = ()) -> None:
    """Queue recaps of an ended conversation for these agents, or all, in each scope."""
    if not engine.settings.recaps.enabled:
        return
    where = Filter(viewer=EVERYONE, agents=tuple(agents), conversation=conversation, turns=True)
    jobs: list[Change] = [
        Enqueue(recap_job(engine, ConversationRef(conversation, scope, agent), why=ENDED))
        for scope in await engine.store.tally(where, "scope")
        for agent in await engine.store.tally(replace(where, scopes=(scope,)), "agent")
    ]
    if jobs:
        await engine.store.apply(jobs)


def is_recap(memory: Memory) -> bool:
    """Whether the memory is a recap of messages or of other recaps."""
    return RECAP in memory.metadata


def level_of(recap: Memory) -> int:
    """The level of a recap."""
    level = recap.metadata.get("level")
    return level if isinstance(level, int) else CONVERSATION_RECAP


async def with_derived(engine: Engine, memories: Iterable[Memory]) -> dict[str, Memory]:
    """The memories, and everything that was merged from them, directly or indirectly; by id."""
    memories_by_id = {memory.id: memory for memory in memories}
    frontier = list(memories_by_id)
    while frontier:
        derived = await engine.store.derived_from(frontier)
        frontier = [memory.id for memory in derived if memory.id not in memories_by_id]
        memories_by_id |= {memory.id: memory for memory in derived}
    return memories_by_id


async def hide_recaps(engine: Engine, forgotten: Sequence[Memory]) -> None:
    """Hide the recaps of memories that were just forgotten, so that nobody finds their words there."""
    derived = await with_derived(engine, forgotten)
    forgotten_ids = {memory.id for memory in forgotten}
    hidden = [memory for memory in derived.values() if memory.id not in forgotten_ids and is_recap(memory)]
    now = engine.clock()
    marks: list[Change] = [
        Mark(memory.id, Status.FORGOTTEN, previous=memory.status, updated=now, only_from=memory.status)
        for memory in hidden
        if memory.status in (Status.ACTIVE, Status.ARCHIVED)
    ]
    if marks:
        await engine.store.apply(marks)
        await queue_recap_rebuild(engine, hidden, besides=set(derived))


async def queue_recap_rebuild(engine: Engine, removed: Iterable[Memory], *, besides: set[str]) -> None:
    """After recaps were removed: queue those of conversations again, and reactivate the sources of merged ones.

    `besides` are the ids of other removed or hidden memories.
    """
    changes: dict[str, Change] = {}
    source_ids: list[str] = []
    for recap in filter(is_recap, removed):
        conversation = recap.provenance.conversation
        if level_of(recap) == CONVERSATION_RECAP and conversation:
            ref = ConversationRef(conversation, recap.scope, recap.agent)
            job = recap_job(engine, ref, why=REMADE)
            changes.setdefault(job.key or job.id, Enqueue(job))
        else:
            source_ids += [source for source in recap.merged_from if source not in besides]
    now = engine.clock()
    for source in (await engine.store.get_many(source_ids, viewer=EVERYONE)).values() if source_ids else ():
        if is_recap(source) and source.status is Status.ARCHIVED:
            changes[source.id] = Mark(
                source.id, Status.ACTIVE, previous=None, updated=now, only_from=Status.ARCHIVED
            )
    if changes:
        await engine.store.apply(list(changes.values()))
