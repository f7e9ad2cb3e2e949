"""MCP over standard input and output: what a client starts, and what ends with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.server.stdio import stdio_server
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from recollect.interfaces.mcp.server import McpServer

LAST_ANSWERS_SECONDS = 10.0
LASTING = "subscriptions/listen"  # stays open as long as the client does


async def serve_stdio(server: McpServer) -> None:
    """Until the client closes its end. The SDK keeps everything else that is printed off the wire."""
    async with stdio_server() as (incoming, outgoing):
        answers = _Answers(outgoing)
        async with _messages(incoming, answers) as messages:
            await server.protocol.run(messages, answers, server.options())


class _Answers:
    """The way out, which knows what is still to be answered: a client may close its end behind its last request."""

    def __init__(self, outgoing: WriteStream[SessionMessage]) -> None:
        self._outgoing = outgoing
        self._open: set[types.RequestId] = set()
        self._none_open = anyio.Event()

    def expect(self, item: SessionMessage) -> None:
        """Note what this message asks for, or asks for no longer."""
        message = item.message
        if isinstance(message, types.JSONRPCRequest) and message.method != LASTING:
            self._open.add(message.id)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._open.discard((message.params or {}).get("requestId", ""))

    async def all_sent(self) -> None:
        """Bounded: a request that never ends can't keep the process."""
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
    """What comes in; a line that is no message is answered here, since the SDK passes over it in silence."""
    send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    async def relay() -> None:
        async with send:
            try:
                async for item in incoming:
                    if isinstance(item, Exception):
                        await answers.send(SessionMessage(_refusal(item)))
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


def _refusal(error: Exception) -> types.JSONRPCError:
    no_json = isinstance(error, ValidationError) and error.errors()[0]["type"] == "json_invalid"
    told = (
        types.ErrorData(code=types.PARSE_ERROR, message="That line is no JSON.")
        if no_json
        else types.ErrorData(code=types.INVALID_REQUEST, message="That line is no JSON-RPC message.")
    )
    return types.JSONRPCError(jsonrpc="2.0", id=None, error=told)
