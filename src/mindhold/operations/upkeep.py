"""Operations on the machinery: status, doctor, jobs, vectors."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from math import inf
from typing import Any

from pydantic import Field

from mindhold.engine.backup_report import BackupState, backup_state
from mindhold.engine.capture.blanking import scrub_leaflets
from mindhold.engine.embed import embed_missing, follow_model, queue_embedding
from mindhold.engine.evaluate import EVALUATE
from mindhold.engine.health import StatusReport, examine, mend, status
from mindhold.engine.progress import all_progress, cancel, go_on, progress_of
from mindhold.engine.retention.room import room_notice
from mindhold.jobs.handlers import STOPPING, handlers_of
from mindhold.jobs.runner import Runner
from mindhold.jobs.schedule import enqueue_due, next_runs
from mindhold.model.errors import Conflict
from mindhold.model.job import Job, JobState
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output
from mindhold.operations.views import FindingView, JobView, ReceiptView

MOST_BROUGHT_FORWARD = 1000


class StatusInput(Input):
    """Nothing to say."""


class StatusResult(Output):
    """How things are."""

    version: str
    store: dict[str, Any]
    memories: int
    by_status: dict[str, int]
    by_kind: dict[str, int]
    by_scope: dict[str, int]
    embedded: int
    model: str | None
    models: list[str]
    rung: str
    jobs: dict[str, int]
    dead_jobs: list[str]
    notice: str
    service_calls: int = 0  # of embedding services, today
    service_tokens: int = 0
    service_dollars: float = 0.0
    language_model: str | None = None  # the one that was configured
    fallback_models: list[str] = []  # who is asked where it fails, in order
    unready_models: list[str] = []  # what of all these is missing
    language_calls: int = 0  # of language models, today
    language_tokens: int = 0
    daily_tokens: int = 0  # that they may be asked for
    language_dollars: float = 0.0
    daily_dollars: float = 0.0  # that they may cost; 0 is no limit
    classifier: str = ""  # what tells contradictions
    beside: dict[str, str] = {}  # what stands beside the store, if anything does
    conversations: int = 0  # that something was done in lately, as far as that is known
    activity: dict[str, int] = {}  # in all of them
    storage: dict[str, dict[str, Any]] = {}  # by mode, the stores in use: state, detail, projects, copies
    backup: dict[
        str, Any
    ] = {}  # the last one, its file, how many there are, what went wrong, what restores left


class DoctorInput(Input):
    """`repair` rebuilds what is derived; `scrub` rewrites the files and looks for the phrases in them."""

    repair: bool = False
    scrub: bool = False
    phrases: list[str] = []


class DoctorResult(Output):
    """What was found, what was done."""

    healthy: bool
    findings: list[FindingView]
    repaired: list[str] = []
    scrubbed: ReceiptView | None = None


class ListJobsInput(Input):
    """Which states; all when none is named."""

    states: list[JobState] = []
    limit: int = Field(default=50, ge=1, le=1000)


class ListJobsResult(Output):
    """Jobs, the newest first, and when scheduled ones are due."""

    jobs: list[JobView]
    tally: dict[str, int]
    schedule: dict[str, str]


class RunJobsInput(Input):
    """At most how many, and after how long no further one is begun.

    `waiting` takes what failed and waits for its next attempt too, and memories without a vector.
    """

    most: int = Field(default=1000, ge=1)
    seconds: float | None = Field(default=None, gt=0)
    scheduled: bool = True
    waiting: bool = False


class RunJobsResult(Output):
    """What was run. `more`: one of them takes several turns, and has not had them all."""

    ran: list[JobView]
    more: bool = False


class JobInput(Input):
    """Which job."""

    id: str


class EmbedInput(Input):
    """Nothing to say."""


class EmbedResult(Output):
    """How many memories got a vector, and why not more."""

    embedded: int
    model: str | None
    notice: str


async def _status(call: Call, _given: StatusInput) -> StatusResult:
    from mindhold import __version__

    report = await status(call.engine, agent=call.agent)
    told = _status_of(call, report, version=__version__)
    if not call.owner:
        return told.model_copy(update=_untold(report))
    notice = " ".join(filter(None, (told.notice, await room_notice(call.engine))))
    state = _backup(await backup_state(call.engine))
    return told.model_copy(update={"notice": notice, "backup": state})


def _backup(state: BackupState) -> dict[str, Any]:
    return {
        "last": state.last.isoformat() if state.last else None,
        "file": state.file,
        "count": state.count,
        "problem": state.problem,
        "old": [{"name": old.name, "location": old.location, "bytes": old.size} for old in state.old],
    }


def _untold(report: StatusReport) -> dict[str, Any]:
    """What tells how much others keep and do."""
    spent = ("service_calls", "service_tokens", "service_dollars", "language_calls", "language_tokens")
    money = dict.fromkeys((*spent, "language_dollars"), 0)
    beside = {name: told for name, told in _beside(report).items() if name in ("kind", "state")}
    storage = {mode: {**one, "detail": ""} for mode, one in _storage(report).items()}  # it may name a server
    untold = {"store": {"kind": report.store.kind}, "beside": beside, "storage": storage}
    return {**untold, "jobs": {}, "dead_jobs": [], **money}


def _status_of(call: Call, report: StatusReport, *, version: str) -> StatusResult:
    facts = report.store
    return StatusResult(
        version=version,
        store={
            "kind": facts.kind,
            "location": facts.location,
            "schema": facts.schema_version,
            "bytes": facts.bytes_used,
            **facts.details,
        },
        memories=report.memories,
        by_status=dict(report.by_status),
        by_kind=dict(report.by_kind),
        by_scope=dict(report.by_scope),
        embedded=report.embedded,
        model=report.model,
        models=[card.name for card in report.models],
        rung=report.rung,
        jobs=dict(report.jobs),
        dead_jobs=list(report.dead_jobs),
        notice=report.notice,
        service_calls=report.services.calls,
        service_tokens=report.services.tokens,
        service_dollars=round(report.services.dollars, 9),
        language_model=report.language_model,
        fallback_models=list(report.fallbacks),
        unready_models=list(report.unready),
        language_calls=report.asked.calls,
        language_tokens=report.asked.tokens,
        daily_tokens=call.engine.policy.daily_tokens,
        language_dollars=round(report.asked.dollars, 9),
        daily_dollars=call.engine.policy.daily_dollars,
        classifier=report.classifier,
        beside=_beside(report),
        conversations=len(report.activity),
        activity=dict(sum((Counter(one.counts) for one in report.activity), Counter())),
        storage=_storage(report),
    )


def _storage(report: StatusReport) -> dict[str, dict[str, Any]]:
    return {
        one.mode: {
            "state": one.state,
            "detail": one.detail,
            "projects": list(one.projects),
            "copies": one.copies,
        }
        for one in report.storage
    }


def _beside(report: StatusReport) -> dict[str, str]:
    facts = report.beside
    if facts.kind == "none":
        return {}
    told = {"kind": facts.kind, "state": facts.state, "keywords": facts.keywords, "detail": facts.detail}
    return told | {"location": facts.location} if report.store.location else told | {"detail": ""}


async def _doctor(call: Call, given: DoctorInput) -> DoctorResult:
    repaired = await mend(call.engine) if given.repair else []
    scrubbed = await call.engine.store.scrub(given.phrases) if given.scrub else None
    if scrubbed is not None:
        scrubbed = await scrub_leaflets(call.engine, scrubbed, given.phrases)
    findings = [FindingView.of(finding) for finding in await examine(call.engine)]
    return DoctorResult(
        healthy=all(finding.healthy for finding in findings),
        findings=findings,
        repaired=repaired,
        scrubbed=ReceiptView.of(scrubbed) if scrubbed else None,
    )


async def _list_jobs(call: Call, given: ListJobsInput) -> ListJobsResult:
    store = call.engine.store
    runs = await next_runs(call.engine)
    known = await all_progress(call.engine)
    found = await store.jobs(states=given.states, limit=given.limit)
    return ListJobsResult(
        jobs=[JobView.of(job, known.get(job.id)) for job in found],
        tally=await store.tally_jobs(),
        schedule={name: when.isoformat() for name, when in runs.items()},
    )


async def _run_jobs(call: Call, given: RunJobsInput) -> RunJobsResult:
    if given.scheduled:
        await enqueue_due(call.engine)
    if given.waiting:
        await _bring_forward(call)
    runner = Runner(call.engine, handlers_of(call.engine), owner=call.engine.new_id())
    end = inf if given.seconds is None else time.monotonic() + given.seconds
    ran = await runner.run_all(
        most=given.most,
        told=lambda count: call.progress("jobs", count, None),
        enough=lambda: time.monotonic() >= end,
    )
    last = {one.job.id: one.job for one in ran}  # what took several turns is one job
    return RunJobsResult(
        ran=[JobView.of(job) for job in last.values()],
        more=any(job.state is JobState.WAITING and job.error is None for job in last.values()),
    )


async def _bring_forward(call: Call) -> None:
    """Somebody asked, and may have mended what made it fail: nothing waits for its next attempt, nor for more to come."""
    store, now, model = call.engine.store, call.engine.clock(), call.engine.meaning.model
    for job in await store.jobs(states=(JobState.WAITING,), limit=MOST_BROUGHT_FORWARD):
        if job.due > now and (job.attempts or job.name == EVALUATE):
            await store.replace_job(replace(job, due=now), expected=JobState.WAITING)
    if model is not None and await store.unembedded(model, limit=1):
        await queue_embedding(call.engine)


async def _retry_job(call: Call, given: JobInput) -> JobView:
    advice = "Only dead and waiting jobs can be tried again."
    job = await call.engine.store.job(given.id)
    if job.state in (JobState.RUNNING, JobState.DONE):
        raise Conflict(f"The job {job.id} is {job.state}.", advice=advice)
    again = replace(
        job, state=JobState.WAITING, attempts=0, due=call.engine.clock(), error=None, finished=None
    )
    await go_on(call.engine, job.id)
    await _replace_job(call, again, expected=job.state, advice=advice)
    call.engine.pressing.set()
    return JobView.of(again, await progress_of(call.engine, job.id))


async def _cancel_job(call: Call, given: JobInput) -> JobView:
    job = await call.engine.store.job(given.id)
    ended = await cancel(call.engine, job, stops=job.name in STOPPING)
    return JobView.of(ended, await progress_of(call.engine, job.id))


async def _show_job(call: Call, given: JobInput) -> JobView:
    job = await call.engine.store.job(given.id)
    return JobView.of(job, await progress_of(call.engine, job.id))


async def _replace_job(call: Call, job: Job, *, expected: JobState, advice: str) -> None:
    """Raises Conflict if a runner took it meanwhile."""
    if not await call.engine.store.replace_job(job, expected=expected):
        now = await call.engine.store.job(job.id)
        raise Conflict(f"The job {job.id} is {now.state} by now.", advice=advice)


async def _embed(call: Call, _given: EmbedInput) -> EmbedResult:
    await follow_model(call.engine)
    done = await embed_missing(call.engine, progress=lambda count: call.progress("embed", count, None))
    if call.engine.meaning.reason:
        await queue_embedding(call.engine)
    return EmbedResult(embedded=done, model=call.engine.meaning.model, notice=call.engine.meaning.reason)


STATUS = Operation("status", "How things are, at a glance.", StatusInput, StatusResult, _status, Effect.READS)
DOCTOR = Operation(
    "doctor",
    "Look closely; repair what is derived; prove erasure.",
    DoctorInput,
    DoctorResult,
    _doctor,
    Effect.WRITES,
    owner_only=True,
)
LIST_JOBS = Operation(
    "list_jobs", "Queued work.", ListJobsInput, ListJobsResult, _list_jobs, Effect.READS, owner_only=True
)
SHOW_JOB = Operation(
    "show_job", "One job, and how far it is.", JobInput, JobView, _show_job, Effect.READS, owner_only=True
)
RUN_JOBS = Operation(
    "run_jobs", "Run what is due.", RunJobsInput, RunJobsResult, _run_jobs, Effect.WRITES, owner_only=True
)
RETRY_JOB = Operation(
    "retry_job", "Try a dead job again.", JobInput, JobView, _retry_job, Effect.WRITES, owner_only=True
)
CANCEL_JOB = Operation(
    "cancel_job",
    "Give up a job that waits, or can be stopped.",
    JobInput,
    JobView,
    _cancel_job,
    Effect.WRITES,
    owner_only=True,
)
EMBED_MISSING = Operation(
    "embed_missing",
    "Make the vectors that are missing.",
    EmbedInput,
    EmbedResult,
    _embed,
    Effect.WRITES,
    owner_only=True,
)
