"""What a project remembers, as answers show it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from recollect.engine.messages import Shown, extras_of, role_of, session_of, task_of
from recollect.engine.recall import Hit
from recollect.operations.catalogue import Output


class MessageView(Output):
    """One message."""

    id: str
    message_type: str
    content: str
    timestamp: datetime
    task_id: int | None = None
    session_id: str | None = None
    truncated: bool = False

    @classmethod
    def of(cls, shown: Shown) -> MessageView:
        """The message as its view."""
        message = shown.memory
        return cls(
            id=message.id,
            message_type=role_of(message),
            content=message.content,
            timestamp=message.occurred,
            task_id=task_of(message),
            session_id=session_of(message),
            truncated=shown.truncated,
        )


class FoundView(Output):
    """One thing that a project remembers: a message, or any other memory (then `message_type` is empty)."""

    id: str
    content: str
    message_type: str
    timestamp: datetime
    task_id: int | None = None
    similarity: float
    metadata: dict[str, Any] = {}
    kind: str
    session_id: str | None = None

    @classmethod
    def of(cls, hit: Hit) -> FoundView:
        """The hit as its view."""
        memory = hit.memory
        return cls(
            id=memory.id,
            content=hit.content,
            message_type=role_of(memory),
            timestamp=memory.occurred,
            task_id=task_of(memory),
            similarity=round(min(1.0, hit.score), 4),
            metadata=extras_of(memory) if role_of(memory) else {},
            kind=memory.kind,
            session_id=session_of(memory),
        )
