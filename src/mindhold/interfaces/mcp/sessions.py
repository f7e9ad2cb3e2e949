"""Streamable HTTP sessions that outlive the server: kept in the store, and taken up again by whichever server is asked.

The SDK's manager knows only the sessions that it opened itself. This one, asked for an id that it does not know, looks
it up in the store and, when the same credential asks, goes on with it as if it had never stopped.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
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
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import InitializeRequestParams
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from mindhold.interfaces.mcp.events import SessionEvents

if TYPE_CHECKING:
    from mindhold.operations.access_forms import FoundVisit

log = logging.getLogger("mindhold.mcp")


Find = Callable[[str], Awaitable["FoundVisit | None"]]
Tell = Callable[[str], Awaitable[None]]
GoesOn = Callable[[str], Awaitable[bool]]
SHARE_OF_ONE = 10  # a credential may hold at most this part of all sessions


class Sessions(StreamableHTTPSessionManager):
    """Takes up sessions that it did not open itself."""

    def __init__(self, *args: Any, find: Find, used: GoesOn, end: Tell, **given: Any) -> None:
        super().__init__(*args, **given)
        self._find = find
        self._used = used
        self._end = end

    def __len__(self) -> int:
        return len(self._server_instances)

    def _is_owner(self, session_id: str, requestor: AuthorizationContext | None) -> bool:
        known = session_id in self._server_instances
        return known and self._session_owners.get(session_id) == requestor

    async def _handle_stateful_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        session_id = Request(scope).headers.get(MCP_SESSION_ID_HEADER)
        requestor = requestor_of(scope)
        if session_id is not None and session_id not in self._server_instances:
            await self._take_up(session_id, requestor)
        if session_id is not None and self._is_owner(session_id, requestor):
            if scope["method"] == "DELETE":
                # An end is kept before the client hears of it: it may ask on another connection at once.
                await self._end(session_id)
            elif not await self._used(session_id):  # it was ended at another server
                ended = self._server_instances.get(session_id)  # another request may have been quicker
                if ended is not None:
                    await ended.terminate()
        await super()._handle_stateful_request(scope, receive, send)

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        transport = super()._admit_session(requestor) if self._has_room(requestor) else None
        if transport is not None:
            transport._event_store = SessionEvents()  # the SDK's own store is shared between sessions
        return transport

    def _has_room(self, requestor: AuthorizationContext | None) -> bool:
        """Nobody but the person at this machine may take everybody's."""
        most = self.max_sessions or 0
        if requestor is None:
            return len(self._server_instances) < most
        held = sum(1 for owner in self._session_owners.values() if owner == requestor)
        return len(self._server_instances) < most and held < max(1, most // SHARE_OF_ONE)

    async def _take_up(self, session_id: str, requestor: AuthorizationContext | None) -> None:
        visit = await self._find(session_id)
        known = visit is not None and visit.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS
        if visit is None or not known or visit.owner != owner_name(requestor):
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
            await self._task_group.start(self._go_on, session_id, transport, visit)

    async def _go_on(
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
        except Exception:  # one session's fault is not the others'
            log.exception("a session that was taken up again failed")
        finally:
            await self._discard_session(session_id, transport)


def requestor_of(scope: Scope) -> AuthorizationContext | None:
    """The credential behind a request, as the SDK compares them."""
    user = scope.get("user")
    return authorization_context(user) if isinstance(user, AuthenticatedUser) else None


def owner_name(requestor: AuthorizationContext | None) -> str:
    """The same, as text to keep."""
    if requestor is None:
        return ""
    return "\n".join([requestor["client_id"], requestor["issuer"] or "", requestor["subject"] or ""])
