"""MCP over standard input and output; the server ends with the client."""

from __future__ import annotations

import io
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.server.stdio import stdio_server
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from mindhold.interfaces.mcp.requests import unreadable_message_error
from mindhold.interfaces.mcp.server import McpServer

log = logging.getLogger("mindhold.mcp")
LAST_ANSWERS_SECONDS = 10.0
LASTING = "subscriptions/listen"  # stays open as long as the client does


async def serve_stdio(server: McpServer) -> None:
    """Serve until the client closes its end. The SDK keeps stray output off the wire."""
    lines: Any = _Lines()  # the SDK only iterates over it
    async with stdio_server(stdin=lines) as (incoming, outgoing):
        answers = _Answers(outgoing)
        async with _messages(incoming, answers) as messages:
            await server.protocol.run(messages, answers, server.options())


class _Lines:
    """Lines of standard input, which nothing else can read then. Invalid UTF-8 stays visible, so that it is refused."""

    def __init__(self) -> None:
        private = os.dup(0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        text = io.TextIOWrapper(os.fdopen(private, "rb"), encoding="utf-8", errors="surrogateescape")
        self._file = anyio.wrap_file(text)

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self._file:
            bare = line.removeprefix("\ufeff")  # some shells write a byte order mark
            if bare.strip():
                yield bare


class _Answers:
    """The output stream, which knows the open requests: a client may close its end right after the last request."""

    def __init__(self, outgoing: WriteStream[SessionMessage]) -> None:
        self._outgoing = outgoing
        self._open: set[types.RequestId] = set()
        self._none_open = anyio.Event()

    def expect(self, item: SessionMessage) -> None:
        """Note an opened or cancelled request."""
        message = item.message
        if isinstance(message, types.JSONRPCRequest) and message.method != LASTING:
            self._open.add(message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._open.discard((message.params or {}).get("requestId", ""))

    async def all_sent(self) -> None:
        """Wait until all requests are answered, for a limited time."""
        with anyio.move_on_after(LAST_ANSWERS_SECONDS):
            while self._open:
                self._none_open = anyio.Event()
                await self._none_open.wait()

    async def send(self, item: SessionMessage, /) -> None:
        await self._outgoing.send(item)
        if (
            isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError)
            and item.message.id is not None
        ):
            self._open.discard(item.message.id)
            if not self._open:
                self._none_open.set()

    async def aclose(self) -> None:
        await self._outgoing.aclose()

    async def __aenter__(self) -> _Answers:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@asynccontextmanager
async def _messages(
    incoming: ReadStream[SessionMessage | Exception], answers: _Answers
) -> AsyncIterator[MemoryObjectReceiveStream[SessionMessage | Exception]]:
    """Relay incoming messages; a line that is no message is answered here, because the SDK ignores it."""
    send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    async def relay() -> None:
        async with send:
            try:
                async for item in incoming:
                    if isinstance(item, ValidationError):
                        await answers.send(SessionMessage(unreadable_message_error(item)))
                    elif isinstance(item, Exception):
                        log.warning("a line could not be read: %s", type(item).__name__)
                    else:
                        answers.expect(item)
                        await send.send(item)
                await answers.all_sent()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # the server has ended

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(relay)
        yield receive
        tasks.cancel_scope.cancel()
