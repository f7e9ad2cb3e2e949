"""By emptiness and repetition: what says nothing, and what says what another says already."""

from __future__ import annotations

from dataclasses import replace

from mindhold.engine.consolidate import duplicates
from mindhold.engine.consolidate.stage import NOTHING, Bounds, Stage
from mindhold.engine.core import Engine
from mindhold.engine.retention.recapping import Recaps
from mindhold.engine.text.noise import is_noise
from mindhold.model.memory import Memory

WHY = "an acknowledgement that says nothing"


def says_nothing(message: Memory) -> bool:
    """ "ok" and "thanks" are kept in a log as they were said, and not for ever: no summary has to stand for them."""
    return is_noise(message.content)


async def merge_repeated(engine: Engine, within: Bounds, _recaps: Recaps) -> Stage:
    """As a consolidation does: a number, name, date or negation that differs makes another fact."""
    stage = await duplicates.run(engine, within)
    count = stage.changed
    return replace(stage, detail=f"merged {count} that said the same" if count else NOTHING)
