"""Resources for status, statistics, maintenance, backups, jobs and events."""

from __future__ import annotations

from functools import partial

from mindhold.contracts.rest.resource import Resource

_upkeep = partial(Resource, "Upkeep")
_reindex = partial(Resource, "Project memory", names={"project_id": "project"})
_job = partial(Resource, "Jobs", names={"job_id": "id"})


def _judged(word: str, summary: str) -> Resource:
    return _upkeep(f"POST /api/contradictions/{{id}}/{word}", f"{word}_contradiction", summary)


UPKEEP_RESOURCES = (
    _upkeep("GET /api/status", "status", "How things are, at a glance."),
    _upkeep("GET /api/stats", "stats", "How much is remembered."),
    _upkeep("GET /api/spend", "spend", "What models have cost, and for what.").described("For the owner."),
    _upkeep(
        "POST /api/feedback",
        "feedback",
        "Say whether an answer served.",
        status=201,
        codes=("MEMORY_NOT_FOUND",),
    ).described("`memories` are the ones that it is about: they count for more or less by it."),
    _upkeep("GET /api/feedback", "feedback_report", "What callers think of the answers."),
    _upkeep(
        "GET /api/contradictions",
        "list_contradictions",
        "Memories that deny each other: found ones, and those that wait for a judgement.",
    ),
    _judged("confirm", "A pending one is one: the later memory takes the earlier one's place."),
    _judged("dismiss", "A pending one is none; it isn't raised again."),
    _judged("undo", "Take a found one back; it isn't found again."),
    _upkeep("POST /api/consolidate", "consolidate", "Do the upkeep that is due.").described(
        "For the owner. A `dry_run` changes nothing and tells what would be done."
    ),
    _upkeep(
        "GET /api/consolidate/reports",
        "consolidation_reports",
        "What earlier consolidations did, the newest first.",
    ).described("For the owner."),
    _upkeep("GET /api/audit", "list_audit", "What upkeep did, run by run, the newest first.").described(
        "For the owner. Consolidations are among them."
    ),
    _upkeep(
        "GET /api/audit/{id}",
        "show_audit",
        "One run of upkeep, with the memories that it concerns.",
        codes=("NOT_FOUND",),
    ).described("For the owner."),
    _upkeep(
        "POST /api/audit/{id}/undo",
        "undo_audit",
        "Bring back what a run of upkeep archived, as far as it is archived still.",
        codes=("NOT_FOUND",),
    ).described("For the owner."),
    _upkeep("POST /api/maintain", "maintain", "Do all the upkeep in one run.").described(
        "For the owner. A `dry_run` changes nothing; a step that fails is told and keeps no other from running."
    ),
    _upkeep(
        "POST /api/backups", "backup", "Write everything of everybody into a verified file.", status=201
    ).described("For the owner. The file lies in the server's folder of backups."),
    _upkeep("GET /api/backups", "list_backups", "The backups that there are, the newest first.").described(
        "For the owner."
    ),
    _upkeep(
        "POST /api/backups/{file}/verify",
        "verify_backups",
        "Prove a backup by restoring it to a temporary place.",
        hidden=frozenset({"all"}),
    ).described("For the owner. What is restored is counted and compared; nothing that is there is touched."),
    _upkeep("DELETE /api/backups/{file}", "drop_backup", "Remove a backup for good.").described(
        "For the owner."
    ),
    _upkeep(
        "POST /api/backups/{file}/restore",
        "restore",
        "Bring back what a backup holds and isn't there any more.",
    ).described(
        "For the owner. `file` is a name that the list of backups has. Everything as it is now is put aside first."
    ),
)

REINDEX = "/api/projects/{project_id}/memory/reindex"
GONE = ("JOB_NOT_FOUND",)

JOB_RESOURCES = (
    _reindex(
        f"POST {REINDEX}",
        "reindex_project",
        "Reindex messages.",
        query=("force",),
        codes=("EMBEDDING_SERVICE_ERROR",),
    ).described(
        "Begins a job that gives every message a vector that has none, or with `force` all of them anew. The "
        "project's other memories come along. A project has one such job at a time: while it is under way, it is the answer; "
        "`force` takes the place of one that isn't forced."
    ),
    _reindex(
        f"GET {REINDEX}/{{job_id}}",
        "reindex_status",
        "How far the reindexing is.",
        differing_answer={"status": "running", "estimated_time_seconds": 4},
    ),
    _reindex(f"POST {REINDEX}/{{job_id}}/cancel", "cancel_reindex", "Give up the reindexing.").described(
        "Waiting or under way, also in another process. What has its vector by then keeps it."
    ),
    _reindex(
        f"DELETE {REINDEX}/{{job_id}}", "cancel_reindex", "Give up the reindexing.", id="delete_reindex"
    ),
    _job("GET /api/jobs", "list_jobs", "Jobs, the newest first."),
    _job("POST /api/jobs/run", "run_jobs", "Run what is due, and wait for it.").described(
        "A server does so by itself: this is for one who won't wait."
    ),
    _job("GET /api/jobs/{job_id}", "show_job", "One job, and how far it is.", codes=GONE),
    _job(
        "POST /api/jobs/{job_id}/retry",
        "retry_job",
        "Try a job again.",
        codes=GONE,
        differing_answer={"state": "waiting", "attempts": 0},
    ).described("One that failed too often, or waits for its next attempt."),
    _job(
        "POST /api/jobs/{job_id}/cancel",
        "cancel_job",
        "Give a job up.",
        codes=GONE,
        differing_answer={"state": "done", "finished": "2026-11-16T10:30:00Z", "result": {"cancelled": True}},
    ).described("One that waits; or one that runs and can be stopped, as reindexing can."),
    Resource(
        "Events",
        "GET /api/events",
        "recent_changes",
        "Listen to what happens.",
        id="events",
        hidden=frozenset({"since", "before", "known", "limit"}),
        stream="events",
    ).described(
        "Server-sent events: `ready` when you are heard; `memory` for one that was written or changed, cut to "
        "500 characters; `job` for one that got further; `behind` each time that changes are passed over because there are "
        "more than 50,000 to tell: those before its `since`, which you had better look for yourself. `Last-Event-ID` goes on "
        "from there. One that comes again after that has the same `id` and `updated`."
    ),
)
