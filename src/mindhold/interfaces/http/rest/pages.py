"""Routes of the OpenAPI document, the docs page and the profile page."""

from __future__ import annotations

import asyncio
import hashlib
import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from mindhold import __version__
from mindhold.contracts.rest.openapi import openapi_document

_DOCS_SCRIPT = """
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  filter: true,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
  responseInterceptor(response) {
    if (response.url.endsWith("/openapi.json")) {
      const spec = JSON.parse(response.text);
      delete spec.components.securitySchemes.oauth; // a token goes into the field of the key
      response.text = JSON.stringify(spec);
    }
    return response;
  },
});
"""
_DOCS = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Mindhold API</title>
<link rel="stylesheet" href="/docs/files/swagger_style.css">
</head>
<body>
<noscript>This page needs its script; programs read <a href="/openapi.json">/openapi.json</a>.</noscript>
<main id="docs"></main>
<script src="/docs/files/swagger_bundle.js"></script>
<script>$script</script>
</body>
</html>
""")
_PROFILE = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Your profile: Mindhold</title>
<style>$style</style>
</head>
<body>
<a class="skip" href="#content">To the content</a>
<header class="top">
<h1>Your profile <small>Mindhold $version</small></h1>
<div class="fields">
<label><span class="hidden-label">Access key; kept on this page only</span><input id="key" type="password" placeholder="Key, if one is needed" autocomplete="off"></label>
</div>
</header>
<main id="content" class="profile" tabindex="-1">
<p class="lead">What agents are given when a conversation begins. It is kept on the server's machine, and nothing in it fades.</p>
<noscript><p class="bad">This page needs its script; <code>mindhold profile</code> does the same in a shell.</p></noscript>
<p id="told" role="status" aria-live="polite"></p>
<section>
<h2>In your own words</h2>
<form class="said" data-section="statement"><label for="statement">Say something</label>
<input id="statement" name="value" required maxlength="2000" placeholder="My favourite colour is blue" autocomplete="off"><button type="submit">Keep</button></form>
</section>
$sections
</main>
<template id="row"><tr><th scope="row"></th><td><form class="edit"><input name="value" required autocomplete="off"><button type="submit">Save</button><button type="button" class="past">History</button><button type="button" class="gone">Remove</button></form><ol class="editions" hidden></ol></td></tr></template>
<script>$script</script>
</body>
</html>
""")
# Section, heading, labels of the two fields of a new entry; "" if there is no such field.
_SECTIONS = (
    ("name", "Name", "", "Your name"),
    ("preferences", "Preferences", "What, such as tone", "How, such as casual"),
    ("facts", "Facts", "What, such as favorite_color", "Such as blue"),
    ("contacts", "Contacts", "Who", "What they are to you"),
    ("notes", "Notes", "", "Anything else"),
)


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """A page and its Content-Security-Policy: nothing comes from or goes to another server."""

    html: str
    policy: str


@cache
def docs_page() -> HtmlPage:
    """Swagger UI, whose files come with the package `offapi`. A key that is typed in stays in the page's memory."""
    script = f"'self' {_hash(_DOCS_SCRIPT)}"
    return HtmlPage(_DOCS.substitute(script=_DOCS_SCRIPT), _policy(style="'self'", script=script))


@cache
def profile_page() -> HtmlPage:
    """The page where a person reads and edits the profile."""
    style, script = _file_text("profile.css"), _file_text("profile.js")
    sections = "".join(_section(*section) for section in _SECTIONS)
    html = _PROFILE.substitute(style=style, script=script, version=escape(__version__), sections=sections)
    return HtmlPage(html, _policy(style=_hash(style), script=_hash(script)))


def _policy(*, style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src {style}; script-src {script}; connect-src 'self'; img-src data:;"
        " form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _file_text(name: str) -> str:
    folder = files("mindhold.interfaces.http.rest")
    return folder.joinpath(name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _section(section: str, heading: str, label: str, value: str) -> str:
    fields = "".join(
        f'<label><span class="hidden-label">{escape(words)}</span><input name="{name}" required placeholder="{escape(words)}"'
        ' autocomplete="off"></label>'
        for name, words in (("label", label), ("value", value))
        if words
    )
    return (
        f'<section id="{section}"><h2>{heading}</h2><div class="scroll"><table><tbody></tbody></table></div>'
        f'<p class="also none" hidden>Nothing yet.</p><form class="new" data-section="{section}">{fields}'
        '<button type="submit">Add</button></form></section>'
    )


FRONT, DOCUMENT, DOCS, PROFILE = "/", "/openapi.json", "/docs", "/profile"
LINKS = {
    "name": "Mindhold",
    "docs": DOCS,
    "openapi": DOCUMENT,
    "profile": PROFILE,
    "api": "/api",
    "mcp": "/mcp",
    "health": "/health",
}


class _BundleFiles(StaticFiles):
    """Static files that a browser may cache but must revalidate; other responses are not stored."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        response = super().file_response(*args, **options)
        response.headers["Cache-Control"] = "no-cache"
        return response


def routes() -> list[BaseRoute]:
    """Routes without authentication: they contain no memories."""
    return [
        Route(FRONT, _front, methods=["GET"]),
        Route(DOCUMENT, _document, methods=["GET"]),
        Route(DOCS, _docs, methods=["GET"]),
        Mount(f"{DOCS}/files", _BundleFiles(packages=[("offapi", "")])),
        Route(PROFILE, _profile, methods=["GET"]),
    ]


async def _front(request: Request) -> Response:
    """Redirects a browser to the docs page; a program gets a list of paths."""
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(DOCS, status_code=307, headers={"Vary": "Accept"})
    return JSONResponse(LINKS, headers={"Vary": "Accept"})


async def _document(request: Request) -> Response:
    # Building it is slow, so the first time runs in a thread.
    return _cacheable(request, await asyncio.to_thread(_document_text), "application/json")


async def _docs(request: Request) -> Response:
    return _page_response(request, docs_page())


async def _profile(request: Request) -> Response:
    return _page_response(request, await asyncio.to_thread(profile_page))


def _page_response(request: Request, page: HtmlPage) -> Response:
    headers = {
        "Content-Security-Policy": page.policy,
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin",
    }
    return _cacheable(request, page.html, "text/html", headers)


@cache
def _document_text() -> str:
    return json.dumps(openapi_document(), ensure_ascii=False)


def _cacheable(
    request: Request, text: str, media_type: str, headers: Mapping[str, str] | None = None
) -> Response:
    """A response with an ETag; 304 if the client has the same text."""
    content = text.encode()
    etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    all_headers = {**(headers or {}), "ETag": etag, "Cache-Control": "no-cache"}
    etags = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if etag in etags or "*" in etags:
        return Response(status_code=304, headers=all_headers)
    return Response(content, media_type=media_type, headers=all_headers)
