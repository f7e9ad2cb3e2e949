"""Maintenance of summaries: write the missing ones, merge old ones by month and year."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from time import perf_counter

from mindhold.conversations.recap_creation import ConversationRef, points_of, said_in, update_recap
from mindhold.conversations.recap_queue import is_recap
from mindhold.conversations.recap_records import (
    Recap,
    RecapDraft,
    covered_messages,
    find_recap,
    recap_of,
    save_recap,
)
from mindhold.conversations.recap_text import LogUtterance, write_recap_text
from mindhold.engine import LEAST_TRUST, Engine
from mindhold.lifecycle.stages import MOST_TOLD, NOTHING, StageExample, StageLimits, StageResult
from mindhold.locks import claim
from mindhold.model.errors import Changed, MemoryNotFound
from mindhold.model.memory import Kind, Status
from mindhold.model.policies import CONVERSATION_RECAP, MONTH_RECAP, RECAP_TAG, RECAP_TOPICS, YEAR_RECAP
from mindhold.model.query import Filter, Order, PagePosition
from mindhold.model.scope import EVERYONE
from mindhold.ports.store import Change, Mark

YEARS_AFTER = timedelta(days=2 * 365)  # months that are over for so long become a year
LEAST = 2  # that are worth merging
PAGE = 500
MERGED, ARCHIVED = "gathered", "archived"
MERGED_LEVELS = {
    MONTH_RECAP: (CONVERSATION_RECAP,),
    YEAR_RECAP: (CONVERSATION_RECAP, MONTH_RECAP),
}  # the levels that each is made of
FORMS = {MONTH_RECAP: "%Y-%m", YEAR_RECAP: "%Y"}


@dataclass(frozen=True, slots=True)
class RecapPeriod:
    """A month or a year of one agent in one scope, by its name: 2024-03, 2024."""

    level: int
    name: str
    scope: str
    agent: str

    @property
    def recap(self) -> str:
        """What its summary is known by."""
        return f"recap of {self.name}"


async def merge_old(engine: Engine, within: StageLimits) -> AsyncIterator[list[StageExample]]:
    """A list for each that was made: what it is, and what went into the archive for it. Raises the store's errors."""
    now = engine.clock()
    for level, age in (
        (MONTH_RECAP, timedelta(days=engine.settings.recaps.old_days)),
        (YEAR_RECAP, YEARS_AFTER),
    ):
        async for period, sources in _due(engine, level, before=now - age):
            if within.over:
                return
            if done := await _merge(engine, period, sources, dry=within.dry):
                yield done


async def _due(
    engine: Engine, level: int, *, before: datetime
) -> AsyncIterator[tuple[RecapPeriod, list[Recap]]]:
    """Of times that were over then, the oldest first."""
    over = f"{before.astimezone(engine.zone()):{FORMS[level]}}"  # the one that was going on
    where = Filter(viewer=EVERYONE, kinds=(Kind.CONTEXT,), tags=(RECAP_TAG,), until=before)
    for scope in await engine.store.tally(where, "scope"):
        own = replace(where, scopes=(scope,))
        for agent in await engine.store.tally(own, "agent"):
            periods: dict[str, list[Recap]] = defaultdict(list)
            for one in MERGED_LEVELS[level]:
                filtered = replace(own, agents=(agent,), topic=RECAP_TOPICS[one])
                for recap in [recap async for recap in _found(engine, filtered)]:
                    periods[f"{recap.end.astimezone(engine.zone()):{FORMS[level]}}"].append(recap)
            for name in sorted(periods):
                if name < over:
                    yield RecapPeriod(level, name, scope, agent), periods[name]


async def _found(engine: Engine, where: Filter) -> AsyncIterator[Recap]:
    after: PagePosition | None = None
    while page := await engine.store.find(where, order=Order.OLDEST, limit=PAGE, after=after):
        after = PagePosition.of(page[-1], Order.OLDEST)
        for memory in filter(is_recap, page):
            yield recap_of(memory)
        if len(page) < PAGE:
            return


async def _merge(
    engine: Engine, period: RecapPeriod, fresh: Sequence[Recap], *, dry: bool
) -> list[StageExample]:
    before = await find_recap(engine, period.recap, scope=period.scope, agent=period.agent)
    if len(fresh) < LEAST and before is None:
        return []
    if dry:
        return _told(period, "", fresh)
    async with claim(engine, f"recap {period.agent}\n{period.scope}\n{period.name}") as mine:
        if not mine:
            return []
        earlier = await engine.store.get_many(before.merged_from, viewer=EVERYONE) if before else {}
        sources = sorted(
            {one.memory.id: one for one in (*map(recap_of, earlier.values()), *fresh)}.values(),
            key=lambda one: (one.end, one.memory.id),
        )
        making = await _making(engine, period, sources)
        if making is None:
            return []
        now = engine.clock()
        archived: list[Change] = [
            Mark(one.memory.id, Status.ARCHIVED, previous=Status.ACTIVE, updated=now, only_from=Status.ACTIVE)
            for one in fresh
        ]
        try:
            kept = await save_recap(engine, replace(making, before=before), besides=archived)
        except MemoryNotFound:  # somebody erased one meanwhile
            return []
        return _told(period, kept.memory.id, fresh) if kept else []


async def _making(engine: Engine, period: RecapPeriod, sources: Sequence[Recap]) -> RecapDraft | None:
    telling_of = _tellers(sources)
    said = [
        LogUtterance(
            one.memory.id, f"{one.end.astimezone(engine.zone()):%Y-%m-%d}", one.memory.content, one.end
        )
        for one in telling_of
    ]
    points = [
        replace(point, who=day.who if period.level == MONTH_RECAP else point.who)
        for day, one in zip(said, telling_of, strict=True)
        for point in points_of([one.memory])
    ]
    talks = len({one.conversation for one in sources if one.conversation})
    count = sum(one.count for one in sources if one.of_messages or one.level != CONVERSATION_RECAP)
    what = f"{talks} conversations, " if talks else ""
    heading = f"Summary of {period.name}: {what}{count} messages."
    telling = await write_recap_text(engine, said, heading=heading, known=points)
    if telling is None:
        return None
    return RecapDraft(
        name=period.recap,
        scope=period.scope,
        agent=period.agent,
        level=period.level,
        telling=replace(telling, sources=_refs(telling_of, telling.sources)),
        sources=[one.memory for one in sources],
        start=min(one.start for one in sources),
        end=max(one.end for one in sources),
        count=count,
    )


def _tellers(sources: Sequence[Recap]) -> list[Recap]:
    """Of a conversation in parts the one that tells of the whole, where it is among them."""
    whole = {one.conversation for one in sources if one.level == CONVERSATION_RECAP and not one.of_messages}
    return [one for one in sources if not (one.of_messages and one.conversation in whole)]


def _refs(sources: Iterable[Recap], told_of: Sequence[str]) -> tuple[str, ...]:
    """Messages that those which are told of name, the first of each first."""
    refs = [one.refs for one in sources if one.memory.id in told_of]
    longest = max(map(len, refs), default=0)
    return tuple(dict.fromkeys(ref[place] for place in range(longest) for ref in refs if place < len(ref)))


def _told(period: RecapPeriod, recap: str, sources: Sequence[Recap]) -> list[StageExample]:
    why = f"the summary of {period.name} in {period.scope} stands for it"
    made = StageExample(
        recap, MERGED, f"{len(sources)} summaries of {period.name} in {period.scope} became one"
    )
    return [made, *(StageExample(one.memory.id, ARCHIVED, why) for one in sources)]


LOOKED = "recaps:looked"  # a cursor: up to when all that was written is known to be looked at
RECAPPED = "recapped"
LATE = timedelta(minutes=10)  # by which clocks differ
NEWEST = 50  # messages of which one that nobody stands for gives its conversation away


async def recap_missed(engine: Engine, within: StageLimits) -> AsyncIterator[StageExample | None]:
    """Something for each conversation that was looked at: what was made of it, if anything. Raises the store's errors."""
    begun = engine.clock()
    last = await engine.store.cursor(LOOKED)
    since = datetime.fromisoformat(last) if last else None
    async for talk in _talks(engine, since):
        if within.over:
            return
        yield await _recapped(engine, talk, dry=within.dry)
    if not within.dry:
        await engine.store.set_cursor(LOOKED, (begun - engine.settings.serve.session_ttl - LATE).isoformat())


async def _talks(engine: Engine, since: datetime | None) -> AsyncIterator[ConversationRef]:
    """Those in which something was said, or changed, since then."""
    where = Filter(viewer=EVERYONE, turns=True, changed=since, minimum_trust=LEAST_TRUST)
    for scope in await engine.store.tally(where, "scope"):
        own = replace(where, scopes=(scope,))
        for agent in await engine.store.tally(own, "agent"):
            for name in await engine.store.tally(replace(own, agents=(agent,)), "conversation"):
                yield ConversationRef(name, scope, agent)


async def _recapped(engine: Engine, talk: ConversationRef, *, dry: bool) -> StageExample | None:
    """None where it goes on, is too short, or is summarised already."""
    where = said_in(talk.conversation, scope=talk.scope, agent=talk.agent)
    newest = await engine.store.find(where, order=Order.CHANGED, limit=NEWEST)
    if not newest or newest[0].created + engine.settings.serve.session_ttl > engine.clock():
        return None
    least = engine.settings.recaps.from_messages
    if await engine.store.count(where, most=least) < least:
        return None
    ids = {one.id for one in newest}
    if await covered_messages(engine, ids) == ids:
        return None
    why = f"a conversation in {talk.scope} had no summary"
    if dry:
        return StageExample("", RECAPPED, why)
    try:
        found = (await update_recap(engine, talk, whole=True)).recap
    except Changed:  # another time
        return None
    return StageExample(found.memory.id, RECAPPED, why) if found and found.made else None


SUMMARIES_STEP = "summaries"


async def run_recap_maintenance(engine: Engine, within: StageLimits) -> StageResult:
    """Summarise conversations that were missed, then merge what is old. Run again at once it does nothing."""
    begun = perf_counter()
    told: list[StageExample] = []
    looked = 0
    if engine.settings.recaps.enabled:
        async for one in recap_missed(engine, within):
            looked += 1
            told += filter(None, [one])
        async for merged in merge_old(engine, within):
            told += merged
            looked += len(merged)
    counts = Counter(one.what for one in told)
    return StageResult(
        SUMMARIES_STEP,
        changed=len(told),
        detail=", ".join(f"{count} {what}" for what, count in counts.items()) or NOTHING,
        seconds=perf_counter() - begun,
        more=within.over,
        looked=looked,
        examples=tuple(told[:MOST_TOLD]),
        counts=dict(counts),
    )
