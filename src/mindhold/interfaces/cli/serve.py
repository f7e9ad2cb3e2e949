"""`mindhold mcp`, `mindhold serve` and `mindhold actions`: servers for agents, and the assistant's tools for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from mindhold.interfaces.cli.command import command, with_open_session
from mindhold.interfaces.cli.keys import OPEN
from mindhold.interfaces.cli.session import CliSession, OpenSession
from mindhold.interfaces.runtime import OpenMindhold
from mindhold.model.errors import ContentTooLarge, InvalidInput, MindholdError
from mindhold.model.prompt_markup import neutralize

if TYPE_CHECKING:
    from mindhold.contracts.mcp.tools import Tool
    from mindhold.settings.loader import LoadedSettings


TOOLSETS = "The tools to serve: core (the default), fragments, history, assistant, project, capture, all."
SCOPE = (
    "The project of the agent, created at first use; Global is visible too. Default: the project of the current folder, "
    "else Global."
)


@command(
    "mcp",
    local=True,
    examples=[
        "mindhold mcp",
        "mindhold mcp --toolsets core,assistant",
        "claude mcp add mindhold -- mindhold mcp --scope webshop",
    ],
)
@click.option("--toolsets", metavar="NAMES", help=TOOLSETS)
@click.option("--scope", metavar="NAME", help=SCOPE)
@click.pass_obj
def mcp(cli: CliSession, toolsets: str | None, scope: str | None) -> None:
    """Serve MCP on standard input and output.

    An MCP client starts this command, and it ends with the client. Stray output goes to standard error, never between
    the messages.
    """
    if sys.stdin is not None and sys.stdin.isatty():
        cli.console.warn(
            "This waits for an MCP client on standard input; Ctrl-D ends it. docs/MCP.md says how to connect one."
        )
    cli.perform(cli.launcher.serve_stdio(cli.loaded(toolsets=toolsets, scope=scope)))


@command(
    "serve",
    local=True,
    examples=[
        "mindhold serve",
        "mindhold serve --port 4000 --toolsets all",
        "MINDHOLD_ACCESS_KEY=... mindhold serve --host 0.0.0.0",
    ],
)
@click.option(
    "--host",
    metavar="ADDRESS",
    help="The address to listen on (default: 127.0.0.1); any but loopback needs a key.",
)
@click.option("--port", type=click.IntRange(0, 65535), help="The port (default: 3333); 0 takes a free one.")
@click.option("--toolsets", metavar="NAMES", help=TOOLSETS)
@click.pass_obj
def serve(cli: CliSession, host: str | None, port: int | None, toolsets: str | None) -> None:
    """Serve MCP and REST over HTTP, on one port.

    MCP is at /mcp (the older form at /sse), REST at /api, its description at /docs. There are also /health, /metrics
    and OAuth.

    Without MINDHOLD_ACCESS_KEY, every program on this machine has access, and nobody else. With it, a caller needs that
    key, a key of `mindhold keys create`, or your consent. Keys alone restrict nobody on this machine.
    """
    loaded = cli.loaded(**{"serve.host": host, "serve.port": port, "toolsets": toolsets})
    loaded = replace(loaded, folder=None)  # it serves every folder
    cli.perform(cli.launcher.serve_http(loaded, start=_Start(cli, loaded)))


class _Start:
    """Prints how the server starts."""

    def __init__(self, cli: CliSession, loaded: LoadedSettings) -> None:
        self._cli = cli
        self._keyed = bool(loaded.settings.access_key)
        self._store = f"{loaded.settings.store.mode}, which doesn't answer yet"

    def away(self, error: MindholdError) -> None:
        self._cli.console.warn(f"{error} Until it answers, calls fail.", label="warning:")

    async def opened(self, running: OpenMindhold) -> None:
        from mindhold.access.keys import LIST_KEYS
        from mindhold.lifecycle.status import STATUS

        session = OpenSession(running, self._cli)
        with suppress(MindholdError):  # clients get the error from the server
            store = (await session.run(STATUS)).store
            self._store = f"{store['kind']}, {store['location']}"
            if not self._keyed and (await session.run(LIST_KEYS)).keys:
                self._cli.console.warn(OPEN)  # keys exist, so somebody is meant to be restricted

    def ready(self, address: str) -> None:
        text = (
            f"REST at {address}/api, explained at {address}/docs,\n"
            f"MCP at {address}/mcp, from {self._store}. Ctrl-C stops it."
        )
        self._cli.console.warn(text, label="Mindhold serves:")


LONGEST_LINE = 8 << 20  # bytes; fits the longest text that can be stored, escaped in any way
_SKIPPED = 1 << 16


@command(
    "actions",
    examples=[
        """echo '{"action": "store_memory", "content": "Tea at four."}' | mindhold actions""",
        "mindhold actions < script.jsonl > answers.jsonl",
    ],
)
@with_open_session
async def actions(session: OpenSession) -> int:
    """Run assistant tools from JSON lines on stdin.

    Each line is a JSON object with `action`, a tool of the toolset `assistant`, and its arguments. Each line gets one
    answer line on stdout, in order and at once. A line that fails gets its error as the answer; the exit status is then 1.
    """
    from mindhold.contracts.mcp.tools import contract

    tools = {tool.name: tool for tool in contract("assistant").tools}
    failed = 0
    for line in _lines(sys.stdin.buffer):
        try:
            answer = await _run_action(session, tools, line)
        except MindholdError as error:
            failed += 1
            fields = {"code": error.code, "error": error.message, "advice": error.advice}
            answer = {"status": "ERROR", **{name: neutralize(value) for name, value in fields.items()}}
        session.console.record(answer)
    return 1 if failed else 0


async def _run_action(
    session: OpenSession, tools: Mapping[str, Tool], line: bytes | None
) -> Mapping[str, Any]:
    arguments = _parse_line(line)
    name = arguments.pop("action", None)
    if not isinstance(name, str):
        raise InvalidInput("The action is missing.", advice=f"Give one of: {', '.join(tools)}.")
    tool = tools.get(name)
    if tool is None:
        raise InvalidInput(f"Unknown action: {name[:80]}.", advice=f"There are: {', '.join(tools)}.")
    request = tool.request(arguments)
    if request.operation.needs_vectors:
        session.running.warm()
    return tool.answer(await session.running.run(request.operation, request.given, tool=tool.name))


def _lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """Yield the lines that aren't blank; None for one that is too long, which is skipped."""
    while line := stream.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            while not line.endswith(b"\n") and (line := stream.readline(_SKIPPED)):
                pass
            yield None
        elif line.strip():
            yield line


def _parse_line(line: bytes | None) -> dict[str, Any]:
    if line is None:
        raise ContentTooLarge(f"The line has over {LONGEST_LINE:,} bytes.", advice="Split what it stores.")
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidInput(f"Not JSON: {reason}.", advice="Give one object a line.") from error
    if not isinstance(value, dict):
        raise InvalidInput("The line is no object.", advice='Give {"action": ..., ...}.')
    return value
