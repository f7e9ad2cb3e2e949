"""What each job does. Every handler may be run again after a crash: it does only what is still missing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from math import inf
from typing import Any

from mindhold.engine.consolidate import JOB as CONSOLIDATE
from mindhold.engine.consolidate import STAGES
from mindhold.engine.consolidate import run as consolidate
from mindhold.engine.conversations import REFLECT
from mindhold.engine.core import Engine
from mindhold.engine.embed import EMBED, embed_missing, queue_embedding
from mindhold.engine.endings import reflect_on_silent
from mindhold.engine.evaluate import EVALUATE, SECONDS, evaluate
from mindhold.engine.history.vectors import (
    EMBED_HISTORY,
    embed_history,
    history_model,
    own_job,
    queue_history_embedding,
    unembedded,
)
from mindhold.engine.history.vectors import PAUSE as EMBED_PAUSE
from mindhold.engine.maintain import JOB as MAINTAIN
from mindhold.engine.nightly import turn
from mindhold.engine.recap_queue import RECAP_JOB
from mindhold.engine.reindex import REINDEX, TURN, reindex
from mindhold.engine.relate import RELATE, relate
from mindhold.engine.tidying import tidy
from mindhold.jobs.runner import Handler, Unfinished
from mindhold.model.errors import ModelError
from mindhold.model.job import Job
from mindhold.ports.store import Enqueue

PAUSE = timedelta(minutes=1)  # between two runs of what doesn't end in one
MORE = "consolidate:more"  # the key of a run that goes on with some stages, beside the one for all
SHORTEST = 1.0  # seconds that even one for whom no time is left may take
TIDY = "tidy-jobs"
ARCHIVE_HISTORY = "history-archive"
EMBED_TURN = 3.0  # seconds, about a tenth of the time: questions come first
EMBED_MOST = 512  # passages in a turn
Left = Callable[[], float]  # seconds
log = logging.getLogger(__name__)


def _no_end() -> float:
    return inf


async def _embed(engine: Engine, job: Job, *, left: Left = _no_end) -> Mapping[str, Any]:
    if engine.meaning.model is None or await engine.meaning.refusal() is not None:
        return {"embedded": 0}
    embedded = await embed_missing(engine, enough=lambda: left() <= 0)
    if engine.meaning.reason:
        raise ModelError(engine.meaning.reason)
    if left() <= 0 and await engine.store.unembedded(engine.meaning.model, limit=1):
        await queue_embedding(engine)
    return {"embedded": embedded}


async def _relate(engine: Engine, job: Job) -> Mapping[str, Any]:
    return {"changes": await relate(engine, job.payload["ids"])}


async def _reflect(engine: Engine, job: Job) -> Mapping[str, Any]:
    swept = await reflect_on_silent(engine)
    return {"ended": swept.ended, "reflected": swept.reflected, "expired": swept.expired}


async def _recap(engine: Engine, job: Job, *, left: Left = _no_end) -> Mapping[str, Any]:
    from mindhold.engine.recaps.running import LONGEST_RUN, recap_due  # it needs much

    return await recap_due(engine, job.payload, seconds=min(LONGEST_RUN, left()))


async def _evaluate(engine: Engine, job: Job, *, left: Left = _no_end) -> Mapping[str, Any]:
    done = await evaluate(engine, seconds=min(SECONDS, max(SHORTEST, left())))
    return {"judged": done.judged, "by_model": done.by_model, "doubtful": done.doubtful}


async def _consolidate(engine: Engine, job: Job) -> Mapping[str, Any]:
    """What is left when the time is up, or when somebody else was at it, is done a little later: only those stages."""
    await engine.uses.flush()
    stages = [name for name in STAGES if name in job.payload.get("stages", ())]
    report = await consolidate(engine, stages=stages)
    if report.more or report.notice:
        now = engine.clock()
        left = [stage.name for stage in report.stages if stage.more] or stages
        key = MORE if left else CONSOLIDATE
        again = Job(
            engine.new_id(), CONSOLIDATE, created=now, due=now + PAUSE, key=key, payload={"stages": left}
        )
        await engine.store.apply([Enqueue(again)])
    return {stage.name: stage.changed for stage in report.stages if stage.changed}


async def _tidy(engine: Engine, job: Job) -> Mapping[str, Any]:
    """Old jobs, entries that expired, and working memory whose conversation is over."""
    return await tidy(engine)


async def _maintain(engine: Engine, job: Job) -> Mapping[str, Any] | Unfinished:
    """A turn of the night's. What else is due comes between two of them."""
    turned = await turn(engine, job)
    if turned.finished:
        return turned.result
    return Unfinished(turned.result, after=PAUSE if turned.waits else timedelta(0))


async def _embed_history(engine: Engine, job: Job) -> Mapping[str, Any]:
    """A turn, and another one a little later while passages are left."""
    embedded = await embed_history(engine, most=EMBED_MOST, seconds=EMBED_TURN)
    if history_model(engine) is not None and not embedded and engine.meaning.reason:
        raise ModelError(engine.meaning.reason)
    if await unembedded(engine):
        await queue_history_embedding(engine, after=EMBED_PAUSE)
    return {"embedded": embedded}


async def _reindex(engine: Engine, job: Job, *, left: Left = _no_end) -> Mapping[str, Any] | Unfinished:
    """A turn. Another one follows as soon as nothing else is due."""
    turned = await reindex(engine, job, seconds=min(TURN, max(SHORTEST, left())))
    embedded = int((job.result or {}).get("embedded", 0)) + turned.embedded
    if not turned.finished:
        return Unfinished({"embedded": embedded})
    return {"embedded": embedded} | ({"cancelled": True} if turned.cancelled else {})


async def _archive_history(engine: Engine, job: Job) -> Mapping[str, Any]:
    """Of what is indexed; more than a little that isn't yet is left to the background, which archives it too."""
    chosen = engine.policy.history
    if not (chosen.enabled and chosen.archive):  # any more
        return {"archived": 0}
    from mindhold.engine.history.archiving import archive_history
    from mindhold.engine.history.indexing import FRESH_BYTES, FRESH_SECONDS, index_history

    if (await index_history(engine, most_bytes=FRESH_BYTES, most_seconds=FRESH_SECONDS)).left:
        engine.behind.set()
    done = await archive_history(engine)
    if done.busy:
        now, name = engine.clock(), own_job(engine, ARCHIVE_HISTORY)
        again = Job(engine.new_id(), name, created=now, due=now + PAUSE, key=name)
        await engine.store.apply([Enqueue(again)])
    if done.trouble:
        log.warning("history: %s", done.trouble)
    return {
        "archived": done.conversations,
        "evicted": len(done.evicted),
        "too_big": len(done.too_big),
        "problems": len(done.problems),
    }


HANDLERS: Mapping[str, Handler] = {
    EMBED: _embed,
    REINDEX: _reindex,
    RELATE: _relate,
    REFLECT: _reflect,
    RECAP_JOB: _recap,
    EVALUATE: _evaluate,
    TIDY: _tidy,
    CONSOLIDATE: _consolidate,
    MAINTAIN: _maintain,
    EMBED_HISTORY: _embed_history,
    ARCHIVE_HISTORY: _archive_history,
}
# What one who waits may run when no time is left: each is short.
SHORT = (EVALUATE, RELATE, TIDY)
STOPPING = frozenset({REINDEX, MAINTAIN})  # what looks between its steps whether somebody gave it up
OF_HISTORY = (EMBED_HISTORY, ARCHIVE_HISTORY)  # what concerns conversations, and no memory


def handlers_of(engine: Engine) -> Mapping[str, Handler]:
    """Those of conversations by the names that they have in this home; none where its conversations are withheld."""
    others = {name: handler for name, handler in HANDLERS.items() if name not in OF_HISTORY}
    if engine.history.withheld:
        return others
    return others | {own_job(engine, name): HANDLERS[name] for name in OF_HISTORY}


def handlers_within(left: Left) -> Mapping[str, Handler]:
    """For one who waits: what takes long stops when no time is left, and queues the rest."""
    return {
        **HANDLERS,
        EMBED: partial(_embed, left=left),
        EVALUATE: partial(_evaluate, left=left),
        REINDEX: partial(_reindex, left=left),
        RECAP_JOB: partial(_recap, left=left),
    }
