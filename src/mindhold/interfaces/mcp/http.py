"""MCP over HTTP: Streamable HTTP at /mcp, and the older SSE at /sse and /message."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

import mcp_types as types
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from mindhold.interfaces.mcp.requests import LazyEngine, unreadable_message_error
from mindhold.interfaces.mcp.server import McpServer
from mindhold.interfaces.mcp.sessions import Sessions, owner_name, requestor_of
from mindhold.interfaces.runtime import I, O, call_operation
from mindhold.model.errors import MindholdError
from mindhold.settings.schema import ServeSettings

if TYPE_CHECKING:
    from mindhold.access.visits import FoundVisit
    from mindhold.operations import Operation


log = logging.getLogger("mindhold.mcp")
RETRY_MS = 1_000
RENEWALS = 4  # renewals within the lifetime of an idle session
LOOK_AFTER = 1.0  # seconds until an end at another server is noticed here
LONGEST_CLIENT = 8_000
LARGE_BODY = 65_536


@dataclass(frozen=True, slots=True)
class _StoredSession:
    """What is known of a stored session; times are monotonic."""

    renewed: float
    looked: float
    is_stored: bool  # False if writing failed: then its absence in the store means nothing


class McpHttp:
    """The HTTP transports of one server."""

    def __init__(self, server: McpServer, opening: LazyEngine, *, settings: ServeSettings) -> None:
        self._server = server
        self._opening = opening
        self._settings = settings
        self._sessions = Sessions(
            server.protocol,
            find=self._find_visit,
            used=self._renew_visit,
            end=self._end_visit,
            retry_interval=RETRY_MS,
            session_idle_timeout=settings.session_ttl_minutes * 60,
            max_sessions=settings.most_sessions,
            max_request_body_size=settings.largest_body,
        )
        self._sse = SseServerTransport("/message", max_request_body_size=settings.largest_body)
        self._stored: dict[str, _StoredSession] = {}
        server.on_initialize = self._keep_visit
        server.goes_on = self._goes_on

    def routes(self) -> list[BaseRoute]:
        """Return the routes, to be mounted at the root."""
        return [
            Route("/mcp", endpoint=_Asgi(self._streamable), methods=["GET", "POST", "DELETE"]),
            Route("/sse", endpoint=_Asgi(self._open_sse), methods=["GET"]),
            Route("/message", endpoint=_Asgi(self._post_message), methods=["POST"]),
        ]

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Run the session manager while requests come."""
        async with self._sessions.run():
            yield

    async def _streamable(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST":
            body = await Request(scope, receive).body()
            try:
                if len(body) > LARGE_BODY:  # may take seconds; others must not wait
                    await asyncio.to_thread(_check, body)
                else:
                    _check(body)
            except ValidationError as error:  # the SDK would send pydantic's text
                answer = unreadable_message_error(error).model_dump_json(by_alias=True)
                return await Response(answer, status_code=400, media_type="application/json")(
                    scope, receive, send
                )
            receive = _replay(body, receive)
        return await StreamableHTTPASGIApp(self._sessions)(scope, receive, send)

    async def _open_sse(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._sse.connect_sse(scope, receive, _rename_session_id(send)) as (incoming, outgoing):
            await self._server.protocol.run(incoming, outgoing, self._server.options())

    async def _post_message(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = [
            ("session_id" if name == "sessionId" else name, value)
            for name, value in parse_qsl(scope["query_string"].decode("latin-1"))
        ]
        renamed = {**scope, "query_string": urlencode(query).encode("latin-1")}
        await self._sse.handle_post_message(renamed, receive, send)

    async def _keep_visit(self, session_id: str, request: Any, client: dict[str, Any], version: str) -> None:
        owner = owner_name(requestor_of(request.scope)) if request is not None else ""
        await self._keep(session_id, owner=owner, protocol_version=version, client=_essentials(client))

    async def _renew_visit(self, session_id: str) -> bool:
        """Whether the session still exists; another server may have ended it.

        A session in use doesn't expire. It is renewed only now and then, because each renewal is a durable write.
        """
        kept, now = self._stored.get(session_id), time.monotonic()
        if kept is not None and now - kept.looked < LOOK_AFTER:
            return True
        try:
            visit = await self._find_visit(session_id)
        except MindholdError as error:  # the call fails itself if it needs the store
            log.warning("a session could not be looked up: %s", error.code)
            return True
        if visit is None:
            return kept is None or not kept.is_stored
        if kept is not None and now - kept.renewed < self._settings.session_ttl_minutes * 60 / RENEWALS:
            self._stored[session_id] = replace(kept, looked=now)
        else:
            await self._keep(
                session_id, owner=visit.owner, protocol_version=visit.protocol_version, client=visit.client
            )
        return True

    async def _keep(self, session_id: str, **visit: Any) -> None:
        from mindhold.access.visits import KEEP_VISIT

        is_stored = True
        try:
            await self._ask(
                KEEP_VISIT, id=session_id, ttl_minutes=self._settings.session_ttl_minutes, **visit
            )
        except MindholdError as error:  # the session works as long as this server runs
            log.warning("a session could not be kept: %s", error.code)
            is_stored = False
        now = time.monotonic()
        self._stored[session_id] = _StoredSession(renewed=now, looked=now, is_stored=is_stored)
        if len(self._stored) > 2 * self._settings.most_sessions:
            oldest = now - self._settings.session_ttl_minutes * 60
            self._stored = {session: kept for session, kept in self._stored.items() if kept.renewed > oldest}

    async def _find_visit(self, session_id: str) -> FoundVisit | None:
        from mindhold.access.visits import FIND_VISIT

        visit = await self._ask(FIND_VISIT, id=session_id)
        return visit if visit.found else None

    async def _goes_on(self, session_id: str) -> bool:
        return await self._find_visit(session_id) is not None

    async def _end_visit(self, session_id: str) -> None:
        from mindhold.access.visits import END_VISIT

        self._stored.pop(session_id, None)
        await self._ask(END_VISIT, id=session_id)
        await self._server.session_ended(session_id)

    async def _ask(self, operation: Operation[I, O], /, **fields: Any) -> O:
        return await call_operation(await self._opening.running(), operation, **fields)


class _Asgi:
    """Makes an ASGI function a route's endpoint; Starlette would take a plain function for a request handler."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def _rename_session_id(send: Send) -> Send:
    """Announce the endpoint with `sessionId`, which the clients of this transport expect."""
    is_announced = False

    async def spelling(message: Message) -> None:
        nonlocal is_announced
        body = message.get("body", b"")
        if not is_announced and b"event: endpoint" in body:
            is_announced = True
            message = {**message, "body": body.replace(b"?session_id=", b"?sessionId=", 1)}
        await send(message)

    return spelling


def _check(body: bytes) -> None:
    types.jsonrpc_message_adapter.validate_json(body, by_name=False)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that first gives the body that was read already."""
    is_sent = False

    async def replaying() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replaying


def _essentials(client: dict[str, Any]) -> dict[str, Any]:
    """Return the client data that resuming a session needs; some clients send much more."""
    info = client.get("clientInfo") or {}
    capabilities = client.get("capabilities") or {}
    if len(str(capabilities)) > LONGEST_CLIENT:
        capabilities = {name: {} for name in ("sampling", "roots", "elicitation") if name in capabilities}
    return {
        "protocolVersion": client.get("protocolVersion"),
        "clientInfo": {name: str(info.get(name, ""))[:200] for name in ("name", "version")},
        "capabilities": capabilities,
    }
