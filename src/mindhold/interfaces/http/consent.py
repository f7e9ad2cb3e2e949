"""The page on which the owner says yes or no to a client that asks by OAuth.

No script runs on it and nothing may frame it. Whoever started the question knows its ticket, so a ticket alone answers
nothing: the form carries a token that only this page's cookie fits, and where there is a key it must be typed.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from html import escape
from string import Template
from typing import Any
from urllib.parse import urlsplit

from mcp.server.auth.provider import construct_redirect_uri
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from mindhold.interfaces.http.answers import refusal
from mindhold.interfaces.http.door import Door
from mindhold.interfaces.http.identity import ADMIN, READ, WRITE, Keys
from mindhold.interfaces.http.limits import address_of
from mindhold.interfaces.http.place import comes_from_here
from mindhold.model.errors import Refused

CONSENT_PATH = "/consent"
ISSUER_PARAMETER = "iss"
COOKIE = "mindhold_consent"
COOKIE_SECONDS = 600
LONGEST_NAME = 80

_PAGE = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Mindhold</title>
<style nonce="$nonce">
body { font: 16px/1.5 system-ui, sans-serif; max-width: 32rem; margin: 10vh auto; padding: 0 1rem; color: #222; background: #fff; }
h1 { font-size: 1.3rem; }
.to { font-weight: bold; overflow-wrap: anywhere; }
.wrong { color: #a00; }
input, button { font: inherit; padding: .5rem .8rem; margin: .3rem .3rem .3rem 0; }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #1b1b1b; } .wrong { color: #f88; } }
</style>
</head>
<body>
<main>
<h1>Let $name use your memory?</h1>
<p>It calls itself “$name”, which nobody has checked. What you allow is sent to <span class="to">$place</span>.
If you did not just ask for this, deny it.</p>
<p>It will be able to read what is remembered.</p>
$wrong
<form method="post" action="$action">
<input type="hidden" name="ticket" value="$ticket">
<input type="hidden" name="token" value="$token">
$further
$key
<p><button type="submit" name="answer" value="allow">Allow</button>
<button type="submit" name="answer" value="deny" formnovalidate>Deny</button></p>
</form>
</main>
</body>
</html>
""")
_FURTHER = Template(
    """<p><label><input type="checkbox" name="scope" value="$scope"$checked> It may also $may.</label></p>"""
)
MAY = {  # what a person can take away, or must give by hand
    WRITE: "change what is remembered",
    ADMIN: "manage all of it: back up, export, restore, run the upkeep, and read your past Claude Code conversations",
}
USUAL = (WRITE,)
_KEY = """<p><label>Your access key<br><input type="password" name="key" autocomplete="off" required></label></p>"""


class ConsentPage:
    """The route."""

    def __init__(self, door: Door, keys: Keys) -> None:
        self._door = door
        self._keys = keys

    def routes(self) -> list[Route]:
        return [Route(CONSENT_PATH, endpoint=self._answer, methods=["GET", "POST"])]

    async def _answer(self, request: Request) -> Response:
        if not self._door.place.offers_oauth(request.scope):
            raise HTTPException(404)
        if not self._door.settings.access_key and not comes_from_here(request.scope):
            return refusal(403, "Only this machine may be asked.", "REFUSED")
        if request.method != "POST":
            return await self._ask(request, request.query_params.get("ticket", ""))
        sent = await request.form()
        form = {name: value for name, value in sent.items() if isinstance(value, str)}
        further = [one for one in sent.getlist("scope") if isinstance(one, str)]
        ticket = form.get("ticket", "")
        token, cookie = form.get("token", ""), request.cookies.get(COOKIE, "")
        if not cookie or not hmac.compare_digest(token.encode(), cookie.encode()):
            return await self._ask(
                request, ticket, wrong="The page was too old. Please answer again.", status=403
            )
        if form.get("answer") != "allow":
            return await self._decide(request, ticket, allow=False)
        wrong = self._wrong(request, form.get("key", ""))
        if wrong:
            return await self._ask(request, ticket, wrong=wrong, status=403, ticked=further)
        return await self._decide(request, ticket, allow=True, scopes=[READ, *further])

    def _wrong(self, request: Request, key: str) -> str:
        """What is wrong with the key that was typed; nothing where none is needed."""
        if not self._door.settings.access_key:
            return ""
        if self._keys.is_owner(key):  # also when others at this address have tried too many
            return ""
        if not self._keys.guesses.take(address_of(request.scope)).allowed:
            return "Too many wrong keys. Please wait a minute."
        return "That is not the key."

    async def _ask(
        self,
        request: Request,
        ticket: str,
        *,
        wrong: str = "",
        status: int = 200,
        ticked: Sequence[str] = USUAL,
    ) -> Response:
        found = await self._door.ask("find_consent", ticket=ticket)
        if not found.found:
            return _no_longer()
        nonce, token = secrets.token_urlsafe(16), secrets.token_urlsafe(32)
        page = _PAGE.substitute(
            nonce=nonce,
            name=escape(_name(found.client)),
            place=escape(_place(found.params["redirect_uri"])),
            further=_further(found.params["scopes"] or (), ticked),
            wrong=f'<p class="wrong" role="alert">{escape(wrong)}</p>' if wrong else "",
            action=CONSENT_PATH,
            ticket=escape(ticket),
            token=token,
            key=_KEY if self._door.settings.access_key else "",
        )
        answer = HTMLResponse(page, status_code=status, headers=_headers(nonce, found.params["redirect_uri"]))
        secure = self._door.place.base_of(request.scope).startswith("https:")
        answer.set_cookie(
            COOKIE,
            token,
            max_age=COOKIE_SECONDS,
            path=CONSENT_PATH,
            secure=secure,
            httponly=True,
            samesite="strict",
        )
        return answer

    async def _decide(
        self, request: Request, ticket: str, *, allow: bool, scopes: Sequence[str] = ()
    ) -> Response:
        try:
            found = await self._door.ask("grant_code", ticket=ticket, allow=allow, scopes=list(scopes))
        except Refused:
            return _no_longer()
        told = {"code": found.code} if found.code else {"error": "access_denied"}
        told |= {"state": found.state, ISSUER_PARAMETER: self._door.place.base_of(request.scope)}
        answer = RedirectResponse(construct_redirect_uri(found.redirect_uri, **told), status_code=303)
        answer.delete_cookie(COOKIE, path=CONSENT_PATH)
        return answer


def _further(asked: Sequence[str], ticked: Sequence[str]) -> str:
    """A box for each thing that is asked for beyond reading."""
    return "\n".join(
        _FURTHER.substitute(scope=scope, may=may, checked=" checked" if scope in ticked else "")
        for scope, may in MAY.items()
        if scope in asked
    )


def _no_longer() -> Response:
    return refusal(
        400, "This question is no longer open.", "NO_LONGER_OPEN", advice="Start again from the client."
    )


def _name(client: dict[str, Any]) -> str:
    name = "".join(char for char in str(client.get("client_name") or "") if char.isprintable()).strip()
    return name[:LONGEST_NAME] or "An unnamed client"


def _place(redirect_uri: str) -> str:
    parts = urlsplit(redirect_uri)
    return parts.netloc if parts.scheme in ("http", "https") else f"the app of {parts.scheme}:"


def _headers(nonce: str, redirect_uri: str) -> dict[str, str]:
    """Browsers hold a form's redirects to `form-action` too, so the place that it ends at is named."""
    parts = urlsplit(redirect_uri)
    end = f"{parts.scheme}://{parts.netloc}" if parts.scheme in ("http", "https") else f"{parts.scheme}:"
    return {
        "Content-Security-Policy": (
            f"default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self' {end};"
            " frame-ancestors 'none'; base-uri 'none'"
        ),
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin",  # none at all would make the form's own origin unknown
        "Cache-Control": "no-store",
    }
