"""Authentication by the owner's key, an API key or an OAuth token. Requests from this machine need none."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import OrderedDict
from dataclasses import dataclass, replace
from urllib.parse import parse_qs

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.authentication import AuthCredentials
from starlette.datastructures import Headers
from starlette.responses import Response
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
from mindhold.interfaces.runtime import CALLER_KEY, local_caller
from mindhold.model.errors import MindholdError
from mindhold.model.scope import DEFAULT_AGENT, PRIVILEGED_AGENTS, Caller

READ, WRITE, ADMIN = "memory:read", "memory:write", "memory:admin"  # the scopes that OAuth grants
API_KEY, ACCESS_TOKEN = "rk_", "ra_"
GUESSES_PER_MINUTE = 30  # of the owner's key on the consent page, per address
REFUSALS_PER_MINUTE = 300  # per address; beyond that, secrets that weren't valid lately aren't looked up
LENGTH_OF_OURS = 46  # a prefix of three characters, and 32 bytes in base64
LOOKUPS_PER_MINUTE = 600  # of well-formed keys and tokens, per address that sends many invalid ones
MOST_KNOWN = 1_000
PUBLIC = frozenset(
    {
        "/",
        "/docs",
        "/profile",
        "/openapi.json",
        "/health",
        "/authorize",
        "/token",
        "/register",
        "/revoke",
        "/consent",
    }
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
        from mindhold.access.grants import CHECK_TOKEN

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
        if (
            secret is None
        ):  # clients without a secret learn here that they need one; counted apart from those with one
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
    return secret.startswith(("rk_", "ra_")) and len(secret) == LENGTH_OF_OURS


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
