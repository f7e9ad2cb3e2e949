"""What a project remembers, as answers show it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from mindhold.engine.core import LEAST_TRUST
from mindhold.engine.message_log import Whole
from mindhold.engine.messages import Shown, extras_of, role_of, session_of, task_of
from mindhold.engine.recall import Hit
from mindhold.engine.verbatim import PARTS
from mindhold.model.memory import PART, Status
from mindhold.operations.catalogue import Output

NOBODY = "system"  # who says what is no message
_FORMS = frozenset({"int8", "float", "float32", "fp32"})


def plain_model(name: str | None) -> str | None:
    """The model's own name, without who serves it and in which form: as other programs call it."""
    if name is None:
        return None
    model = name.partition(":")[2] or name
    own, _, form = model.rpartition("/")
    return own if own and (form in _FORMS or form.isdecimal()) else model


class MessageView(Output):
    """One message. `truncated` says that there is more of it than `content`: one message alone is shown whole."""

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


class WholeMessageView(MessageView):
    """One message with all of its text, and what was given along with it."""

    metadata: dict[str, Any] = {}
    indexed: bool
    quarantined: bool = False  # it reads like instructions to its reader: shown by its id alone

    @classmethod
    def of_whole(cls, whole: Whole) -> WholeMessageView:
        """The message as its view."""
        message = whole.memory
        return cls(
            id=message.id,
            message_type=role_of(message),
            content=whole.content,
            timestamp=message.occurred,
            task_id=task_of(message),
            session_id=session_of(message),
            metadata=extras_of(message),
            indexed=message.embedded_by is not None,
            quarantined=message.status is Status.QUARANTINED or message.trust < LEAST_TRUST,
        )


class FoundView(Output):
    """One thing that a project remembers: a message, or any other memory, told by `kind` (its `message_type` is `system`).

    Of a long message `content` is what answers best; `truncated` says that there is more of it, which its `id` gives whole.
    Results are in order of `score`, which weighs words and meaning together. `similarity` is the cosine of the question's
    vector and its own; where no vector was compared, for it has none yet or there is no model, it is the score.
    """

    id: str
    content: str
    message_type: str
    timestamp: datetime
    task_id: int | None = None
    similarity: float
    score: float
    metadata: dict[str, Any] = {}
    kind: str
    session_id: str | None = None
    truncated: bool = False

    @classmethod
    def of(cls, hit: Hit) -> FoundView:
        """The hit as its view."""
        memory = hit.memory
        return cls(
            id=memory.id,
            content=hit.content,
            message_type=role_of(memory) or NOBODY,
            timestamp=memory.occurred,
            task_id=task_of(memory),
            similarity=_share(hit.score if hit.similarity is None else hit.similarity),
            score=_share(hit.score),
            metadata=extras_of(memory) if role_of(memory) else {},
            kind=memory.kind,
            session_id=session_of(memory),
            truncated=hit.truncated or PARTS in memory.metadata or PART in memory.metadata,
        )


def _share(value: float) -> float:
    return round(min(1.0, max(0.0, value)), 4)
