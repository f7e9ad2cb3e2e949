"""Resources for status, statistics, maintenance, backups, jobs and events."""

from __future__ import annotations

from mindhold.contracts.rest.examples import (
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
from mindhold.contracts.rest.resource import Resource

UPKEEP_SECTION = "Upkeep"
DONE = {
    "stages": [{"stage": "decay", "changed": 12, "detail": "12 faded", "seconds": 0.2, "looked": 1523}],
    "operations": ["decay: 12 faded"],
    "seconds": 0.4,
    "archived": [{"id": ID, "why": "nobody asked for it in 90 days"}],
    "counts": {"archived": 1},
}
AUDIT = {
    "id": ID,
    "when": NOW,
    "what": "retention",
    "who": "system",
    "operations": ["archived 20 messages that summaries stand for"],
    "counts": {"archived": 20},
    "back": f"mindhold audit undo {ID}",
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
        section=UPKEEP_SECTION,
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
        section=UPKEEP_SECTION,
        summary="How much is remembered.",
        answer={
            "total": 1523,
            "by_status": {"active": 1523},
            "by_kind": {"fact": 900, "episode": 623},
            "by_tier": {"warm": 1523},
            "by_scope": {"Global": 23, "shop": 1500},
            "by_agent": {"default": 1523},
            "by_source": {"messages": 1200, "notes": 300, "summaries": 20, "profile_facts": 3},
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
        section=UPKEEP_SECTION,
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
        section=UPKEEP_SECTION,
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
        section=UPKEEP_SECTION,
        summary="What callers think of the answers.",
        answer=FEEDBACK,
    ),
)


def _judged(word: str, summary: str) -> Resource:
    return Resource(
        method="POST",
        path=f"/api/contradictions/{{id}}/{word}",
        operation=f"{word}_contradiction",
        section=UPKEEP_SECTION,
        summary=summary,
        example={"id": CONTRADICTION["id"]},
        answer={"contradiction": CONTRADICTION},
    )


_ORDER = (
    Resource(
        method="GET",
        path="/api/contradictions",
        operation="list_contradictions",
        section=UPKEEP_SECTION,
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
        section=UPKEEP_SECTION,
        summary="Do the upkeep that is due.",
        description="For the owner. A `dry_run` changes nothing and tells what would be done.",
        example={"dry_run": True},
        answer=DONE,
    ),
    Resource(
        method="GET",
        path="/api/consolidate/reports",
        operation="consolidation_reports",
        section=UPKEEP_SECTION,
        summary="What earlier consolidations did, the newest first.",
        description="For the owner.",
        example={"limit": 3},
        answer={"reports": [{**DONE, "started": NOW}]},
    ),
    Resource(
        method="GET",
        path="/api/audit",
        operation="list_audit",
        section=UPKEEP_SECTION,
        summary="What upkeep did, run by run, the newest first.",
        description="For the owner. Consolidations are among them.",
        example={"limit": 3},
        answer={"records": [AUDIT]},
    ),
    Resource(
        method="GET",
        path="/api/audit/{id}",
        operation="show_audit",
        section=UPKEEP_SECTION,
        summary="One run of upkeep, with the memories that it concerns.",
        description="For the owner.",
        codes=("NOT_FOUND",),
        example={"id": ID},
        answer={**AUDIT, "memories": [{"id": ID, "what": "archived", "why": "a summary stands for it"}]},
    ),
    Resource(
        method="POST",
        path="/api/audit/{id}/undo",
        operation="undo_audit",
        section=UPKEEP_SECTION,
        summary="Bring back what a run of upkeep archived, as far as it is archived still.",
        description="For the owner.",
        codes=("NOT_FOUND",),
        example={"id": ID},
        answer={"id": ID, "restored": [ID], "count": 1, "passed_over": 0},
    ),
    Resource(
        method="POST",
        path="/api/maintain",
        operation="maintain",
        section=UPKEEP_SECTION,
        summary="Do all the upkeep in one run.",
        description="For the owner. A `dry_run` changes nothing; a step that fails is told and keeps no other from running.",
        example={"dry_run": True, "backup": False},
        answer={
            "steps": [
                {
                    "step": "consolidate",
                    "changed": 20,
                    "detail": "duplicates: 20 merged",
                    "seconds": 0.4,
                    "counts": {"merged": 20},
                }
            ],
            "operations": ["removed_20_duplicate_entries"],
            "seconds": 0.6,
            "dry_run": True,
        },
    ),
    Resource(
        method="POST",
        path="/api/backups",
        operation="backup",
        section=UPKEEP_SECTION,
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
        section=UPKEEP_SECTION,
        summary="The backups that there are, the newest first.",
        description="For the owner.",
        answer={"backups": [LISTED_BACKUP]},
    ),
    Resource(
        method="POST",
        path="/api/backups/{file}/verify",
        operation="verify_backups",
        section=UPKEEP_SECTION,
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
        section=UPKEEP_SECTION,
        summary="Remove a backup for good.",
        description="For the owner.",
        example={"file": BACKUP["file"]},
        answer={"dropped": LISTED_BACKUP},
    ),
    Resource(
        method="POST",
        path="/api/backups/{file}/restore",
        operation="restore",
        section=UPKEEP_SECTION,
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

UPKEEP_RESOURCES = (*_STATE, *_ORDER)

MEMORY = "Project memory"
JOBS = "Jobs"
EVENTS = "Events"
PROJECT = {"project_id": "project"}
REINDEX = "/api/projects/{project_id}/memory/reindex"
GONE = ("JOB_NOT_FOUND",)
JOB = {"job_id": "id"}
ONE = "reindex_01jxq3k5v6w7x8y9z0a1b2c3d4"
_JOB = {
    "id": ONE,
    "name": "reindex",
    "state": "running",
    "attempts": 1,
    "most_attempts": 5,
    "created": THEN,
    "due": THEN,
    "progress": 0.4202,
    "done": 640,
    "total": 1523,
}
_STANDING = {
    "job_id": ONE,
    "status": "running",
    "progress": 0.4202,
    "done": 640,
    "total": 1523,
    "estimated_time_seconds": 4,
    "created": THEN,
}

_REINDEX = (
    Resource(
        method="POST",
        path=REINDEX,
        operation="reindex_project",
        section=MEMORY,
        summary="Reindex messages.",
        description="Begins a job that gives every message a vector that has none, or with `force` all of them anew. The "
        "project's other memories come along. A project has one such job at a time: while it is under way, it is the answer; "
        "`force` takes the place of one that isn't forced.",
        names=PROJECT,
        query=("force",),
        codes=("EMBEDDING_SERVICE_ERROR",),
        example={"project_id": "proj_123", "force": False},
        answer={
            "status": "reindexing_started",
            "total_messages": 1523,
            "messages_to_index": 15,
            "estimated_time_seconds": 8,
            "job_id": ONE,
        },
    ),
    Resource(
        method="GET",
        path=REINDEX + "/{job_id}",
        operation="reindex_status",
        section=MEMORY,
        summary="How far the reindexing is.",
        names=PROJECT,
        example={"project_id": "proj_123", "job_id": ONE},
        answer=_STANDING,
    ),
    Resource(
        method="POST",
        path=REINDEX + "/{job_id}/cancel",
        operation="cancel_reindex",
        section=MEMORY,
        summary="Give up the reindexing.",
        description="Waiting or under way, also in another process. What has its vector by then keeps it.",
        names=PROJECT,
        example={"project_id": "proj_123", "job_id": ONE},
        answer=_STANDING | {"status": "cancelled", "estimated_time_seconds": 0},
    ),
    Resource(
        method="DELETE",
        path=REINDEX + "/{job_id}",
        operation="cancel_reindex",
        id="delete_reindex",
        section=MEMORY,
        summary="Give up the reindexing.",
        names=PROJECT,
        example={"project_id": "proj_123", "job_id": ONE},
        answer=_STANDING | {"status": "cancelled", "estimated_time_seconds": 0},
    ),
)
_JOBS = (
    Resource(
        method="GET",
        path="/api/jobs",
        operation="list_jobs",
        section=JOBS,
        summary="Jobs, the newest first.",
        answer={"jobs": [_JOB], "tally": {"running": 1}, "schedule": {"embed": NOW}},
    ),
    Resource(
        method="POST",
        path="/api/jobs/run",
        operation="run_jobs",
        section=JOBS,
        summary="Run what is due, and wait for it.",
        description="A server does so by itself: this is for one who won't wait.",
        example={"most": 10, "seconds": 30},
        answer={"ran": [_JOB | {"state": "done", "finished": NOW, "progress": 1.0}], "more": False},
    ),
    Resource(
        method="GET",
        path="/api/jobs/{job_id}",
        operation="show_job",
        section=JOBS,
        summary="One job, and how far it is.",
        names=JOB,
        codes=GONE,
        example={"job_id": ONE},
        answer=_JOB,
    ),
    Resource(
        method="POST",
        path="/api/jobs/{job_id}/retry",
        operation="retry_job",
        section=JOBS,
        summary="Try a job again.",
        description="One that failed too often, or waits for its next attempt.",
        names=JOB,
        codes=GONE,
        example={"job_id": ONE},
        answer=_JOB | {"state": "waiting", "attempts": 0},
    ),
    Resource(
        method="POST",
        path="/api/jobs/{job_id}/cancel",
        operation="cancel_job",
        section=JOBS,
        summary="Give a job up.",
        description="One that waits; or one that runs and can be stopped, as reindexing can.",
        names=JOB,
        codes=GONE,
        example={"job_id": ONE},
        answer=_JOB | {"state": "done", "finished": NOW, "result": {"cancelled": True}},
    ),
)
_EVENTS = (
    Resource(
        method="GET",
        path="/api/events",
        operation="recent_changes",
        id="events",
        section=EVENTS,
        summary="Listen to what happens.",
        description="Server-sent events: `ready` when you are heard; `memory` for one that was written or changed, cut to "
        "500 characters; `job` for one that got further; `behind` each time that changes are passed over because there are "
        "more than 50,000 to tell: those before its `since`, which you had better look for yourself. `Last-Event-ID` goes on "
        "from there. One that comes again after that has the same `id` and `updated`.",
        hidden=frozenset({"since", "before", "known", "limit"}),
        example={"project": "proj_123", "topics": ["memories", "jobs"]},
        stream="events",
    ),
)
JOB_RESOURCES = (*_REINDEX, *_JOBS, *_EVENTS)
