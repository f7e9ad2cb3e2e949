"""What each job does. Every handler may be run again after a crash: it does only what is still missing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from recollect.engine.conversations import end_abandoned
from recollect.engine.core import Engine
from recollect.engine.embed import EMBED, embed_missing
from recollect.engine.relate import RELATE, relate
from recollect.jobs.runner import Handler
from recollect.model.errors import ModelError
from recollect.model.job import Job

KEPT = timedelta(days=14)
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


async def _tidy(engine: Engine, job: Job) -> Mapping[str, Any]:
    """Old jobs, entries that expired, and working memory whose conversation is over."""
    return {
        "dropped": await engine.store.drop_jobs(before=engine.clock() - KEPT),
        "ended": await end_abandoned(engine),
        "entries": await engine.store.drop_expired(engine.clock()),
    }


HANDLERS: Mapping[str, Handler] = {EMBED: _embed, RELATE: _relate, TIDY: _tidy}
