"""Stage 1: hot, warm, cold by age and use."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from mindhold.engine.consolidate.stage import Bounds, Stage
from mindhold.engine.consolidate.sweep import Rule, Verdict, sweep_by
from mindhold.engine.core import Engine
from mindhold.model.life import Life, tier_at
from mindhold.model.memory import Memory


def _turn(memory: Memory, now: datetime, life: Life) -> Verdict:
    tier = tier_at(memory, now, life)
    if tier is memory.tier:
        return Verdict(memory)
    return Verdict(replace(memory, tier=tier), f"from {memory.tier} to {tier}")


RULE = Rule("tiers", _turn)


async def run(engine: Engine, within: Bounds) -> Stage:
    """This stage alone."""
    return await sweep_by(engine, within, RULE)
