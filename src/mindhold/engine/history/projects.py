"""The folders that conversations were held in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from mindhold.engine.core import Engine
from mindhold.engine.history.known import by_session, known_conversations, last_moment, told
from mindhold.engine.history.places import worked_in
from mindhold.ports.history import Conversation


@dataclass(frozen=True, slots=True)
class Project:
    """`size` is of the conversations' files, those of sub-agents included."""

    path: str
    sessions: int
    last_used: datetime
    size: int


@dataclass(frozen=True, slots=True)
class Listed:
    """The project used last first."""

    projects: tuple[Project, ...]
    suggestion: str | None = None


async def history_projects(engine: Engine) -> Listed:
    """All of them. Raises the store's errors."""
    known = await known_conversations(engine, unread=True)
    return Listed(_projects(known.every), told(engine, None))


def _projects(conversations: Iterable[Conversation]) -> tuple[Project, ...]:
    """What sub-agents did belongs to the project of the session that they worked for."""
    folders: dict[str, list[list[Conversation]]] = {}
    for held in by_session(conversations).values():
        folders.setdefault(worked_in(held[0]), []).append(held)
    listed = [
        Project(
            path,
            sessions=len(sessions),
            last_used=max(last_moment(one) for held in sessions for one in held),
            size=sum(one.size for held in sessions for one in held),
        )
        for path, sessions in folders.items()
    ]
    return tuple(sorted(listed, key=lambda one: (one.last_used, one.path), reverse=True))
