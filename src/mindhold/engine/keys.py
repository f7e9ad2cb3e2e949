"""Keys to the door: made by the owner, shown once, kept as hashes."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from mindhold.engine.core import Engine
from mindhold.model.access import ALL_SEEING
from mindhold.model.entry import Entry
from mindhold.model.errors import Conflict, InvalidInput, NotFound, Refused, ScopeNotFound
from mindhold.model.scope import LONGEST_NAME

DRAWER = "key"
PREFIX = "rk_"
MOST_KEYS = 500
MOST_SCOPES = 100
LONGEST_KEY_NAME = 100
_SECRET_BYTES = 32

Access = Literal["read", "write"]


@dataclass(frozen=True, slots=True)
class Key:
    """What a key opens. Without an agent it acts as the default one, without scopes it reaches all."""

    id: str
    name: str
    agent: str | None
    scopes: tuple[str, ...]
    access: Access
    created: datetime
    expires: datetime | None


def new_secret(prefix: str) -> str:
    """Unguessable, and told by its prefix from other secrets."""
    return prefix + secrets.token_urlsafe(_SECRET_BYTES)


def fingerprint(secret: str) -> str:
    """What the store has of a secret: 256 random bits need no salt and no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


async def create_key(
    engine: Engine,
    name: str,
    *,
    agent: str | None = None,
    scopes: Sequence[str] = (),
    access: Access = "write",
    days: int | None = None,
) -> tuple[Key, str]:
    """A key and its secret, which nobody can tell again.

    Raises InvalidInput, ScopeNotFound, Conflict for a name in use, Refused when there are too many.
    """
    there = await list_keys(engine)
    now = engine.clock()
    key = Key(
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


async def list_keys(engine: Engine) -> list[Key]:
    """Those that open the door now, newest first."""
    return [_key(entry) for entry in await _entries(engine)]


async def revoke_key(engine: Engine, given: str) -> Key:
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
    if not chosen or not await engine.store.drop_entry(DRAWER, entries[chosen[0]].key):
        raise NotFound("There is no such key.", advice="`mindhold keys list` shows the ones that there are.")
    return chosen[0]


async def check_key(engine: Engine, secret: str) -> Key | None:
    """Whose key it is. Looked up by its hash, so that no comparison tells by its time how much of it is right."""
    if not secret.startswith(PREFIX):
        return None
    entry = await engine.store.entry(DRAWER, fingerprint(secret), now=engine.clock())
    return None if entry is None else _key(entry)


async def follow_scope(engine: Engine, old: str, new: str | None) -> None:
    """A scope has another name, or is no more (None): keys follow it, and one that is left with no scope ends.

    Else a key would open whatever is called so next.
    """
    for entry in await _entries(engine):
        if old not in entry.value["scopes"]:
            continue
        taken = await engine.store.take_entry(DRAWER, entry.key, now=engine.clock())
        if taken is None:  # revoked meanwhile, and so it stays
            continue
        key = _key(taken)
        scopes = dict.fromkeys(new if name == old else name for name in key.scopes)
        left = tuple(name for name in scopes if name is not None)
        if left:
            await engine.store.put_entry(_entry(replace(key, scopes=left), taken.key))


def checked_agent(name: str) -> str:
    """An agent's name as it is. Raises InvalidInput, also for what could be mistaken for system or admin."""
    if not name.strip() or name != name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise InvalidInput(
            f"{name[:40]!r} can't be an agent's name.",
            advice=f"Use at most {LONGEST_NAME} printable characters, without blanks around them.",
        )
    if name.casefold() in ALL_SEEING and name not in ALL_SEEING:
        raise InvalidInput(
            f"{name!r} could be mistaken for {name.casefold()!r}, who sees everything.",
            advice="Spell it as it is meant.",
        )
    return name


def _checked_name(name: str, there: Sequence[Key]) -> str:
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
    return await engine.store.entries(DRAWER, now=engine.clock(), limit=2 * MOST_KEYS)


def _entry(key: Key, hashed: str) -> Entry:
    value = {
        "id": key.id,
        "name": key.name,
        "agent": key.agent,
        "scopes": list(key.scopes),
        "access": key.access,
    }
    return Entry(DRAWER, hashed, value, created=key.created, expires=key.expires)


def _key(entry: Entry) -> Key:
    value = entry.value
    return Key(
        id=value["id"],
        name=value["name"],
        agent=value["agent"],
        scopes=tuple(value["scopes"]),
        access=value["access"],
        created=entry.created,
        expires=entry.expires,
    )
