"""Conversations that end, are left, or fall silent: reflected on once, unless somebody did, and their working memory ends.

By a model that was configured when there is one, in a job that nobody waits for; else from what was done. A crash leaves
a conversation open: any process that runs jobs ends it when it was silent for as long as sessions live.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from time import perf_counter

from mindhold.engine.claims import claim
from mindhold.engine.conversations import (
    ABANDONED,
    ALONE,
    OPEN,
    REFLECT,
    begin,
    conversation_of,
    end_working_memory,
    happened,
    last_heard,
    memories_of,
    open_ones,
    place_of,
    sweep_job,
    within,
    write_down,
)
from mindhold.engine.core import Engine
from mindhold.engine.doings import Place
from mindhold.engine.events import Conversation, Event
from mindhold.engine.keys import fingerprint
from mindhold.engine.recap_queue import queue_ended
from mindhold.engine.reflect import REFLECTION_OF
from mindhold.engine.trace import traced
from mindhold.model.entry import Entry
from mindhold.model.errors import MindholdError, StoreError
from mindhold.model.job import Job
from mindhold.model.recap import RECAP
from mindhold.ports.store import Enqueue

AGAIN = timedelta(minutes=1)  # at the earliest, for those that are still open
AT_ONCE = 50  # conversations in one run
LONGEST_RUN = 60.0  # seconds, after which no further one is begun: other jobs wait
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ending:
    """What became of a conversation: the memory that tells of it, and what ended with it.

    `queued`: a model will be asked for its words.
    """

    reflection: str | None = None
    expired: int = 0
    queued: bool = False


@dataclass(frozen=True, slots=True)
class Swept:
    """What became of those that were over."""

    ended: int = 0
    reflected: int = 0
    expired: int = 0
    open: int = 0

    def plus(self, ending: Ending) -> Swept:
        """With one more."""
        reflected = self.reflected + (ending.reflection is not None)
        return replace(self, ended=self.ended + 1, reflected=reflected, expired=self.expired + ending.expired)


async def end_conversation(engine: Engine, conversation: str, *, agent: str, over: bool = True) -> Ending:
    """What it stored is reflected on, unless somebody has; again: in the same memory. Its working memory ends.

    One that isn't `over` may go on, here or at another server: its working memory stays.
    """
    place = place_of(engine, conversation, agent=agent)
    await write_down(engine, place)
    if over:
        await queue_ended(engine, place.conversation, agents=(agent,))
    entry = await engine.ledger.entry(OPEN, place.key, now=engine.clock())
    known = await conversation_of(engine, place.conversation, agent=agent)
    if entry is not None:
        known = known or _unheard(entry, place)
    elif known is None or not (known.memories or known.documents or known.reflected):
        return Ending()  # one that left nothing needs no trace
    return await _end(engine, place, known, over=over)


async def end_session(engine: Engine, conversation: str) -> int:
    """End the conversations of that name, whoever's they are: for a session's end, which its owner says. How many."""
    await queue_ended(engine, conversation)
    ended = 0
    for entry in await open_ones(engine):
        place = Place.of_value(entry.value)
        if place.conversation == conversation:
            fenced = within(engine, place.fence)
            await write_down(fenced, place)
            await _end(fenced, place, await _known(fenced, entry, place), over=True)
            ended += 1
    return ended


async def reflect_on_silent(engine: Engine) -> Swept:
    """End those that are over, and reflect on them: what the door said has ended, and what was silent for too long.

    The longest silent ones first, and so many at a time. Several may run this at once: each conversation is one's. Raises the
    store's errors.
    """
    swept, soon, begun = Swept(), False, perf_counter()
    waiting = await open_ones(engine)
    while waiting:
        if swept.ended == AT_ONCE or perf_counter() - begun >= LONGEST_RUN:
            swept, soon = replace(swept, open=swept.open + len(waiting)), True
            break
        entry = waiting.pop()
        place = Place.of_value(entry.value)
        fenced = within(engine, place.fence)
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
        wait = AGAIN if soon else max(AGAIN, engine.policy.session_ttl / 4)
        await engine.store.apply([Enqueue(sweep_job(engine, due=engine.clock() + wait))])
    return swept


async def queue_sweep(engine: Engine) -> None:
    """See to it that those which are open are looked at, should a job have been lost."""
    if await open_ones(engine, limit=1):
        await engine.store.apply([Enqueue(sweep_job(engine, due=engine.clock()))])


async def _end(engine: Engine, place: Place, known: Conversation, *, over: bool) -> Ending:
    """At a door: at once by what was done, or later by a model."""
    by_model = engine.llm is not None and engine.policy.reflect and not known.by_hand
    written = None
    if not by_model:
        async with claim(engine, place.key) as mine:
            written = await _traced(engine, known) if mine else known.reflection
    await happened(engine, place.conversation, _event(known, written, ended=over), agent=place.agent)
    if not over:
        return Ending(written)
    if not by_model:
        return Ending(written, await _close(engine, place) or 0)
    await _queue(engine, place)
    expired = await end_working_memory(engine, place.conversation, agent=place.agent)
    return Ending(written, expired, queued=True)


async def _traced(engine: Engine, known: Conversation, *, by_model: bool = False) -> str | None:
    """An end needs no reflection: where none can be kept, as in a scope that is closed, there is none."""
    try:
        return await traced(engine, known, by_model=by_model)
    except StoreError:
        raise
    except MindholdError as error:
        log.warning("a conversation is ended without a reflection: %s", error.code)
        return None


def _event(known: Conversation, written: str | None, *, ended: bool) -> Event:
    done = known.reflected or written is not None
    return Event(
        reflected=done, reflection=written or known.reflection if done else None, ended=ended or None
    )


async def _close(engine: Engine, place: Place, *, there: Collection[str] | None = None) -> int | None:
    """End its working memory; how much that was. None where it went on: something came to what was `there`.

    First it is marked as ended, so that whatever is stored after that begins it anew, and then looked at: nothing is left
    with nobody to end it, also if the process dies here.
    """
    entry = await engine.ledger.entry(OPEN, place.key, now=engine.clock())
    if entry is not None:
        await engine.ledger.put_entry(replace(entry, value={**entry.value, "ended": True}))
    if there is not None and await _stored(engine, place) - set(there):
        await begin(engine, place)
        return None
    expired = await end_working_memory(engine, place.conversation, agent=place.agent, only=there)
    taken = await engine.ledger.take_entry(OPEN, place.key, now=engine.clock())
    if taken is not None and not taken.value.get("ended"):  # it has begun anew
        await engine.ledger.put_entry(taken)
    return expired


async def _queue(engine: Engine, place: Place) -> None:
    """Leave it to the job, which runs now, or at the next start."""
    now = engine.clock()
    entry = await engine.ledger.entry(OPEN, place.key, now=now)
    if entry is None:
        return  # it has been done
    await engine.ledger.put_entry(replace(entry, value={**entry.value, "ended": True}))
    key = f"{REFLECT}:{fingerprint(place.key)}"
    await engine.store.apply([Enqueue(Job(engine.new_id(), REFLECT, created=now, due=now, key=key))])


async def _finish(engine: Engine, place: Place) -> Ending | None:
    """None when another is at it, or when it went on while a model was asked, which may take long."""
    async with claim(engine, place.key) as mine:
        if not mine:
            return None
        entry = await engine.ledger.entry(OPEN, place.key, now=engine.clock())
        if entry is None or not await _is_over(engine, entry):
            return Ending()  # somebody was quicker, or it went on
        there, heard = await _stored(engine, place), await last_heard(engine, entry)
        known = await _known(engine, entry, place)
        written = await _traced(engine, known, by_model=True)
        now = await engine.ledger.entry(OPEN, place.key, now=engine.clock())
        alive = now is not None and (
            bool(now.value.get("ended")) != bool(entry.value.get("ended"))
            or await last_heard(engine, now) > heard
            or bool(await _stored(engine, place) - there)
        )
        if not place.conversation.startswith(ALONE):
            event = _event(known, written, ended=not alive)
            await happened(engine, place.conversation, event, agent=place.agent)
        if alive:
            return None
        expired = await _close(engine, place, there=there)
        return None if expired is None else Ending(written, expired)


async def _stored(engine: Engine, place: Place) -> set[str]:
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
    alone = Place.of_value(entry.value).conversation.startswith(ALONE)
    silence = ABANDONED if alone else engine.policy.session_ttl
    oldest = engine.clock() - silence
    return entry.created <= oldest and await last_heard(engine, entry) <= oldest


async def _known(engine: Engine, entry: Entry, place: Place) -> Conversation:
    known = await conversation_of(engine, place.conversation, agent=place.agent)
    return known or _unheard(entry, place)


def _unheard(entry: Entry, place: Place) -> Conversation:
    """One that nothing was written down of but that it began."""
    begun = datetime.fromisoformat(entry.value["started"])
    return Conversation(place.conversation, place.agent, started=begun, last=entry.created)
