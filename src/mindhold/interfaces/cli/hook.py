"""`mindhold hook` and `mindhold statusline`, which Claude Code runs; used only when options precede the command."""

from __future__ import annotations

import click

from mindhold.interfaces.cli.command import command
from mindhold.interfaces.cli.session import CliSession


@command(
    "hook",
    local=True,
    examples=[
        "mindhold hook Stop < event.json",
        '{"type": "command", "command": "mindhold", "args": ["hook", "Stop"]}    # in .claude/settings.json',
    ],
)
@click.argument("event", required=False, metavar="[EVENT]")
@click.pass_obj
def hook(cli: CliSession, event: str | None) -> int:
    """Hear what happened in Claude Code, as JSON on standard input; `mindhold init` puts it where Claude Code runs it.

    Stop, SubagentStop, PreCompact, SessionEnd: what the conversation left is captured, by a worker that goes when it is
    done. SessionStart, UserPromptSubmit, PostToolUse, PostToolUseFailure: it is told what is known, if anything is.
    Whatever happens, the exit status is 0. Nothing is done where MINDHOLD_SKIP is set, or where a prompt has
    [skip-hook] in it.
    """
    return cli.launcher.hook("hook", [event] if event else [], home=cli.arguments.get("home"))


@command(
    "statusline",
    local=True,
    examples=[
        "mindhold statusline < /dev/null",
        '"statusLine": {"type": "command", "command": "mindhold statusline"}    # in .claude/settings.json',
    ],
)
@click.pass_obj
def statusline(cli: CliSession) -> int:
    """Print one line for Claude Code's status line: how many memories, when something was captured, what is wrong.

    Reads what Claude Code hands in on standard input. The exit status is 0, whatever happens.
    """
    return cli.launcher.hook("statusline", [], home=cli.arguments.get("home"))
