"""Conversations as they go on: what was done in each, whether anybody reflected on it, whether it came to an end.

What happens in one is appended, an entry each, and never changed: of two that write at once neither undoes the other. One that
stored something is open until it has ended; those are listed for the whole store, so that any process can end what a
crash left behind.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from recollect.engine.checks import checked_provenance, in_utc
from recollect.engine.core import Engine
from recollect.engine.doings import MOST_ANSWERED, MOST_TOUCHED, Done, Gathered, Place, newest
from recollect.model.access import sees
from recollect.model.entry import Entry
from recollect.model.errors import StoreError
from recollect.model.job import Job
from recollect.model.life import SESSION_ONLY
from recollect.model.memory import Memory, Provenance, Status, Tier
from recollect.model.query import Filter
from recollect.ports.store import Enqueue, Mark, Revise

DRAWER = "conversation"  # which there are
EVENTS = "conversation:"  # before a conversation's key: what happened in it
WAITING = "unreflected:"  # before an agent's name: which of theirs wait for somebody to reflect on them
OPEN = "conversations:open"  # of the whole store: those that have not ended
REFLECT = "reflect"  # the job that ends those that fell silent, and reflects on them
ALONE = "alone:"  # how the name begins of what is no conversation, but needs an end
DOCUMENT = "document:"  # how a conversation's name begins that stands for the parts of a long text
KEPT = timedelta(days=90)  # after the last that was heard of one
ABANDONED = timedelta(days=1)  # what is in no conversation ends then
MOST_IDS = 500
MOST_EVENTS = 10_000
MOST_CONVERSATIONS = 10_000
MOST_WAITING = 100  # counted no further


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. None in `ended` says nothing of that; `counted` takes the place of what was counted."""

    memories: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()  # of long texts the first parts
    touched: tuple[str, ...] = ()  # recalled, or shown
    answers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tools: Mapping[str, int] = field(default_factory=dict)
    counted: bool = False
    started: datetime | None = None
    reflected: bool = False
    reflection: str | None = None
    ended: bool | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is known of one. `reflection` is the memory that was written at its end, when nobody else reflected.

    `answers` has what the latest answer of each tool gave.
    """

    id: str
    agent: str
    started: datetime
    last: datetime
    tools: Mapping[str, int] = field(default_factory=dict)
    memories: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    answers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reflected: bool = False
    reflection: str | None = None
    ended: bool = False

    @property
    def by_hand(self) -> bool:
        """Whether somebody reflected on it; what goes on after that counts as reflected."""
        return self.reflected and self.reflection is None


def called(engine: Engine, conversation: str) -> str:
    """The name as memories bear it: without what must not be kept. Raises InvalidInput for a very long one."""
    return checked_provenance(engine, Provenance(conversation=conversation)).conversation or ""


def place_of(engine: Engine, conversation: str, *, agent: str) -> Place:
    """Where that conversation of the agent's is kept, for this caller. Raises InvalidInput for a very long name."""
    return Place(tuple(sorted(engine.fence)), agent, called(engine, conversation))


async def conversation_of(engine: Engine, conversation: str, *, agent: str) -> Conversation | None:
    """As far as it is known, and written down."""
    entries = await engine.store.entries(
        EVENTS + _key(conversation, agent), now=engine.clock(), limit=MOST_EVENTS
    )
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


def note_call(engine: Engine, conversation: str, done: Done, *, agent: str) -> None:
    """That something was done. Written down with all that is done within the next minute; nobody waits for it."""
    engine.doings.note(engine, place_of(engine, conversation, agent=agent), done)
    engine.doings.arrange(lambda: write_down(engine))


async def write_down(engine: Engine, place: Place | None = None) -> None:
    """What has gathered, of one place or of all; a store that is busy or full has it written another time."""
    for each, gathered in engine.doings.take(place):
        try:
            await happened(gathered.engine, each.conversation, _as_event(gathered), agent=each.agent)
        except StoreError:
            engine.doings.give_back(each, gathered)


async def note_activity(
    engine: Engine,
    conversation: str,
    memory_ids: Sequence[str] = (),
    *,
    agent: str,
    exactly: bool = False,
) -> None:
    """That it stored something. Cheap where it is known to be open.

    With `exactly` these are the parts of long texts, which bear another conversation's name.
    """
    place = place_of(engine, conversation, agent=agent)
    if await engine.ledger.entry(OPEN, place.key, now=engine.clock()) is None:
        await _begin(engine, place)
    if exactly:
        found = await engine.store.get_many(memory_ids, viewer=agent)
        names = {memory.provenance.conversation or "" for memory in found.values()}
        firsts = sorted(name.removeprefix(DOCUMENT) for name in names if name.startswith(DOCUMENT))
        await happened(engine, place.conversation, Event(documents=tuple(firsts)), agent=agent)


async def happened(engine: Engine, conversation: str, event: Event, *, agent: str) -> None:
    """Keep it. One that was reflected on, or that ended, waits for nobody any more."""
    now = engine.clock()
    key = _key(conversation, agent)
    await _list(engine, conversation, agent=agent)
    await engine.store.put_entry(Entry(EVENTS + key, engine.new_id(), _value(event), now, now + KEPT))
    if event.reflected or (event.ended and engine.policy.reflect):
        await engine.store.drop_entry(WAITING + agent, conversation)


def told(known: Conversation, event: Event, *, at: datetime) -> Conversation:
    """With one more thing that happened."""
    return replace(
        known,
        started=min(known.started, event.started or at),
        last=max(known.last, at),
        tools=dict(event.tools if event.counted else Counter(known.tools) + Counter(event.tools)),
        memories=tuple(newest([*known.memories, *event.memories], MOST_IDS)),
        documents=tuple(newest([*known.documents, *event.documents], MOST_IDS)),
        touched=tuple(newest([*known.touched, *event.touched], MOST_TOUCHED)),
        answers={**known.answers, **event.answers},
        reflected=known.reflected or event.reflected,
        reflection=event.reflection if event.reflected else known.reflection,
        ended=known.ended if event.ended is None else event.ended,
    )


async def go_on(engine: Engine, conversation: str, *, agent: str) -> bool:
    """Say that a silent one is still there, so that it isn't taken for one that is over. Whether it is open."""
    place = place_of(engine, conversation, agent=agent)
    now = engine.clock()
    entry = await engine.ledger.entry(OPEN, place.key, now=now)
    if entry is None:
        return False
    await engine.ledger.put_entry(replace(entry, created=now, expires=now + KEPT))
    return True


async def last_heard(engine: Engine, entry: Entry) -> datetime:
    """Of the one that an entry of OPEN is about; the engine is that of its fence."""
    place = Place.of_value(entry.value)
    key = _key(place.conversation, place.agent)
    found = await engine.store.entries(EVENTS + key, now=engine.clock(), limit=1)
    return max([entry.created, *(event.created for event in found)])


async def end_working_memory(engine: Engine, conversation: str, *, agent: str) -> int:
    """Archive what was only meant for this conversation, unless it is kept for good by now; how many that were."""
    now = engine.clock()
    ended = 0
    async for memories in memories_of(engine, conversation, agent=agent):
        over = [
            Mark(memory.id, Status.ARCHIVED, previous=Status.ACTIVE, updated=now, only_from=Status.ACTIVE)
            for memory in memories
            if memory.metadata.get(SESSION_ONLY) == conversation
            and not memory.anchor
            and memory.tier is not Tier.PERMANENT
        ]
        if over:
            await engine.store.apply(over)
        ended += len(over)
    return ended


async def outlive(engine: Engine, memory: Memory) -> None:
    """Let working memory stay when its conversation ends: somebody has said the same for good."""
    name = memory.provenance.conversation or ""
    found = {memory.id: await engine.store.get(memory.id, viewer=memory.agent)}
    if name.startswith(DOCUMENT):
        async for batch in engine.store.scan(Filter(viewer=memory.agent, conversation=name)):
            found |= {part.id: part for part in batch if part.agent == memory.agent}
    changes = [
        Revise(
            replace(one, metadata={key: value for key, value in one.metadata.items() if key != SESSION_ONLY})
        )
        for one in found.values()
    ]
    await engine.store.apply(changes)


async def end_abandoned(engine: Engine) -> int:
    """End the working memory of what was silent for a day; how many memories that were."""
    now = engine.clock()
    ended = 0
    for entry in await open_ones(engine):
        place = Place.of_value(entry.value)
        fenced = within(engine, place.fence)
        if await last_heard(fenced, entry) <= now - ABANDONED:
            ended += await end_working_memory(fenced, place.conversation, agent=place.agent)
    return ended


async def memories_of(
    engine: Engine, conversation: str, *, agent: str, documents: Sequence[str] | None = None
) -> AsyncIterator[list[Memory]]:
    """The agent's active memories of it, in batches, with the parts of the long texts that it stored."""
    if documents is None:
        known = await conversation_of(engine, conversation, agent=agent)
        documents = known.documents if known else ()
    for name in (conversation, *(DOCUMENT + first for first in documents)):
        async for batch in engine.store.scan(Filter(viewer=agent, conversation=name)):
            yield [memory for memory in batch if memory.agent == agent]


async def open_ones(engine: Engine) -> list[Entry]:
    """Of the whole store: those that have not ended, the latest first."""
    return await engine.ledger.entries(OPEN, now=engine.clock(), limit=MOST_CONVERSATIONS)


def within(engine: Engine, fence: Sequence[str]) -> Engine:
    """The engine of the whole store, as a caller has it who is bound to these scopes."""
    if not fence:
        return engine
    from recollect.engine.fence import Fenced, FencedHouses  # most callers have none

    scope = engine.policy.scope if engine.policy.scope in fence else fence[0]
    return replace(
        engine,
        store=Fenced(engine.store, fence),
        houses=FencedHouses(engine.houses, fence),
        policy=replace(engine.policy, scope=scope),
        fence=tuple(fence),
    )


def sweep_job(engine: Engine, *, due: datetime) -> Job:
    """Look then for conversations that fell silent; one such job waits at a time."""
    return Job(engine.new_id(), REFLECT, created=engine.clock(), due=due, key=REFLECT)


async def _begin(engine: Engine, place: Place) -> None:
    """It has stored something: from now on it is open, and waits for somebody to reflect on it."""
    now = engine.clock()
    value = {**place.as_value(), "started": now.isoformat(), "ended": False}
    if not place.conversation.startswith(ALONE):
        known = await conversation_of(engine, place.conversation, agent=place.agent)
        await _list(engine, place.conversation, agent=place.agent)
        if known is not None and known.ended:
            await happened(engine, place.conversation, Event(ended=False), agent=place.agent)
        if known is None or not known.reflected:
            waiting = Entry(WAITING + place.agent, place.conversation, {}, now, now + KEPT)
            await engine.store.put_entry(waiting)
    await engine.ledger.put_entry(Entry(OPEN, place.key, value, now, now + KEPT))
    await engine.store.apply([Enqueue(sweep_job(engine, due=now + engine.policy.session_ttl))])


async def _list(engine: Engine, conversation: str, *, agent: str) -> None:
    now = engine.clock()
    named = {"agent": agent, "conversation": conversation}
    await engine.store.put_entry(Entry(DRAWER, _key(conversation, agent), named, now, now + KEPT))


def _key(conversation: str, agent: str) -> str:
    """No two pairs of names have the same."""
    return json.dumps([agent, conversation], ensure_ascii=False)


def _as_event(gathered: Gathered) -> Event:
    return Event(
        memories=tuple(gathered.stored)[-MOST_IDS:],
        touched=tuple(gathered.touched),
        answers=dict(gathered.answers),
        tools=dict(gathered.tools),
        started=gathered.started,
    )


def _value(event: Event) -> dict[str, Any]:
    return {
        "memories": list(event.memories),
        "documents": list(event.documents),
        "touched": list(event.touched),
        "answers": {tool: list(ids) for tool, ids in event.answers.items()},
        "tools": dict(event.tools),
        "counted": event.counted,
        "started": event.started.isoformat() if event.started else None,
        "reflected": event.reflected,
        "reflection": event.reflection,
        "ended": event.ended,
    }


def _event(value: Mapping[str, Any]) -> Event:
    """What was erased since is missing from it, and so may be what earlier versions didn't write."""
    started = value.get("started")
    return Event(
        memories=tuple(value.get("memories") or ()),
        documents=tuple(value.get("documents") or ()),
        touched=tuple(value.get("touched") or ()),
        answers={
            tool: tuple(ids or ())[:MOST_ANSWERED] for tool, ids in (value.get("answers") or {}).items()
        },
        tools=value.get("tools") or {},
        counted=bool(value.get("counted")),
        started=in_utc(datetime.fromisoformat(started)) if started else None,
        reflected=bool(value.get("reflected")),
        reflection=value.get("reflection"),
        ended=value.get("ended"),
    )
