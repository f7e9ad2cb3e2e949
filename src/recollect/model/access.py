"""Who sees whose memories: the one rule that every store applies."""

from __future__ import annotations

DEFAULT_AGENT = "default"
ALL_SEEING = frozenset({"system", "admin"})


def visible_agents(viewer: str) -> frozenset[str] | None:
    """The agents whose records `viewer` sees; None means everyone's."""
    if viewer in ALL_SEEING:
        return None
    return frozenset({viewer, DEFAULT_AGENT})


def sees(viewer: str, agent: str) -> bool:
    """Whether `viewer` may see a record of `agent`."""
    visible = visible_agents(viewer)
    return visible is None or agent in visible
