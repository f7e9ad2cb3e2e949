"""Maintenance: all steps that keep a store in good order, in one run or in the nightly job."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from importlib import import_module
from time import monotonic, perf_counter
from typing import Any

from mindhold.conversations.endings import queue_sweep
from mindhold.engine import Engine
from mindhold.jobs.progress import PAUSE, Progress, Unfinished, is_to_stop, note_progress
from mindhold.lifecycle.audit import write_audit_record
from mindhold.lifecycle.stage_report import (
    NOTHING,
    RunReport,
    StageLimits,
    StageResult,
    combine_stages,
    last_consolidated,
    share_of_limits,
)
from mindhold.lifecycle.sweep import OPTIMISED
from mindhold.locks import claim
from mindhold.model.errors import InvalidInput, MindholdError, StoreDamaged
from mindhold.model.job import Job, JobState
from mindhold.ports.store import StoreFinding

MAINTENANCE_JOB = "maintain"
BACKUP, CONSOLIDATE = "backup", "consolidate"
# In order, each imported when it runs: `async (engine, within) -> StageResult`. The backup comes before any removal.
STEPS: Mapping[str, str] = {
    BACKUP: "mindhold.backup.create:run_scheduled_backup",
    "summaries": "mindhold.conversations.recap_maintenance:run_recap_maintenance",
    CONSOLIDATE: "mindhold.lifecycle.consolidation:run_consolidation_step",
    "retention": "mindhold.lifecycle.retention:run_retention",
    "tidy": "mindhold.lifecycle.maintenance:run_tidy_step",
    "optimise": "mindhold.lifecycle.maintenance:run_optimise_step",
}
SCHEDULE = f"schedule:{MAINTENANCE_JOB}"  # the cursor with the time of the last nightly run
MAINTAINED = "maintained"  # the cursor with the time of the last complete run
ALREADY_RUNNING = "Another maintenance is under way."
# A consolidation every so many days must not slip by a night because of a few minutes.
EARLY = timedelta(hours=12)
Run = Callable[[Engine, StageLimits], Awaitable[StageResult]]
Tell = Callable[[str, int, int], None]
log = logging.getLogger(__name__)


async def run_maintenance(
    engine: Engine,
    *,
    dry: bool = False,
    seconds: float | None = None,
    steps: Sequence[str] = (),
    besides: Sequence[str] = (),
    tell: Tell = lambda _name, _done, _total: None,
) -> RunReport:
    """Run all steps or the named ones, without `besides`. Raises InvalidInput, and the store's errors outside of steps."""
    names = [name for name in _chosen_steps(steps) if name not in besides]
    started, began = engine.clock(), perf_counter()
    limit = engine.settings.maintenance.seconds if seconds is None else seconds
    within = StageLimits(dry=dry, deadline=monotonic() + limit, batch=engine.settings.life.batch)
    if dry:
        results = await _run_steps(engine, within, names, tell)
        return RunReport(started, perf_counter() - began, dry=True, stages=tuple(results))
    async with claim(engine, MAINTENANCE_JOB) as acquired:
        if not acquired:
            return RunReport(started, 0.0, notice=ALREADY_RUNNING)
        await engine.use_counter.flush()
        results = await _run_steps(engine, within, names, tell)
        report = RunReport(started, perf_counter() - began, stages=tuple(results))
        await _save_report(engine, report, whole=not steps)
    return report


def _chosen_steps(steps: Sequence[str]) -> list[str]:
    """The named steps in order; all if none is named. Raises InvalidInput."""
    unknown = [name for name in steps if name not in STEPS]
    if unknown:
        raise InvalidInput(f"There is no step {unknown[0]!r}.", advice=f"Choose among {', '.join(STEPS)}.")
    return [name for name in STEPS if not steps or name in steps]


async def _scheduled_steps(engine: Engine) -> list[str]:
    """The steps of a nightly run. It consolidates only as often as life.consolidate_hours says."""
    hours, last = engine.settings.life.consolidate_hours, await last_consolidated(engine)
    due = hours > 0 and (last is None or engine.clock() - last >= timedelta(hours=hours) - EARLY)
    return [name for name in STEPS if name != CONSOLIDATE or due]


async def _save_report(engine: Engine, report: RunReport, *, whole: bool) -> None:
    """Save when the run was and write its audit record and log line."""
    if whole:
        now = engine.clock().isoformat()
        await engine.store.set_cursor(MAINTAINED, now)
        await engine.store.set_cursor(SCHEDULE, now)
    operations = [
        f"{step.name} failed: {step.code}" if step.error else f"{step.name}: {step.detail}"
        for step in report.stages
        if step.error or step.changed
    ]
    counts = {step.name: step.changed for step in report.stages if step.changed}
    if operations:
        await write_audit_record(engine, MAINTENANCE_JOB, operations=operations, counts=counts)
    changed = sum(counts.values())
    log.info(
        "maintenance ended: %d steps, %d changes, %.1f s, failed: %s",
        len(report.stages),
        changed,
        report.seconds,
        ", ".join(report.failed) or "none",
    )


async def _run_step(engine: Engine, name: str, within: StageLimits) -> StageResult:
    """Run one step and catch every failure. The log contains no memory content."""
    module, _, function = STEPS[name].partition(":")
    began = perf_counter()
    try:
        run: Run = getattr(import_module(module), function)
        stage = replace(await run(engine, within), name=name, seconds=perf_counter() - began)
    except MindholdError as error:
        log.warning("maintenance: %s failed, %s", name, error.code)
        return StageResult(name, 0, "", code=error.code, error=error.message)
    except Exception as error:  # a step may fail in any way; the others still run
        log.exception("maintenance: %s failed", name)
        return StageResult(name, 0, "", code="INTERNAL", error=f"{type(error).__name__}: {error}")
    verb = "would change" if within.dry else "changed"
    more = ", more is left" if stage.more else ""
    log.info("maintenance: %s %s %d, %.1f s%s", name, verb, stage.changed, stage.seconds, more)
    return stage


async def _run_steps(
    engine: Engine, within: StageLimits, names: Sequence[str], tell: Tell
) -> list[StageResult]:
    results: list[StageResult] = []
    for number, name in enumerate(names):
        tell(name, number, len(names))
        results.append(await _run_step(engine, name, share_of_limits(within, 1 / (len(names) - number))))
    return results


TURN_SECONDS = 10.0
SHORT_TURN_SECONDS = 2.0  # while callers are served
LEASE = timedelta(minutes=2)  # a process that was killed holds its claim this long
REMAINING, FINISHED, STARTED = "left", "done", "begun"  # keys of the job's result


async def run_nightly_turn(engine: Engine, job: Job) -> Mapping[str, Any] | Unfinished:
    """Run one step or a part of it. A step that used its share of the time continues the next night."""
    so_far = job.result or {
        REMAINING: await _scheduled_steps(engine),
        FINISHED: {},
        STARTED: engine.clock().isoformat(),
    }
    remaining = [name for name in so_far[REMAINING] if name in STEPS]
    results = {name: _parse_step(name, value) for name, value in so_far[FINISHED].items()}
    if await is_to_stop(engine, job.id):
        return {**_job_result(so_far, [], results), "cancelled": True}
    async with claim(engine, MAINTENANCE_JOB, held=LEASE) as acquired:
        if not acquired:
            # Another process runs maintenance, or was killed while it did.
            return Unfinished(_job_result(so_far, remaining, results), after=PAUSE)
        if remaining:
            await engine.use_counter.flush()
            name, began = remaining[0], perf_counter()
            before = results.get(name)
            share = engine.settings.maintenance.seconds / (len(remaining) + len(results) - (name in results))
            spent = before.seconds if before else 0.0
            step = await _run_step(engine, name, _turn_limits(engine, max(0.0, share - spent)))
            results[name] = step = _add_turn(before, step, seconds=perf_counter() - began)
            if not step.more or step.seconds >= share:
                del remaining[0]
        await note_progress(
            engine, job.id, Progress(len(results) - bool(remaining), len(results) + len(remaining))
        )
        if not remaining:
            seconds = sum(step.seconds for step in results.values())
            started = datetime.fromisoformat(so_far[STARTED])
            report = RunReport(started, seconds, stages=tuple(results.values()))
            await _save_report(engine, report, whole=True)
    result = _job_result(so_far, remaining, results)
    return Unfinished(result) if remaining else result


def _turn_limits(engine: Engine, seconds: float) -> StageLimits:
    idle = engine.idle_tracker.idle_for(engine.clock(), engine.settings.maintenance.idle)
    turn = min(seconds, TURN_SECONDS if idle else SHORT_TURN_SECONDS)
    return StageLimits(deadline=monotonic() + turn, batch=engine.settings.life.batch)


def _add_turn(before: StageResult | None, step: StageResult, *, seconds: float) -> StageResult:
    """The result of a step over this turn and the earlier ones; of its text, the latest."""
    turn = replace(step, seconds=seconds)
    whole = combine_stages(before, turn) if before else turn
    return replace(
        step, changed=whole.changed, seconds=whole.seconds, counts=whole.counts, examples=(), looked=0
    )


def _job_result(
    so_far: Mapping[str, Any], remaining: list[str], results: Mapping[str, StageResult]
) -> dict[str, Any]:
    values = {
        name: {
            "changed": step.changed,
            "detail": step.detail,
            "seconds": round(step.seconds, 3),
            "more": step.more,
            "counts": dict(step.counts),
            "code": step.code,
            "error": step.error,
        }
        for name, step in results.items()
    }
    return {STARTED: so_far[STARTED], REMAINING: remaining, FINISHED: values}


def _parse_step(name: str, value: Mapping[str, Any]) -> StageResult:
    return StageResult(
        name,
        int(value["changed"]),
        value["detail"],
        float(value["seconds"]),
        more=bool(value["more"]),
        counts=value["counts"] or {},
        code=value["code"],
        error=value["error"],
    )


JOB_RETENTION = timedelta(days=14)
MOST_JOBS = 10_000


async def tidy(engine: Engine) -> Mapping[str, int]:
    """Drop old jobs and expired entries and return the counts. A job of its own looks for silent conversations."""
    await queue_sweep(engine)
    return {
        "dropped": await engine.store.drop_jobs(before=engine.clock() - JOB_RETENTION),
        "entries": await engine.store.drop_expired(engine.clock()),
    }


async def run_tidy_step(engine: Engine, within: StageLimits) -> StageResult:
    """Tidy as a step of maintenance."""
    dropped = {"dropped": await _count_old_jobs(engine)} if within.dry else await tidy(engine)
    words = {"dropped": "old jobs dropped", "entries": "expired notes dropped"}
    counts = {words[what]: count for what, count in dropped.items() if count}
    detail = ", ".join(f"{count} {what}" for what, count in counts.items()) or NOTHING
    return StageResult("tidy", sum(counts.values()), detail, counts=counts)


async def _count_old_jobs(engine: Engine) -> int:
    before = engine.clock() - JOB_RETENTION
    jobs = await engine.store.jobs(states=(JobState.DONE, JobState.DEAD), limit=MOST_JOBS)
    return sum(job.finished is not None and job.finished < before for job in jobs)


OPTIMISE_STEP = "optimise"
FILE_CHECK = "file"  # the name of a store's own file check
WHAT_TO_DO = "`mindhold doctor` says what is wrong and what to do."


async def run_optimise_step(engine: Engine, within: StageLimits) -> StageResult:
    """Check and optimise the store as a step of maintenance. Raises StoreDamaged if records may be lost."""
    repairable = await _find_repairable(engine)
    if within.dry:
        detail = f"to be made anew: {_format_findings(repairable)}" if repairable else NOTHING
        return StageResult(OPTIMISE_STEP, len(repairable), detail)
    repaired = await engine.store.repair() if repairable else []
    if repaired and (remaining := await _find_repairable(engine)):
        raise StoreDamaged(f"What is derived stays wrong: {_format_findings(remaining)}.", advice=WHAT_TO_DO)
    freed = await engine.store.optimise()
    await engine.store.set_cursor(OPTIMISED, engine.clock().isoformat())
    counts = {what: count for what, count in (("repaired", len(repaired)), ("bytes freed", freed)) if count}
    detail = "; ".join([*repaired, *([f"{freed:,} bytes freed"] if freed else [])])
    changed = len(repaired) + bool(freed)
    return StageResult(OPTIMISE_STEP, changed, detail or "in order", counts=counts)


async def _find_repairable(engine: Engine) -> list[StoreFinding]:
    """The findings that a rebuild repairs. Raises StoreDamaged if records may be lost; nothing is written then."""
    findings = await engine.store.check()
    if damaged := [finding for finding in findings if finding.name == FILE_CHECK and not finding.healthy]:
        raise StoreDamaged(f"The database is damaged: {_format_findings(damaged)}.", advice=WHAT_TO_DO)
    return [finding for finding in findings if finding.mendable]


def _format_findings(findings: Sequence[StoreFinding]) -> str:
    return "; ".join(f"{finding.name}: {finding.detail}" for finding in findings)
