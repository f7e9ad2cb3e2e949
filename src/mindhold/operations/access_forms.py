"""What the operations on access take and give. Secrets are in no repr and no message."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from mindhold.operations.catalogue import Input, Output

Secret = Annotated[str, Field(repr=False)]
Access = Literal["read", "write"]


class SecretInput(Input):
    """What holds a secret is never quoted when it can't be used."""

    model_config = ConfigDict(hide_input_in_errors=True)


class NoInput(Input):
    """Nothing to say."""


class CreateKeyInput(Input):
    """Without an agent it acts as the default one; without scopes it reaches all of them."""

    name: str
    agent: str | None = None
    scopes: list[str] = []
    access: Access = "write"
    expires_days: int | None = Field(default=None, ge=1, le=3650)


class KeyView(Output):
    """A key, without what opens the door."""

    id: str
    name: str
    agent: str | None
    scopes: list[str]
    access: Access
    created: datetime
    expires: datetime | None


class CreatedKey(KeyView):
    """`key` is shown here and nowhere else."""

    key: Secret


class ListKeysResult(Output):
    """The keys that open the door now, newest first."""

    keys: list[KeyView]


class RevokeKeyInput(Input):
    """A key's id, the beginning of it, or its name."""

    id: str


class RevokedKey(Output):
    """Which key it was."""

    id: str
    name: str


class CheckKeyInput(SecretInput):
    """What a caller presented."""

    key: Secret


class CheckedKey(Output):
    """Whose key it is, if it is one."""

    found: bool
    id: str = ""
    name: str = ""
    agent: str | None = None
    scopes: list[str] = []
    access: Access = "read"


class SaveClientInput(SecretInput):
    """A registration as the SDK makes it. Clients are public: a secret is dropped, PKCE stands in for it."""

    client: dict[str, Any] = Field(repr=False)


class SavedClient(Output):
    """The registration as it was kept: what the client must be told."""

    client: dict[str, Any]


class FindClientInput(Input):
    """By its id."""

    id: str


class FoundClient(Output):
    """A registered client."""

    found: bool
    client: dict[str, Any] = {}


class OpenConsentInput(Input):
    """What a client asks for: state, scopes, code_challenge, redirect_uri, redirect_uri_provided_explicitly, resource."""

    client_id: str
    params: dict[str, Any] = Field(repr=False)


class OpenedConsent(Output):
    """Names the question to the owner for ten minutes."""

    ticket: Secret


class FindConsentInput(SecretInput):
    """By its ticket."""

    ticket: Secret


class FoundConsent(Output):
    """Who asks, and for what."""

    found: bool
    client: dict[str, Any] = {}
    params: dict[str, Any] = Field(default={}, repr=False)


class GrantCodeInput(SecretInput):
    """The owner's answer; either way the ticket is used up. `scopes` may be fewer than were asked for."""

    ticket: Secret
    allow: bool = True
    scopes: list[str] | None = None


class GrantedCode(Output):
    """Where the browser goes back to, with what. No code when the owner said no."""

    code: str | None = Field(repr=False)
    redirect_uri: str
    state: str | None


class CodeInput(SecretInput):
    """A code; with a client's id it must be that client's."""

    code: Secret
    client_id: str | None = None


class FoundCode(Output):
    """What the code stands for, until it is redeemed or a minute has gone."""

    found: bool
    client_id: str = ""
    scopes: list[str] = []
    code_challenge: str = ""
    redirect_uri: str = ""
    redirect_uri_provided_explicitly: bool = True
    resource: str | None = None
    expires_at: float = 0.0


class TokenPair(Output):
    """Both are shown once. `scope` is space-separated, `expires_in` the seconds of the access token."""

    access_token: Secret
    refresh_token: Secret
    expires_in: int
    scope: str
    resource: str | None


class RefreshInput(SecretInput):
    """A refresh token; with a client's id it must be that client's."""

    token: Secret
    client_id: str | None = None


class RefreshGrantInput(RefreshInput):
    """The new access token may have fewer scopes, never more."""

    scopes: list[str] | None = None


class TokenInput(SecretInput):
    """What a caller presented."""

    token: Secret


class FoundToken(Output):
    """What the token stands for. `family` is the grant that it was issued under."""

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
    """A client that the owner let in."""

    id: str
    client_id: str
    client_name: str
    scopes: list[str]
    resource: str | None
    created: datetime
    expires: datetime | None


class ListGrantsResult(Output):
    """The grants that hold now, newest first."""

    grants: list[GrantView]


class VisitInput(SecretInput):
    """By its id, which is as good as a secret."""

    id: Secret


class KeepVisitInput(VisitInput):
    """A visit as it is now; `owner` is whoever began it, and nobody else goes on with it."""

    owner: str
    protocol_version: str
    client: dict[str, Any] = {}
    ttl_minutes: int = Field(default=1440, ge=1, le=43_200)


class KeptVisit(Output):
    """Until when it is kept, if nothing more is heard of it."""

    expires: datetime


class FoundVisit(Output):
    """A visit; compare `owner` before going on with it."""

    found: bool
    owner: str = ""
    protocol_version: str = ""
    client: dict[str, Any] = {}


class EndedVisit(Output):
    """Whether there was one."""

    ended: bool
