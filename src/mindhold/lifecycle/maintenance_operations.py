"""Operations of maintenance: maintain, consolidate, and the reports of consolidations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from time import monotonic, perf_counter

from pydantic import Field

from mindhold.jobs.handlers import HANDLERS, OF_HISTORY, SHORT, handlers_within
from mindhold.jobs.runner import Runner
from mindhold.jobs.schedule import enqueue_due
from mindhold.lifecycle import retention
from mindhold.lifecycle.consolidation import CONSOLIDATION_JOB, STAGES, run_consolidation
from mindhold.lifecycle.maintenance import (
    BACKUP,
    MAINTENANCE_JOB,
    MaintenanceReport,
    StepResult,
    run_maintenance,
)
from mindhold.lifecycle.stages import (
    STALE,
    ConsolidationReport,
    StageExample,
    StageLimits,
    StageResult,
    list_reports,
)
from mindhold.model.job import JobState
from mindhold.model.lifecycle import Fate
from mindhold.operations import Context, Input, Output, operation

JOBS = "jobs"
MOST_JOBS = 1000
MOST_REPORTS = 400
_LISTED = (Fate.ARCHIVED, Fate.ERASED, STALE)  # each in a list of its own
_IN_WORDS = {
    "embed embedded": "{} embedded",
    "relate changes": "{} related with others",
    "reflect ended": "{} conversations ended",
    "reflect reflected": "{} reflected upon",
    "reflect expired": "{} working memories gone",
    "evaluate judged": "{} judged",
    "evaluate by_model": "{} of them by a model",
    "evaluate doubtful": "{} found doubtful",
    "tidy-jobs dropped": "{} old jobs dropped",
    "tidy-jobs entries": "{} expired notes dropped",
}
MOST_NAMED = 50  # memories in each list of an answer; the report has more


class ConsolidateInput(Input):
    """All stages unless some are named. A dry run changes nothing and tells what would be done."""

    dry_run: bool = Field(default=False, description="Only report what would be done.", examples=[True])
    stages: tuple[str, ...] = Field(default=(), description="Only these stages.")
    seconds: float | None = Field(
        default=None, gt=0, le=86_400, description="Time limit in seconds."
    )  # as life.seconds has it


class StageView(Output):
    """What one stage did; `more`: it stopped at its bounds, and goes on from there the next time.

    `looked` are the memories that it looked at; `counts` what was done, by name.
    """

    stage: str = Field(examples=["decay"])
    changed: int = Field(examples=[12])
    detail: str = Field(examples=["12 faded"])
    seconds: float = Field(default=0.0, description="How many seconds it took.", examples=[0.2])
    more: bool = False
    looked: int = Field(default=0, examples=[1523])
    counts: dict[str, int] = {}

    @classmethod
    def of(cls, stage: StageResult) -> StageView:
        return cls(
            stage=stage.name,
            changed=stage.changed,
            detail=stage.detail,
            seconds=round(stage.seconds, 3),
            more=stage.more,
            looked=stage.looked,
            counts=dict(stage.counts),
        )


class ToldView(Output):
    """A memory that something was done to, and why."""

    id: str = Field(description="Its id.", examples=["01m7gv42a3fzcy3gb19vmek4q7"])
    why: str = Field(description="The reason.", examples=["nobody asked for it in 90 days"])

    @classmethod
    def of(cls, told: StageExample) -> ToldView:
        return cls(id=told.memory_id, why=told.why)


class OtherView(ToldView):
    """A memory that something else was done to: merged, anchored, contradicted, ..."""

    what: str


class ConsolidateResult(Output):
    """Every stage that ran; `operations` are the changes in words, empty when there was nothing to do.

    The lists name the first memories that were archived, erased, found stale, or changed otherwise; `counts` has all.
    """

    stages: list[StageView] = Field(description="The stages that ran.")
    operations: list[str] = Field(examples=[["decay: 12 faded"]])
    seconds: float = Field(description="How many seconds it took.", examples=[0.4])
    archived: list[ToldView] = Field(default=[], examples=[[{}]])
    erased: list[ToldView] = []
    stale: list[ToldView] = []
    others: list[OtherView] = []
    counts: dict[str, int] = Field(default={}, examples=[{"archived": 1}])
    dry_run: bool = Field(default=False, description="Only report what would be done.")
    notice: str = Field(
        default="", description="A notice about this answer; usually empty."
    )  # why nothing was done


class ReportsInput(Input):
    """How many."""

    limit: int = Field(
        default=10, ge=1, le=MOST_REPORTS, description="Maximum number of results.", examples=[3]
    )


class ReportView(ConsolidateResult):
    """What one consolidation did."""

    started: datetime = Field(examples=["2026-11-16T10:30:00Z"])


class ReportsResult(Output):
    """The newest first; they are told for a year."""

    reports: list[ReportView]


async def _consolidate(context: Context, request: ConsolidateInput) -> ConsolidateResult:
    """Do the upkeep that is due."""
    begun = perf_counter()
    limit = context.engine.settings.life.seconds if request.seconds is None else request.seconds
    until = monotonic() + limit
    with_jobs = not request.dry_run and not request.stages
    if not request.dry_run:
        await context.engine.use_counter.flush()
    report = await run_consolidation(
        context.engine,
        dry=request.dry_run,
        seconds=request.seconds,
        stages=request.stages,
        tell=lambda name, done, total: context.progress(name, done, total + with_jobs),
    )
    if not request.stages and not report.notice:
        within = StageLimits(dry=request.dry_run, deadline=until, batch=context.engine.settings.life.batch)
        kept = await retention.run_retention(context.engine, within, consolidated=True)
        if kept.changed:
            report = replace(report, stages=(*report.stages, kept))
    stages = list(report.stages)
    if with_jobs and not report.notice:
        context.progress(JOBS, len(STAGES), len(STAGES) + 1)
        stages.append(await run_due_jobs(context, until=until))
    return _consolidate_result(report, stages, seconds=perf_counter() - begun, most=MOST_NAMED)


CONSOLIDATE = operation("consolidate", _consolidate, writes=True, owner_only=True, erases=True)


async def _reports(context: Context, request: ReportsInput) -> ReportsResult:
    """What earlier consolidations did."""
    found = await list_reports(context.engine, limit=request.limit)
    return ReportsResult(
        reports=[
            ReportView(started=one.started, **dict(_consolidate_result(one, one.stages, seconds=one.seconds)))
            for one in found
        ]
    )


CONSOLIDATION_REPORTS = operation("consolidation_reports", _reports, reads=True, owner_only=True)


def _consolidate_result(
    report: ConsolidationReport, stages: Sequence[StageResult], *, seconds: float, most: int | None = None
) -> ConsolidateResult:
    return ConsolidateResult(
        stages=[StageView.of(stage) for stage in stages],
        operations=[f"{stage.name}: {stage.detail}" for stage in stages if stage.changed],
        seconds=round(seconds, 3),
        archived=[ToldView.of(told) for told in report.told(Fate.ARCHIVED)[:most]],
        erased=[ToldView.of(told) for told in report.told(Fate.ERASED)[:most]],
        stale=[ToldView.of(told) for told in report.told(STALE)[:most]],
        others=[
            OtherView(id=told.memory_id, why=told.why, what=told.what)
            for stage in stages
            for told in stage.examples
            if told.what not in _LISTED
        ],
        counts=dict(report.counts()),
        dry_run=report.dry,
        notice=report.notice,
    )


async def run_due_jobs(context: Context, *, until: float) -> StageResult:
    """What they changed, by what each of them says; a job that failed is told and will be tried again.

    In the time that is left, and a short one even in none; what isn't begun stays queued.
    """

    def left() -> float:
        return until - monotonic()

    begun = perf_counter()
    whole = (CONSOLIDATION_JOB, MAINTENANCE_JOB)  # the caller is such a run
    await enqueue_due(context.engine, besides=whole)
    names = [name for name in HANDLERS if name not in (*whole, *OF_HISTORY)] if left() > 0 else SHORT
    runner = Runner(context.engine, handlers_within(left), owner=context.engine.new_id())
    ran = await runner.run_all(most=MOST_JOBS, names=names, enough=lambda: left() <= 0)
    done = [one.job for one in ran if one.kept and one.job.state is JobState.DONE]
    runs = Counter(job.name for job in done)
    effects: Counter[str] = Counter()
    for job in done:
        effects.update({f"{job.name} {what}": int(count) for what, count in (job.result or {}).items()})
    told = [_IN_WORDS.get(what, f"{{}} {what}").format(count) for what, count in effects.items() if count]
    if runs and not told:
        told.append(f"{runs.total()} ran and found nothing to do")
    told += [f"{one.job.name} failed: {one.job.error}" for one in ran if one.job.error]
    if left() <= 0:
        told.append("the time was up; what else waits stays queued")
    detail = "; ".join(told) or "nothing was due"
    counts = {what.partition(" ")[2]: count for what, count in effects.items() if count}
    return StageResult(JOBS, effects.total(), detail, seconds=perf_counter() - begun, counts=counts)


# What a count is told as; any other as its own words and the number.
_NAMES = {
    "merged": "removed_{}_duplicate_entries",
    "archived": "archived_{}_memories",
    "erased": "erased_{}_memories",
    "recapped": "summarized_{}_conversations",
    "gathered": "summarized_{}_months_or_years",
    "bytes freed": "compacted_db",
    "repaired": "rebuilt_indexes",
    "old jobs dropped": "dropped_{}_old_jobs",
    "expired notes dropped": "dropped_{}_expired_notes",
}
_FOUND = frozenset({"stale", "doubtful"})  # and not done


class MaintainInput(Input):
    """All steps unless some are named; without the backup where that is false. A dry run changes nothing."""

    dry_run: bool = Field(default=False, description="Only report what would be done.", examples=[True])
    steps: tuple[str, ...] = Field(default=(), description="Only these steps.")
    backup: bool = Field(
        default=True, description="Whether to make a backup first if one is due.", examples=[False]
    )
    seconds: float | None = Field(
        default=None, gt=0, le=86_400, description="Time limit in seconds."
    )  # as maintenance.seconds has it


class StepView(Output):
    """What one step did; `more`: it stopped at its bounds, and goes on from there the next time. `error`: it failed, and why."""

    step: str = Field(examples=["consolidate"])
    changed: int = Field(examples=[20])
    detail: str = Field(examples=["duplicates: 20 merged"])
    seconds: float = Field(default=0.0, description="How many seconds it took.", examples=[0.4])
    more: bool = False
    counts: dict[str, int] = Field(default={}, examples=[{"merged": 20}])
    code: str = ""
    error: str = ""

    @classmethod
    def of(cls, step: StepResult) -> StepView:
        stage = step.stage
        return cls(
            step=stage.name,
            changed=stage.changed,
            detail=stage.detail,
            seconds=round(stage.seconds, 3),
            more=stage.more,
            counts=dict(stage.counts),
            code=step.code,
            error=step.error,
        )


class MaintainResult(Output):
    """Every step that ran; `operations` are the changes by name, empty when there was nothing to do."""

    steps: list[StepView] = Field(description="The steps that ran.")
    operations: list[str] = Field(examples=[["removed_20_duplicate_entries"]])
    failed: list[str] = Field(default=[], description="What failed.")
    seconds: float = Field(description="How many seconds it took.", examples=[0.6])
    dry_run: bool = Field(default=False, description="Only report what would be done.", examples=[True])
    notice: str = Field(
        default="", description="A notice about this answer; usually empty."
    )  # why nothing was done


async def _maintain(context: Context, request: MaintainInput) -> MaintainResult:
    """Do all the upkeep in one run."""
    begun = perf_counter()
    limit = context.engine.settings.maintenance.seconds if request.seconds is None else request.seconds
    until = monotonic() + limit
    with_jobs = not request.dry_run and not request.steps
    report = await run_maintenance(
        context.engine,
        dry=request.dry_run,
        seconds=request.seconds,
        steps=request.steps,
        besides=() if request.backup else (BACKUP,),
        tell=lambda name, done, total: context.progress(name, done, total + with_jobs),
    )
    steps = list(report.steps)
    if with_jobs and not report.notice:
        context.progress(JOBS, len(steps), len(steps) + 1)
        steps.append(StepResult(await run_due_jobs(context, until=until)))
    return _maintain_result(report, steps, seconds=perf_counter() - begun)


MAINTAIN = operation("maintain", _maintain, writes=True, owner_only=True, erases=True)


def _maintain_result(
    report: MaintenanceReport, steps: Sequence[StepResult], *, seconds: float
) -> MaintainResult:
    return MaintainResult(
        steps=[StepView.of(step) for step in steps],
        operations=[told for step in steps for told in _told(step)],
        failed=report.failed,
        seconds=round(seconds, 3),
        dry_run=report.dry,
        notice=report.notice,
    )


def _told(step: StepResult) -> Iterator[str]:
    """`removed_20_duplicate_entries`, `compacted_db`; by the step's name where it counts nothing by name."""
    stage = step.stage
    counts = {what: number for what, number in stage.counts.items() if number and what not in _FOUND}
    for what, number in counts.items():
        usual = f"{what}_{number}"
        yield _NAMES.get(what, usual).format(number).replace(" ", "_")
    if stage.changed and not counts:
        yield f"{stage.name}_{stage.changed}"
