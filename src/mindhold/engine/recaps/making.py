"""A conversation's summary, brought up to date: a long one has a part for each stretch of it, and one that tells of the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from mindhold.engine.claims import claim
from mindhold.engine.core import Engine
from mindhold.engine.recaps.material import last_place, messages_at, said_in, utterances
from mindhold.engine.recaps.picking import Utterance
from mindhold.engine.recaps.points import Point, Sort, read
from mindhold.engine.recaps.record import Making, Recap, keep, recaps_of
from mindhold.engine.recaps.telling import told
from mindhold.model.memory import Memory, Status
from mindhold.model.recap import CONVERSATION

LEAST_MESSAGES = 2  # a single message tells itself
MOST_PARTS = (
    200  # that the summary of the whole is made of, the latest: what is older is told by its own parts
)
Places = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Talk:
    """Which conversation, of whom."""

    conversation: str
    scope: str
    agent: str


@dataclass(frozen=True, slots=True)
class Outcome:
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
    return (await recapped(engine, Talk(conversation, scope, agent), whole=whole)).recap


async def recapped(
    engine: Engine, talk: Talk, *, whole: bool, enough: Callable[[], bool] = lambda: False
) -> Outcome:
    """The same, and whether somebody else is at it; where one part was made and it is `enough`, the others wait."""
    async with claim(engine, f"recap {talk.agent}\n{talk.scope}\n{talk.conversation}") as mine:
        known = await _known(engine, talk)
        if not mine:
            return Outcome(top(known), busy=True)
        last = await last_place(engine, talk.conversation, scope=talk.scope)
        made: list[Recap] = []
        more = False
        for places in gaps(
            [one.positions for one in known if one.positions and not _is_open(engine, one, known)],
            last=last,
            most=engine.policy.recaps.every_messages,
        ):
            more = bool(made) and enough()
            if more:
                break
            full = places[1] - places[0] + 1 == engine.policy.recaps.every_messages
            if whole or full or places[1] < last:
                made += filter(None, [await _part(engine, talk, places, [*known, *made])])
        if made:
            known = await _known(engine, talk)
            await _whole(engine, talk, known)
            known = await _known(engine, talk)
        found = top(known)
        return Outcome(replace(found, made=bool(made)) if found else None, more=more)


def gaps(covered: Sequence[Places], *, last: int, most: int) -> list[Places]:
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


def top(recaps: Sequence[Recap]) -> Recap | None:
    """The active one that tells of the whole, or else of the last part."""
    active = [one for one in recaps if one.memory.status is Status.ACTIVE]
    heads = [one for one in active if not one.of_messages]
    return next(reversed(heads or active), None)


async def _known(engine: Engine, talk: Talk) -> list[Recap]:
    return await recaps_of(engine, talk.conversation, scope=talk.scope, agent=talk.agent)


def _is_open(engine: Engine, recap: Recap, known: Sequence[Recap]) -> bool:
    """Whether it is the last part, with room for more."""
    if recap.positions is None or recap.memory.status is not Status.ACTIVE:
        return False
    first, last = recap.positions
    is_last = all(one.positions is None or one.positions[0] <= first for one in known)
    return is_last and last - first + 1 < engine.policy.recaps.every_messages


async def _part(engine: Engine, talk: Talk, places: Places, known: Sequence[Recap]) -> Recap | None:
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
    telling = await told(engine, said, heading=_heading(engine, said, part=part))
    if telling is None:
        return None
    making = Making(
        name=f"recap {talk.conversation} {places[0]}",
        scope=talk.scope,
        agent=talk.agent,
        level=CONVERSATION,
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
    return await keep(engine, making)


async def _whole(engine: Engine, talk: Talk, known: Sequence[Recap]) -> None:
    """Of two parts and more."""
    active = [one for one in known if one.memory.status is Status.ACTIVE]
    parts = [one for one in active if one.of_messages][-MOST_PARTS:]
    before = next((one for one in active if not one.of_messages), None)
    if len(parts) < 2:
        return
    said = [Utterance(one.memory.id, "summary", one.memory.content, one.end) for one in parts]
    count = sum(one.count for one in parts)
    start, end = parts[0].start, max(one.end for one in parts)
    telling = await told(
        engine,
        said,
        heading=f"Conversation of {_days(engine, start, end)}, {count} messages.",
        known=points_of([one.memory for one in parts]),
    )
    if telling is None:
        return
    making = Making(
        name=f"recap {talk.conversation}",
        scope=talk.scope,
        agent=talk.agent,
        level=CONVERSATION,
        telling=replace(telling, sources=tuple(ref for one in reversed(parts) for ref in one.refs)),
        sources=[one.memory for one in parts],
        start=start,
        end=end,
        count=count,
        conversation=talk.conversation,
        before=before.memory if before else None,
    )
    await keep(engine, making)


def points_of(memories: Sequence[Memory]) -> list[Point]:
    """What these say, each in its turn: of all of them the first points come before anybody's second ones."""
    weights = {Sort.DECIDED: 3.0, Sort.OPEN: 1.0, Sort.SAID: 0.0}
    points: list[Point] = []
    for memory in memories:
        _, own = read(memory.content)
        points += [
            replace(point, source=memory.id, weight=weights[point.sort] + 1.0 / (2 + place))
            for place, point in enumerate(own)
        ]
    return points


def _heading(engine: Engine, said: Sequence[Utterance], *, part: int) -> str:
    days = _days(engine, min(one.occurred for one in said), max(one.occurred for one in said))
    what = f"Part {part + 1} of a conversation" if part else "Conversation"
    return f"{what} of {days}, {len(said)} messages."


def _days(engine: Engine, start: datetime, end: datetime) -> str:
    first, last = (f"{one.astimezone(engine.zone()):%Y-%m-%d}" for one in (start, end))
    return first if first == last else f"{first} to {last}"
