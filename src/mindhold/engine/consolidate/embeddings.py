"""Stage 5: vectors for what has none."""

from __future__ import annotations

from time import perf_counter

from mindhold.engine.consolidate.stage import NOTHING, Bounds, Stage
from mindhold.engine.core import Engine
from mindhold.engine.embed import embed_missing

NAME = "embeddings"


async def run(engine: Engine, within: Bounds) -> Stage:
    """As far as the time goes; a model that fails is told, and tried another time."""
    begun = perf_counter()
    model = engine.meaning.model
    if model is None:
        return Stage(NAME, 0, engine.meaning.reason or "there is no model")
    if within.dry:
        lacking = len(await engine.store.unembedded(model, limit=within.batch))
        least = "at least " if lacking == within.batch else ""
        detail = f"{least}{lacking} lack a vector" if lacking else NOTHING
        return Stage(NAME, lacking, detail, perf_counter() - begun, looked=lacking)
    done = await embed_missing(engine, enough=lambda: within.over)
    more = within.over and bool(await engine.store.unembedded(model, limit=1))
    detail = f"{done} got the vector that they lacked" if done else NOTHING
    return Stage(NAME, done, engine.meaning.reason or detail, perf_counter() - begun, more=more, looked=done)
