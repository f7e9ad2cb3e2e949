"""What a conversation came to: as somebody says it, or, when nobody does, as the memories that it left tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from recollect.engine.amend import Amendment, amend
from recollect.engine.checks import checked_moment
from recollect.engine.conversations import (
    Conversation,
    Event,
    called,
    conversation_of,
    end_working_memory,
    happened,
    is_working,
    told,
)
from recollect.engine.core import Engine, unbroken
from recollect.engine.draft import Draft, Outcome, Remembered, prepare
from recollect.engine.intake import BATCH, remember, remember_many
from recollect.model.errors import NotFound, RecollectError, Refused, StoreError
from recollect.model.link import Link, Relation
from recollect.model.memory import Kind, Memory, Provenance, Status
from recollect.model.query import Filter, Order
from recollect.ports.store import Change, Connect, Mark

SUMMARY = "summary"
LEAST_TOLD = 2  # a single memory tells itself
KINDS: Mapping[str, Kind] = {
    SUMMARY: Kind.EPISODE,
    "decisions": Kind.DECISION,
    "errors_resolved": Kind.ERROR,
    "new_procedures": Kind.PROCEDURE,
    "open_questions": Kind.FACT,
}
REFLECTION = "reflection"
OPEN_QUESTION = "open question"
TAGS: Mapping[str, tuple[str, ...]] = {
    SUMMARY: (REFLECTION,),
    "errors_resolved": ("resolved",),
    "open_questions": (OPEN_QUESTION,),
}
REFLECTION_OF = "recollect.reflection_of"  # in the metadata of what is written at the end of a conversation
MOST_LOOKED_AT = 500
SLIGHT = 0.2  # the importance of a trace, which is only there to say that there was something


@dataclass(frozen=True, slots=True)
class Reflection:
    """What it became: ids with the summary's first, and how many of each sort are new."""

    ids: tuple[str, ...]
    stored: Mapping[str, int]
    duplicates: int
    quarantined: int = 0  # kept, but never given to anybody: they read like instructions to their reader


@dataclass(frozen=True, slots=True)
class Ending:
    """What became of a conversation: the memory that was written or amended now, and what ended with it."""

    reflection: str | None
    expired: int


async def reflect(
    engine: Engine,
    points: Mapping[str, Sequence[str]],
    *,
    agent: str,
    conversation: str | None = None,
    scope: str | None = None,
) -> Reflection:
    """Each point its own memory, part of the summary. `points` are by the names in KINDS; blank ones are passed over.

    Raises InvalidInput, ContentTooLarge, ScopeNotFound, Refused; then nothing is stored.
    """
    conversation = called(engine, conversation) if conversation else None
    drafts = [
        (name, _draft(name, text, agent=agent, conversation=conversation, scope=scope))
        for name in KINDS
        for text in points.get(name, ())
        if text.strip() or name == SUMMARY
    ]
    for _, draft in drafts:
        prepare(engine, draft)  # one that can't be stored is found before any is
    answers = await unbroken(
        _kept(engine, [draft for _, draft in drafts], agent=agent, conversation=conversation)
    )
    new = [name for (name, _), one in zip(drafts, answers, strict=True) if one.outcome is Outcome.STORED]
    return Reflection(
        ids=_ids(answers),
        stored=dict(Counter(new)),
        duplicates=sum(one.outcome is Outcome.DUPLICATE for one in answers),
        quarantined=sum(
            one.memory is not None and one.memory.status is Status.QUARANTINED for one in answers
        ),
    )


async def _kept(
    engine: Engine, drafts: Sequence[Draft], *, agent: str, conversation: str | None
) -> list[Remembered]:
    """All of them, tied to the first, or none."""
    answers: list[Remembered] = []
    try:
        for start in range(0, len(drafts), BATCH):  # what one step stores is stored whole or not at all
            answers += await remember_many(engine, drafts[start : start + BATCH])
            for answer in answers:
                if answer.error is not None:
                    raise answer.error
        ids = _ids(answers)
        await _attach(engine, ids[1:], to=ids[0])
    except RecollectError:
        await _take_back(engine, answers)
        raise
    if conversation is not None:
        # What somebody says of it stands; what was written by itself before stays as it is.
        event = Event(ids, {"reflect": 1}, reflected=True)
        await happened(engine, conversation, event, agent=agent)
    return answers


def _ids(answers: Sequence[Remembered]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(answer.memory.id for answer in answers if answer.memory))


async def _take_back(engine: Engine, answers: Sequence[Remembered]) -> None:
    """As far as the store lets us."""
    now = engine.clock()
    new = [one for one in answers if one.outcome is Outcome.STORED and one.memory]
    retired = [old for one in new for old in one.superseded]
    with suppress(StoreError):
        await engine.store.erase([each for one in new for each in (one.parts or _ids([one]))])
        changes: list[Change] = [
            Mark(old, Status.ACTIVE, previous=None, updated=now, only_from=Status.SUPERSEDED)
            for old in retired
        ]
        if changes:
            await engine.store.apply(changes)


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
    """What it stored becomes one episode, unless somebody has reflected; again: the same one. Its working memory ends.

    One that isn't `over` may go on, here or at another server: its working memory stays.
    """
    now = engine.clock()
    conversation = called(engine, conversation)
    begun = checked_moment(engine, started) if started else now
    known = await conversation_of(engine, conversation, agent=agent)
    known = known or Conversation(conversation, agent, started=begun, last=now)
    event = Event(tuple(memories), dict(tools), counted=bool(tools), started=begun, ended=over or None)
    known = told(known, event, at=now)
    known = replace(known, reflected=known.reflected or reflected)
    written = None
    if not known.reflected or known.reflection is not None:
        written = await _episode(engine, known)
    expired = await end_working_memory(engine, conversation, agent=agent) if over else 0
    if written is not None or known.memories or known.reflected:  # one that left nothing needs no trace
        done = known.reflected or written is not None
        event = replace(event, reflected=done, reflection=written or known.reflection)
        await happened(engine, conversation, event, agent=agent)
    return Ending(written, expired)


def _draft(name: str, text: str, *, agent: str, conversation: str | None, scope: str | None) -> Draft:
    return Draft(
        content=text,
        kind=KINDS[name],
        scope=scope,
        agent=agent,
        tags=TAGS.get(name, ()),
        provenance=Provenance(source="reflect", conversation=conversation),
        keep_noise=True,
    )


async def _attach(engine: Engine, parts: Sequence[str], *, to: str) -> None:
    now = engine.clock()
    links: list[Change] = [Connect(Link(part, to, Relation.PART_OF, now)) for part in parts if part != to]
    if links:
        await engine.store.apply(links)


async def _episode(engine: Engine, conversation: Conversation) -> str | None:
    """The id of the memory that tells what the conversation stored; None when that is too little, or is told already."""
    left = await _left(engine, conversation)
    if len(left) < LEAST_TOLD:
        return None
    scope = Counter(memory.scope for memory in left).most_common(1)[0][0]
    left = [memory for memory in left if memory.scope == scope]  # what is elsewhere stays there
    if len(left) < LEAST_TOLD:
        return None
    content = _told(engine, conversation, left)
    if conversation.reflection is not None and (
        amended := await _amended(engine, conversation.reflection, content, agent=conversation.agent)
    ):
        await _attach(engine, [memory.id for memory in left], to=amended)
        return amended
    draft = Draft(
        content=content,
        kind=Kind.EPISODE,
        scope=scope,
        agent=conversation.agent,
        tags=("conversation",),
        importance=SLIGHT,
        occurred=conversation.started,
        provenance=Provenance(source="end of conversation", conversation=conversation.id),
        metadata={REFLECTION_OF: conversation.id},
        keep_noise=True,
    )
    answer = await remember(engine, draft)
    if answer.memory is None:
        return None
    await _attach(engine, [memory.id for memory in left], to=answer.memory.id)
    return answer.memory.id


async def _amended(engine: Engine, memory_id: str, content: str, *, agent: str) -> str | None:
    try:
        return (await amend(engine, memory_id, Amendment(content=content), agent=agent)).id
    except (NotFound, Refused):  # somebody forgot it: the conversation gets a new one
        return None


async def _left(engine: Engine, conversation: Conversation) -> list[Memory]:
    """The active memories that it stored, the most important first; without its working memory."""
    where = Filter(viewer=conversation.agent, conversation=conversation.id)
    found = await engine.store.find(where, order=Order.IMPORTANT, limit=MOST_LOOKED_AT)
    known = {memory.id: memory for memory in found}
    named = [memory_id for memory_id in conversation.memories if memory_id not in known]
    known |= await engine.store.get_many(named, viewer=conversation.agent) if named else {}
    left = [
        memory
        for memory in known.values()
        if memory.status is Status.ACTIVE and not is_working(memory) and REFLECTION_OF not in memory.metadata
    ]
    return sorted(left, key=lambda memory: (-memory.importance, memory.id))


def _told(engine: Engine, conversation: Conversation, left: Sequence[Memory]) -> str:
    """Counts only: words of a memory, or its topic, would outlive its being forgotten."""
    day = conversation.started.astimezone(engine.zone())
    kinds = Counter(memory.kind.value for memory in left)
    counted = ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in kinds.most_common())
    return f"A conversation of {day:%Y-%m-%d %H:%M:%S} left {len(left)} memories ({counted})."
