"""The summary of a project as resources: what is known about it, and all that it has said before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindhold.dialects.rest.project_memory import IN_PROJECT, MEMORY, PROJECT
from mindhold.dialects.rest.shape import Resource

SECTION = "Project summary"
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

RESOURCES = (
    Resource(
        method="GET",
        path=SUMMARY,
        operation="project_summary",
        section=SECTION,
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
        section=SECTION,
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
        section=SECTION,
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
        section=SECTION,
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
        section=SECTION,
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
        section=SECTION,
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
        section=SECTION,
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
