"""Creates and updates the summary of a conversation; a long one gets a summary for each part and one for the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from mindhold.conversations.messages import free_position, is_message, role_of, whole_texts
from mindhold.conversations.recap_queue import (
    AGENT_FIELD,
    CONVERSATION_FIELD,
    GROWN,
    REASON_FIELD,
    REMADE,
    SILENCE,
    recap_job,
)
from mindhold.conversations.recap_records import STANDING, Recap, RecapDraft, recaps_of, save_recap
from mindhold.conversations.recap_text import LogUtterance, Point, PointSort, parse_recap, write_recap_text
from mindhold.engine import LEAST_TRUST, Engine
from mindhold.locks import claim
from mindhold.memories.prepare import QUARANTINE_FROM
from mindhold.model.job import SCOPE_KEY
from mindhold.model.memory import Memory, Status
from mindhold.model.policies import CONVERSATION_RECAP
from mindhold.model.query import Filter, Order, PagePosition
from mindhold.model.scope import EVERYONE
from mindhold.ports.store import Enqueue
from mindhold.text.injection import suspicion

PAGE = 500
MOST_CHARACTERS = 400_000  # of long messages that are read whole
LONGEST_MESSAGE = 20_000  # characters read of one message


def messages_filter(conversation: str, *, scope: str, agent: str) -> Filter:
    """Selects an agent's messages of a conversation, archived ones too. Messages of other agents are left out."""
    return Filter(
        viewer=EVERYONE,
        scopes=(scope,),
        agents=(agent,),
        conversation=conversation,
        turns=True,
        statuses=STANDING,
        minimum_trust=LEAST_TRUST,
    )


async def find_messages(engine: Engine, where: Filter) -> list[Memory]:
    """The messages that a recap may use, by position. Texts that read like instructions are left out."""
    messages: list[Memory] = []
    after: PagePosition | None = None
    while page := await engine.store.find(where, order=Order.OLDEST, limit=PAGE, after=after):
        after = PagePosition.of(page[-1], Order.OLDEST)
        messages += [
            memory
            for memory in page
            if is_message(memory) and suspicion(memory.content).score < QUARANTINE_FROM
        ]
        if len(page) < PAGE:
            break
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


async def last_position(engine: Engine, conversation: str, *, scope: str) -> int:
    """The last position of anybody's messages; -1 if there are none."""
    return await free_position(engine, conversation, scope=scope) - 1


LEAST_MESSAGES = 2  # a single message needs no recap
MOST_PARTS = 200  # the latest parts that the recap of the whole is made of
PositionRange = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ConversationRef:
    """A conversation of an agent in a scope."""

    conversation: str
    scope: str
    agent: str


@dataclass(frozen=True, slots=True)
class RecapOutcome:
    """The recap of the whole conversation, if there is one. `busy`: another process is writing it."""

    recap: Recap | None = None
    busy: bool = False
    more: bool = False  # the time was up before all parts were done


async def recap_conversation(
    engine: Engine, conversation: str, *, scope: str, agent: str, whole: bool = True
) -> Recap | None:
    """Update and return the recap of the whole conversation; None if there is too little to summarize.

    It uses the agent's messages in that scope and reads only new ones. Unless `whole`, a last part that is still growing
    waits. If two processes do this at once, one writes and the other gets the existing recap. Raises Changed if messages
    are removed meanwhile, and the store's errors.
    """
    return (await update_recap(engine, ConversationRef(conversation, scope, agent), whole=whole)).recap


async def update_recap(
    engine: Engine, ref: ConversationRef, *, whole: bool, enough: Callable[[], bool] = lambda: False
) -> RecapOutcome:
    """Like `recap_conversation`, but also tells `busy` and `more`. After one part it stops when `enough` returns true."""
    async with claim(engine, f"recap {ref.agent}\n{ref.scope}\n{ref.conversation}") as acquired:
        recaps = await _load_recaps(engine, ref)
        if not acquired:
            return RecapOutcome(top_recap(recaps), busy=True)
        last = await last_position(engine, ref.conversation, scope=ref.scope)
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
            recaps = await _load_recaps(engine, ref)
            await _create_whole(engine, ref, recaps)
            recaps = await _load_recaps(engine, ref)
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


async def _load_recaps(engine: Engine, ref: ConversationRef) -> list[Recap]:
    return await recaps_of(engine, ref.conversation, scope=ref.scope, agent=ref.agent)


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
    where = replace(messages_filter(ref.conversation, scope=ref.scope, agent=ref.agent), positions=range_)
    messages = await find_messages(engine, where)
    before = next((item for item in recaps if item.positions and item.positions[0] == range_[0]), None)
    if before is not None and before.memory.merged_from == tuple(item.id for item in messages):
        return None  # nothing new
    if not messages or (len(messages) < LEAST_MESSAGES and range_[0] == 0):
        return None
    spoken = await utterances(engine, messages)
    earlier = [item for item in recaps if item.positions and item.positions[1] < range_[0]]
    part = len(earlier)
    text = await write_recap_text(engine, spoken, heading=_heading(engine, spoken, part=part))
    if text is None:
        return None
    draft = RecapDraft(
        name=f"recap {ref.conversation} {range_[0]}",
        scope=ref.scope,
        agent=ref.agent,
        level=CONVERSATION_RECAP,
        text=text,
        sources=messages,
        start=min(item.occurred for item in spoken),
        end=max(item.occurred for item in spoken),
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


def _heading(engine: Engine, spoken: Sequence[LogUtterance], *, part: int) -> str:
    days = _days(
        engine,
        min(utterance.occurred for utterance in spoken),
        max(utterance.occurred for utterance in spoken),
    )
    what = f"Part {part + 1} of a conversation" if part else "Conversation"
    return f"{what} of {days}, {len(spoken)} messages."


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
    where = messages_filter(ref.conversation, scope=ref.scope, agent=ref.agent)
    if reason == SILENCE:
        latest = await engine.store.find(where, order=Order.CHANGED, limit=1)
        silent_at = latest[0].created + engine.settings.serve.session_ttl if latest else engine.clock()
        if silent_at > engine.clock():
            job = recap_job(
                engine, ref.conversation, scope=ref.scope, agent=ref.agent, why=reason, due=silent_at
            )
            await engine.store.apply([Enqueue(job)])
            return {"recapped": 0}
    if reason not in (GROWN, REMADE) and not await _needs_recap(engine, ref):
        return {"recapped": 0}
    until = monotonic() + seconds
    outcome = await update_recap(engine, ref, whole=reason != GROWN, enough=lambda: monotonic() >= until)
    if outcome.busy or outcome.more:
        due = engine.clock() + (RETRY_AFTER if outcome.busy else timedelta())
        job = recap_job(engine, ref.conversation, scope=ref.scope, agent=ref.agent, why=reason, due=due)
        await engine.store.apply([Enqueue(job)])
    return {"recapped": int(outcome.recap is not None and outcome.recap.made)}


async def _needs_recap(engine: Engine, ref: ConversationRef) -> bool:
    """Whether it already has a recap, or enough messages for one."""
    where = messages_filter(ref.conversation, scope=ref.scope, agent=ref.agent)
    least = engine.settings.recaps.from_messages
    if await engine.store.count(where, most=least) >= least:
        return True
    return bool(await recaps_of(engine, ref.conversation, scope=ref.scope, agent=ref.agent))
