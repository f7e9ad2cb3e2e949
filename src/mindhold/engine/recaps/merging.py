"""Summaries of summaries: those of a month that is long past become one, and the months of a year in their turn.

What was merged is archived, not lost: it comes back when what stands for it goes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from mindhold.engine.claims import claim
from mindhold.engine.consolidate.stage import Bounds, Told
from mindhold.engine.core import Engine
from mindhold.engine.recap_undo import is_recap
from mindhold.engine.recaps.making import points_of
from mindhold.engine.recaps.picking import Utterance
from mindhold.engine.recaps.record import Making, Recap, keep, named, recap_of
from mindhold.engine.recaps.telling import told
from mindhold.model.access import EVERYONE
from mindhold.model.errors import MemoryNotFound
from mindhold.model.memory import Kind, Status
from mindhold.model.query import Filter, Order, Spot
from mindhold.model.recap import CONVERSATION, MONTH, TAG, TOPICS, YEAR
from mindhold.ports.store import Change, Mark

YEARS_AFTER = timedelta(days=2 * 365)  # months that are over for so long become a year
LEAST = 2  # that are worth merging
PAGE = 500
MERGED, ARCHIVED = "gathered", "archived"
OF = {MONTH: (CONVERSATION,), YEAR: (CONVERSATION, MONTH)}  # the levels that each is made of
FORMS = {MONTH: "%Y-%m", YEAR: "%Y"}


@dataclass(frozen=True, slots=True)
class Period:
    """A month or a year of one agent in one scope, by its name: 2024-03, 2024."""

    level: int
    name: str
    scope: str
    agent: str

    @property
    def recap(self) -> str:
        """What its summary is known by."""
        return f"recap of {self.name}"


async def merge_old(engine: Engine, within: Bounds) -> AsyncIterator[list[Told]]:
    """A list for each that was made: what it is, and what went into the archive for it. Raises the store's errors."""
    now = engine.clock()
    for level, age in ((MONTH, timedelta(days=engine.policy.recaps.old_days)), (YEAR, YEARS_AFTER)):
        async for period, sources in _due(engine, level, before=now - age):
            if within.over:
                return
            if done := await _merge(engine, period, sources, dry=within.dry):
                yield done


async def _due(engine: Engine, level: int, *, before: datetime) -> AsyncIterator[tuple[Period, list[Recap]]]:
    """Of times that were over then, the oldest first."""
    over = f"{before.astimezone(engine.zone()):{FORMS[level]}}"  # the one that was going on
    where = Filter(viewer=EVERYONE, kinds=(Kind.CONTEXT,), tags=(TAG,), until=before)
    for scope in await engine.store.tally(where, "scope"):
        own = replace(where, scopes=(scope,))
        for agent in await engine.store.tally(own, "agent"):
            periods: dict[str, list[Recap]] = defaultdict(list)
            for one in OF[level]:
                filtered = replace(own, agents=(agent,), topic=TOPICS[one])
                for recap in [recap async for recap in _found(engine, filtered)]:
                    periods[f"{recap.end.astimezone(engine.zone()):{FORMS[level]}}"].append(recap)
            for name in sorted(periods):
                if name < over:
                    yield Period(level, name, scope, agent), periods[name]


async def _found(engine: Engine, where: Filter) -> AsyncIterator[Recap]:
    after: Spot | None = None
    while page := await engine.store.find(where, order=Order.OLDEST, limit=PAGE, after=after):
        after = Spot.of(page[-1], Order.OLDEST)
        for memory in filter(is_recap, page):
            yield recap_of(memory)
        if len(page) < PAGE:
            return


async def _merge(engine: Engine, period: Period, fresh: Sequence[Recap], *, dry: bool) -> list[Told]:
    before = await named(engine, period.recap, scope=period.scope, agent=period.agent)
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
            kept = await keep(engine, replace(making, before=before), besides=archived)
        except MemoryNotFound:  # somebody erased one meanwhile
            return []
        return _told(period, kept.memory.id, fresh) if kept else []


async def _making(engine: Engine, period: Period, sources: Sequence[Recap]) -> Making | None:
    telling_of = _tellers(sources)
    said = [
        Utterance(one.memory.id, f"{one.end.astimezone(engine.zone()):%Y-%m-%d}", one.memory.content, one.end)
        for one in telling_of
    ]
    points = [
        replace(point, who=day.who if period.level == MONTH else point.who)
        for day, one in zip(said, telling_of, strict=True)
        for point in points_of([one.memory])
    ]
    talks = len({one.conversation for one in sources if one.conversation})
    count = sum(one.count for one in sources if one.of_messages or one.level != CONVERSATION)
    what = f"{talks} conversations, " if talks else ""
    heading = f"Summary of {period.name}: {what}{count} messages."
    telling = await told(engine, said, heading=heading, known=points)
    if telling is None:
        return None
    return Making(
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
    whole = {one.conversation for one in sources if one.level == CONVERSATION and not one.of_messages}
    return [one for one in sources if not (one.of_messages and one.conversation in whole)]


def _refs(sources: Iterable[Recap], told_of: Sequence[str]) -> tuple[str, ...]:
    """Messages that those which are told of name, the first of each first."""
    refs = [one.refs for one in sources if one.memory.id in told_of]
    longest = max(map(len, refs), default=0)
    return tuple(dict.fromkeys(ref[place] for place in range(longest) for ref in refs if place < len(ref)))


def _told(period: Period, recap: str, sources: Sequence[Recap]) -> list[Told]:
    why = f"the summary of {period.name} in {period.scope} stands for it"
    made = Told(recap, MERGED, f"{len(sources)} summaries of {period.name} in {period.scope} became one")
    return [made, *(Told(one.memory.id, ARCHIVED, why) for one in sources)]
