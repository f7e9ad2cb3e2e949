"""Conversations as they go on: who keeps one open, what it stored, whether anybody reflected on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from recollect.engine.checks import checked_provenance, in_utc
from recollect.engine.core import Engine
from recollect.model.access import sees
from recollect.model.entry import Entry
from recollect.model.memory import Memory, Provenance, Status, Tier
from recollect.model.query import Filter
from recollect.ports.store import Change, Mark

DRAWER = "conversation"
SESSION_ONLY = "session_only"  # in the metadata of working memory
KEPT = timedelta(days=90)  # after the last that was heard of one
ABANDONED = timedelta(days=1)  # one that was silent for so long has ended without a word
SETTLED = timedelta(minutes=5)  # how exact the last activity is: most calls then write nothing
MOST_IDS = 500
MOST_CONVERSATIONS = 10_000


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is known of one. `reflection` is the memory that was written at its end, when nobody else reflected."""

    id: str
    agent: str
    started: datetime
    last: datetime
    tools: Mapping[str, int] = field(default_factory=dict)
    memories: tuple[str, ...] = ()
    working: tuple[str, ...] = ()  # ids of working memory
    reflected: bool = False
    reflection: str | None = None
    ended: datetime | None = None


def called(engine: Engine, conversation: str) -> str:
    """The name as memories bear it: without what must not be kept. Raises InvalidInput for a very long one."""
    return checked_provenance(engine, Provenance(conversation=conversation)).conversation or ""


async def conversation_of(engine: Engine, conversation: str, *, agent: str) -> Conversation | None:
    """As far as it is known."""
    entry = await engine.store.entry(DRAWER, _key(conversation, agent), now=engine.clock())
    return None if entry is None else _from(entry.value)


async def conversations(engine: Engine, *, agent: str) -> list[Conversation]:
    """All that the agent may know of, the newest first."""
    entries = await engine.store.entries(DRAWER, now=engine.clock(), limit=MOST_CONVERSATIONS)
    known = (_from(entry.value) for entry in entries)
    return [one for one in known if sees(agent, one.agent)]


async def unreflected(engine: Engine, *, agent: str, besides: str | None) -> int:
    """How many other conversations of the agent stored something, were never reflected on and never came to an end."""
    return sum(
        one.agent == agent
        and one.id != besides
        and not one.reflected
        and not one.ended
        and bool(one.memories)
        for one in await conversations(engine, agent=agent)
    )


async def keep_conversation(engine: Engine, conversation: Conversation) -> None:
    """Insert or replace what is known of it."""
    value = {
        "conversation": conversation.id,
        "agent": conversation.agent,
        "started": conversation.started.isoformat(),
        "last": conversation.last.isoformat(),
        "tools": dict(conversation.tools),
        "memories": list(conversation.memories),
        "working": list(conversation.working),
        "reflected": conversation.reflected,
        "reflection": conversation.reflection,
        "ended": conversation.ended.isoformat() if conversation.ended else None,
    }
    key = _key(conversation.id, conversation.agent)
    expires = conversation.last + KEPT
    await engine.store.put_entry(Entry(DRAWER, key, value, conversation.started, expires))


async def note_activity(
    engine: Engine,
    conversation: str,
    tool: str,
    memory_ids: Sequence[str] = (),
    *,
    agent: str,
    working: bool = False,
    exactly: bool = False,
) -> None:
    """Cheap: one that was noted within the last minutes isn't noted again, unless `exactly` these ids must be known.

    Working memory always must, since it ends.
    """
    now = engine.clock()
    conversation = called(engine, conversation)
    known = await conversation_of(engine, conversation, agent=agent)
    fresh = known is not None and bool(known.memories) and now - known.last < SETTLED
    if fresh and not (working or exactly):
        return
    before = known or Conversation(conversation, agent, started=now, last=now)
    noted = merged(before, tools={tool: 1}, memories=memory_ids, now=now)
    if working:
        noted = replace(noted, working=_together(before.working, memory_ids))
    await keep_conversation(engine, replace(noted, ended=None))


def merged(
    known: Conversation, *, tools: Mapping[str, int], memories: Iterable[str], now: datetime
) -> Conversation:
    """With more that became known."""
    return replace(
        known,
        last=max(known.last, now),
        tools=dict(Counter(known.tools) + Counter(dict(tools))),
        memories=_together(known.memories, memories),
    )


async def end_working_memory(engine: Engine, conversation: Conversation) -> int:
    """Archive what was only meant for this conversation; how many that were."""
    where = Filter(viewer=conversation.agent, conversation=conversation.id)
    found = {memory.id: memory async for batch in engine.store.scan(where) for memory in batch}
    named = [memory_id for memory_id in conversation.working if memory_id not in found]
    if named:
        found |= await engine.store.get_many(named, viewer=conversation.agent)
    return await _archive(engine, list(found.values()))


async def _archive(engine: Engine, memories: Iterable[Memory]) -> int:
    now = engine.clock()
    changes: list[Change] = [
        Mark(memory.id, Status.ARCHIVED, previous=Status.ACTIVE, updated=now, only_from=Status.ACTIVE)
        for memory in memories
        if memory.status is Status.ACTIVE and is_working(memory)
    ]
    if changes:
        await engine.store.apply(changes)
    return len(changes)


async def end_abandoned(engine: Engine) -> int:
    """End the working memory of conversations that ended, or were silent for a day; how many memories that were."""
    oldest = engine.clock() - ABANDONED
    ended = 0
    going_on: set[str] = set()
    for one in await conversations(engine, agent="system"):
        if one.ended is None and one.last > oldest:
            going_on.update(one.working)
        elif one.working:
            ended += await end_working_memory(engine, one)
            await keep_conversation(engine, replace(one, working=(), ended=one.ended or one.last))
    where = Filter(viewer="system", tiers=(Tier.HOT,))
    left = [memory async for batch in engine.store.scan(where) for memory in batch]
    # Of conversations that nobody here knows of: they were held behind a fence.
    return ended + await _archive(
        engine, [one for one in left if one.updated <= oldest and one.id not in going_on]
    )


def is_working(memory: Memory) -> bool:
    """Whether a memory ends with its conversation."""
    return bool(memory.metadata.get(SESSION_ONLY))


def _key(conversation: str, agent: str) -> str:
    return f"{agent}\n{conversation}"


def _together(known: Sequence[str], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*known, *more]))[-MOST_IDS:]


def _from(value: Mapping[str, Any]) -> Conversation:
    return Conversation(
        id=value["conversation"],
        agent=value["agent"],
        started=_moment(value["started"]),
        last=_moment(value["last"]),
        tools=value["tools"],
        memories=tuple(value["memories"]),
        working=tuple(value["working"]),
        reflected=value["reflected"],
        reflection=value["reflection"],
        ended=_moment(value["ended"]) if value["ended"] else None,
    )


def _moment(text: str) -> datetime:
    return in_utc(datetime.fromisoformat(text))
