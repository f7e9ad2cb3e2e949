"""How it is, and what keeps it in order, as resources."""

from __future__ import annotations

from recollect.dialects.rest.samples import (
    BACKUP,
    CONTRADICTION,
    COUNTS,
    ID,
    LISTED_BACKUP,
    NOW,
    SHARE,
    TALLY,
    THEN,
)
from recollect.dialects.rest.shape import Resource

SECTION = "Upkeep"
DONE = {
    "stages": [{"stage": "decay", "changed": 12, "detail": "12 faded", "seconds": 0.2, "looked": 1523}],
    "operations": ["decay: 12 faded"],
    "seconds": 0.4,
    "archived": [{"id": ID, "why": "nobody asked for it in 90 days"}],
    "counts": {"archived": 1},
}
FEEDBACK = {
    "tools": {
        "recall": {
            "whole": TALLY,
            "lately": TALLY,
            "before": {"count": 0, "relevant": 0, "sufficient": 0, "served": 0, "share": None},
            "trend": None,
            "suggestions": [{"text": "Fewer, please.", "context": "", "when": NOW}],
        }
    },
    "tasks": {"count": 3, "succeeded": 3, "share": 1.0, "highlights": [], "pain_points": []},
}

_STATE = (
    Resource(
        method="GET",
        path="/api/status",
        operation="status",
        section=SECTION,
        summary="How things are, at a glance.",
        answer={
            "version": "0.1.0",
            "store": {"kind": "sqlite"},
            "memories": 1523,
            "by_status": {"active": 1523},
            "by_kind": {"fact": 900, "episode": 623},
            "by_scope": {"Global": 23, "shop": 1500},
            "embedded": 1523,
            "model": "all-MiniLM-L6-v2",
            "models": ["all-MiniLM-L6-v2"],
            "rung": "semantic",
            "jobs": {"waiting": 1},
            "dead_jobs": [],
            "notice": "",
        },
    ),
    Resource(
        method="GET",
        path="/api/stats",
        operation="stats",
        section=SECTION,
        summary="How much is remembered.",
        answer={
            "total": 1523,
            "by_status": {"active": 1523},
            "by_kind": {"fact": 900, "episode": 623},
            "by_tier": {"warm": 1523},
            "by_scope": {"Global": 23, "shop": 1500},
            "by_agent": {"default": 1523},
            "embedded": 1523,
            "embedded_ratio": 1.0,
            "anchors": 2,
            "unverified": 0,
            "pending_contradictions": 1,
            "links": 310,
            "conversations": 12,
            "feedback": {"recall": {"relevant": 9, "sufficient": 8, "count": 10}},
            "tasks": {"succeeded": 3, "count": 3},
            "last_backup": THEN,
            "bytes_used": 48213000,
            "megabytes": 48.21,
            "rung": "semantic",
            "jobs": {},
            "models_today": {
                "calls": 4,
                "failed": 0,
                "tokens_in": 3100,
                "tokens_out": 420,
                "daily_tokens": 100000,
            },
            "services_today": {"calls": 0, "failed": 0, "tokens": 0, "dollars": 0.0, "daily_tokens": 0},
        },
    ),
    Resource(
        method="GET",
        path="/api/spend",
        operation="spend",
        section=SECTION,
        summary="What models have cost, and for what.",
        description="For the owner.",
        example={"days": 7},
        answer={
            "days": [{"name": "2026-11-16", **SHARE}],
            "purposes": [{"name": "summary", **SHARE}],
            "models": [{"name": "claude-haiku", **SHARE}],
            "total": {"name": "", **SHARE},
            "today": {
                "tokens": 3520,
                "daily_tokens": 100000,
                "tokens_left": 96480,
                "dollars": 0.0084,
                "daily_dollars": 0.0,
                "dollars_left": None,
            },
        },
    ),
    Resource(
        method="POST",
        path="/api/feedback",
        operation="feedback",
        section=SECTION,
        summary="Say whether an answer served.",
        description="`memories` are the ones that it is about: they count for more or less by it.",
        status=201,
        codes=("MEMORY_NOT_FOUND",),
        example={"tool_name": "recall", "relevant": True, "sufficient": False, "memories": [ID]},
        answer={"id": ID, "recorded": True, "rated": 1},
    ),
    Resource(
        method="GET",
        path="/api/feedback",
        operation="feedback_report",
        section=SECTION,
        summary="What callers think of the answers.",
        answer=FEEDBACK,
    ),
)


def _judged(word: str, summary: str) -> Resource:
    return Resource(
        method="POST",
        path=f"/api/contradictions/{{id}}/{word}",
        operation=f"{word}_contradiction",
        section=SECTION,
        summary=summary,
        example={"id": CONTRADICTION["id"]},
        answer={"contradiction": CONTRADICTION},
    )


_ORDER = (
    Resource(
        method="GET",
        path="/api/contradictions",
        operation="list_contradictions",
        section=SECTION,
        summary="Memories that deny each other: found ones, and those that wait for a judgement.",
        example={"limit": 10},
        answer={"found": [], "pending": [CONTRADICTION]},
    ),
    _judged("confirm", "A pending one is one: the later memory takes the earlier one's place."),
    _judged("dismiss", "A pending one is none; it isn't raised again."),
    _judged("undo", "Take a found one back; it isn't found again."),
    Resource(
        method="POST",
        path="/api/consolidate",
        operation="consolidate",
        section=SECTION,
        summary="Do the upkeep that is due.",
        description="For the owner. A `dry_run` changes nothing and tells what would be done.",
        example={"dry_run": True},
        answer=DONE,
    ),
    Resource(
        method="GET",
        path="/api/consolidate/reports",
        operation="consolidation_reports",
        section=SECTION,
        summary="What earlier consolidations did, the newest first.",
        description="For the owner.",
        example={"limit": 3},
        answer={"reports": [{**DONE, "started": NOW}]},
    ),
    Resource(
        method="POST",
        path="/api/backups",
        operation="backup",
        section=SECTION,
        summary="Write everything of everybody into a verified file.",
        description="For the owner. The file lies in the server's folder of backups.",
        status=201,
        example={"name": "before-the-move"},
        answer={**BACKUP, **COUNTS, "vectors": 1523, "entries": 61, "jobs": 2},
    ),
    Resource(
        method="GET",
        path="/api/backups",
        operation="list_backups",
        section=SECTION,
        summary="The backups that there are, the newest first.",
        description="For the owner.",
        answer={"backups": [LISTED_BACKUP]},
    ),
    Resource(
        method="POST",
        path="/api/backups/{file}/verify",
        operation="verify_backups",
        section=SECTION,
        summary="Prove a backup by restoring it to a temporary place.",
        description="For the owner. What is restored is counted and compared; nothing that is there is touched.",
        hidden=frozenset({"all"}),
        example={"file": BACKUP["file"]},
        answer={
            "good": True,
            "backups": [
                {"file": BACKUP["file"], "good": True, "memories": 1523, "vectors": 1523, "encrypted": False}
            ],
        },
    ),
    Resource(
        method="DELETE",
        path="/api/backups/{file}",
        operation="drop_backup",
        section=SECTION,
        summary="Remove a backup for good.",
        description="For the owner.",
        example={"file": BACKUP["file"]},
        answer={"dropped": LISTED_BACKUP},
    ),
    Resource(
        method="POST",
        path="/api/backups/{file}/restore",
        operation="restore",
        section=SECTION,
        summary="Bring back what a backup holds and isn't there any more.",
        description="For the owner. `file` is a name that the list of backups has. Everything as it is now is put aside first.",
        example={"file": BACKUP["file"]},
        answer={
            "file": BACKUP["file"],
            **COUNTS,
            "skipped": 1500,
            "safety": "before-restore-20261116T103000Z.backup",
        },
    ),
)

RESOURCES = (*_STATE, *_ORDER)
