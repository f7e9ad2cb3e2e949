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

STANDING = (Status.ACTIVE, Status.ARCHIVED)  # statuses of messages and summaries that still count
MOST_KNOWN = 1_000  # summaries of one conversation that are looked at, the latest
MOST_REFS = 12  # messages that one names besides those that it was made of: a recall tells them
IMPORTANCE = 0.5
PART, POSITIONS = "part", "positions"  # which part of a long conversation, and which of its places
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
    """One of them, read from its memory. `part` is None where it stands for a whole."""

    memory: Memory
    level: int
    start: datetime
    end: datetime
    count: int  # messages, all in all
    refs: tuple[str, ...] = ()
    part: int | None = None
    positions: tuple[int, int] | None = None
    by: str = ""
    made: bool = False  # just now

    @property
    def conversation(self) -> str | None:
        """Of one, which."""
        return self.memory.provenance.conversation

    @property
    def of_messages(self) -> bool:
        """Whether it was made of messages, and not of others of its sort."""
        return self.positions is not None


@dataclass(frozen=True, slots=True)
class RecapDraft:
    """What is to be kept. `name` is one that no other of the scope and the agent has."""

    name: str
    scope: str
    agent: str
    level: int
    telling: RecapText
    sources: Sequence[Memory]
    start: datetime
    end: datetime
    count: int
    conversation: str | None = None
    part: int | None = None
    positions: tuple[int, int] | None = None
    previous: str | None = None
    before: Memory | None = None  # that it takes the place of


def recap_of(memory: Memory) -> Recap:
    """As it was kept; what is missing is as little as it can be."""
    told = memory.metadata
    own = told.get(RECAP)
    own = own if isinstance(own, dict) else {}
    times = told.get(TIMES)
    times = times if isinstance(times, dict) else {}
    places, part = own.get(POSITIONS), own.get(PART)
    return Recap(
        memory,
        level=level_of(memory),
        start=_moment(times.get("from"), memory.occurred),
        end=_moment(times.get("to"), memory.occurred),
        count=_number(told.get(COUNT)),
        refs=tuple(one for one in told.get(REFS) or () if isinstance(one, str)),
        part=part if isinstance(part, int) else None,
        positions=(places[0], places[1]) if isinstance(places, list) and len(places) == 2 else None,
        by=str(told.get(BY) or ""),
    )


async def recaps_of(
    engine: Engine, conversation: str, *, scope: str, agent: str, statuses: Sequence[Status] = STANDING
) -> list[Recap]:
    """Those of a conversation, in its order; of very many the latest."""
    where = Filter(
        viewer=EVERYONE,
        scopes=(scope,),
        agents=(agent,),
        kinds=(Kind.CONTEXT,),
        topic=RECAP_TOPICS[CONVERSATION_RECAP],
        conversation=conversation,
        statuses=tuple(statuses),
    )
    found = await engine.store.find(where, order=Order.NEWEST, limit=MOST_KNOWN)
    recaps = [recap_of(memory) for memory in found if is_recap(memory)]
    return sorted(recaps, key=lambda one: (one.positions or (-1, -1), one.memory.id))


async def save_recap(engine: Engine, making: RecapDraft, *, besides: Sequence[Change] = ()) -> Recap | None:
    """The summary, written together with these changes; None where somebody else was faster.

    Raises Changed where something that it stands for went meanwhile, MemoryNotFound for what the changes name, and the store's
    errors.
    """
    put = await _put(engine, making)
    try:
        await engine.store.apply([put, *besides])
    except Conflict:  # Changed is one
        return None
    ids = [source.id for source in making.sources]
    there = await engine.store.get_many(ids, viewer=EVERYONE)
    if any(one not in there or there[one].status not in STANDING for one in ids):
        await engine.store.erase([put.memory.id])  # it repeats what somebody took away
        raise Changed("What a summary stands for went while it was written.", advice="It is made anew.")
    return replace(recap_of(put.memory), made=True)


async def _put(engine: Engine, making: RecapDraft) -> Put:
    """Where its words together read like an instruction, only the heading is kept: that says what it stands for."""
    # One record, however long other texts may be before they are split.
    longer = max(engine.settings.intake.part_length, 2 * len(making.telling.text) + 1)
    roomy = engine.with_settings(intake=replace(engine.settings.intake, part_length=longer))
    [prepared] = prepare(roomy, _request(making), agent=making.agent)
    if prepared.memory.status is not Status.ACTIVE:
        heading = replace(making.telling, text=making.telling.text.split("\n")[0], sources=())
        [prepared] = prepare(roomy, _request(replace(making, telling=heading)), agent=making.agent)
    now, before = engine.clock(), making.before
    put = await prepared.embedded_put(
        engine,
        id=before.id if before else prepared.memory.id,
        created=before.created if before else now,
        content_hash=name_hash(making.name),
        trust=min(source.trust for source in making.sources),
        merged_from=tuple(source.id for source in making.sources),
        verified=now,  # it is as good as what it stands for, and no rule judges it
        examined=now,
    )
    return replace(put, gist="", expected=before.updated if before else None)


def _request(making: RecapDraft) -> RememberInput:
    own: dict[str, Any] = {PART: making.part}
    if making.positions:
        own[POSITIONS] = list(making.positions)
    metadata = {
        LEVEL: making.level,
        COUNT: making.count,
        TIMES: {"from": making.start.isoformat(), "to": making.end.isoformat()},
        REFS: list(making.telling.sources[:MOST_REFS]),
        PREVIOUS: making.previous,
        BY: making.telling.by,
        RECAP: own,
    }
    return RememberInput(
        content=making.telling.text,
        kind=Kind.CONTEXT,
        scope=making.scope,
        topic=RECAP_TOPICS[making.level],
        tags=[RECAP_TAG],
        importance=IMPORTANCE,
        occurred=making.end,
        source=RECAP_SOURCE,
        conversation=making.conversation,
        metadata=metadata,
        keep_noise=True,
    )


async def find_recap(engine: Engine, name: str, *, scope: str, agent: str) -> Memory | None:
    """The active one of that name."""
    digest = name_hash(name)
    found = (await engine.store.by_hash([digest], scope=scope, agent=agent)).get(digest)
    return found if found is not None and is_recap(found) and found.trust >= LEAST_TRUST else None


def _moment(value: Any, otherwise: datetime) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return otherwise


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


BATCH = 500
MOST_MESSAGES = 100_000


async def covered_messages(engine: Engine, ids: Collection[str]) -> set[str]:
    """Those of the messages that an active summary stands for, or one that an active summary stands for in its turn."""
    covered: set[str] = set()
    wanted = list(dict.fromkeys(ids))
    for start in range(0, len(wanted), BATCH):
        covered |= await _covered(engine, wanted[start : start + BATCH])
    return covered


async def _covered(engine: Engine, ids: Sequence[str]) -> set[str]:
    asked = set(ids)
    found = [one for one in await engine.store.derived_from(ids) if is_recap(one)]
    active = {one.id for one in found if _stands(one)}
    resting = [one.id for one in found if one.status is Status.ARCHIVED]
    active |= await _covered(engine, resting) if resting else set()
    return {source for one in found if one.id in active for source in one.merged_from if source in asked}


def _stands(recap: Memory) -> bool:
    return recap.status is Status.ACTIVE and recap.trust >= LEAST_TRUST


async def messages_of(engine: Engine, recap: Memory, *, agent: str) -> list[Memory]:
    """The messages that it stands for, as far as the agent sees them, in the order that they were said in."""
    found: dict[str, Memory] = {}
    seen: set[str] = {recap.id}
    ahead = list(recap.merged_from)
    while ahead and len(found) < MOST_MESSAGES:
        fresh = [one for one in dict.fromkeys(ahead) if one not in seen]
        seen.update(fresh)
        there = await engine.store.get_many(fresh, viewer=agent)
        found |= {one.id: one for one in there.values() if is_turn(one) and one.status not in HIDDEN}
        ahead = [source for one in there.values() if is_recap(one) for source in one.merged_from]
    return _in_order(found.values())


def _in_order(messages: Collection[Memory]) -> list[Memory]:
    """Conversation by conversation, as they began."""
    begun: dict[str, datetime] = {}
    for message in messages:
        name = message.provenance.conversation or ""
        begun[name] = min(message.occurred, begun.get(name, message.occurred))

    def place(message: Memory) -> tuple[datetime, str, int, str]:
        name = message.provenance.conversation or ""
        return begun[name], name, message.provenance.position or 0, message.id

    return sorted(messages, key=place)
