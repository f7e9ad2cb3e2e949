"""`recollect mcp` and `recollect serve`: the doors for agents."""

from __future__ import annotations

import click

from recollect.interfaces.cli.command import command
from recollect.interfaces.cli.session import Session

TOOLSETS = "Which tools to serve, by commas: core (the default), fragments, history, assistant, project, capture, all."


@command(
    "mcp",
    examples=[
        "recollect mcp",
        "recollect mcp --toolsets core,assistant",
        "claude mcp add recollect -- recollect mcp",
    ],
)
@click.option("--toolsets", metavar="NAMES", help=TOOLSETS)
@click.pass_obj
def mcp(session: Session, toolsets: str | None) -> None:
    """Serve MCP on standard input and output, to the client that starts this command.

    Ends when the client goes. Anything printed by accident goes to standard error, never between the messages.
    """
    session.perform(session.launcher.serve_stdio(session.loaded(toolsets=toolsets)))


@command(
    "serve",
    examples=[
        "recollect serve",
        "recollect serve --port 4000 --toolsets all",
        "RECOLLECT_ACCESS_KEY=... recollect serve --host 0.0.0.0",
    ],
)
@click.option(
    "--host", metavar="ADDRESS", help="Where to listen; any but loopback needs a key. Default 127.0.0.1."
)
@click.option("--port", type=click.IntRange(0, 65535), help="Default 3333; 0 takes a free one.")
@click.option("--toolsets", metavar="NAMES", help=TOOLSETS)
@click.pass_obj
def serve(session: Session, host: str | None, port: int | None, toolsets: str | None) -> None:
    """Serve MCP over HTTP: /mcp, the older /sse, /health, /metrics and OAuth, on one port.

    Open to this machine only unless a key is set (RECOLLECT_ACCESS_KEY, or `recollect keys create`).
    """
    given = {"serve.host": host, "serve.port": port, "toolsets": toolsets}

    def ready(address: str) -> None:
        session.console.warn(f"MCP at {address}/mcp. Ctrl-C stops it.", label="Recollect serves:")

    session.perform(session.launcher.serve_http(session.loaded(**given), ready=ready))
