"""A consolidation: eleven stages in order, each within its limits; the next run continues where one stopped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from time import monotonic, perf_counter

from mindhold.engine import Engine
from mindhold.lifecycle.duplicates import DUPLICATES_STAGE, run_duplicates
from mindhold.lifecycle.stage_report import (
    NOTHING,
    ArchiveNotes,
    RunReport,
    StageLimits,
    StageResult,
    combine_stages,
    save_report,
    share_of_limits,
)
from mindhold.lifecycle.sweep import (
    EMBEDDINGS_STAGE,
    OPTIMISED,
    RULES,
    report_feedback,
    run_embeddings,
    sweep,
    sweep_by,
    tidy_index,
)
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
_SWEPT_STAGES = RULES.keys() | {DUPLICATES_STAGE}


async def run_consolidation(
    engine: Engine,
    *,
    dry: bool = False,
    seconds: float | None = None,
    stages: Sequence[str] = (),
    tell: Tell = lambda _name, _done, _total: None,
) -> RunReport:
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
        return RunReport(started, perf_counter() - began, dry=True, stages=tuple(results))
    async with claim(engine, CONSOLIDATION_JOB) as acquired:
        if not acquired:
            return RunReport(started, 0.0, notice="Another consolidation is under way.")
        notes = ArchiveNotes(engine, engine.new_id(), started)
        results = await _run_stages(engine, replace(within, before=notes.before), names, tell)
        report = RunReport(started, perf_counter() - began, stages=tuple(results))
        await save_report(engine, report, key=notes.key)
    return report


async def _run_stages(
    engine: Engine, within: StageLimits, names: Sequence[str], tell: Tell
) -> list[StageResult]:
    """Run the stages in the order of STAGES."""
    results: dict[str, StageResult] = {}
    remaining = list(names)
    if set(names) >= _SWEPT_STAGES:
        tell(names[0], 0, len(names))
        swept = await sweep(engine, share_of_limits(within, len(_SWEPT_STAGES) / len(names)))
        results = {stage.name: stage for stage in swept}
        remaining = [name for name in names if name not in results or name in _AFTER_SWEEP]
    for number, name in enumerate(remaining):
        tell(name, len(names) - len(remaining) + number, len(names))
        limits = share_of_limits(within, 1 / (len(remaining) - number))
        stage = await _run_stage(engine, limits, name, swept=name in results)
        results[name] = combine_stages(results[name], stage) if name in results else stage
    return [results[name] for name in names]


_AFTER_SWEEP: Mapping[str, Run] = {"feedback": report_feedback, "index": tidy_index}


async def _run_stage(engine: Engine, within: StageLimits, name: str, *, swept: bool) -> StageResult:
    """Run one stage; after the sweep only its remaining work. A model that fails doesn't stop the other stages."""
    began = perf_counter()
    try:
        if swept:
            stage = await _AFTER_SWEEP[name](engine, within)
        elif name in RULES:
            stage = await sweep_by(engine, within, name)
            if name in _AFTER_SWEEP:
                stage = combine_stages(stage, await _AFTER_SWEEP[name](engine, within))
        else:
            stage = await _other_stage(name)(engine, within)
    except ModelError as error:
        return StageResult(name, 0, f"failed: {error.message}")  # the next run tries again
    return replace(stage, seconds=perf_counter() - began)


def _other_stage(name: str) -> Run:
    from mindhold.lifecycle.contradiction_stages import run_contradictions, run_pending

    return {
        DUPLICATES_STAGE: run_duplicates,
        EMBEDDINGS_STAGE: run_embeddings,
        "contradictions": run_contradictions,
        "pending": run_pending,
    }[name]


SHORTEST_SECONDS = 0.1  # also when the time is up: the run then stops after its first batch


async def run_consolidation_step(engine: Engine, within: StageLimits) -> StageResult:
    """Run a consolidation as one step of maintenance; it still saves its own report."""
    if not within.dry:  # a later step of the same run optimises the files
        await engine.store.set_cursor(OPTIMISED, engine.clock().isoformat())
    seconds = max(SHORTEST_SECONDS, within.deadline - within.ticks())
    report = await run_consolidation(engine, dry=within.dry, seconds=seconds)
    details = [f"{stage.name}: {stage.detail}" for stage in report.stages if stage.changed]
    return StageResult(
        "consolidate",
        report.changed,
        report.notice or "; ".join(details) or NOTHING,
        more=report.more or bool(report.notice),
        looked=max((stage.looked for stage in report.stages), default=0),
        examples=tuple(example for stage in report.stages for example in stage.examples),
        counts=report.counts(),
    )
