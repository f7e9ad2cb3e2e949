"""The end of a conversation, explicit or by silence: it is reflected on once and its session-only memories end."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from time import perf_counter

from mindhold.access.secrets import fingerprint
from mindhold.conversations.activity import ConversationKey
from mindhold.conversations.events import ConversationEvent, ConversationState
from mindhold.conversations.recap_queue import queue_ended
from mindhold.conversations.session_memory import write_session_memory
from mindhold.conversations.sessions import (
    ABANDONED,
    ALONE,
    OPEN,
    REFLECT,
    conversation_key,
    conversation_of,
    end_working_memory,
    last_activity_at,
    memories_of,
    open_conversation,
    open_conversations,
    save_conversation_event,
    scoped_engine,
    sweep_job,
    write_activity,
)
from mindhold.engine import Engine
from mindhold.locks import claim
from mindhold.memories.reflect import REFLECTION_OF
from mindhold.model.errors import MindholdError, StoreError
from mindhold.model.job import Entry, Job
from mindhold.model.policies import RECAP
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.store import Enqueue

RETRY_AFTER = timedelta(minutes=1)  # the shortest wait before the next look at open conversations
BATCH = 50  # conversations per run
LONGEST_RUN = 60.0  # seconds; then no further conversation is begun, since other jobs wait
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConversationEnd:
    """The result of an end: the memory that describes the conversation, and how many working memories ended.

    `queued`: a model will write the description later.
    """

    reflection: str | None = None
    expired: int = 0
    queued: bool = False


@dataclass(frozen=True, slots=True)
class SilenceSweep:
    """Counts of ended and open conversations."""

    ended: int = 0
    reflected: int = 0
    expired: int = 0
    open: int = 0

    def plus(self, ending: ConversationEnd) -> SilenceSweep:
        """Add one ended conversation."""
        reflected = self.reflected + (ending.reflection is not None)
        return replace(self, ended=self.ended + 1, reflected=reflected, expired=self.expired + ending.expired)


async def end_conversation(
    engine: Engine, conversation: str, *, agent: str, over: bool = True
) -> ConversationEnd:
    """Reflect on what the conversation stored, unless somebody did, and end its working memory.

    A second call updates the same memory. If it isn't `over`, it may continue, and its working memory stays.
    """
    key = conversation_key(engine, conversation, agent=agent)
    await write_activity(engine, key)
    if over:
        await queue_ended(engine, key.conversation, agents=(agent,))
    entry = await engine.ledger.entry(OPEN, key.key, now=engine.clock())
    state = await conversation_of(engine, key.conversation, agent=agent)
    if entry is not None:
        state = state or _initial_state(entry, key)
    elif state is None or not (state.memories or state.documents or state.reflected):
        return ConversationEnd()  # a conversation that stored nothing needs no trace
    return await _end(engine, key, state, over=over)


async def end_session(engine: Engine, conversation: str) -> int:
    """End all conversations of that name, of any agent; return how many. Called by the owner at a session's end."""
    await queue_ended(engine, conversation)
    ended = 0
    for entry in await open_conversations(engine):
        key = ConversationKey.of_value(entry.value)
        if key.conversation == conversation:
            scoped = scoped_engine(engine, key.fence)
            await write_activity(scoped, key)
            await _end(scoped, key, await _load_state(scoped, entry, key), over=True)
            ended += 1
    return ended


async def reflect_on_silent(engine: Engine) -> SilenceSweep:
    """End and reflect on conversations that were ended explicitly or silent for too long, the longest silent first.

    Only some per run. Several processes may run this at once; each conversation is handled by one. Raises the store's
    errors.
    """
    counts, soon, began = SilenceSweep(), False, perf_counter()
    waiting = await open_conversations(engine)
    while waiting:
        if counts.ended == BATCH or perf_counter() - began >= LONGEST_RUN:
            counts, soon = replace(counts, open=counts.open + len(waiting)), True
            break
        entry = waiting.pop()
        key = ConversationKey.of_value(entry.value)
        scoped = scoped_engine(engine, key.fence)
        if not await _is_over(scoped, entry):
            counts = replace(counts, open=counts.open + 1)
            continue
        try:
            ending = await _finish(scoped, key)
        except MindholdError as error:
            log.warning("a conversation could not be ended: %s", error.code)
            ending = None
        if ending is None:
            counts, soon = replace(counts, open=counts.open + 1), True
        else:
            counts = counts.plus(ending)
    if counts.open:
        wait = RETRY_AFTER if soon else max(RETRY_AFTER, engine.settings.serve.session_ttl / 4)
        await engine.store.apply([Enqueue(sweep_job(engine, due=engine.clock() + wait))])
    return counts


async def queue_sweep(engine: Engine) -> None:
    """Queue a sweep if conversations are open, in case a job was lost."""
    if await open_conversations(engine, limit=1):
        await engine.store.apply([Enqueue(sweep_job(engine, due=engine.clock()))])


async def _end(
    engine: Engine, key: ConversationKey, state: ConversationState, *, over: bool
) -> ConversationEnd:
    """Reflect at once by counts, or queue a reflection by a model."""
    by_model = engine.llm is not None and engine.settings.life.reflect and not state.by_hand
    reflection = None
    if not by_model:
        async with claim(engine, key.key) as acquired:
            reflection = await _reflect(engine, state) if acquired else state.reflection
    await save_conversation_event(
        engine, key.conversation, _event(state, reflection, ended=over), agent=key.agent
    )
    if not over:
        return ConversationEnd(reflection)
    if not by_model:
        return ConversationEnd(reflection, await _close(engine, key) or 0)
    await _queue_reflection(engine, key)
    expired = await end_working_memory(engine, key.conversation, agent=key.agent)
    return ConversationEnd(reflection, expired, queued=True)


async def _reflect(engine: Engine, state: ConversationState, *, by_model: bool = False) -> str | None:
    """Write the reflection; None where it can't be stored, as in a closed scope."""
    try:
        return await write_session_memory(engine, state, by_model=by_model)
    except StoreError:
        raise
    except MindholdError as error:
        log.warning("a conversation is ended without a reflection: %s", error.code)
        return None


def _event(state: ConversationState, reflection: str | None, *, ended: bool) -> ConversationEvent:
    reflected = state.reflected or reflection is not None
    return ConversationEvent(
        reflected=reflected,
        reflection=reflection or state.reflection if reflected else None,
        ended=ended or None,
    )


async def _close(engine: Engine, key: ConversationKey, *, there: Collection[str] | None = None) -> int | None:
    """End the working memory and return its size; None if something was stored besides `there`.

    The conversation is marked as ended first, so that anything stored afterwards reopens it. Nothing stays open
    unnoticed, even if the process dies here.
    """
    entry = await engine.ledger.entry(OPEN, key.key, now=engine.clock())
    if entry is not None:
        await engine.ledger.put_entry(replace(entry, value={**entry.value, "ended": True}))
    if there is not None and await _stored_ids(engine, key) - set(there):
        await open_conversation(engine, key)
        return None
    expired = await end_working_memory(engine, key.conversation, agent=key.agent, only=there)
    current = await engine.ledger.take_entry(OPEN, key.key, now=engine.clock())
    if current is not None and not current.value.get("ended"):  # it was reopened
        await engine.ledger.put_entry(current)
    return expired


async def _queue_reflection(engine: Engine, place: ConversationKey) -> None:
    """Queue the job that ends it, which runs now or at the next start."""
    now = engine.clock()
    entry = await engine.ledger.entry(OPEN, place.key, now=now)
    if entry is None:
        return  # already done
    await engine.ledger.put_entry(replace(entry, value={**entry.value, "ended": True}))
    job_key = f"{REFLECT}:{fingerprint(place.key)}"
    await engine.store.apply([Enqueue(Job(engine.new_id(), REFLECT, created=now, due=now, key=job_key))])


async def _finish(engine: Engine, key: ConversationKey) -> ConversationEnd | None:
    """End one conversation; None if another process does, or if it continued while a model was asked."""
    async with claim(engine, key.key) as acquired:
        if not acquired:
            return None
        entry = await engine.ledger.entry(OPEN, key.key, now=engine.clock())
        if entry is None or not await _is_over(engine, entry):
            return ConversationEnd()  # somebody was faster, or it continued
        stored_ids, last_active = await _stored_ids(engine, key), await last_activity_at(engine, entry)
        state = await _load_state(engine, entry, key)
        reflection = await _reflect(engine, state, by_model=True)
        current = await engine.ledger.entry(OPEN, key.key, now=engine.clock())
        continued = current is not None and (
            bool(current.value.get("ended")) != bool(entry.value.get("ended"))
            or await last_activity_at(engine, current) > last_active
            or bool(await _stored_ids(engine, key) - stored_ids)
        )
        if not key.conversation.startswith(ALONE):
            event = _event(state, reflection, ended=not continued)
            await save_conversation_event(engine, key.conversation, event, agent=key.agent)
        if continued:
            return None
        expired = await _close(engine, key, there=stored_ids)
        return None if expired is None else ConversationEnd(reflection, expired)


async def _stored_ids(engine: Engine, key: ConversationKey) -> set[str]:
    """The ids that it stored, without reflections and recaps."""
    return {
        memory.id
        async for batch in memories_of(engine, key.conversation, agent=key.agent)
        for memory in batch
        if REFLECTION_OF not in memory.metadata and RECAP not in memory.metadata
    }


async def _is_over(engine: Engine, entry: Entry) -> bool:
    if entry.value.get("ended"):
        return True
    alone = ConversationKey.of_value(entry.value).conversation.startswith(ALONE)
    silence = ABANDONED if alone else engine.settings.serve.session_ttl
    oldest = engine.clock() - silence
    return entry.created <= oldest and await last_activity_at(engine, entry) <= oldest


async def _load_state(engine: Engine, entry: Entry, key: ConversationKey) -> ConversationState:
    state = await conversation_of(engine, key.conversation, agent=key.agent)
    return state or _initial_state(entry, key)


def _initial_state(entry: Entry, key: ConversationKey) -> ConversationState:
    """The state of a conversation of which only the start is known."""
    started = datetime.fromisoformat(entry.value["started"])
    return ConversationState(key.conversation, key.agent, started=started, last=entry.created)


class EndConversationInput(Input):
    """A conversation that its client left. If it isn't `over`, it may continue."""

    conversation: str
    over: bool = True  # if false, its working memory stays


class EndConversationResult(Output):
    """Whether it was reflected on, in which memory, and how much working memory ended.

    `queued`: a model will write the reflection later.
    """

    reflected: bool
    id: str | None = None
    expired: int = 0
    queued: bool = False


class EndSessionInput(Input):
    """The session that ended."""

    conversation: str


class EndSessionResult(Output):
    """How many conversations of that name ended."""

    ended: int


async def _end_conversation(context: Context, request: EndConversationInput) -> EndConversationResult:
    """End a conversation's working memory and store a reflection on it."""
    ending = await end_conversation(
        context.engine, request.conversation, agent=context.agent, over=request.over
    )
    return EndConversationResult(
        reflected=ending.reflection is not None,
        id=ending.reflection,
        expired=ending.expired,
        queued=ending.queued,
    )


END_CONVERSATION = operation("end_conversation", _end_conversation, writes=True)


async def _end_session(context: Context, request: EndSessionInput) -> EndSessionResult:
    """End all conversations of a session, of any agent."""
    return EndSessionResult(ended=await end_session(context.engine, request.conversation))


END_SESSION = operation("end_session", _end_session, writes=True, owner_only=True)
