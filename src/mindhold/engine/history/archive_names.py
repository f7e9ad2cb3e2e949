"""How a conversation is called in the archive."""

from __future__ import annotations

import re

from mindhold.engine.keys import fingerprint
from mindhold.ports.history import Conversation

LONGEST = 80
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


def archive_name(conversation: Conversation) -> str:
    """Of its source and session, so that a person finds it, and of where it lay: two files may be of one session."""
    part = f"{_safe(conversation.file.stem)}." if conversation.part_of else ""
    mark = fingerprint(str(conversation.file))[:8]
    return f"{begins(conversation.source, conversation.belongs_to)}{part}{mark}"


def begins(source: str, session_id: str) -> str:
    """How the names of all that belongs to a session begin, and no other's: an id that can't stand there as it is is told
    from those that look alike by a fingerprint."""
    told = _safe(session_id)
    mark = "" if told == session_id else f"_{fingerprint(session_id)[:16]}"
    return f"{_safe(source)}-{told}{mark}."


def _safe(text: str) -> str:
    return _UNSAFE.sub("_", text)[:LONGEST]
