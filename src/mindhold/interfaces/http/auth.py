"""Authentication by the owner's key, an API key or an OAuth token; none is needed on this machine."""

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

READ, WRITE, ADMIN = "memory:read", "memory:write", "memory:admin"  # what a client may be granted by OAuth
API_KEY, ACCESS_TOKEN = "rk_", "ra_"
GUESSES_PER_MINUTE = 30  # at the owner's key on the consent page, from one address
REFUSALS_PER_MINUTE = 300  # of one address; then what isn't known to hold isn't even looked up
LENGTH_OF_OURS = 46  # three signs and 32 bytes in base64
LOOKUPS_PER_MINUTE = 600  # of keys and tokens that may hold, from an address that sends many that don't
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
    """Someone who was let in. `name` stands for the credential and tells nothing of it; empty where none was needed."""

    caller: Caller
    name: str = ""
    scopes: tuple[str, ...] = ()


class CredentialLookup:
    """Tells whose a secret is."""

    def __init__(self, door: HttpContext) -> None:
        self._door = door
        self.guesses = TokenBuckets(GUESSES_PER_MINUTE)
        self._known: OrderedDict[bytes, None] = OrderedDict()  # hashes of secrets that held lately

    def has_held(self, secret: str) -> bool:
        """Whether it held lately: such a one is looked up however many wrong ones come from its address."""
        return self.is_owner(secret) or _hashed(secret) in self._known

    def is_owner(self, secret: str) -> bool:
        """Whether it is the owner's key, in a time that doesn't tell how much of it is right."""
        key = self._door.settings.access_key
        return hmac.compare_digest(secret.encode("utf-8", "surrogateescape"), key.encode()) and bool(key)

    async def whose(self, secret: str, *, scope: Scope) -> AuthenticatedClient | None:
        """None for a secret that opens nothing. Raises MindholdError when it can't be looked up."""
        if self.is_owner(secret):
            return AuthenticatedClient(local_caller(self._door.loaded), "owner")
        if not secret.isascii():  # ours all are
            return None
        found = None
        if secret.startswith(API_KEY):
            found = await self._by_key(secret)
        elif secret.startswith(ACCESS_TOKEN):
            found = await self._by_token(secret, scope)
        self._known.pop(_hashed(secret), None)
        if found is not None:
            self._known[_hashed(secret)] = None
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return found

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
    """Lets in whoever may come, and leaves in the request's scope who it is."""

    def __init__(self, app: ASGIApp, door: HttpContext, keys: CredentialLookup) -> None:
        self._app = app
        self._door = door
        self._keys = keys
        self._refusals = TokenBuckets(REFUSALS_PER_MINUTE)
        self._keyless = TokenBuckets(REFUSALS_PER_MINUTE)
        self._lookups = TokenBuckets(LOOKUPS_PER_MINUTE)
        self._streams: OrderedDict[str, str] = OrderedDict()  # of the older transport: session, secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_public(scope["path"]):
            return await self._app(scope, receive, send)
        secret = self._presented(scope)
        try:
            await self._door.opening.running()
            found = await self._visitor(secret, scope)
        except MindholdError as error:
            return await response_to_error(error)(scope, receive, send)
        if isinstance(found, Response):
            return await found(scope, receive, send)
        scope[CALLER_KEY] = found.caller
        if found.name:
            scope[CREDENTIAL_KEY] = found.name
            scope["auth"] = AuthCredentials(list(found.scopes))
            scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=found.name, scopes=[]))
        if scope["path"] == "/sse" and secret:
            return await self._stream(scope, receive, send, secret=secret)
        return await self._app(scope, receive, send)

    def _presented(self, scope: Scope) -> str | None:
        """The secret that came with the request. In the query only where the older transport has it."""
        given = bearer(scope)
        if given is not None:
            return given
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
        if secret is None:  # how a client finds out that it needs one; counted apart from those that have one
            left = self._keyless.take(address)
            few = self._unknown(scope, error="")
            return few if left.allowed else too_many(left, "Too many requests without a key.")
        left = self._refusals.look(address)
        # What looks like ours is looked up however many others were refused: who shares an address isn't locked out.
        known = self._keys.has_held(secret) or (_looks_ours(secret) and self._lookups.take(address).allowed)
        if not left.allowed and not known:
            return too_many(left, "Too many requests without a valid key.")
        found = await self._keys.whose(secret, scope=scope)
        if found is None:
            self._refusals.take(address)
        return found or self._unknown(scope, error="invalid_token")

    def _unknown(self, scope: Scope, *, error: str) -> Response:
        told = [f'realm="mindhold", scope="{READ} {WRITE}"']
        if error:
            told.append(f'error="{error}", error_description="The key or token does not hold."')
        if self._door.place.offers_oauth(scope):
            resource = "/sse" if scope["path"] in ("/sse", "/message") else "/mcp"
            base = self._door.place.base_of(scope)
            told.append(f'resource_metadata="{base}{WELL_KNOWN}oauth-protected-resource{resource}"')
        return error_response(
            401,
            "This key does not hold." if error else "This needs a valid key.",
            "UNAUTHORIZED",
            advice=self._advice(scope, wrong=bool(error)),
            headers={"WWW-Authenticate": f"Bearer {', '.join(told)}"},
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
        """Messages of a stream come without the key that opened it: its session's id stands in, while it is open."""
        session = ""

        async def listening(message: Message) -> None:
            nonlocal session
            if not session and (found := _SESSION.search(message.get("body", b""))):
                session = found[1].decode("ascii").replace("-", "").lower()
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
    """What the Authorization header holds; nothing is in one of another scheme."""
    given = Headers(scope=scope).get("authorization")
    if given is None:
        return None
    scheme, _, secret = given.strip().partition(" ")
    meant = secret.strip().encode("latin-1").decode("utf-8", "surrogateescape")
    return meant if scheme.lower() == "bearer" else ""


def _hashed(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def is_public(path: str) -> bool:
    """Whether a path is for those who aren't let in yet."""
    return path in PUBLIC or path.startswith(PUBLIC_FOLDERS)
