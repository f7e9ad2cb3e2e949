"""The message log of a project: save messages, read the latest, search them, and join the parts of long ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import Field

from mindhold.conversations.sessions import DOCUMENT
from mindhold.engine import LEAST_TRUST, Engine
from mindhold.memories.filters import MOST_HITS
from mindhold.memories.hit_context import HIDDEN, shortened
from mindhold.memories.prepare import GAP, LARGEST_NUMBER, LONGEST_SOURCE, PARAGRAPH, PARTS, TURN, safe_text
from mindhold.memories.recall import Hit, Recalled, RecallInput, recall
from mindhold.memories.write import RememberInput
from mindhold.model.errors import InvalidInput
from mindhold.model.memory import ANY_STATUS, LOG_DIALECT, PART_KEY, Kind, Memory, Relation, Status
from mindhold.model.query import Filter, Order, PagePosition
from mindhold.operations import Output
from mindhold.projects.placement import open_project
from mindhold.projects.summary import SUMMARY_OF, TOPIC, Summary, project_summary

WITHOUT_SESSION = "log:"  # before a project's name: the conversation of messages that name none
OURS = (WITHOUT_SESSION, DOCUMENT)


def session_name(engine: Engine, name: Any) -> str | None:
    """As it is kept: safe, without blanks around it; None for none. Raises InvalidInput for what can't be one."""
    if name is None:
        return None
    if not isinstance(name, str):
        raise InvalidInput(
            f"The session_id {str(name)[:40]!r} is no text.", advice="Give a text, or leave it out."
        )
    if len(name) > LONGEST_SOURCE:
        raise InvalidInput(f"The session_id has over {LONGEST_SOURCE:,} characters.", advice="Shorten it.")
    kept = safe_text(engine, name).strip()
    if kept.startswith(OURS):
        raise InvalidInput(
            f"The session_id {kept[:40]!r} can't be one: names that begin with {' or '.join(OURS)} are Mindhold's own.",
            advice="Choose another one.",
        )
    return kept or None


def asked_session(engine: Engine, name: str | None) -> str | None:
    """The one to look for. Raises InvalidInput for an empty one too, which would otherwise mean all."""
    kept = session_name(engine, name)
    if name is not None and kept is None:
        raise InvalidInput("The session_id is empty.", advice="Name a session, or leave it out.")
    return kept


def session_of(memory: Memory) -> str | None:
    """The conversation that it was said in, unless the name is only ours."""
    conversation = memory.provenance.conversation
    return None if not conversation or conversation.startswith(OURS) else conversation


MOST_WHOLE = 4_000_000  # characters of long messages that one answer has room for


async def whole_texts(
    engine: Engine, messages: Sequence[Memory], *, agent: str, most: int | None = None
) -> dict[str, str]:
    """By id, all of each one's text; the first have the room where there is a most. Those without are absent."""
    long = [message for message in messages if PARTS in message.metadata]
    if most is not None:
        long = _within(engine, long, most)
    ids = [message.id for message in long]
    parts: dict[str, list[Memory]] = defaultdict(list)
    if ids:
        links = await engine.store.links_of(ids, relations=(Relation.PART_OF,), viewer=agent)
        first_of = {link.origin: link.target for link in links if link.automatic and link.target in ids}
        for part in (await engine.store.get_many(list(first_of), viewer=agent)).values():
            parts[first_of[part.id]].append(part)
    joined = {message.id: _joined(message, parts[message.id]) for message in long}
    return {message.id: message.content for message in messages if PARTS not in message.metadata} | joined


async def firsts_of(engine: Engine, parts: Sequence[Memory], *, agent: str) -> dict[str, Memory]:
    """By a part's id, the first part of its message, by whose id the message is known."""
    ids = [part.id for part in parts if is_part(part)]
    if not ids:
        return {}
    links = await engine.store.links_of(ids, relations=(Relation.PART_OF,), viewer=agent)
    first_of = {link.origin: link.target for link in links if link.automatic and link.origin in ids}
    found = await engine.store.get_many(list(dict.fromkeys(first_of.values())), viewer=agent)
    return {part: found[first] for part, first in first_of.items() if first in found}


async def folded(engine: Engine, hits: Sequence[Hit], *, agent: str) -> list[Hit]:
    """Each message once, under its own id, with the words of its part that answers best."""
    firsts = await firsts_of(engine, [hit.memory for hit in hits], agent=agent)
    kept: dict[str, Hit] = {}
    for hit in hits:
        first = firsts.get(hit.memory.id)
        if first is None or first.status in HIDDEN:
            kept.setdefault(hit.memory.id, hit)
        else:
            kept.setdefault(first.id, replace(hit, memory=first, truncated=True))
    return list(kept.values())


def is_part(memory: Memory) -> bool:
    """Whether it is a later part of a message."""
    return memory.provenance.dialect == LOG_DIALECT and PART_KEY in memory.metadata


def _within(engine: Engine, long: Sequence[Memory], most: int) -> list[Memory]:
    """By how long they may be: told before any part is read."""
    chosen: list[Memory] = []
    for message in long:
        length = int(message.metadata[PARTS]) * max(engine.settings.intake.part_length, len(message.content))
        if length <= most:
            chosen.append(message)
            most -= length
    return chosen


def _joined(first: Memory, parts: Sequence[Memory]) -> str:
    rest = sorted(parts, key=lambda part: int(part.metadata.get(PART_KEY, 0)))
    return first.content + "".join(f"{part.metadata.get(GAP, PARAGRAPH)}{part.content}" for part in rest)


# Fields that several operations share.
ProjectId = Annotated[
    str | None, Field(description="The project's id, which is its name.", examples=["proj_123"])
]
StorageBackend = Annotated[
    str,
    Field(
        description="Where the project's memory is stored: `local`, `mongodb` or `postgres`.",
        examples=["local"],
    ),
]
TASK = "task_id"
EXTRAS = "extras"  # all that a caller gave along: no word of theirs can be taken for one of ours
SESSION = "session_id"
TIMESTAMP = "timestamp"
PAGE = 200
LATELY = timedelta(hours=1)
LOOKED_AT = 8
ASKED_BY = 3  # the newest messages of a person that stand in for a question
LONGEST_QUESTION = 1_000
KNOWN_KINDS = tuple(kind for kind in Kind if kind is not Kind.EPISODE)
BESIDES = 2  # hits asked for beyond the limit, for the summary is none


class MessageView(Output):
    """One message. `truncated` says that there is more of it than `content`: one message alone is shown whole."""

    id: str = Field(description="Its id.", examples=["01k2v9c3m4q8r7t6w5x1y0z2ab"])
    message_type: str = Field(description="Who said it.", examples=["user"])
    content: str = Field(description="The text.", examples=["How do I add authentication?"])
    timestamp: datetime = Field(description="When it was said.", examples=["2025-11-27T10:30:00Z"])
    task_id: int | None = Field(default=None, description="The task that it belongs to.", examples=[42])
    session_id: str | None = Field(
        default=None, description="The session that it was said in.", examples=["abc-123"]
    )
    truncated: bool = Field(default=False, description="Whether the text was shortened.", examples=[False])

    @classmethod
    def of(cls, message: Memory, *, shortened: bool = False) -> MessageView:
        """The message as its view; of a long one, the first part."""
        truncated = shortened or PARTS in message.metadata
        return cls(**message_fields(message), content=message.content, truncated=truncated)


def message_fields(memory: Memory) -> dict[str, Any]:
    """The fields that every view of a message shows, but for its text."""
    return {
        "id": memory.id,
        "message_type": role_of(memory),
        "timestamp": memory.occurred,
        "task_id": task_of(memory),
        "session_id": session_of(memory),
    }


def message_request(
    engine: Engine,
    role: str,
    content: str,
    *,
    project: str,
    conversation: str | None = None,
    task: int | None = None,
    metadata: Mapping[str, Any] | None = None,
    occurred: datetime | None = None,
) -> RememberInput:
    """A message as what is to be written, at the beginning of its conversation.

    It was said in the given conversation and at the given time, else as the metadata says, else in the project's own
    conversation, now. Raises InvalidInput for a session or a time that can't be one.
    """
    extras = dict(metadata or {})
    session = session_name(engine, conversation) or session_name(engine, extras.get(SESSION))
    own: dict[str, Any] = {TURN: role}
    if extras:
        own[EXTRAS] = extras
    if task is not None:
        own[TASK] = task
    return RememberInput(
        content=content,
        kind=Kind.EPISODE,
        scope=project,
        topic=_topic(task),
        occurred=occurred or _moment(extras.get(TIMESTAMP)),
        dialect=LOG_DIALECT,
        conversation=session or WITHOUT_SESSION + project,
        position=0,
        metadata=own,
        keep_noise=True,
    )


async def at_end(engine: Engine, message: RememberInput, **changes: Any) -> RememberInput:
    """The message after the last one of its conversation, with these fields changed too."""
    position = await free_position(engine, message.conversation or "", scope=message.scope or "")
    return message.model_copy(update={"position": position, **changes})


def messages_where(
    project: str,
    *,
    viewer: str,
    conversation: str | None = None,
    task: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Filter:
    """What picks messages of a project that may be given to anybody who sees them."""
    return Filter(
        viewer=viewer,
        scopes=(project,),
        turns=True,
        topic=_topic(task) or None,
        conversation=conversation,
        since=since,
        until=until,
        minimum_trust=LEAST_TRUST,
    )


async def recent_messages(
    engine: Engine,
    project: str | None,
    *,
    agent: str,
    limit: int = 50,
    conversation: str | None = None,
    task: int | None = None,
    whole: bool = False,
) -> list[MessageView]:
    """The newest messages, oldest of them first; bounded in size, the newest have the room.

    Unless `whole`, long ones are shortened. Raises ScopeNotFound, InvalidInput for what can't be a conversation's name.
    """
    name = (await open_project(engine, project)).name
    said_in = asked_session(engine, conversation)
    where = messages_where(name, viewer=agent, conversation=said_in, task=task)
    reader = roomy(engine, answers=limit) if whole else engine
    messages = [pair async for pair in _newest(reader, where, limit=limit)]
    if whole:
        views = await in_full(engine, [short for short, _ in messages], agent=agent)
    else:
        views = [MessageView.of(short, shortened=short is not memory) for short, memory in messages]
    return views[::-1]


async def _newest(engine: Engine, where: Filter, *, limit: int) -> AsyncIterator[tuple[Memory, Memory]]:
    """The newest messages that an answer has room for: shortened, and as they are stored."""
    room, count = engine.settings.recall.longest_answer, 0
    async for page in pages(engine, where, Order.NEWEST, size=min(limit, PAGE)):
        for memory in filter(is_message, page):
            short = shortened(memory, min(engine.settings.recall.longest_hit, max(room, 1)))
            room -= len(short.content)
            if room < 0:
                return
            yield short, memory
            count += 1
            if count == limit:
                return


async def pages(
    engine: Engine, where: Filter, order: Order = Order.OLDEST, *, size: int
) -> AsyncIterator[list[Memory]]:
    """All matching memories, page by page, whatever is written meanwhile."""
    after: PagePosition | None = None
    while page := await engine.store.find(where, order=order, limit=size, after=after):
        yield page
        if len(page) < size:
            return
        after = PagePosition.of(page[-1], order)


async def in_full(engine: Engine, messages: Sequence[Memory], *, agent: str) -> list[MessageView]:
    """Each whole, however long it is: all of them together have so much room, and the first of them come first.

    Of a long one that has none left there is the first part.
    """
    texts = await whole_texts(engine, messages, agent=agent, most=MOST_WHOLE)
    return [
        MessageView(
            **message_fields(message),
            content=texts.get(message.id, message.content),
            truncated=message.id not in texts,
        )
        for message in messages
    ]


def roomy(engine: Engine, *, answers: int) -> Engine:
    """The same for programs, which are given so many records as they were saved, not what a reader has room for."""
    longest = max(engine.settings.recall.longest_hit, engine.settings.intake.part_length)
    room = max(engine.settings.recall.longest_answer, longest * answers)
    recall = replace(engine.settings.recall, longest_hit=longest, longest_answer=room)
    return engine.with_settings(recall=recall)


async def search_project(
    engine: Engine,
    project: str | None,
    query: str,
    *,
    agent: str,
    limit: int = 20,
    conversation: str | None = None,
    kinds: tuple[Kind, ...] = (),
    summary: bool = False,
) -> Recalled:
    """What that project remembers, messages and other memories alike; its summary only if that is wanted too. Without a
    query, but with kinds, the best of those.

    Of a long message that is found by several of its parts there is one hit, with the words that answer best and the id that
    it was saved under. Raises InvalidInput, ScopeNotFound.
    """
    name = (await open_project(engine, project)).name
    session = asked_session(engine, conversation)
    # Uses are counted below, of those alone that are shown.
    request = RecallInput(query=query, everywhere=True, kinds=list(kinds), count_use=False)
    asked = limit + BESIDES
    while True:
        asked = min(asked, MOST_HITS)
        room = max(engine.settings.recall.longest_answer, engine.settings.recall.longest_hit * asked)
        wide = engine.with_settings(recall=replace(engine.settings.recall, longest_answer=room))
        found = await recall(
            wide,
            request.model_copy(update={"limit": asked}),
            agent=agent,
            scopes=(name,),
            conversation=session,
            explained=False,
        )
        hits, nearest = [
            await folded(engine, [hit for hit in hits if summary or not _is_summary(hit.memory)], agent=agent)
            for hits in (found.hits, found.nearest)
        ]
        if len(hits) >= limit or len(found.hits) < asked or asked == MOST_HITS:
            shown = _bounded(engine, hits[:limit])
            engine.use_counter.note([hit.memory.id for hit in shown])
            return replace(found, hits=shown, nearest=_bounded(engine, nearest))
        asked *= 4


def _bounded(engine: Engine, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """As many as an answer has room for."""
    room = engine.settings.recall.longest_answer
    kept: list[Hit] = []
    for hit in hits:
        if len(hit.content) > room and kept:
            break
        room -= len(hit.content)
        kept.append(hit)
    return tuple(kept)


def _is_summary(memory: Memory) -> bool:
    return memory.kind is Kind.CONTEXT and memory.topic == TOPIC and SUMMARY_OF in memory.metadata


async def brief(
    engine: Engine,
    project: str | None,
    *,
    agent: str,
    query: str | None = None,
    recent: int = 50,
    related: int = 20,
) -> tuple[Summary, list[MessageView], tuple[Hit, ...]]:
    """Summary, newest messages, and what else has to do with the question; without one, with what was said last.

    Where that finds nothing, as where hooks alone captured what is known, it is the best of that. What is related may be among
    the newest too: who has room for a part of these alone still knows of it. Raises InvalidInput, ScopeNotFound.
    """
    summary = await project_summary(engine, project, agent=agent)
    recall = engine.settings.recall
    half = engine.with_settings(recall=replace(recall, longest_answer=recall.longest_answer // 2))
    messages = await recent_messages(half, summary.project, agent=agent, limit=recent) if recent else []
    asked = (query or "").strip() or _question(messages, summary)
    if not related:
        return summary, messages, ()
    wanted = min(related + len(messages), MOST_HITS - BESIDES)
    wide = engine.with_settings(
        recall=replace(recall, longest_answer=recall.longest_hit * (wanted + BESIDES))
    )
    hits: tuple[Hit, ...] = ()
    if asked:
        hits = (await search_project(wide, summary.project, asked, agent=agent, limit=wanted)).hits
    if not hits and not query:
        best = await search_project(wide, summary.project, "", agent=agent, limit=related, kinds=KNOWN_KINDS)
        hits = best.hits
    return summary, messages, hits


def _question(messages: list[MessageView], summary: Summary) -> str:
    said = [message.content for message in messages if message.message_type == "user"][-ASKED_BY:]
    return "\n".join(said or [summary.knowledge.narrative])[-LONGEST_QUESTION:].strip()


def is_message(memory: Memory) -> bool:
    """Whether it is a message, and not a later part of one."""
    return bool(role_of(memory)) and PART_KEY not in memory.metadata


def role_of(memory: Memory) -> str:
    """Who said it; empty for what is no message."""
    return str(memory.metadata.get(TURN, "")) if memory.provenance.dialect == LOG_DIALECT else ""


def task_of(memory: Memory) -> int | None:
    """The task that it was said about."""
    task = memory.metadata.get(TASK) if role_of(memory) else None
    return task if isinstance(task, int) else None


def extras_of(memory: Memory) -> dict[str, Any]:
    """What the caller gave along."""
    extras = memory.metadata.get(EXTRAS)
    return dict(extras) if isinstance(extras, dict) else {}


async def free_position(engine: Engine, conversation: str, *, scope: str) -> int:
    """The place behind the last message, found in a few reads however long the conversation is.

    What was said lately in the project nearly always tells; from there on it gallops to a place that is free.
    """
    where = Filter(viewer="system", scopes=(scope,), kinds=(Kind.EPISODE,), statuses=(Status.ACTIVE,))
    lately = replace(where, since=engine.clock() - LATELY)
    told = [
        memory.provenance.position
        for memory in await engine.store.find(lately, limit=LOOKED_AT)
        if memory.provenance.conversation == conversation and memory.provenance.position is not None
    ]
    start = max(told) + 1 if told else 0
    occupied = replace(where, kinds=(), statuses=ANY_STATUS, conversation=conversation)

    async def taken(place: int) -> bool:
        return await engine.store.count(replace(occupied, positions=(place, place))) > 0

    if not await taken(start):
        return start
    step = 1
    while await taken(start + step):
        start, step = start + step, step * 2
    free = start + step
    while free - start > 1:
        middle = (start + free) // 2
        start, free = (middle, free) if await taken(middle) else (start, middle)
    return min(free, LARGEST_NUMBER)


def _topic(task: int | None) -> str:
    """A task's messages are found by it."""
    return "" if task is None else f"task {task}"


def _moment(value: Any) -> datetime | None:
    """When it was said, if the caller told. Raises InvalidInput for what can't be read."""
    if value is None:
        return None
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"The timestamp {str(value)[:40]!r} can't be read.",
            advice="Give it as 2025-11-27T10:30:00Z, or leave it out: then it is now.",
        ) from error
