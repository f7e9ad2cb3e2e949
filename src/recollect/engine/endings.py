"""Conversations that end, are left, or fall silent: reflected on once, unless somebody did, and their working memory ends.

By a model that was configured when there is one, in a job that nobody waits for; else from what was done. A crash leaves
a conversation open: any process that runs jobs ends it when it was silent for as long as sessions live.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from time import perf_counter

from recollect.engine.amend import Amendment, amend
from recollect.engine.checks import checked_moment
from recollect.engine.claims import claim
from recollect.engine.conversations import (
    ABANDONED,
    ALONE,
    DOCUMENT,
    OPEN,
    REFLECT,
    Conversation,
    Event,
    conversation_of,
    end_working_memory,
    happened,
    last_heard,
    memories_of,
    open_ones,
    place_of,
    sweep_job,
    told,
    within,
    write_down,
)
from recollect.engine.core import Engine
from recollect.engine.doings import Place
from recollect.engine.draft import Draft, Remembered
from recollect.engine.keys import fingerprint
from recollect.engine.ledger import metered
from recollect.engine.recount import POINTS, SUMMARY, counted, in_words
from recollect.engine.reflect import KINDS, REFLECTION_OF, TAGS, attach, ids_of, stored_together
from recollect.model.entry import Entry
from recollect.model.errors import Conflict, ModelError, NotFound, RecollectError, Refused, StoreError
from recollect.model.job import Job
from recollect.model.life import is_working
from recollect.model.link import Relation
from recollect.model.memory import Kind, Memory, Provenance, Status
from recollect.ports.store import Enqueue, Revise

LEAST_TOLD = 2  # a single memory tells itself
MOST_LOOKED_AT = 500
SLIGHT = 0.2  # the importance of a trace, which is only there to say that there was something
SECOND_HAND = 0.7  # the confidence of what a model made of memories
AGAIN = timedelta(minutes=1)  # at the earliest, for those that are still open
AT_ONCE = 50  # conversations in one run
LONGEST_RUN = 60.0  # seconds, after which no further one is begun: other jobs wait
SOURCE = "end of conversation"
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


async def end_conversation(
    engine: Engine,
    conversation: str,
    *,
    agent: str,
    tools: Mapping[str, int],
    memories: Sequence[str],
    started: datetime | None,
    reflected: bool,
    over: bool = True,
) -> Ending:
    """What it stored is reflected on, unless somebody has; again: in the same memory. Its working memory ends.

    One that isn't `over` may go on, here or at another server: its working memory stays.
    """
    place = place_of(engine, conversation, agent=agent)
    await write_down(engine, place)
    entry = await engine.ledger.entry(OPEN, place.key, now=engine.clock())
    now = engine.clock()
    begun = checked_moment(engine, started) if started else None
    known = await conversation_of(engine, place.conversation, agent=agent)
    known = known or Conversation(place.conversation, agent, started=_begun(entry) or begun or now, last=now)
    event = Event(tuple(memories), tools=dict(tools), counted=bool(tools), started=begun, reflected=reflected)
    known = told(known, event, at=now)
    if entry is None and not (known.memories or known.documents or known.reflected):
        return Ending()  # one that left nothing needs no trace
    return await _end(engine, place, known, event, over=over)


async def end_session(engine: Engine, conversation: str) -> int:
    """End the conversations of that name, whoever's they are: for a session's end, which its owner says. How many."""
    ended = 0
    for entry in await open_ones(engine):
        place = Place.of_value(entry.value)
        if place.conversation == conversation:
            fenced = within(engine, place.fence)
            await write_down(fenced, place)
            await _end(fenced, place, await _known(fenced, entry, place), Event(), over=True)
            ended += 1
    return ended


async def reflect_on_silent(engine: Engine) -> Swept:
    """End those that are over, and reflect on them: what the door said has ended, and what was silent for too long.

    Several may run this at once: each conversation is one's. Raises the store's errors.
    """
    swept, soon, begun = Swept(), False, perf_counter()
    for entry in await open_ones(engine):
        place = Place.of_value(entry.value)
        fenced = within(engine, place.fence)
        if not await _is_over(fenced, entry):
            swept = replace(swept, open=swept.open + 1)
            continue
        room = swept.ended < AT_ONCE and perf_counter() - begun < LONGEST_RUN
        try:
            ending = await _finish(fenced, place) if room else None
        except StoreError as error:
            log.warning("a conversation could not be reflected on: %s", error.code)
            ending = None
        except RecollectError as error:  # its scope is gone, or closed: trying again won't mend that
            log.warning("a conversation was ended without a reflection: %s", error.code)
            await engine.ledger.drop_entry(OPEN, place.key)
            ending = Ending()
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
    if await open_ones(engine):
        await engine.store.apply([Enqueue(sweep_job(engine, due=engine.clock()))])


async def _end(engine: Engine, place: Place, known: Conversation, event: Event, *, over: bool) -> Ending:
    """At a door: at once by what was done, or later by a model."""
    by_model = engine.llm is not None and engine.policy.reflect and not known.by_hand
    written = None
    if not by_model:
        async with claim(engine, place.key) as mine:
            written = await _reflected(engine, known) if mine else known.reflection
    done = known.reflected or written is not None
    event = replace(
        event, reflected=done, reflection=written or known.reflection if done else None, ended=over or None
    )
    await happened(engine, place.conversation, event, agent=place.agent)
    expired = await end_working_memory(engine, place.conversation, agent=place.agent) if over else 0
    if over and by_model:
        await _queue(engine, place)
    elif over:
        await engine.ledger.drop_entry(OPEN, place.key)
    return Ending(written, expired, queued=over and by_model)


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
    """None when another is at it."""
    async with claim(engine, place.key) as mine:
        if not mine:
            return None
        entry = await engine.ledger.entry(OPEN, place.key, now=engine.clock())
        if entry is None or not await _is_over(engine, entry):
            return Ending()  # somebody was quicker, or it went on
        known = await _known(engine, entry, place)
        written = await _reflected(engine, known, by_model=True)
        expired = await end_working_memory(engine, place.conversation, agent=place.agent)
        if not place.conversation.startswith(ALONE):
            done = known.reflected or written is not None
            event = Event(
                reflected=done, reflection=written or known.reflection if done else None, ended=True
            )
            await happened(engine, place.conversation, event, agent=place.agent)
        await engine.ledger.drop_entry(OPEN, place.key)
        return Ending(written, expired)


async def _is_over(engine: Engine, entry: Entry) -> bool:
    if entry.value.get("ended"):
        return True
    alone = Place.of_value(entry.value).conversation.startswith(ALONE)
    silence = ABANDONED if alone else engine.policy.session_ttl
    oldest = engine.clock() - silence
    return entry.created <= oldest and await last_heard(engine, entry) <= oldest


async def _known(engine: Engine, entry: Entry, place: Place) -> Conversation:
    known = await conversation_of(engine, place.conversation, agent=place.agent)
    begun = _begun(entry) or entry.created
    return known or Conversation(place.conversation, place.agent, started=begun, last=entry.created)


def _begun(entry: Entry | None) -> datetime | None:
    return datetime.fromisoformat(entry.value["started"]) if entry is not None else None


async def _reflected(engine: Engine, known: Conversation, *, by_model: bool = False) -> str | None:
    """The id of the memory that tells of it; None when there is too little to tell, or somebody has told it."""
    if known.by_hand or not engine.policy.reflect or known.id.startswith(ALONE):
        return None
    left, before = await _left(engine, known)
    scope = Counter(memory.scope for memory in left).most_common(1)[0][0] if left else ""
    left = [memory for memory in left if memory.scope == scope]  # what is elsewhere stays there
    if len(left) < LEAST_TOLD:
        return None
    known = replace(known, reflection=known.reflection or before)
    if known.reflection is not None and await _tells(engine, known.reflection, left, agent=known.agent):
        return known.reflection
    points = await _in_words(engine, known, left) if by_model else None
    return await _written(engine, known, left, points)


async def _in_words(
    engine: Engine, known: Conversation, left: Sequence[Memory]
) -> Mapping[str, tuple[str, ...]] | None:
    if engine.llm is None:
        return None
    try:
        return await in_words(metered(engine, engine.llm), known, left)
    except ModelError as error:
        log.warning("no model told of a conversation: %s", error.code)
        return None


async def _written(
    engine: Engine, known: Conversation, left: Sequence[Memory], points: Mapping[str, tuple[str, ...]] | None
) -> str | None:
    """The summary's id. One that is there is amended."""
    scope = left[0].scope
    summary = points[SUMMARY][0] if points else counted(known, left, zone=engine.zone())
    to = known.reflection and await _amended(engine, known.reflection, summary, agent=known.agent)
    first = _told(known, scope, SUMMARY, summary) if points else _trace(known, scope, summary)
    drafts = [] if to else [first]
    drafts += [_told(known, scope, name, text) for name in POINTS for text in (points or {}).get(name, ())]
    answers = await stored_together(engine, drafts, to=to)
    to = to or next(iter(ids_of(answers)), None)
    if to is None:
        return None
    if points:
        await _trace_back(engine, answers, left)
    await attach(engine, [memory.id for memory in left], to=to)
    return to


async def _trace_back(engine: Engine, answers: Sequence[Remembered], left: Sequence[Memory]) -> None:
    """Say what they were made of: a model's words repeat it, so who erases one of those erases these as well."""
    sources = tuple(memory.id for memory in left)
    made = [one.memory for one in answers if one.memory and REFLECTION_OF in one.memory.metadata]
    if made:
        await engine.store.apply([Revise(replace(memory, merged_from=sources)) for memory in made])


def _trace(known: Conversation, scope: str, text: str) -> Draft:
    return replace(
        _told(known, scope, SUMMARY, text), tags=("conversation",), importance=SLIGHT, confidence=1.0
    )


def _told(known: Conversation, scope: str, name: str, text: str) -> Draft:
    return Draft(
        content=text,
        kind=KINDS[name],
        scope=scope,
        agent=known.agent,
        tags=(*TAGS.get(name, ()), *(("conversation",) if name == SUMMARY else ())),
        confidence=SECOND_HAND,
        occurred=known.started if name == SUMMARY else known.last,
        provenance=Provenance(source=SOURCE, conversation=known.id),
        metadata={REFLECTION_OF: known.id},
        keep_noise=True,
    )


async def _tells(engine: Engine, reflection: str, left: Sequence[Memory], *, agent: str) -> bool:
    """Whether all of them are part of it already."""
    links = await engine.store.links_of([reflection], relations=(Relation.PART_OF,), viewer=agent)
    return {memory.id for memory in left} <= {link.origin for link in links}


async def _amended(engine: Engine, memory_id: str, content: str, *, agent: str) -> str | None:
    try:
        return (await amend(engine, memory_id, Amendment(content=content), agent=agent)).id
    except (
        NotFound,
        Refused,
        Conflict,
    ):  # somebody forgot it, or says the same: the conversation gets a new one
        return None


async def _left(engine: Engine, known: Conversation) -> tuple[list[Memory], str | None]:
    """The active memories that it stored, the most important first, without its working memory; and what tells of it.

    That is for one whose reflection was written, and not noted: the process died in between.
    """
    found: dict[str, Memory] = {}
    async for batch in memories_of(engine, known.id, agent=known.agent, documents=known.documents):
        found |= {memory.id: memory for memory in batch}
        if len(found) >= MOST_LOOKED_AT:
            break
    named = [memory_id for memory_id in known.memories if memory_id not in found]
    found |= await engine.store.get_many(named, viewer=known.agent) if named else {}
    traces = [
        memory.id
        for memory in found.values()
        if memory.metadata.get(REFLECTION_OF) == known.id and memory.kind is Kind.EPISODE
    ]
    left = [
        memory
        for memory in found.values()
        if memory.status is Status.ACTIVE
        and memory.agent == known.agent
        and not is_working(memory)
        and not _is_turn(memory)
        and REFLECTION_OF not in memory.metadata
    ]
    left.sort(key=lambda memory: (-memory.importance, memory.id))
    return left, max(traces, default=None)


def _is_turn(memory: Memory) -> bool:
    """The turns of a log are the conversation; the parts of a long text were stored in it."""
    told = memory.provenance
    return told.position is not None and not (told.conversation or "").startswith(DOCUMENT)
