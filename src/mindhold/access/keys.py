"""API keys: create, list, revoke and check them. A secret is shown once; the store has its hash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from mindhold.access.secrets import fingerprint, new_secret
from mindhold.engine import Engine
from mindhold.model.errors import Conflict, InvalidInput, NotFound, Refused, ScopeNotFound
from mindhold.model.job import Entry
from mindhold.model.scope import checked_agent
from mindhold.operations import Context, Input, Output, operation

KEY_NAMESPACE = "key"
PREFIX = "rk_"
MOST_KEYS = 500
MOST_SCOPES = 100
LONGEST_KEY_NAME = 100
_STORED = {"id", "name", "agent", "scopes", "access"}

Access = Literal["read", "write"]
Secret = Annotated[str, Field(repr=False)]


class SecretInput(Input):
    """An input with a secret, which error messages never quote."""

    model_config = ConfigDict(hide_input_in_errors=True)


class NoInput(Input):
    """No input."""


class CreateKeyInput(Input):
    """Without an agent the key acts as the default one; without scopes it covers all."""

    name: str
    agent: str | None = None
    scopes: list[str] = []
    access: Access = "write"
    expires_days: int | None = Field(default=None, ge=1, le=3650)


class KeyView(Output):
    """A key, without its secret."""

    id: str
    name: str
    agent: str | None
    scopes: list[str]
    access: Access
    created: datetime
    expires: datetime | None


class CreatedKey(KeyView):
    """A new key. `key` is shown only here."""

    key: Secret


class ListKeysResult(Output):
    """The valid keys, newest first."""

    keys: list[KeyView]


class RevokeKeyInput(Input):
    """Which key: its id, the beginning of it, or its name."""

    id: str


class RevokedKey(Output):
    """The key that was revoked."""

    id: str
    name: str


class CheckKeyInput(SecretInput):
    """The key that a caller presented."""

    key: Secret


class CheckedKey(Output):
    """The data of the key, if it is valid."""

    found: bool
    id: str = ""
    name: str = ""
    agent: str | None = None
    scopes: list[str] = []
    access: Access = "read"


async def _create_key(context: Context, request: CreateKeyInput) -> CreatedKey:
    """Create a key; it is shown once.

    Raises InvalidInput, ScopeNotFound, Conflict for a name in use, Refused if there are too many.
    """
    engine, now, days = context.engine, context.engine.clock(), request.expires_days
    existing = [_key(entry) for entry in await _entries(engine)]
    secret = new_secret(PREFIX)
    key = CreatedKey(
        id=engine.new_id(),
        name=_checked_name(request.name, existing),
        agent=None if request.agent is None else checked_agent(request.agent),
        scopes=await _checked_scopes(engine, request.scopes),
        access=request.access,
        created=now,
        expires=None if days is None else now + timedelta(days=days),
        key=secret,
    )
    if len(existing) >= MOST_KEYS:
        raise Refused(f"There are {len(existing)} keys already.", advice="Revoke some first.")
    value = key.model_dump(include=_STORED)
    await engine.store.put_entry(Entry(KEY_NAMESPACE, fingerprint(secret), value, now, key.expires))
    return key


CREATE_KEY = operation("create_key", _create_key, writes=True, owner_only=True)


async def _list_keys(context: Context, _request: NoInput) -> ListKeysResult:
    """List the valid keys."""
    return ListKeysResult(keys=[_key(entry) for entry in await _entries(context.engine)])


LIST_KEYS = operation("list_keys", _list_keys, reads=True, owner_only=True)


async def _revoke_key(context: Context, request: RevokeKeyInput) -> RevokedKey:
    """Revoke a key, at once and everywhere.

    Raises NotFound, or InvalidInput if several match.
    """
    prefix = request.id.strip()
    entries = await _entries(context.engine)
    matches = [entry for entry in entries if prefix in (entry.value["id"], entry.value["name"])] or [
        entry for entry in entries if prefix and entry.value["id"].startswith(prefix)
    ]
    if len(matches) > 1:
        raise InvalidInput(
            f"{len(matches)} keys are called {prefix[:LONGEST_KEY_NAME]!r} or begin so.",
            advice="Give the whole id.",
        )
    if not matches or not await context.engine.store.drop_entry(KEY_NAMESPACE, matches[0].key):
        raise NotFound("There is no such key.", advice="`mindhold keys list` shows the ones that there are.")
    return RevokedKey(id=matches[0].value["id"], name=matches[0].value["name"])


REVOKE_KEY = operation("revoke_key", _revoke_key, destroys=True, owner_only=True)


async def _check_key(context: Context, request: CheckKeyInput) -> CheckedKey:
    """Check a key and show its data.

    It is looked up by hash, so that timing reveals nothing about the secret.
    """
    entry = None
    if request.key.startswith(PREFIX):
        hashed = fingerprint(request.key)
        entry = await context.engine.store.entry(KEY_NAMESPACE, hashed, now=context.engine.clock())
    return CheckedKey(found=False) if entry is None else CheckedKey(found=True, **entry.value)


CHECK_KEY = operation("check_key", _check_key, reads=True, owner_only=True)


async def follow_scope(engine: Engine, old: str, new: str | None) -> None:
    """After a scope was renamed or removed (None): update its keys. A key without a scope left is revoked.

    Otherwise a key would open the next scope of that name.
    """
    for entry in await _entries(engine):
        if old not in entry.value["scopes"]:
            continue
        current = await engine.store.take_entry(KEY_NAMESPACE, entry.key, now=engine.clock())
        if current is None:  # revoked meanwhile
            continue
        scopes = dict.fromkeys(new if name == old else name for name in current.value["scopes"])
        remaining = [name for name in scopes if name is not None]
        if remaining:
            await engine.store.put_entry(replace(current, value={**current.value, "scopes": remaining}))


def _checked_name(name: str, existing: Sequence[KeyView]) -> str:
    cleaned = " ".join(name.split())
    if not cleaned or len(cleaned) > LONGEST_KEY_NAME or not cleaned.isprintable():
        raise InvalidInput(
            f"{cleaned[:40]!r} can't be a key's name.",
            advice=f"Say who will use it, in at most {LONGEST_KEY_NAME} printable characters.",
        )
    if cleaned.startswith(PREFIX):
        raise InvalidInput("A key's name can't look like a key.", advice="Say who will use it.")
    if any(key.name.casefold() == cleaned.casefold() for key in existing):
        raise Conflict(f"There is a key {cleaned!r} already.", advice="Revoke it, or choose another name.")
    return cleaned


async def _checked_scopes(engine: Engine, names: Sequence[str]) -> list[str]:
    """Check that the scopes exist: a key must not open a scope that is created later."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) > MOST_SCOPES:
        raise InvalidInput(f"{len(distinct)} scopes are too many.", advice=f"Name at most {MOST_SCOPES}.")
    existing = {scope.name for scope in await engine.store.scopes()} if distinct else set()
    for name in distinct:
        if name not in existing:
            raise ScopeNotFound(name)
    return distinct


async def _entries(engine: Engine) -> list[Entry]:
    return await engine.store.entries(KEY_NAMESPACE, now=engine.clock(), limit=2 * MOST_KEYS)


def _key(entry: Entry) -> KeyView:
    return KeyView(**entry.value, created=entry.created, expires=entry.expires)
