"""Creates, stores and updates the summary of a conversation; a long one gets a summary for each part and one for the whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from mindhold.conversations.messages import free_position, is_message, pages, role_of, whole_texts
from mindhold.conversations.recap_queue import (
    AGENT_FIELD,
    CONVERSATION_FIELD,
    GROWN,
    REASON_FIELD,
    REMADE,
    SILENCE,
    ConversationRef,
    is_recap,
    level_of,
    recap_job,
)
from mindhold.conversations.recap_text import (
    LogUtterance,
    Point,
    PointSort,
    RecapText,
    parse_recap,
    write_recap_text,
)
from mindhold.engine import LEAST_TRUST, Engine
from mindhold.locks import claim
from mindhold.memories.hit_context import HIDDEN
from mindhold.memories.prepare import QUARANTINE_FROM, name_hash, prepare
from mindhold.memories.write import RememberInput
from mindhold.model.errors import Changed, Conflict
from mindhold.model.job import SCOPE_KEY
from mindhold.model.memory import Kind, Memory, Status, is_turn
from mindhold.model.policies import CONVERSATION_RECAP, RECAP, RECAP_SOURCE, RECAP_TAG, RECAP_TOPICS
from mindhold.model.query import Filter, Order
from mindhold.model.scope import EVERYONE
from mindhold.ports.store import Change, Enqueue, Put
from mindhold.text.injection import suspicion

STANDING = (Status.ACTIVE, Status.ARCHIVED)  # statuses of messages and recaps that still count
MOST_KNOWN = 1_000  # recaps of one conversation that are read, the latest
MOST_REFS = 12  # messages that a recap names besides its sources, for recall
IMPORTANCE = 0.5
PART, POSITIONS = "part", "positions"  # which part of a long conversation, and which positions
LEVEL, COUNT, TIMES = "level", "count", "time_range"
REFS, PREVIOUS, BY = "message_refs", "previous", "made_by"


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
    details, times = (
        value if isinstance(value := metadata.get(name), dict) else {} for name in (RECAP, TIMES)
    )
    positions, part = details.get(POSITIONS), details.get(PART)
    return Recap(
        memory,
        level=level_of(memory),
        start=_parse_time(times.get("from"), memory.occurred),
        end=_parse_time(times.get("to"), memory.occurred),
        count=count if isinstance(count := metadata.get(COUNT), int) else 0,
        refs=tuple(ref for ref in metadata.get(REFS) or () if isinstance(ref, str)),
        part=part if isinstance(part, int) else None,
        positions=(positions[0], positions[1])
        if isinstance(positions, list) and len(positions) == 2
        else None,
        by=str(metadata.get(BY) or ""),
    )


async def recaps_of(engine: Engine, ref: ConversationRef) -> list[Recap]:
    """The recaps of a conversation in order; if there are very many, the latest."""
    where = Filter(
        viewer=EVERYONE,
        scopes=(ref.scope,),
        agents=(ref.agent,),
        kinds=(Kind.CONTEXT,),
        topic=RECAP_TOPICS[CONVERSATION_RECAP],
        conversation=ref.conversation,
        statuses=STANDING,
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


PAGE = 500
MOST_CHARACTERS = 400_000  # of long messages that are read whole
LONGEST_MESSAGE = 20_000  # characters read of one message


def messages_filter(ref: ConversationRef) -> Filter:
    """Selects an agent's messages of a conversation, archived ones too. Messages of other agents are left out."""
    return Filter(
        viewer=EVERYONE,
        scopes=(ref.scope,),
        agents=(ref.agent,),
        conversation=ref.conversation,
        turns=True,
        statuses=STANDING,
        minimum_trust=LEAST_TRUST,
    )


async def find_messages(engine: Engine, where: Filter) -> list[Memory]:
    """The messages that a recap may use, by position. Texts that read like instructions are left out."""
    messages = [
        memory
        async for page in pages(engine, where, size=PAGE)
        for memory in page
        if is_message(memory) and suspicion(memory.content).score < QUARANTINE_FROM
    ]
    return sorted(messages, key=lambda message: (message.provenance.position or 0, message.id))


async def utterances(engine: Engine, messages: Sequence[Memory]) -> list[LogUtterance]:
    """The messages as utterances; long ones whole as far as there is room."""
    texts = await whole_texts(engine, messages, agent=EVERYONE, most=MOST_CHARACTERS)
    return [
        LogUtterance(
            message.id,
            role_of(message),
            texts.get(message.id, message.content)[:LONGEST_MESSAGE],
            message.occurred,
        )
        for message in messages
    ]


LEAST_MESSAGES = 2  # a single message needs no recap
MOST_PARTS = 200  # the latest parts that the recap of the whole is made of
PositionRange = tuple[int, int]


@dataclass(frozen=True, slots=True)
class RecapOutcome:
    """The recap of the whole conversation, if there is one. `busy`: another process is writing it."""

    recap: Recap | None = None
    busy: bool = False
    more: bool = False  # the time was up before all parts were done


async def recap_conversation(engine: Engine, conversation: str, *, scope: str, agent: str) -> Recap | None:
    """Update and return the recap of the whole conversation; None if there is too little to summarize.

    It uses the agent's messages in that scope and reads only new ones. If two processes do this at once, one writes and the
    other gets the existing recap. Raises Changed if messages are removed meanwhile, and the store's errors.
    """
    return (await update_recap(engine, ConversationRef(conversation, scope, agent), whole=True)).recap


async def update_recap(
    engine: Engine, ref: ConversationRef, *, whole: bool, enough: Callable[[], bool] = lambda: False
) -> RecapOutcome:
    """Like `recap_conversation`, but also tells `busy` and `more`. After one part it stops when `enough` returns true.

    Unless `whole`, a last part that is still growing waits.
    """
    async with claim(engine, f"recap {ref.agent}\n{ref.scope}\n{ref.conversation}") as acquired:
        recaps = await recaps_of(engine, ref)
        if not acquired:
            return RecapOutcome(top_recap(recaps), busy=True)
        last = await free_position(engine, ref.conversation, scope=ref.scope) - 1
        created: list[Recap] = []
        more = False
        for range_ in uncovered_ranges(
            [recap.positions for recap in recaps if recap.positions and not _is_open(engine, recap, recaps)],
            last=last,
            most=engine.settings.recaps.every_messages,
        ):
            more = bool(created) and enough()
            if more:
                break
            full = range_[1] - range_[0] + 1 == engine.settings.recaps.every_messages
            if whole or full or range_[1] < last:
                created += filter(None, [await _create_part(engine, ref, range_, [*recaps, *created])])
        if created:
            recaps = await recaps_of(engine, ref)
            await _create_whole(engine, ref, recaps)
            recaps = await recaps_of(engine, ref)
        top = top_recap(recaps)
        return RecapOutcome(replace(top, made=bool(created)) if top else None, more=more)


def uncovered_ranges(covered: Sequence[PositionRange], *, last: int, most: int) -> list[PositionRange]:
    """The position ranges up to `last` that no part covers, each at most `most` long."""
    ranges: list[PositionRange] = []
    start = 0
    for first, end in [*sorted(covered), (last + 1, last + 1)]:
        before = min(first, last + 1)
        while start < before:
            ranges.append((start, min(before - 1, start + most - 1)))
            start = ranges[-1][1] + 1
        start = max(start, end + 1)
    return ranges


def top_recap(recaps: Sequence[Recap]) -> Recap | None:
    """The active recap of the whole, or else of the last part."""
    active = [recap for recap in recaps if recap.memory.status is Status.ACTIVE]
    of_whole = [recap for recap in active if not recap.of_messages]
    return next(reversed(of_whole or active), None)


def _is_open(engine: Engine, recap: Recap, recaps: Sequence[Recap]) -> bool:
    """Whether it is the last part and has room for more."""
    if recap.positions is None or recap.memory.status is not Status.ACTIVE:
        return False
    first, last = recap.positions
    is_last = all(other.positions is None or other.positions[0] <= first for other in recaps)
    return is_last and last - first + 1 < engine.settings.recaps.every_messages


async def _create_part(
    engine: Engine, ref: ConversationRef, range_: PositionRange, recaps: Sequence[Recap]
) -> Recap | None:
    where = replace(messages_filter(ref), positions=range_)
    messages = await find_messages(engine, where)
    before = next((item for item in recaps if item.positions and item.positions[0] == range_[0]), None)
    if before is not None and before.memory.merged_from == tuple(item.id for item in messages):
        return None  # nothing new
    if not messages or (len(messages) < LEAST_MESSAGES and range_[0] == 0):
        return None
    spoken = await utterances(engine, messages)
    earlier = [item for item in recaps if item.positions and item.positions[1] < range_[0]]
    part = len(earlier)
    start, end = min(item.occurred for item in spoken), max(item.occurred for item in spoken)
    what = f"Part {part + 1} of a conversation" if part else "Conversation"
    heading = f"{what} of {_days(engine, start, end)}, {len(spoken)} messages."
    text = await write_recap_text(engine, spoken, heading=heading)
    if text is None:
        return None
    draft = RecapDraft(
        name=f"recap {ref.conversation} {range_[0]}",
        scope=ref.scope,
        agent=ref.agent,
        level=CONVERSATION_RECAP,
        text=text,
        sources=messages,
        start=start,
        end=end,
        count=len(messages),
        conversation=ref.conversation,
        part=part,
        positions=range_,
        previous=earlier[-1].memory.id if earlier else None,
        before=before.memory if before else None,
    )
    return await save_recap(engine, draft)


async def _create_whole(engine: Engine, ref: ConversationRef, recaps: Sequence[Recap]) -> None:
    """Write the recap of the whole if there are two or more parts."""
    active = [recap for recap in recaps if recap.memory.status is Status.ACTIVE]
    parts = [recap for recap in active if recap.of_messages][-MOST_PARTS:]
    before = next((recap for recap in active if not recap.of_messages), None)
    if len(parts) < 2:
        return
    spoken = [LogUtterance(recap.memory.id, "summary", recap.memory.content, recap.end) for recap in parts]
    count = sum(recap.count for recap in parts)
    start, end = parts[0].start, max(recap.end for recap in parts)
    text = await write_recap_text(
        engine,
        spoken,
        heading=f"Conversation of {_days(engine, start, end)}, {count} messages.",
        known=points_of([recap.memory for recap in parts]),
    )
    if text is None:
        return
    draft = RecapDraft(
        name=f"recap {ref.conversation}",
        scope=ref.scope,
        agent=ref.agent,
        level=CONVERSATION_RECAP,
        text=replace(
            text, sources=tuple(message_id for recap in reversed(parts) for message_id in recap.refs)
        ),
        sources=[recap.memory for recap in parts],
        start=start,
        end=end,
        count=count,
        conversation=ref.conversation,
        before=before.memory if before else None,
    )
    await save_recap(engine, draft)


def points_of(memories: Sequence[Memory]) -> list[Point]:
    """The points of the memories, weighted so that the first points of all come before second ones."""
    weights = {PointSort.DECIDED: 3.0, PointSort.OPEN: 1.0, PointSort.SAID: 0.0}
    points: list[Point] = []
    for memory in memories:
        _, parsed = parse_recap(memory.content)
        points += [
            replace(point, source=memory.id, weight=weights[point.sort] + 1.0 / (2 + index))
            for index, point in enumerate(parsed)
        ]
    return points


def _days(engine: Engine, start: datetime, end: datetime) -> str:
    first, last = (f"{moment.astimezone(engine.zone()):%Y-%m-%d}" for moment in (start, end))
    return first if first == last else f"{first} to {last}"


RETRY_AFTER = timedelta(minutes=1)  # if another process is writing it
LONGEST_RUN = 20.0  # seconds; then no further part is begun, since other jobs wait


async def run_recap_job(
    engine: Engine, payload: Mapping[str, Any], *, seconds: float = LONGEST_RUN
) -> Mapping[str, Any]:
    """Update the recap of the conversation that a job names and queue what there is no time for.

    Raises Changed if messages are removed meanwhile, and the store's errors.
    """
    ref = ConversationRef(
        str(payload[CONVERSATION_FIELD]), str(payload[SCOPE_KEY]), str(payload[AGENT_FIELD])
    )
    reason = str(payload.get(REASON_FIELD, SILENCE))
    settings = engine.settings.recaps
    if not settings.enabled and reason != REMADE:  # since the job was queued
        return {"recapped": 0}
    where = messages_filter(ref)
    if reason == SILENCE:
        latest = await engine.store.find(where, order=Order.CHANGED, limit=1)
        silent_at = latest[0].created + engine.settings.serve.session_ttl if latest else engine.clock()
        if silent_at > engine.clock():
            await engine.store.apply([Enqueue(recap_job(engine, ref, why=reason, due=silent_at))])
            return {"recapped": 0}
    if reason not in (GROWN, REMADE) and not await _needs_recap(engine, ref):
        return {"recapped": 0}
    until = monotonic() + seconds
    outcome = await update_recap(engine, ref, whole=reason != GROWN, enough=lambda: monotonic() >= until)
    if outcome.busy or outcome.more:
        due = engine.clock() + (RETRY_AFTER if outcome.busy else timedelta())
        await engine.store.apply([Enqueue(recap_job(engine, ref, why=reason, due=due))])
    return {"recapped": int(outcome.recap is not None and outcome.recap.made)}


async def _needs_recap(engine: Engine, ref: ConversationRef) -> bool:
    """Whether it already has a recap, or enough messages for one."""
    where = messages_filter(ref)
    least = engine.settings.recaps.from_messages
    if await engine.store.count(where, most=least) >= least:
        return True
    return bool(await recaps_of(engine, ref))
