"""Real servers in processes of their own, and the clients that talk to them.

The official client proposes its own newest version only, so older ones are negotiated with its session's public parts:
the request, the adoption of its answer and the notification are the same as those that it would send by itself.
"""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
import mcp_types as types
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

WAIT = 60.0
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/mcp")
NEWEST = "2025-11-25"
STATELESS = "2026-07-28"
Json = dict[str, Any]
Connect = Callable[[str], AbstractAsyncContextManager[ClientSession]]


def in_files(_home: Path) -> dict[str, str]:
    return {}


# What tells a process where the memories of its home live; tests on other stores have it say more.
housed: Callable[[Path], Mapping[str, str]] = in_files


def surroundings(home: Path, **more: str) -> dict[str, str]:
    """What a server is started with: nothing of this machine's own settings."""
    # Without byte code on disk every start would compile everything anew.
    left_out = ("MINDHOLD_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    own = {
        "MINDHOLD_HOME": str(home),
        "MINDHOLD_EMBEDDING_PROVIDER": "hashing",
        "MINDHOLD_STORE_DURABILITY": "normal",
        "MINDHOLD_TIME_ZONE": "UTC",
        "MINDHOLD_HISTORY_CLAUDE_DIR": str(home / "claude"),
        "PYTHONUTF8": "1",
    }
    where = {} if "MINDHOLD_STORE_MODE" in more else housed(home)
    return {**kept, **own, **where, **more}


def command(*argv: str) -> list[str]:
    """`mindhold` as this interpreter runs it."""
    return [sys.executable, "-m", "mindhold", *argv]


async def negotiated(session: ClientSession, version: str) -> ClientSession:
    """The session, speaking that version."""
    if version in MODERN_PROTOCOL_VERSIONS:
        session.adopt(await session.discover())
    else:
        assert version in HANDSHAKE_PROTOCOL_VERSIONS
        params = types.InitializeRequestParams(
            protocol_version=version,
            capabilities=types.ClientCapabilities(),
            client_info=types.Implementation(name="matrix", version="1"),
        )
        answer = await session.send_request(types.InitializeRequest(params=params), types.InitializeResult)
        session.adopt(answer)
        await session.send_notification(types.InitializedNotification())
    assert session.protocol_version == version
    return session


@asynccontextmanager
async def over_stdio(home: Path, version: str = NEWEST, *argv: str) -> AsyncIterator[ClientSession]:
    """A server of its own, ended with the client."""
    program, *arguments = command("mcp", *argv)
    params = StdioServerParameters(command=program, args=arguments, env=surroundings(home))
    with (home.parent / "stderr.txt").open("w", encoding="utf-8") as errors:
        async with (
            stdio_client(params, errors) as (incoming, outgoing),
            ClientSession(incoming, outgoing) as session,
        ):
            yield await negotiated(session, version)


@asynccontextmanager
async def over_http(url: str, version: str = NEWEST) -> AsyncIterator[ClientSession]:
    """Streamable HTTP."""
    async with (
        streamable_http_client(f"{url}/mcp") as (incoming, outgoing),
        ClientSession(incoming, outgoing) as session,
    ):
        yield await negotiated(session, version)


@asynccontextmanager
async def over_sse(url: str, version: str = NEWEST) -> AsyncIterator[ClientSession]:
    """The older transport."""
    async with sse_client(f"{url}/sse") as (incoming, outgoing), ClientSession(incoming, outgoing) as session:
        yield await negotiated(session, version)


async def called(session: ClientSession, tool: str, **arguments: Any) -> Json:
    """The structured answer of a call that must go well; its text says the same."""
    result = await session.call_tool(tool, arguments)
    assert isinstance(result, types.CallToolResult)
    [content] = result.content
    assert isinstance(content, types.TextContent)
    assert not result.is_error, f"{tool}: {content.text}"
    assert result.structured_content is not None
    assert json.loads(content.text) == result.structured_content
    found: Json = result.structured_content
    return found


class HttpServer:
    """`mindhold serve`, ready when entered."""

    def __init__(self, home: Path, *, toolsets: str = "core", **settings: str) -> None:
        self._home = home
        self._toolsets = toolsets
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None
        self.port = 0
        self.said: list[str] = []  # until it was ready

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Returns when it says that it listens; started again, at the same port."""
        self._process = subprocess.Popen(
            command("serve", "--port", str(self.port), "--toolsets", self._toolsets),
            env=surroundings(self._home, **self._settings),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        assert self._process.stderr is not None
        self.said = []
        for line in self._process.stderr:
            self.said.append(line)
            if found := ADDRESS.search(line):
                self.port = int(found[1])
                self._drain = threading.Thread(target=self._process.stderr.read, daemon=True)
                self._drain.start()
                return
        self._process.wait(WAIT)
        self._process.stderr.close()
        raise AssertionError(f"it did not start: {''.join(self.said)}")

    def stop(self) -> int:
        """Asked kindly."""
        assert self._process is not None
        self._process.terminate()
        return self._ended()

    def kill(self) -> None:
        """Not asked at all."""
        assert self._process is not None
        self._process.kill()
        self._ended()

    def _ended(self) -> int:
        assert self._process is not None
        status = self._process.wait(WAIT)
        self._drain.join(WAIT)
        assert self._process.stderr is not None
        self._process.stderr.close()
        return status

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self.stop()


class Wire:
    """`mindhold mcp` with nothing between: bytes in, lines out."""

    def __init__(self, home: Path, *argv: str, **settings: str) -> None:
        self.home = home
        self._errors = (home.parent / "wire-stderr.txt").open("ab")
        self.process = subprocess.Popen(
            command("mcp", *argv),
            env=surroundings(home, **settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self.lines: list[bytes] = []
        self._fresh: queue.Queue[bytes | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._last = 0

    def send(self, line: bytes) -> None:
        """As it stands, and a line's end."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def say(self, message: Mapping[str, Any]) -> None:
        """One message."""
        self.send(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def hear(self) -> Json:
        """The next message that the server writes."""
        line = self._fresh.get(timeout=WAIT)
        assert line is not None, "the server has gone"
        message: Json = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def ask(self, method: str, **params: Any) -> Json:
        """A request and its answer; what is said meanwhile is passed over."""
        self._last += 1
        self.say({"id": self._last, "method": method, "params": params})
        return self.answer_to(self._last)

    def answer_to(self, request: Any) -> Json:
        """The answer to that request."""
        while True:
            message = self.hear()
            if message.get("id") == request and "method" not in message:
                return message

    def call(self, tool: str, **arguments: Any) -> Json:
        """The result of a tool call."""
        answer = self.ask("tools/call", name=tool, arguments=arguments)
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    def greet(self, version: str = NEWEST) -> Self:
        """initialize, and what follows it."""
        client = {"name": "wire", "version": "1"}
        answer = self.ask("initialize", protocolVersion=version, capabilities={}, clientInfo=client)
        assert answer["result"]["protocolVersion"] == version
        self.say({"method": "notifications/initialized"})
        return self

    def close(self) -> int:
        """The client goes; how the server ended."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        status = self.process.wait(WAIT)
        self._reader.join(WAIT)
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(WAIT)
        self._reader.join(WAIT)
        for end in (self.process.stdin, self.process.stdout, self._errors):
            if end is not None:
                end.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            self._fresh.put(line)
        self._fresh.put(None)


class Poster:
    """Streamable HTTP by hand: every header and every event in sight."""

    def __init__(self, url: str, *, session: str | None = None, version: str = NEWEST) -> None:
        self.url = f"{url}/mcp"
        self.session = session
        self.version = version
        self.http = httpx2.Client(timeout=WAIT)
        self._last = 0

    def headers(self, **more: str) -> dict[str, str]:
        """Those that every request has."""
        own = {"accept": "application/json, text/event-stream", "mcp-protocol-version": self.version}
        if self.session:
            own["mcp-session-id"] = self.session
        return own | more

    def greet(self) -> Self:
        """Open a session."""
        response = self.post(
            "initialize",
            protocolVersion=self.version,
            capabilities={},
            clientInfo={"name": "poster", "version": "1"},
        )
        assert response.status_code == 200, response.text
        self.session = response.headers["mcp-session-id"]
        told = self.http.post(
            self.url, headers=self.headers(), json={"jsonrpc": "2.0", "method": "notifications/initialized"}
        )
        assert told.status_code == 202
        return self

    def post(self, method: str, *, id: Any = None, **params: Any) -> httpx2.Response:
        """One request, as HTTP answers it."""
        self._last += 1
        body = {"jsonrpc": "2.0", "id": self._last if id is None else id, "method": method, "params": params}
        return self.http.post(self.url, headers=self.headers(), json=body)

    def call(self, tool: str, **arguments: Any) -> Json:
        """The structured answer of a call that must go well."""
        response = self.post("tools/call", name=tool, arguments=arguments)
        assert response.status_code == 200, response.text
        answer = answer_in(response)
        assert not answer["result"].get("isError"), answer
        found: Json = answer["result"]["structuredContent"]
        return found

    def delete(self) -> httpx2.Response:
        """End the session."""
        return self.http.delete(self.url, headers=self.headers())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.http.close()


def events_in(text: str) -> list[tuple[str, str]]:
    """Ids and data of a stream's events."""
    found = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "data" in fields or "id" in fields:
            found.append((fields.get("id", ""), fields.get("data", "")))
    return found


def answer_in(response: httpx2.Response) -> Json:
    """The JSON-RPC answer of a response, be it plain or a stream."""
    if response.headers["content-type"].startswith("application/json"):
        plain: Json = response.json()
        return plain
    messages = [json.loads(data) for _, data in events_in(response.text) if data]
    [answer] = [message for message in messages if "id" in message and "method" not in message]
    found: Json = answer
    return found
