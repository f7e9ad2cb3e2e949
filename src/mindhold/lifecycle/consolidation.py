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
_SWEPT_STAGES = frozenset(
    {"tiers", "decay", "expiry", "duplicates", "utility", "anchors", "feedback", "index"}
)


async def run_consolidation(
    engine: Engine,
    *,
    dry: bool = False,
    seconds: float | None = None,
    stages: Sequence[str] = (),
    tell: Tell = lambda _name, _done, _total: None,
) -> ConsolidationReport:
    """Run all stages, or those that are named. If another consolidation runs, the report says so. Raises InvalidInput."""
    unknown = [name for name in stages if name not in STAGES]
    if unknown:
        raise InvalidInput(f"There is no stage {unknown[0]!r}.", advice=f"Choose among {', '.join(STAGES)}.")
    names = [name for name in STAGES if not stages or name in stages]
    started, began = engine.clock(), perf_counter()
    limit = engine.settings.life.seconds if seconds is None else seconds
    within = StageLimits(dry=dry, deadline=monotonic() + limit, batch=engine.settings.life.batch)
    if dry:
        results = await _run_stages(engine, within, names, tell)
        return ConsolidationReport(started, perf_counter() - began, dry=True, stages=tuple(results))
    async with claim(engine, CONSOLIDATION_JOB) as acquired:
        if not acquired:
            return ConsolidationReport(started, 0.0, notice="Another consolidation is under way.")
        notes = ArchiveNotes(engine, engine.new_id(), started)
        results = await _run_stages(engine, replace(within, before=notes.before), names, tell)
        report = ConsolidationReport(started, perf_counter() - began, stages=tuple(results))
        await save_report(engine, report, key=notes.key)
    return report


async def _run_stages(
    engine: Engine, within: StageLimits, names: Sequence[str], tell: Tell
) -> list[StageResult]:
    """Run the stages in the order of STAGES."""
    results: dict[str, StageResult] = {}
    if set(names) >= _SWEPT_STAGES:
        tell(names[0], 0, len(names))
        results = {
            stage.name: stage
            for stage in await _run_sweep(engine, within, share=len(_SWEPT_STAGES) / len(names))
        }
    runs = {name: run for name in names if (run := _find_stage_run(name, swept=name in results)) is not None}
    for number, (name, stage_run) in enumerate(runs.items()):
        tell(name, len(names) - len(runs) + number, len(names))
        stage = await _run(name, stage_run, engine, share_of_limits(within, 1 / (len(runs) - number)))
        results[name] = combine_stages(results[name], stage) if name in results else stage
    return [results[name] for name in names]


async def _run_sweep(engine: Engine, within: StageLimits, *, share: float) -> list[StageResult]:
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
    """Run one stage. A model that fails doesn't stop the other stages."""
    try:
        return await stage_run(engine, within)
    except ModelError as error:
        return StageResult(name, 0, f"failed: {error.message}")  # the next run tries again


def _find_stage_run(name: str, *, swept: bool) -> Run | None:
    """The function of a stage; after the sweep only its remaining work."""
    target = _AFTER_SWEEP.get(name) if swept else _STAGE_RUNS[name]
    if target is None:
        return None
    module, function = target.split(":")
    stage_run: Run = getattr(import_module(f"mindhold.lifecycle.{module}"), function)
    return stage_run


SHORTEST_SECONDS = 0.1  # also when the time is up: the run then stops after its first batch


async def run_consolidation_step(engine: Engine, within: StageLimits) -> StageResult:
    """Run a consolidation as one step of maintenance; it still saves its own report."""
    began = perf_counter()
    if not within.dry:  # a later step of the same run optimises the files
        await engine.store.set_cursor(OPTIMISED, engine.clock().isoformat())
    seconds = max(SHORTEST_SECONDS, within.deadline - within.ticks())
    report = await run_consolidation(engine, dry=within.dry, seconds=seconds)
    details = [f"{stage.name}: {stage.detail}" for stage in report.stages if stage.changed]
    return StageResult(
        "consolidate",
        report.changed,
        report.notice or "; ".join(details) or NOTHING,
        perf_counter() - began,
        more=report.more or bool(report.notice),
        looked=max((stage.looked for stage in report.stages), default=0),
        examples=tuple(example for stage in report.stages for example in stage.examples),
        counts=report.counts(),
    )
