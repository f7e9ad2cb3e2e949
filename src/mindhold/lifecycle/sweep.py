"""One pass over due memories, batch by batch, that applies every rule to each memory at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from math import isclose
from time import perf_counter

from mindhold.engine import Engine
from mindhold.lifecycle.archive import archive, archived_copy, erase
from mindhold.lifecycle.duplicates import DUPLICATES_STAGE, merge_duplicates
from mindhold.lifecycle.stage_report import (
    MAX_EXAMPLES,
    MAX_REMOVALS,
    NOTHING,
    STALE,
    DuePage,
    DuePages,
    StageExample,
    StageLimits,
    StageResult,
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


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What a rule decides: the changed memory (None: erase it), what was done, and why."""

    memory: Memory | None
    what: str = ""
    why: str = ""


def _apply_tier(memory: Memory, now: datetime, life: LifecycleRules) -> RuleVerdict:
    tier = tier_at(memory, now, life)
    if tier is memory.tier:
        return RuleVerdict(memory)
    return RuleVerdict(replace(memory, tier=tier), f"from {memory.tier} to {tier}")


def _apply_decay(memory: Memory, now: datetime, life: LifecycleRules) -> RuleVerdict:
    left = faded_importance(memory, now, life)
    decayed = replace(memory, importance=left, decayed=max(now, memory.decayed or now))
    return RuleVerdict(decayed, "faded" if left != memory.importance else "")


def _apply_expiry(memory: Memory, now: datetime, life: LifecycleRules) -> RuleVerdict:
    fate, why = fate_of(memory, now, life)
    if fate is Fate.STAYS:
        return RuleVerdict(memory)
    if fate is Fate.ERASED:
        return RuleVerdict(None, fate, why)
    return RuleVerdict(archived_copy(memory, now), fate, why)


def _apply_utility(memory: Memory, _now: datetime, _life: LifecycleRules) -> RuleVerdict:
    worth = utility(memory.importance, memory.uses)
    if memory.status is not Status.ACTIVE or isclose(worth, memory.utility, rel_tol=1e-6):
        return RuleVerdict(memory)
    return RuleVerdict(replace(memory, utility=worth), "worked out anew")


def _apply_anchor(memory: Memory, _now: datetime, life: LifecycleRules) -> RuleVerdict:
    if not earns_anchor(memory, life):
        return RuleVerdict(memory)
    why = f"used {memory.uses} times, importance {memory.importance:.2f}"
    return RuleVerdict(replace(memory, anchor=True), "anchored", why)


def _apply_feedback(memory: Memory, _now: datetime, _life: LifecycleRules) -> RuleVerdict:
    low = lowered_usefulness(memory)
    if memory.status is not Status.ACTIVE or low == memory.usefulness:
        return RuleVerdict(memory)
    return RuleVerdict(replace(memory, usefulness=low), "sunk", f"shown {memory.shown} times and never used")


def _apply_staleness(memory: Memory, now: datetime, life: LifecycleRules) -> RuleVerdict:
    if not is_stale(memory, now, life):
        return RuleVerdict(memory)
    return RuleVerdict(memory, STALE, f"unused for {(now - unused_since(memory)).days} days")


# One pure rule per stage, in order; applying it again changes nothing.
RULES: Mapping[str, Callable[[Memory, datetime, LifecycleRules], RuleVerdict]] = {
    "tiers": _apply_tier,
    "decay": _apply_decay,
    "expiry": _apply_expiry,
    "utility": _apply_utility,
    "anchors": _apply_anchor,
    "feedback": _apply_feedback,
    "index": _apply_staleness,
}


async def report_feedback(engine: Engine, _within: StageLimits) -> StageResult:
    """Report how useful the results of each tool were."""
    report = await feedback_report(engine, agent="system")
    parts = [
        f"{tool} {ratings.whole.relevant} of {ratings.whole.count} relevant, {ratings.whole.sufficient} sufficient"
        for tool, ratings in report.tools.items()
    ]
    if report.tasks.count:
        parts.append(f"{report.tasks.succeeded} of {report.tasks.count} tasks succeeded")
    return StageResult("feedback", 0, "; ".join(parts))


OPTIMISED = "optimised"  # the cursor with the time of the last optimisation
OPTIMISE_EVERY = timedelta(hours=20)  # less than a day, so that a daily run never just misses it


async def tidy_index(engine: Engine, within: StageLimits) -> StageResult:
    """Drop expired entries and optimise the store's files.

    Silent conversations have a job of their own. The keyword sets of the sidecar follow each write.
    """
    if within.dry:
        return StageResult("index", 0, "")
    results = {
        "expired entries dropped": await engine.store.drop_expired(engine.clock()),
        "bytes freed": await _optimise_daily(engine),
    }
    counts = {what: count for what, count in results.items() if count}
    changed = sum(1 if what == "bytes freed" else count for what, count in counts.items())
    detail = ", ".join(f"{count} {what}" for what, count in counts.items())
    return StageResult("index", changed, detail, counts=counts)


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
    model = engine.vector_source.model
    if model is None:
        return StageResult(EMBEDDINGS_STAGE, 0, engine.vector_source.reason or "there is no model")
    if within.dry:
        lacking = len(await engine.store.unembedded(model, limit=within.batch))
        least = "at least " if lacking == within.batch else ""
        detail = f"{least}{lacking} lack a vector" if lacking else NOTHING
        return StageResult(EMBEDDINGS_STAGE, lacking, detail, looked=lacking)
    embedded = await embed_missing(engine, enough=lambda: within.over)
    more = within.over and bool(await engine.store.unembedded(model, limit=1))
    detail = f"{embedded} got the vector that they lacked" if embedded else NOTHING
    return StageResult(
        EMBEDDINGS_STAGE,
        embedded,
        engine.vector_source.reason or detail,
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


async def sweep(engine: Engine, within: StageLimits) -> list[StageResult]:
    """Apply all rules and merge duplicates, so that the memories are no longer due."""
    return await _Sweep(engine, within, RULES, whole=True).run()


async def sweep_by(engine: Engine, within: StageLimits, rule: str) -> StageResult:
    """Apply one rule alone; memories stay due for the others."""
    [stage] = await _Sweep(engine, within, [rule], whole=False).run()
    return stage


class _Sweep:
    def __init__(self, engine: Engine, within: StageLimits, rules: Iterable[str], *, whole: bool) -> None:
        self._engine = engine
        self._within = within
        self._counts = {rule: _Count(rule) for rule in rules}
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
        for rule, count in self._counts.items():
            began = perf_counter()
            for memory in list(verdicts.after.values()):
                verdict = RULES[rule](memory, now, life)
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
        if "expiry" in self._counts:
            self._counts["expiry"].seconds += perf_counter() - began
        return erased

    def _stages(self, pages: DuePages, seconds: float) -> list[StageResult]:
        counts = list(self._counts.values())
        if self._whole:
            counts.append(self._duplicates)
        # Time for reading and writing is shared by all stages.
        share = max(0.0, seconds - sum(count.seconds for count in counts)) / len(counts)
        return [
            StageResult(
                count.name,
                changed=count.counts.total() - count.counts[STALE],
                detail=", ".join(f"{number} {what}" for what, number in sorted(count.counts.items()))
                or NOTHING,
                seconds=count.seconds + share,
                more=pages.more,
                looked=pages.looked,
                examples=tuple(count.examples),
                counts=count.counts,
            )
            for count in counts
        ]


def _tend(before: Memory, after: Memory, *, review: datetime | None, read: datetime) -> Tend | None:
    changed = {
        name: getattr(after, name) for name in _CHANGEABLE if getattr(after, name) != getattr(before, name)
    }
    if review is None and not changed:
        return None
    return Tend(before.id, **changed, review=review, unless_since=read)
