"""Stage 11: the store put in order, and what has become stale."""

from __future__ import annotations

from datetime import datetime
from time import perf_counter

from recollect.engine.consolidate.stage import STALE, Bounds, Stage, together
from recollect.engine.consolidate.sweep import Rule, Verdict, sweep_by
from recollect.engine.conversations import end_abandoned
from recollect.engine.core import Engine
from recollect.model.life import Life, is_stale, unused_since
from recollect.model.memory import Memory


def _turn(memory: Memory, now: datetime, life: Life) -> Verdict:
    if not is_stale(memory, now, life):
        return Verdict(memory)
    return Verdict(memory, STALE, f"unused for {(now - unused_since(memory)).days} days")


RULE = Rule("index", _turn)


async def run(engine: Engine, within: Bounds) -> Stage:
    """This stage alone."""
    return together(await sweep_by(engine, within, RULE), await tidy(engine, within))


async def tidy(engine: Engine, within: Bounds) -> Stage:
    """Working memory whose conversation is over, entries that expired, the store's own files.

    The keyword sets beside the store need nothing: they follow each write, and are made anew every day.
    """
    if within.dry:
        return Stage(RULE.name, 0, "")
    begun = perf_counter()
    done = {
        "memories ended with their conversations": await end_abandoned(engine),
        "expired entries dropped": await engine.store.drop_expired(engine.clock()),
        "bytes freed": await engine.store.optimise(),
    }
    counts = {what: count for what, count in done.items() if count}
    changed = sum(1 if what == "bytes freed" else count for what, count in counts.items())
    detail = ", ".join(f"{count} {what}" for what, count in counts.items())
    return Stage(RULE.name, changed, detail, perf_counter() - begun, counts=counts)
