"""What says how to call: the OpenAPI document, the page for people, and the way there from the front."""

from __future__ import annotations

import asyncio
import hashlib
import json
from functools import cache

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from mindhold.dialects.rest.document import document
from mindhold.interfaces.http.rest.page import Page, page
from mindhold.interfaces.http.rest.profile_page import profile_page

FRONT, DOCUMENT, PAGE, PROFILE = "/", "/openapi.json", "/docs", "/profile"
LEADS_TO = {
    "name": "Mindhold",
    "docs": PAGE,
    "openapi": DOCUMENT,
    "profile": PROFILE,
    "api": "/api",
    "mcp": "/mcp",
    "health": "/health",
}


def routes() -> list[Route]:
    """For everybody: nothing remembered is in them."""
    return [
        Route(FRONT, _front, methods=["GET"]),
        Route(DOCUMENT, _document, methods=["GET"]),
        Route(PAGE, _page, methods=["GET"]),
        Route(PROFILE, _profile, methods=["GET"]),
    ]


async def _front(request: Request) -> Response:
    """Programs are told what there is; browsers are led to the page."""
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(PAGE, status_code=307, headers={"Vary": "Accept"})
    return JSONResponse(LEADS_TO, headers={"Vary": "Accept"})


async def _document(request: Request) -> Response:
    # The first time it takes a moment, in which others are served.
    return _kept(request, await asyncio.to_thread(_text), "application/json", {})


async def _page(request: Request) -> Response:
    return _shown(request, await asyncio.to_thread(page))


async def _profile(request: Request) -> Response:
    return _shown(request, await asyncio.to_thread(profile_page))


def _shown(request: Request, made: Page) -> Response:
    headers = {
        "Content-Security-Policy": made.policy,
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin",
    }
    return _kept(request, made.html, "text/html", headers)


@cache
def _text() -> str:
    return json.dumps(document(), ensure_ascii=False)


def _kept(request: Request, text: str, media: str, headers: dict[str, str]) -> Response:
    """Clients keep it, and ask whether it is still the same."""
    content = text.encode()
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    told = {**headers, "ETag": tag, "Cache-Control": "no-cache"}
    given = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
    if tag in given or "*" in given:
        return Response(status_code=304, headers=told)
    return Response(content, media_type=media, headers=told)
