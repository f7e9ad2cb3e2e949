"""`mindhold completion`: prints the shell's completion script."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from mindhold.interfaces.cli.command import command
from mindhold.interfaces.cli.session import CliSession

SHELLS = ["bash", "zsh", "fish"]


@command(
    "completion",
    local=True,
    examples=[
        'eval "$(mindhold completion bash)"    # in ~/.bashrc',
        'eval "$(mindhold completion zsh)"     # in ~/.zshrc',
        "mindhold completion fish > ~/.config/fish/completions/mindhold.fish",
    ],
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a shell's completion script."""
    completion_class = get_completion_class(shell)
    assert completion_class is not None
    shell_complete = completion_class(ctx.find_root().command, {}, "mindhold", "_MINDHOLD_COMPLETE")
    # Not .source(): for bash it would start a bash to ask for its version.
    script = shell_complete.source_template % shell_complete.source_vars()
    console = ctx.ensure_object(CliSession).console
    if not console.as_json({"shell": shell, "script": script}):
        console.line(script)
