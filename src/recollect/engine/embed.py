"""Vectors for records that have none: stored before a model was there, or embedded by another one.

A local model takes over by itself. A service would be sent everything, and paid: it waits until it is adopted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from recollect.engine.core import Engine
from recollect.engine.meaning import Gate
from recollect.model.errors import ModelMismatch, Refused
from recollect.model.job import Job
from recollect.model.memory import ANY_STATUS, Status
from recollect.model.query import Filter
from recollect.ports.store import Enqueue, Store

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
    """Queue re-embedding when the model is another one than last time. Whether it was.

    A service that wasn't adopted is not followed; `meaning.reason` says so.
    """
    model = engine.meaning.model
    if model is None or await engine.meaning.refusal() is not None:
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


@dataclass(frozen=True, slots=True)
class Quote:
    """What it takes to embed every memory by the present model. `dollars` is None where the price is unknown."""

    model: str
    before: str | None
    memories: int
    tokens: int
    dollars: float | None


def adoption(store: Store, model: str) -> Gate:
    """The gate of a service: open when it made the stored vectors, or when there is nothing to embed anew."""

    async def refusal() -> ModelMismatch | None:
        before = await store.cursor(EMBEDDER_CURSOR)
        if before == model:
            return None
        if await store.unembedded(model, limit=1):
            known = f"The stored vectors are of {before}" if before else "The stored memories have no vectors"
            return ModelMismatch(
                f"{known}, and the model is {model}: every memory would be sent to it.",
                advice="`recollect models adopt` shows the cost and does it; or set embedding.provider, "
                "embedding.model and embedding.dimensions back.",
            )
        await store.swap_cursor(EMBEDDER_CURSOR, old=before, new=model)
        return None

    return refusal


async def quote(engine: Engine) -> Quote:
    """Raises Refused where there is no model."""
    model = engine.meaning.model
    if model is None:
        raise Refused(engine.meaning.reason or "There is no model.", advice="Set embedding.provider.")
    alive = tuple(status for status in ANY_STATUS if status is not Status.FORGOTTEN)
    memories = tokens = 0
    async for batch in engine.store.scan(Filter(viewer="system", statuses=alive)):
        for memory in batch:
            if memory.embedded_by != model:
                memories += 1
                tokens += memory.tokens
    terms = engine.meaning.terms
    return Quote(
        model=model,
        before=await engine.store.cursor(EMBEDDER_CURSOR),
        memories=memories,
        tokens=tokens,
        dollars=terms.dollars(tokens) if terms else 0.0,
    )


async def adopt(engine: Engine) -> None:
    """Let the present model make every vector: by a job, which is queued. Raises Refused where there is none."""
    model = engine.meaning.model
    if model is None:
        raise Refused(engine.meaning.reason or "There is no model.", advice="Set embedding.provider.")
    await engine.store.set_cursor(EMBEDDER_CURSOR, model)
    await engine.meaning.refusal()
    await queue_embedding(engine)
