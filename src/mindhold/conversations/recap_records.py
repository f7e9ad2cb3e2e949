"""Summaries of conversations as memories, and which messages each one covers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from mindhold.conversations.recap_queue import is_recap, level_of
from mindhold.conversations.recap_text import RecapText
from mindhold.engine import LEAST_TRUST, Engine
from mindhold.memories.hit_context import HIDDEN
from mindhold.memories.prepare import name_hash, prepare
from mindhold.memories.write import RememberInput
from mindhold.model.errors import Changed, Conflict
from mindhold.model.memory import Kind, Memory, Status, is_turn
from mindhold.model.policies import CONVERSATION_RECAP, RECAP, RECAP_SOURCE, RECAP_TAG, RECAP_TOPICS
from mindhold.model.query import Filter, Order
from mindhold.model.scope import EVERYONE
from mindhold.ports.store import Change, Put

STANDING = (Status.ACTIVE, Status.ARCHIVED)  # statuses of messages and recaps that still count
MOST_KNOWN = 1_000  # recaps of one conversation that are read, the latest
MOST_REFS = 12  # messages that a recap names besides its sources, for recall
IMPORTANCE = 0.5
PART, POSITIONS = "part", "positions"  # which part of a long conversation, and which positions
LEVEL, COUNT, TIMES, REFS, PREVIOUS, BY = (
    "level",
    "count",
    "time_range",
    "message_refs",
    "previous",
    "made_by",
)


@dataclass(frozen=True, slots=True)
class Recap:
    """A recap, read from its memory. `part` is None if it covers the whole."""

    memory: Memory
    level: int
    start: datetime
    end: datetime
    count: int  # messages in all
    refs: tuple[str, ...] = ()
    part: int | None = None
    positions: tuple[int, int] | None = None
    by: str = ""
    made: bool = False  # just now

    @property
    def conversation(self) -> str | None:
        """The conversation that it describes, if it is one."""
        return self.memory.provenance.conversation

    @property
    def of_messages(self) -> bool:
        """Whether it was made of messages, not of other recaps."""
        return self.positions is not None


@dataclass(frozen=True, slots=True)
class RecapDraft:
    """A recap to save. `name` is unique in the scope and agent."""

    name: str
    scope: str
    agent: str
    level: int
    text: RecapText
    sources: Sequence[Memory]
    start: datetime
    end: datetime
    count: int
    conversation: str | None = None
    part: int | None = None
    positions: tuple[int, int] | None = None
    previous: str | None = None
    before: Memory | None = None  # that it replaces


def recap_of(memory: Memory) -> Recap:
    """Read a recap; missing fields get their smallest value."""
    metadata = memory.metadata
    details = metadata.get(RECAP)
    details = details if isinstance(details, dict) else {}
    times = metadata.get(TIMES)
    times = times if isinstance(times, dict) else {}
    positions, part = details.get(POSITIONS), details.get(PART)
    return Recap(
        memory,
        level=level_of(memory),
        start=_parse_time(times.get("from"), memory.occurred),
        end=_parse_time(times.get("to"), memory.occurred),
        count=_int_or_zero(metadata.get(COUNT)),
        refs=tuple(ref for ref in metadata.get(REFS) or () if isinstance(ref, str)),
        part=part if isinstance(part, int) else None,
        positions=(positions[0], positions[1])
        if isinstance(positions, list) and len(positions) == 2
        else None,
        by=str(metadata.get(BY) or ""),
    )


async def recaps_of(
    engine: Engine, conversation: str, *, scope: str, agent: str, statuses: Sequence[Status] = STANDING
) -> list[Recap]:
    """The recaps of a conversation in order; if there are very many, the latest."""
    where = Filter(
        viewer=EVERYONE,
        scopes=(scope,),
        agents=(agent,),
        kinds=(Kind.CONTEXT,),
        topic=RECAP_TOPICS[CONVERSATION_RECAP],
        conversation=conversation,
        statuses=tuple(statuses),
    )
    memories = await engine.store.find(where, order=Order.NEWEST, limit=MOST_KNOWN)
    recaps = [recap_of(memory) for memory in memories if is_recap(memory)]
    return sorted(recaps, key=lambda recap: (recap.positions or (-1, -1), recap.memory.id))


async def save_recap(engine: Engine, draft: RecapDraft, *, besides: Sequence[Change] = ()) -> Recap | None:
    """Save the recap together with these changes; None if another process was faster.

    Raises Changed if one of its sources was removed meanwhile, MemoryNotFound for what the changes name, and the store's
    errors.
    """
    put = await _put(engine, draft)
    try:
        await engine.store.apply([put, *besides])
    except Conflict:  # includes Changed
        return None
    ids = [source.id for source in draft.sources]
    sources = await engine.store.get_many(ids, viewer=EVERYONE)
    if any(source_id not in sources or sources[source_id].status not in STANDING for source_id in ids):
        await engine.store.erase([put.memory.id])  # it repeats removed content
        raise Changed("What a summary stands for went while it was written.", advice="It is made anew.")
    return replace(recap_of(put.memory), made=True)


async def _put(engine: Engine, draft: RecapDraft) -> Put:
    """Prepare the record. If the text reads like an instruction, only the heading is kept."""
    # One record, whatever the length at which other texts are split.
    longer = max(engine.settings.intake.part_length, 2 * len(draft.text.text) + 1)
    unsplit = engine.with_settings(intake=replace(engine.settings.intake, part_length=longer))
    [prepared] = prepare(unsplit, _request(draft), agent=draft.agent)
    if prepared.memory.status is not Status.ACTIVE:
        heading = replace(draft.text, text=draft.text.text.split("\n")[0], sources=())
        [prepared] = prepare(unsplit, _request(replace(draft, text=heading)), agent=draft.agent)
    now, before = engine.clock(), draft.before
    put = await prepared.embedded_put(
        engine,
        id=before.id if before else prepared.memory.id,
        created=before.created if before else now,
        content_hash=name_hash(draft.name),
        trust=min(source.trust for source in draft.sources),
        merged_from=tuple(source.id for source in draft.sources),
        verified=now,  # it is as good as its sources, and no rule judges it
        examined=now,
    )
    return replace(put, gist="", expected=before.updated if before else None)


def _request(draft: RecapDraft) -> RememberInput:
    details: dict[str, Any] = {PART: draft.part}
    if draft.positions:
        details[POSITIONS] = list(draft.positions)
    metadata = {
        LEVEL: draft.level,
        COUNT: draft.count,
        TIMES: {"from": draft.start.isoformat(), "to": draft.end.isoformat()},
        REFS: list(draft.text.sources[:MOST_REFS]),
        PREVIOUS: draft.previous,
        BY: draft.text.by,
        RECAP: details,
    }
    return RememberInput(
        content=draft.text.text,
        kind=Kind.CONTEXT,
        scope=draft.scope,
        topic=RECAP_TOPICS[draft.level],
        tags=[RECAP_TAG],
        importance=IMPORTANCE,
        occurred=draft.end,
        source=RECAP_SOURCE,
        conversation=draft.conversation,
        metadata=metadata,
        keep_noise=True,
    )


async def find_recap(engine: Engine, name: str, *, scope: str, agent: str) -> Memory | None:
    """The active recap of that name."""
    digest = name_hash(name)
    memory = (await engine.store.by_hash([digest], scope=scope, agent=agent)).get(digest)
    return memory if memory is not None and is_recap(memory) and memory.trust >= LEAST_TRUST else None


def _parse_time(value: Any, otherwise: datetime) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return otherwise


def _int_or_zero(value: Any) -> int:
    return value if isinstance(value, int) else 0


BATCH = 500
MOST_MESSAGES = 100_000


async def covered_messages(engine: Engine, ids: Collection[str]) -> set[str]:
    """The messages that an active recap covers, directly or through another recap."""
    covered: set[str] = set()
    distinct = list(dict.fromkeys(ids))
    for start in range(0, len(distinct), BATCH):
        covered |= await _covered(engine, distinct[start : start + BATCH])
    return covered


async def _covered(engine: Engine, ids: Sequence[str]) -> set[str]:
    requested = set(ids)
    recaps = [recap for recap in await engine.store.derived_from(ids) if is_recap(recap)]
    active = {recap.id for recap in recaps if _is_valid(recap)}
    archived = [recap.id for recap in recaps if recap.status is Status.ARCHIVED]
    active |= await _covered(engine, archived) if archived else set()
    return {
        source
        for recap in recaps
        if recap.id in active
        for source in recap.merged_from
        if source in requested
    }


def _is_valid(recap: Memory) -> bool:
    return recap.status is Status.ACTIVE and recap.trust >= LEAST_TRUST


async def messages_of(engine: Engine, recap: Memory, *, agent: str) -> list[Memory]:
    """The messages behind a recap that the agent sees, in order."""
    messages: dict[str, Memory] = {}
    seen: set[str] = {recap.id}
    frontier = list(recap.merged_from)
    while frontier and len(messages) < MOST_MESSAGES:
        fresh = [memory_id for memory_id in dict.fromkeys(frontier) if memory_id not in seen]
        seen.update(fresh)
        memories = await engine.store.get_many(fresh, viewer=agent)
        messages |= {
            memory.id: memory
            for memory in memories.values()
            if is_turn(memory) and memory.status not in HIDDEN
        }
        frontier = [
            source for memory in memories.values() if is_recap(memory) for source in memory.merged_from
        ]
    return _in_order(messages.values())


def _in_order(messages: Collection[Memory]) -> list[Memory]:
    """Sort by conversation in the order of their starts, then by position."""
    started: dict[str, datetime] = {}
    for message in messages:
        name = message.provenance.conversation or ""
        started[name] = min(message.occurred, started.get(name, message.occurred))

    def sort_key(message: Memory) -> tuple[datetime, str, int, str]:
        name = message.provenance.conversation or ""
        return started[name], name, message.provenance.position or 0, message.id

    return sorted(messages, key=sort_key)
