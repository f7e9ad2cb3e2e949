"""Stage 7: what was used often and matters much becomes an anchor."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from mindhold.engine.consolidate.stage import Bounds, Stage
from mindhold.engine.consolidate.sweep import Rule, Verdict, sweep_by
from mindhold.engine.core import Engine
from mindhold.model.life import Life, earns_anchor
from mindhold.model.memory import Memory


def _turn(memory: Memory, _now: datetime, life: Life) -> Verdict:
    if not earns_anchor(memory, life):
        return Verdict(memory)
    why = f"used {memory.uses} times, importance {memory.importance:.2f}"
    return Verdict(replace(memory, anchor=True), "anchored", why)


RULE = Rule("anchors", _turn)


async def run(engine: Engine, within: Bounds) -> Stage:
    """This stage alone."""
    return await sweep_by(engine, within, RULE)
