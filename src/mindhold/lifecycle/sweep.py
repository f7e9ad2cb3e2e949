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
    MAX_EXAMPLES,
    MAX_REMOVALS,
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


def _apply_tier(memory: Memory, now: datetime, life: LifecycleRules) -> RuleVerdict:
    tier = tier_at(memory, now, life)
    if tier is memory.tier:
        return RuleVerdict(memory)
    return RuleVerdict(replace(memory, tier=tier), f"from {memory.tier} to {tier}")


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What a rule decides: the changed memory (None: erase it), what was done, and why."""

    memory: Memory | None
    what: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class SweepRule:
    """One stage's rule for one memory. It is pure, and applying it again changes nothing."""

    name: str
    apply: Callable[[Memory, datetime, LifecycleRules], RuleVerdict]


TIERS_RULE = SweepRule("tiers", _apply_tier)


async def run_tiers(engine: Engine, within: StageLimits) -> StageResult:
    """Run this stage alone."""
    return await sweep_by(engine, within, TIERS_RULE)


def _apply_decay(memory: Memory, now: datetime, life: LifecycleRules) -> RuleVerdict:
    left = faded_importance(memory, now, life)
    decayed = replace(memory, importance=left, decayed=max(now, memory.decayed or now))
    return RuleVerdict(decayed, "faded" if left != memory.importance else "")


DECAY_RULE = SweepRule("decay", _apply_decay)


async def run_decay(engine: Engine, within: StageLimits) -> StageResult:
    """Run this stage alone."""
    return await sweep_by(engine, within, DECAY_RULE)


def _apply_expiry(memory: Memory, now: datetime, life: LifecycleRules) -> RuleVerdict:
    fate, why = fate_of(memory, now, life)
    if fate is Fate.STAYS:
        return RuleVerdict(memory)
    if fate is Fate.ERASED:
        return RuleVerdict(None, fate, why)
    archived = replace(memory, status=Status.ARCHIVED, previous_status=memory.status, updated=now)
    return RuleVerdict(archived, fate, why)


EXPIRY_RULE = SweepRule("expiry", _apply_expiry)


async def run_expiry(engine: Engine, within: StageLimits) -> StageResult:
    """Run this stage alone."""
    return await sweep_by(engine, within, EXPIRY_RULE)


def _apply_utility(memory: Memory, _now: datetime, _life: LifecycleRules) -> RuleVerdict:
    worth = utility(memory.importance, memory.uses)
    if memory.status is not Status.ACTIVE or isclose(worth, memory.utility, rel_tol=1e-6):
        return RuleVerdict(memory)
    return RuleVerdict(replace(memory, utility=worth), "worked out anew")


UTILITY_RULE = SweepRule("utility", _apply_utility)


async def run_utility(engine: Engine, within: StageLimits) -> StageResult:
    """Run this stage alone."""
    return await sweep_by(engine, within, UTILITY_RULE)


def _apply_anchor(memory: Memory, _now: datetime, life: LifecycleRules) -> RuleVerdict:
    if not earns_anchor(memory, life):
        return RuleVerdict(memory)
    why = f"used {memory.uses} times, importance {memory.importance:.2f}"
    return RuleVerdict(replace(memory, anchor=True), "anchored", why)


ANCHORS_RULE = SweepRule("anchors", _apply_anchor)


async def run_anchors(engine: Engine, within: StageLimits) -> StageResult:
    """Run this stage alone."""
    return await sweep_by(engine, within, ANCHORS_RULE)


def _apply_feedback(memory: Memory, _now: datetime, _life: LifecycleRules) -> RuleVerdict:
    low = lowered_usefulness(memory)
    if memory.status is not Status.ACTIVE or low == memory.usefulness:
        return RuleVerdict(memory)
    return RuleVerdict(replace(memory, usefulness=low), "sunk", f"shown {memory.shown} times and never used")


FEEDBACK_RULE = SweepRule("feedback", _apply_feedback)


async def run_feedback(engine: Engine, within: StageLimits) -> StageResult:
    """Run this stage alone."""
    return combine_stages(
        await sweep_by(engine, within, FEEDBACK_RULE), await report_feedback(engine, within)
    )


async def report_feedback(engine: Engine, _within: StageLimits) -> StageResult:
    """Report how useful the results of each tool were."""
    began = perf_counter()
    report = await feedback_report(engine, agent="system")
    parts = [
        f"{tool} {ratings.whole.relevant} of {ratings.whole.count} relevant, {ratings.whole.sufficient} sufficient"
        for tool, ratings in report.tools.items()
    ]
    if report.tasks.count:
        parts.append(f"{report.tasks.succeeded} of {report.tasks.count} tasks succeeded")
    return StageResult(FEEDBACK_RULE.name, 0, "; ".join(parts), perf_counter() - began)


OPTIMISED = "optimised"  # the cursor with the time of the last optimisation
OPTIMISE_EVERY = timedelta(hours=20)  # less than a day, so that a daily run never just misses it


def _apply_staleness(memory: Memory, now: datetime, life: LifecycleRules) -> RuleVerdict:
    if not is_stale(memory, now, life):
        return RuleVerdict(memory)
    return RuleVerdict(memory, STALE, f"unused for {(now - unused_since(memory)).days} days")


INDEX_RULE = SweepRule("index", _apply_staleness)


async def run_index(engine: Engine, within: StageLimits) -> StageResult:
    """Run this stage alone."""
    return combine_stages(await sweep_by(engine, within, INDEX_RULE), await tidy_index(engine, within))


async def tidy_index(engine: Engine, within: StageLimits) -> StageResult:
    """Drop expired entries and optimise the store's files.

    Silent conversations have a job of their own. The keyword sets of the sidecar follow each write.
    """
    if within.dry:
        return StageResult(INDEX_RULE.name, 0, "")
    began = perf_counter()
    results = {
        "expired entries dropped": await engine.store.drop_expired(engine.clock()),
        "bytes freed": await _optimise_daily(engine),
    }
    counts = {what: count for what, count in results.items() if count}
    changed = sum(1 if what == "bytes freed" else count for what, count in counts.items())
    detail = ", ".join(f"{count} {what}" for what, count in counts.items())
    return StageResult(INDEX_RULE.name, changed, detail, perf_counter() - began, counts=counts)


async def _optimise_daily(engine: Engine) -> int:
    """Optimise at most once a day: it costs the same however little changed."""
    now, last = engine.clock(), await engine.store.cursor(OPTIMISED)
    if last is not None and timedelta(0) <= now - datetime.fromisoformat(last) < OPTIMISE_EVERY:
        return 0
    await engine.store.set_cursor(OPTIMISED, now.isoformat())
    return await engine.store.optimise()


EMBEDDINGS_STAGE = "embeddings"


async def run_embeddings(engine: Engine, within: StageLimits) -> StageResult:
    """Embed memories without a vector until the time is up. A failing model is reported and tried again later."""
    began = perf_counter()
    model = engine.vector_source.model
    if model is None:
        return StageResult(EMBEDDINGS_STAGE, 0, engine.vector_source.reason or "there is no model")
    if within.dry:
        lacking = len(await engine.store.unembedded(model, limit=within.batch))
        least = "at least " if lacking == within.batch else ""
        detail = f"{least}{lacking} lack a vector" if lacking else NOTHING
        return StageResult(EMBEDDINGS_STAGE, lacking, detail, perf_counter() - began, looked=lacking)
    embedded = await embed_missing(engine, enough=lambda: within.over)
    more = within.over and bool(await engine.store.unembedded(model, limit=1))
    detail = f"{embedded} got the vector that they lacked" if embedded else NOTHING
    return StageResult(
        EMBEDDINGS_STAGE,
        embedded,
        engine.vector_source.reason or detail,
        perf_counter() - began,
        more=more,
        looked=embedded,
    )


RETRY_AFTER = timedelta(days=1)  # for a memory that could not be erased
_REMOVALS = (Fate.ARCHIVED, Fate.ERASED)
_CHANGEABLE = tuple(
    field_.name for field_ in fields(Tend) if field_.name not in ("memory_id", "unless_since", "review")
)


@dataclass(slots=True)
class _Count:
    """What one stage did so far."""

    name: str
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    examples: list[StageExample] = field(default_factory=list)

    def add(self, example: StageExample) -> None:
        self.counts[example.what] += 1
        most = MAX_REMOVALS if example.what in _REMOVALS else MAX_EXAMPLES
        if example.why and self.counts[example.what] <= most:
            self.examples.append(example)


@dataclass(slots=True)
class _PageVerdicts:
    """What the rules decided for a page."""

    before: dict[str, Memory]
    after: dict[str, Memory]
    to_erase: list[str] = field(default_factory=list)
    examples: list[tuple[_Count, StageExample]] = field(default_factory=list)


async def sweep(
    engine: Engine, within: StageLimits, rules: Sequence[SweepRule], *, whole: bool
) -> list[StageResult]:
    """Apply the rules. `whole`: they are all rules, duplicates included, so that the memories are no longer due."""
    return await _Sweep(engine, within, rules, whole=whole).run()


async def sweep_by(engine: Engine, within: StageLimits, rule: SweepRule) -> StageResult:
    """Apply one rule alone; memories stay due for the others."""
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
        self._duplicates = _Count(DUPLICATES_STAGE)
        self._archived = 0
        self._retired: set[str] = set()  # merged memories; a dry run leaves them unchanged

    async def run(self) -> list[StageResult]:
        began = perf_counter()
        pages = DuePages(self._engine, self._within, moving=self._whole and not self._within.dry)
        while (page := await pages.next(enough=self._archived >= MAX_REMOVALS)) is not None:
            memories = await self._merge(page) if self._whole else page.memories
            # In a thread, so that other requests are served meanwhile.
            verdicts = await asyncio.to_thread(self._apply_rules, memories, page.read)
            removed = set() if self._within.dry else await self._write(verdicts, page)
            pages.moved(removed)
            for count, example in verdicts.examples:
                if example.what not in _REMOVALS or example.memory_id in removed or self._within.dry:
                    count.add(example)
        return self._stages(pages, perf_counter() - began)

    async def _merge(self, page: DuePage) -> list[Memory]:
        """The page without duplicates; survivors are read again."""
        began = perf_counter()
        merged = await merge_duplicates(
            self._engine, page.memories, read=page.read, dry=self._within.dry, besides=self._retired
        )
        self._retired |= merged.retired
        for example in merged.examples:
            self._duplicates.add(example)
        memories = [memory for memory in page.memories if memory.id not in self._retired]
        if merged.survivors and not self._within.dry:
            survivors = await self._engine.store.get_many(list(merged.survivors), viewer="system")
            memories = [survivors.get(memory.id, memory) for memory in memories]
        self._duplicates.seconds += perf_counter() - began
        return memories

    def _apply_rules(self, memories: Sequence[Memory], now: datetime) -> _PageVerdicts:
        life = self._engine.settings.lifecycle_rules
        before = {memory.id: memory for memory in memories}
        verdicts = _PageVerdicts(before, dict(before))
        for rule, count in self._rules:
            began = perf_counter()
            for memory in list(verdicts.after.values()):
                verdict = rule.apply(memory, now, life)
                if verdict.what:
                    verdicts.examples.append((count, StageExample(memory.id, verdict.what, verdict.why)))
                if verdict.memory is None:
                    verdicts.to_erase.append(memory.id)
                    del verdicts.after[memory.id]
                else:
                    verdicts.after[memory.id] = verdict.memory
            count.seconds += perf_counter() - began
        return verdicts

    async def _write(self, verdicts: _PageVerdicts, page: DuePage) -> set[str]:
        """Write the changes and return the ids of archived and erased memories. After a crash, unfinished ones are still due."""
        leaving = {
            memory_id: (verdicts.before[memory_id], after)
            for memory_id, after in verdicts.after.items()
            if after.status is not verdicts.before[memory_id].status
        }
        changes: list[Change] = []
        for memory_id, after in verdicts.after.items():
            review = None
            if self._whole and memory_id not in leaving:
                review = next_review(after, page.read, self._engine.settings.lifecycle_rules)
            tend = _tend(verdicts.before[memory_id], after, review=review, read=page.read)
            if tend is not None:
                changes.append(tend)
        await self._engine.store.apply(changes)
        removed: set[str] = set()
        if leaving:
            await self._within.before(
                [example for _, example in verdicts.examples if example.memory_id in leaving]
            )
            removed = await archive(self._engine, leaving, read=page.read)
            self._archived += len(removed)
        return removed | await self._erase(verdicts.to_erase, read=page.read)

    async def _erase(self, to_erase: Sequence[str], *, read: datetime) -> set[str]:
        began = perf_counter()
        erased = await erase(self._engine, to_erase)
        if self._whole and len(erased) < len(to_erase):
            retries = [
                Tend(memory_id, review=read + RETRY_AFTER)
                for memory_id in to_erase
                if memory_id not in erased
            ]
            await self._engine.store.apply(list[Change](retries))
        for rule, count in self._rules:
            if rule.name == "expiry":
                count.seconds += perf_counter() - began
        return erased

    def _stages(self, pages: DuePages, seconds: float) -> list[StageResult]:
        counts = [count for _, count in self._rules]
        if self._whole:
            counts.append(self._duplicates)
        # Time for reading and writing is shared by all stages.
        share = max(0.0, seconds - sum(count.seconds for count in counts)) / len(counts)
        return [_stage(count, looked=pages.looked, more=pages.more, share=share) for count in counts]


def _stage(count: _Count, *, looked: int, more: bool, share: float) -> StageResult:
    detail = ", ".join(f"{number} {what}" for what, number in sorted(count.counts.items()))
    return StageResult(
        count.name,
        changed=count.counts.total() - count.counts[STALE],
        detail=detail or NOTHING,
        seconds=count.seconds + share,
        more=more,
        looked=looked,
        examples=tuple(count.examples),
        counts=dict(count.counts),
    )


def _tend(before: Memory, after: Memory, *, review: datetime | None, read: datetime) -> Tend | None:
    changed = {
        name: getattr(after, name) for name in _CHANGEABLE if getattr(after, name) != getattr(before, name)
    }
    if review is None and not changed:
        return None
    return Tend(before.id, **changed, review=review, unless_since=read)
