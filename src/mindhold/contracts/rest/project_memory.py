"""Resources of a project's memory: messages, search, statistics, summary, import and export."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindhold.contracts.rest.resource import FieldProblem, Resource

MEMORY_SECTION = "Project memory"
MEMORY = "/api/projects/{project_id}/memory"
MESSAGES = f"{MEMORY}/messages"
IN_PROJECT: Mapping[str, str] = {"project_id": "project"}
IN_SESSION: Mapping[str, str] = {**IN_PROJECT, "session_id": "conversation"}
PROJECT: Mapping[str, Any] = {"project_id": "proj_123"}
WRONG: Mapping[str, FieldProblem] = {
    "message_type": FieldProblem(
        "INVALID_MESSAGE_TYPE", "Invalid message type. Must be one of: user, assistant, system"
    ),
    "content": FieldProblem("EMPTY_CONTENT", "The content must be a text that is not empty."),
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
_HIT: Mapping[str, Any] = {
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

MESSAGE_RESOURCES = (
    Resource(
        method="POST",
        path=MESSAGES,
        operation="save_message",
        section=MEMORY_SECTION,
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
        section=MEMORY_SECTION,
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
        section=MEMORY_SECTION,
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
        section=MEMORY_SECTION,
        summary="One message, whole however long it is.",
        names=IN_PROJECT,
        example={**PROJECT, "message_id": "01k2v9c3m4q8r7t6w5x1y0z2ab"},
        answer={**_ASKED, "metadata": {"session_id": "abc-123"}, "indexed": True, "quarantined": False},
    ),
    Resource(
        method="DELETE",
        path=MESSAGES,
        operation="delete_messages",
        section=MEMORY_SECTION,
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
        section=MEMORY_SECTION,
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
            "results": [_HIT],
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
        section=MEMORY_SECTION,
        summary="All that a new conversation should know.",
        description="The summary, the newest messages and the most relevant ones, within a budget of tokens.",
        names=IN_PROJECT,
        example={**PROJECT, "token_budget": 4000},
        answer={
            "project": "proj_123",
            "summary": "# Summary of proj_123\n\nA task management system.",
            "summary_version": 1,
            "recent_messages": [_ASKED, _TOLD],
            "rag_results": [_HIT],
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
        section=MEMORY_SECTION,
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

SUMMARY_SECTION = "Project summary"
SUMMARY = f"{MEMORY}/summary"
VERSIONS = f"{SUMMARY}/versions"
_RECORD = "01k2v9c3m4q8r7t6w5x1y0z2ad"
_TEXT = (
    "# Summary of proj_123\n\nThis is a task management system.\n\n## Key decisions\n"
    "- Chose MongoDB Atlas for scalability\n- Implemented JWT authentication"
)
_LISTS: Mapping[str, Any] = {
    "key_decisions": ["Chose MongoDB Atlas for scalability", "Implemented JWT authentication"],
    "tech_stack": ["Python", "FastAPI"],
    "patterns": ["Repository pattern for data access"],
    "gotchas": ["Check storage_mode before logging"],
}
_EDITION: Mapping[str, Any] = {
    "version": 15,
    "summary_length": len(_TEXT),
    "last_updated": "2025-11-27T11:00:00Z",
    "replaced_at": None,
    "by": "default",
    "trigger": "task_complete",
    "merged_by": "rules",
    "restored_version": None,
    "last_summarized_message_id": "01k2v9c3m4q8r7t6w5x1y0z2ac",
    "current": True,
}
_BEFORE: Mapping[str, Any] = {
    **_EDITION,
    "version": 14,
    "last_updated": "2025-11-26T09:30:00Z",
    "replaced_at": "2025-11-27T11:00:00Z",
    "trigger": "session_end",
    "current": False,
}
_ANEW: Mapping[str, Any] = {
    "success": True,
    "project": "proj_123",
    "summary": "A task management system with a FastAPI backend.",
    **_LISTS,
    "last_updated": "2025-11-27T14:30:00Z",
    "version": 16,
    "storage_mode": "local",
    "indexed": True,
    "memory_id": _RECORD,
    "etag": "16-9f2c61d0",
}

SUMMARY_RESOURCES = (
    Resource(
        method="GET",
        path=SUMMARY,
        operation="project_summary",
        section=SUMMARY_SECTION,
        summary="What is known about a project.",
        description="Version 0 and empty while nobody wrote one.",
        names=IN_PROJECT,
        versioned=True,
        example=PROJECT,
        answer={
            "project_id": "proj_123",
            "summary": _TEXT,
            **_LISTS,
            "version": 15,
            "last_updated": "2025-11-27T11:00:00Z",
            "summary_length": len(_TEXT),
            "last_summarized_message_id": "01k2v9c3m4q8r7t6w5x1y0z2ac",
            "storage_backend": "local",
            "etag": "15-1a2b3c4d",
        },
    ),
    Resource(
        method="POST",
        path=SUMMARY,
        operation="update_summary",
        section=SUMMARY_SECTION,
        summary="Work new insights into the summary.",
        description=(
            "What it says already is passed over, what has changed is replaced, and it never grows beyond its bounds: what matters "
            "least is condensed first, and is still in the versions before. With `last_summarized_message_id` the messages that were "
            "saved since the last one that it knows of are read too, up to that one; without it none are. An id of no message that "
            "can be read here, or of one before the last, leaves the mark where it is, and `notice` says so. What was taken from "
            "messages stays in the summary when they are deleted."
        ),
        names=IN_PROJECT,
        fixed={"create_project": False},
        versioned=True,
        example={
            **PROJECT,
            "trigger": "important_decision",
            "new_insights": "Decided to use MongoDB Atlas for vector search due to better performance with 1024d embeddings and "
            "sub-200ms query times.",
            "last_summarized_message_id": "msg_150",
        },
        answer={
            "status": "updated",
            "summary_version": 15,
            "summary_length": 11500,
            "last_updated": "2025-11-27T11:00:00Z",
            "storage_backend": "local",
            "project": "proj_123",
            "messages_included": 12,
            "merged_by": "rules",
            "indexed": True,
            "notice": "",
            "memory_id": _RECORD,
            "etag": "15-1a2b3c4d",
        },
    ),
    Resource(
        method="POST",
        path=f"{SUMMARY}/intelligent-update",
        operation="replace_summary",
        section=SUMMARY_SECTION,
        summary="Write the summary anew.",
        description="All of it is replaced, and the version before is kept. It is found by its meaning as all else is.",
        names=IN_PROJECT,
        fixed={"create_project": False},
        versioned=True,
        example={**PROJECT, "summary": "A task management system with a FastAPI backend.", **_LISTS},
        answer=_ANEW,
    ),
    Resource(
        method="GET",
        path=VERSIONS,
        operation="summary_versions",
        section=SUMMARY_SECTION,
        summary="Every version of the summary, the latest first.",
        names=IN_PROJECT,
        example={**PROJECT, "limit": 2},
        answer={
            "project_id": "proj_123",
            "versions": [_EDITION, _BEFORE],
            "count": 2,
            "next": None,
            "storage_backend": "local",
        },
    ),
    Resource(
        method="GET",
        path=f"{VERSIONS}/{{version}}",
        operation="summary_version",
        section=SUMMARY_SECTION,
        summary="What one version of the summary said.",
        names=IN_PROJECT,
        codes=("VERSION_NOT_FOUND",),
        example={**PROJECT, "version": 14},
        answer={
            **_BEFORE,
            "project_id": "proj_123",
            "summary": _TEXT,
            **_LISTS,
            "withheld": False,
            "storage_backend": "local",
        },
    ),
    Resource(
        method="GET",
        path=f"{SUMMARY}/diff",
        operation="summary_diff",
        section=SUMMARY_SECTION,
        summary="What differs between two versions of the summary.",
        description="The latest and the one before unless told otherwise. Version 0 is the empty one before the first.",
        names={**IN_PROJECT, "from": "from_version", "to": "to_version"},
        codes=("VERSION_NOT_FOUND",),
        example={**PROJECT, "from": 14, "to": 15},
        answer={
            "project_id": "proj_123",
            "from_version": 14,
            "to_version": 15,
            "diff": "--- version 14\n+++ version 15\n@@ -5,2 +5,3 @@\n ## Key decisions\n"
            " - Chose MongoDB Atlas for scalability\n+- Implemented JWT authentication",
            "sections": [
                {"section": "key_decisions", "added": ["Implemented JWT authentication"], "removed": []}
            ],
            "storage_backend": "local",
        },
    ),
    Resource(
        method="POST",
        path=f"{VERSIONS}/{{version}}/restore",
        operation="restore_summary",
        section=SUMMARY_SECTION,
        summary="Make a new version that says what an old one said.",
        description=(
            "None is lost by it: those in between stay what they are. It knows of the messages that the old one knew of: the next "
            "update that names a message reads again those that were saved since."
        ),
        names=IN_PROJECT,
        versioned=True,
        codes=("VERSION_NOT_FOUND",),
        example={**PROJECT, "version": 14},
        answer={**_ANEW, "summary": _TEXT, "restored_version": 14},
    ),
)

BULK_SECTION = "In bulk"
MESSAGES_PATH = "/api/projects/{project_id}/memory/messages"
MESSAGE = {
    "message_type": "user",
    "content": "How do I implement authentication?",
    "task_id": 42,
    "session_id": "abc-123",
    "timestamp": "2025-11-27T10:30:00Z",
}
SAVED = {
    "status": "saved",
    "imported": 1,
    "repeated": 0,
    "failed": 0,
    "indexed": 1,
    "quarantined": 0,
    "redacted": 0,
    "errors": [],
    "message_ids": ["01k8zj5v6n7q4x2m9c3d8e1f0g"],
    "embedding_model": "all-MiniLM-L6-v2",
    "storage_backend": "local",
    "project": "proj_123",
    "seconds": 0.012,
}

BULK_RESOURCES = (
    Resource(
        method="POST",
        path=f"{MESSAGES_PATH}/batch",
        operation="save_messages",
        section=BULK_SECTION,
        summary="Save up to 1,000 messages.",
        description=(
            "One that can't be stored is told by its number, and the others are stored. With an `Idempotency-Key` each is "
            "stored once under that key and its number: whatever broke off can be sent again."
        ),
        names={"project_id": "project"},
        fixed={"create_project": False},
        status=201,
        example={"project_id": "proj_123", "messages": [MESSAGE]},
        answer=SAVED,
    ),
    Resource(
        method="POST",
        path=f"{MESSAGES_PATH}/import",
        operation="save_messages",
        id="import_messages",
        section=BULK_SECTION,
        summary="Import any number of messages.",
        description=(
            "The body is `application/x-ndjson`: a message a line, streamed, and stored while it arrives. A line that can't be "
            "stored is told by its number (the first 100 of them), and the rest goes on. With an `Idempotency-Key` an import "
            "that broke off can be sent again: what is there is counted as `repeated`, what says something else than it did is "
            "an error of that line, and what was deleted is stored again. When the server stops, what came is stored, and the "
            "answer is 503 with the counts. `embed=false` leaves it to a job to "
            "make the messages findable by meaning. With `Accept: application/x-ndjson` the counts are told about every "
            "second, and the last line is the answer."
        ),
        names={"project_id": "project"},
        query=("embed",),
        fixed={"create_project": False},
        hidden=frozenset({"first"}),
        wrong=WRONG,
        example={"project_id": "proj_123", "messages": [MESSAGE]},
        answer={**SAVED, "imported": 100_000, "indexed": 100_000, "message_ids": [], "seconds": 214.6},
        stream="import",
    ),
    Resource(
        method="GET",
        path="/api/projects/{project_id}/export",
        operation="export",
        id="export_project",
        section=BULK_SECTION,
        summary="A project's memories as lines of JSON.",
        description="As `mindhold export` writes them, and `mindhold import` reads them again. For the owner.",
        names={"project_id": "scope"},
        hidden=frozenset({"path", "memory_mcp", "format"}),
        example={"project_id": "proj_123"},
        stream="export",
    ),
    Resource(
        method="GET",
        path="/api/export",
        operation="export",
        section=BULK_SECTION,
        summary="All memories as lines of JSON.",
        description="As `mindhold export` writes them, and `mindhold import` reads them again. For the owner.",
        hidden=frozenset({"path", "memory_mcp", "format"}),
        stream="export",
    ),
)
