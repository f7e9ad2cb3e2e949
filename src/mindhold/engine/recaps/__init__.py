"""Conversations of the log in short: made when they end or grow long, traceable to their messages, and merged when they are old."""

from __future__ import annotations

from collections import Counter
from time import perf_counter

from mindhold.engine.consolidate.stage import MOST_TOLD, NOTHING, Bounds, Stage, Told
from mindhold.engine.core import Engine
from mindhold.engine.recaps.covering import covering
from mindhold.engine.recaps.making import recap_conversation
from mindhold.engine.recaps.merging import merge_old
from mindhold.engine.recaps.missed import missed
from mindhold.engine.recaps.record import Recap

__all__ = ["NAME", "Recap", "covering", "recap_conversation", "run"]

NAME = "summaries"


async def run(engine: Engine, within: Bounds) -> Stage:
    """Summarise conversations that were missed, then merge what is old. Run again at once it does nothing."""
    begun = perf_counter()
    told: list[Told] = []
    looked = 0
    if engine.policy.recaps.enabled:
        async for one in missed(engine, within):
            looked += 1
            told += filter(None, [one])
        async for merged in merge_old(engine, within):
            told += merged
            looked += len(merged)
    counts = Counter(one.what for one in told)
    return Stage(
        NAME,
        changed=len(told),
        detail=", ".join(f"{count} {what}" for what, count in counts.items()) or NOTHING,
        seconds=perf_counter() - begun,
        more=within.over,
        looked=looked,
        examples=tuple(told[:MOST_TOLD]),
        counts=dict(counts),
    )
