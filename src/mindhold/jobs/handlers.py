"""What each job does. Every handler can run again after a crash: it does only what is still missing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from math import inf
from typing import Any

from mindhold.conversations.endings import reflect_on_silent
from mindhold.conversations.recap_queue import RECAP_JOB
from mindhold.conversations.sessions import REFLECT
from mindhold.engine import Engine
from mindhold.history.vectors import (
    EMBED_HISTORY_JOB,
    embed_history,
    history_model,
    own_job,
    queue_history_embedding,
    unembedded,
)
from mindhold.history.vectors import PAUSE as EMBED_PAUSE
from mindhold.jobs.runner import Handler, Unfinished
from mindhold.lifecycle.consolidation import CONSOLIDATION_JOB, STAGES, run_consolidation
from mindhold.lifecycle.maintenance import MAINTENANCE_JOB, run_nightly_turn, tidy
from mindhold.memories.duplicates import RELATE, relate
from mindhold.memories.embedding import EMBED, embed_missing, queue_embedding
from mindhold.memories.evaluation import EVALUATE, SECONDS, evaluate
from mindhold.model.errors import ModelError
from mindhold.model.job import Job
from mindhold.ports.store import Enqueue
from mindhold.projects.reindex import REINDEX, TURN, reindex

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
    if engine.vector_source.model is None or await engine.vector_source.refusal() is not None:
        return {"embedded": 0}
    embedded = await embed_missing(engine, enough=lambda: left() <= 0)
    if engine.vector_source.reason:
        raise ModelError(engine.vector_source.reason)
    if left() <= 0 and await engine.store.unembedded(engine.vector_source.model, limit=1):
        await queue_embedding(engine)
    return {"embedded": embedded}


async def _relate(engine: Engine, job: Job) -> Mapping[str, Any]:
    return {"changes": await relate(engine, job.payload["ids"])}


async def _reflect(engine: Engine, job: Job) -> Mapping[str, Any]:
    swept = await reflect_on_silent(engine)
    return {"ended": swept.ended, "reflected": swept.reflected, "expired": swept.expired}


async def _recap(engine: Engine, job: Job, *, left: Left = _no_end) -> Mapping[str, Any]:
    from mindhold.conversations.recap_creation import LONGEST_RUN, recap_due  # it needs much

    return await recap_due(engine, job.payload, seconds=min(LONGEST_RUN, left()))


async def _evaluate(engine: Engine, job: Job, *, left: Left = _no_end) -> Mapping[str, Any]:
    done = await evaluate(engine, seconds=min(SECONDS, max(SHORTEST, left())))
    return {"judged": done.judged, "by_model": done.by_model, "doubtful": done.doubtful}


async def _consolidate(engine: Engine, job: Job) -> Mapping[str, Any]:
    """What is left when the time is up, or when somebody else was at it, is done a little later: only those stages."""
    await engine.use_counter.flush()
    stages = [name for name in STAGES if name in job.payload.get("stages", ())]
    report = await run_consolidation(engine, stages=stages)
    if report.more or report.notice:
        now = engine.clock()
        left = [stage.name for stage in report.stages if stage.more] or stages
        key = MORE if left else CONSOLIDATION_JOB
        again = Job(
            engine.new_id(),
            CONSOLIDATION_JOB,
            created=now,
            due=now + PAUSE,
            key=key,
            payload={"stages": left},
        )
        await engine.store.apply([Enqueue(again)])
    return {stage.name: stage.changed for stage in report.stages if stage.changed}


async def _tidy(engine: Engine, job: Job) -> Mapping[str, Any]:
    """Old jobs, entries that expired, and working memory whose conversation is over."""
    return await tidy(engine)


async def _maintain(engine: Engine, job: Job) -> Mapping[str, Any] | Unfinished:
    """A turn of the night's. What else is due comes between two of them."""
    turned = await run_nightly_turn(engine, job)
    if turned.finished:
        return turned.result
    return Unfinished(turned.result, after=PAUSE if turned.waits else timedelta(0))


async def _embed_history(engine: Engine, job: Job) -> Mapping[str, Any]:
    """A turn, and another one a little later while passages are left."""
    embedded = await embed_history(engine, most=EMBED_MOST, seconds=EMBED_TURN)
    if history_model(engine) is not None and not embedded and engine.vector_source.reason:
        raise ModelError(engine.vector_source.reason)
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
    chosen = engine.settings.history
    if not (chosen.enabled and chosen.archive):  # any more
        return {"archived": 0}
    from mindhold.history.archive import archive_history
    from mindhold.history.index import FRESH_BYTES, FRESH_SECONDS, index_history

    if (await index_history(engine, most_bytes=FRESH_BYTES, most_seconds=FRESH_SECONDS)).left:
        engine.history_behind.set()
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
    CONSOLIDATION_JOB: _consolidate,
    MAINTENANCE_JOB: _maintain,
    EMBED_HISTORY_JOB: _embed_history,
    ARCHIVE_HISTORY: _archive_history,
}
# What one who waits may run when no time is left: each is short.
SHORT = (EVALUATE, RELATE, TIDY)
STOPPING = frozenset({REINDEX, MAINTENANCE_JOB})  # what looks between its steps whether somebody gave it up
OF_HISTORY = (EMBED_HISTORY_JOB, ARCHIVE_HISTORY)  # what concerns conversations, and no memory


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
