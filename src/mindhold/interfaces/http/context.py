"""What all parts of the HTTP server share: its address, its settings, the engine and error responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope

from mindhold.contracts.rest.errors import BY_CODE
from mindhold.interfaces.http.shutdown import ServerStopped
from mindhold.interfaces.runtime import I, O, OpenMindhold, call_operation
from mindhold.model.errors import (
    Conflict,
    InvalidInput,
    MindholdError,
    NotFound,
    Refused,
    SettingsError,
    StoreError,
)
from mindhold.model.host import is_loopback
from mindhold.model.scope import Caller
from mindhold.settings.loader import LoadedSettings
from mindhold.settings.schema import Settings

if TYPE_CHECKING:
    from mindhold.operations import Operation


_CODES = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}
_STATUSES: tuple[tuple[type[MindholdError], int], ...] = (
    (InvalidInput, 400),
    (NotFound, 404),
    (Conflict, 409),
    (Refused, 403),
    (SettingsError, 503),  # a store that isn't configured
    (StoreError, 503),
    (ServerStopped, 503),
)


def error_response(
    status: int,
    error: str,
    code: str,
    *,
    advice: str = "",
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Response:
    """The JSON response for an error."""
    body = {"error": error, "code": code, **more} | ({"advice": advice} if advice else {})
    return JSONResponse(body, status_code=status, headers=headers)


def documented_response(
    code: str, *, advice: str = "", headers: Mapping[str, str] | None = None, **more: Any
) -> Response:
    """The response for an error with the status and the words of the contract; `advice` replaces the contract's."""
    failure = BY_CODE[code]
    return error_response(
        failure.status, failure.error, code, advice=advice or failure.advice, headers=headers, **more
    )


def response_to_error(error: MindholdError) -> Response:
    """The response for a MindholdError, with the status of its type."""
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
    return error_response(status, error.message, error.code, advice=error.advice)


async def on_http_error(request: Request, error: Exception) -> Response:
    """The response for an unknown path or a method that isn't allowed."""
    assert isinstance(error, HTTPException)
    status, path = error.status_code, request.url.path
    if status not in _CODES:
        return error_response(status, error.detail, "HTTP_ERROR", headers=error.headers)
    is_api = path == "/api" or path.startswith(("/api/", "/api%"))
    advice = "/openapi.json has all paths." if status == 404 and is_api else ""
    return documented_response(_CODES[status], advice=advice, headers=error.headers)


async def on_our_error(_request: Request, error: Exception) -> Response:
    """The response for an error that an operation raised and no route handled."""
    assert isinstance(error, MindholdError)
    return response_to_error(error)


async def on_any_error(_request: Request, _error: Exception) -> Response:
    """The response for an unexpected exception. The traceback goes to the log only."""
    return documented_response("INTERNAL")


async def disconnected(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


WILDCARDS = frozenset({"0.0.0.0", "::", ""})
RESOURCES = frozenset({"", "/mcp", "/sse"})  # paths of the resources that tokens are issued for
NEEDS_KEY = "Set MINDHOLD_ACCESS_KEY to a long random text, or listen on 127.0.0.1."
SHORTEST_KEY = 16  # if other machines can try keys
PROXIED = frozenset({"forwarded", "via", "x-real-ip", "true-client-ip"})
PROXIED_BEGINNINGS = ("x-forwarded-", "cf-")


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host and port from a request or a setting."""

    host: str
    port: int | None = None


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """The server's own addresses, and the hosts and origins that the settings allow."""

    bound: str
    public: str = ""  # an origin
    hosts: tuple[HostPort, ...] = ()
    origins: frozenset[str] = frozenset()

    @classmethod
    def of(cls, settings: Settings) -> HostPolicy:
        """The address from the settings. Raises SettingsError for invalid ones, and for those that would let strangers in."""
        serve = settings.serve
        place = cls(
            bound=serve.host.strip().strip("[]").lower(),
            public=_origin(serve.public_url.strip(), "serve.public_url") if serve.public_url.strip() else "",
            hosts=tuple(_address(item) for item in _listed(serve.allowed_hosts)),
            origins=frozenset(
                item if item == "*" else _origin(item, "serve.allowed_origins")
                for item in _listed(serve.allowed_origins)
            ),
        )
        trusted_proxies(serve.trusted_proxies)
        if not settings.access_key:
            place._refuse_strangers()
        elif len(settings.access_key) < SHORTEST_KEY and place._is_open_to_others():
            raise SettingsError(
                f"The access key has {len(settings.access_key)} characters, and others than this machine can try keys.",
                advice=f"Set MINDHOLD_ACCESS_KEY to a random text of at least {SHORTEST_KEY} characters.",
            )
        return place

    def _is_open_to_others(self) -> bool:
        public = urlsplit(self.public).hostname or "localhost"
        return not is_loopback(self.bound) or not is_loopback(public) or "*" in self.origins

    def _refuse_strangers(self) -> None:
        if not is_loopback(self.bound):
            raise SettingsError(
                f"Without an access key only this machine may come in, and {self.bound or 'every address'!r} is open to others.",
                advice=NEEDS_KEY,
            )
        if self.public and not is_loopback(urlsplit(self.public).hostname or ""):
            raise SettingsError(
                f"serve.public_url is {self.public}, but there is no access key: everybody could come in.",
                advice="Set MINDHOLD_ACCESS_KEY to a long random text.",
            )
        if "*" in self.origins:
            raise SettingsError(
                "serve.allowed_origins lets every website in, and there is no access key.",
                advice="Name the origins, or set MINDHOLD_ACCESS_KEY.",
            )

    def answers_to(self, host: str, *, server: tuple[str, int | None]) -> bool:
        """Whether the Host header names this server; protects against DNS rebinding."""
        target = split_host(host)
        if target is None:
            return False
        return self._is_listed(target) or (
            target.port in (None, server[1]) and self._is_this_machine(target.host, server)
        )

    def welcomes(self, origin: str, *, host: str) -> bool:
        """Whether pages of that origin may call: our own, and those that the settings allow."""
        caller = origin.lower()
        ours = {f"http://{host.lower()}", f"https://{host.lower()}"}
        if not caller or caller == "null":  # an opaque or sandboxed page
            return False
        return caller in ours or caller == self.public or not self.origins.isdisjoint({caller, "*"})

    def base_of(self, scope: Scope) -> str:
        """The base URL by which this client reaches the server. The Host header was checked before."""
        return self.public or f"{scope['scheme']}://{Headers(scope=scope).get('host', '').lower()}"

    def offers_oauth(self, scope: Scope) -> bool:
        """Whether OAuth is available: only over https or on this machine."""
        base = urlsplit(self.base_of(scope))
        return base.scheme == "https" or is_loopback(base.hostname or "")

    def is_ours(self, resource: str, *, server: tuple[str, int | None]) -> bool:
        """Whether a token for that resource is meant for this server."""
        try:
            parts = urlsplit(resource)
            host, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            return False
        standard = {"http": 80, "https": 443}.get(parts.scheme.lower())
        if standard is None or parts.query or parts.fragment or parts.path.rstrip("/") not in RESOURCES:
            return False
        return self._is_listed(HostPort(host, port)) or (
            (port or standard) == server[1] and self._is_this_machine(host, server)
        )

    def _is_listed(self, named: HostPort) -> bool:
        if any(allowed.host == named.host and allowed.port in (None, named.port) for allowed in self.hosts):
            return True
        public = urlsplit(self.public)
        standard = 443 if public.scheme == "https" else 80
        return bool(self.public) and (public.hostname, public.port or standard) == (
            named.host,
            named.port or standard,
        )

    def _is_this_machine(self, host: str, server: tuple[str, int | None]) -> bool:
        if is_loopback(host) or host == self.bound:
            return True
        return self.bound in WILDCARDS and host == server[0].lower()


def is_local_request(scope: Scope) -> bool:
    """Whether the client is on this machine and isn't a proxy."""
    client = scope.get("client")
    return client is not None and is_loopback(client[0]) and not is_proxied_request(scope)


def is_proxied_request(scope: Scope) -> bool:
    """Whether the request shows signs of a proxy."""
    names = Headers(scope=scope).keys()
    if any(name in PROXIED or name.startswith(PROXIED_BEGINNINGS) for name in names):
        return True
    return scope.get("http_version") == "1.0"  # clients don't use HTTP/1.0, but proxies do by default


def trusted_proxies(setting: str) -> list[IPv4Network | IPv6Network]:
    """The networks whose forwarding headers are trusted. Raises SettingsError."""
    try:
        return [ip_network(network, strict=False) for network in _listed(setting)]
    except ValueError as error:
        raise SettingsError(
            f"serve.trusted_proxies has {setting!r}, which is no list of addresses.",
            advice="Give addresses or networks, such as 127.0.0.1,10.0.0.0/8.",
        ) from error


def split_host(given: str) -> HostPort | None:
    """The parts of a Host header; None if it is invalid."""
    try:
        parts = urlsplit(f"//{given.strip()}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host or parts.path or parts.query or parts.fragment or parts.username is not None or "@" in given:
        return None
    return HostPort(host.rstrip(".").lower(), port)


def _listed(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _address(text: str) -> HostPort:
    address = split_host(text)
    if address is None:
        raise SettingsError(
            f"serve.allowed_hosts has {text!r}, which is no host.",
            advice="Give names such as memory.example:443.",
        )
    return address


def _origin(text: str, key: str) -> str:
    try:
        parts = urlsplit(text.rstrip("/").lower())
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole or parts.path or parts.query or parts.fragment or parts.username is not None:
        raise SettingsError(
            f"{key} has {text!r}, which is no address of the form https://name.",
            advice="Give scheme and host, without a path.",
        )
    return f"{parts.scheme}://{parts.netloc}"


CREDENTIAL_KEY = "mindhold.visitor"  # key of the credential's name in a request's scope
SERVER_CALLER = Caller(agent="system")  # the server itself calls, not a client


class PendingEngine(Protocol):
    """The engine, which may still be opening."""

    @property
    def opened(self) -> OpenMindhold | None:
        """The engine if it is open, else None."""

    async def running(self) -> OpenMindhold:
        """The engine, once it is open. Raises the error of opening it."""


@dataclass(frozen=True, slots=True)
class HttpContext:
    """The engine, the settings and the address of one server."""

    opening: PendingEngine
    loaded: LoadedSettings
    place: HostPolicy

    @property
    def settings(self) -> Settings:
        return self.loaded.settings

    async def ask(self, operation: Operation[I, O], /, **fields: Any) -> O:
        """Run an operation for the server itself. Raises MindholdError."""
        return await call_operation(await self.opening.running(), operation, caller=SERVER_CALLER, **fields)
