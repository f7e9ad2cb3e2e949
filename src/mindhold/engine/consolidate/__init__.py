"""Upkeep of what is remembered: eleven stages, one module each.

Those that judge record by record share one sweep over what is due; the others go on from what they find undone. Each
stops at its bounds and goes on from there the next time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from importlib import import_module
from time import monotonic, perf_counter

from mindhold.engine.claims import claim
from mindhold.engine.consolidate.report import Notes, Report, keep, last_consolidated, reports
from mindhold.engine.consolidate.stage import Bounds, Stage, Told, part_of, together
from mindhold.engine.core import Engine
from mindhold.model.errors import InvalidInput, ModelError

__all__ = ["JOB", "STAGES", "Bounds", "Report", "Stage", "Told", "last_consolidated", "reports", "run"]

JOB = "consolidate"
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
Run = Callable[[Engine, Bounds], Awaitable[Stage]]
Tell = Callable[[str, int, int], None]
_SWEPT = frozenset({"tiers", "decay", "expiry", "duplicates", "utility", "anchors", "feedback", "index"})


async def run(
    engine: Engine,
    *,
    dry: bool = False,
    seconds: float | None = None,
    stages: Sequence[str] = (),
    tell: Tell = lambda _name, _done, _total: None,
) -> Report:
    """All stages, or those that are named. Of two at once one does it, and the other says so. Raises InvalidInput."""
    unknown = [name for name in stages if name not in STAGES]
    if unknown:
        raise InvalidInput(f"There is no stage {unknown[0]!r}.", advice=f"Choose among {', '.join(STAGES)}.")
    wanted = [name for name in STAGES if not stages or name in stages]
    started, begun = engine.clock(), perf_counter()
    limit = engine.policy.life.seconds if seconds is None else seconds
    within = Bounds(dry=dry, deadline=monotonic() + limit, batch=engine.policy.life.batch)
    if dry:
        done = await _done(engine, within, wanted, tell)
        return Report(started, perf_counter() - begun, dry=True, stages=tuple(done))
    async with claim(engine, JOB) as mine:
        if not mine:
            return Report(started, 0.0, notice="Another consolidation is under way.")
        notes = Notes(engine, engine.new_id(), started)
        done = await _done(engine, replace(within, before=notes.before), wanted, tell)
        report = Report(started, perf_counter() - begun, stages=tuple(done))
        await keep(engine, report, key=notes.key)
    return report


async def _done(engine: Engine, within: Bounds, wanted: Sequence[str], tell: Tell) -> list[Stage]:
    """In the order of STAGES."""
    done: dict[str, Stage] = {}
    if set(wanted) >= _SWEPT:
        tell(wanted[0], 0, len(wanted))
        done = {stage.name: stage for stage in await _swept(engine, within, share=len(_SWEPT) / len(wanted))}
    runs = {name: found for name in wanted if (found := _run_of(name, swept=name in done)) is not None}
    for number, (name, stage_run) in enumerate(runs.items()):
        tell(name, len(wanted) - len(runs) + number, len(wanted))
        stage = await _run(name, stage_run, engine, part_of(within, 1 / (len(runs) - number)))
        done[name] = together(done[name], stage) if name in done else stage
    return [done[name] for name in wanted]


async def _swept(engine: Engine, within: Bounds, *, share: float) -> list[Stage]:
    from mindhold.engine.consolidate import anchors, decay, expiry, feedback, index, sweep, tiers, utility

    rules = [module.RULE for module in (tiers, decay, expiry, utility, anchors, feedback, index)]
    return await sweep.sweep(engine, part_of(within, share), rules, whole=True)


async def _run(name: str, stage_run: Run, engine: Engine, within: Bounds) -> Stage:
    """A model that fails keeps no other stage from its work."""
    try:
        return await stage_run(engine, within)
    except ModelError as error:
        return Stage(name, 0, f"failed: {error.message}")  # the next run tries again


def _run_of(name: str, *, swept: bool) -> Run | None:
    """What a stage does; after the sweep, what it has to do besides."""
    module = import_module(f"mindhold.engine.consolidate.{name}")
    besides = {"feedback": "report", "index": "tidy"}
    found: Run | None = getattr(module, besides.get(name, "") if swept else "run", None)
    return found
