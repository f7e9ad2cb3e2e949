"""The night's maintenance, as a job: in turns, so that nothing else waits for it, and on from where it was.

How far it is stands in the job, so that another process goes on when the one that began was ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic, perf_counter
from typing import Any

from mindhold.engine.claims import claim
from mindhold.engine.consolidate.stage import Bounds, Stage, together
from mindhold.engine.core import Engine
from mindhold.engine.maintain import JOB, STEPS, Maintained, Step, keep, run_step, scheduled
from mindhold.engine.progress import Progress, is_to_stop, note_progress
from mindhold.model.job import Job

TURN = 10.0  # seconds
SHORT_TURN = 2.0  # of them while somebody calls
HELD = timedelta(minutes=2)  # by one that was killed in its turn
LEFT, DONE, BEGUN = "left", "done", "begun"  # in the job's result


@dataclass(frozen=True, slots=True)
class Turned:
    """How far it is. `waits`: somebody else is at it, who asked for it by hand or was killed."""

    result: Mapping[str, Any]
    finished: bool = True
    waits: bool = False


async def turn(engine: Engine, job: Job) -> Turned:
    """One step, or a part of it. A step that takes its share of the time goes on the next night."""
    so_far = job.result or {
        LEFT: await scheduled(engine),
        DONE: {},
        BEGUN: engine.clock().isoformat(),
    }
    left = [name for name in so_far[LEFT] if name in STEPS]
    done = {name: _step(name, told) for name, told in so_far[DONE].items()}
    if await is_to_stop(engine, job.id):
        return Turned({**_result(so_far, [], done), "cancelled": True})
    async with claim(engine, JOB, held=HELD) as mine:
        if not mine:
            return Turned(_result(so_far, left, done), finished=False, waits=True)
        if left:
            await engine.uses.flush()
            name, begun = left[0], perf_counter()
            before = done.get(name)
            share = engine.policy.maintenance.seconds / (len(left) + len(done) - (name in done))
            spent = before.stage.seconds if before else 0.0
            step = await run_step(engine, name, _bounds(engine, max(0.0, share - spent)))
            done[name] = step = _joined(before, step, seconds=perf_counter() - begun)
            if not step.stage.more or step.stage.seconds >= share:
                del left[0]
        await note_progress(engine, job.id, Progress(len(done) - bool(left), len(done) + len(left)))
        if not left:
            await keep(engine, _report(engine, so_far, done), whole=True)
    return Turned(_result(so_far, left, done), finished=not left)


def _bounds(engine: Engine, seconds: float) -> Bounds:
    quiet = engine.quiet.lasts(engine.clock(), engine.policy.maintenance.idle)
    turn = min(seconds, TURN if quiet else SHORT_TURN)
    return Bounds(deadline=monotonic() + turn, batch=engine.policy.life.batch)


def _joined(before: Step | None, step: Step, *, seconds: float) -> Step:
    """What it did in this turn and in those before, with the time that it had."""
    earlier = Stage(step.stage.name, 0, "") if before is None else before.stage
    stage = together(earlier, step.stage)
    counts = {what: earlier.counts.get(what, 0) + step.stage.counts.get(what, 0) for what in stage.counts}
    told = Stage(
        stage.name,
        stage.changed,
        step.stage.detail,
        earlier.seconds + seconds,
        more=step.stage.more,
        counts=counts,
    )
    return Step(told, step.code, step.error)


def _report(engine: Engine, so_far: Mapping[str, Any], done: Mapping[str, Step]) -> Maintained:
    seconds = sum(step.stage.seconds for step in done.values())
    return Maintained(datetime.fromisoformat(so_far[BEGUN]), seconds, steps=tuple(done.values()))


def _result(so_far: Mapping[str, Any], left: list[str], done: Mapping[str, Step]) -> dict[str, Any]:
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


def _step(name: str, told: Mapping[str, Any]) -> Step:
    stage = Stage(
        name,
        int(told["changed"]),
        told["detail"],
        float(told["seconds"]),
        more=bool(told["more"]),
        counts=told["counts"] or {},
    )
    return Step(stage, told["code"], told["error"])
