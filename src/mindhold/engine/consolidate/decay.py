"""Stage 2: what rests loses importance; no period counts twice."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from mindhold.engine.consolidate.stage import Bounds, Stage
from mindhold.engine.consolidate.sweep import Rule, Verdict, sweep_by
from mindhold.engine.core import Engine
from mindhold.model.life import Life, faded
from mindhold.model.memory import Memory


def _turn(memory: Memory, now: datetime, life: Life) -> Verdict:
    left = faded(memory, now, life)
    seen = replace(memory, importance=left, decayed=max(now, memory.decayed or now))
    return Verdict(seen, "faded" if left != memory.importance else "")


RULE = Rule("decay", _turn)


async def run(engine: Engine, within: Bounds) -> Stage:
    """This stage alone."""
    return await sweep_by(engine, within, RULE)
