"""Server shutdown: ends listening streams and lets other requests finish."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mindhold.model.errors import MindholdError

STOPPING_KEY = "mindhold.stopping"  # where a request's scope has it
EVENTS = "/api/events"  # a stream whatever the client says that it takes


def do_nothing() -> None:
    """For servers that have nothing more to do at their end."""


class ServerStopped(MindholdError):
    """What was asked for was given up half-way, because the server stops."""

    code = "STOPPING"


class Shutdown:
    """Known to all requests of a server."""

    def __init__(self, also: Callable[[], object] = do_nothing) -> None:
        self._also = also
        self._told = asyncio.Event()

    @property
    def begun(self) -> bool:
        return self._told.is_set()

    def begin(self) -> None:
        """Told once, when no more requests are taken."""
        self._told.set()
        self._also()

    async def wait(self) -> None:
        """Until then."""
        await self._told.wait()

    async def receive(self, receive: Receive) -> Message:
        """The next message, or the client's leaving if the server stops first."""
        message = asyncio.ensure_future(receive())
        told = asyncio.ensure_future(self._told.wait())
        try:
            await asyncio.wait({message, told}, return_when=asyncio.FIRST_COMPLETED)
            return message.result() if message.done() else {"type": "http.disconnect"}
        finally:
            message.cancel()
            told.cancel()


class EndStreams:
    """Streams that only listen end when the server stops; answers under way are not cut. Routes are told of it."""

    def __init__(self, app: ASGIApp, stopping: Shutdown) -> None:
        self._app = app
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[STOPPING_KEY] = self._stopping  # who is long at it ends by itself
        if not _only_listens(scope):
            return await self._app(scope, receive, send)
        unfinished = False

        async def noting(message: Message) -> None:
            nonlocal unfinished
            unfinished = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        await self._app(scope, lambda: self._stopping.receive(receive), noting)
        if unfinished and self._stopping.begun:  # the route thinks that nobody listens any more
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        return None


def _only_listens(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    if "text/event-stream" in Headers(scope=scope).get("accept", ""):
        return True
    path: str = scope["path"]
    return path.removesuffix("/") == EVENTS
