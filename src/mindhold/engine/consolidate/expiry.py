"""Stage 3: what is cold and faded is archived, and what was archived long enough goes for good."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from mindhold.engine.consolidate.stage import Bounds, Stage
from mindhold.engine.consolidate.sweep import Rule, Verdict, sweep_by
from mindhold.engine.core import Engine
from mindhold.model.life import Fate, Life, fate_of
from mindhold.model.memory import Memory, Status


def _turn(memory: Memory, now: datetime, life: Life) -> Verdict:
    fate, why = fate_of(memory, now, life)
    if fate is Fate.STAYS:
        return Verdict(memory)
    if fate is Fate.ERASED:
        return Verdict(None, fate, why)
    away = replace(memory, status=Status.ARCHIVED, previous_status=memory.status, updated=now)
    return Verdict(away, fate, why)


RULE = Rule("expiry", _turn)


async def run(engine: Engine, within: Bounds) -> Stage:
    """This stage alone."""
    return await sweep_by(engine, within, RULE)
