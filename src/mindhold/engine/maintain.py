"""Maintenance: everything that keeps a store in good order, in one run of steps.

Each step does what is still missing, so a run that was broken off is gone on with by the next. One that fails keeps no
other from running. Of all processes on a store one is at it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from importlib import import_module
from time import monotonic, perf_counter

from mindhold.engine.audit import record
from mindhold.engine.claims import claim
from mindhold.engine.consolidate import last_consolidated
from mindhold.engine.consolidate.stage import Bounds, Stage
from mindhold.engine.core import Engine
from mindhold.model.errors import InvalidInput, MindholdError

JOB = "maintain"
BACKUP, CONSOLIDATE = "backup", "consolidate"
# In their order, each imported when it runs: `async (engine, within) -> Stage`. A backup comes before anything goes.
STEPS: Mapping[str, str] = {
    BACKUP: "mindhold.engine.backup_schedule:run",
    "summaries": "mindhold.engine.recaps:run",
    CONSOLIDATE: "mindhold.engine.consolidating:run",
    "retention": "mindhold.engine.retention:run",
    "tidy": "mindhold.engine.tidying:run",
    "optimise": "mindhold.engine.optimising:run",
}
SCHEDULE = f"schedule:{JOB}"  # the cursor that says when the last night's run was due
MAINTAINED = "maintained"  # the one that says when all steps were last gone through
OTHER = "Another maintenance is under way."
EARLY = timedelta(
    hours=12
)  # a consolidation that is wanted every so many days is not put off by a night for minutes
Run = Callable[[Engine, Bounds], Awaitable[Stage]]
Tell = Callable[[str, int, int], None]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Step:
    """What a step did, or why it failed."""

    stage: Stage
    code: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Maintained:
    """Every step that ran. `notice` says why none did."""

    started: datetime
    seconds: float
    dry: bool = False
    steps: tuple[Step, ...] = ()
    notice: str = ""

    @property
    def failed(self) -> list[str]:
        """The names of those that did."""
        return [step.stage.name for step in self.steps if step.error]


async def run(
    engine: Engine,
    *,
    dry: bool = False,
    seconds: float | None = None,
    steps: Sequence[str] = (),
    besides: Sequence[str] = (),
    tell: Tell = lambda _name, _done, _total: None,
) -> Maintained:
    """All steps, or those that are named, without those `besides`. Raises InvalidInput, and the store's errors at its ends."""
    wanted = [name for name in chosen(steps) if name not in besides]
    started, begun = engine.clock(), perf_counter()
    limit = engine.policy.maintenance.seconds if seconds is None else seconds
    within = Bounds(dry=dry, deadline=monotonic() + limit, batch=engine.policy.life.batch)
    if dry:
        done = await _all(engine, within, wanted, tell)
        return Maintained(started, perf_counter() - begun, dry=True, steps=tuple(done))
    async with claim(engine, JOB) as mine:
        if not mine:
            return Maintained(started, 0.0, notice=OTHER)
        await engine.uses.flush()
        done = await _all(engine, within, wanted, tell)
        report = Maintained(started, perf_counter() - begun, steps=tuple(done))
        await keep(engine, report, whole=not steps)
    return report


def chosen(steps: Sequence[str]) -> list[str]:
    """Those that are named, in the order of all; all when none is. Raises InvalidInput."""
    unknown = [name for name in steps if name not in STEPS]
    if unknown:
        raise InvalidInput(f"There is no step {unknown[0]!r}.", advice=f"Choose among {', '.join(STEPS)}.")
    return [name for name in STEPS if not steps or name in steps]


async def scheduled(engine: Engine) -> list[str]:
    """The steps of a night's run: a consolidation only as often as life.consolidate_hours says."""
    hours, last = engine.policy.life.consolidate_hours, await last_consolidated(engine)
    due = hours > 0 and (last is None or engine.clock() - last >= timedelta(hours=hours) - EARLY)
    return [name for name in STEPS if name != CONSOLIDATE or due]


async def keep(engine: Engine, report: Maintained, *, whole: bool) -> None:
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
        await record(engine, JOB, operations=told, counts=counts)
    changed = sum(counts.values())
    log.info(
        "maintenance ended: %d steps, %d changes, %.1f s, failed: %s",
        len(report.steps),
        changed,
        report.seconds,
        ", ".join(report.failed) or "none",
    )


async def run_step(engine: Engine, name: str, within: Bounds) -> Step:
    """One of them, whatever it fails at. Logged without a word of what is remembered."""
    try:
        stage = await _found(name)(engine, within)
    except MindholdError as error:
        log.warning("maintenance: %s failed, %s", name, error.code)
        return Step(Stage(name, 0, ""), error.code, error.message)
    except Exception as error:  # a step may fail in any way; the others are not to suffer for it
        log.exception("maintenance: %s failed", name)
        return Step(Stage(name, 0, ""), "INTERNAL", f"{type(error).__name__}: {error}")
    told = "would change" if within.dry else "changed"
    more = ", more is left" if stage.more else ""
    log.info("maintenance: %s %s %d, %.1f s%s", name, told, stage.changed, stage.seconds, more)
    return Step(replace(stage, name=name))


async def _all(engine: Engine, within: Bounds, wanted: Sequence[str], tell: Tell) -> list[Step]:
    done: list[Step] = []
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
