"""OAuth 2.0 in the store: registered clients, consent, authorization codes, tokens and their families."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field

from mindhold.access.keys import NoInput, Secret, SecretInput
from mindhold.access.secrets import fingerprint, new_secret
from mindhold.engine import Engine
from mindhold.model.errors import Conflict, ContentTooLarge, InvalidInput, NotFound, Refused
from mindhold.model.host import is_registered_redirect, is_safe_redirect
from mindhold.model.job import Entry
from mindhold.operations import Context, Input, Output, operation

CLIENT_NAMESPACE = "oauth_client"
FAMILIES = "oauth_family"  # valid grants
MOST_CLIENTS = 1000
MOST_GRANTS = 10_000
UNAUTHORIZED_LIFE = timedelta(days=30)  # of a client that the owner never authorized
FAMILY_LIFE = timedelta(days=365)  # then the owner has to consent again
LONGEST_ID = 200
LONGEST_CLIENT = 16_000
LONGEST_PARAMS = 6_000
LONGEST_STATE = 2_000
MOST_REDIRECTS = 20
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")  # a SHA-256 in base64url, as S256 demands
_SECRETS = frozenset({"client_secret", "client_secret_expires_at"})


async def find_client(engine: Engine, client_id: str) -> dict[str, Any] | None:
    """The client's registration; None if there is none."""
    entry = await engine.store.entry(CLIENT_NAMESPACE, client_id, now=engine.clock())
    return None if entry is None else dict(entry.value)


async def extend_client(engine: Engine, client_id: str) -> str:
    """Keep an authorized client longer than its grant and return its name. Raises NotFound."""
    now = engine.clock()
    entry = await engine.store.entry(CLIENT_NAMESPACE, client_id, now=now)
    if entry is None:
        raise NotFound("The client is no longer there.", advice="Let it register again.")
    await engine.store.put_entry(replace(entry, expires=now + FAMILY_LIFE + UNAUTHORIZED_LIFE))
    return str(entry.value.get("client_name") or client_id)


def checked_params(client: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """The authorization request in its stored form. Raises InvalidInput, or Refused for an unregistered redirect URI."""
    _check_size(params, LONGEST_PARAMS)
    challenge, redirect = params.get("code_challenge"), params.get("redirect_uri")
    if not isinstance(challenge, str) or not _CHALLENGE.fullmatch(challenge):
        raise InvalidInput("The code challenge is no SHA-256.", advice="Use PKCE with S256.")
    if not isinstance(redirect, str) or not is_registered_redirect(redirect, client.get("redirect_uris", ())):
        raise Refused("The client never registered that place to return to.", advice="Register it.")
    scopes, state, resource = params.get("scopes"), params.get("state"), params.get("resource")
    if not (scopes is None or (isinstance(scopes, list) and all(isinstance(word, str) for word in scopes))):
        raise InvalidInput("Scopes are a list of words.", advice="Correct them.")
    if not all(word is None or isinstance(word, str) for word in (state, resource)):
        raise InvalidInput("State and resource are words.", advice="Correct them.")
    if state is not None and len(state) > LONGEST_STATE:
        raise ContentTooLarge("The state is too long.", advice=f"Keep it to {LONGEST_STATE:,} characters.")
    return {
        "state": state,
        "scopes": scopes,
        "code_challenge": challenge,
        "redirect_uri": redirect,
        "redirect_uri_provided_explicitly": bool(params.get("redirect_uri_provided_explicitly", True)),
        "resource": resource,
    }


def _check_redirects(uris: object) -> None:
    """Check redirect URIs: no scripts, and no unencrypted remote addresses."""
    if not isinstance(uris, list) or not 0 < len(uris) <= MOST_REDIRECTS:
        raise InvalidInput(
            "A client needs a place to return to.", advice=f"Give 1 to {MOST_REDIRECTS} redirect_uris."
        )
    for uri in uris:
        if not isinstance(uri, str) or not is_safe_redirect(uri):
            raise InvalidInput(
                f"{str(uri)[:100]!r} is no place to send a code to.",
                advice="Use https, http on this machine only, or an app's own scheme; no fragment.",
            )


def _check_size(value: Mapping[str, Any], most: int) -> None:
    try:
        size = len(json.dumps(dict(value), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput("What a client says must be JSON.", advice="Use plain values.") from error
    if size > most:
        raise ContentTooLarge("A client says too much.", advice=f"Keep it to {most:,} characters.")


async def _make_room_for_client(engine: Engine) -> None:
    """Drop the oldest client without a grant if there are too many."""
    now = engine.clock()
    clients = await engine.store.entries(CLIENT_NAMESPACE, now=now, limit=MOST_CLIENTS)
    if len(clients) < MOST_CLIENTS:
        return
    grants = await engine.store.entries(FAMILIES, now=now, limit=MOST_GRANTS)
    authorized = {grant.value["client_id"] for grant in grants}
    unauthorized = [entry for entry in clients if entry.key not in authorized]
    if not unauthorized:
        raise Refused("Too many clients are registered.", advice="Revoke grants that nobody uses.")
    await engine.store.drop_entry(CLIENT_NAMESPACE, unauthorized[-1].key)


class SaveClientInput(SecretInput):
    """A registration as the SDK makes it. Clients are public: a secret is dropped, and PKCE is used instead."""

    client: dict[str, Any] = Field(repr=False)


class SavedClient(Output):
    """The registration as stored, for the client."""

    client: dict[str, Any]


class FindClientInput(Input):
    """Which client, by its id."""

    id: str


class FoundClient(Output):
    """A registered client."""

    found: bool
    client: dict[str, Any] = {}


async def _save_client(context: Context, request: SaveClientInput) -> SavedClient:
    """Register an OAuth client.

    Raises InvalidInput, Conflict if the id exists, Refused if there are too many.
    """
    engine, client_id = context.engine, request.client.get("client_id")
    if not isinstance(client_id, str) or not 0 < len(client_id) <= LONGEST_ID:
        raise InvalidInput("A client needs an id.", advice="Give it a client_id.")
    registration = {
        name: value for name, value in request.client.items() if name not in _SECRETS and value is not None
    }
    registration["token_endpoint_auth_method"] = "none"
    _check_size(registration, LONGEST_CLIENT)
    _check_redirects(registration.get("redirect_uris"))
    now = engine.clock()
    if await engine.store.entry(CLIENT_NAMESPACE, client_id, now=now) is not None:
        raise Conflict("There is a client of that id already.", advice="Register it under a new one.")
    await engine.store.drop_expired(now)
    await _make_room_for_client(engine)
    await engine.store.put_entry(
        Entry(CLIENT_NAMESPACE, client_id, registration, created=now, expires=now + UNAUTHORIZED_LIFE)
    )
    return SavedClient(client=registration)


SAVE_CLIENT = operation("save_client", _save_client, writes=True, owner_only=True)


async def _find_client(context: Context, request: FindClientInput) -> FoundClient:
    """Find a registered client."""
    client = await find_client(context.engine, request.id)
    return FoundClient(found=client is not None, client=client or {})


FIND_CLIENT = operation("find_client", _find_client, reads=True, owner_only=True)

CONSENTS = "oauth_consent"
CODES = "oauth_code"
ACCESS = "oauth_access"
REFRESH = "oauth_refresh"
TRACES = "oauth_trace"

CONSENT_LIFE = timedelta(minutes=10)
CODE_LIFE = timedelta(seconds=60)
ACCESS_LIFE = timedelta(hours=1)
REFRESH_LIFE = timedelta(days=30)

TICKET, CODE, ACCESS_TOKEN, REFRESH_TOKEN = "rt_", "rc_", "ra_", "rr_"
MOST_LISTED = 1000
MOST_CONSENTS = 500  # open at once
MOST_OF_CLIENT = 20


class OpenConsentInput(Input):
    """A client's request: state, scopes, code_challenge, redirect_uri, redirect_uri_provided_explicitly, resource."""

    client_id: str
    params: dict[str, Any] = Field(repr=False)


class OpenedConsent(Output):
    """The ticket of the consent request, valid for ten minutes."""

    ticket: Secret


class FindConsentInput(SecretInput):
    """Which request, by its ticket."""

    ticket: Secret


class FoundConsent(Output):
    """The client and its request."""

    found: bool
    client: dict[str, Any] = {}
    params: dict[str, Any] = Field(default={}, repr=False)


class GrantCodeInput(SecretInput):
    """The owner's answer; the ticket is used up either way. `scopes` may be fewer than requested."""

    ticket: Secret
    allow: bool = True
    scopes: list[str] | None = None


class GrantedCode(Output):
    """The redirect of the browser; no code if the owner refused."""

    code: str | None = Field(repr=False)
    redirect_uri: str
    state: str | None


class CodeInput(SecretInput):
    """A code; with `client_id` it must be that client's."""

    code: Secret
    client_id: str | None = None


class FoundCode(Output):
    """The data of the code, until it is redeemed or a minute has passed."""

    found: bool
    client_id: str = ""
    scopes: list[str] = []
    code_challenge: str = ""
    redirect_uri: str = ""
    redirect_uri_provided_explicitly: bool = True
    resource: str | None = None
    expires_at: float = 0.0


class TokenPair(Output):
    """Both tokens are shown once. `scope` is space-separated; `expires_in` is the access token's lifetime in seconds."""

    access_token: Secret
    refresh_token: Secret
    expires_in: int
    scope: str
    resource: str | None


class RefreshInput(SecretInput):
    """A refresh token; with `client_id` it must be that client's."""

    token: Secret
    client_id: str | None = None


class RefreshGrantInput(RefreshInput):
    """The new access token may have fewer scopes, never more."""

    scopes: list[str] | None = None


class TokenInput(SecretInput):
    """The token that a caller presented."""

    token: Secret


class FoundToken(Output):
    """The data of the token. `family` is the grant that it was issued under."""

    found: bool
    client_id: str = ""
    scopes: list[str] = []
    expires_at: int = 0
    resource: str | None = None
    family: str = ""


class RevokeGrantInput(SecretInput):
    """Any token of the grant, or the grant's id."""

    token: Secret


class RevokedGrant(Output):
    """Whether there was one."""

    revoked: bool


class GrantView(Output):
    """A client that the owner authorized."""

    id: str
    client_id: str
    client_name: str
    scopes: list[str]
    resource: str | None
    created: datetime
    expires: datetime | None


class ListGrantsResult(Output):
    """The valid grants, newest first."""

    grants: list[GrantView]


async def _open_consent(context: Context, request: OpenConsentInput) -> OpenedConsent:
    """Ask the owner to authorize a client.

    Raises NotFound for the client, InvalidInput, Refused.
    """
    engine, client_id = context.engine, request.client_id
    client = await find_client(engine, client_id)
    if client is None:
        raise NotFound("There is no such client.", advice="Let it register first.")
    now = engine.clock()
    value = {"client_id": client_id, "params": checked_params(client, request.params)}
    await engine.store.drop_expired(now)  # anyone may send requests, so each request cleans up
    await _make_room_for_consent(engine, client_id, now=now)
    ticket = new_secret(TICKET)
    await _put(engine, CONSENTS, ticket, value, life=CONSENT_LIFE)
    return OpenedConsent(ticket=ticket)


OPEN_CONSENT = operation("open_consent", _open_consent, writes=True, owner_only=True)


async def _find_consent(context: Context, request: FindConsentInput) -> FoundConsent:
    """Show which client asks the owner, and for what."""
    entry = await _entry(context.engine, CONSENTS, request.ticket)
    client = None if entry is None else await find_client(context.engine, entry.value["client_id"])
    if entry is None or client is None:
        return FoundConsent(found=False)
    return FoundConsent(found=True, client=client, params=entry.value["params"])


FIND_CONSENT = operation("find_consent", _find_consent, reads=True, owner_only=True)


async def _grant_code(context: Context, request: GrantCodeInput) -> GrantedCode:
    """Answer a client's request for authorization.

    Raises Refused for a ticket that is used or expired.
    """
    engine, now = context.engine, context.engine.clock()
    entry = await engine.store.take_entry(CONSENTS, fingerprint(request.ticket), now=now)
    if entry is None:
        raise Refused("This question is no longer open.", advice="Let the client ask again.")
    client_id, params = entry.value["client_id"], entry.value["params"]
    code = None
    if request.allow:
        name = await extend_client(engine, client_id)
        family, code = engine.new_id(), new_secret(CODE)
        requested = params["scopes"] or []
        granted = [scope for scope in requested if request.scopes is None or scope in request.scopes]
        grant = {"client_id": client_id, "scopes": granted, "resource": params["resource"]}
        family_value = {**grant, "client_name": name}
        await engine.store.put_entry(
            Entry(FAMILIES, family, family_value, created=now, expires=now + FAMILY_LIFE)
        )
        await _put(engine, TRACES, code, {"family": family}, life=FAMILY_LIFE)
        await _put(engine, CODES, code, {**grant, "family": family, "params": params}, life=CODE_LIFE)
    return GrantedCode(code=code, redirect_uri=params["redirect_uri"], state=params["state"])


GRANT_CODE = operation("grant_code", _grant_code, writes=True, owner_only=True)


async def _find_code(context: Context, request: CodeInput) -> FoundCode:
    """Show the data of a code; one that was already redeemed ends its grant."""
    entry = await _find_unused(context.engine, CODES, request.code, client_id=request.client_id)
    if entry is None or entry.expires is None:
        return FoundCode(found=False)
    params = entry.value["params"]
    return FoundCode(
        found=True,
        client_id=entry.value["client_id"],
        scopes=entry.value["scopes"],
        code_challenge=params["code_challenge"],
        redirect_uri=params["redirect_uri"],
        redirect_uri_provided_explicitly=params["redirect_uri_provided_explicitly"],
        resource=entry.value["resource"],
        expires_at=entry.expires.timestamp(),
    )


FIND_CODE = operation("find_code", _find_code, writes=True, owner_only=True)


async def _redeem_code(context: Context, request: CodeInput) -> TokenPair:
    """Exchange a code for tokens, once; a second use ends its grant."""
    entry = await _use_up(context.engine, CODES, request.code, client_id=request.client_id)
    return await _issue(context.engine, entry, scopes=entry.value["scopes"])


REDEEM_CODE = operation("redeem_code", _redeem_code, writes=True, owner_only=True)


async def _find_refresh(context: Context, request: RefreshInput) -> FoundToken:
    """Show the data of a refresh token; one that was already used ends its grant."""
    entry = await _find_unused(context.engine, REFRESH, request.token, client_id=request.client_id)
    return FoundToken(found=False) if entry is None else _to_token(entry)


FIND_REFRESH = operation("find_refresh", _find_refresh, writes=True, owner_only=True)


async def _refresh_grant(context: Context, request: RefreshGrantInput) -> TokenPair:
    """Exchange a refresh token for new tokens, once; a second use ends its grant.

    Raises Refused, or InvalidInput for scopes that were not granted.
    """
    engine, token, client_id = context.engine, request.token, request.client_id
    current = await _find_unused(engine, REFRESH, token, client_id=client_id)
    if current is not None and not set(request.scopes or ()) <= set(current.value["scopes"]):
        raise InvalidInput("More is asked for than was granted.", advice="Ask for fewer scopes.")
    entry = await _use_up(engine, REFRESH, token, client_id=client_id)
    return await _issue(
        engine, entry, scopes=entry.value["scopes"] if request.scopes is None else request.scopes
    )


REFRESH_GRANT = operation("refresh_grant", _refresh_grant, writes=True, owner_only=True)


async def _check_token(context: Context, request: TokenInput) -> FoundToken:
    """Show the data of an access token, if it is valid."""
    entry = await _entry(context.engine, ACCESS, request.token)
    if entry is None or not await _is_valid(context.engine, entry.value["family"]):
        return FoundToken(found=False)
    return _to_token(entry)


CHECK_TOKEN = operation("check_token", _check_token, reads=True, owner_only=True)


async def _list_grants(context: Context, _request: NoInput) -> ListGrantsResult:
    """List the authorized clients."""
    entries = await context.engine.store.entries(FAMILIES, now=context.engine.clock(), limit=MOST_LISTED)
    return ListGrantsResult(
        grants=[
            GrantView(id=entry.key, **entry.value, created=entry.created, expires=entry.expires)
            for entry in entries
        ]
    )


LIST_GRANTS = operation("list_grants", _list_grants, reads=True, owner_only=True)


async def _revoke_grant(context: Context, request: RevokeGrantInput) -> RevokedGrant:
    """End a grant with all its tokens, at once and everywhere."""
    family = request.token
    for namespace in (ACCESS, REFRESH, TRACES):
        entry = await _entry(context.engine, namespace, request.token)
        if entry is not None:
            family = entry.value["family"]
            break
    return RevokedGrant(revoked=await context.engine.store.drop_entry(FAMILIES, family))


REVOKE_GRANT = operation("revoke_grant", _revoke_grant, destroys=True, owner_only=True)


async def _make_room_for_consent(engine: Engine, client_id: str, *, now: datetime) -> None:
    """Drop the client's oldest requests if it has too many; else the oldest of all."""
    requests = await engine.store.entries(CONSENTS, now=now, limit=2 * MOST_CONSENTS)
    own = [entry for entry in requests if entry.value["client_id"] == client_id]
    for entry in own[MOST_OF_CLIENT - 1 :] or requests[MOST_CONSENTS - 1 :]:
        await engine.store.drop_entry(CONSENTS, entry.key)


async def _issue(engine: Engine, entry: Entry, *, scopes: Sequence[str]) -> TokenPair:
    """Issue tokens of the entry's grant. The refresh token keeps all granted scopes."""
    family = entry.value["family"]
    if not await _is_valid(engine, family):
        raise _invalid_token()
    access, refresh = new_secret(ACCESS_TOKEN), new_secret(REFRESH_TOKEN)
    shared = {name: entry.value[name] for name in ("client_id", "resource", "family")}
    await _put(engine, TRACES, refresh, {"family": family}, life=REFRESH_LIFE)
    await _put(engine, ACCESS, access, {**shared, "scopes": list(scopes)}, life=ACCESS_LIFE)
    await _put(engine, REFRESH, refresh, {**shared, "scopes": entry.value["scopes"]}, life=REFRESH_LIFE)
    return TokenPair(
        access_token=access,
        refresh_token=refresh,
        expires_in=int(ACCESS_LIFE.total_seconds()),
        scope=" ".join(scopes),
        resource=shared["resource"],
    )


async def _find_unused(engine: Engine, namespace: str, secret: str, *, client_id: str | None) -> Entry | None:
    """The entry of that client's single-use secret, if it is unused and its grant valid."""
    entry = await _entry(engine, namespace, secret)
    if entry is None:
        await _end_reused(engine, secret)
        return None
    valid = await _is_valid(engine, entry.value["family"]) and _is_for(entry, client_id)
    return entry if valid else None


async def _use_up(engine: Engine, namespace: str, secret: str, *, client_id: str | None) -> Entry:
    """Use up a single-use secret. Raises Refused; an attempt by another client uses nothing up."""
    existing = await _entry(engine, namespace, secret)
    if existing is not None and not _is_for(existing, client_id):
        raise _invalid_token()
    entry = await engine.store.take_entry(namespace, fingerprint(secret), now=engine.clock())
    if entry is None:
        await _end_reused(engine, secret)
        raise _invalid_token()
    return entry


async def _end_reused(engine: Engine, secret: str) -> None:
    trace = await _entry(engine, TRACES, secret)
    if trace is not None:
        await engine.store.drop_entry(FAMILIES, trace.value["family"])


async def _put(
    engine: Engine, namespace: str, secret: str, value: dict[str, Any], *, life: timedelta
) -> None:
    now = engine.clock()
    await engine.store.put_entry(
        Entry(namespace, fingerprint(secret), value, created=now, expires=now + life)
    )


async def _entry(engine: Engine, namespace: str, secret: str) -> Entry | None:
    return await engine.store.entry(namespace, fingerprint(secret), now=engine.clock())


async def _is_valid(engine: Engine, family: str) -> bool:
    return await engine.store.entry(FAMILIES, family, now=engine.clock()) is not None


def _is_for(entry: Entry, client_id: str | None) -> bool:
    return client_id is None or entry.value["client_id"] == client_id


def _to_token(entry: Entry) -> FoundToken:
    return FoundToken(
        found=True,
        client_id=entry.value["client_id"],
        scopes=entry.value["scopes"],
        expires_at=int(entry.expires.timestamp()) if entry.expires else 0,
        resource=entry.value["resource"],
        family=entry.value["family"],
    )


def _invalid_token() -> Refused:
    return Refused("This code or token doesn't hold.", advice="Let the client ask for consent again.")
