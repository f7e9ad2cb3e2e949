"""Much at once: messages in, everything out."""

from __future__ import annotations

from mindhold.dialects.rest.project_memory import WRONG
from mindhold.dialects.rest.shape import Resource

SECTION = "In bulk"
MESSAGES = "/api/projects/{project_id}/memory/messages"
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

RESOURCES = (
    Resource(
        method="POST",
        path=f"{MESSAGES}/batch",
        operation="save_messages",
        section=SECTION,
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
        path=f"{MESSAGES}/import",
        operation="save_messages",
        id="import_messages",
        section=SECTION,
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
        section=SECTION,
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
        section=SECTION,
        summary="All memories as lines of JSON.",
        description="As `mindhold export` writes them, and `mindhold import` reads them again. For the owner.",
        hidden=frozenset({"path", "memory_mcp", "format"}),
        stream="export",
    ),
)
