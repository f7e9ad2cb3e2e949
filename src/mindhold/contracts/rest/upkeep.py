"""Resources for status, statistics, maintenance, backups, jobs and events."""

from __future__ import annotations

from mindhold.contracts.rest.resource import Resource

UPKEEP_SECTION = "Upkeep"

_STATE = (
    Resource(
        method="GET",
        path="/api/status",
        operation="status",
        section=UPKEEP_SECTION,
        summary="How things are, at a glance.",
    ),
    Resource(
        method="GET",
        path="/api/stats",
        operation="stats",
        section=UPKEEP_SECTION,
        summary="How much is remembered.",
    ),
    Resource(
        method="GET",
        path="/api/spend",
        operation="spend",
        section=UPKEEP_SECTION,
        summary="What models have cost, and for what.",
        description="For the owner.",
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
    ),
    Resource(
        method="GET",
        path="/api/feedback",
        operation="feedback_report",
        section=UPKEEP_SECTION,
        summary="What callers think of the answers.",
    ),
)


def _judged(word: str, summary: str) -> Resource:
    return Resource(
        method="POST",
        path=f"/api/contradictions/{{id}}/{word}",
        operation=f"{word}_contradiction",
        section=UPKEEP_SECTION,
        summary=summary,
    )


_ORDER = (
    Resource(
        method="GET",
        path="/api/contradictions",
        operation="list_contradictions",
        section=UPKEEP_SECTION,
        summary="Memories that deny each other: found ones, and those that wait for a judgement.",
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
    ),
    Resource(
        method="GET",
        path="/api/consolidate/reports",
        operation="consolidation_reports",
        section=UPKEEP_SECTION,
        summary="What earlier consolidations did, the newest first.",
        description="For the owner.",
    ),
    Resource(
        method="GET",
        path="/api/audit",
        operation="list_audit",
        section=UPKEEP_SECTION,
        summary="What upkeep did, run by run, the newest first.",
        description="For the owner. Consolidations are among them.",
    ),
    Resource(
        method="GET",
        path="/api/audit/{id}",
        operation="show_audit",
        section=UPKEEP_SECTION,
        summary="One run of upkeep, with the memories that it concerns.",
        description="For the owner.",
        codes=("NOT_FOUND",),
    ),
    Resource(
        method="POST",
        path="/api/audit/{id}/undo",
        operation="undo_audit",
        section=UPKEEP_SECTION,
        summary="Bring back what a run of upkeep archived, as far as it is archived still.",
        description="For the owner.",
        codes=("NOT_FOUND",),
    ),
    Resource(
        method="POST",
        path="/api/maintain",
        operation="maintain",
        section=UPKEEP_SECTION,
        summary="Do all the upkeep in one run.",
        description="For the owner. A `dry_run` changes nothing; a step that fails is told and keeps no other from running.",
    ),
    Resource(
        method="POST",
        path="/api/backups",
        operation="backup",
        section=UPKEEP_SECTION,
        summary="Write everything of everybody into a verified file.",
        description="For the owner. The file lies in the server's folder of backups.",
        status=201,
    ),
    Resource(
        method="GET",
        path="/api/backups",
        operation="list_backups",
        section=UPKEEP_SECTION,
        summary="The backups that there are, the newest first.",
        description="For the owner.",
    ),
    Resource(
        method="POST",
        path="/api/backups/{file}/verify",
        operation="verify_backups",
        section=UPKEEP_SECTION,
        summary="Prove a backup by restoring it to a temporary place.",
        description="For the owner. What is restored is counted and compared; nothing that is there is touched.",
        hidden=frozenset({"all"}),
    ),
    Resource(
        method="DELETE",
        path="/api/backups/{file}",
        operation="drop_backup",
        section=UPKEEP_SECTION,
        summary="Remove a backup for good.",
        description="For the owner.",
    ),
    Resource(
        method="POST",
        path="/api/backups/{file}/restore",
        operation="restore",
        section=UPKEEP_SECTION,
        summary="Bring back what a backup holds and isn't there any more.",
        description="For the owner. `file` is a name that the list of backups has. Everything as it is now is put aside first.",
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
    ),
    Resource(
        method="GET",
        path=REINDEX + "/{job_id}",
        operation="reindex_status",
        section=MEMORY,
        summary="How far the reindexing is.",
        names=PROJECT,
        differing_answer={"status": "running", "estimated_time_seconds": 4},
    ),
    Resource(
        method="POST",
        path=REINDEX + "/{job_id}/cancel",
        operation="cancel_reindex",
        section=MEMORY,
        summary="Give up the reindexing.",
        description="Waiting or under way, also in another process. What has its vector by then keeps it.",
        names=PROJECT,
    ),
    Resource(
        method="DELETE",
        path=REINDEX + "/{job_id}",
        operation="cancel_reindex",
        id="delete_reindex",
        section=MEMORY,
        summary="Give up the reindexing.",
        names=PROJECT,
    ),
)
_JOBS = (
    Resource(
        method="GET",
        path="/api/jobs",
        operation="list_jobs",
        section=JOBS,
        summary="Jobs, the newest first.",
    ),
    Resource(
        method="POST",
        path="/api/jobs/run",
        operation="run_jobs",
        section=JOBS,
        summary="Run what is due, and wait for it.",
        description="A server does so by itself: this is for one who won't wait.",
    ),
    Resource(
        method="GET",
        path="/api/jobs/{job_id}",
        operation="show_job",
        section=JOBS,
        summary="One job, and how far it is.",
        names=JOB,
        codes=GONE,
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
        differing_answer={"state": "waiting", "attempts": 0},
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
        differing_answer={"state": "done", "finished": "2026-11-16T10:30:00Z", "result": {"cancelled": True}},
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
        stream="events",
    ),
)
JOB_RESOURCES = (*_REINDEX, *_JOBS, *_EVENTS)
