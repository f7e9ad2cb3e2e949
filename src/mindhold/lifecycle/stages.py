"""What consolidation stages share: limits, results, pages of due memories, and stored reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from time import monotonic
from typing import Any

from mindhold.engine import Engine
from mindhold.model.errors import MemoryNotFound
from mindhold.model.job import Entry
from mindhold.model.lifecycle import Fate
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order

MOST_TOLD = 20  # memories that a stage names
MOST_GONE = 10_000  # of those that it took away: of what is erased nothing else is left to tell
NOTHING = "nothing to do"
STALE = "stale"  # what is told of a memory, and no change of it


@dataclass(frozen=True, slots=True)
class StageExample:
    """One memory that a stage did something to: what that was (archived, erased, merged ...), and why."""

    memory_id: str
    what: str
    why: str


Before = Callable[[Sequence[StageExample]], Awaitable[None]]


async def _untold(_leaving: Sequence[StageExample]) -> None:
    """For those who keep no book."""


@dataclass(frozen=True, slots=True)
class StageLimits:
    """How far a stage may go. It stops at a batch's end once `over`, and says that there is more."""

    dry: bool = False  # nothing at all is changed: the stage tells what it would do
    deadline: float = float("inf")  # by `ticks`
    batch: int = 500
    ticks: Callable[[], float] = monotonic
    before: Before = (
        _untold  # told what is about to be archived, so that a run that breaks off leaves word of it
    )

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.ticks() >= self.deadline


@dataclass(frozen=True, slots=True)
class StageResult:
    """What one stage did; run again at once it would do nothing. `detail` is a sentence, also when it did nothing."""

    name: str
    changed: int
    detail: str
    seconds: float = 0.0
    more: bool = False  # it stopped at a bound, and goes on from there next time
    looked: int = 0  # memories that it looked at
    examples: tuple[StageExample, ...] = ()  # a few of each `what`
    counts: Mapping[str, int] = field(default_factory=dict)  # of each `what`, how many there were in all


def combine_stages(one: StageResult, other: StageResult) -> StageResult:
    """Two parts of the same stage as one."""
    details = [part.detail for part in (one, other) if part.detail and part.detail != NOTHING]
    return StageResult(
        one.name,
        changed=one.changed + other.changed,
        detail="; ".join(details) or NOTHING,
        seconds=one.seconds + other.seconds,
        more=one.more or other.more,
        looked=one.looked + other.looked,
        examples=(*one.examples, *other.examples),
        counts={**one.counts, **other.counts},
    )


def share_of_limits(within: StageLimits, share: float) -> StageLimits:
    """So that no stage takes the time of all that follow."""
    left = max(0.0, within.deadline - within.ticks())
    return replace(within, deadline=within.ticks() + left * share)


@dataclass(frozen=True, slots=True)
class DuePage:
    """Records that are due, as they were then."""

    memories: list[Memory]
    read: datetime


class DuePages:
    """Until all that was due at the beginning was seen once, or the time is up; `more` says which."""

    def __init__(self, engine: Engine, within: StageLimits, *, moving: bool) -> None:
        """`moving`: those on a page are due no more when the next one is asked for."""
        self._engine = engine
        self._within = within
        self._moving = moving
        self._due = Filter(viewer="system", statuses=(), due=engine.clock())
        self._before: str | None = None  # where the last page began, and where the next one does
        self._after: str | None = None
        self._last: list[Memory] = []
        self._lost = False  # where the next page begins
        self.looked = 0
        self.more = False

    async def next(self, *, enough: bool = False) -> DuePage | None:
        """None at the end, and where that is `enough` for one run."""
        if self.looked and (enough or self._within.over):
            self.more = bool(await self._find(limit=1)) or self._lost
            return None
        read = self._engine.clock()
        found = await self._find(limit=self._within.batch)
        # One that somebody uses all the time stays due, at the head of every page: it isn't tried again.
        seen = {memory.id for memory in self._last}
        fresh = [memory for memory in found if memory.id not in seen]
        if not fresh:
            self.more = bool(found) or self._lost
            return None
        self.looked += len(fresh)
        self._last, self._before, self._after = found, self._after, found[-1].id
        return DuePage(fresh, read)

    def moved(self, ids: Collection[str]) -> None:
        """These of the last page have got another date: the next page begins after one that hasn't."""
        stayed = [memory.id for memory in self._last if memory.id not in ids]
        self._after = stayed[-1] if stayed else self._before

    async def _find(self, *, limit: int) -> list[Memory]:
        after = None if self._moving else self._after
        try:
            return await self._engine.store.find(self._due, order=Order.DUE, limit=limit, after=after)
        except MemoryNotFound:  # the last one was erased meanwhile; the next run has the rest
            self._lost = True
            return []


REPORT_NAMESPACE = "consolidations"
TOLD_FOR = timedelta(days=365)
KEPT = timedelta(days=5 * 365)  # for the audit trail
CURSOR = "consolidated"


@dataclass(frozen=True, slots=True)
class ConsolidationReport:
    """Every stage that ran. `notice` says why none did."""

    started: datetime
    seconds: float
    dry: bool = False
    stages: tuple[StageResult, ...] = ()
    notice: str = ""

    @property
    def more(self) -> bool:
        """Whether something was left for the next time."""
        return any(stage.more for stage in self.stages)

    @property
    def changed(self) -> int:
        """How much was."""
        return sum(stage.changed for stage in self.stages)

    def told(self, what: str) -> list[StageExample]:
        """The memories that were archived, erased, merged, ...: the first of them."""
        return [told for stage in self.stages for told in stage.examples if told.what == what]

    def counts(self) -> Counter[str]:
        """How many were archived, erased, merged, ...: all of them."""
        return sum((Counter(stage.counts) for stage in self.stages), Counter[str]())


@dataclass(slots=True)
class ArchiveNotes:
    """What a run is about to archive, written down first: if it breaks off, that is its report."""

    engine: Engine
    key: str
    started: datetime
    leaving: list[StageExample] = field(default_factory=list)

    async def before(self, leaving: Sequence[StageExample]) -> None:
        """These go next."""
        self.leaving += leaving
        stage = StageResult(
            "expiry",
            changed=len(self.leaving),
            detail=f"{len(self.leaving)} archived; the run was broken off",
            examples=tuple(self.leaving),
            counts={Fate.ARCHIVED: len(self.leaving)},
        )
        await _put(self.engine, self.key, ConsolidationReport(self.started, 0.0, stages=(stage,)))


async def save_report(engine: Engine, report: ConsolidationReport, *, key: str) -> None:
    """For those who ask later, if something was changed; what is erased is named in none but the one that says so."""
    await engine.store.set_cursor(CURSOR, engine.clock().isoformat())
    if report.changed:
        await _put(engine, key, report)
    else:
        await engine.store.drop_entry(REPORT_NAMESPACE, key)  # what was about to go, and stayed


async def _put(engine: Engine, key: str, report: ConsolidationReport) -> None:
    now = engine.clock()
    value = {
        "started": report.started.isoformat(),
        "seconds": report.seconds,
        "stages": [_stage_value(stage) for stage in report.stages],
    }
    await engine.store.put_entry(Entry(REPORT_NAMESPACE, key, value, now, now + KEPT))


async def list_reports(engine: Engine, *, limit: int) -> list[ConsolidationReport]:
    """Of the last year, the newest first."""
    now = engine.clock()
    found = [
        report_of(entry.value) for entry in await engine.store.entries(REPORT_NAMESPACE, now=now, limit=limit)
    ]
    return [report for report in found if report.started > now - TOLD_FOR]


async def last_consolidated(engine: Engine) -> datetime | None:
    """None when it never was."""
    noted = await engine.store.cursor(CURSOR)
    return datetime.fromisoformat(noted) if noted else None


def _stage_value(stage: StageResult) -> dict[str, Any]:
    return {
        "stage": stage.name,
        "changed": stage.changed,
        "detail": stage.detail,
        "seconds": stage.seconds,
        "more": stage.more,
        "looked": stage.looked,
        "counts": dict(stage.counts),
        "examples": [{"id": told.memory_id, "what": told.what, "why": told.why} for told in stage.examples],
    }


def report_of(value: Mapping[str, Any]) -> ConsolidationReport:
    """As it was kept."""
    return ConsolidationReport(
        started=datetime.fromisoformat(value["started"]),
        seconds=value["seconds"],
        stages=tuple(_stage(one) for one in value["stages"] or ()),
    )


def _stage(value: Mapping[str, Any]) -> StageResult:
    return StageResult(
        value["stage"],
        changed=value["changed"],
        detail=value["detail"],
        seconds=value["seconds"],
        more=value["more"],
        looked=value["looked"],
        examples=tuple(
            StageExample(one["id"], one["what"], one["why"])
            for one in value.get("examples") or ()
            if "id" in one  # erased since, it is named no more
        ),
        counts=value.get("counts") or {},
    )
