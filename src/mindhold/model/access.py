"""Who sees whose memories: the one rule that every store applies."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_AGENT = "default"
EVERYONE = "system"  # who sees the records of all
ALL_SEEING = frozenset({EVERYONE, "admin"})


def visible_agents(viewer: str) -> frozenset[str] | None:
    """The agents whose records `viewer` sees; None means everyone's."""
    if viewer in ALL_SEEING:
        return None
    return frozenset({viewer, DEFAULT_AGENT})


def sees(viewer: str, agent: str) -> bool:
    """Whether `viewer` may see a record of `agent`."""
    visible = visible_agents(viewer)
    return visible is None or agent in visible


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and how far they may go. What a door found out about them, in the form that every operation checks."""

    agent: str = DEFAULT_AGENT
    bound: bool = False  # to that agent: such a caller may not speak for another
    scopes: tuple[str, ...] = ()  # all that they may see or write; empty means every scope
    writes: bool = True
    owner: bool = True  # may change what concerns everybody: keys, models, the machinery
