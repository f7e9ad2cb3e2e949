"""`mindhold models`: embedding models, and models that detect contradictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mindhold.interfaces.cli.command import Group, with_open_session, with_session
from mindhold.interfaces.cli.forget import confirm
from mindhold.interfaces.cli.output import neutral, plural, price
from mindhold.interfaces.cli.session import CliSession, OpenSession
from mindhold.model.errors import ModelMissing

if TYPE_CHECKING:
    from mindhold.memories.embedding import EmbedResult
    from mindhold.memories.embedding_models import (
        AdoptResult,
        ModelView,
    )


@click.group("models", cls=Group, local=True, examples=["mindhold models pull", "mindhold models list"])
def models() -> None:
    """Embedding models: local ones, and the service that the settings name. Without one, recall goes by words alone.

    `nli` is the model that tells contradictions where the rules aren't sure.
    """


@models.command("list", examples=["mindhold models list"])
@with_open_session
async def list_models(session: OpenSession) -> None:
    """Models that are here, and those that can be had."""
    from mindhold.memories.embedding_models import LIST_MODELS

    result = await session.run(LIST_MODELS)
    if session.console.json:
        session.console.document(result)
        return
    session.console.table(
        ["model", "state", "dimensions", "size", "what it is"],
        [[one.name, _state(one), one.dimensions or "", _size(one), one.description] for one in result.models],
    )
    if result.active and not any(one.active for one in result.models):
        session.console.note(f"Recall goes by {result.active}.")


@models.command(
    "pull",
    examples=[
        "mindhold models pull",
        "mindhold models pull all-MiniLM-L6-v2",
        "mindhold models pull ./my-model-folder --precision float",
        "mindhold models pull org/name",
        "mindhold models pull nli",
    ],
)
@click.argument("name", required=False)
@click.option(
    "--precision", type=click.Choice(["int8", "float"]), help="int8 is faster and ranks alike (int8)."
)
@click.option("--force", is_flag=True, help="Fetch it anew even if it is here.")
@click.option("--no-jobs", is_flag=True, help="Don't make the vectors that are missing.")
@with_session
async def pull_model(
    cli: CliSession, /, *, name: str | None, precision: str | None, force: bool, no_jobs: bool
) -> None:
    """Fetch and prepare a model: by name, from a folder, or from a hub; the default one without NAME.

    A model that tells contradictions is known by its labels; NAME nli is the default one.
    """
    from mindhold.memories.embedding_models import PULL_MODEL

    async with cli.open() as session:
        pulled = await session.run(PULL_MODEL, name=name, precision=precision, force=force)
    embedded = None if no_jobs or not pulled.model.dimensions else await _embed(cli)
    if cli.console.json:
        answer = pulled.model_dump(mode="json")
        cli.console.document({**answer, "embedded": embedded.embedded if embedded else None})
        return
    cli.console.line(f"The model {neutral(pulled.model.name)} is here ({_size(pulled.model)}).")
    cli.console.note(pulled.notice)
    _told(cli, embedded)


@models.command("remove", examples=["mindhold models remove gte-small"])
@click.argument("name")
@with_open_session
async def remove_model(session: OpenSession, /, *, name: str) -> None:
    """Remove a model's files; its vectors stay until another model takes over."""
    from mindhold.memories.embedding_models import REMOVE_MODEL

    result = await session.run(REMOVE_MODEL, name=name)
    if session.console.json:
        session.console.document(result)
    else:
        session.console.line(f"Removed {neutral(result.name)}.")


@models.command("use", examples=["mindhold models use all-MiniLM-L6-v2", "mindhold models use auto"])
@click.argument("name")
@click.option("--no-jobs", is_flag=True, help="Don't make the vectors now; recall goes by words meanwhile.")
@with_session
async def use_model(cli: CliSession, /, *, name: str, no_jobs: bool) -> None:
    """Recall with this model from now on, and make its vectors."""
    from mindhold.interfaces.cli.config import warn_if_overridden, write_setting
    from mindhold.memories.embedding_models import LIST_MODELS

    async with cli.open() as session:
        known = await session.run(LIST_MODELS)
    if name != "auto" and name not in {one.name for one in known.models if one.installed and one.dimensions}:
        raise ModelMissing(
            f"The model {name!r} is not here.", advice=f"`mindhold models pull {name}` fetches it."
        )
    path = write_setting(cli, "embedding.model", name)
    warn_if_overridden(cli, "embedding.model")
    embedded = None if no_jobs else await _embed(cli)
    if cli.console.json:
        count = embedded.embedded if embedded else None
        cli.console.document({"model": name, "file": str(path), "embedded": count})
        return
    cli.console.line(f"embedding.model = {neutral(name)} in {path}")
    _told(cli, embedded)


@models.command("adopt", examples=["mindhold models adopt", "mindhold models adopt --yes"])
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@click.option("--no-jobs", is_flag=True, help="Don't make the vectors now; the job that waits does it.")
@with_session
async def adopt_model(cli: CliSession, /, *, yes: bool, no_jobs: bool) -> None:
    """Let the model of the settings make every vector anew.

    A local model does so by itself. A service is sent every memory, and paid: this shows how much that is, and asks.
    """
    from mindhold.memories.embedding_models import ADOPT_MODEL

    async with cli.open() as session:
        told = await session.run(ADOPT_MODEL, preview=True)
        if told.memories and not yes:
            _quoted(cli, told)
            confirm(cli.console, f"Let {told.model} embed {plural(told.memories, 'memory')}?")
        told = await session.run(ADOPT_MODEL)
    embedded = None if no_jobs else await _embed(cli)
    if cli.console.json:
        answer = told.model_dump(mode="json")
        cli.console.document({**answer, "embedded": embedded.embedded if embedded else None})
        return
    cli.console.line(f"Recall goes by {neutral(told.model)} from now on.")
    _told(cli, embedded)


def _quoted(cli: CliSession, told: AdoptResult) -> None:
    unknown = "at a price unknown here (embedding.price tells it)"
    cost = unknown if told.dollars is None else price(told.dollars)
    before = f"; the vectors that are there are of {told.before}" if told.before else ""
    cli.console.note(f"{plural(told.memories, 'memory')}, about {told.tokens:,} tokens, {cost}{before}.")


async def _embed(cli: CliSession) -> EmbedResult:
    """In a Mindhold opened anew, which knows the model."""
    from mindhold.memories.embedding import EMBED_MISSING

    async with cli.open() as session:
        return await session.run(EMBED_MISSING)


def _told(cli: CliSession, embedded: EmbedResult | None) -> None:
    if embedded and embedded.embedded:
        cli.console.line(f"Made vectors for {plural(embedded.embedded, 'memory')}.")
    cli.console.note(embedded.notice if embedded else "")


def _state(model: ModelView) -> str:
    return "in use" if model.active else "here" if model.installed else "can be pulled"


def _size(model: ModelView) -> str:
    return f"{model.bytes_used / 1e6:.0f} MB, {model.precision}" if model.installed else ""
