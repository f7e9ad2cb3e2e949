"""Stage 6: worth by importance and use, worked out anew."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from math import isclose

from mindhold.engine.consolidate.stage import Bounds, Stage
from mindhold.engine.consolidate.sweep import Rule, Verdict, sweep_by
from mindhold.engine.core import Engine
from mindhold.model.life import Life, utility
from mindhold.model.memory import Memory, Status


def _turn(memory: Memory, _now: datetime, _life: Life) -> Verdict:
    worth = utility(memory.importance, memory.uses)
    if memory.status is not Status.ACTIVE or isclose(worth, memory.utility, rel_tol=1e-6):
        return Verdict(memory)
    return Verdict(replace(memory, utility=worth), "worked out anew")


RULE = Rule("utility", _turn)


async def run(engine: Engine, within: Bounds) -> Stage:
    """This stage alone."""
    return await sweep_by(engine, within, RULE)
