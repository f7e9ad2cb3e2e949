"""Work that outlives its request, and what happens meanwhile, as resources."""

from __future__ import annotations

from mindhold.dialects.rest.samples import NOW, THEN
from mindhold.dialects.rest.shape import Resource

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
RESOURCES = (*_REINDEX, *_JOBS, *_EVENTS)
