"""Vectors for records that have none: stored before a model was there, or embedded by another one."""

from __future__ import annotations

from collections.abc import Callable

from recollect.engine.core import Engine
from recollect.model.job import Job
from recollect.ports.store import Enqueue

EMBED = "embed"
EMBEDDER_CURSOR = "embedder"
BATCH = 64


async def embed_missing(engine: Engine, *, progress: Callable[[int], None] = lambda _: None) -> int:
    """Embed until nothing lacks a vector of the present model; stops early when the model fails."""
    model = engine.meaning.model
    done = 0
    while model is not None:
        memories = await engine.store.unembedded(model, limit=BATCH)
        matrix = await engine.meaning.embed([memory.content for memory in memories]) if memories else None
        if matrix is None:
            break
        vectors = {
            memory.id: (memory.content_hash, row) for memory, row in zip(memories, matrix, strict=True)
        }
        done += await engine.store.put_vectors(vectors, model=model)
        progress(done)
    return done


async def follow_model(engine: Engine) -> bool:
    """Queue re-embedding when the model is another one than last time. Whether it was."""
    model = engine.meaning.model
    if model is None:
        return False
    before = await engine.store.cursor(EMBEDDER_CURSOR)
    if before == model:
        return False
    await engine.store.set_cursor(EMBEDDER_CURSOR, model)
    if await engine.store.unembedded(model, limit=1):
        await queue_embedding(engine)
    return before is not None


async def queue_embedding(engine: Engine) -> None:
    """At most one such job waits at a time."""
    now = engine.clock()
    job = Job(id=engine.new_id(), name=EMBED, created=now, due=now, key=EMBED)
    await engine.store.apply([Enqueue(job)])
