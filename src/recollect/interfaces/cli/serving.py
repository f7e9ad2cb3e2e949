"""`recollect mcp` and `recollect serve`: the doors for agents."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from recollect.interfaces.cli.command import command
from recollect.interfaces.cli.keys import OPEN
from recollect.interfaces.cli.session import Desk, Session
from recollect.model.errors import RecollectError

if TYPE_CHECKING:
    from recollect.settings import LoadedSettings

TOOLSETS = "Which tools to serve, by commas: core (the default), fragments, history, assistant, project, capture, all."
SCOPE = "The project that the agent works in, made at first use; it sees Global as well. Default Global."


def _given(**options: object) -> dict[str, object]:
    """Those that were given: the others may stand before the command."""
    return {name: value for name, value in options.items() if value is not None}


@command(
    "mcp",
    examples=[
        "recollect mcp",
        "recollect mcp --toolsets core,assistant",
        "claude mcp add recollect -- recollect mcp --scope webshop",
    ],
)
@click.option("--toolsets", metavar="NAMES", help=TOOLSETS)
@click.option("--scope", metavar="NAME", help=SCOPE)
@click.pass_obj
def mcp(session: Session, toolsets: str | None, scope: str | None) -> None:
    """Serve MCP on standard input and output, to the client that starts this command.

    Ends when the client goes. Anything printed by accident goes to standard error, never between the messages.
    """
    if sys.stdin is not None and sys.stdin.isatty():
        session.console.warn(
            "This waits for an MCP client on standard input; Ctrl-D ends it. docs/MCP.md says how to connect one."
        )
    session.perform(session.launcher.serve_stdio(session.loaded(**_given(toolsets=toolsets, scope=scope))))


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

    Without RECOLLECT_ACCESS_KEY it is open to everything on this machine, and to nobody else. With it, whoever comes
    in needs that key, one of `recollect keys create`, or your consent. Keys alone restrict nobody on this machine.
    """
    loaded = session.loaded(**{"serve.host": host, "serve.port": port, "toolsets": toolsets})

    def ready(address: str) -> None:
        session.console.warn(f"MCP at {address}/mcp. Ctrl-C stops it.", label="Recollect serves:")

    async def work() -> None:
        await _warn_of_open_door(session, loaded)
        await session.launcher.serve_http(loaded, ready=ready)

    session.perform(work())


async def _warn_of_open_door(session: Session, loaded: LoadedSettings) -> None:
    """Who made keys means to restrict somebody."""
    settings = loaded.settings
    nothing_yet = settings.store.mode == "local" and not settings.database.exists()
    if settings.access_key or nothing_yet:
        return
    with suppress(RecollectError):  # the server tells its clients
        async with session.launcher.open(loaded) as running:
            if (await Desk(running, session).run("list_keys")).keys:
                session.console.warn(OPEN)
