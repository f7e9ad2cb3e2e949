"""The log of a project as resources: messages, search, statistics, and all that a new conversation should know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindhold.dialects.rest.shape import Resource, Wrong

SECTION = "Project memory"
MEMORY = "/api/projects/{project_id}/memory"
MESSAGES = f"{MEMORY}/messages"
IN_PROJECT: Mapping[str, str] = {"project_id": "project"}
IN_SESSION: Mapping[str, str] = {**IN_PROJECT, "session_id": "conversation"}
PROJECT: Mapping[str, Any] = {"project_id": "proj_123"}
WRONG: Mapping[str, Wrong] = {
    "message_type": Wrong(
        "INVALID_MESSAGE_TYPE", "Invalid message type. Must be one of: user, assistant, system"
    ),
    "content": Wrong("EMPTY_CONTENT", "The content must be a text that is not empty."),
}
WHOLE = (
    "Messages come whole, however long they are; where those over 4,000 characters have 4,000,000 together, the first "
    "part of the others comes, and `truncated` says so."
)

_ASKED: Mapping[str, Any] = {
    "id": "01k2v9c3m4q8r7t6w5x1y0z2ab",
    "message_type": "user",
    "content": "How do I add authentication?",
    "timestamp": "2025-11-27T10:30:00Z",
    "task_id": 42,
    "session_id": "abc-123",
    "truncated": False,
}
_TOLD: Mapping[str, Any] = {
    **_ASKED,
    "id": "01k2v9c3m4q8r7t6w5x1y0z2ac",
    "message_type": "assistant",
    "content": "To add authentication, use FastAPI with JWT tokens.",
    "timestamp": "2025-11-27T10:31:00Z",
}
_FOUND: Mapping[str, Any] = {
    "id": "01k2v9c3m4q8r7t6w5x1y0z2ac",
    "content": "We implemented JWT authentication with refresh tokens.",
    "message_type": "assistant",
    "timestamp": "2025-11-25T14:20:00Z",
    "task_id": 38,
    "similarity": 0.89,
    "score": 0.93,
    "metadata": {"session_id": "xyz-789", "context": "security-feature"},
    "kind": "episode",
    "session_id": "xyz-789",
    "truncated": False,
}

RESOURCES = (
    Resource(
        method="POST",
        path=MESSAGES,
        operation="save_message",
        section=SECTION,
        summary="Save a message.",
        description=(
            "It is saved even where its meaning can't be worked out at once: then `indexed` is false, and a job catches up. "
            "`session_id` names its session, a text; `timestamp` says when it was said, as ISO 8601. Both may stand in `metadata` "
            "instead; where they stand twice, these hold. `redacted` has the kinds of secrets and personal data that were replaced."
        ),
        names=IN_SESSION,
        fixed={"create_project": False},
        status=201,
        location="/api/projects/{project}/memory/messages/{message_id}",
        wrong=WRONG,
        example={
            **PROJECT,
            "message_type": "user",
            "content": "How do I implement authentication?",
            "task_id": 42,
            "metadata": {
                "session_id": "abc-123",
                "timestamp": "2025-11-27T10:30:00Z",
                "context": "authentication-feature",
            },
        },
        answer={
            "message_id": "01k2v9c3m4q8r7t6w5x1y0z2ab",
            "status": "saved",
            "indexed": True,
            "embedding_model": "all-MiniLM-L6-v2",
            "storage_backend": "local",
            "project": "proj_123",
            "quarantined": False,
            "redacted": [],
        },
    ),
    Resource(
        method="GET",
        path=MESSAGES,
        operation="list_messages",
        section=SECTION,
        summary="All messages, page by page.",
        description=WHOLE,
        names=IN_SESSION,
        fixed={"whole": True},
        example={**PROJECT, "limit": 2, "session_id": "abc-123"},
        answer={"messages": [_TOLD, _ASKED], "next": None, "storage_backend": "local"},
    ),
    Resource(
        method="GET",
        path=f"{MESSAGES}/recent",
        operation="recent_messages",
        section=SECTION,
        summary="The newest messages, oldest of them first.",
        description=WHOLE,
        names=IN_SESSION,
        fixed={"whole": True},
        example={**PROJECT, "limit": 50},
        answer={"messages": [_ASKED, _TOLD], "count": 2, "storage_backend": "local"},
    ),
    Resource(
        method="GET",
        path=f"{MESSAGES}/{{message_id}}",
        operation="show_message",
        section=SECTION,
        summary="One message, whole however long it is.",
        names=IN_PROJECT,
        example={**PROJECT, "message_id": "01k2v9c3m4q8r7t6w5x1y0z2ab"},
        answer={**_ASKED, "metadata": {"session_id": "abc-123"}, "indexed": True, "quarantined": False},
    ),
    Resource(
        method="DELETE",
        path=MESSAGES,
        operation="delete_messages",
        section=SECTION,
        summary="Delete messages for good.",
        description=(
            "By message, session, task or date; of several, all must hold. Nothing is left of them: neither their parts, "
            "links and vectors, nor what was made of them."
        ),
        names={**IN_SESSION, "before_date": "before"},
        codes=("NO_CRITERIA", "SESSION_NOT_FOUND", "TASK_NOT_FOUND"),
        example={**PROJECT, "task_id": 42},
        answer={"deleted_count": 42, "storage_backend": "local", "kept_count": 0, "notice": ""},
    ),
    Resource(
        method="POST",
        path=f"{MEMORY}/search",
        operation="search_messages",
        section=SECTION,
        summary="Find what a project remembers.",
        description=(
            "Messages and other memories, by words and meaning, the most relevant first. Each comes once: of a long message "
            "`content` is what answers best, `truncated` is true, and its `id` gives it whole. Another memory has the "
            "`message_type` system, and its own `kind`. `similarity` is the cosine of the vectors; where none was compared, "
            "it is the score that results are ordered by."
        ),
        names=IN_SESSION,
        fixed={"whole": True, "summary": False},
        example={**PROJECT, "query": "authentication implementation patterns", "limit": 20},
        answer={
            "results": [_FOUND],
            "query_embedding_model": "all-MiniLM-L6-v2",
            "search_method": "hybrid",
            "count": 1,
            "storage_backend": "local",
        },
    ),
    Resource(
        method="GET",
        path=f"{MEMORY}/context",
        operation="project_context",
        section=SECTION,
        summary="All that a new conversation should know.",
        description="The summary, the newest messages and the most relevant ones, within a budget of tokens.",
        names=IN_PROJECT,
        example={**PROJECT, "token_budget": 4000},
        answer={
            "project": "proj_123",
            "summary": "# Summary of proj_123\n\nA task management system.",
            "summary_version": 1,
            "recent_messages": [_ASKED, _TOLD],
            "rag_results": [_FOUND],
            "tokens": 410,
            "token_budget": 4000,
            "left_out": "",
            "storage_backend": "local",
        },
    ),
    Resource(
        method="GET",
        path=f"{MEMORY}/stats",
        operation="project_stats",
        section=SECTION,
        summary="How many messages there are, and how their index is.",
        description=(
            "`chromadb_collection` and `chromadb_location` name the index of vectors and its file, for projects that live in "
            "a local file; `collection_name` and `vector_index_name` are of those on a server."
        ),
        names=IN_PROJECT,
        example=PROJECT,
        answer={
            "total_messages": 842,
            "indexed_messages": 842,
            "unindexed_messages": 0,
            "storage_backend": "local",
            "embedding_model": "all-MiniLM-L6-v2",
            "embedding_dimensions": 384,
            "collection_name": None,
            "vector_index_name": None,
            "chromadb_collection": "vector_code",
            "chromadb_location": "/home/me/.mindhold/data/mindhold.db",
            "oldest_message": "2025-10-15T09:00:00Z",
            "newest_message": "2025-11-27T11:00:00Z",
            "index_health": "healthy",
            "index_note": "",
        },
    ),
)
