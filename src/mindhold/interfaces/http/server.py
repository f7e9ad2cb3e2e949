"""The HTTP server: all routes behind one chain of middleware, on a port that is bound before the start; it stops without cutting off requests."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from ipaddress import ip_address

import h11
import uvicorn
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import HANDLED_SIGNALS

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
    trusted_proxies,
)
from mindhold.interfaces.http.health import Health, Metrics, RequestObserver
from mindhold.interfaces.http.limits import BodyLimit, RateLimit, address_group
from mindhold.interfaces.http.rest import pages
from mindhold.interfaces.http.rest.routes import ApiPaths, rest_routes
from mindhold.interfaces.http.rest.transfer import is_import, sweep_always
from mindhold.interfaces.http.shutdown import EndStreams, Shutdown
from mindhold.model.errors import MindholdError, SettingsError
from mindhold.model.host import is_loopback
from mindhold.settings.loader import LoadedSettings
from mindhold.settings.schema import ServeSettings

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


KEEP_ALIVE_SECONDS = 30
PATIENCE_AT_THE_END = 2.0  # seconds that a stopping server waits for a client that doesn't read
MOST_CONNECTIONS = 1_000
MOST_FROM_HERE = 512
MOST_FROM_ELSEWHERE = 64  # per address
BACKLOG = 512
_TOO_SLOW = b'{"error":"The request took too long to arrive.","code":"TOO_SLOW"}'
_TOO_MANY = (
    b'{"error":"Too many connections are open.","code":"TOO_MANY_CONNECTIONS",'
    b'"advice":"Use fewer at once, or try again in a minute."}'
)
_HEAD = (
    b"HTTP/1.1 %s\r\nconnection: close\r\ncontent-type: application/json\r\n"
    b"cache-control: no-store\r\ncontent-length: %d\r\n\r\n%s"
)


class ConnectionCounts:
    """Counts open connections, in all and per address. A trusted proxy has no limit of its own."""

    def __init__(
        self,
        settings: ServeSettings,
        *,
        most: int = MOST_CONNECTIONS,
        here: int = MOST_FROM_HERE,
        elsewhere: int = MOST_FROM_ELSEWHERE,
    ) -> None:
        self._proxies = trusted_proxies(settings.trusted_proxies)
        self._most, self._here, self._elsewhere = most, here, elsewhere
        self._open: Counter[str] = Counter()

    def enter(self, host: str) -> bool:
        """Count a connection if there is room for it. Returns whether there is; then the caller must `leave`."""
        name = address_group(host)
        if self._open.total() >= self._most or self._open[name] >= self._room(host):
            return False
        self._open[name] += 1
        return True

    def leave(self, host: str) -> None:
        name = address_group(host)
        self._open[name] -= 1
        if not self._open[name]:
            del self._open[name]

    def _room(self, host: str) -> int:
        try:
            address = ip_address(host)
        except ValueError:
            return self._elsewhere
        if any(address in network for network in self._proxies):
            return self._most
        return self._here if is_loopback(host) else self._elsewhere


def http_server(
    app: ASGIApp,
    *,
    settings: ServeSettings,
    stopping: Shutdown,
    ready: Callable[[], None],
    crowd: ConnectionCounts | None = None,
) -> HttpServer:
    """The server, which serves until a signal or `should_exit`. Calls `ready` when it accepts requests."""
    config = uvicorn.Config(
        app,
        http=_patient(settings.slow_client_seconds, crowd or ConnectionCounts(settings)),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        forwarded_allow_ips=[str(network) for network in trusted_proxies(settings.trusted_proxies)],
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=settings.stop_seconds,
    )
    return HttpServer(config, stopping=stopping, ready=ready)


def bind(settings: ServeSettings) -> list[socket.socket]:
    """Listening sockets of the configured address; a host name may have several. Raises SettingsError."""
    host, port = settings.host.strip().strip("[]"), settings.port
    try:
        addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise SettingsError(
            f"serve.host is {host!r}, which is no address of this machine.", advice="Try 127.0.0.1."
        ) from error
    if is_loopback(host) and not all(is_loopback(str(address[0])) for *_, address in addresses):
        raise SettingsError(
            f"serve.host is {host!r}, which on this machine is no loopback address.", advice="Try 127.0.0.1."
        )
    sockets: list[socket.socket] = []
    failed: OSError | None = None
    for family, _, _, _, address in dict.fromkeys(addresses):
        try:
            sockets.append(_listening(family, (address[0], port, *address[2:])))
            port = port or sockets[0].getsockname()[1]
        except OSError as error:
            failed = error
            if error.errno == errno.EADDRINUSE:
                break
    if failed is not None and (failed.errno == errno.EADDRINUSE or not sockets):
        for bound in sockets:
            bound.close()
        raise _not_bound(failed, host, port) from failed
    return sockets


def _listening(family: int, address: tuple[object, ...]) -> socket.socket:
    # Without IPPROTO_TCP asyncio leaves Nagle's algorithm on.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform == "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _not_bound(error: OSError, host: str, port: int) -> SettingsError:
    if error.errno == errno.EADDRINUSE:
        return SettingsError(
            f"Port {port} of {host or 'this machine'} is in use, perhaps by another Mindhold.",
            advice="Stop the other program, or choose another port with --port or MINDHOLD_SERVE_PORT.",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return SettingsError(f"Port {port} may not be used.", advice="Choose one above 1023 with --port.")
    return SettingsError(
        f"serve.host is {host!r}, which is no address of this machine.", advice="Try 127.0.0.1."
    )


def shown_address(sockets: list[socket.socket]) -> str:
    """The URL of the server, as a person types it."""
    host, port = sockets[0].getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class HttpServer(uvicorn.Server):
    """A server that reports when it is ready and when it stops. A signal stops it; the caller closes the rest."""

    def __init__(self, config: uvicorn.Config, *, stopping: Shutdown, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._stopping = stopping
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.begin()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, _frame: object) -> None:
            if self.should_exit and number == signal.SIGINT:
                self.force_exit = True
            self.should_exit = True

        before = {number: signal.signal(number, stop) for number in HANDLED_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _patient(seconds: float, crowd: ConnectionCounts) -> type[H11Protocol]:
    """A protocol class with time limits for request heads, for the rest of refused requests, and for clients that don't read.

    It also limits connections: when there are too many, a new one gets a short answer and is closed.
    """

    class Patient(H11Protocol):
        _late: asyncio.TimerHandle | None = None
        _unread: asyncio.TimerHandle | None = None
        _patience = seconds  # for clients that don't read
        _entered: str | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.access_log = False  # its lines contain queries, which may contain a key
            host = self.client[0] if self.client else ""
            if not crowd.enter(host):
                transport.write(_HEAD % (b"503 Service Unavailable", len(_TOO_MANY), _TOO_MANY))
                transport.close()
                return
            self._entered = host
            self._late = self.loop.call_later(seconds, self._give_up)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._look()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._look()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self._entered is not None:
                crowd.leave(self._entered)
                self._entered = None
            for timer in (self._late, self._unread):
                if timer is not None:
                    timer.cancel()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._unread = self._unread or self.loop.call_later(self._patience, self.transport.abort)

        def shutdown(self) -> None:
            super().shutdown()
            self._patience = min(seconds, PATIENCE_AT_THE_END)
            if self._unread is not None:
                self._unread.cancel()
                self._unread = self.loop.call_later(self._patience, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._unread is not None:
                self._unread.cancel()
                self._unread = None

        def _look(self) -> None:
            """Run the timer while a request is incomplete and no route handles it; a route has its own limit."""
            answering = self.cycle is not None and not self.cycle.response_complete
            half = bool(self.conn.trailing_data[0]) or self.conn.their_state is h11.SEND_BODY
            if answering or not half:
                if self._late is not None:
                    self._late.cancel()
                    self._late = None
            elif self._late is None:
                self._late = self.loop.call_later(seconds, self._give_up)

        def _give_up(self) -> None:
            if self.conn.their_state is h11.IDLE:
                self.transport.write(_HEAD % (b"408 Request Timeout", len(_TOO_SLOW), _TOO_SLOW))
            self.transport.close()

    return Patient
