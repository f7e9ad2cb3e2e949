"""OAuth grants: the owner's consent, authorization codes, access tokens and refresh tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field

from mindhold.access.clients import FAMILIES, FAMILY_LIFE, checked_params, extend_client, find_client
from mindhold.access.keys import NoInput, Secret, SecretInput, matching_fields
from mindhold.access.secrets import fingerprint, new_secret
from mindhold.engine import Engine
from mindhold.model.errors import InvalidInput, NotFound, Refused
from mindhold.model.job import Entry
from mindhold.operations import Context, Input, Output, operation

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


@dataclass(frozen=True, slots=True)
class Consent:
    """A client's request for the owner's consent."""

    client: Mapping[str, Any]
    params: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ConsentAnswer:
    """The redirect after the owner's answer; `code` is None if the owner refused."""

    code: str | None = field(repr=False)
    redirect_uri: str
    state: str | None


@dataclass(frozen=True, slots=True)
class AuthorizationCode:
    """The data of an authorization code."""

    client_id: str
    scopes: tuple[str, ...]
    code_challenge: str
    redirect_uri: str
    redirect_uri_provided_explicitly: bool
    resource: str | None
    expires_at: float


@dataclass(frozen=True, slots=True)
class GrantToken:
    """The data of an access or refresh token."""

    client_id: str
    scopes: tuple[str, ...]
    expires_at: int
    resource: str | None
    family: str


@dataclass(frozen=True, slots=True)
class IssuedTokens:
    """New tokens, which are shown once."""

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    expires_in: int
    scope: str
    resource: str | None


@dataclass(frozen=True, slots=True)
class Grant:
    """A client that the owner authorized."""

    id: str
    client_id: str
    client_name: str
    scopes: tuple[str, ...]
    resource: str | None
    created: datetime
    expires: datetime | None


async def open_consent(engine: Engine, client_id: str, params: Mapping[str, Any]) -> str:
    """Open a consent request and return its ticket. Raises NotFound for the client, InvalidInput, Refused."""
    client = await find_client(engine, client_id)
    if client is None:
        raise NotFound("There is no such client.", advice="Let it register first.")
    now = engine.clock()
    value = {"client_id": client_id, "params": checked_params(client, params)}
    await engine.store.drop_expired(now)  # anyone may send requests, so each request cleans up
    await _make_room(engine, client_id, now=now)
    ticket = new_secret(TICKET)
    await engine.store.put_entry(
        Entry(CONSENTS, fingerprint(ticket), value, created=now, expires=now + CONSENT_LIFE)
    )
    return ticket


async def find_consent(engine: Engine, ticket: str) -> Consent | None:
    """The request, while it is open and its client exists."""
    entry = await _entry(engine, CONSENTS, ticket)
    client = None if entry is None else await find_client(engine, entry.value["client_id"])
    return None if entry is None or client is None else Consent(client, entry.value["params"])


async def grant_code(
    engine: Engine, ticket: str, *, allow: bool = True, scopes: Sequence[str] | None = None
) -> ConsentAnswer:
    """Answer a consent request with the owner's decision, who may grant fewer scopes. The ticket is used up.

    Raises Refused for a ticket that is used or expired.
    """
    now = engine.clock()
    entry = await engine.store.take_entry(CONSENTS, fingerprint(ticket), now=now)
    if entry is None:
        raise Refused("This question is no longer open.", advice="Let the client ask again.")
    client_id, params = entry.value["client_id"], entry.value["params"]
    if not allow:
        return ConsentAnswer(None, params["redirect_uri"], params["state"])
    name = await extend_client(engine, client_id)
    family, code = engine.new_id(), new_secret(CODE)
    granted = [scope for scope in params["scopes"] or [] if scopes is None or scope in scopes]
    grant = {"client_id": client_id, "scopes": granted, "resource": params["resource"]}
    family_value = {**grant, "client_name": name}
    await engine.store.put_entry(
        Entry(FAMILIES, family, family_value, created=now, expires=now + FAMILY_LIFE)
    )
    await _trace(engine, code, family=family, now=now, life=FAMILY_LIFE)
    value = {**grant, "family": family, "params": params}
    await engine.store.put_entry(Entry(CODES, fingerprint(code), value, created=now, expires=now + CODE_LIFE))
    return ConsentAnswer(code, params["redirect_uri"], params["state"])


async def find_code(engine: Engine, code: str, *, client_id: str | None = None) -> AuthorizationCode | None:
    """The data of a code, for that client. A code that was used before ends its grant."""
    entry = await _find_unused(engine, CODES, code)
    if entry is None or entry.expires is None or not _is_for(entry, client_id):
        return None
    params = entry.value["params"]
    return AuthorizationCode(
        client_id=entry.value["client_id"],
        scopes=tuple(entry.value["scopes"]),
        code_challenge=params["code_challenge"],
        redirect_uri=params["redirect_uri"],
        redirect_uri_provided_explicitly=params["redirect_uri_provided_explicitly"],
        resource=entry.value["resource"],
        expires_at=entry.expires.timestamp(),
    )


async def redeem_code(engine: Engine, code: str, *, client_id: str | None = None) -> IssuedTokens:
    """Exchange a code for tokens, once. Raises Refused; a second use ends its grant."""
    entry = await _use_up(engine, CODES, code, client_id=client_id)
    return await _issue(engine, entry, scopes=entry.value["scopes"])


async def find_refresh(engine: Engine, token: str, *, client_id: str | None = None) -> GrantToken | None:
    """The data of a refresh token, for that client. A token that was used before ends its grant."""
    entry = await _find_unused(engine, REFRESH, token)
    return None if entry is None or not _is_for(entry, client_id) else _to_token(entry)


async def refresh_grant(
    engine: Engine, token: str, *, client_id: str | None = None, scopes: Sequence[str] | None = None
) -> IssuedTokens:
    """Exchange a refresh token for new tokens, once. Raises Refused, or InvalidInput for scopes that were not granted.

    A second use ends its grant.
    """
    current = await find_refresh(engine, token, client_id=client_id)
    if current is not None and not set(scopes or ()) <= set(current.scopes):
        raise InvalidInput("More is asked for than was granted.", advice="Ask for fewer scopes.")
    entry = await _use_up(engine, REFRESH, token, client_id=client_id)
    return await _issue(engine, entry, scopes=entry.value["scopes"] if scopes is None else list(scopes))


async def check_token(engine: Engine, token: str) -> GrantToken | None:
    """The data of an access token, if it and its grant are valid."""
    entry = await _entry(engine, ACCESS, token)
    return None if entry is None or not await _is_valid(engine, entry.value["family"]) else _to_token(entry)


async def list_grants(engine: Engine) -> list[Grant]:
    """The valid grants, newest first."""
    entries = await engine.store.entries(FAMILIES, now=engine.clock(), limit=MOST_LISTED)
    return [
        Grant(
            id=entry.key,
            client_id=entry.value["client_id"],
            client_name=entry.value["client_name"],
            scopes=tuple(entry.value["scopes"]),
            resource=entry.value["resource"],
            created=entry.created,
            expires=entry.expires,
        )
        for entry in entries
    ]


async def revoke_grant(engine: Engine, grant_or_token: str) -> bool:
    """End the grant of that id or token, with all its tokens; returns whether it was valid."""
    for namespace in (ACCESS, REFRESH, TRACES):
        entry = await _entry(engine, namespace, grant_or_token)
        if entry is not None:
            return await engine.store.drop_entry(FAMILIES, entry.value["family"])
    return await engine.store.drop_entry(FAMILIES, grant_or_token)


async def _make_room(engine: Engine, client_id: str, *, now: datetime) -> None:
    """Drop the client's oldest requests if it has too many; else the oldest of all."""
    requests = await engine.store.entries(CONSENTS, now=now, limit=2 * MOST_CONSENTS)
    own = [entry for entry in requests if entry.value["client_id"] == client_id]
    for entry in own[MOST_OF_CLIENT - 1 :] or requests[MOST_CONSENTS - 1 :]:
        await engine.store.drop_entry(CONSENTS, entry.key)


async def _issue(engine: Engine, entry: Entry, *, scopes: Sequence[str]) -> IssuedTokens:
    """Issue tokens of the entry's grant. The refresh token keeps all granted scopes."""
    family, now = entry.value["family"], engine.clock()
    if not await _is_valid(engine, family):
        raise _invalid_token()
    access, refresh = new_secret(ACCESS_TOKEN), new_secret(REFRESH_TOKEN)
    shared = {name: entry.value[name] for name in ("client_id", "resource", "family")}
    await _trace(engine, refresh, family=family, now=now, life=REFRESH_LIFE)
    for namespace, secret, life, granted in (
        (ACCESS, access, ACCESS_LIFE, list(scopes)),
        (REFRESH, refresh, REFRESH_LIFE, entry.value["scopes"]),
    ):
        value = {**shared, "scopes": granted}
        await engine.store.put_entry(
            Entry(namespace, fingerprint(secret), value, created=now, expires=now + life)
        )
    return IssuedTokens(
        access_token=access,
        refresh_token=refresh,
        expires_in=int(ACCESS_LIFE.total_seconds()),
        scope=" ".join(scopes),
        resource=shared["resource"],
    )


async def _find_unused(engine: Engine, namespace: str, secret: str) -> Entry | None:
    """The entry of a single-use secret, if it is unused and its grant valid."""
    entry = await _entry(engine, namespace, secret)
    if entry is None:
        await _end_reused(engine, secret)
        return None
    return entry if await _is_valid(engine, entry.value["family"]) else None


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


async def _trace(engine: Engine, secret: str, *, family: str, now: datetime, life: timedelta) -> None:
    await engine.store.put_entry(
        Entry(TRACES, fingerprint(secret), {"family": family}, created=now, expires=now + life)
    )


async def _entry(engine: Engine, namespace: str, secret: str) -> Entry | None:
    return await engine.store.entry(namespace, fingerprint(secret), now=engine.clock())


async def _is_valid(engine: Engine, family: str) -> bool:
    return await engine.store.entry(FAMILIES, family, now=engine.clock()) is not None


def _is_for(entry: Entry, client_id: str | None) -> bool:
    return client_id is None or entry.value["client_id"] == client_id


def _to_token(entry: Entry) -> GrantToken:
    return GrantToken(
        client_id=entry.value["client_id"],
        scopes=tuple(entry.value["scopes"]),
        expires_at=int(entry.expires.timestamp()) if entry.expires else 0,
        resource=entry.value["resource"],
        family=entry.value["family"],
    )


def _invalid_token() -> Refused:
    return Refused("This code or token doesn't hold.", advice="Let the client ask for consent again.")


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
    """Ask the owner to authorize a client."""
    return OpenedConsent(ticket=await open_consent(context.engine, request.client_id, request.params))


OPEN_CONSENT = operation("open_consent", _open_consent, writes=True, owner_only=True)


async def _find_consent(context: Context, request: FindConsentInput) -> FoundConsent:
    """Show which client asks the owner, and for what."""
    consent = await find_consent(context.engine, request.ticket)
    return FoundConsent(found=consent is not None, **matching_fields(FoundConsent, consent))


FIND_CONSENT = operation("find_consent", _find_consent, reads=True, owner_only=True)


async def _grant_code(context: Context, request: GrantCodeInput) -> GrantedCode:
    """Answer a client's request for authorization."""
    answer = await grant_code(context.engine, request.ticket, allow=request.allow, scopes=request.scopes)
    return GrantedCode(**asdict(answer))


GRANT_CODE = operation("grant_code", _grant_code, writes=True, owner_only=True)


async def _find_code(context: Context, request: CodeInput) -> FoundCode:
    """Show the data of a code; one that was already redeemed ends its grant."""
    code = await find_code(context.engine, request.code, client_id=request.client_id)
    return FoundCode(found=code is not None, **matching_fields(FoundCode, code))


FIND_CODE = operation("find_code", _find_code, writes=True, owner_only=True)


async def _redeem_code(context: Context, request: CodeInput) -> TokenPair:
    """Exchange a code for tokens, once; a second use ends its grant."""
    return TokenPair(**asdict(await redeem_code(context.engine, request.code, client_id=request.client_id)))


REDEEM_CODE = operation("redeem_code", _redeem_code, writes=True, owner_only=True)


async def _find_refresh(context: Context, request: RefreshInput) -> FoundToken:
    """Show the data of a refresh token; one that was already used ends its grant."""
    token = await find_refresh(context.engine, request.token, client_id=request.client_id)
    return FoundToken(found=token is not None, **matching_fields(FoundToken, token))


FIND_REFRESH = operation("find_refresh", _find_refresh, writes=True, owner_only=True)


async def _refresh_grant(context: Context, request: RefreshGrantInput) -> TokenPair:
    """Exchange a refresh token for new tokens, once; a second use ends its grant."""
    pair = await refresh_grant(
        context.engine, request.token, client_id=request.client_id, scopes=request.scopes
    )
    return TokenPair(**asdict(pair))


REFRESH_GRANT = operation("refresh_grant", _refresh_grant, writes=True, owner_only=True)


async def _check_token(context: Context, request: TokenInput) -> FoundToken:
    """Show the data of an access token, if it is valid."""
    token = await check_token(context.engine, request.token)
    return FoundToken(found=token is not None, **matching_fields(FoundToken, token))


CHECK_TOKEN = operation("check_token", _check_token, reads=True, owner_only=True)


async def _list_grants(context: Context, _request: NoInput) -> ListGrantsResult:
    """List the authorized clients."""
    return ListGrantsResult(
        grants=[GrantView(**asdict(grant)) for grant in await list_grants(context.engine)]
    )


LIST_GRANTS = operation("list_grants", _list_grants, reads=True, owner_only=True)


async def _revoke_grant(context: Context, request: RevokeGrantInput) -> RevokedGrant:
    """End a grant with all its tokens, at once and everywhere."""
    return RevokedGrant(revoked=await revoke_grant(context.engine, request.token))


REVOKE_GRANT = operation("revoke_grant", _revoke_grant, destroys=True, owner_only=True)
