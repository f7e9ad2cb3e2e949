"""Routes of the OpenAPI document, the docs page and the profile page."""

from __future__ import annotations

import asyncio
import hashlib
import json
from functools import cache
from html import escape
from string import Template

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from mindhold import __version__
from mindhold.contracts.rest.openapi import openapi_document
from mindhold.interfaces.http.rest.docs_page import HtmlPage, file_text, policy_of, render_docs_page

_PAGE = Template("""\
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
# Section, heading, what the two fields of a new entry are called; "" for a field that it hasn't.
_SECTIONS = (
    ("name", "Name", "", "Your name"),
    ("preferences", "Preferences", "What, such as tone", "How, such as casual"),
    ("facts", "Facts", "What, such as favorite_color", "Such as blue"),
    ("contacts", "Contacts", "Who", "What they are to you"),
    ("notes", "Notes", "", "Anything else"),
)


@cache
def profile_page() -> HtmlPage:
    """The same for every server of this version."""
    style = file_text("page.css") + file_text("profile.css")
    script = file_text("profile.js")
    html = _PAGE.substitute(
        style=style,
        script=script,
        version=escape(__version__),
        sections="".join(_section(*one) for one in _SECTIONS),
    )
    return HtmlPage(html, policy_of(style, script))


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
    return _shown(request, await asyncio.to_thread(render_docs_page))


async def _profile(request: Request) -> Response:
    return _shown(request, await asyncio.to_thread(profile_page))


def _shown(request: Request, made: HtmlPage) -> Response:
    headers = {
        "Content-Security-Policy": made.policy,
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin",
    }
    return _kept(request, made.html, "text/html", headers)


@cache
def _text() -> str:
    return json.dumps(openapi_document(), ensure_ascii=False)


def _kept(request: Request, text: str, media: str, headers: dict[str, str]) -> Response:
    """Clients keep it, and ask whether it is still the same."""
    content = text.encode()
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    told = {**headers, "ETag": tag, "Cache-Control": "no-cache"}
    given = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
    if tag in given or "*" in given:
        return Response(status_code=304, headers=told)
    return Response(content, media_type=media, headers=told)
