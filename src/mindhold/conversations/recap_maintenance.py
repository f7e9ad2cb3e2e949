"""Maintenance of summaries: write the missing ones, merge old ones by month and year."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from time import perf_counter

from mindhold.conversations.messages import pages
from mindhold.conversations.recap_creation import (
    Recap,
    RecapDraft,
    covered_messages,
    find_recap,
    messages_filter,
    points_of,
    recap_of,
    save_recap,
    update_recap,
)
from mindhold.conversations.recap_queue import ConversationRef, is_recap
from mindhold.conversations.recap_text import LogUtterance, write_recap_text
from mindhold.engine import LEAST_TRUST, Engine
from mindhold.lifecycle.stage_report import MAX_EXAMPLES, NOTHING, StageExample, StageLimits, StageResult
from mindhold.locks import claim
from mindhold.model.errors import Changed, MemoryNotFound
from mindhold.model.memory import Kind, Status
from mindhold.model.policies import CONVERSATION_RECAP, MONTH_RECAP, RECAP_TAG, RECAP_TOPICS, YEAR_RECAP
from mindhold.model.query import Filter, Order
from mindhold.model.scope import EVERYONE
from mindhold.ports.store import Change, Mark

YEARS_AFTER = timedelta(days=2 * 365)  # months that ended this long ago are merged into a year
LEAST_RECAPS = 2  # recaps worth merging
PAGE = 500
MERGED, ARCHIVED = "gathered", "archived"
# The levels that each is made of.
MERGED_LEVELS = {MONTH_RECAP: (CONVERSATION_RECAP,), YEAR_RECAP: (CONVERSATION_RECAP, MONTH_RECAP)}
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
        """The name of its recap."""
        return f"recap of {self.name}"


async def merge_old(engine: Engine, within: StageLimits) -> AsyncIterator[list[StageExample]]:
    """Merge old recaps and yield examples for each new one: the recap, and those archived for it. Raises the store's errors."""
    now = engine.clock()
    for level, age in (
        (MONTH_RECAP, timedelta(days=engine.settings.recaps.old_days)),
        (YEAR_RECAP, YEARS_AFTER),
    ):
        async for period, sources in _due_periods(engine, level, before=now - age):
            if within.over:
                return
            if examples := await _merge(engine, period, sources, dry=within.dry):
                yield examples


async def _due_periods(
    engine: Engine, level: int, *, before: datetime
) -> AsyncIterator[tuple[RecapPeriod, list[Recap]]]:
    """Periods that ended before then, oldest first, with their recaps."""
    current = f"{before.astimezone(engine.zone()):{FORMS[level]}}"  # the period at that time
    where = Filter(viewer=EVERYONE, kinds=(Kind.CONTEXT,), tags=(RECAP_TAG,), until=before)
    for scope in await engine.store.tally(where, "scope"):
        in_scope = replace(where, scopes=(scope,))
        for agent in await engine.store.tally(in_scope, "agent"):
            periods: dict[str, list[Recap]] = defaultdict(list)
            for source_level in MERGED_LEVELS[level]:
                filtered = replace(in_scope, agents=(agent,), topic=RECAP_TOPICS[source_level])
                memories = [memory async for page in pages(engine, filtered, size=PAGE) for memory in page]
                for recap in map(recap_of, filter(is_recap, memories)):
                    periods[f"{recap.end.astimezone(engine.zone()):{FORMS[level]}}"].append(recap)
            for name in sorted(periods):
                if name < current:
                    yield RecapPeriod(level, name, scope, agent), periods[name]


async def _merge(
    engine: Engine, period: RecapPeriod, fresh: Sequence[Recap], *, dry: bool
) -> list[StageExample]:
    before = await find_recap(engine, period.recap, scope=period.scope, agent=period.agent)
    if len(fresh) < LEAST_RECAPS and before is None:
        return []
    if dry:
        return _merge_examples(period, "", fresh)
    async with claim(engine, f"recap {period.agent}\n{period.scope}\n{period.name}") as acquired:
        if not acquired:
            return []
        earlier = await engine.store.get_many(before.merged_from, viewer=EVERYONE) if before else {}
        sources = sorted(
            {recap.memory.id: recap for recap in (*map(recap_of, earlier.values()), *fresh)}.values(),
            key=lambda recap: (recap.end, recap.memory.id),
        )
        draft = await _draft_recap(engine, period, sources)
        if draft is None:
            return []
        now = engine.clock()
        archived: list[Change] = [
            Mark(
                recap.memory.id, Status.ARCHIVED, previous=Status.ACTIVE, updated=now, only_from=Status.ACTIVE
            )
            for recap in fresh
        ]
        try:
            saved = await save_recap(engine, replace(draft, before=before), besides=archived)
        except MemoryNotFound:  # one was erased meanwhile
            return []
        return _merge_examples(period, saved.memory.id, fresh) if saved else []


async def _draft_recap(engine: Engine, period: RecapPeriod, sources: Sequence[Recap]) -> RecapDraft | None:
    recaps = _top_level(sources)
    spoken = [
        LogUtterance(
            recap.memory.id,
            f"{recap.end.astimezone(engine.zone()):%Y-%m-%d}",
            recap.memory.content,
            recap.end,
        )
        for recap in recaps
    ]
    points = [
        replace(point, who=utterance.who if period.level == MONTH_RECAP else point.who)
        for utterance, recap in zip(spoken, recaps, strict=True)
        for point in points_of([recap.memory])
    ]
    conversation_count = len({recap.conversation for recap in sources if recap.conversation})
    count = sum(recap.count for recap in sources if recap.of_messages or recap.level != CONVERSATION_RECAP)
    what = f"{conversation_count} conversations, " if conversation_count else ""
    heading = f"Summary of {period.name}: {what}{count} messages."
    text = await write_recap_text(engine, spoken, heading=heading, known=points)
    if text is None:
        return None
    return RecapDraft(
        name=period.recap,
        scope=period.scope,
        agent=period.agent,
        level=period.level,
        text=replace(text, sources=_refs(recaps, text.sources)),
        sources=[recap.memory for recap in sources],
        start=min(recap.start for recap in sources),
        end=max(recap.end for recap in sources),
        count=count,
    )


def _top_level(sources: Sequence[Recap]) -> list[Recap]:
    """Leaves out the parts of a conversation whose whole recap is among them."""
    whole = {
        recap.conversation for recap in sources if recap.level == CONVERSATION_RECAP and not recap.of_messages
    }
    return [recap for recap in sources if not (recap.of_messages and recap.conversation in whole)]


def _refs(sources: Iterable[Recap], used_ids: Sequence[str]) -> tuple[str, ...]:
    """The message refs of the recaps that were used, the first of each first."""
    refs = [recap.refs for recap in sources if recap.memory.id in used_ids]
    longest = max(map(len, refs), default=0)
    return tuple(dict.fromkeys(ref[index] for index in range(longest) for ref in refs if index < len(ref)))


def _merge_examples(period: RecapPeriod, recap: str, sources: Sequence[Recap]) -> list[StageExample]:
    why = f"the summary of {period.name} in {period.scope} stands for it"
    merged = StageExample(
        recap, MERGED, f"{len(sources)} summaries of {period.name} in {period.scope} became one"
    )
    return [merged, *(StageExample(source.memory.id, ARCHIVED, why) for source in sources)]


LOOKED = "recaps:looked"  # the cursor with the time up to which all messages were checked
RECAPPED = "recapped"
CLOCK_SKEW = timedelta(minutes=10)  # the possible difference between clocks
NEWEST = 50  # newest messages checked for one that no recap covers


async def recap_missed(engine: Engine, within: StageLimits) -> AsyncIterator[StageExample | None]:
    """Yield an example, or None, for each conversation that was checked. Raises the store's errors."""
    started = engine.clock()
    last = await engine.store.cursor(LOOKED)
    since = datetime.fromisoformat(last) if last else None
    async for ref in _changed_conversations(engine, since):
        if within.over:
            return
        yield await _recap_if_missing(engine, ref, dry=within.dry)
    if not within.dry:
        await engine.store.set_cursor(
            LOOKED, (started - engine.settings.serve.session_ttl - CLOCK_SKEW).isoformat()
        )


async def _changed_conversations(engine: Engine, since: datetime | None) -> AsyncIterator[ConversationRef]:
    """The conversations with messages written or changed since then."""
    where = Filter(viewer=EVERYONE, turns=True, changed=since, minimum_trust=LEAST_TRUST)
    for scope in await engine.store.tally(where, "scope"):
        in_scope = replace(where, scopes=(scope,))
        for agent in await engine.store.tally(in_scope, "agent"):
            for name in await engine.store.tally(replace(in_scope, agents=(agent,)), "conversation"):
                yield ConversationRef(name, scope, agent)


async def _recap_if_missing(engine: Engine, ref: ConversationRef, *, dry: bool) -> StageExample | None:
    """Write a missing recap; None if the conversation goes on, is too short, or has one."""
    where = messages_filter(ref)
    newest = await engine.store.find(where, order=Order.CHANGED, limit=NEWEST)
    if not newest or newest[0].created + engine.settings.serve.session_ttl > engine.clock():
        return None
    least = engine.settings.recaps.from_messages
    if await engine.store.count(where, most=least) < least:
        return None
    ids = {message.id for message in newest}
    if await covered_messages(engine, ids) == ids:
        return None
    why = f"a conversation in {ref.scope} had no summary"
    if dry:
        return StageExample("", RECAPPED, why)
    try:
        recap = (await update_recap(engine, ref, whole=True)).recap
    except Changed:  # the next run tries again
        return None
    return StageExample(recap.memory.id, RECAPPED, why) if recap and recap.made else None


SUMMARIES_STEP = "summaries"


async def run_recap_maintenance(engine: Engine, within: StageLimits) -> StageResult:
    """Write missing recaps, then merge old ones. Run again at once, it does nothing."""
    began = perf_counter()
    examples: list[StageExample] = []
    looked = 0
    if engine.settings.recaps.enabled:
        async for example in recap_missed(engine, within):
            looked += 1
            examples += filter(None, [example])
        async for merged in merge_old(engine, within):
            examples += merged
            looked += len(merged)
    counts = Counter(example.what for example in examples)
    return StageResult(
        SUMMARIES_STEP,
        changed=len(examples),
        detail=", ".join(f"{count} {what}" for what, count in counts.items()) or NOTHING,
        seconds=perf_counter() - began,
        more=within.over,
        looked=looked,
        examples=tuple(examples[:MAX_EXAMPLES]),
        counts=dict(counts),
    )
