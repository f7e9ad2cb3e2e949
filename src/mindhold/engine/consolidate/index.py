"""Stage 11: the store put in order, and what has become stale."""

from __future__ import annotations

from datetime import datetime, timedelta
from time import perf_counter

from mindhold.engine.consolidate.stage import STALE, Bounds, Stage, together
from mindhold.engine.consolidate.sweep import Rule, Verdict, sweep_by
from mindhold.engine.core import Engine
from mindhold.model.life import Life, is_stale, unused_since
from mindhold.model.memory import Memory

OPTIMISED = "optimised"  # the cursor that says when
OPTIMISE_EVERY = timedelta(hours=20)  # so that a daily run never just misses it


def _turn(memory: Memory, now: datetime, life: Life) -> Verdict:
    if not is_stale(memory, now, life):
        return Verdict(memory)
    return Verdict(memory, STALE, f"unused for {(now - unused_since(memory)).days} days")


RULE = Rule("index", _turn)


async def run(engine: Engine, within: Bounds) -> Stage:
    """This stage alone."""
    return together(await sweep_by(engine, within, RULE), await tidy(engine, within))


async def tidy(engine: Engine, within: Bounds) -> Stage:
    """Entries that expired, the store's own files. Conversations that fell silent have a job of their own.

    The keyword sets beside the store need nothing: they follow each write, and are made anew every day.
    """
    if within.dry:
        return Stage(RULE.name, 0, "")
    begun = perf_counter()
    done = {
        "expired entries dropped": await engine.store.drop_expired(engine.clock()),
        "bytes freed": await _optimised(engine),
    }
    counts = {what: count for what, count in done.items() if count}
    changed = sum(1 if what == "bytes freed" else count for what, count in counts.items())
    detail = ", ".join(f"{count} {what}" for what, count in counts.items())
    return Stage(RULE.name, changed, detail, perf_counter() - begun, counts=counts)


async def _optimised(engine: Engine) -> int:
    """It costs the same however little was changed: once a day is enough."""
    now, last = engine.clock(), await engine.store.cursor(OPTIMISED)
    if last is not None and timedelta(0) <= now - datetime.fromisoformat(last) < OPTIMISE_EVERY:
        return 0
    await engine.store.set_cursor(OPTIMISED, now.isoformat())
    return await engine.store.optimise()
