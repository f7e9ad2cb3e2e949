"""Operations of maintenance: maintain, consolidate, and the reports of consolidations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from time import monotonic, perf_counter
from typing import Annotated

from pydantic import Field

from mindhold.jobs.handlers import HANDLERS, HISTORY_JOBS, SHORT_JOBS, handlers_within
from mindhold.jobs.runner import Runner, enqueue_due
from mindhold.lifecycle import retention
from mindhold.lifecycle.consolidation import CONSOLIDATION_JOB, STAGES, run_consolidation
from mindhold.lifecycle.maintenance import (
    BACKUP,
    MAINTENANCE_JOB,
    run_maintenance,
)
from mindhold.lifecycle.stage_report import (
    STALE,
    RunReport,
    StageExample,
    StageLimits,
    StageResult,
    list_reports,
)
from mindhold.memories.views import Notice, View
from mindhold.model.job import JobState
from mindhold.model.lifecycle import Fate
from mindhold.operations import Context, Input, Output, operation

JOBS = "jobs"
MOST_JOBS = 1000
MOST_REPORTS = 400
_LISTED = (Fate.ARCHIVED, Fate.ERASED, STALE)  # each has a list of its own in the result
_EFFECT_TEXTS = {
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
TimeLimit = Annotated[float | None, Field(gt=0, le=86_400, description="Time limit in seconds.")]
MOST_NAMED = 50  # memories in each list of a result; the report has more


class ConsolidateInput(Input):
    """All stages unless some are named. A dry run changes nothing and reports what would be done."""

    dry_run: bool = Field(default=False, description="Only report what would be done.", examples=[True])
    stages: tuple[str, ...] = Field(default=(), description="Only these stages.")
    seconds: TimeLimit = None  # as life.seconds has it


class StageView(View):
    """What one stage did. `more`: it stopped at a limit and continues the next time.

    `looked` is the number of memories examined; `counts` has the changes by name.
    """

    stage: str = Field(examples=["decay"])
    changed: int = Field(examples=[12])
    detail: str = Field(examples=["12 faded"])
    seconds: float = Field(default=0.0, description="How many seconds it took.", examples=[0.2])
    more: bool = False
    looked: int = Field(default=0, examples=[1523])
    counts: dict[str, int] = {}


class ToldView(Output):
    """A memory that was changed, and why."""

    id: str = Field(description="Its id.", examples=["01m7gv42a3fzcy3gb19vmek4q7"])
    why: str = Field(description="The reason.", examples=["nobody asked for it in 90 days"])

    @classmethod
    def of(cls, example: StageExample) -> ToldView:
        return cls(id=example.memory_id, why=example.why)


class OtherView(ToldView):
    """A memory that was changed otherwise: merged, anchored, contradicted, ..."""

    what: str


class ConsolidateResult(Output):
    """Every stage that ran. `operations` describes the changes; it is empty when there was nothing to do.

    The lists name the first memories that were archived, erased, found stale, or changed otherwise; `counts` counts all.
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
    notice: Notice = ""  # why nothing was done


class ReportsInput(Input):
    """How many reports to list."""

    limit: int = Field(
        default=10, ge=1, le=MOST_REPORTS, description="Maximum number of results.", examples=[3]
    )


class ReportView(ConsolidateResult):
    """The report of one consolidation."""

    started: datetime = Field(examples=["2026-11-16T10:30:00Z"])


class ReportsResult(Output):
    """The reports of the last year, newest first."""

    reports: list[ReportView]


async def _consolidate(context: Context, request: ConsolidateInput) -> ConsolidateResult:
    """Run the maintenance stages that are due."""
    began = perf_counter()
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
        retention_result = await retention.run_retention(context.engine, within, consolidated=True)
        if retention_result.changed:
            report = replace(report, stages=(*report.stages, retention_result))
    stages = list(report.stages)
    if with_jobs and not report.notice:
        context.progress(JOBS, len(STAGES), len(STAGES) + 1)
        stages.append(await run_due_jobs(context, until=until))
    return _consolidate_result(report, stages, seconds=perf_counter() - began, most=MOST_NAMED)


CONSOLIDATE = operation("consolidate", _consolidate, writes=True, owner_only=True, erases=True)


async def _reports(context: Context, request: ReportsInput) -> ReportsResult:
    """List what earlier consolidations did."""
    reports = await list_reports(context.engine, limit=request.limit)
    return ReportsResult(
        reports=[
            ReportView(
                started=report.started,
                **dict(_consolidate_result(report, report.stages, seconds=report.seconds)),
            )
            for report in reports
        ]
    )


CONSOLIDATION_REPORTS = operation("consolidation_reports", _reports, reads=True, owner_only=True)


def _consolidate_result(
    report: RunReport, stages: Sequence[StageResult], *, seconds: float, most: int | None = None
) -> ConsolidateResult:
    return ConsolidateResult(
        stages=[StageView.fill(stage, stage=stage.name, seconds=round(stage.seconds, 3)) for stage in stages],
        operations=[f"{stage.name}: {stage.detail}" for stage in stages if stage.changed],
        seconds=round(seconds, 3),
        archived=[ToldView.of(example) for example in report.examples_of(Fate.ARCHIVED)[:most]],
        erased=[ToldView.of(example) for example in report.examples_of(Fate.ERASED)[:most]],
        stale=[ToldView.of(example) for example in report.examples_of(STALE)[:most]],
        others=[
            OtherView(id=example.memory_id, why=example.why, what=example.what)
            for stage in stages
            for example in stage.examples
            if example.what not in _LISTED
        ],
        counts=dict(report.counts()),
        dry_run=report.dry,
        notice=report.notice,
    )


async def run_due_jobs(context: Context, *, until: float) -> StageResult:
    """Run the jobs that are due in the time left, and sum up their effects.

    Short jobs run even without time left. A failed job is mentioned and tried again later; the others stay queued.
    """

    def seconds_left() -> float:
        return until - monotonic()

    began = perf_counter()
    excluded = (CONSOLIDATION_JOB, MAINTENANCE_JOB)  # the caller is such a run
    await enqueue_due(context.engine, besides=excluded)
    names = (
        [name for name in HANDLERS if name not in (*excluded, *HISTORY_JOBS)]
        if seconds_left() > 0
        else SHORT_JOBS
    )
    runner = Runner(context.engine, handlers_within(seconds_left), owner=context.engine.new_id())
    ran = await runner.run_all(most=MOST_JOBS, names=names, enough=lambda: seconds_left() <= 0)
    finished_jobs = [run.job for run in ran if run.kept and run.job.state is JobState.DONE]
    runs = Counter(job.name for job in finished_jobs)
    effects: Counter[str] = Counter()
    for job in finished_jobs:
        effects.update({f"{job.name} {what}": int(count) for what, count in (job.result or {}).items()})
    parts = [
        _EFFECT_TEXTS.get(what, f"{{}} {what}").format(count) for what, count in effects.items() if count
    ]
    if runs and not parts:
        parts.append(f"{runs.total()} ran and found nothing to do")
    parts += [f"{run.job.name} failed: {run.job.error}" for run in ran if run.job.error]
    if seconds_left() <= 0:
        parts.append("the time was up; what else waits stays queued")
    detail = "; ".join(parts) or "nothing was due"
    counts = {what.partition(" ")[2]: count for what, count in effects.items() if count}
    return StageResult(JOBS, effects.total(), detail, seconds=perf_counter() - began, counts=counts)


# The operation name of a count; other counts use their own name and number.
_OPERATION_NAMES = {
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
_FINDINGS = frozenset({"stale", "doubtful"})  # reported, but nothing was changed


class MaintainInput(Input):
    """All steps unless some are named; `backup=false` leaves out the backup. A dry run changes nothing."""

    dry_run: bool = Field(default=False, description="Only report what would be done.", examples=[True])
    steps: tuple[str, ...] = Field(default=(), description="Only these steps.")
    backup: bool = Field(
        default=True, description="Whether to make a backup first if one is due.", examples=[False]
    )
    seconds: TimeLimit = None  # as maintenance.seconds has it


class StepView(View):
    """What one step did. `more`: it stopped at a limit and continues the next time. `error`: why it failed."""

    step: str = Field(examples=["consolidate"])
    changed: int = Field(examples=[20])
    detail: str = Field(examples=["duplicates: 20 merged"])
    seconds: float = Field(default=0.0, description="How many seconds it took.", examples=[0.4])
    more: bool = False
    counts: dict[str, int] = Field(default={}, examples=[{"merged": 20}])
    code: str = ""
    error: str = ""


class MaintainResult(Output):
    """Every step that ran. `operations` names the changes; it is empty when there was nothing to do."""

    steps: list[StepView] = Field(description="The steps that ran.")
    operations: list[str] = Field(examples=[["removed_20_duplicate_entries"]])
    failed: list[str] = Field(default=[], description="What failed.")
    seconds: float = Field(description="How many seconds it took.", examples=[0.6])
    dry_run: bool = Field(default=False, description="Only report what would be done.", examples=[True])
    notice: Notice = ""  # why nothing was done


async def _maintain(context: Context, request: MaintainInput) -> MaintainResult:
    """Run all maintenance steps."""
    began = perf_counter()
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
    steps = list(report.stages)
    if with_jobs and not report.notice:
        context.progress(JOBS, len(steps), len(steps) + 1)
        steps.append(await run_due_jobs(context, until=until))
    return MaintainResult(
        steps=[StepView.fill(step, step=step.name, seconds=round(step.seconds, 3)) for step in steps],
        operations=[name for step in steps for name in _operation_names(step)],
        failed=report.failed,
        seconds=round(perf_counter() - began, 3),
        dry_run=report.dry,
        notice=report.notice,
    )


MAINTAIN = operation("maintain", _maintain, writes=True, owner_only=True, erases=True)


def _operation_names(stage: StageResult) -> Iterator[str]:
    """Names such as `removed_20_duplicate_entries` and `compacted_db`; the step's name if it has no counts."""
    counts = {what: number for what, number in stage.counts.items() if number and what not in _FINDINGS}
    for what, number in counts.items():
        default = f"{what}_{number}"
        yield _OPERATION_NAMES.get(what, default).format(number).replace(" ", "_")
    if stage.changed and not counts:
        yield f"{stage.name}_{stage.changed}"
