"""`mindhold mcp` and `mindhold serve`: the doors for agents."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from mindhold.interfaces.cli.command import command
from mindhold.interfaces.cli.keys import OPEN
from mindhold.interfaces.cli.session import Desk, Session
from mindhold.interfaces.running import Running
from mindhold.model.errors import MindholdError

if TYPE_CHECKING:
    from mindhold.settings import LoadedSettings

TOOLSETS = "Which tools to serve, by commas: core (the default), fragments, history, assistant, project, capture, all."
SCOPE = (
    "The project that the agent works in, made at first use; it sees Global as well. By default the project of the "
    "folder that it is started in, else Global."
)


def _given(**options: object) -> dict[str, object]:
    """Those that were given: the others may stand before the command."""
    return {name: value for name, value in options.items() if value is not None}


@command(
    "mcp",
    examples=[
        "mindhold mcp",
        "mindhold mcp --toolsets core,assistant",
        "claude mcp add mindhold -- mindhold mcp --scope webshop",
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
        "mindhold serve",
        "mindhold serve --port 4000 --toolsets all",
        "MINDHOLD_ACCESS_KEY=... mindhold serve --host 0.0.0.0",
    ],
)
@click.option(
    "--host", metavar="ADDRESS", help="Where to listen; any but loopback needs a key. Default 127.0.0.1."
)
@click.option("--port", type=click.IntRange(0, 65535), help="Default 3333; 0 takes a free one.")
@click.option("--toolsets", metavar="NAMES", help=TOOLSETS)
@click.pass_obj
def serve(session: Session, host: str | None, port: int | None, toolsets: str | None) -> None:
    """Serve agents by MCP (/mcp, the older /sse) and programs by REST (/api, explained at /docs), on one port.

    There are /health, /metrics and OAuth as well.

    Without MINDHOLD_ACCESS_KEY it is open to everything on this machine, and to nobody else. With it, whoever comes
    in needs that key, one of `mindhold keys create`, or your consent. Keys alone restrict nobody on this machine.
    """
    loaded = session.loaded(**{"serve.host": host, "serve.port": port, "toolsets": toolsets})
    loaded = replace(loaded, folder=None)  # it serves every folder
    session.perform(session.launcher.serve_http(loaded, start=_Start(session, loaded)))


class _Start:
    """Tells the person how it goes."""

    def __init__(self, session: Session, loaded: LoadedSettings) -> None:
        self._session = session
        self._keyed = bool(loaded.settings.access_key)
        self._store = f"{loaded.settings.store.mode}, which doesn't answer yet"

    def away(self, error: MindholdError) -> None:
        self._session.console.warn(f"{error} Until it answers, calls fail.", label="warning:")

    async def opened(self, running: Running) -> None:
        desk = Desk(running, self._session)
        with suppress(MindholdError):  # the server tells its clients
            store = (await desk.run("status")).store
            self._store = f"{store['kind']}, {store['location']}"
            if not self._keyed and (await desk.run("list_keys")).keys:
                self._session.console.warn(OPEN)  # who made keys means to restrict somebody

    def ready(self, address: str) -> None:
        told = (
            f"REST at {address}/api, explained at {address}/docs,\n"
            f"MCP at {address}/mcp, from {self._store}. Ctrl-C stops it."
        )
        self._session.console.warn(told, label="Mindhold serves:")
