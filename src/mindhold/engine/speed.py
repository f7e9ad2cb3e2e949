"""How fast texts are embedded here, as measured, so that it can be told how long many will take."""

from __future__ import annotations

import math

from mindhold.engine.core import Engine
from mindhold.engine.keys import fingerprint
from mindhold.model.entry import Entry

SPEED = "reindex:speed"  # the drawer: by model, how many texts a second
LEAST_COUNTED = 64
LEAST_MEASURED = 1.0  # seconds of a turn: few texts may have been embedded a moment ago, and be known
USUAL_SPEED = 50.0  # texts a second, of a model that was never measured


async def seconds_for(engine: Engine, model: str, count: int) -> int:
    entry = await engine.ledger.entry(SPEED, fingerprint(model), now=engine.clock())
    speed = float(entry.value["speed"]) if entry is not None else USUAL_SPEED
    return math.ceil(count / speed)


async def note_speed(engine: Engine, model: str, count: int, seconds: float) -> None:
    """The last turns count most: the machine may be busier by now, or the texts longer."""
    if count < LEAST_COUNTED or seconds < LEAST_MEASURED:
        return
    place, now = fingerprint(model), engine.clock()
    entry = await engine.ledger.entry(SPEED, place, now=now)
    measured = count / seconds
    speed = measured if entry is None else (float(entry.value["speed"]) + measured) / 2
    await engine.ledger.put_entry(Entry(SPEED, place, {"speed": round(speed, 3)}, now))
