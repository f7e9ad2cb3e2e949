"""OAuth clients: registration, with checked and bounded metadata. A client that nobody authorizes expires."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pydantic import Field

from mindhold.access.keys import SecretInput
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


async def _make_room(engine: Engine) -> None:
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
    await _make_room(engine)
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
