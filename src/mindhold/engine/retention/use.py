"""By use: what nobody uses goes by the rules of the one life, as a consolidation has them."""

from __future__ import annotations

from dataclasses import replace

from mindhold.engine.consolidate import expiry
from mindhold.engine.consolidate.stage import NOTHING, Bounds, Stage
from mindhold.engine.core import Engine
from mindhold.engine.retention.recapping import Recaps
from mindhold.model.life import Fate


async def put_unused_away(engine: Engine, within: Bounds, _recaps: Recaps) -> Stage:
    """Of that which is due; what a consolidation has done already is done."""
    stage = await expiry.run(engine, within)
    archived, erased = stage.counts.get(Fate.ARCHIVED, 0), stage.counts.get(Fate.ERASED, 0)
    said = [f"archived {archived} that nobody used"] if archived else []
    if erased:
        said.append(f"removed {erased} whose time in the archive was over, to a file in backups/")
    return replace(stage, detail="; ".join(said) or NOTHING)
