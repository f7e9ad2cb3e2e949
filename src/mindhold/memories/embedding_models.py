"""Operations on models: list, pull and remove them, and re-embed all memories with the configured one."""

from __future__ import annotations

import asyncio

from pydantic import Field

from mindhold.engine import Engine
from mindhold.memories.embedding import adopt, quote
from mindhold.operations import Call, Effect, Input, Operation, Output
from mindhold.ports.embedder import ModelCard


class ModelView(Output):
    """One model; those that tell contradictions have no dimensions."""

    name: str
    dimensions: int
    description: str
    installed: bool
    active: bool
    precision: str
    bytes_used: int
    source: str


class ListModelsInput(Input):
    """Nothing to say."""


class ListModelsResult(Output):
    """What is here and what can be had, the best first."""

    models: list[ModelView]
    active: str | None


class PullModelInput(Input):
    """A name, a folder, or a hub's `org/name`; the default one when empty, `nli` the one that tells contradictions."""

    name: str = ""
    precision: str = Field(default="int8", pattern="^(int8|float)$")
    force: bool = False


class PullModelResult(Output):
    """The model that is here now, and how many memories still wait for its vectors."""

    model: ModelView
    notice: str = ""


class RemoveModelInput(Input):
    """Which one."""

    name: str


class RemoveModelResult(Output):
    """Which one."""

    name: str


def judging(engine: Engine) -> str:
    """What tells contradictions."""
    return engine.classifier.name if engine.classifier else ""


async def _list_models(call: Call, _given: ListModelsInput) -> ListModelsResult:
    installed = await asyncio.to_thread(call.engine.models.installed)
    shelf = call.engine.models
    known = await asyncio.to_thread(lambda: [*shelf.catalogue(), *shelf.classifiers()])
    cards = {card.name: card for card in (*installed, *known) if card.installed}
    cards |= {card.name: card for card in known if card.name not in cards}
    return ListModelsResult(
        models=[_model(call, card) for card in cards.values()], active=call.engine.meaning.model
    )


async def _pull_model(call: Call, given: PullModelInput) -> PullModelResult:
    card = await asyncio.to_thread(
        call.engine.models.pull,
        given.name,
        precision=given.precision,
        force=given.force,
        progress=call.progress,
    )
    return PullModelResult(model=_model(call, card))


async def _remove_model(call: Call, given: RemoveModelInput) -> RemoveModelResult:
    await asyncio.to_thread(call.engine.models.remove, given.name)
    return RemoveModelResult(name=given.name)


def _model(call: Call, card: ModelCard) -> ModelView:
    active = (call.engine.meaning.model or "").rpartition("/")[0]
    return ModelView(
        name=card.name,
        dimensions=card.dimensions,
        description=card.description,
        installed=card.installed,
        active=card.installed and (card.name == active or judging(call.engine).endswith(card.name)),
        precision=card.precision,
        bytes_used=card.bytes_used,
        source=card.source,
    )


LIST_MODELS = Operation(
    "list_models", "Models here and to be had.", ListModelsInput, ListModelsResult, _list_models, Effect.READS
)
PULL_MODEL = Operation(
    "pull_model",
    "Fetch and prepare a model.",
    PullModelInput,
    PullModelResult,
    _pull_model,
    Effect.WRITES,
    owner_only=True,
)
REMOVE_MODEL = Operation(
    "remove_model",
    "Remove a model's files.",
    RemoveModelInput,
    RemoveModelResult,
    _remove_model,
    Effect.DESTROYS,
    owner_only=True,
)


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
