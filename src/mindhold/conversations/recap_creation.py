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
LONGEST_MESSAGE = 20_000  # characters of one that are looked at


def said_in(conversation: str, *, scope: str, agent: str) -> Filter:
    """What picks an agent's messages of a conversation, those in the archive too: an owner's summary tells nobody else's."""
    return Filter(
        viewer=EVERYONE,
        scopes=(scope,),
        agents=(agent,),
        conversation=conversation,
        turns=True,
        statuses=STANDING,
        minimum_trust=LEAST_TRUST,
    )


async def messages_at(engine: Engine, where: Filter) -> list[Memory]:
    """Those that may be told again, in the order of their places. What reads like an instruction is none of them."""
    found: list[Memory] = []
    after: PagePosition | None = None
    while page := await engine.store.find(where, order=Order.OLDEST, limit=PAGE, after=after):
        after = PagePosition.of(page[-1], Order.OLDEST)
        found += [
            memory
            for memory in page
            if is_message(memory) and suspicion(memory.content).score < QUARANTINE_FROM
        ]
        if len(page) < PAGE:
            break
    return sorted(found, key=lambda one: (one.provenance.position or 0, one.id))


async def utterances(engine: Engine, messages: Sequence[Memory]) -> list[LogUtterance]:
    """As they were said, long ones whole as far as there is room."""
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


async def last_place(engine: Engine, conversation: str, *, scope: str) -> int:
    """Of anybody's messages; -1 where there are none."""
    return await free_position(engine, conversation, scope=scope) - 1


LEAST_MESSAGES = 2  # a single message tells itself
MOST_PARTS = (
    200  # that the summary of the whole is made of, the latest: what is older is told by its own parts
)
Places = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ConversationRef:
    """Which conversation, of whom."""

    conversation: str
    scope: str
    agent: str


@dataclass(frozen=True, slots=True)
class RecapOutcome:
    """The summary that tells of all of it, if there is one. `busy`: somebody else is at it, so it is as it was."""

    recap: Recap | None = None
    busy: bool = False
    more: bool = False  # it was enough for one time


async def recap_conversation(
    engine: Engine, conversation: str, *, scope: str, agent: str, whole: bool = True
) -> Recap | None:
    """The summary that tells of all of it; None where there is too little to be told in short.

    Made of the agent's messages in that scope; only what came since the last time is read. Unless `whole`, a last part that
    is still growing waits. Of two at once one makes it, and the other gets what is there. Raises Changed where messages went
    meanwhile, and the store's errors.
    """
    return (await update_recap(engine, ConversationRef(conversation, scope, agent), whole=whole)).recap


async def update_recap(
    engine: Engine, talk: ConversationRef, *, whole: bool, enough: Callable[[], bool] = lambda: False
) -> RecapOutcome:
    """The same, and whether somebody else is at it; where one part was made and it is `enough`, the others wait."""
    async with claim(engine, f"recap {talk.agent}\n{talk.scope}\n{talk.conversation}") as mine:
        known = await _known(engine, talk)
        if not mine:
            return RecapOutcome(top_recap(known), busy=True)
        last = await last_place(engine, talk.conversation, scope=talk.scope)
        made: list[Recap] = []
        more = False
        for places in uncovered_ranges(
            [one.positions for one in known if one.positions and not _is_open(engine, one, known)],
            last=last,
            most=engine.settings.recaps.every_messages,
        ):
            more = bool(made) and enough()
            if more:
                break
            full = places[1] - places[0] + 1 == engine.settings.recaps.every_messages
            if whole or full or places[1] < last:
                made += filter(None, [await _part(engine, talk, places, [*known, *made])])
        if made:
            known = await _known(engine, talk)
            await _whole(engine, talk, known)
            known = await _known(engine, talk)
        found = top_recap(known)
        return RecapOutcome(replace(found, made=bool(made)) if found else None, more=more)


def uncovered_ranges(covered: Sequence[Places], *, last: int, most: int) -> list[Places]:
    """The places up to the last that no part stands for, in stretches of so many at most."""
    found: list[Places] = []
    start = 0
    for first, end in [*sorted(covered), (last + 1, last + 1)]:
        before = min(first, last + 1)
        while start < before:
            found.append((start, min(before - 1, start + most - 1)))
            start = found[-1][1] + 1
        start = max(start, end + 1)
    return found


def top_recap(recaps: Sequence[Recap]) -> Recap | None:
    """The active one that tells of the whole, or else of the last part."""
    active = [one for one in recaps if one.memory.status is Status.ACTIVE]
    heads = [one for one in active if not one.of_messages]
    return next(reversed(heads or active), None)


async def _known(engine: Engine, talk: ConversationRef) -> list[Recap]:
    return await recaps_of(engine, talk.conversation, scope=talk.scope, agent=talk.agent)


def _is_open(engine: Engine, recap: Recap, known: Sequence[Recap]) -> bool:
    """Whether it is the last part, with room for more."""
    if recap.positions is None or recap.memory.status is not Status.ACTIVE:
        return False
    first, last = recap.positions
    is_last = all(one.positions is None or one.positions[0] <= first for one in known)
    return is_last and last - first + 1 < engine.settings.recaps.every_messages


async def _part(
    engine: Engine, talk: ConversationRef, places: Places, known: Sequence[Recap]
) -> Recap | None:
    where = replace(said_in(talk.conversation, scope=talk.scope, agent=talk.agent), positions=places)
    messages = await messages_at(engine, where)
    before = next((one for one in known if one.positions and one.positions[0] == places[0]), None)
    if before is not None and before.memory.merged_from == tuple(one.id for one in messages):
        return None  # nothing new
    if not messages or (len(messages) < LEAST_MESSAGES and places[0] == 0):
        return None
    said = await utterances(engine, messages)
    earlier = [one for one in known if one.positions and one.positions[1] < places[0]]
    part = len(earlier)
    telling = await write_recap_text(engine, said, heading=_heading(engine, said, part=part))
    if telling is None:
        return None
    making = RecapDraft(
        name=f"recap {talk.conversation} {places[0]}",
        scope=talk.scope,
        agent=talk.agent,
        level=CONVERSATION_RECAP,
        telling=telling,
        sources=messages,
        start=min(one.occurred for one in said),
        end=max(one.occurred for one in said),
        count=len(messages),
        conversation=talk.conversation,
        part=part,
        positions=places,
        previous=earlier[-1].memory.id if earlier else None,
        before=before.memory if before else None,
    )
    return await save_recap(engine, making)


async def _whole(engine: Engine, talk: ConversationRef, known: Sequence[Recap]) -> None:
    """Of two parts and more."""
    active = [one for one in known if one.memory.status is Status.ACTIVE]
    parts = [one for one in active if one.of_messages][-MOST_PARTS:]
    before = next((one for one in active if not one.of_messages), None)
    if len(parts) < 2:
        return
    said = [LogUtterance(one.memory.id, "summary", one.memory.content, one.end) for one in parts]
    count = sum(one.count for one in parts)
    start, end = parts[0].start, max(one.end for one in parts)
    telling = await write_recap_text(
        engine,
        said,
        heading=f"Conversation of {_days(engine, start, end)}, {count} messages.",
        known=points_of([one.memory for one in parts]),
    )
    if telling is None:
        return
    making = RecapDraft(
        name=f"recap {talk.conversation}",
        scope=talk.scope,
        agent=talk.agent,
        level=CONVERSATION_RECAP,
        telling=replace(telling, sources=tuple(ref for one in reversed(parts) for ref in one.refs)),
        sources=[one.memory for one in parts],
        start=start,
        end=end,
        count=count,
        conversation=talk.conversation,
        before=before.memory if before else None,
    )
    await save_recap(engine, making)


def points_of(memories: Sequence[Memory]) -> list[Point]:
    """What these say, each in its turn: of all of them the first points come before anybody's second ones."""
    weights = {PointSort.DECIDED: 3.0, PointSort.OPEN: 1.0, PointSort.SAID: 0.0}
    points: list[Point] = []
    for memory in memories:
        _, own = parse_recap(memory.content)
        points += [
            replace(point, source=memory.id, weight=weights[point.sort] + 1.0 / (2 + place))
            for place, point in enumerate(own)
        ]
    return points


def _heading(engine: Engine, said: Sequence[LogUtterance], *, part: int) -> str:
    days = _days(engine, min(one.occurred for one in said), max(one.occurred for one in said))
    what = f"Part {part + 1} of a conversation" if part else "Conversation"
    return f"{what} of {days}, {len(said)} messages."


def _days(engine: Engine, start: datetime, end: datetime) -> str:
    first, last = (f"{one.astimezone(engine.zone()):%Y-%m-%d}" for one in (start, end))
    return first if first == last else f"{first} to {last}"


AGAIN = timedelta(minutes=1)  # where somebody else is at it
LONGEST_RUN = 20.0  # seconds, after which no further part is begun: other jobs wait


async def recap_due(
    engine: Engine, payload: Mapping[str, Any], *, seconds: float = LONGEST_RUN
) -> Mapping[str, Any]:
    """Of the conversation that a job names; what there is no time for is queued again. Raises Changed where messages went meanwhile, and the store's errors."""
    talk = ConversationRef(
        str(payload[CONVERSATION_FIELD]), str(payload[SCOPE_KEY]), str(payload[AGENT_FIELD])
    )
    why = str(payload.get(REASON_FIELD, SILENCE))
    chosen = engine.settings.recaps
    if not chosen.enabled and why != REMADE:  # any more
        return {"recapped": 0}
    where = said_in(talk.conversation, scope=talk.scope, agent=talk.agent)
    if why == SILENCE:
        latest = await engine.store.find(where, order=Order.CHANGED, limit=1)
        over = latest[0].created + engine.settings.serve.session_ttl if latest else engine.clock()
        if over > engine.clock():
            job = recap_job(engine, talk.conversation, scope=talk.scope, agent=talk.agent, why=why, due=over)
            await engine.store.apply([Enqueue(job)])
            return {"recapped": 0}
    if why not in (GROWN, REMADE) and not await _is_enough(engine, talk):
        return {"recapped": 0}
    until = monotonic() + seconds
    done = await update_recap(engine, talk, whole=why != GROWN, enough=lambda: monotonic() >= until)
    if done.busy or done.more:
        due = engine.clock() + (AGAIN if done.busy else timedelta())
        job = recap_job(engine, talk.conversation, scope=talk.scope, agent=talk.agent, why=why, due=due)
        await engine.store.apply([Enqueue(job)])
    return {"recapped": int(done.recap is not None and done.recap.made)}


async def _is_enough(engine: Engine, talk: ConversationRef) -> bool:
    """Whether it was summarised before, or has as many messages as a summary needs."""
    where = said_in(talk.conversation, scope=talk.scope, agent=talk.agent)
    least = engine.settings.recaps.from_messages
    if await engine.store.count(where, most=least) >= least:
        return True
    return bool(await recaps_of(engine, talk.conversation, scope=talk.scope, agent=talk.agent))
