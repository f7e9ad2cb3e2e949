"""How a conversation is called in the archive."""

from __future__ import annotations

import re

from recollect.engine.keys import fingerprint
from recollect.ports.history import Conversation

LONGEST = 80
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def archive_name(conversation: Conversation) -> str:
    """Of its source and session, so that a person finds it, and of where it lay: two files may be of one session."""
    part = f"{_safe(conversation.file.stem)}." if conversation.part_of else ""
    mark = fingerprint(str(conversation.file))[:8]
    return f"{begins(conversation.source, conversation.belongs_to)}{part}{mark}"


def begins(source: str, session_id: str) -> str:
    """How the names of all that belongs to a session begin."""
    return f"{_safe(source)}-{_safe(session_id)}."


def _safe(text: str) -> str:
    return _UNSAFE.sub("_", text)[:LONGEST]
