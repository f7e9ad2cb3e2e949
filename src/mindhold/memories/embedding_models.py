"""Operations on models: list, pull and remove them, and re-embed all memories with the configured one."""

from __future__ import annotations

import asyncio

from pydantic import Field

from mindhold.engine import Engine
from mindhold.memories.embedding import adopt, quote
from mindhold.operations import Context, Input, Output, operation
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
    """Whether the model detects contradictions."""
    return engine.classifier.name if engine.classifier else ""


async def _list_models(context: Context, _given: ListModelsInput) -> ListModelsResult:
    """Models here and to be had."""
    installed = await asyncio.to_thread(context.engine.models.installed)
    models = context.engine.models
    available = await asyncio.to_thread(lambda: [*models.catalogue(), *models.classifiers()])
    cards = {card.name: card for card in (*installed, *available) if card.installed}
    cards |= {card.name: card for card in available if card.name not in cards}
    return ListModelsResult(
        models=[_model(context, card) for card in cards.values()], active=context.engine.vector_source.model
    )


LIST_MODELS = operation("list_models", _list_models, reads=True)


async def _pull_model(context: Context, request: PullModelInput) -> PullModelResult:
    """Fetch and prepare a model."""
    card = await asyncio.to_thread(
        context.engine.models.pull,
        request.name,
        precision=request.precision,
        force=request.force,
        progress=context.progress,
    )
    return PullModelResult(model=_model(context, card))


PULL_MODEL = operation("pull_model", _pull_model, writes=True, owner_only=True)


async def _remove_model(context: Context, request: RemoveModelInput) -> RemoveModelResult:
    """Remove a model's files."""
    await asyncio.to_thread(context.engine.models.remove, request.name)
    return RemoveModelResult(name=request.name)


REMOVE_MODEL = operation("remove_model", _remove_model, destroys=True, owner_only=True)


def _model(context: Context, card: ModelCard) -> ModelView:
    active = (context.engine.vector_source.model or "").rpartition("/")[0]
    return ModelView(
        name=card.name,
        dimensions=card.dimensions,
        description=card.description,
        installed=card.installed,
        active=card.installed and (card.name == active or judging(context.engine).endswith(card.name)),
        precision=card.precision,
        bytes_used=card.bytes_used,
        source=card.source,
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


async def _adopt(context: Context, request: AdoptInput) -> AdoptResult:
    """Let the configured model make every vector anew, or tell what that costs."""
    estimate = await quote(context.engine)
    if not request.preview:
        await adopt(context.engine)
    return AdoptResult(
        model=estimate.model,
        before=estimate.before,
        memories=estimate.memories,
        tokens=estimate.tokens,
        dollars=estimate.dollars,
        queued=not request.preview,
    )


ADOPT_MODEL = operation("adopt_model", _adopt, writes=True, owner_only=True)
