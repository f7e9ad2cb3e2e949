"""The handlers of background jobs, by the job's name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import Any

from mindhold.conversations.endings import reflect_on_silent
from mindhold.conversations.recap_queue import RECAP_JOB
from mindhold.conversations.sessions import REFLECT
from mindhold.engine import Engine
from mindhold.history.passages import (
    EMBED_HISTORY_JOB,
    embed_history,
    history_model,
    own_job,
    queue_history_embedding,
    unembedded,
)
from mindhold.history.passages import PAUSE as EMBED_PAUSE
from mindhold.jobs.progress import PAUSE, Handler, Unfinished
from mindhold.lifecycle.consolidation import CONSOLIDATION_JOB, STAGES, run_consolidation
from mindhold.lifecycle.maintenance import MAINTENANCE_JOB, run_nightly_turn, tidy
from mindhold.memories.duplicates import RELATE, relate
from mindhold.memories.embedding import EMBED, embed_missing, queue_embedding
from mindhold.memories.evaluation import EVALUATE, SECONDS, evaluate
from mindhold.memories.language import note_language
from mindhold.model.errors import ModelError
from mindhold.model.job import Job
from mindhold.ports.store import Enqueue
from mindhold.projects.reindex import REINDEX, TURN, reindex

CONTINUE_KEY = "consolidate:more"  # the key of a run that continues some stages
SHORTEST = 1.0  # seconds for a job even when no time is left
TIDY = "tidy-jobs"
ARCHIVE_HISTORY = "history-archive"
EMBED_TURN = 3.0  # seconds, about a tenth of the time: requests come first
EMBED_MOST = 512  # passages per turn
Left = Callable[[], float]  # seconds left
log = logging.getLogger(__name__)


def _no_end() -> float:
    return inf


async def _embed(engine: Engine, job: Job, *, left: Left = _no_end) -> Mapping[str, Any]:
    if advice := await note_language(engine):
        log.warning(advice)
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
    counts = await reflect_on_silent(engine)
    return {"ended": counts.ended, "reflected": counts.reflected, "expired": counts.expired}


async def _recap(engine: Engine, job: Job, *, left: Left = _no_end) -> Mapping[str, Any]:
    from mindhold.conversations.recap_creation import LONGEST_RUN, run_recap_job  # slow to import

    return await run_recap_job(engine, job.payload, seconds=min(LONGEST_RUN, left()))


async def _evaluate(engine: Engine, job: Job, *, left: Left = _no_end) -> Mapping[str, Any]:
    result = await evaluate(engine, seconds=min(SECONDS, max(SHORTEST, left())))
    return {"judged": result.judged, "by_model": result.by_model, "doubtful": result.doubtful}


async def _consolidate(engine: Engine, job: Job) -> Mapping[str, Any]:
    """Consolidate. What is left when the time is up, or when another process was consolidating, is queued again."""
    await engine.use_counter.flush()
    stages = [name for name in STAGES if name in job.payload.get("stages", ())]
    report = await run_consolidation(engine, stages=stages)
    if report.more or report.notice:
        now = engine.clock()
        remaining = [stage.name for stage in report.stages if stage.more] or stages
        key = CONTINUE_KEY if remaining else CONSOLIDATION_JOB
        next_job = Job(
            engine.new_id(),
            CONSOLIDATION_JOB,
            created=now,
            due=now + PAUSE,
            key=key,
            payload={"stages": remaining},
        )
        await engine.store.apply([Enqueue(next_job)])
    return {stage.name: stage.changed for stage in report.stages if stage.changed}


async def _tidy(engine: Engine, job: Job) -> Mapping[str, Any]:
    return await tidy(engine)


async def _embed_history(engine: Engine, job: Job) -> Mapping[str, Any]:
    """Embed for one turn, and queue another one while passages are left."""
    embedded = await embed_history(engine, most=EMBED_MOST, seconds=EMBED_TURN)
    if history_model(engine) is not None and not embedded and engine.vector_source.reason:
        raise ModelError(engine.vector_source.reason)
    if await unembedded(engine):
        await queue_history_embedding(engine, after=EMBED_PAUSE)
    return {"embedded": embedded}


async def _reindex(engine: Engine, job: Job, *, left: Left = _no_end) -> Mapping[str, Any] | Unfinished:
    """Reindex for one turn; the next one follows when nothing else is due."""
    return await reindex(engine, job, seconds=min(TURN, max(SHORTEST, left())))


async def _archive_history(engine: Engine, job: Job) -> Mapping[str, Any]:
    """Archive what is indexed. A larger backlog is left to the background, which archives it too."""
    settings = engine.settings.history
    if not (settings.enabled and settings.archive):  # since the job was queued
        return {"archived": 0}
    from mindhold.history.archive import archive_history
    from mindhold.history.index import FRESH_BYTES, FRESH_SECONDS, IndexHistoryInput, index_history

    request = IndexHistoryInput(most_bytes=FRESH_BYTES, most_seconds=FRESH_SECONDS, workers=0)
    if (await index_history(engine, request)).left:
        engine.history_behind.set()
    result = await archive_history(engine)
    if result.busy:
        now, name = engine.clock(), own_job(engine, ARCHIVE_HISTORY)
        next_job = Job(engine.new_id(), name, created=now, due=now + PAUSE, key=name)
        await engine.store.apply([Enqueue(next_job)])
    if result.trouble:
        log.warning("history: %s", result.trouble)
    return {
        "archived": result.conversations,
        "evicted": len(result.evicted),
        "too_big": len(result.too_big),
        "problems": len(result.problems),
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
    MAINTENANCE_JOB: run_nightly_turn,  # other due jobs run between turns
    EMBED_HISTORY_JOB: _embed_history,
    ARCHIVE_HISTORY: _archive_history,
}
# Short jobs, which a waiting caller may run when no time is left.
SHORT_JOBS = (EVALUATE, RELATE, TIDY)
# Jobs that check between their steps whether they were cancelled.
CANCELLABLE_JOBS = frozenset({REINDEX, MAINTENANCE_JOB})
HISTORY_JOBS = (EMBED_HISTORY_JOB, ARCHIVE_HISTORY)  # jobs about conversations, not memories


def handlers_of(engine: Engine) -> Mapping[str, Handler]:
    """The handlers, with history jobs under the names of this home; none of those where history is withheld."""
    others = {name: handler for name, handler in HANDLERS.items() if name not in HISTORY_JOBS}
    if engine.history.withheld:
        return others
    return others | {own_job(engine, name): HANDLERS[name] for name in HISTORY_JOBS}


def handlers_within(left: Left) -> Mapping[str, Handler]:
    """The handlers for a waiting caller: long jobs stop when no time is left and queue the rest."""
    return {
        **HANDLERS,
        EMBED: partial(_embed, left=left),
        EVALUATE: partial(_evaluate, left=left),
        REINDEX: partial(_reindex, left=left),
        RECAP_JOB: partial(_recap, left=left),
    }
