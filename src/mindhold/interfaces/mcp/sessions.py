"""Streamable HTTP sessions that are kept in the store, and their events for clients that reconnect."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import count
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskStatus
from mcp.server.auth.middleware.bearer_auth import (
    AuthenticatedUser,
    AuthorizationContext,
    authorization_context,
)
from mcp.server.connection import Connection
from mcp.server.runner import serve_connection
from mcp.server.streamable_http import (
    MCP_SESSION_ID_HEADER,
    EventCallback,
    EventId,
    EventMessage,
    EventStore,
    StreamableHTTPServerTransport,
    StreamId,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import InitializeRequestParams, JSONRPCMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

if TYPE_CHECKING:
    from mindhold.access.visits import FoundVisit


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
