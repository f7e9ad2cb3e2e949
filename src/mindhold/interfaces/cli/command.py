"""Declaration of commands: examples, global options, lazy loading, and whether a server can run them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from importlib import import_module
from typing import Any, Concatenate, ParamSpec

import click

from mindhold.interfaces.cli.output import ReaderGone
from mindhold.interfaces.cli.session import CliSession, OpenSession
from mindhold.model.errors import InvalidInput, SettingsError

REMOTE_URL = "remote.url"
P = ParamSpec("P")
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Command(click.Command):
    """A command with examples. It accepts the global options after its own.

    `remote` commands can run on a server. `local` commands concern this machine only, so they ignore the setting
    `remote.url`. Both flags may be set on the command or on its group.
    """

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str] = (),
        remote: bool = False,
        local: bool = False,
        **options: Any,
    ) -> None:
        options["params"] = [*(options.get("params") or []), *global_options(shown=False)]
        options.setdefault("context_settings", SETTINGS)
        super().__init__(*args, **options)
        self.examples = tuple(examples)
        self.remote, self.local = remote, local

    def invoke(self, ctx: click.Context) -> Any:
        if cli := ctx.find_object(CliSession):
            check_remote(cli, ctx)
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:  # click would turn it into exit status 1
            raise ReaderGone from error

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(formatter, self.examples)


class Group(click.Group):
    """A group of commands.

    `where` maps a name to "module:attribute", which is imported when needed. `headed` maps a heading of the help to
    the names below it.
    """

    command_class = Command

    def __init__(
        self,
        *args: Any,
        where: Mapping[str, str] | None = None,
        headed: Mapping[str, str] | None = None,
        examples: Sequence[str] = (),
        remote: bool = False,
        local: bool = False,
        **options: Any,
    ) -> None:
        options.setdefault("context_settings", SETTINGS)
        super().__init__(*args, **options)
        self.remote, self.local = remote, local
        self.where = dict(where or {})
        self.headed = dict(headed or {})
        self.examples = tuple(examples)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.where, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.where:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self.where[cmd_name].partition(":")
        loaded = getattr(import_module(module), attribute)
        assert isinstance(loaded, click.Command)
        return loaded

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.where and args and not args[0].startswith("-") and args[0] not in self.where:
            raise click.UsageError(f"There is no command {args[0]!r}.{_suggestion(args[0], self.where)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.headed:
            super().format_commands(ctx, formatter)
            return
        widest = max(map(len, self.where))
        for head, names in self.headed.items():
            with formatter.section(head):
                room = formatter.width - widest - 6
                commands = [(name, self.get_command(ctx, name)) for name in names.split()]
                rows = [
                    (name.ljust(widest), part.get_short_help_str(room)) for name, part in commands if part
                ]
                formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(formatter, self.examples)
        super().format_epilog(ctx, formatter)


def command(name: str, *, examples: Sequence[str], **options: Any) -> Callable[[Callable[..., Any]], Command]:
    """Declare a command that belongs to no group; a group's `.command` takes the same arguments."""
    return click.command(name, cls=Command, examples=examples, **options)


def check_remote(cli: CliSession, ctx: click.Context) -> None:
    """Raises InvalidInput if a server is chosen and the command can't run there."""
    commands: list[click.Command] = []
    context: click.Context | None = ctx
    while context:
        commands.append(context.command)
        context = context.parent
    if any(getattr(command, "remote", False) for command in commands):
        return
    url: str | None = cli.arguments.get(REMOTE_URL)
    advice = "leave --server out to have it done on this machine"
    if url is None and not any(getattr(command, "local", False) for command in commands):
        url, advice = _url_from_settings(cli), "`-o remote.url=` has it done on this machine"
    if url:
        name = " ".join(ctx.command_path.split()[1:])
        raise InvalidInput(
            f"`mindhold {name}` needs the machine that it is run on, and can't be asked of the server at {url}.",
            advice=f"Run it there; {advice}.",
        )


def _url_from_settings(cli: CliSession) -> str:
    try:
        return cli.loaded().settings.remote.url
    except SettingsError:  # the command reports it in its own way
        return ""


def with_open_session(
    handler: Callable[Concatenate[OpenSession, P], Coroutine[Any, Any, int | None]],
) -> Callable[P, int | None]:
    """Run the handler with Mindhold open."""

    @with_session
    @functools.wraps(handler)
    async def callback(cli: CliSession, /, *args: P.args, **kwargs: P.kwargs) -> int | None:
        async with cli.open() as session:
            return await handler(session, *args, **kwargs)

    return callback


def with_session(
    handler: Callable[Concatenate[CliSession, P], Coroutine[Any, Any, int | None]],
) -> Callable[P, int | None]:
    """Run the handler, which opens Mindhold itself."""

    @click.pass_obj
    @functools.wraps(handler)
    def callback(cli: CliSession, /, *args: P.args, **kwargs: P.kwargs) -> int | None:
        return cli.perform(handler(cli, *args, **kwargs))

    return callback


def words(*declarations: str, choices: Sequence[str] = (), **options: Any) -> Decorator:
    """Declare an option that may be repeated and that accepts lists with commas."""

    def split(_ctx: click.Context, _param: click.Parameter, value: Sequence[str]) -> tuple[str, ...]:
        parts = tuple(word.strip() for text in value for word in text.split(",") if word.strip())
        for word in parts:
            if choices and word not in choices:
                raise click.BadParameter(f"{word!r} is not one of {', '.join(choices)}.")
        return parts

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    if choices:
        options["help"] = f"{options['help']} One or more of: {', '.join(choices)}."
    return click.option(*declarations, multiple=True, callback=split, shell_complete=complete, **options)


def global_options(*, shown: bool) -> list[click.Option]:
    """The options that every command takes; --json is always shown in its help."""
    hidden = not shown
    return [
        _flag(["--json", "as_json"], "json", help="Print the answer as JSON."),
        _flag(
            ["--quiet", "-q"], "quiet", help="Print answers only: no notes, no progress bars.", hidden=hidden
        ),
        _flag(["--verbose", "-v"], "verbose", help="Print more, with tracebacks of failures.", hidden=hidden),
        _flag(
            ["--no-color", "no_colour"],
            "plain",
            cls=_NoColour,
            envvar="NO_COLOR",
            help="Print without colour, as NO_COLOR does.",
            hidden=hidden,
        ),
        click.Option(
            ["--home"],
            metavar="DIR",
            expose_value=False,
            callback=_store_setting("home"),
            envvar="MINDHOLD_HOME"
            if shown
            else None,  # on the root only: elsewhere it would override the root's --home
            help="The data folder (MINDHOLD_HOME, else ~/.mindhold).",
            hidden=hidden,
        ),
        click.Option(
            ["--agent"],
            metavar="NAME",
            expose_value=False,
            callback=_store_setting("agent"),
            help="The agent id that owns new memories.",
            hidden=hidden,
        ),
        click.Option(
            ["--server"],
            metavar="URL",
            expose_value=False,
            callback=_store_setting(REMOTE_URL),
            help="Use this `mindhold serve`, not the local store.",
            hidden=hidden,
        ),
        click.Option(
            ["-o", "--option", "settings"],
            metavar="KEY=VALUE",
            multiple=True,
            expose_value=False,
            callback=_store_settings,
            help="A setting for this call; `config show` lists all.",
            hidden=hidden,
        ),
    ]


def write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    """Write the examples without wrapping, so that they can be copied."""
    if examples:
        with formatter.section("Examples"):
            for example in examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


class _NoColour(click.Option):
    """Any non-empty value of NO_COLOR counts (no-color.org)."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        return "1" if super().resolve_envvar_value(ctx) else None


def _flag(
    declarations: list[str], attribute: str, *, cls: type[click.Option] = click.Option, **options: Any
) -> click.Option:
    def store(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        if value:
            setattr(ctx.ensure_object(CliSession).console, attribute, True)

    return cls(declarations, is_flag=True, is_eager=True, expose_value=False, callback=store, **options)


def _store_setting(key: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def store(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
        if value is not None:
            ctx.ensure_object(CliSession).arguments[key] = value

    return store


def _store_settings(ctx: click.Context, _param: click.Parameter, values: Sequence[str]) -> None:
    for pair in values:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE.")
        ctx.ensure_object(CliSession).arguments[key.strip()] = value


def _suggestion(word: str, names: Mapping[str, Any]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, names, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
