"""The first look at a request: was it meant for us, and may the page that sends it?

A website can make a browser call this machine under a name of its own (DNS rebinding); its requests carry that name.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from mindhold.interfaces.http.answers import refusal
from mindhold.interfaces.http.place import Place

READING = ("GET", "HEAD")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
EXPOSED = (
    "ETag",
    "Link",
    "Location",
    "Idempotent-Replayed",
    "Mcp-Session-Id",
    "MCP-Protocol-Version",
    "WWW-Authenticate",
    "Retry-After",
    "RateLimit-Limit",
    "RateLimit-Remaining",
    "RateLimit-Reset",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
)


class Guard:
    """Lets through what names us, from pages that may call."""

    def __init__(self, app: ASGIApp, place: Place) -> None:
        self._app = app
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._place.answers_to(host, server=scope["server"] or ("", None)):
            answer = refusal(
                421,
                "This is not the server that the request names.",
                "WRONG_HOST",
                advice="Name the host in serve.allowed_hosts if it is one of this server's.",
            )
            return await answer(scope, receive, send)
        if origin is None:
            foreign = _is_foreign(headers, reads=scope["method"] in READING)
        else:
            foreign = not self._place.welcomes(origin, host=host)
        if foreign:
            answer = refusal(
                403,
                "Pages of this origin may not call.",
                "WRONG_ORIGIN",
                advice="Name the origin in serve.allowed_origins if it may.",
            )
            return await answer(scope, receive, send)
        return await self._app(scope, receive, send)


def _is_foreign(headers: Headers, *, reads: bool) -> bool:
    """Whether another site's page asks without saying whose it is, as for an image or by a form; a link may lead here."""
    elsewhere = headers.get("sec-fetch-site") in ("cross-site", "same-site")
    return elsewhere and not (reads and headers.get("sec-fetch-mode") == "navigate")


class Cors:
    """Tells browsers what pages of the allowed origins may read; other origins are told nothing."""

    def __init__(self, app: ASGIApp, place: Place) -> None:
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
