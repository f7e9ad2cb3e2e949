"""Scopes, the partitions of memories; which agents a caller sees; and the storage modes of a project."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args
from unicodedata import normalize

from mindhold.model.errors import InvalidInput

GLOBAL = "Global"
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Scope:
    """A named partition; scopes nest. "Global" always exists and every call sees it."""

    name: str
    created: datetime
    description: str = ""
    kind: str = "general"
    parent: str | None = None
    keywords: tuple[str, ...] = ()
    active: bool = True


def validate_scope_name(name: str) -> str:
    """The name trimmed and in NFC. Raises InvalidInput if it can't be a scope's name."""
    cleaned = normalize("NFC", name.strip())
    if not cleaned:
        raise InvalidInput("A scope needs a name.", advice="Give it a word or two, such as 'work'.")
    if len(cleaned) > LONGEST_NAME or not cleaned.isprintable():
        raise InvalidInput(
            f"{cleaned[:40]!r} can't be a scope's name.",
            advice=f"Use at most {LONGEST_NAME} printable characters.",
        )
    return cleaned


def lineage(name: str, scopes: Iterable[Scope]) -> tuple[str, ...]:
    """The scope, its ancestors from near to far, and Global: the scopes that a call in it sees."""
    parents = {scope.name: scope.parent for scope in scopes}
    names: list[str] = []
    current: str | None = name
    while current is not None and current not in names:
        names.append(current)
        current = parents.get(current)
    return tuple(names) if GLOBAL in names else (*names, GLOBAL)


DEFAULT_AGENT = "default"
EVERYONE = "system"  # sees the records of all agents
PRIVILEGED_AGENTS = frozenset({EVERYONE, "admin"})


def visible_agents(viewer: str) -> frozenset[str] | None:
    """The agents whose records `viewer` sees; None means everyone's."""
    if viewer in PRIVILEGED_AGENTS:
        return None
    return frozenset({viewer, DEFAULT_AGENT})


def sees(viewer: str, agent: str) -> bool:
    """Whether `viewer` may see a record of `agent`."""
    visible = visible_agents(viewer)
    return visible is None or agent in visible


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of an operation and its rights, as the interface determined them."""

    agent: str = DEFAULT_AGENT
    bound: bool = False  # may not act for another agent
    scopes: tuple[str, ...] = ()  # all scopes that the caller may see or write; empty means every scope
    writes: bool = True
    owner: bool = True  # may change what concerns everybody: keys, models, the machinery


StorageMode = Literal["local", "postgres", "mongodb"]
MODES: tuple[StorageMode, ...] = get_args(StorageMode)
LOCAL, POSTGRES, MONGODB = MODES


def checked_agent(name: str) -> str:
    """The agent's name. Raises InvalidInput, also for names that look like system or admin."""
    if not name.strip() or name != name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise InvalidInput(
            f"{name[:40]!r} can't be an agent's name.",
            advice=f"Use at most {LONGEST_NAME} printable characters, without blanks around them.",
        )
    if name.casefold() in PRIVILEGED_AGENTS and name not in PRIVILEGED_AGENTS:
        raise InvalidInput(
            f"{name!r} could be mistaken for {name.casefold()!r}, who sees everything.",
            advice="Spell it as it is meant.",
        )
    return name
