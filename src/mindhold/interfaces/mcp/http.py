"""MCP over HTTP: Streamable HTTP at /mcp with sessions that are kept in the store, and the older SSE at /sse and /message."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import count
from secrets import token_hex
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

import anyio
import mcp_types as types
from anyio.abc import TaskStatus
from mcp.server.auth.middleware.bearer_auth import (
    AuthenticatedUser,
    AuthorizationContext,
    authorization_context,
)
from mcp.server.connection import Connection
from mcp.server.runner import serve_connection
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http import (
    MCP_SESSION_ID_HEADER,
    EventCallback,
    EventId,
    EventMessage,
    EventStore,
    StreamableHTTPServerTransport,
    StreamId,
)
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import InitializeRequestParams, JSONRPCMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from mindhold.interfaces.mcp.requests import LazyEngine, unreadable_message_error
from mindhold.interfaces.mcp.server import McpServer
from mindhold.interfaces.runtime import I, O, call_operation
from mindhold.model.errors import MindholdError
from mindhold.settings.schema import ServeSettings

if TYPE_CHECKING:
    from mindhold.access.client_sessions import FoundVisit
    from mindhold.operations import Operation


MOST_EVENTS = 50
MOST_CHARACTERS = 200_000


@dataclass(frozen=True, slots=True)
class _Event:
    id: EventId
    stream: StreamId
    message: JSONRPCMessage | None
    weight: int


class SessionEvents(EventStore):
    """The latest events of one session; each session has its own, because stream ids repeat between sessions.

    Event ids start with a random name, so they differ between servers and restarts.
    """

    def __init__(self, *, most: int = MOST_EVENTS, characters: int = MOST_CHARACTERS) -> None:
        self._most = most
        self._room = characters
        self._events: deque[_Event] = deque()
        self._numbers = count(1)
        self._name = token_hex(4)

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        """Store an event and return its id; the oldest events are dropped if space runs out."""
        event = _Event(f"{self._name}-{next(self._numbers)}", stream_id, message, _weight(message))
        self._events.append(event)
        self._room -= event.weight
        while len(self._events) > self._most or (self._room < 0 and len(self._events) > 1):
            self._room += self._events.popleft().weight
        return event.id

    async def replay_events_after(
        self, last_event_id: EventId, send_callback: EventCallback
    ) -> StreamId | None:
        """Send the later events of the same stream; returns None for an unknown id."""
        events = list(self._events)
        last = next((index for index, stored in enumerate(events) if stored.id == last_event_id), None)
        if last is None:
            return None
        stream = events[last].stream
        for event in events[last + 1 :]:
            if event.stream == stream and event.message is not None:
                await send_callback(EventMessage(event.message, event.id))
        return stream


def _weight(message: JSONRPCMessage | None) -> int:
    return _characters(getattr(message, "result", None)) + _characters(getattr(message, "params", None)) + 100


def _characters(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(str(name)) + _characters(inner) for name, inner in value.items())
    if isinstance(value, list):
        return sum(_characters(inner) for inner in value)
    return 8


log = logging.getLogger("mindhold.mcp")


Find = Callable[[str], Awaitable["FoundVisit | None"]]
Tell = Callable[[str], Awaitable[None]]
GoesOn = Callable[[str], Awaitable[bool]]
SHARE_OF_ONE = 10  # one credential may hold at most a tenth of all sessions


class Sessions(StreamableHTTPSessionManager):
    """The SDK's session manager, which also resumes sessions that it didn't open itself."""

    def __init__(self, *args: Any, find: Find, used: GoesOn, end: Tell, **options: Any) -> None:
        super().__init__(*args, **options)
        self._find = find
        self._used = used
        self._end = end

    def __len__(self) -> int:
        return len(self._server_instances)

    def _is_owner(self, session_id: str, requestor: AuthorizationContext | None) -> bool:
        is_known = session_id in self._server_instances
        return is_known and self._session_owners.get(session_id) == requestor

    async def _handle_stateful_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        session_id = Request(scope).headers.get(MCP_SESSION_ID_HEADER)
        requestor = requestor_of(scope)
        if session_id is not None and session_id not in self._server_instances:
            await self._resume(session_id, requestor)
        if session_id is not None and self._is_owner(session_id, requestor):
            if scope["method"] == "DELETE":
                # Store the end before the client gets the answer: it may ask on another connection at once.
                await self._end(session_id)
            elif not await self._used(session_id):  # another server ended it
                transport = self._server_instances.get(session_id)  # another request may have ended it
                if transport is not None:
                    await transport.terminate()
        await super()._handle_stateful_request(scope, receive, send)

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        transport = super()._admit_session(requestor) if self._has_room(requestor) else None
        if transport is not None:
            transport._event_store = SessionEvents()  # the SDK's own store is shared between sessions
        return transport

    def _has_room(self, requestor: AuthorizationContext | None) -> bool:
        """Whether the caller may open a session. Only the local user may use up all of them."""
        most = self.max_sessions or 0
        if requestor is None:
            return len(self._server_instances) < most
        own_sessions = sum(1 for owner in self._session_owners.values() if owner == requestor)
        return len(self._server_instances) < most and own_sessions < max(1, most // SHARE_OF_ONE)

    async def _resume(self, session_id: str, requestor: AuthorizationContext | None) -> None:
        visit = await self._find(session_id)
        is_supported = visit is not None and visit.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS
        if visit is None or not is_supported or visit.owner != owner_name(requestor):
            return
        async with self._session_creation_lock:
            if session_id in self._server_instances or not self._has_room(requestor):
                return
            transport = StreamableHTTPServerTransport(
                mcp_session_id=session_id,
                is_json_response_enabled=self.json_response,
                event_store=SessionEvents(),
                security_settings=self.security_settings,
                retry_interval=self.retry_interval,
                idle_timeout=self.session_idle_timeout,
            )
            if requestor is not None:
                self._session_owners[session_id] = requestor
            self._server_instances[session_id] = transport
            assert self._task_group is not None
            await self._task_group.start(self._serve_resumed, session_id, transport, visit)

    async def _serve_resumed(
        self,
        session_id: str,
        transport: StreamableHTTPServerTransport,
        visit: FoundVisit,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            async with transport.connect() as (incoming, outgoing):
                task_status.started()
                dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
                    incoming, outgoing, inline_methods=frozenset({"initialize"})
                )
                connection = Connection.for_loop(
                    dispatcher, session_id=session_id, protocol_version_hint=visit.protocol_version
                )
                connection.client_params = InitializeRequestParams.model_validate(visit.client, by_name=False)
                connection.initialized.set()
                with transport.idle_scope or anyio.CancelScope():
                    await serve_connection(
                        self.app, dispatcher, connection=connection, lifespan_state=self._lifespan_state
                    )
        except Exception:  # a failed session must not end the others
            log.exception("a session that was taken up again failed")
        finally:
            await self._discard_session(session_id, transport)


def requestor_of(scope: Scope) -> AuthorizationContext | None:
    """Return the credential of a request, as the SDK compares them."""
    user = scope.get("user")
    return authorization_context(user) if isinstance(user, AuthenticatedUser) else None


def owner_name(requestor: AuthorizationContext | None) -> str:
    """Return the credential as text to store."""
    if requestor is None:
        return ""
    return "\n".join([requestor["client_id"], requestor["issuer"] or "", requestor["subject"] or ""])


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
        from mindhold.access.client_sessions import KEEP_VISIT

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
        from mindhold.access.client_sessions import FIND_VISIT

        visit = await self._ask(FIND_VISIT, id=session_id)
        return visit if visit.found else None

    async def _goes_on(self, session_id: str) -> bool:
        return await self._find_visit(session_id) is not None

    async def _end_visit(self, session_id: str) -> None:
        from mindhold.access.client_sessions import END_VISIT

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
