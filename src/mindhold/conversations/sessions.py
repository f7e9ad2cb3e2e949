"""Sessions: what happened in each conversation, whether it was reflected on, and whether it has ended."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from mindhold.conversations.activity import CallActivity, ConversationActivity, ConversationKey
from mindhold.conversations.events import (
    KEPT,
    MOST_APART,
    MOST_EVENTS,
    ConversationEvent,
    ConversationState,
    fold,
    sum_events,
    value_of,
)
from mindhold.engine import Engine
from mindhold.memories.validation import checked_provenance
from mindhold.model.errors import MemoryNotFound, MindholdError, StoreError
from mindhold.model.job import Entry, Job
from mindhold.model.lifecycle import SESSION_ONLY
from mindhold.model.memory import Memory, Provenance, Status, Tier
from mindhold.model.query import Filter
from mindhold.model.scope import sees
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.store import Enqueue, Mark

CONVERSATION_NAMESPACE = "conversation"  # which there are
EVENTS = "conversation:"  # before a conversation's key: what happened in it
WAITING = "unreflected:"  # before an agent's name: which of theirs wait for somebody to reflect on them
OPEN = "conversations:open"  # of the whole store: those that have not ended
REFLECT = "reflect"  # the job that ends those that fell silent, and reflects on them
ALONE = "alone:"  # how the name begins of what is no conversation, but needs an end
DOCUMENT = "document:"  # how a conversation's name begins that stands for the parts of a long text
ABANDONED = timedelta(days=1)  # what is in no conversation ends then
MOST_CONVERSATIONS = 10_000
MOST_WAITING = 100  # counted no further
REFRESHED = 4  # times at least within the time that a session lives, while something is stored
log = logging.getLogger(__name__)


def clean_conversation_name(engine: Engine, conversation: str) -> str:
    """The name as memories bear it: without what must not be kept. Raises InvalidInput for a very long one."""
    return checked_provenance(engine, Provenance(conversation=conversation)).conversation or ""


def conversation_key(engine: Engine, conversation: str, *, agent: str) -> ConversationKey:
    """Where that conversation of the agent's is kept, for this caller. Raises InvalidInput for a very long name."""
    return ConversationKey(
        tuple(sorted(engine.allowed_scopes)), agent, clean_conversation_name(engine, conversation)
    )


async def conversation_of(engine: Engine, conversation: str, *, agent: str) -> ConversationState | None:
    """As far as it is known, and written down."""
    drawer = EVENTS + _key(conversation, agent)
    entries = await engine.store.entries(drawer, now=engine.clock(), limit=MOST_EVENTS)
    if len(entries) > MOST_APART:
        with suppress(StoreError):  # another time
            await fold(engine, drawer, conversation, agent=agent)
    return sum_events(entries, conversation, agent=agent)


async def count_conversations(engine: Engine, *, agent: str) -> int:
    """How many the agent may know of, among the newest MOST_CONVERSATIONS of all agents."""
    entries = await engine.store.entries(CONVERSATION_NAMESPACE, now=engine.clock(), limit=MOST_CONVERSATIONS)
    return sum(sees(agent, entry.value["agent"]) for entry in entries)


async def unreflected(engine: Engine, *, agent: str, besides: str | None) -> int:
    """How many other conversations of the agent stored something, were never reflected on and never came to an end.

    At most MOST_WAITING are counted.
    """
    waiting = await engine.store.entries(WAITING + agent, now=engine.clock(), limit=MOST_WAITING + 1)
    return min(MOST_WAITING, sum(entry.key != besides for entry in waiting))


def note_call(engine: Engine, conversation: str, done: CallActivity, *, agent: str) -> None:
    """That something was done. Written down with all that is done within the next minute; nobody waits for it."""
    engine.activity.note(engine, conversation_key(engine, conversation, agent=agent), done)
    engine.activity.arrange(lambda: write_activity(engine))


async def write_activity(engine: Engine, place: ConversationKey | None = None) -> None:
    """What has gathered, of one place or of all; what can't be written now is written another time."""
    for each in engine.activity.places() if place is None else [place]:
        for _, gathered in engine.activity.take(each):
            written = False
            try:
                await save_conversation_event(
                    gathered.engine, each.conversation, _as_event(gathered), agent=each.agent
                )
                written = True
            except MindholdError as error:
                log.warning("what was done in a conversation could not be written down: %s", error.code)
            finally:
                if not written:
                    engine.activity.give_back(each, gathered)
                    engine.activity.arrange(lambda: write_activity(engine))


async def note_activity(
    engine: Engine,
    conversation: str,
    memory_ids: Sequence[str] = (),
    *,
    agent: str,
    exactly: bool = False,
) -> None:
    """That it stored something: after it did, so that who ends it meanwhile either sees that or is begun after.

    Cheap where it is known to be open. With `exactly` these are the parts of long texts, which bear another conversation's name.
    """
    place = conversation_key(engine, conversation, agent=agent)
    now = engine.clock()
    entry = await engine.ledger.entry(OPEN, place.key, now=now)
    if entry is None or entry.value.get("ended"):
        await open_conversation(engine, place)
    elif entry.created < now - engine.settings.serve.session_ttl / REFRESHED:
        await engine.ledger.put_entry(replace(entry, created=now, expires=now + KEPT))
    if exactly:
        found = await engine.store.get_many(memory_ids, viewer=agent)
        names = {memory.provenance.conversation or "" for memory in found.values()}
        firsts = sorted(name.removeprefix(DOCUMENT) for name in names if name.startswith(DOCUMENT))
        await save_conversation_event(
            engine, place.conversation, ConversationEvent(documents=tuple(firsts)), agent=agent
        )


async def save_conversation_event(
    engine: Engine, conversation: str, event: ConversationEvent, *, agent: str
) -> None:
    """Keep it. One that was reflected on, or that ended, waits for nobody any more."""
    now = engine.clock()
    key = _key(conversation, agent)
    await _list(engine, conversation, agent=agent)
    await engine.store.put_entry(Entry(EVENTS + key, engine.new_id(), value_of(event), now, now + KEPT))
    if event.reflected or (event.ended and engine.settings.life.reflect):
        await engine.store.drop_entry(WAITING + agent, conversation)


async def keep_conversation_open(engine: Engine, conversation: str, *, agent: str) -> bool:
    """Say that a silent one is still there, so that it isn't taken for one that is over. Whether it is open."""
    place = conversation_key(engine, conversation, agent=agent)
    now = engine.clock()
    entry = await engine.ledger.entry(OPEN, place.key, now=now)
    if entry is None:
        return False
    await engine.ledger.put_entry(replace(entry, created=now, expires=now + KEPT))
    return True


async def last_activity_at(engine: Engine, entry: Entry) -> datetime:
    """Of the one that an entry of OPEN is about; the engine is that of its fence."""
    place = ConversationKey.of_value(entry.value)
    key = _key(place.conversation, place.agent)
    found = await engine.store.entries(EVENTS + key, now=engine.clock(), limit=1)
    return max([entry.created, *(event.created for event in found)])


async def end_working_memory(
    engine: Engine, conversation: str, *, agent: str, only: Collection[str] | None = None
) -> int:
    """Archive what was only meant for this conversation, unless it is kept for good by now; how many that were.

    With `only`: of these.
    """
    now = engine.clock()
    ended = 0
    async for memories in memories_of(engine, conversation, agent=agent):
        over = [
            Mark(memory.id, Status.ARCHIVED, previous=Status.ACTIVE, updated=now, only_from=Status.ACTIVE)
            for memory in memories
            if memory.metadata.get(SESSION_ONLY) == conversation
            and (only is None or memory.id in only)
            and not memory.anchor
            and memory.tier is not Tier.PERMANENT
        ]
        try:
            if over:
                await engine.store.apply(over)
        except MemoryNotFound:  # one was erased meanwhile
            for mark in over:
                with suppress(MemoryNotFound):
                    await engine.store.apply([mark])
        ended += len(over)
    return ended


async def keep_working_memory(engine: Engine, memory: Memory) -> None:
    """Let working memory stay when its conversation ends: somebody has said the same for good."""
    from mindhold.memories.amend import rewrite  # only here, and it needs much

    def lasting(one: Memory) -> Memory:
        metadata = {key: value for key, value in one.metadata.items() if key != SESSION_ONLY}
        return replace(one, metadata=metadata)

    name = memory.provenance.conversation or ""
    await rewrite(engine, memory.id, lasting, agent=memory.agent)
    if name.startswith(DOCUMENT):
        async for batch in engine.store.scan(Filter(viewer=memory.agent, conversation=name)):
            for part in batch:
                if part.agent == memory.agent and SESSION_ONLY in part.metadata:
                    await rewrite(engine, part.id, lasting, agent=memory.agent)


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


async def open_conversations(engine: Engine, *, limit: int = MOST_CONVERSATIONS) -> list[Entry]:
    """Of the whole store: those that have not ended, the latest first."""
    return await engine.ledger.entries(OPEN, now=engine.clock(), limit=limit)


def scoped_engine(engine: Engine, fence: Sequence[str]) -> Engine:
    """The engine of the whole store, as a caller has it who is bound to these scopes."""
    if not fence:
        return engine
    from mindhold.access.scoped_store import (
        ScopedStore,  # most callers have none
        ScopedStoreRegistry,
    )

    scope = engine.settings.scope if engine.settings.scope in fence else fence[0]
    return replace(
        engine,
        store=ScopedStore(engine.store, fence),
        store_registry=ScopedStoreRegistry(engine.store_registry, fence),
        settings=replace(engine.settings, scope=scope),
        allowed_scopes=tuple(fence),
    )


def sweep_job(engine: Engine, *, due: datetime) -> Job:
    """Look then for conversations that fell silent; one such job waits at a time."""
    return Job(engine.new_id(), REFLECT, created=engine.clock(), due=due, key=REFLECT)


async def open_conversation(engine: Engine, place: ConversationKey) -> None:
    """It has stored something, perhaps after its end: from now on it is open, and waits for somebody to reflect on it."""
    now = engine.clock()
    value = {**place.as_value(), "started": now.isoformat(), "ended": False}
    if not place.conversation.startswith(ALONE):
        known = await conversation_of(engine, place.conversation, agent=place.agent)
        await _list(engine, place.conversation, agent=place.agent)
        if known is not None and known.ended:
            await save_conversation_event(
                engine, place.conversation, ConversationEvent(ended=False), agent=place.agent
            )
        if known is None or not known.reflected:
            waiting = Entry(WAITING + place.agent, place.conversation, {}, now, now + KEPT)
            await engine.store.put_entry(waiting)
    await engine.ledger.put_entry(Entry(OPEN, place.key, value, now, now + KEPT))
    await engine.store.apply([Enqueue(sweep_job(engine, due=now + engine.settings.serve.session_ttl))])


async def _list(engine: Engine, conversation: str, *, agent: str) -> None:
    now = engine.clock()
    named = {"agent": agent, "conversation": conversation}
    await engine.store.put_entry(
        Entry(CONVERSATION_NAMESPACE, _key(conversation, agent), named, now, now + KEPT)
    )


def _key(conversation: str, agent: str) -> str:
    """No two pairs of names have the same."""
    return json.dumps([agent, conversation], ensure_ascii=False)


def _as_event(gathered: ConversationActivity) -> ConversationEvent:
    return ConversationEvent(
        memories=tuple(gathered.stored),
        touched=tuple(gathered.touched),
        answers=dict(gathered.answers),
        tools=dict(gathered.tools),
        started=gathered.started,
    )


class GoOnInput(Input):
    """A conversation that was silent, but is still there."""

    conversation: str


class GoOnResult(Output):
    """Whether it is open."""

    open: bool


async def _go_on(context: Context, request: GoOnInput) -> GoOnResult:
    """Say that a silent conversation is still there."""
    return GoOnResult(
        open=await keep_conversation_open(context.engine, request.conversation, agent=context.agent)
    )


GO_ON = operation("go_on", _go_on, writes=True)
