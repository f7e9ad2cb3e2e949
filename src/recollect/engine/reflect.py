"""What a conversation came to: as somebody says it, or, when nobody does, as the memories that it left tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from recollect.engine.amend import Amendment, amend
from recollect.engine.checks import checked_moment
from recollect.engine.conversations import (
    Conversation,
    called,
    conversation_of,
    end_working_memory,
    is_working,
    keep_conversation,
    merged,
)
from recollect.engine.core import Engine
from recollect.engine.draft import Draft, Outcome, prepare
from recollect.engine.intake import remember, remember_many
from recollect.engine.reach import reach
from recollect.model.errors import NotFound, Refused
from recollect.model.link import Link, Relation
from recollect.model.memory import Kind, Memory, Provenance, Status
from recollect.model.query import Filter, Order
from recollect.ports.store import Change, Connect

SUMMARY = "summary"
LEAST_TOLD = 2  # a single memory tells itself
KINDS: Mapping[str, Kind] = {
    SUMMARY: Kind.EPISODE,
    "decisions": Kind.DECISION,
    "errors_resolved": Kind.ERROR,
    "new_procedures": Kind.PROCEDURE,
    "open_questions": Kind.FACT,
}
TAGS: Mapping[str, tuple[str, ...]] = {
    "errors_resolved": ("resolved",),
    "open_questions": ("open question",),
}
REFLECTION_OF = "reflection_of"  # in the metadata of what is written at the end of a conversation
MOST_LOOKED_AT = 500
MOST_QUOTED = 5
LONGEST_QUOTE = 100
MOST_TOPICS = 8


@dataclass(frozen=True, slots=True)
class Reflection:
    """What it became: ids with the summary's first, and how many of each sort are new."""

    ids: tuple[str, ...]
    stored: Mapping[str, int]
    duplicates: int


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
    answers = await remember_many(engine, [draft for _, draft in drafts])
    for answer in answers:
        if answer.error is not None:
            raise answer.error
    stored = Counter(
        name for (name, _), one in zip(drafts, answers, strict=True) if one.outcome is Outcome.STORED
    )
    ids = list(dict.fromkeys(answer.memory.id for answer in answers if answer.memory))
    await _attach(engine, ids[1:], to=ids[0])
    if conversation is not None:
        await _mark_reflected(engine, conversation, ids, agent=agent)
    duplicates = sum(answer.outcome is Outcome.DUPLICATE for answer in answers)
    return Reflection(tuple(ids), dict(stored), duplicates)


async def end_conversation(
    engine: Engine,
    conversation: str,
    *,
    agent: str,
    tools: Mapping[str, int],
    memories: Sequence[str],
    started: datetime | None,
    reflected: bool,
) -> Ending:
    """Its working memory ends. What it stored becomes one episode, unless somebody has reflected; again: the same one."""
    now = engine.clock()
    conversation = called(engine, conversation)
    begun = checked_moment(engine, started) if started else now
    known = await conversation_of(engine, conversation, agent=agent)
    known = known or Conversation(conversation, agent, started=begun, last=now)
    known = merged(known, tools={}, memories=memories, now=now)
    known = replace(
        known,
        started=min(known.started, begun),
        tools=dict(tools) or known.tools,
        reflected=known.reflected or reflected,
    )
    written = None
    if not known.reflected or known.reflection is not None:
        written = await _episode(engine, known)
    expired = await end_working_memory(engine, known)
    if written is not None or known.memories or known.reflected:  # one that left nothing needs no trace
        ended = replace(known, working=(), ended=now, reflection=written or known.reflection)
        await keep_conversation(engine, replace(ended, reflected=known.reflected or written is not None))
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


async def _mark_reflected(engine: Engine, conversation: str, ids: Sequence[str], *, agent: str) -> None:
    now = engine.clock()
    known = await conversation_of(engine, conversation, agent=agent)
    known = known or Conversation(conversation, agent, started=now, last=now)
    noted = merged(known, tools={"reflect": 1}, memories=ids, now=now)
    # What somebody says of it stands; what was written by itself before stays as it is.
    await keep_conversation(engine, replace(noted, reflected=True, reflection=None))


async def _episode(engine: Engine, conversation: Conversation) -> str | None:
    """The id of the memory that tells what the conversation stored; None when that is too little, or is told already."""
    left = await _left(engine, conversation)
    if len(left) < LEAST_TOLD:
        return None
    scope = Counter(memory.scope for memory in left).most_common(1)[0][0]
    told = await reach(engine, scope)  # what is elsewhere stays there
    left = [memory for memory in left if memory.scope in told]
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
    """Nothing but what can be counted or quoted."""
    day = conversation.started.astimezone(engine.zone())
    kinds = Counter(memory.kind.value for memory in left)
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    topics = list(dict.fromkeys(memory.topic for memory in left if memory.topic))[:MOST_TOPICS]
    lines = [f"Conversation of {day:%Y-%m-%d}: {len(left)} stored ({counted})."]
    if topics:
        lines.append(f"Topics: {', '.join(topics)}.")
    if conversation.tools:
        used = ", ".join(f"{name} {count}" for name, count in sorted(conversation.tools.items()))
        lines.append(f"Tools: {used}.")
    quotes = dict.fromkeys(_beginning(memory.content) for memory in left[:MOST_QUOTED])
    lines.append("Kept: " + "; ".join(f"“{quote}”" for quote in quotes) + ".")
    return "\n".join(lines)


def _beginning(text: str) -> str:
    words = " ".join(text.split())
    if len(words) <= LONGEST_QUOTE:
        return words.rstrip(".")
    return words[:LONGEST_QUOTE].rsplit(" ", 1)[0].rstrip(",.;: ") + "…"
