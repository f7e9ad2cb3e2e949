"""Authentication by the owner's key, an API key or an OAuth token; OAuth 2.0 and its consent page. Requests from this machine need none."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from string import Template
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlsplit

from mcp.server.auth.handlers.authorize import AuthorizationHandler
from mcp.server.auth.handlers.register import RegistrationHandler
from mcp.server.auth.handlers.token import TokenHandler
from mcp.server.auth.json_response import PydanticJSONResponse
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.middleware.client_auth import AuthenticationError, ClientAuthenticator
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    RegistrationError,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import ClientRegistrationOptions
from mcp.shared.auth import (
    InvalidRedirectUriError,
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl
from starlette.authentication import AuthCredentials
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mindhold.interfaces.http.context import (
    CREDENTIAL_KEY,
    HttpContext,
    error_response,
    is_local_request,
    is_proxied_request,
    response_to_error,
)
from mindhold.interfaces.http.limits import TokenBuckets, address_of, too_many
from mindhold.interfaces.runtime import CALLER_KEY, I, local_caller
from mindhold.model.errors import ContentTooLarge, InvalidInput, MindholdError, NotFound, Refused
from mindhold.model.host import is_registered_redirect
from mindhold.model.scope import DEFAULT_AGENT, PRIVILEGED_AGENTS, Caller

if TYPE_CHECKING:
    from mindhold.access.oauth import TokenPair
    from mindhold.operations import Operation


READ, WRITE, ADMIN = "memory:read", "memory:write", "memory:admin"  # the scopes that OAuth grants
API_KEY, ACCESS_TOKEN = "rk_", "ra_"
GUESSES_PER_MINUTE = 30  # of the owner's key on the consent page, per address
REFUSALS_PER_MINUTE = 300  # per address; beyond that, secrets that weren't valid lately aren't looked up
LENGTH_OF_OURS = 46  # a prefix of three characters, and 32 bytes in base64
LOOKUPS_PER_MINUTE = 600  # of well-formed keys and tokens, per address that sends many invalid ones
MOST_KNOWN = 1_000
PUBLIC = frozenset(
    "/ /docs /profile /openapi.json /health /authorize /token /register /revoke /consent".split()
)
WELL_KNOWN = "/.well-known/"
PUBLIC_FOLDERS = ("/docs/", WELL_KNOWN)
FOR_PROXIES = "Without an access key only this machine may come in, and by no proxy: set MINDHOLD_ACCESS_KEY on the server."
_SESSION = re.compile(rb"[?&]session_?id=([0-9a-f-]{32,36})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AuthenticatedClient:
    """The client of an authenticated request. `name` identifies its credential without revealing it; empty if none was needed."""

    caller: Caller
    name: str = ""
    scopes: tuple[str, ...] = ()


class CredentialLookup:
    """Finds the owner of a key or token."""

    def __init__(self, door: HttpContext) -> None:
        self._door = door
        self.guesses = TokenBuckets(GUESSES_PER_MINUTE)
        self._known: OrderedDict[bytes, None] = OrderedDict()  # hashes of secrets that were valid lately

    def has_held(self, secret: str) -> bool:
        """Whether the secret was valid lately. Such a secret is always looked up, however many invalid ones its address sends."""
        return self.is_owner(secret) or _hashed(secret) in self._known

    def is_owner(self, secret: str) -> bool:
        """Whether it is the owner's key, compared in constant time."""
        key = self._door.settings.access_key
        return hmac.compare_digest(secret.encode("utf-8", "surrogateescape"), key.encode()) and bool(key)

    async def whose(self, secret: str, *, scope: Scope) -> AuthenticatedClient | None:
        """The client of the secret, or None if it is invalid. Raises MindholdError if it can't be looked up."""
        if self.is_owner(secret):
            return AuthenticatedClient(local_caller(self._door.loaded), "owner")
        if not secret.isascii():  # all of ours are ASCII
            return None
        client = None
        if secret.startswith(API_KEY):
            client = await self._by_key(secret)
        elif secret.startswith(ACCESS_TOKEN):
            client = await self._by_token(secret, scope)
        self._known.pop(_hashed(secret), None)
        if client is not None:
            self._known[_hashed(secret)] = None
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return client

    async def _by_key(self, secret: str) -> AuthenticatedClient | None:
        from mindhold.access.keys import CHECK_KEY

        key = await self._door.ask(CHECK_KEY, key=secret)
        if not key.found:
            return None
        caller = Caller(
            agent=key.agent or DEFAULT_AGENT,
            bound=True,
            scopes=tuple(key.scopes),
            writes=key.access == "write",
            owner=False,
        )
        return AuthenticatedClient(caller, f"key:{key.id}")

    async def _by_token(self, secret: str, scope: Scope) -> AuthenticatedClient | None:
        from mindhold.access.oauth import CHECK_TOKEN

        token = await self._door.ask(CHECK_TOKEN, token=secret)
        if not token.found or not self._door.place.is_ours(token.resource or "", server=scope["server"]):
            return None
        own = local_caller(self._door.loaded)
        if ADMIN in token.scopes:
            caller = replace(own, writes=WRITE in token.scopes)
        else:
            agent = DEFAULT_AGENT if own.agent in PRIVILEGED_AGENTS else own.agent
            caller = Caller(agent=agent, bound=True, writes=WRITE in token.scopes, owner=False)
        return AuthenticatedClient(caller, f"grant:{token.family}", tuple(token.scopes))


class Authentication:
    """Middleware that authenticates requests and puts the caller into the request's scope."""

    def __init__(self, app: ASGIApp, door: HttpContext, keys: CredentialLookup) -> None:
        self._app = app
        self._door = door
        self._keys = keys
        self._refusals = TokenBuckets(REFUSALS_PER_MINUTE)
        self._keyless = TokenBuckets(REFUSALS_PER_MINUTE)
        self._lookups = TokenBuckets(LOOKUPS_PER_MINUTE)
        self._streams: OrderedDict[str, str] = OrderedDict()  # SSE transport: session id -> secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_public(scope["path"]):
            return await self._app(scope, receive, send)
        secret = self._presented(scope)
        try:
            await self._door.opening.running()
            client = await self._visitor(secret, scope)
        except MindholdError as error:
            return await response_to_error(error)(scope, receive, send)
        if isinstance(client, Response):
            return await client(scope, receive, send)
        scope[CALLER_KEY] = client.caller
        if client.name:
            scope[CREDENTIAL_KEY] = client.name
            scope["auth"] = AuthCredentials(list(client.scopes))
            scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=client.name, scopes=[]))
        if scope["path"] == "/sse" and secret:
            return await self._stream(scope, receive, send, secret=secret)
        return await self._app(scope, receive, send)

    def _presented(self, scope: Scope) -> str | None:
        """The secret of the request. The query may contain it only for the SSE transport."""
        secret = bearer(scope)
        if secret is not None:
            return secret
        query = parse_qs(scope["query_string"].decode("latin-1"))
        if scope["path"] == "/sse":
            return next(iter(query.get("accessKey", [])), None)
        if scope["path"] == "/message":
            session = next(iter(query.get("sessionId", []) or query.get("session_id", [])), "")
            return self._streams.get(session.replace("-", "").lower())
        return None

    async def _visitor(self, secret: str | None, scope: Scope) -> AuthenticatedClient | Response:
        if secret is None and not self._door.settings.access_key and is_local_request(scope):
            return AuthenticatedClient(local_caller(self._door.loaded))
        address = address_of(scope)
        # Clients without a secret learn here that they need one; they are counted apart from those with one.
        if secret is None:
            bucket = self._keyless.take(address)
            few = self._unknown(scope, error="")
            return few if bucket.allowed else too_many(bucket, "Too many requests without a key.")
        bucket = self._refusals.look(address)
        # Well-formed secrets are looked up despite earlier refusals, so that clients who share an address aren't locked out.
        plausible = self._keys.has_held(secret) or (
            _looks_ours(secret) and self._lookups.take(address).allowed
        )
        if not bucket.allowed and not plausible:
            return too_many(bucket, "Too many requests without a valid key.")
        client = await self._keys.whose(secret, scope=scope)
        if client is None:
            self._refusals.take(address)
        return client or self._unknown(scope, error="invalid_token")

    def _unknown(self, scope: Scope, *, error: str) -> Response:
        challenge = [f'realm="mindhold", scope="{READ} {WRITE}"']
        if error:
            challenge.append(f'error="{error}", error_description="The key or token does not hold."')
        if self._door.place.offers_oauth(scope):
            resource = "/sse" if scope["path"] in ("/sse", "/message") else "/mcp"
            base = self._door.place.base_of(scope)
            challenge.append(f'resource_metadata="{base}{WELL_KNOWN}oauth-protected-resource{resource}"')
        return error_response(
            401,
            "This key does not hold." if error else "This needs a valid key.",
            "UNAUTHORIZED",
            advice=self._advice(scope, wrong=bool(error)),
            headers={"WWW-Authenticate": f"Bearer {', '.join(challenge)}"},
        )

    def _advice(self, scope: Scope, *, wrong: bool) -> str:
        if not self._door.settings.access_key:
            if is_proxied_request(scope):
                return FOR_PROXIES
            if wrong and is_local_request(scope):
                return "Leave it out: from this machine none is needed."
        if wrong:
            return "It is mistyped, revoked or has expired: send one that holds; `mindhold keys create` makes one."
        return "Send it as `Authorization: Bearer <key>`."

    async def _stream(self, scope: Scope, receive: Receive, send: Send, *, secret: str) -> None:
        """Serve an SSE stream. Its messages come without a key, so the session id identifies the client while it is open."""
        session = ""

        async def listening(message: Message) -> None:
            nonlocal session
            if not session and (match := _SESSION.search(message.get("body", b""))):
                session = match[1].decode("ascii").replace("-", "").lower()
                self._streams[session] = secret
                while len(self._streams) > self._door.settings.serve.most_sessions:
                    self._streams.popitem(last=False)
            await send(message)

        try:
            await self._app(scope, receive, listening)
        finally:
            self._streams.pop(session, None)


def _looks_ours(secret: str) -> bool:
    return secret.startswith((API_KEY, ACCESS_TOKEN)) and len(secret) == LENGTH_OF_OURS


def bearer(scope: Scope) -> str | None:
    """The token of the Authorization header; empty for another scheme, None without the header."""
    value = Headers(scope=scope).get("authorization")
    if value is None:
        return None
    scheme, _, secret = value.strip().partition(" ")
    token = secret.strip().encode("latin-1").decode("utf-8", "surrogateescape")
    return token if scheme.lower() == "bearer" else ""


def _hashed(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def is_public(path: str) -> bool:
    """Whether the path needs no authentication."""
    return path in PUBLIC or path.startswith(PUBLIC_FOLDERS)


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
MAY = {  # scopes that the owner can grant or deny one by one
    WRITE: "change what is remembered",
    ADMIN: "manage all of it: back up, export, restore, run the upkeep, and read your past Claude Code conversations",
}
USUAL = (WRITE,)
_KEY = """<p><label>Your access key<br><input type="password" name="key" autocomplete="off" required></label></p>"""


class ConsentPage:
    """The route of the page that asks the owner for consent."""

    def __init__(self, door: HttpContext, keys: CredentialLookup) -> None:
        self._door = door
        self._keys = keys

    def routes(self) -> list[Route]:
        return [Route(CONSENT_PATH, endpoint=self._answer, methods=["GET", "POST"])]

    async def _answer(self, request: Request) -> Response:
        if not self._door.place.offers_oauth(request.scope):
            raise HTTPException(404)
        if not self._door.settings.access_key and not is_local_request(request.scope):
            return error_response(403, "Only this machine may be asked.", "REFUSED")
        if request.method != "POST":
            return await self._ask(request, request.query_params.get("ticket", ""))
        fields = await request.form()
        form = {name: value for name, value in fields.items() if isinstance(value, str)}
        further = [scope for scope in fields.getlist("scope") if isinstance(scope, str)]
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
        """What is wrong with the typed key; empty if it is right or none is needed."""
        # The right key is not limited, however many wrong ones this address sent.
        if not self._door.settings.access_key or self._keys.is_owner(key):
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
        from mindhold.access.oauth import FIND_CONSENT

        consent = await self._door.ask(FIND_CONSENT, ticket=ticket)
        if not consent.found:
            return _no_longer()
        nonce, token = secrets.token_urlsafe(16), secrets.token_urlsafe(32)
        page = _PAGE.substitute(
            nonce=nonce,
            name=escape(_name(consent.client)),
            place=escape(_place(consent.params["redirect_uri"])),
            further=_further(consent.params["scopes"] or (), ticked),
            wrong=f'<p class="wrong" role="alert">{escape(wrong)}</p>' if wrong else "",
            action=CONSENT_PATH,
            ticket=escape(ticket),
            token=token,
            key=_KEY if self._door.settings.access_key else "",
        )
        answer = HTMLResponse(
            page, status_code=status, headers=_headers(nonce, consent.params["redirect_uri"])
        )
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
        from mindhold.access.oauth import GRANT_CODE

        try:
            grant = await self._door.ask(GRANT_CODE, ticket=ticket, allow=allow, scopes=list(scopes))
        except Refused:
            return _no_longer()
        parameters: dict[str, str | None] = {"code": grant.code} if grant.code else {"error": "access_denied"}
        parameters |= {"state": grant.state, ISSUER_PARAMETER: self._door.place.base_of(request.scope)}
        answer = RedirectResponse(construct_redirect_uri(grant.redirect_uri, **parameters), status_code=303)
        answer.delete_cookie(COOKIE, path=CONSENT_PATH)
        return answer


def _further(asked: Sequence[str], ticked: Sequence[str]) -> str:
    """A checkbox for each requested scope beyond reading."""
    return "\n".join(
        _FURTHER.substitute(scope=scope, may=may, checked=" checked" if scope in ticked else "")
        for scope, may in MAY.items()
        if scope in asked
    )


def _no_longer() -> Response:
    return error_response(
        400, "This question is no longer open.", "NO_LONGER_OPEN", advice="Start again from the client."
    )


def _name(client: dict[str, Any]) -> str:
    name = "".join(char for char in str(client.get("client_name") or "") if char.isprintable()).strip()
    return name[:LONGEST_NAME] or "An unnamed client"


def _place(redirect_uri: str) -> str:
    parts = urlsplit(redirect_uri)
    return parts.netloc if parts.scheme in ("http", "https") else f"the app of {parts.scheme}:"


def _headers(nonce: str, redirect_uri: str) -> dict[str, str]:
    """Security headers of the page. Browsers apply `form-action` to redirects too, so it includes the redirect's target."""
    parts = urlsplit(redirect_uri)
    end = f"{parts.scheme}://{parts.netloc}" if parts.scheme in ("http", "https") else f"{parts.scheme}:"
    return {
        "Content-Security-Policy": (
            f"default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self' {end};"
            " frame-ancestors 'none'; base-uri 'none'"
        ),
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "same-origin",  # "no-referrer" would make the form's origin null
        "Cache-Control": "no-store",
    }


REGISTRATIONS_PER_MINUTE = 20  # per address
QUESTIONS_PER_MINUTE = 20  # consent pages, per address
NOT_KEPT = {"Cache-Control": "no-store", "Pragma": "no-cache"}
KEPT = frozenset(
    "client_id client_id_issued_at client_name client_uri redirect_uris grant_types response_types scope application_type "
    "software_id software_version".split()
)
SCOPES = (READ, WRITE)  # offered to clients, and the default of a request


class RegisteredClient(OAuthClientInformationFull):
    """A registered client, with checks that are less strict than the SDK's."""

    def validate_scope(self, requested_scope: str | None) -> list[str] | None:
        """The known scopes among the requested ones, always with reading: clients also request scopes that we don't have."""
        requested = (requested_scope or " ".join(SCOPES)).split()
        if ADMIN in requested:  # admin is useless without writing
            return [*SCOPES, ADMIN]
        return [READ, WRITE] if WRITE in requested else [READ]

    def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
        """The redirect URI if it is registered; on this machine any port is accepted."""
        registered = self.redirect_uris or []
        if redirect_uri is None and len(registered) == 1:
            return registered[0]
        if redirect_uri is not None and is_registered_redirect(
            str(redirect_uri), [str(uri) for uri in registered]
        ):
            return redirect_uri
        raise InvalidRedirectUriError("The redirect_uri is not one that the client registered.")


class AuthorizationProvider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Connects the SDK's OAuth handlers to our operations. One per request, since the server's address may differ."""

    def __init__(self, door: HttpContext, request: Request) -> None:
        self._door = door
        self._request = request

    async def get_client(self, client_id: str) -> RegisteredClient | None:
        from mindhold.access.oauth import FIND_CLIENT

        result = await self._door.ask(FIND_CLIENT, id=client_id)
        return RegisteredClient.model_validate(result.client) if result.found else None

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Register a client without a secret, whatever authentication method it asked for."""
        from mindhold.access.oauth import SAVE_CLIENT

        client_info.token_endpoint_auth_method = "none"
        client_info.client_secret = client_info.client_secret_expires_at = None
        client_info.scope = " ".join(SCOPES)
        metadata = client_info.model_dump(mode="json", exclude_none=True, include=set(KEPT))
        try:
            await self._door.ask(SAVE_CLIENT, client=metadata)
        except (ContentTooLarge, Refused) as error:
            raise RegistrationError("invalid_client_metadata", str(error)) from error
        except InvalidInput as error:
            raise RegistrationError("invalid_redirect_uri", str(error)) from error

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """Open a consent request and return the address of its page."""
        from mindhold.access.oauth import OPEN_CONSENT

        place, scope = self._door.place, self._request.scope
        resource = params.resource or f"{place.base_of(scope)}/mcp"
        if not place.is_ours(resource, server=scope["server"]):
            raise AuthorizeError("invalid_target", "This server gives no tokens for that resource.")
        request = params.model_dump(mode="json") | {"resource": resource}
        try:
            opened = await self._door.ask(OPEN_CONSENT, client_id=client.client_id, params=request)
        except (InvalidInput, NotFound, Refused) as error:
            raise AuthorizeError("invalid_request", str(error)) from error
        return f"{CONSENT_PATH}?ticket={opened.ticket}"

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        from mindhold.access.oauth import FIND_CODE

        grant = await self._door.ask(FIND_CODE, code=authorization_code, client_id=client.client_id)
        if not grant.found:
            return None
        return AuthorizationCode.model_validate({**grant.model_dump(), "code": authorization_code})

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        from mindhold.access.oauth import REDEEM_CODE

        return await self._tokens(REDEEM_CODE, code=authorization_code.code, client_id=client.client_id)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        from mindhold.access.oauth import FIND_REFRESH

        grant = await self._door.ask(FIND_REFRESH, token=refresh_token, client_id=client.client_id)
        return RefreshToken(token=refresh_token, **_known(grant)) if grant.found else None

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        from mindhold.access.oauth import REFRESH_GRANT

        return await self._tokens(
            REFRESH_GRANT, token=refresh_token.token, client_id=client.client_id, scopes=scopes
        )

    async def load_access_token(self, token: str) -> AccessToken | None:
        from mindhold.access.oauth import CHECK_TOKEN

        grant = await self._door.ask(CHECK_TOKEN, token=token)
        return AccessToken(token=token, **_known(grant)) if grant.found else None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        from mindhold.access.oauth import REVOKE_GRANT

        await self._door.ask(REVOKE_GRANT, token=token.token)

    async def _tokens(self, operation: Operation[I, TokenPair], **given: Any) -> OAuthToken:
        try:
            pair = await self._door.ask(operation, **given)
        except Refused as error:
            raise TokenError("invalid_grant", str(error)) from error
        except InvalidInput as error:
            raise TokenError("invalid_scope", str(error)) from error
        return OAuthToken(
            access_token=pair.access_token,
            refresh_token=pair.refresh_token,
            expires_in=pair.expires_in,
            scope=pair.scope,
        )


class OAuth:
    """The OAuth routes."""

    def __init__(self, door: HttpContext) -> None:
        self._door = door
        self._registrations = TokenBuckets(REGISTRATIONS_PER_MINUTE)
        self._questions = TokenBuckets(QUESTIONS_PER_MINUTE)

    def routes(self) -> list[Route]:
        resource = f"{WELL_KNOWN}oauth-protected-resource"
        return [
            Route(f"{WELL_KNOWN}oauth-authorization-server", self._server, methods=["GET"]),
            *(Route(f"{resource}{path}", self._resource, methods=["GET"]) for path in ("", "/mcp", "/sse")),
            Route("/authorize", self._authorize, methods=["GET", "POST"]),
            Route("/token", self._token, methods=["POST"]),
            Route("/register", self._register, methods=["POST"]),
            Route("/revoke", self._revoke, methods=["POST"]),
        ]

    async def _server(self, request: Request) -> Response:
        base = self._base(request)
        metadata = OAuthMetadata.model_validate(
            {
                "issuer": base,
                "authorization_endpoint": f"{base}/authorize",
                "token_endpoint": f"{base}/token",
                "registration_endpoint": f"{base}/register",
                "revocation_endpoint": f"{base}/revoke",
                "scopes_supported": list(SCOPES),
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "token_endpoint_auth_methods_supported": ["none"],
                "revocation_endpoint_auth_methods_supported": ["none"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
            }
        )
        return PydanticJSONResponse(metadata)

    async def _resource(self, request: Request) -> Response:
        base = self._base(request)
        path = request.url.path.partition("oauth-protected-resource")[2]
        metadata = ProtectedResourceMetadata.model_validate(
            {
                "resource": f"{base}{path}",
                "authorization_servers": [base],
                "scopes_supported": list(SCOPES),
                "resource_name": "Mindhold",
            }
        )
        return PydanticJSONResponse(metadata)

    async def _authorize(self, request: Request) -> Response:
        base = self._base(request)
        bucket = self._questions.take(address_of(request.scope))
        if not bucket.allowed:
            return too_many(bucket, "Too many questions to the owner from this address.")
        answer = await AuthorizationHandler(AuthorizationProvider(self._door, request)).handle(request)
        away = answer.headers.get("location", CONSENT_PATH)
        if not away.startswith(CONSENT_PATH):  # back to the client, with an error
            answer.headers["location"] = construct_redirect_uri(away, **{ISSUER_PARAMETER: base})
        return answer

    async def _token(self, request: Request) -> Response:
        self._base(request)
        provider = AuthorizationProvider(self._door, request)
        return cast(Response, await TokenHandler(provider, ClientAuthenticator(provider)).handle(request))

    async def _register(self, request: Request) -> Response:
        self._base(request)
        bucket = self._registrations.take(address_of(request.scope))
        if not bucket.allowed:
            return too_many(bucket, "Too many clients register from this address.")
        options = ClientRegistrationOptions(enabled=True)
        return await RegistrationHandler(AuthorizationProvider(self._door, request), options).handle(request)

    async def _revoke(self, request: Request) -> Response:
        """Revoke a token (RFC 7009) of a public client; the SDK's handler demands a secret. An unknown token is no error."""
        self._base(request)
        provider = AuthorizationProvider(self._door, request)
        try:
            client = await ClientAuthenticator(provider).authenticate_request(request)
        except AuthenticationError as error:
            problem = {"error": "invalid_client", "error_description": error.message}
            return JSONResponse(problem, status_code=401, headers=NOT_KEPT)
        secret = (await request.form()).get("token")
        if not isinstance(secret, str) or not secret:
            problem = {"error": "invalid_request", "error_description": "There is no token."}
            return JSONResponse(problem, status_code=400, headers=NOT_KEPT)
        token = await provider.load_access_token(secret) or await provider.load_refresh_token(client, secret)
        if token is not None and token.client_id == client.client_id:
            await provider.revoke_token(token)
        return Response(headers=NOT_KEPT)

    def _base(self, request: Request) -> str:
        """The issuer. Raises HTTPException if OAuth isn't offered."""
        if not self._door.place.offers_oauth(request.scope):
            raise HTTPException(404)
        return self._door.place.base_of(request.scope)


def _known(found: Any) -> dict[str, Any]:
    return {name: getattr(found, name) for name in ("client_id", "scopes", "expires_at", "resource")}
