"""What a conversation's name becomes when it is kept, and so what it is looked for by."""

from __future__ import annotations

from typing import Any

from mindhold.engine.checks import LONGEST_SOURCE, safe_text
from mindhold.engine.conversations import DOCUMENT
from mindhold.engine.core import Engine
from mindhold.model.errors import InvalidInput
from mindhold.model.memory import Memory

WITHOUT_SESSION = "log:"  # before a project's name: the conversation of messages that name none
OURS = (WITHOUT_SESSION, DOCUMENT)


def session_name(engine: Engine, name: Any) -> str | None:
    """As it is kept: safe, without blanks around it; None for none. Raises InvalidInput for what can't be one."""
    if name is None:
        return None
    if not isinstance(name, str):
        raise InvalidInput(
            f"The session_id {str(name)[:40]!r} is no text.", advice="Give a text, or leave it out."
        )
    if len(name) > LONGEST_SOURCE:
        raise InvalidInput(f"The session_id has over {LONGEST_SOURCE:,} characters.", advice="Shorten it.")
    kept = safe_text(engine, name).strip()
    if kept.startswith(OURS):
        raise InvalidInput(
            f"The session_id {kept[:40]!r} can't be one: names that begin with {' or '.join(OURS)} are Mindhold's own.",
            advice="Choose another one.",
        )
    return kept or None


def asked_session(engine: Engine, name: str | None) -> str | None:
    """The one to look for. Raises InvalidInput for an empty one too, which would otherwise mean all."""
    kept = session_name(engine, name)
    if name is not None and kept is None:
        raise InvalidInput("The session_id is empty.", advice="Name a session, or leave it out.")
    return kept


def session_of(memory: Memory) -> str | None:
    """The conversation that it was said in, unless the name is only ours."""
    conversation = memory.provenance.conversation
    return None if not conversation or conversation.startswith(OURS) else conversation
