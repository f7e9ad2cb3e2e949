"""The `mindhold` command: its groups, global options and exit codes."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

import click

from mindhold import __version__
from mindhold.interfaces.cli.command import Group, global_options
from mindhold.interfaces.cli.output import Console, ReaderGone, make_streams_safe, silence_stdout
from mindhold.interfaces.cli.session import CliSession, Launcher
from mindhold.model.errors import MindholdError

INTERRUPTED = 130
UNEXPECTED = 70
_HERE = "mindhold.interfaces.cli"

COMMANDS = {
    "remember": f"{_HERE}.remember:remember",
    "recall": f"{_HERE}.recall:recall",
    "search": f"{_HERE}.recall:recall",
    "ask": f"{_HERE}.recall:ask",
    "forget": f"{_HERE}.forget:forget",
    "unarchive": f"{_HERE}.forget:unarchive",
    "show": f"{_HERE}.memories:show",
    "list": f"{_HERE}.memories:list_memories",
    "amend": f"{_HERE}.amend:amend",
    "link": f"{_HERE}.amend:link",
    "context": f"{_HERE}.context:context",
    "reflect": f"{_HERE}.context:reflect",
    "explore": f"{_HERE}.context:explore",
    "feedback": f"{_HERE}.stats:feedback",
    "profile": f"{_HERE}.profile:profile",
    "scopes": f"{_HERE}.scopes:scopes",
    "projects": f"{_HERE}.projects:projects",
    "migrate": f"{_HERE}.projects:migrate",
    "tags": f"{_HERE}.memories:tags",
    "timeline": f"{_HERE}.timeline:timeline",
    "versions": f"{_HERE}.timeline:versions",
    "reconstruct": f"{_HERE}.timeline:reconstruct",
    "why": f"{_HERE}.timeline:why",
    "history": f"{_HERE}.history:history",
    "conversations": f"{_HERE}.conversations:conversations",
    "status": f"{_HERE}.status:status",
    "stats": f"{_HERE}.stats:stats",
    "spend": f"{_HERE}.stats:spend",
    "doctor": f"{_HERE}.status:doctor",
    "consolidate": f"{_HERE}.consolidate:consolidate",
    "audit": f"{_HERE}.audit:audit",
    "maintain": f"{_HERE}.consolidate:maintain",
    "sync": f"{_HERE}.status:sync",
    "contradictions": f"{_HERE}.audit:contradictions",
    "capture": f"{_HERE}.status:capture",
    "review": f"{_HERE}.review:review",
    "config": f"{_HERE}.config:config",
    "models": f"{_HERE}.models:models",
    "jobs": f"{_HERE}.jobs:jobs",
    "keys": f"{_HERE}.keys:keys",
    "mcp": f"{_HERE}.serve:mcp",
    "serve": f"{_HERE}.serve:serve",
    "backup": f"{_HERE}.backup:backup",
    "restore": f"{_HERE}.backup:restore",
    "actions": f"{_HERE}.serve:actions",
    "export": f"{_HERE}.transfer:export",
    "import": f"{_HERE}.transfer:import_file",
    "hook": f"{_HERE}.hook:hook",
    "statusline": f"{_HERE}.hook:statusline",
    "setup": f"{_HERE}.setup:setup",
    "init": f"{_HERE}.init:init",
    "uninstall": f"{_HERE}.uninstall:uninstall_command",
    "connect": f"{_HERE}.init:connect",
    "completion": f"{_HERE}.completion:completion",
    "demo": f"{_HERE}.demo:demo",
}

HEADED = {
    "Memories": "remember recall search ask list show amend link forget unarchive tags timeline versions reconstruct why",
    "Conversations": "history conversations context profile reflect explore feedback",
    "Scopes and projects": "scopes projects migrate",
    "Serving": "mcp serve actions keys",
    "Upkeep": "status stats spend doctor maintain consolidate audit contradictions config models jobs backup restore export "
    "import",
    "Claude Code": "init uninstall connect capture review sync hook statusline",
    "Getting started": "setup demo completion",
}

EXIT_CODES = """\
\b
Exit status:
  0    success, also when nothing was found
  1    part of it failed, or doctor found a problem
  2    wrong usage or invalid input
  3    no such memory, scope or job
  4    conflict: it exists already, or is in use
  5    refused: not allowed
  6    a setting is wrong
  7    the database failed (busy, full, read-only, damaged)
  8    an embedding model failed
  9    the --server can't be reached, or isn't Mindhold
  70   a bug in Mindhold
  130  interrupted

\b
With --json an error is printed on stdout as well:
  {"error": {"code": ..., "message": ..., "advice": ...}}
"""


@click.group(
    "mindhold",
    cls=Group,
    where=COMMANDS,
    headed=HEADED,
    params=global_options(shown=True),
    invoke_without_command=True,
    epilog=EXIT_CODES,
    examples=[
        'mindhold remember "The staging database listens on port 5433" --tag staging',
        'mindhold recall "which port does staging use?"',
        "mindhold recall deploy --when 'last week' --json",
        "mindhold demo",
    ],
)
@click.option("--scope", metavar="NAME", help="The scope to work in.")
@click.version_option(__version__, message="mindhold %(version)s")
@click.pass_context
def cli(ctx: click.Context, scope: str | None) -> None:
    """Long-term memory for AI agents, entirely on your own machine."""
    if scope is not None:
        ctx.ensure_object(CliSession).arguments["scope"] = scope
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run(argv: Sequence[str], launcher: Launcher) -> int:
    """Run one command and return the exit status."""
    make_streams_safe()
    console = Console(json=_wants_json(argv))
    try:
        status: Any = cli.main(
            args=list(argv), prog_name="mindhold", standalone_mode=False, obj=CliSession(launcher, console)
        )
        return status if isinstance(status, int) else 0
    except ReaderGone:
        silence_stdout()
        return 0
    except MindholdError as error:
        return _report(console, error.exit_status, error.code, error.message, error.advice)
    except click.ClickException as error:
        return _report(console, error.exit_code, "USAGE", error.format_message(), _usage_advice(error))
    except (click.Abort, KeyboardInterrupt):
        return _report(console, INTERRUPTED, "INTERRUPTED", "Interrupted.", "")
    except Exception as error:  # noqa: BLE001 - the outermost handler
        if console.verbose:
            console.warn("".join(traceback.format_exception(error)))
        advice = "This is a fault of Mindhold: please report it." + (
            "" if console.verbose else " The same call with -v shows the trace; `mindhold doctor` may help."
        )
        return _report(console, UNEXPECTED, "INTERNAL", f"{type(error).__name__}: {error}", advice)


def _report(console: Console, status: int, code: str, message: str, advice: str) -> int:
    try:
        if console.json:
            console.document({"error": {"code": code, "message": message, "advice": advice}})
        console.warn(f"{message}\n  {advice}" if advice else message, label="error:")
    except BrokenPipeError:
        silence_stdout()
    return status


def _usage_advice(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"`{context.command_path} --help` shows how." if context else ""


def _wants_json(argv: Sequence[str]) -> bool:
    """Look for --json before parsing, because parsing itself may fail."""
    words = list(argv)
    return "--json" in (words[: words.index("--")] if "--" in words else words)
