"""Vectors for past conversations."""

from __future__ import annotations

import time

from pydantic import Field

from mindhold.engine.history.vectors import embed_history, history_model, unembedded
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output

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


async def _embed(call: Call, given: EmbedHistoryInput) -> EmbedHistoryResult:
    engine = call.engine
    model = history_model(engine)
    if model is None:
        return EmbedHistoryResult(embedded=0, left=0, model=None, notice=engine.meaning.reason or NO_MODEL)
    end = None if given.seconds is None else time.monotonic() + given.seconds
    total = min(given.most, await unembedded(engine))
    done = 0
    while done < given.most and (end is None or time.monotonic() < end):
        call.progress("embed", done, total)
        left = None if end is None else end - time.monotonic()
        now = await embed_history(engine, most=min(TURN, given.most - done), seconds=left)
        if not now:
            break
        done += now
    call.progress("embed", done, max(done, total))
    notice = engine.meaning.reason
    return EmbedHistoryResult(embedded=done, left=await unembedded(engine), model=model, notice=notice)


EMBED_HISTORY = Operation(
    "embed_history",
    "Make vectors for past conversations.",
    EmbedHistoryInput,
    EmbedHistoryResult,
    _embed,
    Effect.WRITES,
    owner_only=True,
)
