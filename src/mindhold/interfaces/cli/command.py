"""How commands are declared: examples, global options, lazy loading, and which commands a server can answer."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
        except BrokenPipeError as error:  # before click makes an exit status 1 of it
            raise ReaderGone from error

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(formatter, self.examples)


class Group(click.Group):
    """Commands by name, each in the module that `where` says ("module:attribute"), loaded when it is needed.

    `headed` has the names in the order of the help, under headings.
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
        found = getattr(import_module(module), attribute)
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.where and args and not args[0].startswith("-") and args[0] not in self.where:
            raise click.UsageError(f"There is no command {args[0]!r}.{_nearest(args[0], self.where)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.headed:
            super().format_commands(ctx, formatter)
            return
        widest = max(map(len, self.where))
        for head, names in self.headed.items():
            with formatter.section(head):
                room = formatter.width - widest - 6
                found = [(name, self.get_command(ctx, name)) for name in names.split()]
                rows = [(name.ljust(widest), one.get_short_help_str(room)) for name, one in found if one]
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
    handler: Callable[Concatenate[OpenSession, P], Awaitable[int | None]],
) -> Callable[P, int | None]:
    """Runs the handler with Mindhold open."""

    @click.pass_obj
    @functools.wraps(handler)
    def callback(cli: CliSession, /, *args: P.args, **given: P.kwargs) -> int | None:
        async def work() -> int | None:
            async with cli.open() as session:
                return await handler(session, *args, **given)

        return cli.perform(work())

    return callback


def with_session(
    handler: Callable[Concatenate[CliSession, P], Awaitable[int | None]],
) -> Callable[P, int | None]:
    """Runs the handler, which opens Mindhold itself."""

    @click.pass_obj
    @functools.wraps(handler)
    def callback(cli: CliSession, /, *args: P.args, **given: P.kwargs) -> int | None:
        async def work() -> int | None:
            return await handler(cli, *args, **given)

        return cli.perform(work())

    return callback


def words(*declarations: str, choices: Sequence[str] = (), **given: Any) -> Decorator:
    """An option that may be repeated, and takes lists with commas."""

    def split(_ctx: click.Context, _param: click.Parameter, value: Sequence[str]) -> tuple[str, ...]:
        found = tuple(word.strip() for one in value for word in one.split(",") if word.strip())
        for word in found:
            if choices and word not in choices:
                raise click.BadParameter(f"{word!r} is not one of {', '.join(choices)}.")
        return found

    def offered(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    if choices:
        given["help"] = f"{given['help']} One or more of: {', '.join(choices)}."
    return click.option(*declarations, multiple=True, callback=split, shell_complete=offered, **given)


def global_options(*, shown: bool) -> list[click.Option]:
    """The options that every command takes; --json is always shown in its help."""
    hidden = not shown
    return [
        _flag(["--json", "as_json"], "json", help="Print the answer as JSON."),
        _flag(["--quiet", "-q"], "quiet", help="Print answers only: no notes, no bars.", hidden=hidden),
        _flag(["--verbose", "-v"], "verbose", help="Say more, with traces of failures.", hidden=hidden),
        _flag(
            ["--no-color", "no_colour"],
            "plain",
            cls=_NoColour,
            envvar="NO_COLOR",
            help="No colour (so does NO_COLOR).",
            hidden=hidden,
        ),
        click.Option(
            ["--home"],
            metavar="DIR",
            expose_value=False,
            callback=_setting("home"),
            envvar="MINDHOLD_HOME" if shown else None,  # the root's alone, or it would undo the root's --home
            help="The folder where everything is kept (else MINDHOLD_HOME, ~/.mindhold).",
            hidden=hidden,
        ),
        click.Option(
            ["--agent"],
            metavar="NAME",
            expose_value=False,
            callback=_setting("agent"),
            help="Whose memories these are.",
            hidden=hidden,
        ),
        click.Option(
            ["--server"],
            metavar="URL",
            expose_value=False,
            callback=_setting(REMOTE_URL),
            help="Ask this `mindhold serve` instead of the store on this machine.",
            hidden=hidden,
        ),
        click.Option(
            ["-o", "--option", "settings"],
            metavar="KEY=VALUE",
            multiple=True,
            expose_value=False,
            callback=_any_setting,
            help="Any setting, for this call only; `mindhold config show` lists them.",
            hidden=hidden,
        ),
    ]


def write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    """As they are, not wrapped: they are to be copied."""
    if examples:
        with formatter.section("Examples"):
            for example in examples:
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


class _NoColour(click.Option):
    """NO_COLOR counts whatever its value, as long as it has one (no-color.org)."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        return "1" if super().resolve_envvar_value(ctx) else None


def _flag(
    declarations: list[str], attribute: str, *, cls: type[click.Option] = click.Option, **given: Any
) -> click.Option:
    def note(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        if value:
            setattr(ctx.ensure_object(CliSession).console, attribute, True)

    return cls(declarations, is_flag=True, is_eager=True, expose_value=False, callback=note, **given)


def _setting(key: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def note(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
        if value is not None:
            ctx.ensure_object(CliSession).arguments[key] = value

    return note


def _any_setting(ctx: click.Context, _param: click.Parameter, values: Sequence[str]) -> None:
    for pair in values:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE.")
        ctx.ensure_object(CliSession).arguments[key.strip()] = value


def _nearest(word: str, known: Mapping[str, Any]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
