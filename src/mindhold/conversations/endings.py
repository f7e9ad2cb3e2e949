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

AGAIN = timedelta(minutes=1)  # at the earliest, for those that are still open
AT_ONCE = 50  # conversations in one run
LONGEST_RUN = 60.0  # seconds, after which no further one is begun: other jobs wait
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConversationEnd:
    """What became of a conversation: the memory that tells of it, and what ended with it.

    `queued`: a model will be asked for its words.
    """

    reflection: str | None = None
    expired: int = 0
    queued: bool = False


@dataclass(frozen=True, slots=True)
class SilenceSweep:
    """What became of those that were over."""

    ended: int = 0
    reflected: int = 0
    expired: int = 0
    open: int = 0

    def plus(self, ending: ConversationEnd) -> SilenceSweep:
        """With one more."""
        reflected = self.reflected + (ending.reflection is not None)
        return replace(self, ended=self.ended + 1, reflected=reflected, expired=self.expired + ending.expired)


async def end_conversation(
    engine: Engine, conversation: str, *, agent: str, over: bool = True
) -> ConversationEnd:
    """What it stored is reflected on, unless somebody has; again: in the same memory. Its working memory ends.

    One that isn't `over` may go on, here or at another server: its working memory stays.
    """
    place = conversation_key(engine, conversation, agent=agent)
    await write_activity(engine, place)
    if over:
        await queue_ended(engine, place.conversation, agents=(agent,))
    entry = await engine.ledger.entry(OPEN, place.key, now=engine.clock())
    known = await conversation_of(engine, place.conversation, agent=agent)
    if entry is not None:
        known = known or _unheard(entry, place)
    elif known is None or not (known.memories or known.documents or known.reflected):
        return ConversationEnd()  # one that left nothing needs no trace
    return await _end(engine, place, known, over=over)


async def end_session(engine: Engine, conversation: str) -> int:
    """End the conversations of that name, whoever's they are: for a session's end, which its owner says. How many."""
    await queue_ended(engine, conversation)
    ended = 0
    for entry in await open_conversations(engine):
        place = ConversationKey.of_value(entry.value)
        if place.conversation == conversation:
            fenced = scoped_engine(engine, place.fence)
            await write_activity(fenced, place)
            await _end(fenced, place, await _known(fenced, entry, place), over=True)
            ended += 1
    return ended


async def reflect_on_silent(engine: Engine) -> SilenceSweep:
    """End those that are over, and reflect on them: what the door said has ended, and what was silent for too long.

    The longest silent ones first, and so many at a time. Several may run this at once: each conversation is one's. Raises the
    store's errors.
    """
    swept, soon, begun = SilenceSweep(), False, perf_counter()
    waiting = await open_conversations(engine)
    while waiting:
        if swept.ended == AT_ONCE or perf_counter() - begun >= LONGEST_RUN:
            swept, soon = replace(swept, open=swept.open + len(waiting)), True
            break
        entry = waiting.pop()
        place = ConversationKey.of_value(entry.value)
        fenced = scoped_engine(engine, place.fence)
        if not await _is_over(fenced, entry):
            swept = replace(swept, open=swept.open + 1)
            continue
        try:
            ending = await _finish(fenced, place)
        except MindholdError as error:
            log.warning("a conversation could not be ended: %s", error.code)
            ending = None
        if ending is None:
            swept, soon = replace(swept, open=swept.open + 1), True
        else:
            swept = swept.plus(ending)
    if swept.open:
        wait = AGAIN if soon else max(AGAIN, engine.settings.serve.session_ttl / 4)
        await engine.store.apply([Enqueue(sweep_job(engine, due=engine.clock() + wait))])
    return swept


async def queue_sweep(engine: Engine) -> None:
    """See to it that those which are open are looked at, should a job have been lost."""
    if await open_conversations(engine, limit=1):
        await engine.store.apply([Enqueue(sweep_job(engine, due=engine.clock()))])


async def _end(
    engine: Engine, place: ConversationKey, known: ConversationState, *, over: bool
) -> ConversationEnd:
    """At a door: at once by what was done, or later by a model."""
    by_model = engine.llm is not None and engine.settings.life.reflect and not known.by_hand
    written = None
    if not by_model:
        async with claim(engine, place.key) as mine:
            written = await _traced(engine, known) if mine else known.reflection
    await save_conversation_event(
        engine, place.conversation, _event(known, written, ended=over), agent=place.agent
    )
    if not over:
        return ConversationEnd(written)
    if not by_model:
        return ConversationEnd(written, await _close(engine, place) or 0)
    await _queue(engine, place)
    expired = await end_working_memory(engine, place.conversation, agent=place.agent)
    return ConversationEnd(written, expired, queued=True)


async def _traced(engine: Engine, known: ConversationState, *, by_model: bool = False) -> str | None:
    """An end needs no reflection: where none can be kept, as in a scope that is closed, there is none."""
    try:
        return await write_session_memory(engine, known, by_model=by_model)
    except StoreError:
        raise
    except MindholdError as error:
        log.warning("a conversation is ended without a reflection: %s", error.code)
        return None


def _event(known: ConversationState, written: str | None, *, ended: bool) -> ConversationEvent:
    done = known.reflected or written is not None
    return ConversationEvent(
        reflected=done, reflection=written or known.reflection if done else None, ended=ended or None
    )


async def _close(
    engine: Engine, place: ConversationKey, *, there: Collection[str] | None = None
) -> int | None:
    """End its working memory; how much that was. None where it went on: something came to what was `there`.

    First it is marked as ended, so that whatever is stored after that begins it anew, and then looked at: nothing is left
    with nobody to end it, also if the process dies here.
    """
    entry = await engine.ledger.entry(OPEN, place.key, now=engine.clock())
    if entry is not None:
        await engine.ledger.put_entry(replace(entry, value={**entry.value, "ended": True}))
    if there is not None and await _stored(engine, place) - set(there):
        await open_conversation(engine, place)
        return None
    expired = await end_working_memory(engine, place.conversation, agent=place.agent, only=there)
    taken = await engine.ledger.take_entry(OPEN, place.key, now=engine.clock())
    if taken is not None and not taken.value.get("ended"):  # it has begun anew
        await engine.ledger.put_entry(taken)
    return expired


async def _queue(engine: Engine, place: ConversationKey) -> None:
    """Leave it to the job, which runs now, or at the next start."""
    now = engine.clock()
    entry = await engine.ledger.entry(OPEN, place.key, now=now)
    if entry is None:
        return  # it has been done
    await engine.ledger.put_entry(replace(entry, value={**entry.value, "ended": True}))
    key = f"{REFLECT}:{fingerprint(place.key)}"
    await engine.store.apply([Enqueue(Job(engine.new_id(), REFLECT, created=now, due=now, key=key))])


async def _finish(engine: Engine, place: ConversationKey) -> ConversationEnd | None:
    """None when another is at it, or when it went on while a model was asked, which may take long."""
    async with claim(engine, place.key) as mine:
        if not mine:
            return None
        entry = await engine.ledger.entry(OPEN, place.key, now=engine.clock())
        if entry is None or not await _is_over(engine, entry):
            return ConversationEnd()  # somebody was quicker, or it went on
        there, heard = await _stored(engine, place), await last_activity_at(engine, entry)
        known = await _known(engine, entry, place)
        written = await _traced(engine, known, by_model=True)
        now = await engine.ledger.entry(OPEN, place.key, now=engine.clock())
        alive = now is not None and (
            bool(now.value.get("ended")) != bool(entry.value.get("ended"))
            or await last_activity_at(engine, now) > heard
            or bool(await _stored(engine, place) - there)
        )
        if not place.conversation.startswith(ALONE):
            event = _event(known, written, ended=not alive)
            await save_conversation_event(engine, place.conversation, event, agent=place.agent)
        if alive:
            return None
        expired = await _close(engine, place, there=there)
        return None if expired is None else ConversationEnd(written, expired)


async def _stored(engine: Engine, place: ConversationKey) -> set[str]:
    """What it stored and still has, but for what tells of it."""
    return {
        memory.id
        async for batch in memories_of(engine, place.conversation, agent=place.agent)
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


async def _known(engine: Engine, entry: Entry, place: ConversationKey) -> ConversationState:
    known = await conversation_of(engine, place.conversation, agent=place.agent)
    return known or _unheard(entry, place)


def _unheard(entry: Entry, place: ConversationKey) -> ConversationState:
    """One that nothing was written down of but that it began."""
    begun = datetime.fromisoformat(entry.value["started"])
    return ConversationState(place.conversation, place.agent, started=begun, last=entry.created)


class EndConversationInput(Input):
    """A conversation that its client left. One that isn't `over` may come back."""

    conversation: str
    over: bool = True  # if not, its working memory stays


class EndConversationResult(Output):
    """Whether it is reflected upon, in which memory, and how much of its working memory ended.

    `queued`: a model is asked for its words, and nobody waits for that.
    """

    reflected: bool
    id: str | None = None
    expired: int = 0
    queued: bool = False


class EndSessionInput(Input):
    """A session that its owner ended."""

    conversation: str


class EndSessionResult(Output):
    """How many conversations had its name."""

    ended: int


async def _end_conversation(context: Context, request: EndConversationInput) -> EndConversationResult:
    """End a conversation's working memory, and keep what it was about."""
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
    """End the conversations of a session, whoever spoke in it."""
    return EndSessionResult(ended=await end_session(context.engine, request.conversation))


END_SESSION = operation("end_session", _end_session, writes=True, owner_only=True)
