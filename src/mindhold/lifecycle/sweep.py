"""One pass over due memories, batch by batch, that applies every rule to each memory at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from math import isclose
from time import perf_counter

from mindhold.engine import Engine
from mindhold.lifecycle.archive import archive, erase
from mindhold.lifecycle.duplicates import DUPLICATES_STAGE, merge_duplicates
from mindhold.lifecycle.stages import (
    MOST_GONE,
    MOST_TOLD,
    NOTHING,
    STALE,
    DuePage,
    DuePages,
    StageExample,
    StageLimits,
    StageResult,
    combine_stages,
)
from mindhold.memories.embedding import embed_missing
from mindhold.memories.feedback import feedback_report
from mindhold.model.lifecycle import (
    Fate,
    LifecycleRules,
    earns_anchor,
    faded_importance,
    fate_of,
    is_stale,
    lowered_usefulness,
    next_review,
    tier_at,
    unused_since,
    utility,
)
from mindhold.model.memory import Memory, Status
from mindhold.ports.store import Change, Tend


def _judge_tier(memory: Memory, now: datetime, life: LifecycleRules) -> RuleVerdict:
    tier = tier_at(memory, now, life)
    if tier is memory.tier:
        return RuleVerdict(memory)
    return RuleVerdict(replace(memory, tier=tier), f"from {memory.tier} to {tier}")


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What a rule says of a record: as it should be (None: not at all), what was done to it, and why."""

    memory: Memory | None
    what: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class SweepRule:
    """What one stage does to one record. Pure, and the second time it changes nothing."""

    name: str
    turn: Callable[[Memory, datetime, LifecycleRules], RuleVerdict]


TIERS_RULE = SweepRule("tiers", _judge_tier)


async def run_tiers(engine: Engine, within: StageLimits) -> StageResult:
    """This stage alone."""
    return await sweep_by(engine, within, TIERS_RULE)


def _judge_decay(memory: Memory, now: datetime, life: LifecycleRules) -> RuleVerdict:
    left = faded_importance(memory, now, life)
    seen = replace(memory, importance=left, decayed=max(now, memory.decayed or now))
    return RuleVerdict(seen, "faded" if left != memory.importance else "")


DECAY_RULE = SweepRule("decay", _judge_decay)


async def run_decay(engine: Engine, within: StageLimits) -> StageResult:
    """This stage alone."""
    return await sweep_by(engine, within, DECAY_RULE)


def _judge_expiry(memory: Memory, now: datetime, life: LifecycleRules) -> RuleVerdict:
    fate, why = fate_of(memory, now, life)
    if fate is Fate.STAYS:
        return RuleVerdict(memory)
    if fate is Fate.ERASED:
        return RuleVerdict(None, fate, why)
    away = replace(memory, status=Status.ARCHIVED, previous_status=memory.status, updated=now)
    return RuleVerdict(away, fate, why)


EXPIRY_RULE = SweepRule("expiry", _judge_expiry)


async def run_expiry(engine: Engine, within: StageLimits) -> StageResult:
    """This stage alone."""
    return await sweep_by(engine, within, EXPIRY_RULE)


def _judge_utility(memory: Memory, _now: datetime, _life: LifecycleRules) -> RuleVerdict:
    worth = utility(memory.importance, memory.uses)
    if memory.status is not Status.ACTIVE or isclose(worth, memory.utility, rel_tol=1e-6):
        return RuleVerdict(memory)
    return RuleVerdict(replace(memory, utility=worth), "worked out anew")


UTILITY_RULE = SweepRule("utility", _judge_utility)


async def run_utility(engine: Engine, within: StageLimits) -> StageResult:
    """This stage alone."""
    return await sweep_by(engine, within, UTILITY_RULE)


def _judge_anchor(memory: Memory, _now: datetime, life: LifecycleRules) -> RuleVerdict:
    if not earns_anchor(memory, life):
        return RuleVerdict(memory)
    why = f"used {memory.uses} times, importance {memory.importance:.2f}"
    return RuleVerdict(replace(memory, anchor=True), "anchored", why)


ANCHORS_RULE = SweepRule("anchors", _judge_anchor)


async def run_anchors(engine: Engine, within: StageLimits) -> StageResult:
    """This stage alone."""
    return await sweep_by(engine, within, ANCHORS_RULE)


def _judge_feedback(memory: Memory, _now: datetime, _life: LifecycleRules) -> RuleVerdict:
    low = lowered_usefulness(memory)
    if memory.status is not Status.ACTIVE or low == memory.usefulness:
        return RuleVerdict(memory)
    return RuleVerdict(replace(memory, usefulness=low), "sunk", f"shown {memory.shown} times and never used")


FEEDBACK_RULE = SweepRule("feedback", _judge_feedback)


async def run_feedback(engine: Engine, within: StageLimits) -> StageResult:
    """This stage alone."""
    return combine_stages(
        await sweep_by(engine, within, FEEDBACK_RULE), await report_feedback(engine, within)
    )


async def report_feedback(engine: Engine, _within: StageLimits) -> StageResult:
    """How useful each tool was found to be."""
    begun = perf_counter()
    found = await feedback_report(engine, agent="system")
    told = [
        f"{tool} {one.whole.relevant} of {one.whole.count} relevant, {one.whole.sufficient} sufficient"
        for tool, one in found.tools.items()
    ]
    if found.tasks.count:
        told.append(f"{found.tasks.succeeded} of {found.tasks.count} tasks succeeded")
    return StageResult(FEEDBACK_RULE.name, 0, "; ".join(told), perf_counter() - begun)


OPTIMISED = "optimised"  # the cursor that says when
OPTIMISE_EVERY = timedelta(hours=20)  # so that a daily run never just misses it


def _judge_staleness(memory: Memory, now: datetime, life: LifecycleRules) -> RuleVerdict:
    if not is_stale(memory, now, life):
        return RuleVerdict(memory)
    return RuleVerdict(memory, STALE, f"unused for {(now - unused_since(memory)).days} days")


INDEX_RULE = SweepRule("index", _judge_staleness)


async def run_index(engine: Engine, within: StageLimits) -> StageResult:
    """This stage alone."""
    return combine_stages(await sweep_by(engine, within, INDEX_RULE), await tidy_index(engine, within))


async def tidy_index(engine: Engine, within: StageLimits) -> StageResult:
    """Entries that expired, the store's own files. Conversations that fell silent have a job of their own.

    The keyword sets beside the store need nothing: they follow each write, and are made anew every day.
    """
    if within.dry:
        return StageResult(INDEX_RULE.name, 0, "")
    begun = perf_counter()
    done = {
        "expired entries dropped": await engine.store.drop_expired(engine.clock()),
        "bytes freed": await _optimised(engine),
    }
    counts = {what: count for what, count in done.items() if count}
    changed = sum(1 if what == "bytes freed" else count for what, count in counts.items())
    detail = ", ".join(f"{count} {what}" for what, count in counts.items())
    return StageResult(INDEX_RULE.name, changed, detail, perf_counter() - begun, counts=counts)


async def _optimised(engine: Engine) -> int:
    """It costs the same however little was changed: once a day is enough."""
    now, last = engine.clock(), await engine.store.cursor(OPTIMISED)
    if last is not None and timedelta(0) <= now - datetime.fromisoformat(last) < OPTIMISE_EVERY:
        return 0
    await engine.store.set_cursor(OPTIMISED, now.isoformat())
    return await engine.store.optimise()


EMBEDDINGS_STAGE = "embeddings"


async def run_embeddings(engine: Engine, within: StageLimits) -> StageResult:
    """As far as the time goes; a model that fails is told, and tried another time."""
    begun = perf_counter()
    model = engine.vector_source.model
    if model is None:
        return StageResult(EMBEDDINGS_STAGE, 0, engine.vector_source.reason or "there is no model")
    if within.dry:
        lacking = len(await engine.store.unembedded(model, limit=within.batch))
        least = "at least " if lacking == within.batch else ""
        detail = f"{least}{lacking} lack a vector" if lacking else NOTHING
        return StageResult(EMBEDDINGS_STAGE, lacking, detail, perf_counter() - begun, looked=lacking)
    done = await embed_missing(engine, enough=lambda: within.over)
    more = within.over and bool(await engine.store.unembedded(model, limit=1))
    detail = f"{done} got the vector that they lacked" if done else NOTHING
    return StageResult(
        EMBEDDINGS_STAGE,
        done,
        engine.vector_source.reason or detail,
        perf_counter() - begun,
        more=more,
        looked=done,
    )


AGAIN = timedelta(days=1)  # when one is tried again that was to be erased, and could not be
_GONE = (Fate.ARCHIVED, Fate.ERASED)
_TENDED = tuple(one.name for one in fields(Tend) if one.name not in ("memory_id", "unless_since", "review"))


@dataclass(slots=True)
class _Count:
    """What one stage did so far."""

    name: str
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    examples: list[StageExample] = field(default_factory=list)

    def add(self, told: StageExample) -> None:
        self.counts[told.what] += 1
        most = MOST_GONE if told.what in _GONE else MOST_TOLD
        if told.why and self.counts[told.what] <= most:
            self.examples.append(told)


@dataclass(slots=True)
class _Seen:
    """What the rules make of a page."""

    before: dict[str, Memory]
    after: dict[str, Memory]
    doomed: list[str] = field(default_factory=list)
    told: list[tuple[_Count, StageExample]] = field(default_factory=list)


async def sweep(
    engine: Engine, within: StageLimits, rules: Sequence[SweepRule], *, whole: bool
) -> list[StageResult]:
    """Do all that these rules say. `whole`: they are all there are, duplicates too, so that what was seen is done with."""
    return await _Sweep(engine, within, rules, whole=whole).run()


async def sweep_by(engine: Engine, within: StageLimits, rule: SweepRule) -> StageResult:
    """By one rule alone; what was due stays due for the others."""
    [stage] = await sweep(engine, within, [rule], whole=False)
    return stage


class _Sweep:
    def __init__(
        self, engine: Engine, within: StageLimits, rules: Sequence[SweepRule], *, whole: bool
    ) -> None:
        self._engine = engine
        self._within = within
        self._rules = [(rule, _Count(rule.name)) for rule in rules]
        self._whole = whole
        self._merging = _Count(DUPLICATES_STAGE)
        self._archived = 0
        self._retired: set[str] = set()  # by merging, also in a dry run, where they stay as they are

    async def run(self) -> list[StageResult]:
        begun = perf_counter()
        pages = DuePages(self._engine, self._within, moving=self._whole and not self._within.dry)
        while (page := await pages.next(enough=self._archived >= MOST_GONE)) is not None:
            memories = await self._merged(page) if self._whole else page.memories
            # In a thread, for those who are served meanwhile.
            seen = await asyncio.to_thread(self._judged, memories, page.read)
            gone = set() if self._within.dry else await self._written(seen, page)
            pages.moved(gone)
            for count, told in seen.told:
                if told.what not in _GONE or told.memory_id in gone or self._within.dry:
                    count.add(told)
        return self._stages(pages, perf_counter() - begun)

    async def _merged(self, page: DuePage) -> list[Memory]:
        """The page without what repeats something else; what it was merged into is read anew."""
        begun = perf_counter()
        merged = await merge_duplicates(
            self._engine, page.memories, read=page.read, dry=self._within.dry, besides=self._retired
        )
        self._retired |= merged.retired
        for told in merged.told:
            self._merging.add(told)
        memories = [memory for memory in page.memories if memory.id not in self._retired]
        if merged.kept and not self._within.dry:
            anew = await self._engine.store.get_many(list(merged.kept), viewer="system")
            memories = [anew.get(memory.id, memory) for memory in memories]
        self._merging.seconds += perf_counter() - begun
        return memories

    def _judged(self, memories: Sequence[Memory], now: datetime) -> _Seen:
        life = self._engine.settings.lifecycle_rules
        before = {memory.id: memory for memory in memories}
        seen = _Seen(before, dict(before))
        for rule, count in self._rules:
            begun = perf_counter()
            for memory in list(seen.after.values()):
                verdict = rule.turn(memory, now, life)
                if verdict.what:
                    seen.told.append((count, StageExample(memory.id, verdict.what, verdict.why)))
                if verdict.memory is None:
                    seen.doomed.append(memory.id)
                    del seen.after[memory.id]
                else:
                    seen.after[memory.id] = verdict.memory
            count.seconds += perf_counter() - begun
        return seen

    async def _written(self, seen: _Seen, page: DuePage) -> set[str]:
        """Those that went: archived, or erased. Broken off at any point, what isn't done with is due still."""
        leaving = {
            name: (seen.before[name], after)
            for name, after in seen.after.items()
            if after.status is not seen.before[name].status
        }
        changes: list[Change] = []
        for name, after in seen.after.items():
            review = None
            if self._whole and name not in leaving:
                review = next_review(after, page.read, self._engine.settings.lifecycle_rules)
            tend = _tend(seen.before[name], after, review=review, read=page.read)
            if tend is not None:
                changes.append(tend)
        await self._engine.store.apply(changes)
        gone: set[str] = set()
        if leaving:
            await self._within.before([told for _, told in seen.told if told.memory_id in leaving])
            gone = await archive(self._engine, leaving, read=page.read)
            self._archived += len(gone)
        return gone | await self._erased(seen.doomed, read=page.read)

    async def _erased(self, doomed: Sequence[str], *, read: datetime) -> set[str]:
        begun = perf_counter()
        gone = await erase(self._engine, doomed)
        if self._whole and len(gone) < len(doomed):
            again = [Tend(name, review=read + AGAIN) for name in doomed if name not in gone]
            await self._engine.store.apply(list[Change](again))
        for rule, count in self._rules:
            if rule.name == "expiry":
                count.seconds += perf_counter() - begun
        return gone

    def _stages(self, pages: DuePages, seconds: float) -> list[StageResult]:
        counts = [count for _, count in self._rules]
        if self._whole:
            counts.append(self._merging)
        # Reading and writing is done for all of them together.
        share = max(0.0, seconds - sum(count.seconds for count in counts)) / len(counts)
        return [_stage(count, looked=pages.looked, more=pages.more, share=share) for count in counts]


def _stage(count: _Count, *, looked: int, more: bool, share: float) -> StageResult:
    told = ", ".join(f"{number} {what}" for what, number in sorted(count.counts.items()))
    return StageResult(
        count.name,
        changed=count.counts.total() - count.counts[STALE],
        detail=told or NOTHING,
        seconds=count.seconds + share,
        more=more,
        looked=looked,
        examples=tuple(count.examples),
        counts=dict(count.counts),
    )


def _tend(before: Memory, after: Memory, *, review: datetime | None, read: datetime) -> Tend | None:
    """What upkeep changed; None where that is nothing."""
    changed = {
        name: getattr(after, name) for name in _TENDED if getattr(after, name) != getattr(before, name)
    }
    if review is None and not changed:
        return None
    return Tend(before.id, **changed, review=review, unless_since=read)
