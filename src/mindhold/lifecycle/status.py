"""Status at a glance, the doctor's close examination, and repair of derived data."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
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
from mindhold.memories.language import language_advice, note_language, stored_language
from mindhold.memories.model_budget import CHECK, EMBEDDING, Metered, spent_today
from mindhold.memories.views import FindingView, ReceiptView
from mindhold.model.errors import ModelError
from mindhold.model.job import JobState
from mindhold.model.memory import ANY_STATUS, Status
from mindhold.model.query import Filter
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.cache import SidecarFacts
from mindhold.ports.embedder import models_in
from mindhold.ports.llm import ModelLevel, levels_of
from mindhold.ports.store import Capability, StoreFinding
from mindhold.projects.storage import OK, StoreState, reachable_scopes, storages, stores_without_vectors

LOW_DISK_BYTES = 200 * 1024 * 1024
MOST_NAMED = 5


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
    installed = {card.name for card in engine.models.installed()}
    missing = next((name for name in models_in(model) if name not in installed), None)
    if missing is None:
        return engine.vector_source.reason
    return f"The model {missing} is not here: `mindhold models pull {missing}` fetches it."


async def _examine(engine: Engine) -> list[StoreFinding]:
    """Examine database, models, folders, disk and jobs."""
    findings = list(await engine.store.check())
    if Capability.VECTORS in engine.store.capabilities:  # else no model helps; the store says why
        findings.extend(await asyncio.to_thread(_model_findings, engine))
        await note_language(engine)
        if advice := await language_advice(engine, await stored_language(engine)):
            findings.append(StoreFinding("language", True, advice))
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


def _model_findings(engine: Engine) -> list[StoreFinding]:
    installed = engine.models.installed()
    if not installed and engine.settings.embedding.provider == "local":
        detail = "no model is pulled: recall goes by full text only"
        return [StoreFinding("models", False, detail, advice="`mindhold models pull` fetches one.")]
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
    without_vectors = await stores_without_vectors(engine, _answering(storage))
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
    backup: dict[str, Any] = Field(default={}, description="State of the backups.")


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
    engine = context.engine
    result = await status(engine, await storages(engine), agent=context.agent)
    if not context.owner:
        return result.model_copy(update=_redactions(result))
    language = await language_advice(engine, await stored_language(engine))
    notice = " ".join(filter(None, (result.notice, language, await room_notice(engine))))
    backup = _backup_view(await backup_state(engine))
    return result.model_copy(update={"notice": notice, "backup": backup})


STATUS = operation("status", _status, reads=True)


async def status(engine: Engine, storage: Sequence[StoreState], *, agent: str) -> StatusResult:
    """Counts, the search level of recall, and jobs that wait or failed; memories of unreachable stores are not counted."""
    from mindhold import __version__

    store = engine.store
    active = Filter(viewer=agent, scopes=await reachable_scopes(engine, storage))
    by_status = await store.tally(replace(active, statuses=ANY_STATUS), "status")
    vectors = await store.tally(active, "embedded_by")
    dead = await store.jobs(states=(JobState.DEAD,), limit=10)
    model = engine.vector_source.model
    without_vectors = await stores_without_vectors(engine, _answering(storage))
    missing = without_vectors.pop(engine.store_registry.home, "") or await asyncio.to_thread(
        _model_notice, engine
    )
    notices = [missing, *(f"{mode}: {why}" for mode, why in without_vectors.items())]
    services, asked = await spent_today(engine, EMBEDDING), await spent_today(engine)
    levels = _llm_levels(engine)
    activity = await engine.sidecar.activity.recent(viewer=agent)
    facts, sidecar = await store.facts(), await engine.sidecar.facts()
    return StatusResult(
        version=__version__,
        store={
            "kind": facts.kind,
            "location": facts.location,
            "schema": facts.schema_version,
            "bytes": facts.bytes_used,
            **facts.details,
        },
        memories=by_status.get(Status.ACTIVE, 0),
        by_status=dict(by_status),
        by_kind=dict(await store.tally(active, "kind")),
        by_scope=dict(await store.tally(active, "scope")),
        embedded=vectors.get(model, 0) if model else 0,
        model=model,
        models=[card.name for card in await asyncio.to_thread(engine.models.installed)],
        rung="full text" if missing else engine.vector_source.rung,
        jobs=dict(await store.tally_jobs()),
        dead_jobs=[f"{job.name} {job.id}: {job.error}" for job in dead],
        notice=" ".join(filter(None, notices)),
        service_calls=services.calls,
        service_tokens=services.tokens,
        service_dollars=round(services.dollars, 9),
        language_model=engine.llm.name if engine.llm else None,
        fallback_models=[level.model.name for level in levels[1:]],
        unready_models=[level.missing for level in levels if level.missing],
        language_calls=asked.calls,
        language_tokens=asked.tokens,
        daily_tokens=engine.settings.llm.daily_tokens,
        language_dollars=round(asked.dollars, 9),
        daily_dollars=engine.settings.llm.daily_dollars,
        classifier=await _describe_classifier(engine),
        beside=_sidecar_view(sidecar, located=bool(facts.location)),
        conversations=len(activity),
        activity=dict(sum((Counter(conversation.counts) for conversation in activity), Counter())),
        storage={
            store_state.mode: {
                "state": store_state.state,
                "detail": store_state.detail,
                "projects": list(store_state.projects),
                "copies": store_state.copies,
            }
            for store_state in storage
        },
    )


def _answering(storage: Sequence[StoreState]) -> list[str]:
    return [store_state.mode for store_state in storage if store_state.state == OK]


def _sidecar_view(facts: SidecarFacts, *, located: bool) -> dict[str, str]:
    if facts.kind == "none":
        return {}
    view = {"kind": facts.kind, "state": facts.state, "keywords": facts.keywords, "detail": facts.detail}
    return view | {"location": facts.location} if located else view | {"detail": ""}


def _backup_view(state: BackupState) -> dict[str, Any]:
    return {
        "last": state.last.isoformat() if state.last else None,
        "file": state.file,
        "count": state.count,
        "problem": state.problem,
        "old": [{"name": old.name, "location": old.location, "bytes": old.size} for old in state.old],
    }


def _redactions(status: StatusResult) -> dict[str, Any]:
    """The fields to overwrite for a caller who is not the owner: they reveal what others store and do."""
    call_fields = ("service_calls", "service_tokens", "service_dollars", "language_calls", "language_tokens")
    return {
        "store": {"kind": status.store["kind"]},
        "beside": {name: value for name, value in status.beside.items() if name in ("kind", "state")},
        # The detail may name a server.
        "storage": {mode: {**store_state, "detail": ""} for mode, store_state in status.storage.items()},
        "jobs": {},
        "dead_jobs": [],
        **dict.fromkeys((*call_fields, "language_dollars"), 0),
    }


async def _doctor(context: Context, request: DoctorInput) -> DoctorResult:
    """Examine the store, repair derived data, and prove erasure."""
    repaired: list[str] = []
    if request.repair:
        repaired += await context.engine.store.repair()
        if embedded := await embed_missing(context.engine):
            repaired.append(f"embedded {embedded} memories that had no vector")
    scrubbed = await context.engine.store.scrub(request.phrases) if request.scrub else None
    if scrubbed is not None:
        scrubbed = await scrub_hook_caches(context.engine, scrubbed, request.phrases)
    findings = [FindingView.fill(finding) for finding in await _examine(context.engine)]
    return DoctorResult(
        healthy=all(finding.healthy for finding in findings),
        findings=findings,
        repaired=repaired,
        scrubbed=ReceiptView.of(scrubbed) if scrubbed else None,
    )


DOCTOR = operation("doctor", _doctor, writes=True, owner_only=True)
