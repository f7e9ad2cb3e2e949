"""Vectors for records that have none: stored before a model was there, or embedded by another one.

A local model takes over by itself. A service would be sent everything, and paid: it waits until it is adopted, and what
joins later in another way than by being stored here, as a shared project does, waits for the next adoption.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from mindhold.engine.core import Engine
from mindhold.engine.meaning import Gate
from mindhold.model.errors import ModelMismatch, Refused, SettingsError, StoreError
from mindhold.model.job import Job
from mindhold.model.memory import ANY_STATUS, Memory, Status
from mindhold.model.query import Filter
from mindhold.ports.clock import Clock
from mindhold.ports.store import Enqueue, Store

EMBED = "embed"
EMBEDDER_CURSOR = "embedder"
ADOPTED = "embedder.adopted:"  # before a service's model: since when it may be sent what is here
BATCH = 64
MOST_LOOKED_AT = 65_536
_ALIVE = Filter(
    viewer="system", statuses=tuple(status for status in ANY_STATUS if status is not Status.FORGOTTEN)
)


async def embed_missing(
    engine: Engine,
    *,
    progress: Callable[[int], None] = lambda _: None,
    enough: Callable[[], bool] = lambda: False,
) -> int:
    """Embed until nothing lacks a vector of the present model, or it is `enough`; stops early when the model fails.

    A service is sent what was stored here since it was adopted, and what was counted then; the rest stays without.
    """
    model = engine.meaning.model
    done = 0
    while model is not None and not enough():
        memories = await _missing(engine, model)
        matrix = await engine.meaning.embed([memory.content for memory in memories]) if memories else None
        if matrix is None:
            break
        vectors = {
            memory.id: (memory.content_hash, row) for memory, row in zip(memories, matrix, strict=True)
        }
        put = await engine.store.put_vectors(vectors, model=model)
        if not put:  # all of them changed meanwhile, or it takes none: another time
            break
        done += put
        progress(done)
    return done


async def _missing(engine: Engine, model: str) -> Sequence[Memory]:
    """The next batch; for a service, of what it may be sent."""
    if engine.meaning.terms is None:
        return await engine.store.unembedded(model, limit=BATCH)
    may = await sendable(engine, model)
    asked = BATCH
    while True:
        found = await engine.store.unembedded(model, limit=asked)
        own = [memory for memory in found if may(memory)]
        if own or len(found) < asked or asked >= MOST_LOOKED_AT:
            return own[:BATCH]
        asked *= 4


async def sendable(engine: Engine, model: str) -> Callable[[Memory], bool]:
    """Which memories the model may be given: a local one all; a service those that it has had, and those that were
    counted when it was adopted or stored since without getting a vector.

    What others embedded, or wrote before this home joined their project, is none of these.
    """
    if engine.meaning.terms is None:
        return lambda memory: True
    noted = await engine.store.cursor(ADOPTED + model)
    adopted = datetime.fromisoformat(noted) if noted else datetime.min.replace(tzinfo=UTC)
    born = {scope.name: scope.created for scope in await engine.store.scopes()}

    def may(memory: Memory) -> bool:
        begun = born.get(memory.scope)
        if begun is None:
            return False
        counted = max(memory.created, begun) <= adopted
        later = memory.embedded_by is None and memory.updated >= max(adopted, begun)
        return counted or later or memory.embedded_by == model

    return may


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


def adoption(store: Store, model: str, *, clock: Clock) -> Gate:
    """The gate of a service: open while it is the one adopted last, or when there is nothing to embed anew.

    It is asked each time: another process may have let another model take over. A store that can't be asked, a
    project's too, may hold anything: then it stays closed.
    """

    async def refusal() -> ModelMismatch | None:
        try:
            return await asked()
        except (StoreError, SettingsError) as error:
            return ModelMismatch(
                f"Whether every memory has a vector of {model} can't be told, so nothing is sent to it: {error.message}",
                advice=error.advice,
            )

    async def asked() -> ModelMismatch | None:
        before = await store.cursor(EMBEDDER_CURSOR)
        if before == model:
            return None
        if await store.unembedded(model, limit=1) or await _without_vector(store, model):
            known = f"The stored vectors are of {before}" if before else "The stored memories have no vectors"
            return ModelMismatch(
                f"{known}, and the model is {model}: every memory would be sent to it.",
                advice="`mindhold models adopt` shows the cost and does it; or set embedding.provider, "
                "embedding.model and embedding.dimensions back.",
            )
        await store.set_cursor(ADOPTED + model, clock().isoformat())
        await store.swap_cursor(EMBEDDER_CURSOR, old=before, new=model)
        return None

    return refusal


async def _without_vector(store: Store, model: str) -> bool:
    """In any store; unlike `unembedded`, which passes over those that are away."""
    return any(count for name, count in (await store.tally(_ALIVE, "embedded_by")).items() if name != model)


async def quote(engine: Engine) -> Quote:
    """Raises Refused where there is no model."""
    model = engine.meaning.model
    if model is None:
        raise Refused(engine.meaning.reason or "There is no model.", advice="Set embedding.provider.")
    memories = tokens = 0
    async for batch in engine.store.scan(_ALIVE):
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
    """Let the present model make every vector: by a job, which is queued. Raises Refused where there is none.

    It is tried before anything changes. Raises ModelError.
    """
    model = engine.meaning.model
    if model is None:
        raise Refused(engine.meaning.reason or "There is no model.", advice="Set embedding.provider.")
    await engine.meaning.probe()
    await engine.store.set_cursor(ADOPTED + model, engine.clock().isoformat())
    await engine.store.set_cursor(EMBEDDER_CURSOR, model)
    await engine.meaning.refusal()
    await queue_embedding(engine)
