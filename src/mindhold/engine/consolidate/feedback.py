"""Stage 10: what was said of each tool, and what was shown in vain too often."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from time import perf_counter

from mindhold.engine.consolidate.stage import Bounds, Stage, together
from mindhold.engine.consolidate.sweep import Rule, Verdict, sweep_by
from mindhold.engine.core import Engine
from mindhold.engine.feedback import feedback_report
from mindhold.model.life import Life, sunk
from mindhold.model.memory import Memory, Status


def _turn(memory: Memory, _now: datetime, _life: Life) -> Verdict:
    low = sunk(memory)
    if memory.status is not Status.ACTIVE or low == memory.usefulness:
        return Verdict(memory)
    return Verdict(replace(memory, usefulness=low), "sunk", f"shown {memory.shown} times and never used")


RULE = Rule("feedback", _turn)


async def run(engine: Engine, within: Bounds) -> Stage:
    """This stage alone."""
    return together(await sweep_by(engine, within, RULE), await report(engine, within))


async def report(engine: Engine, _within: Bounds) -> Stage:
    """How useful each tool was found to be."""
    begun = perf_counter()
    found = await feedback_report(engine, agent="system")
    told = [
        f"{tool} {one.whole.relevant} of {one.whole.count} relevant, {one.whole.sufficient} sufficient"
        for tool, one in found.tools.items()
    ]
    if found.tasks.count:
        told.append(f"{found.tasks.succeeded} of {found.tasks.count} tasks succeeded")
    return Stage(RULE.name, 0, "; ".join(told), perf_counter() - begun)
