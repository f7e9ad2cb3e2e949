"""Letting an embedding service make the vectors of all that is remembered."""

from __future__ import annotations

from mindhold.engine.embed import adopt, quote
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output


class AdoptInput(Input):
    """`preview` tells what it would take, and does nothing."""

    preview: bool = False


class AdoptResult(Output):
    """How much is sent. `dollars` is None where the price is unknown; `queued` says whether the job was queued."""

    model: str
    before: str | None = None
    memories: int
    tokens: int
    dollars: float | None = None
    queued: bool


async def _adopt(call: Call, given: AdoptInput) -> AdoptResult:
    told = await quote(call.engine)
    if not given.preview:
        await adopt(call.engine)
    return AdoptResult(
        model=told.model,
        before=told.before,
        memories=told.memories,
        tokens=told.tokens,
        dollars=told.dollars,
        queued=not given.preview,
    )


ADOPT_MODEL = Operation(
    "adopt_model",
    "Let the configured model make every vector anew, or tell what that costs.",
    AdoptInput,
    AdoptResult,
    _adopt,
    Effect.WRITES,
    owner_only=True,
)
