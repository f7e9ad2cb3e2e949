"""Conversations as they go on: what each stored, whether anybody reflected on it, whether it came to an end.

What happens in one is appended, an entry each, and never changed: of two that write at once neither undoes the other.
"""

from __future__ import annotations

import json
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

DRAWER = "conversation"  # which there are
EVENTS = "conversation:"  # before a conversation's key: what happened in it
WAITING = "unreflected:"  # before an agent's name: which of theirs wait for somebody to reflect on them
SESSION_ONLY = (
    "recollect.session_only"  # in the metadata of working memory: the conversation that it ends with
)
KEPT = timedelta(days=90)  # after the last that was heard of one
ABANDONED = timedelta(days=1)  # one that was silent for so long has ended without a word
SETTLED = timedelta(minutes=5)  # how exact the last activity is: most calls then write nothing
MOST_IDS = 500
MOST_EVENTS = 10_000
MOST_CONVERSATIONS = 10_000
MOST_WAITING = 100  # counted no further


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. None in `ended` says nothing of that; `counted` takes the place of what was counted."""

    memories: tuple[str, ...] = ()
    tools: Mapping[str, int] = field(default_factory=dict)
    counted: bool = False
    started: datetime | None = None
    reflected: bool = False
    reflection: str | None = None
    ended: bool | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is known of one. `reflection` is the memory that was written at its end, when nobody else reflected."""

    id: str
    agent: str
    started: datetime
    last: datetime
    tools: Mapping[str, int] = field(default_factory=dict)
    memories: tuple[str, ...] = ()
    reflected: bool = False
    reflection: str | None = None
    ended: bool = False


def called(engine: Engine, conversation: str) -> str:
    """The name as memories bear it: without what must not be kept. Raises InvalidInput for a very long one."""
    return checked_provenance(engine, Provenance(conversation=conversation)).conversation or ""


async def conversation_of(engine: Engine, conversation: str, *, agent: str) -> Conversation | None:
    """As far as it is known."""
    drawer = EVENTS + _key(conversation, agent)
    entries = await engine.store.entries(drawer, now=engine.clock(), limit=MOST_EVENTS)
    if not entries:
        return None
    begun = entries[-1].created
    known = Conversation(conversation, agent, started=begun, last=begun)
    for entry in reversed(entries):
        known = told(known, _event(entry.value), at=entry.created)
    return known


async def count_conversations(engine: Engine, *, agent: str) -> int:
    """How many the agent may know of."""
    entries = await engine.store.entries(DRAWER, now=engine.clock(), limit=MOST_CONVERSATIONS)
    return sum(sees(agent, entry.value["agent"]) for entry in entries)


async def unreflected(engine: Engine, *, agent: str, besides: str | None) -> int:
    """How many other conversations of the agent stored something, were never reflected on and never came to an end.

    At most MOST_WAITING are counted.
    """
    waiting = await engine.store.entries(WAITING + agent, now=engine.clock(), limit=MOST_WAITING + 1)
    return min(MOST_WAITING, sum(entry.key != besides for entry in waiting))


async def note_activity(
    engine: Engine,
    conversation: str,
    tool: str,
    memory_ids: Sequence[str] = (),
    *,
    agent: str,
    exactly: bool = False,
) -> None:
    """Cheap: one that was noted within the last minutes isn't noted again, unless `exactly` these ids must be known."""
    conversation = called(engine, conversation)
    latest = await _latest(engine, conversation, agent=agent)
    before = _event(latest.value) if latest else Event(ended=True)
    fresh = latest is not None and engine.clock() - latest.created < SETTLED
    if fresh and before.memories and not before.ended and not exactly:
        return
    event = Event(tuple(memory_ids), {tool: 1}, ended=False)
    await happened(engine, conversation, event, agent=agent)
    if before.ended and not before.reflected:
        await _wait(engine, conversation, agent=agent)


async def happened(engine: Engine, conversation: str, event: Event, *, agent: str) -> None:
    """Keep it. One that was reflected on, or that ended, waits for nobody any more."""
    now = engine.clock()
    key = _key(conversation, agent)
    value = {
        "memories": list(event.memories),
        "tools": dict(event.tools),
        "counted": event.counted,
        "started": event.started.isoformat() if event.started else None,
        "reflected": event.reflected,
        "reflection": event.reflection,
        "ended": event.ended,
    }
    await engine.store.put_entry(Entry(EVENTS + key, engine.new_id(), value, now, now + KEPT))
    named = {"agent": agent, "conversation": conversation}
    await engine.store.put_entry(Entry(DRAWER, key, named, now, now + KEPT))
    if event.reflected or event.ended:
        await engine.store.drop_entry(WAITING + agent, conversation)


def told(known: Conversation, event: Event, *, at: datetime) -> Conversation:
    """With one more thing that happened."""
    reflection = event.reflection if event.reflected else known.reflection
    return replace(
        known,
        started=min(known.started, event.started or at),
        last=max(known.last, at),
        tools=dict(event.tools if event.counted else Counter(known.tools) + Counter(event.tools)),
        memories=tuple(dict.fromkeys([*known.memories, *event.memories]))[-MOST_IDS:],
        reflected=known.reflected or event.reflected,
        reflection=reflection,
        ended=known.ended if event.ended is None else event.ended,
    )


async def end_working_memory(engine: Engine, conversation: str, *, agent: str) -> int:
    """Archive what was only meant for this conversation; how many that were."""
    where = Filter(viewer=agent, tiers=(Tier.HOT,))
    own = [memory async for batch in engine.store.scan(where) for memory in batch if memory.agent == agent]
    return await _archive(engine, [one for one in own if one.metadata.get(SESSION_ONLY) == conversation])


async def end_abandoned(engine: Engine) -> int:
    """End the working memory of conversations that were silent for a day; how many memories that were."""
    oldest = engine.clock() - ABANDONED
    where = Filter(viewer="system", tiers=(Tier.HOT,))
    old: dict[tuple[str, str], list[Memory]] = {}
    async for batch in engine.store.scan(where):
        for memory in batch:
            if is_working(memory) and memory.updated <= oldest:
                old.setdefault((memory.agent, str(memory.metadata[SESSION_ONLY])), []).append(memory)
    over: list[Memory] = []
    for (agent, conversation), memories in old.items():
        # Of one that nobody here knows of nothing was heard: it was held behind a fence.
        latest = await _latest(engine, conversation, agent=agent)
        if latest is None or latest.created <= oldest:
            over += memories
    return await _archive(engine, over)


def is_working(memory: Memory) -> bool:
    """Whether a memory ends with its conversation."""
    return bool(memory.metadata.get(SESSION_ONLY))


async def _archive(engine: Engine, memories: Iterable[Memory]) -> int:
    now = engine.clock()
    changes: list[Change] = [
        Mark(memory.id, Status.ARCHIVED, previous=Status.ACTIVE, updated=now, only_from=Status.ACTIVE)
        for memory in memories
        if memory.status is Status.ACTIVE
    ]
    if changes:
        await engine.store.apply(changes)
    return len(changes)


async def _latest(engine: Engine, conversation: str, *, agent: str) -> Entry | None:
    found = await engine.store.entries(EVENTS + _key(conversation, agent), now=engine.clock(), limit=1)
    return found[0] if found else None


async def _wait(engine: Engine, conversation: str, *, agent: str) -> None:
    now = engine.clock()
    await engine.store.put_entry(Entry(WAITING + agent, conversation, {}, now, now + KEPT))


def _key(conversation: str, agent: str) -> str:
    """No two pairs of names have the same."""
    return json.dumps([agent, conversation], ensure_ascii=False)


def _event(value: Mapping[str, Any]) -> Event:
    return Event(
        memories=tuple(value["memories"]),
        tools=value["tools"],
        counted=value["counted"],
        started=in_utc(datetime.fromisoformat(value["started"])) if value["started"] else None,
        reflected=value["reflected"],
        reflection=value["reflection"],
        ended=value["ended"],
    )
