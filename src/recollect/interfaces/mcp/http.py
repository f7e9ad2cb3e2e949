"""MCP over HTTP: Streamable HTTP at /mcp, and the older SSE at /sse and /message."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode

from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from recollect.interfaces.mcp.opening import Opening
from recollect.interfaces.mcp.server import McpServer
from recollect.interfaces.mcp.sessions import Sessions, Visit, owner_name, requestor_of
from recollect.interfaces.mcp.work import Work
from recollect.model.access import Caller
from recollect.settings.declared import ServeSettings

log = logging.getLogger("recollect.mcp")
RETRY_MS = 1_000
DOOR = Caller()  # the door's own record of who is in, not a client's call


class McpHttp:
    """The HTTP transports of one server."""

    def __init__(self, server: McpServer, opening: Opening, *, settings: ServeSettings) -> None:
        self._server = server
        self._opening = opening
        self._settings = settings
        self._sessions = Sessions(
            server.protocol,
            find=self._find_visit,
            end=self._end_visit,
            retry_interval=RETRY_MS,
            session_idle_timeout=settings.session_ttl_minutes * 60,
            max_sessions=settings.most_sessions,
            max_request_body_size=settings.largest_body,
        )
        self._sse = SseServerTransport("/message", max_request_body_size=settings.largest_body)
        server.on_initialize = self._keep_visit

    def routes(self) -> list[BaseRoute]:
        """To be mounted at the root."""
        return [
            Route("/mcp", endpoint=_Asgi(self._streamable), methods=["GET", "POST", "DELETE"]),
            Route("/sse", endpoint=_Asgi(self._open_sse), methods=["GET"]),
            Route("/message", endpoint=_Asgi(self._post_message), methods=["POST"]),
        ]

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """For as long as requests come."""
        async with self._sessions.run():
            yield

    async def _streamable(self, scope: Scope, receive: Receive, send: Send) -> None:
        await StreamableHTTPASGIApp(self._sessions)(scope, receive, send)

    async def _open_sse(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._sse.connect_sse(scope, receive, _session_id_spelt(send)) as (incoming, outgoing):
            await self._server.protocol.run(incoming, outgoing, self._server.options())

    async def _post_message(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = [
            ("session_id" if name == "sessionId" else name, value)
            for name, value in parse_qsl(scope["query_string"].decode("latin-1"))
        ]
        respelt = {**scope, "query_string": urlencode(query).encode("latin-1")}
        await self._sse.handle_post_message(respelt, receive, send)

    async def _keep_visit(self, session_id: str, request: Any, client: dict[str, Any], version: str) -> None:
        owner = owner_name(requestor_of(request.scope)) if request is not None else ""
        await self._ask(
            "keep_visit",
            id=session_id,
            owner=owner,
            protocol_version=version,
            client=client,
            ttl_minutes=self._settings.session_ttl_minutes,
        )

    async def _find_visit(self, session_id: str) -> Visit | None:
        found = await self._ask("find_visit", id=session_id)
        return Visit(found.protocol_version, found.client, found.owner) if found.found else None

    async def _end_visit(self, session_id: str) -> None:
        await self._ask("end_visit", id=session_id)

    async def _ask(self, name: str, /, **given: Any) -> Any:
        return await Work(await self._opening.running(), DOOR).run(name, **given)


class _Asgi:
    """An ASGI function as a route's endpoint: only objects that are no functions are taken for what they are."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def _session_id_spelt(send: Send) -> Send:
    """Announce the endpoint with `sessionId`, as the clients of this transport have it."""
    announced = False

    async def spelling(message: Message) -> None:
        nonlocal announced
        body = message.get("body", b"")
        if not announced and b"event: endpoint" in body:
            announced = True
            message = {**message, "body": body.replace(b"?session_id=", b"?sessionId=", 1)}
        await send(message)

    return spelling
