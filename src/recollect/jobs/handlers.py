"""What each job does. Every handler may be run again after a crash: it does only what is still missing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from recollect.engine.consolidate import JOB as CONSOLIDATE
from recollect.engine.consolidate import run as consolidate
from recollect.engine.conversations import REFLECT, end_abandoned
from recollect.engine.core import Engine
from recollect.engine.embed import EMBED, embed_missing
from recollect.engine.endings import queue_sweep, reflect_on_silent
from recollect.engine.evaluate import EVALUATE, evaluate
from recollect.engine.relate import RELATE, relate
from recollect.jobs.runner import Handler
from recollect.model.errors import ModelError
from recollect.model.job import Job
from recollect.ports.store import Enqueue

KEPT = timedelta(days=14)
PAUSE = timedelta(minutes=1)  # between two runs of what doesn't end in one
TIDY = "tidy-jobs"


async def _embed(engine: Engine, job: Job) -> Mapping[str, Any]:
    if engine.meaning.model is None or await engine.meaning.refusal() is not None:
        return {"embedded": 0}
    embedded = await embed_missing(engine)
    if engine.meaning.reason:
        raise ModelError(engine.meaning.reason)
    return {"embedded": embedded}


async def _relate(engine: Engine, job: Job) -> Mapping[str, Any]:
    return {"changes": await relate(engine, job.payload["ids"])}


async def _reflect(engine: Engine, job: Job) -> Mapping[str, Any]:
    swept = await reflect_on_silent(engine)
    return {"ended": swept.ended, "reflected": swept.reflected, "expired": swept.expired}


async def _evaluate(engine: Engine, job: Job) -> Mapping[str, Any]:
    done = await evaluate(engine)
    return {"judged": done.judged, "by_model": done.by_model, "doubtful": done.doubtful}


async def _consolidate(engine: Engine, job: Job) -> Mapping[str, Any]:
    """What is left when the time is up, or when somebody else was at it, is done a little later."""
    await engine.uses.flush()
    report = await consolidate(engine)
    if report.more or report.notice:
        now = engine.clock()
        again = Job(engine.new_id(), CONSOLIDATE, created=now, due=now + PAUSE, key=CONSOLIDATE)
        await engine.store.apply([Enqueue(again)])
    return {stage.name: stage.changed for stage in report.stages if stage.changed}


async def _tidy(engine: Engine, job: Job) -> Mapping[str, Any]:
    """Old jobs, entries that expired, and working memory whose conversation is over."""
    await queue_sweep(engine)
    return {
        "dropped": await engine.store.drop_jobs(before=engine.clock() - KEPT),
        "ended": await end_abandoned(engine),
        "entries": await engine.store.drop_expired(engine.clock()),
    }


HANDLERS: Mapping[str, Handler] = {
    EMBED: _embed,
    RELATE: _relate,
    REFLECT: _reflect,
    EVALUATE: _evaluate,
    TIDY: _tidy,
    CONSOLIDATE: _consolidate,
}
