"""A consolidation: eleven stages in order, each within its limits; the next run continues where one stopped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from importlib import import_module
from time import monotonic, perf_counter

from mindhold.engine import Engine
from mindhold.lifecycle.stages import (
    NOTHING,
    ArchiveNotes,
    ConsolidationReport,
    StageLimits,
    StageResult,
    combine_stages,
    save_report,
    share_of_limits,
)
from mindhold.lifecycle.sweep import OPTIMISED
from mindhold.locks import claim
from mindhold.model.errors import InvalidInput, ModelError

CONSOLIDATION_JOB = "consolidate"
STAGES = (
    "tiers",
    "decay",
    "expiry",
    "duplicates",
    "embeddings",
    "utility",
    "anchors",
    "contradictions",
    "pending",
    "feedback",
    "index",
)
Run = Callable[[Engine, StageLimits], Awaitable[StageResult]]
Tell = Callable[[str, int, int], None]
_SWEPT = frozenset({"tiers", "decay", "expiry", "duplicates", "utility", "anchors", "feedback", "index"})


async def run_consolidation(
    engine: Engine,
    *,
    dry: bool = False,
    seconds: float | None = None,
    stages: Sequence[str] = (),
    tell: Tell = lambda _name, _done, _total: None,
) -> ConsolidationReport:
    """All stages, or those that are named. Of two at once one does it, and the other says so. Raises InvalidInput."""
    unknown = [name for name in stages if name not in STAGES]
    if unknown:
        raise InvalidInput(f"There is no stage {unknown[0]!r}.", advice=f"Choose among {', '.join(STAGES)}.")
    wanted = [name for name in STAGES if not stages or name in stages]
    started, begun = engine.clock(), perf_counter()
    limit = engine.settings.life.seconds if seconds is None else seconds
    within = StageLimits(dry=dry, deadline=monotonic() + limit, batch=engine.settings.life.batch)
    if dry:
        done = await _done(engine, within, wanted, tell)
        return ConsolidationReport(started, perf_counter() - begun, dry=True, stages=tuple(done))
    async with claim(engine, CONSOLIDATION_JOB) as mine:
        if not mine:
            return ConsolidationReport(started, 0.0, notice="Another consolidation is under way.")
        notes = ArchiveNotes(engine, engine.new_id(), started)
        done = await _done(engine, replace(within, before=notes.before), wanted, tell)
        report = ConsolidationReport(started, perf_counter() - begun, stages=tuple(done))
        await save_report(engine, report, key=notes.key)
    return report


async def _done(engine: Engine, within: StageLimits, wanted: Sequence[str], tell: Tell) -> list[StageResult]:
    """In the order of STAGES."""
    done: dict[str, StageResult] = {}
    if set(wanted) >= _SWEPT:
        tell(wanted[0], 0, len(wanted))
        done = {stage.name: stage for stage in await _swept(engine, within, share=len(_SWEPT) / len(wanted))}
    runs = {name: found for name in wanted if (found := _run_of(name, swept=name in done)) is not None}
    for number, (name, stage_run) in enumerate(runs.items()):
        tell(name, len(wanted) - len(runs) + number, len(wanted))
        stage = await _run(name, stage_run, engine, share_of_limits(within, 1 / (len(runs) - number)))
        done[name] = combine_stages(done[name], stage) if name in done else stage
    return [done[name] for name in wanted]


async def _swept(engine: Engine, within: StageLimits, *, share: float) -> list[StageResult]:
    from mindhold.lifecycle import sweep

    rules = [
        sweep.TIERS_RULE,
        sweep.DECAY_RULE,
        sweep.EXPIRY_RULE,
        sweep.UTILITY_RULE,
        sweep.ANCHORS_RULE,
        sweep.FEEDBACK_RULE,
        sweep.INDEX_RULE,
    ]
    return await sweep.sweep(engine, share_of_limits(within, share), rules, whole=True)


_STAGE_RUNS = {
    "tiers": "sweep:run_tiers",
    "decay": "sweep:run_decay",
    "expiry": "sweep:run_expiry",
    "utility": "sweep:run_utility",
    "anchors": "sweep:run_anchors",
    "feedback": "sweep:run_feedback",
    "index": "sweep:run_index",
    "embeddings": "sweep:run_embeddings",
    "duplicates": "duplicates:run_duplicates",
    "contradictions": "contradiction_stages:run_contradictions",
    "pending": "contradiction_stages:run_pending",
}
_AFTER_SWEEP = {"feedback": "sweep:report_feedback", "index": "sweep:tidy_index"}


async def _run(name: str, stage_run: Run, engine: Engine, within: StageLimits) -> StageResult:
    """A model that fails keeps no other stage from its work."""
    try:
        return await stage_run(engine, within)
    except ModelError as error:
        return StageResult(name, 0, f"failed: {error.message}")  # the next run tries again


def _run_of(name: str, *, swept: bool) -> Run | None:
    """What a stage does; after the sweep, what it has to do besides."""
    where = _AFTER_SWEEP.get(name) if swept else _STAGE_RUNS[name]
    if where is None:
        return None
    module, function = where.split(":")
    stage_run: Run = getattr(import_module(f"mindhold.lifecycle.{module}"), function)
    return stage_run


SHORTEST = 0.1  # seconds, also for one who comes when the time is up: it stops at its first batch's end


async def run_consolidation_step(engine: Engine, within: StageLimits) -> StageResult:
    """All its stages as one; its own report is kept as ever."""
    begun = perf_counter()
    if not within.dry:  # a later step of the same run sees to the files
        await engine.store.set_cursor(OPTIMISED, engine.clock().isoformat())
    seconds = max(SHORTEST, within.deadline - within.ticks())
    report = await run_consolidation(engine, dry=within.dry, seconds=seconds)
    told = [f"{stage.name}: {stage.detail}" for stage in report.stages if stage.changed]
    return StageResult(
        "consolidate",
        report.changed,
        report.notice or "; ".join(told) or NOTHING,
        perf_counter() - begun,
        more=report.more or bool(report.notice),
        looked=max((stage.looked for stage in report.stages), default=0),
        examples=tuple(told for stage in report.stages for told in stage.examples),
        counts=report.counts(),
    )
