"""Operations on who may come in: keys, OAuth grants, and visits that outlive a restart.

All are the owner's. A door calls them for itself, without a caller, before it knows who is there. A secret is shown
once, by the operation that makes it; the store has its hash.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mindhold.engine import clients, grants, keys, visits
from mindhold.operations.access_forms import (
    CheckedKey,
    CheckKeyInput,
    CodeInput,
    CreatedKey,
    CreateKeyInput,
    EndedVisit,
    FindClientInput,
    FindConsentInput,
    FoundClient,
    FoundCode,
    FoundConsent,
    FoundToken,
    FoundVisit,
    GrantCodeInput,
    GrantedCode,
    GrantView,
    KeepVisitInput,
    KeptVisit,
    KeyView,
    ListGrantsResult,
    ListKeysResult,
    NoInput,
    OpenConsentInput,
    OpenedConsent,
    RefreshGrantInput,
    RefreshInput,
    RevokedGrant,
    RevokedKey,
    RevokeGrantInput,
    RevokeKeyInput,
    SaveClientInput,
    SavedClient,
    TokenInput,
    TokenPair,
    VisitInput,
)
from mindhold.operations.catalogue import Call, Effect, Operation, Output


async def _create_key(call: Call, given: CreateKeyInput) -> CreatedKey:
    key, secret = await keys.create_key(
        call.engine,
        given.name,
        agent=given.agent,
        scopes=given.scopes,
        access=given.access,
        days=given.expires_days,
    )
    return CreatedKey(key=secret, **asdict(key))


async def _list_keys(call: Call, _given: NoInput) -> ListKeysResult:
    return ListKeysResult(keys=[KeyView(**asdict(key)) for key in await keys.list_keys(call.engine)])


async def _revoke_key(call: Call, given: RevokeKeyInput) -> RevokedKey:
    key = await keys.revoke_key(call.engine, given.id)
    return RevokedKey(id=key.id, name=key.name)


async def _check_key(call: Call, given: CheckKeyInput) -> CheckedKey:
    key = await keys.check_key(call.engine, given.key)
    return CheckedKey(found=key is not None, **_only(CheckedKey, key))


async def _save_client(call: Call, given: SaveClientInput) -> SavedClient:
    return SavedClient(client=await clients.save_client(call.engine, given.client))


async def _find_client(call: Call, given: FindClientInput) -> FoundClient:
    client = await clients.find_client(call.engine, given.id)
    return FoundClient(found=client is not None, client=client or {})


async def _open_consent(call: Call, given: OpenConsentInput) -> OpenedConsent:
    return OpenedConsent(ticket=await grants.open_consent(call.engine, given.client_id, given.params))


async def _find_consent(call: Call, given: FindConsentInput) -> FoundConsent:
    consent = await grants.find_consent(call.engine, given.ticket)
    return FoundConsent(found=consent is not None, **_only(FoundConsent, consent))


async def _grant_code(call: Call, given: GrantCodeInput) -> GrantedCode:
    answer = await grants.grant_code(call.engine, given.ticket, allow=given.allow, scopes=given.scopes)
    return GrantedCode(**asdict(answer))


async def _find_code(call: Call, given: CodeInput) -> FoundCode:
    code = await grants.find_code(call.engine, given.code, client_id=given.client_id)
    return FoundCode(found=code is not None, **_only(FoundCode, code))


async def _redeem_code(call: Call, given: CodeInput) -> TokenPair:
    return TokenPair(**asdict(await grants.redeem_code(call.engine, given.code, client_id=given.client_id)))


async def _find_refresh(call: Call, given: RefreshInput) -> FoundToken:
    token = await grants.find_refresh(call.engine, given.token, client_id=given.client_id)
    return FoundToken(found=token is not None, **_only(FoundToken, token))


async def _refresh_grant(call: Call, given: RefreshGrantInput) -> TokenPair:
    pair = await grants.refresh_grant(
        call.engine, given.token, client_id=given.client_id, scopes=given.scopes
    )
    return TokenPair(**asdict(pair))


async def _check_token(call: Call, given: TokenInput) -> FoundToken:
    token = await grants.check_token(call.engine, given.token)
    return FoundToken(found=token is not None, **_only(FoundToken, token))


async def _list_grants(call: Call, _given: NoInput) -> ListGrantsResult:
    return ListGrantsResult(
        grants=[GrantView(**asdict(one)) for one in await grants.list_grants(call.engine)]
    )


async def _revoke_grant(call: Call, given: RevokeGrantInput) -> RevokedGrant:
    return RevokedGrant(revoked=await grants.revoke_grant(call.engine, given.token))


async def _keep_visit(call: Call, given: KeepVisitInput) -> KeptVisit:
    visit = visits.Visit(given.owner, given.protocol_version, given.client)
    return KeptVisit(expires=await visits.keep_visit(call.engine, given.id, visit, minutes=given.ttl_minutes))


async def _find_visit(call: Call, given: VisitInput) -> FoundVisit:
    visit = await visits.find_visit(call.engine, given.id)
    return FoundVisit(found=visit is not None, **_only(FoundVisit, visit))


async def _end_visit(call: Call, given: VisitInput) -> EndedVisit:
    return EndedVisit(ended=await visits.end_visit(call.engine, given.id))


def _only(gives: type[Output], found: Any) -> dict[str, Any]:
    """Of what was found the fields that the answer has; none when nothing was."""
    fields = asdict(found) if found is not None else {}
    return {name: value for name, value in fields.items() if name in gives.model_fields}


CREATE_KEY = Operation(
    "create_key",
    "Make a key; it is shown once.",
    CreateKeyInput,
    CreatedKey,
    _create_key,
    Effect.WRITES,
    owner_only=True,
)
LIST_KEYS = Operation(
    "list_keys",
    "The keys that open the door.",
    NoInput,
    ListKeysResult,
    _list_keys,
    Effect.READS,
    owner_only=True,
)
REVOKE_KEY = Operation(
    "revoke_key",
    "End a key, at once and everywhere.",
    RevokeKeyInput,
    RevokedKey,
    _revoke_key,
    Effect.DESTROYS,
    owner_only=True,
)
CHECK_KEY = Operation(
    "check_key",
    "Whose key it is, if it is one.",
    CheckKeyInput,
    CheckedKey,
    _check_key,
    Effect.READS,
    owner_only=True,
)
SAVE_CLIENT = Operation(
    "save_client",
    "Keep a client's registration.",
    SaveClientInput,
    SavedClient,
    _save_client,
    Effect.WRITES,
    owner_only=True,
)
FIND_CLIENT = Operation(
    "find_client",
    "A registered client.",
    FindClientInput,
    FoundClient,
    _find_client,
    Effect.READS,
    owner_only=True,
)
OPEN_CONSENT = Operation(
    "open_consent",
    "Put a client's wish before the owner.",
    OpenConsentInput,
    OpenedConsent,
    _open_consent,
    Effect.WRITES,
    owner_only=True,
)
FIND_CONSENT = Operation(
    "find_consent",
    "Who asks the owner, and for what.",
    FindConsentInput,
    FoundConsent,
    _find_consent,
    Effect.READS,
    owner_only=True,
)
GRANT_CODE = Operation(
    "grant_code",
    "The owner's answer to a client's wish.",
    GrantCodeInput,
    GrantedCode,
    _grant_code,
    Effect.WRITES,
    owner_only=True,
)
FIND_CODE = Operation(
    "find_code",
    "What a code stands for; one that was redeemed already ends its grant.",
    CodeInput,
    FoundCode,
    _find_code,
    Effect.WRITES,
    owner_only=True,
)
REDEEM_CODE = Operation(
    "redeem_code",
    "Turn a code into tokens, once; a second time ends its grant.",
    CodeInput,
    TokenPair,
    _redeem_code,
    Effect.WRITES,
    owner_only=True,
)
FIND_REFRESH = Operation(
    "find_refresh",
    "What a refresh token stands for; one that was used already ends its grant.",
    RefreshInput,
    FoundToken,
    _find_refresh,
    Effect.WRITES,
    owner_only=True,
)
REFRESH_GRANT = Operation(
    "refresh_grant",
    "New tokens for a refresh token, once; a second time ends its grant.",
    RefreshGrantInput,
    TokenPair,
    _refresh_grant,
    Effect.WRITES,
    owner_only=True,
)
CHECK_TOKEN = Operation(
    "check_token",
    "What an access token stands for, if it holds.",
    TokenInput,
    FoundToken,
    _check_token,
    Effect.READS,
    owner_only=True,
)
LIST_GRANTS = Operation(
    "list_grants",
    "The clients that the owner let in.",
    NoInput,
    ListGrantsResult,
    _list_grants,
    Effect.READS,
    owner_only=True,
)
REVOKE_GRANT = Operation(
    "revoke_grant",
    "End a grant with all its tokens, at once and everywhere.",
    RevokeGrantInput,
    RevokedGrant,
    _revoke_grant,
    Effect.DESTROYS,
    owner_only=True,
)
KEEP_VISIT = Operation(
    "keep_visit",
    "Keep a visit, so that it outlives a restart.",
    KeepVisitInput,
    KeptVisit,
    _keep_visit,
    Effect.WRITES,
    owner_only=True,
)
FIND_VISIT = Operation(
    "find_visit", "A visit that goes on.", VisitInput, FoundVisit, _find_visit, Effect.READS, owner_only=True
)
END_VISIT = Operation(
    "end_visit", "Forget a visit.", VisitInput, EndedVisit, _end_visit, Effect.WRITES, owner_only=True
)
