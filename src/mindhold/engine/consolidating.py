"""A whole consolidation, as one step of maintenance."""

from __future__ import annotations

from time import perf_counter

from mindhold.engine.consolidate import run as consolidate
from mindhold.engine.consolidate.index import OPTIMISED
from mindhold.engine.consolidate.stage import NOTHING, Bounds, Stage
from mindhold.engine.core import Engine

SHORTEST = 0.1  # seconds, also for one who comes when the time is up: it stops at its first batch's end


async def run(engine: Engine, within: Bounds) -> Stage:
    """All its stages as one; its own report is kept as ever."""
    begun = perf_counter()
    if not within.dry:  # a later step of the same run sees to the files
        await engine.store.set_cursor(OPTIMISED, engine.clock().isoformat())
    seconds = max(SHORTEST, within.deadline - within.ticks())
    report = await consolidate(engine, dry=within.dry, seconds=seconds)
    told = [f"{stage.name}: {stage.detail}" for stage in report.stages if stage.changed]
    return Stage(
        "consolidate",
        report.changed,
        report.notice or "; ".join(told) or NOTHING,
        perf_counter() - begun,
        more=report.more or bool(report.notice),
        looked=max((stage.looked for stage in report.stages), default=0),
        examples=tuple(told for stage in report.stages for told in stage.examples),
        counts=report.counts(),
    )
