"""What is over and of no more use: jobs that ended long ago, entries that expired."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from time import perf_counter

from mindhold.engine.consolidate.stage import NOTHING, Bounds, Stage
from mindhold.engine.core import Engine
from mindhold.engine.endings import queue_sweep
from mindhold.model.job import JobState

KEPT = timedelta(days=14)
MOST = 10_000


async def tidy(engine: Engine) -> Mapping[str, int]:
    """How many of each; conversations that fell silent are looked at by a job of their own."""
    await queue_sweep(engine)
    return {
        "dropped": await engine.store.drop_jobs(before=engine.clock() - KEPT),
        "entries": await engine.store.drop_expired(engine.clock()),
    }


async def run(engine: Engine, within: Bounds) -> Stage:
    """As a step of maintenance."""
    begun = perf_counter()
    done = {"dropped": await _old(engine)} if within.dry else await tidy(engine)
    words = {"dropped": "old jobs dropped", "entries": "expired notes dropped"}
    counts = {words[what]: count for what, count in done.items() if count}
    detail = ", ".join(f"{count} {what}" for what, count in counts.items()) or NOTHING
    return Stage("tidy", sum(counts.values()), detail, perf_counter() - begun, counts=counts)


async def _old(engine: Engine) -> int:
    before = engine.clock() - KEPT
    ended = await engine.store.jobs(states=(JobState.DONE, JobState.DEAD), limit=MOST)
    return sum(job.finished is not None and job.finished < before for job in ended)
