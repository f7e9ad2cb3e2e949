"""`mindhold models`: embedding models, and models that detect contradictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mindhold.interfaces.cli.command import Group, global_options, with_open_session, with_session
from mindhold.interfaces.cli.forget import confirm
from mindhold.interfaces.cli.output import neutral, plural, price
from mindhold.interfaces.cli.session import CliSession, OpenSession
from mindhold.model.errors import ModelMissing

if TYPE_CHECKING:
    from mindhold.memories.embedding import EmbedResult, ModelView


@click.group(
    "models",
    cls=Group,
    local=True,
    params=global_options(shown=False),
    invoke_without_command=True,
    examples=["mindhold models", "mindhold models pull", "mindhold models pull multilingual"],
)
@click.pass_context
def models(ctx: click.Context) -> None:
    """Embedding models, local or by a service.

    Without a command they are listed. Without a model, recall searches by words only. `nli` is the model that detects
    contradictions where the rules aren't sure.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_models)


@models.command("list", examples=["mindhold models list"])
@with_open_session
async def list_models(session: OpenSession) -> None:
    """List installed and available models: languages, megabytes, and the time for a text compared to the default one's."""
    from mindhold.memories.embedding import LIST_MODELS

    result = await session.run(LIST_MODELS)
    if session.console.as_json(result):
        return
    rows = []
    for model in result.models:
        state = "in use" if model.active else "here" if model.installed else "can be pulled"
        name = f"{model.name} ({model.alias})" if model.alias else model.name
        time = f"{model.relative_time:g} x" if model.relative_time else ""
        rows.append(
            [name, state, model.languages, model.dimensions or "", _size(model), time, model.description]
        )
    heads = ["model", "state", "languages", "dimensions", "size", "time", "what it is"]
    session.console.table(heads, rows)
    if result.active and not any(model.active for model in result.models):
        session.console.note(f"Recall goes by {result.active}.")


@models.command(
    "pull",
    examples=[
        "mindhold models pull",
        "mindhold models pull all-MiniLM-L6-v2",
        "mindhold models pull multilingual",
        "mindhold models pull ./my-model-folder --precision float",
        "mindhold models pull org/name",
        "mindhold models pull nli",
    ],
)
@click.argument("name", required=False)
@click.option(
    "--precision", type=click.Choice(["int8", "float"]), help="int8 (the default) is faster and ranks alike."
)
@click.option("--force", is_flag=True, help="Fetch it again even if it is installed.")
@click.option("--no-jobs", is_flag=True, help="Don't make the missing vectors now.")
@with_session
async def pull_model(cli: CliSession, /, *, no_jobs: bool, **fields: Any) -> None:
    """Fetch a model: the default one, or by name, folder or hub id.

    A model that detects contradictions is recognised by its labels; the NAME nli fetches the default one.
    """
    from mindhold.memories.embedding import PULL_MODEL

    async with cli.open() as session:
        pulled = await session.run(PULL_MODEL, **fields)
    embedded = None if no_jobs or not pulled.model.dimensions else await _embed(cli)
    if cli.console.as_json(pulled.model_dump(mode="json") | _count(embedded)):
        return
    cli.console.line(f"The model {neutral(pulled.model.name)} is here ({_size(pulled.model)}).")
    cli.console.note(pulled.notice)
    _print_embedded(cli, embedded)
    used = embedded.model.rpartition("/")[0] if embedded and embedded.model else None
    if used and used != pulled.model.name:
        name = pulled.model.alias or pulled.model.name
        cli.console.note(f"Recall goes by {used}; `mindhold models use {neutral(name)}` changes that.")


@models.command("remove", examples=["mindhold models remove gte-small"])
@click.argument("name")
@with_open_session
async def remove_model(session: OpenSession, /, *, name: str) -> None:
    """Remove a model's files. Its vectors stay until another model replaces them."""
    from mindhold.memories.embedding import REMOVE_MODEL

    result = await session.run(REMOVE_MODEL, name=await full_name(session, name))
    if not session.console.as_json(result):
        session.console.line(f"Removed {neutral(result.name)}.")


@models.command("use", examples=["mindhold models use all-MiniLM-L6-v2", "mindhold models use auto"])
@click.argument("name")
@click.option("--no-jobs", is_flag=True, help="Don't make the vectors now; recall uses words until then.")
@with_session
async def use_model(cli: CliSession, /, *, name: str, no_jobs: bool) -> None:
    """Use this model for recall, and make its vectors."""
    from mindhold.interfaces.cli.config import warn_if_overridden, write_setting

    async with cli.open() as session:
        installed = await installed_models(session)
        name = await full_name(session, name)
    if name != "auto" and name not in installed:
        raise ModelMissing(
            f"The model {name!r} is not here.", advice=f"`mindhold models pull {name}` fetches it."
        )
    path = write_setting(cli, "embedding.model", name)
    warn_if_overridden(cli, "embedding.model")
    embedded = None if no_jobs else await _embed(cli)
    if cli.console.as_json({"model": name, "file": str(path), **_count(embedded)}):
        return
    cli.console.line(f"embedding.model = {neutral(name)} in {path}")
    _print_embedded(cli, embedded)


@models.command("adopt", examples=["mindhold models adopt", "mindhold models adopt --yes"])
@click.option("--yes", "-y", is_flag=True, help="Don't ask for confirmation.")
@click.option("--no-jobs", is_flag=True, help="Don't make the vectors now; a queued job does it.")
@with_session
async def adopt_model(cli: CliSession, /, *, yes: bool, no_jobs: bool) -> None:
    """Make every vector again with the configured model.

    A local model does so by itself. A service receives every memory and costs money: this shows how much and asks.
    """
    from mindhold.memories.embedding import ADOPT_MODEL

    async with cli.open() as session:
        result = await session.run(ADOPT_MODEL, preview=True)
        if result.memories and not yes:
            unknown = "at a price unknown here (embedding.price tells it)"
            cost = unknown if result.dollars is None else price(result.dollars)
            before = f"; the vectors that are there are of {result.before}" if result.before else ""
            memories = plural(result.memories, "memory")
            cli.console.note(f"{memories}, about {result.tokens:,} tokens, {cost}{before}.")
            confirm(cli.console, f"Let {result.model} embed {plural(result.memories, 'memory')}?")
        result = await session.run(ADOPT_MODEL)
    embedded = None if no_jobs else await _embed(cli)
    if cli.console.as_json(result.model_dump(mode="json") | _count(embedded)):
        return
    cli.console.line(f"Recall goes by {neutral(result.model)} from now on.")
    _print_embedded(cli, embedded)


async def installed_models(session: OpenSession) -> list[str]:
    """Return the names of the embedding models that are here."""
    from mindhold.memories.embedding import LIST_MODELS

    result = await session.run(LIST_MODELS)
    return [model.name for model in result.models if model.installed and model.dimensions]


async def full_name(session: OpenSession, name: str) -> str:
    """Return the name of the model that has this short name; any other name as it is."""
    from mindhold.memories.embedding import LIST_MODELS

    result = await session.run(LIST_MODELS)
    return next((model.name for model in result.models if model.alias == name), name)


async def _embed(cli: CliSession) -> EmbedResult:
    """Make the missing vectors, in a new session that uses the new model."""
    from mindhold.memories.embedding import EMBED_MISSING

    async with cli.open() as session:
        return await session.run(EMBED_MISSING)


def _count(embedded: EmbedResult | None) -> dict[str, int | None]:
    return {"embedded": embedded.embedded if embedded else None}


def _print_embedded(cli: CliSession, embedded: EmbedResult | None) -> None:
    if embedded and embedded.embedded:
        cli.console.line(f"Made vectors for {plural(embedded.embedded, 'memory')}.")
    cli.console.note(embedded.notice if embedded else "")


def _size(model: ModelView) -> str:
    size = f"{model.bytes_used / 1e6:.0f} MB" if model.bytes_used else ""
    return f"{size}, {model.precision}" if model.precision else size
