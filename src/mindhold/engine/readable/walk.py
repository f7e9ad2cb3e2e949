"""Everything that is remembered, scope by scope, read in batches: nothing is held but where the walk is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

from mindhold.engine.conversations import DOCUMENT
from mindhold.engine.core import Engine
from mindhold.engine.filing import Source
from mindhold.engine.keys import fingerprint
from mindhold.engine.message_session import session_of
from mindhold.engine.message_text import whole_texts
from mindhold.engine.messages import role_of
from mindhold.engine.projects import SUMMARY_OF
from mindhold.engine.readable.parts import (
    CONVERSATIONS,
    FACTS,
    PROFILE,
    SUMMARIES,
    End,
    Head,
    Item,
    Part,
    ScopeEnd,
    Section,
    SectionEnd,
    Talk,
    TalkEnd,
)
from mindhold.model.memory import LOG, Kind, Memory, Status
from mindhold.model.query import Filter, Order, Spot

PAGE = 200
# What was forgotten is in no export for people, or reading one would undo it.
TOLD = tuple(status for status in Status if status is not Status.FORGOTTEN)


async def walk(engine: Engine, *, agent: str, scopes: Sequence[str] = ()) -> AsyncIterator[list[Part]]:
    """All of it, or those scopes, in bounded batches."""
    yield [Head(engine.clock())]
    count = 0
    for scope in await engine.store.scopes():
        if scopes and scope.name not in scopes:
            continue
        yield [scope]
        where = Filter(viewer=agent, scopes=(scope.name,), statuses=TOLD)
        sections = {
            CONVERSATIONS: _conversations(engine, where),
            SUMMARIES: _chosen(engine, where, SUMMARIES, _is_summary),
            FACTS: _chosen(engine, where, FACTS, _is_fact),
            PROFILE: _chosen(engine, where, PROFILE, _is_profile),
        }
        for name, parts in sections.items():
            yield [Section(name)]
            async for batch in parts:
                count += sum(isinstance(part, Item) for part in batch)
                yield batch
            yield [SectionEnd()]
        yield [ScopeEnd()]
    yield [End(count)]


async def _conversations(engine: Engine, where: Filter) -> AsyncIterator[list[Part]]:
    """Each when its first message is met, in order of time."""
    told: set[str] = set()
    turns = replace(where, turns=True)
    async for page in _pages(engine, turns):
        for memory in page:
            conversation = memory.provenance.conversation
            mark = fingerprint(conversation or "")
            if mark in told:
                continue
            told.add(mark)
            yield [Talk(session_of(memory))]
            async for batch in _pages(engine, replace(turns, conversation=conversation)):
                texts = await whole_texts(engine, batch, agent=where.viewer)
                yield [_item(one, CONVERSATIONS, texts.get(one.id, one.content)) for one in batch]
            yield [TalkEnd()]


async def _chosen(
    engine: Engine, where: Filter, section: str, belongs: Callable[[Memory], bool]
) -> AsyncIterator[list[Part]]:
    async for batch in engine.store.scan(where, batch=PAGE):
        items = [
            _item(one, section, await _text_of(engine, one, where))
            for one in batch
            if belongs(one) and not _is_later_part(one)
        ]
        if items:
            yield list(items)


async def _pages(engine: Engine, where: Filter) -> AsyncIterator[list[Memory]]:
    after: Spot | None = None
    while page := await engine.store.find(where, order=Order.OLDEST, limit=PAGE, after=after):
        yield page
        if len(page) < PAGE:
            return
        after = Spot.of(page[-1], Order.OLDEST)


def _is_summary(memory: Memory) -> bool:
    return memory.provenance.source == Source.SUMMARY or SUMMARY_OF in memory.metadata


def _is_profile(memory: Memory) -> bool:
    return memory.provenance.source == Source.PROFILE


def _is_fact(memory: Memory) -> bool:
    logged = memory.provenance.dialect == LOG and memory.kind is Kind.EPISODE
    return not (logged or _is_summary(memory) or _is_profile(memory))


def _is_later_part(memory: Memory) -> bool:
    """Of a long text: it is told with the first."""
    return _is_document(memory) and bool(memory.provenance.position)


def _is_document(memory: Memory) -> bool:
    return (memory.provenance.conversation or "").startswith(DOCUMENT)


async def _text_of(engine: Engine, memory: Memory, where: Filter) -> str:
    if not _is_document(memory):
        return memory.content
    parts = [
        part
        async for batch in _pages(engine, replace(where, conversation=memory.provenance.conversation))
        for part in batch
    ]
    return "\n\n".join(part.content for part in sorted(parts, key=lambda part: part.provenance.position or 0))


def _item(memory: Memory, section: str, text: str) -> Item:
    return Item(
        id=memory.id,
        text=text,
        scope=memory.scope,
        section=section,
        kind=memory.kind,
        source=memory.provenance.source,
        status=memory.status,
        occurred=memory.occurred,
        created=memory.created,
        tags=memory.tags,
        topic=memory.topic,
        importance=memory.importance,
        speaker=role_of(memory),
        conversation=session_of(memory),
    )
