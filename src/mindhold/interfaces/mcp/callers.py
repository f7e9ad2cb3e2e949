"""Who is behind a request, and in which conversation."""

from __future__ import annotations

from typing import Any

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from mindhold.interfaces.running import CALLER_KEY
from mindhold.model.access import Caller

Context = ServerRequestContext[Any, Any]


def caller_of(ctx: Context, *, local: Caller) -> Caller:
    """Whom the HTTP door found; over stdio the person at this machine."""
    scope = getattr(ctx.request, "scope", None)
    found = scope.get(CALLER_KEY) if scope is not None else None
    return found if isinstance(found, Caller) else local


def connection_of(ctx: Context) -> Connection:
    """The client's connection. The SDK keeps it private on the session, and offers no other way to its end."""
    return ctx.session._connection


def is_stateless(ctx: Context) -> bool:
    """Whether this request is all that there is of its connection."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
