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
        '{"type": "command", "command": "mindhold hook Stop"}    # in .claude/settings.json',
    ],
)
@click.argument("event", required=False, metavar="[EVENT]")
@click.pass_obj
def hook(cli: CliSession, event: str | None) -> int:
    """Handle a hook event of Claude Code, JSON on stdin.

    `mindhold init` registers it in Claude Code's settings. Stop, SubagentStop, PreCompact, SessionEnd: a background
    worker captures memories from the conversation. SessionStart, UserPromptSubmit, PostToolUse, PostToolUseFailure: the
    answer holds memories that fit. The exit status is always 0. Nothing happens if MINDHOLD_SKIP is set, or if a prompt
    contains [skip-hook].
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
    """Print one line for Claude Code's status line.

    It shows the number of memories, the last capture and problems. Claude Code passes JSON on standard input. The exit
    status is always 0.
    """
    return cli.launcher.hook("statusline", [], home=cli.arguments.get("home"))
