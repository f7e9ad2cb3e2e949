"""Server shutdown: ends listening streams and lets other requests finish."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mindhold.model.errors import MindholdError

STOPPING_KEY = "mindhold.stopping"  # key of the Shutdown in a request's scope
EVENTS = "/api/events"  # always a stream, whatever the client accepts


def do_nothing() -> None:
    """The default for servers with nothing more to do when they stop."""


class ServerStopped(MindholdError):
    """The server stopped before the request was finished."""

    code = "STOPPING"


class Shutdown:
    """The shutdown of a server, visible to all its requests."""

    def __init__(self, also: Callable[[], object] = do_nothing) -> None:
        self._also = also
        self._told = asyncio.Event()

    @property
    def begun(self) -> bool:
        return self._told.is_set()

    def begin(self) -> None:
        """Begin the shutdown. Called once, when the server accepts no more requests."""
        self._told.set()
        self._also()

    async def wait(self) -> None:
        """Wait until the shutdown begins."""
        await self._told.wait()

    async def receive(self, receive: Receive) -> Message:
        """The next message, or a disconnect if the server stops first."""
        message = asyncio.ensure_future(receive())
        stop = asyncio.ensure_future(self._told.wait())
        try:
            await asyncio.wait({message, stop}, return_when=asyncio.FIRST_COMPLETED)
            return message.result() if message.done() else {"type": "http.disconnect"}
        finally:
            message.cancel()
            stop.cancel()


class EndStreams:
    """Middleware that ends listening streams when the server stops, and doesn't cut off other responses."""

    def __init__(self, app: ASGIApp, stopping: Shutdown) -> None:
        self._app = app
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[STOPPING_KEY] = self._stopping  # long-running routes end by themselves
        if not _only_listens(scope):
            return await self._app(scope, receive, send)
        unfinished = False

        async def noting(message: Message) -> None:
            nonlocal unfinished
            unfinished = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        await self._app(scope, lambda: self._stopping.receive(receive), noting)
        if unfinished and self._stopping.begun:  # the route believes that the client disconnected
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        return None


def _only_listens(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    if "text/event-stream" in Headers(scope=scope).get("accept", ""):
        return True
    path: str = scope["path"]
    return path.removesuffix("/") == EVENTS
