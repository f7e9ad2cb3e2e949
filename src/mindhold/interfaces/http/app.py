"""The HTTP application: all routes behind one chain of middleware, with the checks of Host and Origin and CORS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from mindhold.contracts.rest.resource import resources
from mindhold.interfaces.http.auth import Authentication, ConsentPage, CredentialLookup, OAuth
from mindhold.interfaces.http.context import (
    HostPolicy,
    HttpContext,
    PendingEngine,
    documented_response,
    on_any_error,
    on_http_error,
    on_our_error,
)
from mindhold.interfaces.http.health import Health, Metrics, RequestObserver
from mindhold.interfaces.http.limits import BodyLimit, RateLimit
from mindhold.interfaces.http.rest import pages
from mindhold.interfaces.http.rest.routes import ApiPaths, rest_routes
from mindhold.interfaces.http.rest.transfer import is_import, sweep_always
from mindhold.interfaces.http.shutdown import EndStreams, Shutdown
from mindhold.model.errors import MindholdError
from mindhold.settings.loader import LoadedSettings

READING = ("GET", "HEAD")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
EXPOSED = tuple(
    "ETag Link Location Idempotent-Replayed Mcp-Session-Id MCP-Protocol-Version WWW-Authenticate Retry-After RateLimit-Limit "
    "RateLimit-Remaining RateLimit-Reset X-RateLimit-Limit X-RateLimit-Remaining X-RateLimit-Reset".split()
)


class Guard:
    """Middleware that refuses requests for another host, and calls from pages of origins that aren't allowed."""

    def __init__(self, app: ASGIApp, place: HostPolicy) -> None:
        self._app = app
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._place.answers_to(host, server=scope["server"] or ("", None)):
            advice = "Name the host in serve.allowed_hosts if it is one of this server's."
            return await documented_response("WRONG_HOST", advice=advice)(scope, receive, send)
        if origin is None:
            foreign = _is_foreign(headers, reads=scope["method"] in READING)
        else:
            foreign = not self._place.welcomes(origin, host=host)
        if foreign:
            return await documented_response("WRONG_ORIGIN")(scope, receive, send)
        return await self._app(scope, receive, send)


def _is_foreign(headers: Headers, *, reads: bool) -> bool:
    """Whether another site's page makes the request without an Origin header, as images and forms do; links are allowed."""
    elsewhere = headers.get("sec-fetch-site") in ("cross-site", "same-site")
    return elsewhere and not (reads and headers.get("sec-fetch-mode") == "navigate")


class Cors:
    """Middleware that sends CORS headers to the allowed origins, and none to others."""

    def __init__(self, app: ASGIApp, place: HostPolicy) -> None:
        self._app = app
        self._cors = CORSMiddleware(
            app,
            allow_origins=sorted(place.origins),
            allow_methods=METHODS,
            allow_headers=["*"],
            expose_headers=EXPOSED,
        )
        self._closed = not place.origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._closed or scope["type"] != "http" or "origin" not in Headers(scope=scope):
            return await self._app(scope, receive, send)
        return await self._cors(scope, receive, send)


WORTH_COMPRESSING = 1_024
COMPRESSION = 6


def http_app(
    opening: PendingEngine,
    *,
    loaded: LoadedSettings,
    mcp_routes: Sequence[BaseRoute],
    mcp_lifespan: Callable[[], AbstractAsyncContextManager[None]],
    metrics: Metrics,
    stopping: Shutdown,
) -> Starlette:
    """The application. Raises SettingsError for settings that would let strangers in."""
    serve = loaded.settings.serve
    door = HttpContext(opening, loaded, HostPolicy.of(loaded.settings))
    keys = CredentialLookup(door)
    routes: list[BaseRoute] = [
        *mcp_routes,
        *Health(door, keys, metrics).routes(),
        *OAuth(door).routes(),
        *ConsentPage(door, keys).routes(),
        *rest_routes(door, resources()),
        *pages.routes(),
    ]

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        with suppress(MindholdError):  # each request gets the error and tries again
            await opening.running()
        sweeping = asyncio.create_task(sweep_always(loaded.settings.export_dir))
        try:
            async with mcp_lifespan():
                yield
        finally:
            sweeping.cancel()

    return Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[
            Middleware(RequestObserver, metrics, lambda: routes),
            Middleware(Guard, door.place),
            Middleware(Cors, door.place),
            Middleware(BodyLimit, serve.largest_body, serve.slow_client_seconds, streamed=is_import),
            Middleware(Authentication, door, keys),
            Middleware(RateLimit, serve.requests_per_minute),
            Middleware(AuthContextMiddleware),
            Middleware(EndStreams, stopping),
            Middleware(GZipMiddleware, minimum_size=WORTH_COMPRESSING, compresslevel=COMPRESSION),
            Middleware(ApiPaths),
        ],
        exception_handlers={
            HTTPException: on_http_error,
            MindholdError: on_our_error,
            Exception: on_any_error,
        },
    )
