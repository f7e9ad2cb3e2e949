"""Sessions: what happened in each conversation, whether it was reflected on, and whether it has ended."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

from mindhold.conversations.activity import CallActivity, ConversationKey
from mindhold.conversations.events import (
    KEPT,
    MOST_EVENTS,
    MOST_UNFOLDED,
    ConversationEvent,
    ConversationState,
    event_to_value,
    fold_events,
    sum_events,
)
from mindhold.engine import Engine
from mindhold.memories.prepare import checked_provenance
from mindhold.model.errors import MemoryNotFound, MindholdError, StoreError
from mindhold.model.job import Entry, Job
from mindhold.model.lifecycle import SESSION_ONLY
from mindhold.model.memory import Memory, Provenance, Status, Tier
from mindhold.model.query import Filter
from mindhold.model.scope import sees
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.store import Enqueue, Mark

CONVERSATION_NAMESPACE = "conversation"  # the list of conversations
EVENTS = "conversation:"  # before a conversation's key: its events
WAITING = "unreflected:"  # before an agent's name: conversations that nobody reflected on yet
OPEN = "conversations:open"  # of the whole store: those that have not ended
REFLECT = "reflect"  # the job that ends silent conversations and reflects on them
ALONE = "alone:"  # prefix of names that are no conversation but need an end
DOCUMENT = "document:"  # prefix of names that group the parts of a long text
ABANDONED = timedelta(days=1)  # what is in no conversation ends then
MOST_CONVERSATIONS = 10_000
MOST_WAITING = 100  # the count stops there
REFRESHES = 4  # updates at least within a session's time to live, while something is stored
log = logging.getLogger(__name__)


def clean_conversation_name(engine: Engine, conversation: str) -> str:
    """The conversation name as memories have it, redacted. Raises InvalidInput if it is too long."""
    return checked_provenance(engine, Provenance(conversation=conversation)).conversation or ""


def conversation_key(engine: Engine, conversation: str, *, agent: str) -> ConversationKey:
    """The key of an agent's conversation for this caller. Raises InvalidInput if the name is too long."""
    return ConversationKey(
        tuple(sorted(engine.allowed_scopes)), agent, clean_conversation_name(engine, conversation)
    )


async def conversation_of(engine: Engine, conversation: str, *, agent: str) -> ConversationState | None:
    """The written state of a conversation; None if nothing is known."""
    namespace = EVENTS + _key(conversation, agent)
    entries = await engine.store.entries(namespace, now=engine.clock(), limit=MOST_EVENTS)
    if len(entries) > MOST_UNFOLDED:
        with suppress(StoreError):  # the next call tries again
            await fold_events(engine, namespace, conversation, agent=agent)
    return sum_events(entries, conversation, agent=agent)


async def count_conversations(engine: Engine, *, agent: str) -> int:
    """How many conversations the agent may know of, among the newest MOST_CONVERSATIONS of all agents."""
    entries = await engine.store.entries(CONVERSATION_NAMESPACE, now=engine.clock(), limit=MOST_CONVERSATIONS)
    return sum(sees(agent, entry.value["agent"]) for entry in entries)


async def unreflected(engine: Engine, *, agent: str, besides: str | None) -> int:
    """How many other conversations of the agent stored something, were never reflected on and never ended.

    At most MOST_WAITING are counted.
    """
    waiting = await engine.store.entries(WAITING + agent, now=engine.clock(), limit=MOST_WAITING + 1)
    return min(MOST_WAITING, sum(entry.key != besides for entry in waiting))


def note_call(engine: Engine, conversation: str, call: CallActivity, *, agent: str) -> None:
    """Record a call. It is written together with other activity within a minute; nobody waits for it."""
    engine.activity.note(engine, conversation_key(engine, conversation, agent=agent), call)
    engine.activity.arrange(lambda: write_activity(engine))


async def write_activity(engine: Engine, key: ConversationKey | None = None) -> None:
    """Write the activity of one conversation or all. What can't be written now is written later."""
    for ref in engine.activity.places() if key is None else [key]:
        activity = engine.activity.take(ref)
        if activity is None:
            continue
        event = ConversationEvent(
            memories=tuple(activity.stored),
            touched=tuple(activity.touched),
            answers=dict(activity.answers),
            tools=dict(activity.tools),
            started=activity.started,
        )
        written = False
        try:
            await save_conversation_event(activity.engine, ref.conversation, event, agent=ref.agent)
            written = True
        except MindholdError as error:
            log.warning("what was done in a conversation could not be written down: %s", error.code)
        finally:
            if not written:
                engine.activity.give_back(ref, activity)
                engine.activity.arrange(lambda: write_activity(engine))


async def note_activity(
    engine: Engine, conversation: str, memory_ids: Sequence[str] = (), *, agent: str, exactly: bool = False
) -> None:
    """Record that a conversation stored something. Call it afterwards, so that a concurrent end sees it or comes before.

    It is cheap for open conversations. With `exactly` the ids are parts of long texts, which have another conversation's
    name.
    """
    key = conversation_key(engine, conversation, agent=agent)
    now = engine.clock()
    entry = await engine.ledger.entry(OPEN, key.key, now=now)
    if entry is None or entry.value.get("ended"):
        await open_conversation(engine, key)
    elif entry.created < now - engine.settings.serve.session_ttl / REFRESHES:
        await engine.ledger.put_entry(replace(entry, created=now, expires=now + KEPT))
    if exactly:
        memories = await engine.store.get_many(memory_ids, viewer=agent)
        names = {memory.provenance.conversation or "" for memory in memories.values()}
        firsts = sorted(name.removeprefix(DOCUMENT) for name in names if name.startswith(DOCUMENT))
        await save_conversation_event(
            engine, key.conversation, ConversationEvent(documents=tuple(firsts)), agent=agent
        )


async def save_conversation_event(
    engine: Engine, conversation: str, event: ConversationEvent, *, agent: str
) -> None:
    """Save an event. A conversation that was reflected on or ended no longer waits for a reflection."""
    now = engine.clock()
    key = _key(conversation, agent)
    await _register(engine, conversation, agent=agent)
    await engine.store.put_entry(Entry(EVENTS + key, engine.new_id(), event_to_value(event), now, now + KEPT))
    if event.reflected or (event.ended and engine.settings.life.reflect):
        await engine.store.drop_entry(WAITING + agent, conversation)


async def last_activity_at(engine: Engine, entry: Entry) -> datetime:
    """When the conversation of an OPEN entry was last active; the engine has its scopes."""
    ref = ConversationKey.of_value(entry.value)
    key = _key(ref.conversation, ref.agent)
    events = await engine.store.entries(EVENTS + key, now=engine.clock(), limit=1)
    return max([entry.created, *(event.created for event in events)])


async def end_working_memory(
    engine: Engine, conversation: str, *, agent: str, only: Collection[str] | None = None
) -> int:
    """Archive the working memory of a conversation, except what became permanent; return how many.

    `only` limits it to these ids.
    """
    now = engine.clock()
    ended = 0
    async for memories in memories_of(engine, conversation, agent=agent):
        marks = [
            Mark(memory.id, Status.ARCHIVED, previous=Status.ACTIVE, updated=now, only_from=Status.ACTIVE)
            for memory in memories
            if memory.metadata.get(SESSION_ONLY) == conversation
            and (only is None or memory.id in only)
            and not memory.anchor
            and memory.tier is not Tier.PERMANENT
        ]
        try:
            if marks:
                await engine.store.apply(marks)
        except MemoryNotFound:  # one was erased meanwhile
            for mark in marks:
                with suppress(MemoryNotFound):
                    await engine.store.apply([mark])
        ended += len(marks)
    return ended


async def keep_working_memory(engine: Engine, memory: Memory) -> None:
    """Keep a working memory after its conversation, since somebody stored the same permanently."""
    from mindhold.memories.amend import rewrite  # only needed here, and slow to import

    def make_permanent(working: Memory) -> Memory:
        metadata = {key: value for key, value in working.metadata.items() if key != SESSION_ONLY}
        return replace(working, metadata=metadata)

    name = memory.provenance.conversation or ""
    await rewrite(engine, memory.id, make_permanent, agent=memory.agent)
    if name.startswith(DOCUMENT):
        async for batch in engine.store.scan(Filter(viewer=memory.agent, conversation=name)):
            for part in batch:
                if part.agent == memory.agent and SESSION_ONLY in part.metadata:
                    await rewrite(engine, part.id, make_permanent, agent=memory.agent)


async def memories_of(
    engine: Engine, conversation: str, *, agent: str, documents: Sequence[str] | None = None
) -> AsyncIterator[list[Memory]]:
    """The agent's active memories of a conversation, in batches, with the parts of its long texts."""
    if documents is None:
        state = await conversation_of(engine, conversation, agent=agent)
        documents = state.documents if state else ()
    for name in (conversation, *(DOCUMENT + first for first in documents)):
        async for batch in engine.store.scan(Filter(viewer=agent, conversation=name)):
            yield [memory for memory in batch if memory.agent == agent]


async def open_conversations(engine: Engine, *, limit: int = MOST_CONVERSATIONS) -> list[Entry]:
    """All conversations that have not ended, latest first."""
    return await engine.ledger.entries(OPEN, now=engine.clock(), limit=limit)


def scoped_engine(engine: Engine, fence: Sequence[str]) -> Engine:
    """The engine as a caller has it who is limited to these scopes."""
    if not fence:
        return engine
    from mindhold.access.authorization import ScopedStore, ScopedStoreRegistry

    scope = engine.settings.scope if engine.settings.scope in fence else fence[0]
    return replace(
        engine,
        store=ScopedStore(engine.store, fence),
        store_registry=ScopedStoreRegistry(engine.store_registry, fence),
        settings=replace(engine.settings, scope=scope),
        allowed_scopes=tuple(fence),
    )


def sweep_job(engine: Engine, *, due: datetime) -> Job:
    """The job that looks for silent conversations; one waits at a time."""
    return Job(engine.new_id(), REFLECT, created=engine.clock(), due=due, key=REFLECT)


async def open_conversation(engine: Engine, key: ConversationKey) -> None:
    """Mark a conversation as open after it stored something. It then waits for a reflection."""
    now = engine.clock()
    value = {**key.as_value(), "started": now.isoformat(), "ended": False}
    if not key.conversation.startswith(ALONE):
        state = await conversation_of(engine, key.conversation, agent=key.agent)
        await _register(engine, key.conversation, agent=key.agent)
        if state is not None and state.ended:
            await save_conversation_event(
                engine, key.conversation, ConversationEvent(ended=False), agent=key.agent
            )
        if state is None or not state.reflected:
            waiting = Entry(WAITING + key.agent, key.conversation, {}, now, now + KEPT)
            await engine.store.put_entry(waiting)
    await engine.ledger.put_entry(Entry(OPEN, key.key, value, now, now + KEPT))
    await engine.store.apply([Enqueue(sweep_job(engine, due=now + engine.settings.serve.session_ttl))])


async def _register(engine: Engine, conversation: str, *, agent: str) -> None:
    now = engine.clock()
    value = {"agent": agent, "conversation": conversation}
    await engine.store.put_entry(
        Entry(CONVERSATION_NAMESPACE, _key(conversation, agent), value, now, now + KEPT)
    )


def _key(conversation: str, agent: str) -> str:
    """A unique key for the pair."""
    return json.dumps([agent, conversation], ensure_ascii=False)


class GoOnInput(Input):
    """A silent conversation that continues."""

    conversation: str


class GoOnResult(Output):
    """Whether it is open."""

    open: bool


async def _go_on(context: Context, request: GoOnInput) -> GoOnResult:
    """Keep a silent conversation open."""
    engine, now = context.engine, context.engine.clock()
    key = conversation_key(engine, request.conversation, agent=context.agent)
    entry = await engine.ledger.entry(OPEN, key.key, now=now)
    if entry is not None:
        await engine.ledger.put_entry(replace(entry, created=now, expires=now + KEPT))
    return GoOnResult(open=entry is not None)


GO_ON = operation("go_on", _go_on, writes=True)
