"""Maintenance: all steps that keep a store in good order, in one run or in the nightly job."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from importlib import import_module
from time import monotonic, perf_counter
from typing import Any

from mindhold.conversations.endings import queue_sweep
from mindhold.engine import Engine
from mindhold.jobs.progress import Progress, is_to_stop, note_progress
from mindhold.lifecycle.audit import write_audit_record
from mindhold.lifecycle.stages import NOTHING, StageLimits, StageResult, combine_stages, last_consolidated
from mindhold.lifecycle.sweep import OPTIMISED
from mindhold.locks import claim
from mindhold.model.errors import InvalidInput, MindholdError, StoreDamaged
from mindhold.model.job import Job, JobState
from mindhold.ports.store import StoreFinding

MAINTENANCE_JOB = "maintain"
BACKUP, CONSOLIDATE = "backup", "consolidate"
# In their order, each imported when it runs: `async (engine, within) -> Stage`. A backup comes before anything goes.
STEPS: Mapping[str, str] = {
    BACKUP: "mindhold.backup.schedule:run_scheduled_backup",
    "summaries": "mindhold.conversations.recap_maintenance:run_recap_maintenance",
    CONSOLIDATE: "mindhold.lifecycle.consolidation:run_consolidation_step",
    "retention": "mindhold.lifecycle.retention:run_retention",
    "tidy": "mindhold.lifecycle.maintenance:run_tidy_step",
    "optimise": "mindhold.lifecycle.maintenance:run_optimise_step",
}
SCHEDULE = f"schedule:{MAINTENANCE_JOB}"  # the cursor that says when the last night's run was due
MAINTAINED = "maintained"  # the one that says when all steps were last gone through
OTHER = "Another maintenance is under way."
EARLY = timedelta(
    hours=12
)  # a consolidation that is wanted every so many days is not put off by a night for minutes
Run = Callable[[Engine, StageLimits], Awaitable[StageResult]]
Tell = Callable[[str, int, int], None]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step did, or why it failed."""

    stage: StageResult
    code: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    """Every step that ran. `notice` says why none did."""

    started: datetime
    seconds: float
    dry: bool = False
    steps: tuple[StepResult, ...] = ()
    notice: str = ""

    @property
    def failed(self) -> list[str]:
        """The names of those that did."""
        return [step.stage.name for step in self.steps if step.error]


async def run_maintenance(
    engine: Engine,
    *,
    dry: bool = False,
    seconds: float | None = None,
    steps: Sequence[str] = (),
    besides: Sequence[str] = (),
    tell: Tell = lambda _name, _done, _total: None,
) -> MaintenanceReport:
    """All steps, or those that are named, without those `besides`. Raises InvalidInput, and the store's errors at its ends."""
    wanted = [name for name in chosen_steps(steps) if name not in besides]
    started, begun = engine.clock(), perf_counter()
    limit = engine.settings.maintenance.seconds if seconds is None else seconds
    within = StageLimits(dry=dry, deadline=monotonic() + limit, batch=engine.settings.life.batch)
    if dry:
        done = await _all(engine, within, wanted, tell)
        return MaintenanceReport(started, perf_counter() - begun, dry=True, steps=tuple(done))
    async with claim(engine, MAINTENANCE_JOB) as mine:
        if not mine:
            return MaintenanceReport(started, 0.0, notice=OTHER)
        await engine.use_counter.flush()
        done = await _all(engine, within, wanted, tell)
        report = MaintenanceReport(started, perf_counter() - begun, steps=tuple(done))
        await save_maintenance_report(engine, report, whole=not steps)
    return report


def chosen_steps(steps: Sequence[str]) -> list[str]:
    """Those that are named, in the order of all; all when none is. Raises InvalidInput."""
    unknown = [name for name in steps if name not in STEPS]
    if unknown:
        raise InvalidInput(f"There is no step {unknown[0]!r}.", advice=f"Choose among {', '.join(STEPS)}.")
    return [name for name in STEPS if not steps or name in steps]


async def scheduled_steps(engine: Engine) -> list[str]:
    """The steps of a night's run: a consolidation only as often as life.consolidate_hours says."""
    hours, last = engine.settings.life.consolidate_hours, await last_consolidated(engine)
    due = hours > 0 and (last is None or engine.clock() - last >= timedelta(hours=hours) - EARLY)
    return [name for name in STEPS if name != CONSOLIDATE or due]


async def save_maintenance_report(engine: Engine, report: MaintenanceReport, *, whole: bool) -> None:
    """Note that it was: the next night's is due a night later. The one place that a run is told of."""
    if whole:
        now = engine.clock().isoformat()
        await engine.store.set_cursor(MAINTAINED, now)
        await engine.store.set_cursor(SCHEDULE, now)
    told = [
        f"{step.stage.name} failed: {step.code}" if step.error else f"{step.stage.name}: {step.stage.detail}"
        for step in report.steps
        if step.error or step.stage.changed
    ]
    counts = {step.stage.name: step.stage.changed for step in report.steps if step.stage.changed}
    if told:
        await write_audit_record(engine, MAINTENANCE_JOB, operations=told, counts=counts)
    changed = sum(counts.values())
    log.info(
        "maintenance ended: %d steps, %d changes, %.1f s, failed: %s",
        len(report.steps),
        changed,
        report.seconds,
        ", ".join(report.failed) or "none",
    )


async def run_step(engine: Engine, name: str, within: StageLimits) -> StepResult:
    """One of them, whatever it fails at. Logged without a word of what is remembered."""
    try:
        stage = await _found(name)(engine, within)
    except MindholdError as error:
        log.warning("maintenance: %s failed, %s", name, error.code)
        return StepResult(StageResult(name, 0, ""), error.code, error.message)
    except Exception as error:  # a step may fail in any way; the others are not to suffer for it
        log.exception("maintenance: %s failed", name)
        return StepResult(StageResult(name, 0, ""), "INTERNAL", f"{type(error).__name__}: {error}")
    told = "would change" if within.dry else "changed"
    more = ", more is left" if stage.more else ""
    log.info("maintenance: %s %s %d, %.1f s%s", name, told, stage.changed, stage.seconds, more)
    return StepResult(replace(stage, name=name))


async def _all(engine: Engine, within: StageLimits, wanted: Sequence[str], tell: Tell) -> list[StepResult]:
    done: list[StepResult] = []
    for number, name in enumerate(wanted):
        tell(name, number, len(wanted))
        left = max(0.0, within.deadline - within.ticks())
        share = replace(within, deadline=within.ticks() + left / (len(wanted) - number))
        done.append(await run_step(engine, name, share))
    return done


def _found(name: str) -> Run:
    module, _, attribute = STEPS[name].partition(":")
    found: Run = getattr(import_module(module), attribute)
    return found


TURN = 10.0  # seconds
SHORT_TURN = 2.0  # of them while somebody calls
HELD = timedelta(minutes=2)  # by one that was killed in its turn
LEFT, DONE, BEGUN = "left", "done", "begun"  # in the job's result


@dataclass(frozen=True, slots=True)
class NightlyTurn:
    """How far it is. `waits`: somebody else is at it, who asked for it by hand or was killed."""

    result: Mapping[str, Any]
    finished: bool = True
    waits: bool = False


async def run_nightly_turn(engine: Engine, job: Job) -> NightlyTurn:
    """One step, or a part of it. A step that takes its share of the time goes on the next night."""
    so_far = job.result or {
        LEFT: await scheduled_steps(engine),
        DONE: {},
        BEGUN: engine.clock().isoformat(),
    }
    left = [name for name in so_far[LEFT] if name in STEPS]
    done = {name: _step(name, told) for name, told in so_far[DONE].items()}
    if await is_to_stop(engine, job.id):
        return NightlyTurn({**_result(so_far, [], done), "cancelled": True})
    async with claim(engine, MAINTENANCE_JOB, held=HELD) as mine:
        if not mine:
            return NightlyTurn(_result(so_far, left, done), finished=False, waits=True)
        if left:
            await engine.use_counter.flush()
            name, begun = left[0], perf_counter()
            before = done.get(name)
            share = engine.settings.maintenance.seconds / (len(left) + len(done) - (name in done))
            spent = before.stage.seconds if before else 0.0
            step = await run_step(engine, name, _bounds(engine, max(0.0, share - spent)))
            done[name] = step = _joined(before, step, seconds=perf_counter() - begun)
            if not step.stage.more or step.stage.seconds >= share:
                del left[0]
        await note_progress(engine, job.id, Progress(len(done) - bool(left), len(done) + len(left)))
        if not left:
            await save_maintenance_report(engine, _report(engine, so_far, done), whole=True)
    return NightlyTurn(_result(so_far, left, done), finished=not left)


def _bounds(engine: Engine, seconds: float) -> StageLimits:
    quiet = engine.idle_tracker.idle_for(engine.clock(), engine.settings.maintenance.idle)
    turn = min(seconds, TURN if quiet else SHORT_TURN)
    return StageLimits(deadline=monotonic() + turn, batch=engine.settings.life.batch)


def _joined(before: StepResult | None, step: StepResult, *, seconds: float) -> StepResult:
    """What it did in this turn and in those before, with the time that it had."""
    earlier = StageResult(step.stage.name, 0, "") if before is None else before.stage
    stage = combine_stages(earlier, step.stage)
    counts = {what: earlier.counts.get(what, 0) + step.stage.counts.get(what, 0) for what in stage.counts}
    told = StageResult(
        stage.name,
        stage.changed,
        step.stage.detail,
        earlier.seconds + seconds,
        more=step.stage.more,
        counts=counts,
    )
    return StepResult(told, step.code, step.error)


def _report(engine: Engine, so_far: Mapping[str, Any], done: Mapping[str, StepResult]) -> MaintenanceReport:
    seconds = sum(step.stage.seconds for step in done.values())
    return MaintenanceReport(datetime.fromisoformat(so_far[BEGUN]), seconds, steps=tuple(done.values()))


def _result(so_far: Mapping[str, Any], left: list[str], done: Mapping[str, StepResult]) -> dict[str, Any]:
    told = {
        name: {
            "changed": step.stage.changed,
            "detail": step.stage.detail,
            "seconds": round(step.stage.seconds, 3),
            "more": step.stage.more,
            "counts": dict(step.stage.counts),
            "code": step.code,
            "error": step.error,
        }
        for name, step in done.items()
    }
    return {BEGUN: so_far[BEGUN], LEFT: left, DONE: told}


def _step(name: str, told: Mapping[str, Any]) -> StepResult:
    stage = StageResult(
        name,
        int(told["changed"]),
        told["detail"],
        float(told["seconds"]),
        more=bool(told["more"]),
        counts=told["counts"] or {},
    )
    return StepResult(stage, told["code"], told["error"])


KEPT = timedelta(days=14)
MOST = 10_000


async def tidy(engine: Engine) -> Mapping[str, int]:
    """How many of each; conversations that fell silent are looked at by a job of their own."""
    await queue_sweep(engine)
    return {
        "dropped": await engine.store.drop_jobs(before=engine.clock() - KEPT),
        "entries": await engine.store.drop_expired(engine.clock()),
    }


async def run_tidy_step(engine: Engine, within: StageLimits) -> StageResult:
    """As a step of maintenance."""
    begun = perf_counter()
    done = {"dropped": await _old(engine)} if within.dry else await tidy(engine)
    words = {"dropped": "old jobs dropped", "entries": "expired notes dropped"}
    counts = {words[what]: count for what, count in done.items() if count}
    detail = ", ".join(f"{count} {what}" for what, count in counts.items()) or NOTHING
    return StageResult("tidy", sum(counts.values()), detail, perf_counter() - begun, counts=counts)


async def _old(engine: Engine) -> int:
    before = engine.clock() - KEPT
    ended = await engine.store.jobs(states=(JobState.DONE, JobState.DEAD), limit=MOST)
    return sum(job.finished is not None and job.finished < before for job in ended)


OPTIMISE_STEP = "optimise"
PAGES = "file"  # what a store calls them when it looks at itself
WHAT_TO_DO = "`mindhold doctor` says what is wrong and what to do."


async def run_optimise_step(engine: Engine, within: StageLimits) -> StageResult:
    """As a step of maintenance. Raises StoreDamaged for what can't be made anew out of the records."""
    begun = perf_counter()
    wrong = await _wrong(engine)
    if within.dry:
        told = f"to be made anew: {_listed(wrong)}" if wrong else NOTHING
        return StageResult(OPTIMISE_STEP, len(wrong), told, perf_counter() - begun)
    repaired = await engine.store.repair() if wrong else []
    if repaired and (left := await _wrong(engine)):
        raise StoreDamaged(f"What is derived stays wrong: {_listed(left)}.", advice=WHAT_TO_DO)
    freed = await engine.store.optimise()
    await engine.store.set_cursor(OPTIMISED, engine.clock().isoformat())
    counts = {what: count for what, count in (("repaired", len(repaired)), ("bytes freed", freed)) if count}
    told = "; ".join([*repaired, *([f"{freed:,} bytes freed"] if freed else [])])
    changed = len(repaired) + bool(freed)
    return StageResult(OPTIMISE_STEP, changed, told or "in order", perf_counter() - begun, counts=counts)


async def _wrong(engine: Engine) -> list[StoreFinding]:
    """What can be made anew. Raises StoreDamaged where the records themselves may be lost: nothing is written there."""
    findings = await engine.store.check()
    if damaged := [one for one in findings if one.name == PAGES and not one.healthy]:
        raise StoreDamaged(f"The database is damaged: {_listed(damaged)}.", advice=WHAT_TO_DO)
    return [one for one in findings if one.mendable]


def _listed(findings: Sequence[StoreFinding]) -> str:
    return "; ".join(f"{one.name}: {one.detail}" for one in findings)
