"""The partition that every memory lives in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
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


def checked_name(name: str) -> str:
    """The name without blanks around it, in one of the ways to write its letters. Raises InvalidInput."""
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
    """The scope, its ancestors from near to far, and Global: what a call in that scope sees."""
    parents = {scope.name: scope.parent for scope in scopes}
    seen: list[str] = []
    current: str | None = name
    while current is not None and current not in seen:
        seen.append(current)
        current = parents.get(current)
    return tuple(seen) if GLOBAL in seen else (*seen, GLOBAL)
