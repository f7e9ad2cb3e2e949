"""The whole HTTP door on a free port of this machine, and what its tests say to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mindhold.app.application import open_app
from mindhold.interfaces.http.health import Metrics
from mindhold.interfaces.http.server import (
    ConnectionCounts,
    HttpServer,
    bind,
    http_app,
    http_server,
    shown_address,
)
from mindhold.interfaces.http.shutdown import Shutdown
from mindhold.interfaces.logs import logging_to
from mindhold.interfaces.mcp.http import McpHttp
from mindhold.interfaces.mcp.requests import LazyEngine
from mindhold.interfaces.mcp.server import McpServer
from mindhold.interfaces.runtime import CALLER_KEY, local_caller
from mindhold.operation_index import operation
from mindhold.settings.loader import LoadedSettings

KEY = "correct-horse-battery-staple"
WAIT = 60.0
Load = Callable[..., LoadedSettings]


@dataclass(frozen=True, slots=True)
class Served:
    """A door that is open."""

    url: str
    port: int
    opening: LazyEngine
    metrics: Metrics
    server: HttpServer
    reached: asyncio.Event
    released: asyncio.Event

    async def run(self, name: str, /, **given: Any) -> Any:
        """An operation, by the owner at this machine."""
        chosen = operation(name)
        return await (await self.opening.running()).run(chosen, chosen.takes(**given))

    def client(
        self, key: str | None = None, *, host: str | None = None, timeout: float = WAIT
    ) -> httpx2.AsyncClient:
        """With that key, under that name."""
        headers = {"Authorization": f"Bearer {key}"} if key is not None else {}
        headers |= {"Host": host} if host is not None else {}
        return httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=timeout)


async def _echo(request: Request) -> Response:
    caller = request.scope[CALLER_KEY]
    body = await request.body()
    told = {
        "agent": caller.agent,
        "bound": caller.bound,
        "scopes": list(caller.scopes),
        "writes": caller.writes,
    }
    return JSONResponse({**told, "owner": caller.owner, "bytes": len(body)})


async def _long(_request: Request) -> Response:
    return JSONResponse({"text": "long " * 1_000})


async def _stream(_request: Request) -> Response:
    async def events() -> AsyncIterator[str]:
        yield "data: " + "long " * 1_000 + "\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


async def _flood(request: Request) -> Response:
    """More than anybody reads; it ends when the client is given up."""

    async def without_end() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 65_536
                await asyncio.sleep(0)  # writing to one who is gone does not wait
        finally:
            request.app.state.reached.set()

    return StreamingResponse(without_end())


async def _wait(request: Request) -> Response:
    """Until the test says so."""
    request.app.state.reached.set()
    await request.app.state.released.wait()
    return JSONResponse({"waited": True})


async def _broken(_request: Request) -> Response:
    raise ZeroDivisionError("the heron's secret")


PROBES = [
    Route("/echo", endpoint=_echo, methods=["GET", "POST"]),
    Route("/long", endpoint=_long, methods=["GET"]),
    Route("/stream", endpoint=_stream, methods=["GET"]),
    Route("/flood", endpoint=_flood, methods=["GET"]),
    Route("/wait", endpoint=_wait, methods=["POST"]),
    Route("/broken", endpoint=_broken, methods=["GET"]),
]


@asynccontextmanager
async def door(loaded: LoadedSettings, *, crowd: ConnectionCounts | None = None) -> AsyncIterator[Served]:
    """Open for the time of the context, with a few routes to probe it by."""
    settings = loaded.settings
    opening = LazyEngine(lambda: open_app(loaded))
    metrics = Metrics()
    server = McpServer(opening, settings=settings, local=local_caller(loaded), observe=metrics.observe_tool)
    mcp = McpHttp(server, opening, settings=settings.serve)
    metrics.count_sessions(lambda: len(server.conversations))
    stopping = Shutdown(server.listening.close)
    app = http_app(
        opening,
        loaded=loaded,
        mcp_routes=[*mcp.routes(), *PROBES],
        mcp_lifespan=mcp.run,
        metrics=metrics,
        stopping=stopping,
    )
    app.state.reached, app.state.released = asyncio.Event(), asyncio.Event()
    ready = asyncio.Event()
    running = http_server(app, settings=settings.serve, stopping=stopping, ready=ready.set, crowd=crowd)
    sockets = bind(settings.serve)
    port = sockets[0].getsockname()[1]
    with logging_to(settings):
        serving = asyncio.create_task(running.serve(sockets))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        try:
            yield Served(
                shown_address(sockets),
                port,
                opening,
                metrics,
                running,
                app.state.reached,
                app.state.released,
            )
        finally:
            waiting.cancel()
            running.should_exit = True
            await serving
            await opening.close()


async def say(port: int, *parts: bytes) -> bytes:
    """Bytes to the port, and all that comes back until the other side hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        return await asyncio.wait_for(reader.read(), WAIT)
    finally:
        writer.close()
        await writer.wait_closed()


def tool_call(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A call of a tool, as JSON-RPC has it."""
    params = {"name": name, "arguments": dict(arguments)}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


class Talk:
    """A client of Streamable HTTP that shows the answers as they came."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client
        self.headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}

    async def begin(self) -> None:
        """Initialize."""
        hello = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        }
        answer = await self._client.post("/mcp", json=hello, headers=self.headers)
        answer.raise_for_status()
        self.headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self._client.post("/mcp", json=done, headers=self.headers)

    async def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """A tool's answer."""
        answer = await self._client.post("/mcp", json=tool_call(name, arguments), headers=self.headers)
        answer.raise_for_status()
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
        told: dict[str, Any] = json.loads(lines[-1] if lines else answer.text)
        result: dict[str, Any] = told["result"]
        return result
