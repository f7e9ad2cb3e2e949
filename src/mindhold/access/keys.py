"""API keys: create, list, revoke and check them. A secret is shown once; the store has its hash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

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

Access = Literal["read", "write"]


@dataclass(frozen=True, slots=True)
class AccessKey:
    """What a key allows. Without an agent it acts as the default one; without scopes it covers all."""

    id: str
    name: str
    agent: str | None
    scopes: tuple[str, ...]
    access: Access
    created: datetime
    expires: datetime | None


async def create_key(
    engine: Engine,
    name: str,
    *,
    agent: str | None = None,
    scopes: Sequence[str] = (),
    access: Access = "write",
    days: int | None = None,
) -> tuple[AccessKey, str]:
    """Create a key; returns it with its secret, which can't be shown again.

    Raises InvalidInput, ScopeNotFound, Conflict for a name in use, Refused if there are too many.
    """
    existing = await list_keys(engine)
    now = engine.clock()
    key = AccessKey(
        id=engine.new_id(),
        name=_checked_name(name, existing),
        agent=None if agent is None else checked_agent(agent),
        scopes=await _checked_scopes(engine, scopes),
        access=access,
        created=now,
        expires=None if days is None else now + timedelta(days=days),
    )
    if len(existing) >= MOST_KEYS:
        raise Refused(f"There are {len(existing)} keys already.", advice="Revoke some first.")
    secret = new_secret(PREFIX)
    await engine.store.put_entry(_entry(key, fingerprint(secret)))
    return key, secret


async def list_keys(engine: Engine) -> list[AccessKey]:
    """The valid keys, newest first."""
    return [_key(entry) for entry in await _entries(engine)]


async def revoke_key(engine: Engine, name_or_id: str) -> AccessKey:
    """Revoke a key by its id, name or the beginning of its id. Raises NotFound, or InvalidInput if several match."""
    prefix = name_or_id.strip()
    entries = {_key(entry): entry for entry in await _entries(engine)}
    exact = [key for key in entries if prefix in (key.id, key.name)]
    matches = exact or [key for key in entries if prefix and key.id.startswith(prefix)]
    if len(matches) > 1:
        raise InvalidInput(
            f"{len(matches)} keys are called {prefix[:LONGEST_KEY_NAME]!r} or begin so.",
            advice="Give the whole id.",
        )
    if not matches or not await engine.store.drop_entry(KEY_NAMESPACE, entries[matches[0]].key):
        raise NotFound("There is no such key.", advice="`mindhold keys list` shows the ones that there are.")
    return matches[0]


async def check_key(engine: Engine, secret: str) -> AccessKey | None:
    """The key with this secret. It is looked up by hash, so that timing reveals nothing about the secret."""
    if not secret.startswith(PREFIX):
        return None
    entry = await engine.store.entry(KEY_NAMESPACE, fingerprint(secret), now=engine.clock())
    return None if entry is None else _key(entry)


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
        key = _key(current)
        scopes = dict.fromkeys(new if name == old else name for name in key.scopes)
        remaining = tuple(name for name in scopes if name is not None)
        if remaining:
            await engine.store.put_entry(_entry(replace(key, scopes=remaining), current.key))


def _checked_name(name: str, existing: Sequence[AccessKey]) -> str:
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


async def _checked_scopes(engine: Engine, names: Sequence[str]) -> tuple[str, ...]:
    """Check that the scopes exist: a key must not open a scope that is created later."""
    distinct = tuple(dict.fromkeys(names))
    if len(distinct) > MOST_SCOPES:
        raise InvalidInput(f"{len(distinct)} scopes are too many.", advice=f"Name at most {MOST_SCOPES}.")
    existing = {scope.name for scope in await engine.store.scopes()} if distinct else set()
    for name in distinct:
        if name not in existing:
            raise ScopeNotFound(name)
    return distinct


async def _entries(engine: Engine) -> list[Entry]:
    return await engine.store.entries(KEY_NAMESPACE, now=engine.clock(), limit=2 * MOST_KEYS)


def _entry(key: AccessKey, hashed: str) -> Entry:
    value = {
        "id": key.id,
        "name": key.name,
        "agent": key.agent,
        "scopes": list(key.scopes),
        "access": key.access,
    }
    return Entry(KEY_NAMESPACE, hashed, value, created=key.created, expires=key.expires)


def _key(entry: Entry) -> AccessKey:
    value = entry.value
    return AccessKey(
        id=value["id"],
        name=value["name"],
        agent=value["agent"],
        scopes=tuple(value["scopes"]),
        access=value["access"],
        created=entry.created,
        expires=entry.expires,
    )


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
    """Create a key; it is shown once."""
    key, secret = await create_key(
        context.engine,
        request.name,
        agent=request.agent,
        scopes=request.scopes,
        access=request.access,
        days=request.expires_days,
    )
    return CreatedKey(key=secret, **asdict(key))


CREATE_KEY = operation("create_key", _create_key, writes=True, owner_only=True)


async def _list_keys(context: Context, _request: NoInput) -> ListKeysResult:
    """List the valid keys."""
    return ListKeysResult(keys=[KeyView(**asdict(key)) for key in await list_keys(context.engine)])


LIST_KEYS = operation("list_keys", _list_keys, reads=True, owner_only=True)


async def _revoke_key(context: Context, request: RevokeKeyInput) -> RevokedKey:
    """Revoke a key, at once and everywhere."""
    key = await revoke_key(context.engine, request.id)
    return RevokedKey(id=key.id, name=key.name)


REVOKE_KEY = operation("revoke_key", _revoke_key, destroys=True, owner_only=True)


async def _check_key(context: Context, request: CheckKeyInput) -> CheckedKey:
    """Check a key and show its data."""
    key = await check_key(context.engine, request.key)
    return CheckedKey(found=key is not None, **matching_fields(CheckedKey, key))


CHECK_KEY = operation("check_key", _check_key, reads=True, owner_only=True)


def matching_fields(output: type[Output], source: Any) -> dict[str, Any]:
    """The fields of a dataclass that the output type has; none for None."""
    fields = asdict(source) if source is not None else {}
    return {name: value for name, value in fields.items() if name in output.model_fields}
