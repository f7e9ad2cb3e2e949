"""Status at a glance, the doctor's close examination, and repair of derived data."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field

from mindhold.backup.create import BackupState, backup_findings, backup_state
from mindhold.capture.hook_cache_removal import scrub_hook_caches
from mindhold.capture.status import hooks_finding
from mindhold.engine import Engine
from mindhold.history.status import history_findings
from mindhold.hooks.files import exposed_paths
from mindhold.lifecycle.contradiction_detection import RULES, last_failure
from mindhold.lifecycle.retention import room_finding, room_notice
from mindhold.memories.embedding import embed_missing
from mindhold.memories.model_costs import CHECK, EMBEDDING, Metered, ModelSpend, spent_today
from mindhold.memories.views import FindingView, ReceiptView
from mindhold.model.errors import ModelError
from mindhold.model.job import JobState
from mindhold.model.memory import ANY_STATUS, Status
from mindhold.model.query import Filter
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.cache import ActiveConversation, SidecarFacts
from mindhold.ports.embedder import ModelCard
from mindhold.ports.llm import ModelLevel, levels_of
from mindhold.ports.store import Capability, StoreFacts, StoreFinding
from mindhold.projects.storage import OK, StoreState, reachable_scopes, storages, stores_without_vectors

LOW_DISK_BYTES = 200 * 1024 * 1024
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class StatusReport:
    """The values that `mindhold status` shows."""

    store: StoreFacts
    memories: int
    by_status: Mapping[str, int]
    by_kind: Mapping[str, int]
    by_scope: Mapping[str, int]
    embedded: int
    jobs: Mapping[str, int]
    dead_jobs: tuple[str, ...]
    model: str | None
    models: tuple[ModelCard, ...]
    level: str  # how recall searches
    notice: str
    services: ModelSpend  # calls of embedding services today
    language_model: str | None  # the configured one
    fallbacks: tuple[str, ...]  # models used when it fails
    unready: tuple[str, ...]  # what is missing to use these models
    asked: ModelSpend  # calls of language models today
    classifier: str  # the contradiction classifier, and why it fails if it does
    sidecar: SidecarFacts
    activity: tuple[ActiveConversation, ...]  # conversations that the sidecar knows
    storage: tuple[StoreState, ...]  # the stores in use; memories of an unreachable one are not counted
    reached: tuple[str, ...]  # the scopes that are counted; empty for all


async def status(engine: Engine, *, agent: str) -> StatusReport:
    """Counts, the search level of recall, and jobs that wait or failed."""
    store = engine.store
    storage = await storages(engine)
    reached = await reachable_scopes(engine, storage)
    active = Filter(viewer=agent, scopes=reached)
    by_status = await store.tally(replace(active, statuses=ANY_STATUS), "status")
    vectors = await store.tally(active, "embedded_by")
    dead = await store.jobs(states=(JobState.DEAD,), limit=10)
    model = engine.vector_source.model
    without_vectors = await stores_without_vectors(
        engine, [store_state.mode for store_state in storage if store_state.state == OK]
    )
    missing = without_vectors.pop(engine.store_registry.home, "") or await asyncio.to_thread(
        _model_notice, engine
    )
    return StatusReport(
        store=await store.facts(),
        memories=by_status.get(Status.ACTIVE, 0),
        by_status=by_status,
        by_kind=await store.tally(active, "kind"),
        by_scope=await store.tally(active, "scope"),
        embedded=vectors.get(model, 0) if model else 0,
        jobs=await store.tally_jobs(),
        dead_jobs=tuple(f"{job.name} {job.id}: {job.error}" for job in dead),
        model=model,
        models=tuple(await asyncio.to_thread(engine.models.installed)),
        level="full text" if missing else engine.vector_source.rung,
        notice=" ".join(
            filter(None, (missing, *(f"{mode}: {why}" for mode, why in without_vectors.items())))
        ),
        services=await spent_today(engine, EMBEDDING),
        language_model=engine.llm.name if engine.llm else None,
        fallbacks=tuple(level.model.name for level in _llm_levels(engine)[1:]),
        unready=tuple(level.missing for level in _llm_levels(engine) if level.missing),
        asked=await spent_today(engine),
        classifier=await _describe_classifier(engine),
        sidecar=await engine.sidecar.facts(),
        activity=tuple(await engine.sidecar.activity.recent(viewer=agent)),
        storage=tuple(storage),
        reached=reached,
    )


async def _describe_classifier(engine: Engine) -> str:
    if engine.classifier is None:
        return ""
    failure = await last_failure(engine)
    return f"{engine.classifier.name}, which fails: {failure}" if failure else engine.classifier.name


def _model_notice(engine: Engine) -> str:
    """Why recall works on a lower level than configured; empty if it doesn't."""
    model = engine.vector_source.model
    if model is None or engine.settings.embedding.provider != "local":
        return engine.vector_source.reason
    name = model.rpartition("/")[0]
    if any(card.name == name for card in engine.models.installed()):
        return engine.vector_source.reason
    return f"The model {name} is not here: `mindhold models pull {name}` fetches it."


async def examine(engine: Engine) -> list[StoreFinding]:
    """Examine database, models, folders, disk and jobs."""
    findings = list(await engine.store.check())
    if Capability.VECTORS in engine.store.capabilities:  # else no model helps; the store says why
        findings.extend(await asyncio.to_thread(_model_findings, engine))
    findings.append(await asyncio.to_thread(_folder_finding, engine.settings.home))
    findings.append(_disk_finding(engine.settings.home))
    findings.append(await room_finding(engine))
    findings.extend(await backup_findings(engine))
    findings.extend(await asyncio.to_thread(hooks_finding, engine.settings.home, now=engine.clock()))
    findings.extend(await _vector_findings(engine))
    findings.extend(await _sidecar_findings(engine))
    findings.extend(await _language_model_findings(engine))
    findings.extend(await _classifier_findings(engine))
    findings.extend(await history_findings(engine))
    tally = await engine.store.tally_jobs()
    dead = tally.get(JobState.DEAD, 0)
    findings.append(
        StoreFinding(
            "jobs",
            dead == 0,
            f"{tally.get(JobState.WAITING, 0)} waiting, {dead} dead",
            advice="`mindhold jobs list --state dead` says why; `mindhold jobs retry ID` tries again."
            if dead
            else "",
        )
    )
    return findings


async def repair_derived(engine: Engine) -> list[str]:
    """Rebuild derived data: index rows, codes, missing vectors. Returns what was done."""
    actions = await engine.store.repair()
    embedded = await embed_missing(engine)
    return [*actions, f"embedded {embedded} memories that had no vector"] if embedded else actions


def _model_findings(engine: Engine) -> list[StoreFinding]:
    installed = engine.models.installed()
    if not installed and engine.settings.embedding.provider != "local":
        return []
    if not installed:
        return [
            StoreFinding(
                "models",
                False,
                "no model is pulled: recall goes by full text only",
                advice="`mindhold models pull` fetches one.",
            )
        ]
    findings: list[StoreFinding] = []
    for card in installed:
        problems = engine.models.verify(card.name)
        findings.append(
            StoreFinding(
                f"model {card.name}",
                not problems,
                "; ".join(problems) or f"whole, {card.bytes_used / 1e6:.0f} MB, {card.precision}",
                advice=f"`mindhold models pull {card.name} --force` fetches it anew." if problems else "",
            )
        )
    return findings


async def _classifier_findings(engine: Engine) -> list[StoreFinding]:
    """Test the classifier's model with one pair that the rules leave to it."""
    if engine.classifier is None or engine.classifier.name == RULES:
        return []
    what = "model of contradictions"
    try:
        await engine.classifier.judge([("The mill grinds rye.", "Barley is what the mill likes best.")])
    except ModelError as error:
        problem = f"{engine.classifier.name}: {error.message}"
        return [StoreFinding(what, False, f"{problem} The rules alone judge.", error.advice)]
    return [StoreFinding(what, True, f"{engine.classifier.name} answers")]


async def _language_model_findings(engine: Engine) -> list[StoreFinding]:
    """Test each configured model with one short call, within its time limit and the daily budget."""
    findings: list[StoreFinding] = []
    for level in _llm_levels(engine):
        what, name = "fallback model" if findings else "language model", level.model.name
        try:
            await Metered(engine, (level,), purpose=CHECK).complete(
                "Are you there?",
                system="You are asked for a sign of life. Reply with the word OK.",
                most_tokens=100,
            )
        except ModelError as error:
            findings.append(StoreFinding(what, False, f"{name}: {error.message}", error.advice))
        else:
            findings.append(StoreFinding(what, True, f"{name} answers"))
    return findings


def _llm_levels(engine: Engine) -> tuple[ModelLevel, ...]:
    return levels_of(engine.llm) if engine.llm else ()


async def _sidecar_findings(engine: Engine) -> list[StoreFinding]:
    facts = await engine.sidecar.facts()
    if facts.kind == "none":
        return []
    detail = f"{facts.location}: {facts.state}, keyword sets {facts.keywords}"
    return [StoreFinding(facts.kind, facts.state == "ok" and not facts.detail, detail, advice=facts.detail)]


async def _vector_findings(engine: Engine) -> list[StoreFinding]:
    model, home = engine.vector_source.model, engine.store_registry.home
    storage = await storages(engine)
    without_vectors = await stores_without_vectors(
        engine, [store_state.mode for store_state in storage if store_state.state == OK]
    )
    reached = await reachable_scopes(engine, storage)
    findings = [StoreFinding(f"vectors in {mode}", False, why) for mode, why in without_vectors.items()]
    if without_vectors:
        places = await engine.store_registry.places()
        scope_names = reached or [scope.name for scope in await engine.store.scopes()]
        mode_of = {name: places[name].mode if name in places else home for name in scope_names}
        reached = tuple(name for name, mode in mode_of.items() if mode not in without_vectors)
        if not reached:
            return findings
    where = Filter(viewer="system", scopes=reached)
    counts: dict[str, Any] = await engine.store.tally(where, "embedded_by")
    total = sum(counts.values())
    with_vector = counts.get(model, 0) if model else 0
    complete = model is None or with_vector == total
    refused = await engine.vector_source.refusal()
    advice = refused.advice if refused else "`mindhold jobs run` makes the missing ones."
    detail = f"{with_vector} of {total} active memories have a vector of {model or 'no model'}"
    return [*findings, StoreFinding("vectors", complete, detail, advice="" if complete else advice)]


def _folder_finding(home: Path) -> StoreFinding:
    """Check that nothing in the home folder is readable by others. Opening the store already fixed what it could."""
    mode, open_to_others = home.stat().st_mode & 0o777, exposed_paths(str(home))
    if not open_to_others:
        return StoreFinding(
            "home folder", True, f"{home} is {mode:o}, and what it holds is its owner's alone"
        )
    named = ", ".join(str(path) for path in open_to_others[:MOST_NAMED])
    more = len(open_to_others) - MOST_NAMED
    return StoreFinding(
        "home folder",
        False,
        f"others may read {named}" + (f" and {more} more" if more > 0 else ""),
        advice=f"`chmod -R go-rwx {home}` as their owner keeps others out; a file system without modes can't.",
    )


def _disk_finding(home: Path) -> StoreFinding:
    free = shutil.disk_usage(home).free
    enough = free > LOW_DISK_BYTES
    return StoreFinding("disk", enough, f"{free / 1e9:.1f} GB free", advice="" if enough else "Make room.")


class StatusInput(Input):
    """No input."""


class StatusResult(Output):
    """The state of the store, models, jobs and backups."""

    version: str = Field(description="The version.", examples=["0.1.0"])
    store: dict[str, Any] = Field(examples=[{"kind": "sqlite"}])
    memories: int = Field(description="Number of memories.", examples=[1523])
    by_status: dict[str, int] = Field(examples=[{"active": 1523}])
    by_kind: dict[str, int] = Field(examples=[{"fact": 900, "episode": 623}])
    by_scope: dict[str, int] = Field(
        description="Number of memories by scope.", examples=[{"Global": 23, "shop": 1500}]
    )
    embedded: int = Field(description="How many memories have vectors.", examples=[1523])
    model: str | None = Field(examples=["all-MiniLM-L6-v2"])
    models: list[str] = Field(examples=[["all-MiniLM-L6-v2"]])
    rung: str = Field(description="Search level: full text alone, or with vectors.", examples=["semantic"])
    jobs: dict[str, int] = Field(examples=[{"waiting": 1}])
    dead_jobs: list[str] = Field(examples=[[]])
    notice: str = Field(description="A notice about this answer; usually empty.", examples=[""])
    service_calls: int = 0  # of embedding services, today
    service_tokens: int = 0
    service_dollars: float = 0.0
    language_model: str | None = None  # the configured one
    fallback_models: list[str] = []  # models used when it fails, in order
    unready_models: list[str] = []  # what is missing to use these models
    language_calls: int = 0  # of language models, today
    language_tokens: int = 0
    daily_tokens: int = 0  # the daily limit
    language_dollars: float = 0.0
    daily_dollars: float = 0.0  # the daily limit; 0 is no limit
    classifier: str = ""  # the contradiction classifier
    beside: dict[str, str] = {}  # the sidecar, if there is one
    conversations: int = 0  # recently active ones, as far as known
    activity: dict[str, int] = {}  # summed over these conversations
    storage: dict[str, dict[str, Any]] = {}  # the stores in use by mode: state, detail, projects, copies
    # The last backup, its file, the number of files, problems, and data that restores replaced.
    backup: dict[str, Any] = Field(
        default={},
        description="State of the backups.",
    )  # the last one, its file, how many there are, what went wrong, what restores left


class DoctorInput(Input):
    """`repair` rebuilds derived data; `scrub` rewrites the files and searches them for the phrases."""

    repair: bool = False
    scrub: bool = False
    phrases: list[str] = []


class DoctorResult(Output):
    """The findings, and what was repaired or scrubbed."""

    healthy: bool
    findings: list[FindingView]
    repaired: list[str] = []
    scrubbed: ReceiptView | None = None


async def _status(context: Context, _request: StatusInput) -> StatusResult:
    """Show the state of the store, models and jobs."""
    from mindhold import __version__

    report = await status(context.engine, agent=context.agent)
    result = _to_result(context, report, version=__version__)
    if not context.owner:
        return result.model_copy(update=_redactions(report))
    notice = " ".join(filter(None, (result.notice, await room_notice(context.engine))))
    state = _backup_view(await backup_state(context.engine))
    return result.model_copy(update={"notice": notice, "backup": state})


STATUS = operation("status", _status, reads=True)


def _backup_view(state: BackupState) -> dict[str, Any]:
    return {
        "last": state.last.isoformat() if state.last else None,
        "file": state.file,
        "count": state.count,
        "problem": state.problem,
        "old": [{"name": old.name, "location": old.location, "bytes": old.size} for old in state.old],
    }


def _redactions(report: StatusReport) -> dict[str, Any]:
    """The fields to overwrite for a caller who is not the owner: they reveal what others store and do."""
    call_fields = ("service_calls", "service_tokens", "service_dollars", "language_calls", "language_tokens")
    money = dict.fromkeys((*call_fields, "language_dollars"), 0)
    sidecar = {name: value for name, value in _sidecar_view(report).items() if name in ("kind", "state")}
    # The detail may name a server.
    storage = {mode: {**store_state, "detail": ""} for mode, store_state in _storage_view(report).items()}
    public = {"store": {"kind": report.store.kind}, "beside": sidecar, "storage": storage}
    return {**public, "jobs": {}, "dead_jobs": [], **money}


def _to_result(context: Context, report: StatusReport, *, version: str) -> StatusResult:
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
        rung=report.level,
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
        daily_tokens=context.engine.settings.llm.daily_tokens,
        language_dollars=round(report.asked.dollars, 9),
        daily_dollars=context.engine.settings.llm.daily_dollars,
        classifier=report.classifier,
        beside=_sidecar_view(report),
        conversations=len(report.activity),
        activity=dict(sum((Counter(conversation.counts) for conversation in report.activity), Counter())),
        storage=_storage_view(report),
    )


def _storage_view(report: StatusReport) -> dict[str, dict[str, Any]]:
    return {
        store_state.mode: {
            "state": store_state.state,
            "detail": store_state.detail,
            "projects": list(store_state.projects),
            "copies": store_state.copies,
        }
        for store_state in report.storage
    }


def _sidecar_view(report: StatusReport) -> dict[str, str]:
    facts = report.sidecar
    if facts.kind == "none":
        return {}
    view = {"kind": facts.kind, "state": facts.state, "keywords": facts.keywords, "detail": facts.detail}
    return view | {"location": facts.location} if report.store.location else view | {"detail": ""}


async def _doctor(context: Context, request: DoctorInput) -> DoctorResult:
    """Examine the store, repair derived data, and prove erasure."""
    repaired = await repair_derived(context.engine) if request.repair else []
    scrubbed = await context.engine.store.scrub(request.phrases) if request.scrub else None
    if scrubbed is not None:
        scrubbed = await scrub_hook_caches(context.engine, scrubbed, request.phrases)
    findings = [FindingView.fill(finding) for finding in await examine(context.engine)]
    return DoctorResult(
        healthy=all(finding.healthy for finding in findings),
        findings=findings,
        repaired=repaired,
        scrubbed=ReceiptView.of(scrubbed) if scrubbed else None,
    )


DOCTOR = operation("doctor", _doctor, writes=True, owner_only=True)
