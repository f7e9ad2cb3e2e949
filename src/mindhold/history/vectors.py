"""Vectors of passages, made by a model on this machine, so that search finds conversations by meaning."""

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
BATCH = 8  # passages; a question shares the processor with one batch
AHEAD = 256  # passages that are fetched at once
MOST_READ = 800  # characters of a passage: one window of usual models, and a second costs as much again
PAUSE = timedelta(seconds=30)  # between two runs of the job
SPEECH = (Role.USER, Role.CLAUDE)
LOCK = "history-embed.lock"


def history_model(engine: Engine) -> str | None:
    """The model that embeds passages; None if this machine has none, or the settings disable it."""
    history = engine.settings.history
    is_enabled = history.enabled and history.vectors and engine.vector_source.terms is None
    return engine.vector_source.model if is_enabled else None


async def embed_history(engine: Engine, *, most: int, seconds: float | None = None) -> int:
    """Embed at most `most` passages, those of the latest conversations first, and return how many.

    Stops early if the model fails, which `vector_source.reason` explains, and when the time is up. Does
    nothing while another process embeds. Raises StoreError, OSError.
    """
    model = history_model(engine)
    if model is None or engine.history.withheld:
        return 0
    end = inf if seconds is None else time.monotonic() + seconds
    embedded = 0
    with index_turn(
        engine.settings.home, lock=LOCK
    ) as is_ours:  # two processes would embed the same passages
        while is_ours and embedded < most and time.monotonic() < end:
            limit = min(AHEAD, most - embedded)
            passages = await asyncio.to_thread(engine.history.unembedded, model, limit=limit)
            got = await _embed_passages(engine, passages, model=model, end=end)
            embedded += got
            if not got or len(passages) < limit:
                break
    return embedded


async def _embed_passages(engine: Engine, found: Mapping[int, Passage], *, model: str, end: float) -> int:
    """Embed the passages until the time is up or the model fails, and return how many."""
    rows, embedded = list(found), 0
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        matrix = await engine.vector_source.embed([as_read(found[row]) for row in batch])
        if matrix is None:
            break
        vectors = dict(zip(batch, matrix, strict=True))
        await asyncio.to_thread(engine.history.put_vectors, vectors, model=model)
        embedded += len(batch)
        if time.monotonic() >= end:
            break
    return embedded


async def unembedded(engine: Engine) -> int:
    """Roughly how many passages lack a vector of the current model. Raises StoreError."""
    model = history_model(engine)
    if model is None or not await asyncio.to_thread(engine.history.unembedded, model, limit=1):
        return 0
    stock = await asyncio.to_thread(engine.history.stock)
    return max(1, stock.passages - stock.embedded)


async def queue_history_embedding(engine: Engine, *, after: timedelta = timedelta()) -> None:
    """Queue the job that embeds passages, unless one waits already or no model is to embed them."""
    if history_model(engine) is None or engine.history.withheld:
        return
    now, name = engine.clock(), own_job(engine, EMBED_HISTORY_JOB)
    await engine.store.apply([Enqueue(Job(engine.new_id(), name, created=now, due=now + after, key=name))])


def own_job(engine: Engine, name: str) -> str:
    """The name of a job that is only for this home: the queue of a server is shared with other machines."""
    if engine.store_registry.home == LOCAL:
        return name
    own = blake2b(f"{node()}\0{engine.settings.home}".encode(errors="surrogatepass"), digest_size=4)
    return f"{name}:{own.hexdigest()}"


def as_read(passage: Passage) -> str:
    """The text that the model embeds: the speech, plus tool calls and results if that is short."""
    text = "\n".join(step.text for step in passage.utterances if step.role in SPEECH)
    if len(text) < MOST_READ:
        other_text = "\n".join(step.text for step in passage.utterances if step.role not in SPEECH)
        text = f"{text}\n{other_text}".strip() if other_text else text
    return shortened(text, MOST_READ)


TURN = 64  # passages between two progress reports
NO_MODEL = (
    "Conversations are found by their words alone: no model on this machine reads them, "
    "and an embedding service isn't sent them."
)


class EmbedHistoryInput(Input):
    """How many passages to embed at most, and for how long."""

    most: int = Field(default=256, ge=1)
    seconds: float | None = Field(default=None, gt=0)


class EmbedHistoryResult(Output):
    """How many passages got a vector, roughly how many still lack one, and why it ended."""

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
    embedded = 0
    while embedded < request.most and (end is None or time.monotonic() < end):
        context.progress("embed", embedded, total)
        seconds_left = None if end is None else end - time.monotonic()
        count = await embed_history(engine, most=min(TURN, request.most - embedded), seconds=seconds_left)
        if not count:
            break
        embedded += count
    context.progress("embed", embedded, max(embedded, total))
    notice = engine.vector_source.reason
    return EmbedHistoryResult(embedded=embedded, left=await unembedded(engine), model=model, notice=notice)


EMBED_HISTORY = operation("embed_history", _embed, writes=True, owner_only=True, changes_memories=False)
