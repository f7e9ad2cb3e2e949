"""The `mindhold` command: its groups, its global options, and what its exit status means."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

import click

from mindhold import __version__
from mindhold.interfaces.cli.command import Group, global_options
from mindhold.interfaces.cli.launcher import Launcher
from mindhold.interfaces.cli.output import Console, ReaderGone, make_streams_safe, silence_stdout
from mindhold.interfaces.cli.session import Session
from mindhold.model.errors import MindholdError

INTERRUPTED = 130
UNEXPECTED = 70
_HERE = "mindhold.interfaces.cli"

COMMANDS = {
    "remember": f"{_HERE}.remembering:remember",
    "recall": f"{_HERE}.recalling:recall",
    "search": f"{_HERE}.recalling:recall",
    "ask": f"{_HERE}.asking:ask",
    "forget": f"{_HERE}.forgetting:forget",
    "unarchive": f"{_HERE}.auditing:unarchive",
    "show": f"{_HERE}.listing:show",
    "list": f"{_HERE}.listing:list_memories",
    "amend": f"{_HERE}.amending:amend",
    "link": f"{_HERE}.amending:link",
    "context": f"{_HERE}.knowing:context",
    "reflect": f"{_HERE}.knowing:reflect",
    "explore": f"{_HERE}.knowing:explore",
    "feedback": f"{_HERE}.judging:feedback",
    "profile": f"{_HERE}.profile:profile",
    "scopes": f"{_HERE}.scopes:scopes",
    "projects": f"{_HERE}.projects:projects",
    "migrate": f"{_HERE}.projects:migrate",
    "tags": f"{_HERE}.listing:tags",
    "timeline": f"{_HERE}.listing:timeline",
    "versions": f"{_HERE}.tracing:versions",
    "reconstruct": f"{_HERE}.tracing:reconstruct",
    "why": f"{_HERE}.tracing:why",
    "history": f"{_HERE}.history:history",
    "conversations": f"{_HERE}.conversations:conversations",
    "status": f"{_HERE}.upkeep:status",
    "stats": f"{_HERE}.judging:stats",
    "spend": f"{_HERE}.spending:spend",
    "doctor": f"{_HERE}.upkeep:doctor",
    "consolidate": f"{_HERE}.consolidating:consolidate",
    "audit": f"{_HERE}.auditing:audit",
    "maintain": f"{_HERE}.maintaining:maintain",
    "sync": f"{_HERE}.syncing:sync",
    "contradictions": f"{_HERE}.contradicting:contradictions",
    "capture": f"{_HERE}.capturing:capture",
    "config": f"{_HERE}.config:config",
    "models": f"{_HERE}.models:models",
    "jobs": f"{_HERE}.jobs:jobs",
    "keys": f"{_HERE}.keys:keys",
    "mcp": f"{_HERE}.serving:mcp",
    "serve": f"{_HERE}.serving:serve",
    "backup": f"{_HERE}.backing_up:backup",
    "restore": f"{_HERE}.backing_up:restore",
    "actions": f"{_HERE}.acting:actions",
    "export": f"{_HERE}.transfer:export",
    "import": f"{_HERE}.transfer:import_file",
    "hook": f"{_HERE}.hooking:hook",
    "statusline": f"{_HERE}.hooking:statusline",
    "setup": f"{_HERE}.setting_up:setup",
    "init": f"{_HERE}.initializing:init",
    "uninstall": f"{_HERE}.uninstalling:uninstall_command",
    "connect": f"{_HERE}.connecting:connect",
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
    "Claude Code": "init uninstall connect capture sync hook statusline",
    "Beginning": "setup demo completion",
}

EXIT_CODES = """\
\b
Exit status:
  0    fine, also when nothing was found
  1    some of it failed, or doctor found something wrong
  2    wrong usage, or input that can't be used
  3    no such memory, scope or job
  4    conflict: it exists already, or is in use
  5    refused: not allowed as asked
  6    a setting is wrong
  7    the database failed (busy, full, read-only, damaged)
  8    an embedding model failed
  9    the server of --server can't be reached, or isn't one
  70   a fault of Mindhold itself
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
@click.option("--scope", metavar="NAME", help="The scope that the call is made in.")
@click.version_option(__version__, message="mindhold %(version)s")
@click.pass_context
def cli(ctx: click.Context, scope: str | None) -> None:
    """Long-term memory for AI agents, entirely on your own machine."""
    if scope is not None:
        ctx.ensure_object(Session).arguments["scope"] = scope
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run(argv: Sequence[str], launcher: Launcher) -> int:
    """One call; returns the exit status."""
    make_streams_safe()
    console = Console(json=_wants_json(argv))
    session = Session(launcher, console)
    try:
        status: Any = cli.main(args=list(argv), prog_name="mindhold", standalone_mode=False, obj=session)
        return status if isinstance(status, int) else 0
    except ReaderGone:
        silence_stdout()
        return 0
    except MindholdError as error:
        return _failed(console, error.exit_status, error.code, error.message, error.advice)
    except click.ClickException as error:
        return _failed(console, error.exit_code, "USAGE", error.format_message(), _usage_advice(error))
    except (click.Abort, KeyboardInterrupt):
        return _failed(console, INTERRUPTED, "INTERRUPTED", "Interrupted.", "")
    except Exception as error:  # noqa: BLE001 - the outermost handler
        if console.verbose:
            console.warn("".join(traceback.format_exception(error)))
        advice = "This is a fault of Mindhold: please report it." + (
            "" if console.verbose else " The same call with -v shows the trace; `mindhold doctor` may help."
        )
        return _failed(console, UNEXPECTED, "INTERNAL", f"{type(error).__name__}: {error}", advice)


def _failed(console: Console, status: int, code: str, message: str, advice: str) -> int:
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
    """Before the options are parsed, since that may be what fails."""
    words = list(argv)
    return "--json" in (words[: words.index("--")] if "--" in words else words)
