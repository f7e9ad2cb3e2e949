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

MAX_EXAMPLES = 20  # memories that a stage names
MAX_REMOVALS = 10_000  # memories named in a report of removals: it is all that is left of erased ones
NOTHING = "nothing to do"
STALE = "stale"  # reported for a memory without changing it


@dataclass(frozen=True, slots=True)
class StageExample:
    """One memory that a stage changed, what was done (archived, erased, merged ...), and why."""

    memory_id: str
    what: str
    why: str


Before = Callable[[Sequence[StageExample]], Awaitable[None]]


async def _no_journal(_leaving: Sequence[StageExample]) -> None:
    """The default of `StageLimits.before`: records nothing."""


@dataclass(frozen=True, slots=True)
class StageLimits:
    """The limits of a stage. It stops after a batch once `over`, and reports that there is `more`."""

    dry: bool = False  # change nothing and report what would be done
    deadline: float = float("inf")  # by `ticks`
    batch: int = 500
    ticks: Callable[[], float] = monotonic
    before: Before = _no_journal  # called with what goes next, so that a broken-off run leaves a record

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.ticks() >= self.deadline


@dataclass(frozen=True, slots=True)
class StageResult:
    """What one stage did. Run again at once, it would do nothing. `detail` is always a sentence."""

    name: str
    changed: int
    detail: str
    seconds: float = 0.0
    more: bool = False  # it stopped at a limit and continues the next time
    looked: int = 0  # memories examined
    examples: tuple[StageExample, ...] = ()  # a few of each `what`
    counts: Mapping[str, int] = field(default_factory=dict)  # all of each `what`
    code: str = ""  # of the error that made it fail
    error: str = ""


def combine_stages(*stages: StageResult) -> StageResult:
    """Combine the parts of one stage; `detail` joins theirs by semicolons."""
    details = [stage.detail for stage in stages if stage.detail and stage.detail != NOTHING]
    return StageResult(
        stages[0].name,
        changed=sum(stage.changed for stage in stages),
        detail="; ".join(details) or NOTHING,
        seconds=sum(stage.seconds for stage in stages),
        more=any(stage.more for stage in stages),
        looked=sum(stage.looked for stage in stages),
        examples=tuple(example for stage in stages for example in stage.examples),
        counts=sum((Counter(stage.counts) for stage in stages), Counter[str]()),
    )


def share_of_limits(within: StageLimits, share: float) -> StageLimits:
    """The limits with a share of the remaining time, so that no stage takes the time of those after it."""
    left = max(0.0, within.deadline - within.ticks())
    return replace(within, deadline=within.ticks() + left * share)


@dataclass(frozen=True, slots=True)
class DuePage:
    """Due memories and the time when they were read."""

    memories: list[Memory]
    read: datetime


class DuePages:
    """Pages of the memories due at the start, each memory once, until the end or the deadline; `more` says which."""

    def __init__(self, engine: Engine, within: StageLimits, *, moving: bool) -> None:
        """`moving`: memories of a page are no longer due when the next page is read."""
        self._engine = engine
        self._within = within
        self._moving = moving
        self._due = Filter(viewer="system", statuses=(), due=engine.clock())
        self._before: str | None = None  # the start of the last page; `_after` is the start of the next
        self._after: str | None = None
        self._last: list[Memory] = []
        self._lost = False  # whether the position of the next page was lost
        self.looked = 0
        self.more = False

    async def next(self, *, enough: bool = False) -> DuePage | None:
        """The next page; None at the end, or if the run has done `enough`."""
        if self.looked and (enough or self._within.over):
            self.more = bool(await self._find(limit=1)) or self._lost
            return None
        read = self._engine.clock()
        memories = await self._find(limit=self._within.batch)
        # A memory in constant use stays due and heads every page: it isn't tried again.
        seen = {memory.id for memory in self._last}
        fresh = [memory for memory in memories if memory.id not in seen]
        if not fresh:
            self.more = bool(memories) or self._lost
            return None
        self.looked += len(fresh)
        self._last, self._before, self._after = memories, self._after, memories[-1].id
        return DuePage(fresh, read)

    def moved(self, ids: Collection[str]) -> None:
        """Tell that these memories of the last page have another due date now."""
        stayed = [memory.id for memory in self._last if memory.id not in ids]
        self._after = stayed[-1] if stayed else self._before

    async def _find(self, *, limit: int) -> list[Memory]:
        after = None if self._moving else self._after
        try:
            return await self._engine.store.find(self._due, order=Order.DUE, limit=limit, after=after)
        except MemoryNotFound:  # the last memory was erased meanwhile; the next run continues
            self._lost = True
            return []


REPORT_NAMESPACE = "consolidations"
REPORTS_SHOWN_FOR = timedelta(days=365)
KEPT = timedelta(days=5 * 365)  # for the audit trail
CURSOR = "consolidated"


@dataclass(frozen=True, slots=True)
class RunReport:
    """The stages of a consolidation, or the steps of maintenance. `notice` says why nothing ran."""

    started: datetime
    seconds: float
    dry: bool = False
    stages: tuple[StageResult, ...] = ()
    notice: str = ""

    @property
    def more(self) -> bool:
        """Whether work is left for the next run."""
        return any(stage.more for stage in self.stages)

    @property
    def failed(self) -> list[str]:
        """The names of the stages that failed."""
        return [stage.name for stage in self.stages if stage.error]

    @property
    def changed(self) -> int:
        """The number of changes."""
        return sum(stage.changed for stage in self.stages)

    def examples_of(self, what: str) -> list[StageExample]:
        """The first memories that were archived, erased, merged, ..."""
        return [example for stage in self.stages for example in stage.examples if example.what == what]

    def counts(self) -> Counter[str]:
        """The number of all memories that were archived, erased, merged, ..."""
        return sum((Counter(stage.counts) for stage in self.stages), Counter[str]())


@dataclass(slots=True)
class ArchiveNotes:
    """Records what a run archives before it does; a run that breaks off leaves this as its report."""

    engine: Engine
    key: str
    started: datetime
    leaving: list[StageExample] = field(default_factory=list)

    async def before(self, leaving: Sequence[StageExample]) -> None:
        """Record that these are archived next."""
        self.leaving += leaving
        stage = StageResult(
            "expiry",
            changed=len(self.leaving),
            detail=f"{len(self.leaving)} archived; the run was broken off",
            examples=tuple(self.leaving),
            counts={Fate.ARCHIVED: len(self.leaving)},
        )
        await _put(self.engine, self.key, RunReport(self.started, 0.0, stages=(stage,)))


async def save_report(engine: Engine, report: RunReport, *, key: str) -> None:
    """Save the report if anything changed. An erased memory is named only in the report of its erasure."""
    await engine.store.set_cursor(CURSOR, engine.clock().isoformat())
    if report.changed:
        await _put(engine, key, report)
    else:
        await engine.store.drop_entry(REPORT_NAMESPACE, key)  # the notes of what was about to go, and stayed


async def _put(engine: Engine, key: str, report: RunReport) -> None:
    now = engine.clock()
    value = {
        "started": report.started.isoformat(),
        "seconds": report.seconds,
        "stages": [_stage_value(stage) for stage in report.stages],
    }
    await engine.store.put_entry(Entry(REPORT_NAMESPACE, key, value, now, now + KEPT))


async def list_reports(engine: Engine, *, limit: int) -> list[RunReport]:
    """The reports of the last year, newest first."""
    now = engine.clock()
    reports = [
        report_of(entry.value) for entry in await engine.store.entries(REPORT_NAMESPACE, now=now, limit=limit)
    ]
    return [report for report in reports if report.started > now - REPORTS_SHOWN_FOR]


async def last_consolidated(engine: Engine) -> datetime | None:
    """When a consolidation last ran; None if never."""
    cursor = await engine.store.cursor(CURSOR)
    return datetime.fromisoformat(cursor) if cursor else None


_PLAIN = ("changed", "detail", "seconds", "more", "looked")  # fields that are stored as they are


def _stage_value(stage: StageResult) -> dict[str, Any]:
    return {
        "stage": stage.name,
        **{name: getattr(stage, name) for name in _PLAIN},
        "counts": dict(stage.counts),
        "examples": example_values(stage.examples),
    }


def example_values(examples: Sequence[StageExample]) -> list[dict[str, str]]:
    """The examples as they are stored."""
    return [{"id": example.memory_id, "what": example.what, "why": example.why} for example in examples]


def examples_of(values: Sequence[Mapping[str, str]] | None) -> tuple[StageExample, ...]:
    """Parse stored examples. One without an id was erased since."""
    return tuple(
        StageExample(value["id"], value["what"], value["why"]) for value in values or () if "id" in value
    )


def report_of(value: Mapping[str, Any]) -> RunReport:
    """Parse a stored report."""
    return RunReport(
        started=datetime.fromisoformat(value["started"]),
        seconds=value["seconds"],
        stages=tuple(_stage(stage) for stage in value["stages"] or ()),
    )


def _stage(value: Mapping[str, Any]) -> StageResult:
    plain = {name: value[name] for name in _PLAIN}
    examples, counts = examples_of(value.get("examples")), value.get("counts") or {}
    return StageResult(value["stage"], **plain, examples=examples, counts=counts)
