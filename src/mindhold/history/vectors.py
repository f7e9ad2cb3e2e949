"""Vectors of passages, made by a model on this machine, so that conversations are found by meaning."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import timedelta
from hashlib import blake2b
from math import inf
from platform import node

from pydantic import Field

from mindhold.engine import Engine
from mindhold.history.index_guard import index_turn
from mindhold.model.job import Job
from mindhold.model.scope import LOCAL
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.history import Passage
from mindhold.ports.store import Enqueue
from mindhold.ports.transcripts import Role, shortened

EMBED_HISTORY_JOB = "history-embed"
BATCH = 8  # passages, during which a question shares the processor with them
AHEAD = 256  # passages that are looked for at once
MOST_READ = 800  # characters of a passage: one window of the usual models, and a second costs as much again
PAUSE = timedelta(seconds=30)  # between two turns of the job
SPEECH = (Role.USER, Role.CLAUDE)
LOCK = "history-embed.lock"


def history_model(engine: Engine) -> str | None:
    """The model that passages are embedded by; None where there is none on this machine, or nobody wants it."""
    chosen = engine.settings.history
    wanted = chosen.enabled and chosen.vectors and engine.vector_source.terms is None
    return engine.vector_source.model if wanted else None


async def embed_history(engine: Engine, *, most: int, seconds: float | None = None) -> int:
    """Passages that got a vector: at most so many, those of the latest conversations first.

    Stops early when the model fails, which `meaning.reason` tells, and when the time is up; does nothing while another
    process is at it. Raises StoreError, OSError.
    """
    model = history_model(engine)
    if model is None or engine.history.withheld:
        return 0
    end = inf if seconds is None else time.monotonic() + seconds
    done = 0
    with index_turn(engine.settings.home, lock=LOCK) as mine:  # two at once would do the same ones
        while mine and done < most and time.monotonic() < end:
            limit = min(AHEAD, most - done)
            found = await asyncio.to_thread(engine.history.unembedded, model, limit=limit)
            got = await _embed_passages(engine, found, model=model, end=end)
            done += got
            if not got or len(found) < limit:
                break
    return done


async def _embed_passages(engine: Engine, found: Mapping[int, Passage], *, model: str, end: float) -> int:
    """How many of them before the time was up, or the model failed."""
    rows, done = list(found), 0
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        matrix = await engine.vector_source.embed([as_read(found[row]) for row in batch])
        if matrix is None:
            break
        vectors = dict(zip(batch, matrix, strict=True))
        await asyncio.to_thread(engine.history.put_vectors, vectors, model=model)
        done += len(batch)
        if time.monotonic() >= end:
            break
    return done


async def unembedded(engine: Engine) -> int:
    """About how many passages lack a vector of the present model. Raises StoreError."""
    model = history_model(engine)
    if model is None or not await asyncio.to_thread(engine.history.unembedded, model, limit=1):
        return 0
    stock = await asyncio.to_thread(engine.history.stock)
    return max(1, stock.passages - stock.embedded)


async def queue_history_embedding(engine: Engine, *, after: timedelta = timedelta()) -> None:
    """At most one such job waits at a time. Where no model is to embed passages, none does."""
    if history_model(engine) is None or engine.history.withheld:
        return
    now, name = engine.clock(), own_job(engine, EMBED_HISTORY_JOB)
    await engine.store.apply([Enqueue(Job(engine.new_id(), name, created=now, due=now + after, key=name))])


def own_job(engine: Engine, name: str) -> str:
    """What a job is called that is this home's only: the queue of a server is other machines' too."""
    if engine.store_registry.home == LOCAL:
        return name
    own = blake2b(f"{node()}\0{engine.settings.home}".encode(errors="surrogatepass"), digest_size=4)
    return f"{name}:{own.hexdigest()}"


def as_read(passage: Passage) -> str:
    """What the model is given: what was said, and where that is little what was done."""
    said = "\n".join(one.text for one in passage.utterances if one.role in SPEECH)
    if len(said) < MOST_READ:
        done = "\n".join(one.text for one in passage.utterances if one.role not in SPEECH)
        said = f"{said}\n{done}".strip() if done else said
    return shortened(said, MOST_READ)


TURN = 64  # passages between two words about how far it is
NO_MODEL = (
    "Conversations are found by their words alone: no model on this machine reads them, "
    "and an embedding service isn't sent them."
)


class EmbedHistoryInput(Input):
    """At most how many passages, and for how long."""

    most: int = Field(default=256, ge=1)
    seconds: float | None = Field(default=None, gt=0)


class EmbedHistoryResult(Output):
    """How many passages got a vector, about how many lack one still, and why not more."""

    embedded: int
    left: int
    model: str | None
    notice: str


async def _embed(context: Context, request: EmbedHistoryInput) -> EmbedHistoryResult:
    """Make vectors for past conversations."""
    engine = context.engine
    model = history_model(engine)
    if model is None:
        return EmbedHistoryResult(
            embedded=0, left=0, model=None, notice=engine.vector_source.reason or NO_MODEL
        )
    end = None if request.seconds is None else time.monotonic() + request.seconds
    total = min(request.most, await unembedded(engine))
    done = 0
    while done < request.most and (end is None or time.monotonic() < end):
        context.progress("embed", done, total)
        left = None if end is None else end - time.monotonic()
        now = await embed_history(engine, most=min(TURN, request.most - done), seconds=left)
        if not now:
            break
        done += now
    context.progress("embed", done, max(done, total))
    notice = engine.vector_source.reason
    return EmbedHistoryResult(embedded=done, left=await unembedded(engine), model=model, notice=notice)


EMBED_HISTORY = operation("embed_history", _embed, writes=True, owner_only=True, changes_memories=False)
