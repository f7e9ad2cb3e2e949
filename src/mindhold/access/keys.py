"""API keys: create, list, revoke and check them. A secret is shown once; the store has its hash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from mindhold.access.secrets import checked_agent, fingerprint, new_secret
from mindhold.engine import Engine
from mindhold.model.errors import Conflict, InvalidInput, NotFound, Refused, ScopeNotFound
from mindhold.model.job import Entry
from mindhold.operations import Context, Input, Output, operation

KEY_NAMESPACE = "key"
PREFIX = "rk_"
MOST_KEYS = 500
MOST_SCOPES = 100
LONGEST_KEY_NAME = 100

Access = Literal["read", "write"]


@dataclass(frozen=True, slots=True)
class AccessKey:
    """What a key opens. Without an agent it acts as the default one, without scopes it reaches all."""

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
    """A key and its secret, which nobody can tell again.

    Raises InvalidInput, ScopeNotFound, Conflict for a name in use, Refused when there are too many.
    """
    there = await list_keys(engine)
    now = engine.clock()
    key = AccessKey(
        id=engine.new_id(),
        name=_checked_name(name, there),
        agent=None if agent is None else checked_agent(agent),
        scopes=await _checked_scopes(engine, scopes),
        access=access,
        created=now,
        expires=None if days is None else now + timedelta(days=days),
    )
    if len(there) >= MOST_KEYS:
        raise Refused(f"There are {len(there)} keys already.", advice="Revoke some first.")
    secret = new_secret(PREFIX)
    await engine.store.put_entry(_entry(key, fingerprint(secret)))
    return key, secret


async def list_keys(engine: Engine) -> list[AccessKey]:
    """Those that open the door now, newest first."""
    return [_key(entry) for entry in await _entries(engine)]


async def revoke_key(engine: Engine, given: str) -> AccessKey:
    """End the key of that id, name or beginning of an id. Raises NotFound, InvalidInput when several begin so."""
    wanted = given.strip()
    entries = {_key(entry): entry for entry in await _entries(engine)}
    exact = [key for key in entries if wanted in (key.id, key.name)]
    chosen = exact or [key for key in entries if wanted and key.id.startswith(wanted)]
    if len(chosen) > 1:
        raise InvalidInput(
            f"{len(chosen)} keys are called {wanted[:LONGEST_KEY_NAME]!r} or begin so.",
            advice="Give the whole id.",
        )
    if not chosen or not await engine.store.drop_entry(KEY_NAMESPACE, entries[chosen[0]].key):
        raise NotFound("There is no such key.", advice="`mindhold keys list` shows the ones that there are.")
    return chosen[0]


async def check_key(engine: Engine, secret: str) -> AccessKey | None:
    """Whose key it is. Looked up by its hash, so that no comparison tells by its time how much of it is right."""
    if not secret.startswith(PREFIX):
        return None
    entry = await engine.store.entry(KEY_NAMESPACE, fingerprint(secret), now=engine.clock())
    return None if entry is None else _key(entry)


async def follow_scope(engine: Engine, old: str, new: str | None) -> None:
    """A scope has another name, or is no more (None): keys follow it, and one that is left with no scope ends.

    Else a key would open whatever is called so next.
    """
    for entry in await _entries(engine):
        if old not in entry.value["scopes"]:
            continue
        taken = await engine.store.take_entry(KEY_NAMESPACE, entry.key, now=engine.clock())
        if taken is None:  # revoked meanwhile, and so it stays
            continue
        key = _key(taken)
        scopes = dict.fromkeys(new if name == old else name for name in key.scopes)
        left = tuple(name for name in scopes if name is not None)
        if left:
            await engine.store.put_entry(_entry(replace(key, scopes=left), taken.key))


def _checked_name(name: str, there: Sequence[AccessKey]) -> str:
    cleaned = " ".join(name.split())
    if not cleaned or len(cleaned) > LONGEST_KEY_NAME or not cleaned.isprintable():
        raise InvalidInput(
            f"{cleaned[:40]!r} can't be a key's name.",
            advice=f"Say who will use it, in at most {LONGEST_KEY_NAME} printable characters.",
        )
    if cleaned.startswith(PREFIX):
        raise InvalidInput("A key's name can't look like a key.", advice="Say who will use it.")
    if any(key.name.casefold() == cleaned.casefold() for key in there):
        raise Conflict(f"There is a key {cleaned!r} already.", advice="Revoke it, or choose another name.")
    return cleaned


async def _checked_scopes(engine: Engine, names: Sequence[str]) -> tuple[str, ...]:
    """A key for a scope that is made later would open what its maker never saw."""
    wanted = tuple(dict.fromkeys(names))
    if len(wanted) > MOST_SCOPES:
        raise InvalidInput(f"{len(wanted)} scopes are too many.", advice=f"Name at most {MOST_SCOPES}.")
    there = {scope.name for scope in await engine.store.scopes()} if wanted else set()
    for name in wanted:
        if name not in there:
            raise ScopeNotFound(name)
    return wanted


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


async def _create_key(context: Context, request: CreateKeyInput) -> CreatedKey:
    """Make a key; it is shown once."""
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


async def _list_keys(context: Context, _given: NoInput) -> ListKeysResult:
    """The keys that open the door."""
    return ListKeysResult(keys=[KeyView(**asdict(key)) for key in await list_keys(context.engine)])


LIST_KEYS = operation("list_keys", _list_keys, reads=True, owner_only=True)


async def _revoke_key(context: Context, request: RevokeKeyInput) -> RevokedKey:
    """End a key, at once and everywhere."""
    key = await revoke_key(context.engine, request.id)
    return RevokedKey(id=key.id, name=key.name)


REVOKE_KEY = operation("revoke_key", _revoke_key, destroys=True, owner_only=True)


async def _check_key(context: Context, request: CheckKeyInput) -> CheckedKey:
    """Whose key it is, if it is one."""
    key = await check_key(context.engine, request.key)
    return CheckedKey(found=key is not None, **matching_fields(CheckedKey, key))


CHECK_KEY = operation("check_key", _check_key, reads=True, owner_only=True)


def matching_fields(gives: type[Output], found: Any) -> dict[str, Any]:
    """Of what was found the fields that the answer has; none when nothing was."""
    fields = asdict(found) if found is not None else {}
    return {name: value for name, value in fields.items() if name in gives.model_fields}
