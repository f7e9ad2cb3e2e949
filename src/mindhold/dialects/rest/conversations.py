"""The conversations of the log and their summaries, as resources."""

from __future__ import annotations

from mindhold.dialects.rest.samples import ID, NOW, THEN
from mindhold.dialects.rest.shape import Resource

SECTION = "Conversations"
RECAP = {
    "id": ID,
    "content": "Conversation of 2026-11-16, 24 messages.\nDecided:\n- user: We chose PostgreSQL 16.",
    "level": 1,
    "scope": "shop",
    "agent": "default",
    "conversation": "abc-123",
    "part": 0,
    "start": THEN,
    "end": NOW,
    "count": 24,
    "tokens": 26,
    "made_by": "rules",
    "message_refs": ["01k2v9c3m4q8r7t6w5x1y0z2ab"],
    "archived": False,
}

RESOURCES = (
    Resource(
        method="GET",
        path="/api/conversations",
        operation="list_conversations",
        section=SECTION,
        summary="The conversations of the log, each with its summary.",
        description="What was saved message by message; other programs' transcripts are under `/api/history`.",
        example={"project": "shop", "limit": 10},
        answer={
            "conversations": [
                {
                    "conversation": "abc-123",
                    "scope": "shop",
                    "messages": 24,
                    "first": THEN,
                    "last": NOW,
                    "recap": RECAP,
                }
            ]
        },
    ),
    Resource(
        method="POST",
        path="/api/conversations/{conversation}/recap",
        operation="recap",
        section=SECTION,
        summary="Summarise a conversation now.",
        description="Of the caller's own messages. By itself that happens when it ends, falls silent or grows long.",
        codes=("SESSION_NOT_FOUND",),
        example={"conversation": "abc-123", "project": "shop"},
        answer={"recap": RECAP, "made": True, "notice": ""},
    ),
    Resource(
        method="GET",
        path="/api/recaps",
        operation="list_recaps",
        section=SECTION,
        summary="Summaries of conversations, months and years, the latest first.",
        codes=("UNKNOWN_TIME",),
        example={"project": "shop", "level": 1, "limit": 5},
        answer={"recaps": [RECAP], "next": None},
    ),
    Resource(
        method="GET",
        path="/api/recaps/{id}/messages",
        operation="recap_messages",
        section=SECTION,
        summary="The messages that a summary stands for.",
        example={"id": ID, "limit": 1},
        answer={
            "id": ID,
            "messages": [
                {
                    "id": "01k2v9c3m4q8r7t6w5x1y0z2ab",
                    "message_type": "user",
                    "content": "We chose PostgreSQL 16.",
                    "timestamp": NOW,
                    "task_id": None,
                    "session_id": "abc-123",
                    "truncated": False,
                }
            ],
            "total": 24,
        },
    ),
)
