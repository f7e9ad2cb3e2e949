"""`recollect completion`: the shell's own script."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from recollect.interfaces.cli.command import command
from recollect.interfaces.cli.session import Session

SHELLS = ["bash", "zsh", "fish"]


@command(
    "completion",
    examples=[
        'eval "$(recollect completion bash)"    # in ~/.bashrc',
        'eval "$(recollect completion zsh)"     # in ~/.zshrc',
        "recollect completion fish > ~/.config/fish/completions/recollect.fish",
    ],
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a shell's completion script."""
    found = get_completion_class(shell)
    assert found is not None
    shell_complete = found(ctx.find_root().command, {}, "recollect", "_RECOLLECT_COMPLETE")
    # Not .source(): bash's would start a bash to ask for its version.
    script = shell_complete.source_template % shell_complete.source_vars()
    console = ctx.ensure_object(Session).console
    if console.json:
        console.document({"shell": shell, "script": script})
    else:
        console.line(script)
