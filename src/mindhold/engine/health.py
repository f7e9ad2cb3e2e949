"""How the whole thing is: status at a glance, a doctor who looks closely, and repair of what is derived."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mindhold.bare.rights import loose
from mindhold.engine.backup_report import backup_findings
from mindhold.engine.capture.report import hooks_finding
from mindhold.engine.classifiers import RULES
from mindhold.engine.core import Engine
from mindhold.engine.disputes import last_failure
from mindhold.engine.embed import embed_missing
from mindhold.engine.history.findings import history_findings
from mindhold.engine.ledger import CHECK, EMBEDDING, Metered, Spend, spent_today
from mindhold.engine.retention.room import room_finding
from mindhold.engine.storage import OK, Storage, storages, within_reach, without_vectors
from mindhold.model.errors import ModelError
from mindhold.model.job import JobState
from mindhold.model.memory import ANY_STATUS, Status
from mindhold.model.query import Filter
from mindhold.ports.cache import Active, AsideFacts
from mindhold.ports.ladder import Rung, rungs_of
from mindhold.ports.models import ModelCard
from mindhold.ports.store import Capability, Finding, StoreFacts

LITTLE_ROOM = 200 * 1024 * 1024
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class StatusReport:
    """What `mindhold status` tells."""

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
    rung: str
    notice: str
    services: Spend  # what embedding services were asked for today
    language_model: str | None  # the one that was configured
    fallbacks: tuple[str, ...]  # who is asked where it fails
    unready: tuple[str, ...]  # what of all these is missing
    asked: Spend  # what language models were asked for today
    classifier: str  # what tells contradictions, and why it fails where it does
    beside: AsideFacts  # what stands beside the store
    activity: tuple[Active, ...]  # conversations that it knows of
    storage: tuple[Storage, ...]  # the stores in use; what is in one that doesn't answer is not counted
    reached: tuple[str, ...]  # the scopes that are counted; empty when all are


async def status(engine: Engine, *, agent: str) -> StatusReport:
    """Counts, the rung that recall stands on, and jobs that wait or died."""
    store = engine.store
    storage = await storages(engine)
    reached = await within_reach(engine, storage)
    active = Filter(viewer=agent, scopes=reached)
    by_status = await store.tally(replace(active, statuses=ANY_STATUS), "status")
    vectors = await store.tally(active, "embedded_by")
    dead = await store.jobs(states=(JobState.DEAD,), limit=10)
    model = engine.meaning.model
    bare = await without_vectors(engine, [one.mode for one in storage if one.state == OK])
    missing = bare.pop(engine.houses.home, "") or await asyncio.to_thread(_model_notice, engine)
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
        rung="full text" if missing else engine.meaning.rung,
        notice=" ".join(filter(None, (missing, *(f"{mode}: {why}" for mode, why in bare.items())))),
        services=await spent_today(engine, EMBEDDING),
        language_model=engine.llm.name if engine.llm else None,
        fallbacks=tuple(rung.model.name for rung in _rungs(engine)[1:]),
        unready=tuple(rung.missing for rung in _rungs(engine) if rung.missing),
        asked=await spent_today(engine),
        classifier=await _judging(engine),
        beside=await engine.aside.facts(),
        activity=tuple(await engine.aside.activity.recent(viewer=agent)),
        storage=tuple(storage),
        reached=reached,
    )


async def _judging(engine: Engine) -> str:
    if engine.classifier is None:
        return ""
    failure = await last_failure(engine)
    return f"{engine.classifier.name}, which fails: {failure}" if failure else engine.classifier.name


def _model_notice(engine: Engine) -> str:
    """Why recall stands lower than it was meant to; empty when it doesn't."""
    model = engine.meaning.model
    if model is None or not engine.policy.local_model:
        return engine.meaning.reason
    name = model.rpartition("/")[0]
    if any(card.name == name for card in engine.models.installed()):
        return engine.meaning.reason
    return f"The model {name} is not here: `mindhold models pull {name}` fetches it."


async def examine(engine: Engine) -> list[Finding]:
    """Everything that can be looked at: database, models, folders, disk, jobs."""
    findings = list(await engine.store.check())
    if Capability.VECTORS in engine.store.capabilities:  # else no model helps; the store says why
        findings.extend(await asyncio.to_thread(_models, engine))
    findings.append(await asyncio.to_thread(_folder, engine.policy.home))
    findings.append(_disk(engine.policy.home))
    findings.append(await room_finding(engine))
    findings.extend(await backup_findings(engine))
    findings.extend(await asyncio.to_thread(hooks_finding, engine.policy.home, now=engine.clock()))
    findings.extend(await _vectors(engine))
    findings.extend(await _beside(engine))
    findings.extend(await _language_models(engine))
    findings.extend(await _classifier(engine))
    findings.extend(await history_findings(engine))
    tally = await engine.store.tally_jobs()
    dead = tally.get(JobState.DEAD, 0)
    findings.append(
        Finding(
            "jobs",
            dead == 0,
            f"{tally.get(JobState.WAITING, 0)} waiting, {dead} dead",
            advice="`mindhold jobs list --state dead` says why; `mindhold jobs retry ID` tries again."
            if dead
            else "",
        )
    )
    return findings


async def mend(engine: Engine) -> list[str]:
    """Rebuild what is derived: index rows, codes, missing vectors. Says what it did."""
    done = await engine.store.repair()
    embedded = await embed_missing(engine)
    return [*done, f"embedded {embedded} memories that had no vector"] if embedded else done


def _models(engine: Engine) -> list[Finding]:
    installed = engine.models.installed()
    if not installed and not engine.policy.local_model:
        return []
    if not installed:
        return [
            Finding(
                "models",
                False,
                "no model is pulled: recall goes by full text only",
                advice="`mindhold models pull` fetches one.",
            )
        ]
    findings: list[Finding] = []
    for card in installed:
        problems = engine.models.verify(card.name)
        findings.append(
            Finding(
                f"model {card.name}",
                not problems,
                "; ".join(problems) or f"whole, {card.bytes_used / 1e6:.0f} MB, {card.precision}",
                advice=f"`mindhold models pull {card.name} --force` fetches it anew." if problems else "",
            )
        )
    return findings


async def _classifier(engine: Engine) -> list[Finding]:
    """Whether the model that tells contradictions does: by one pair, which the rules leave to it."""
    if engine.classifier is None or engine.classifier.name == RULES:
        return []
    what = "model of contradictions"
    try:
        await engine.classifier.judge([("The mill grinds rye.", "Barley is what the mill likes best.")])
    except ModelError as error:
        said = f"{engine.classifier.name}: {error.message}"
        return [Finding(what, False, f"{said} The rules alone judge.", error.advice)]
    return [Finding(what, True, f"{engine.classifier.name} answers")]


async def _language_models(engine: Engine) -> list[Finding]:
    """Whether each that was configured answers: by one short call, within its wait and the day's budget."""
    findings: list[Finding] = []
    for rung in _rungs(engine):
        what, name = "fallback model" if findings else "language model", rung.model.name
        try:
            await Metered(engine, (rung,), purpose=CHECK).complete(
                "Are you there?",
                system="You are asked for a sign of life. Reply with the word OK.",
                most_tokens=100,
            )
        except ModelError as error:
            findings.append(Finding(what, False, f"{name}: {error.message}", error.advice))
        else:
            findings.append(Finding(what, True, f"{name} answers"))
    return findings


def _rungs(engine: Engine) -> tuple[Rung, ...]:
    return rungs_of(engine.llm) if engine.llm else ()


async def _beside(engine: Engine) -> list[Finding]:
    facts = await engine.aside.facts()
    if facts.kind == "none":
        return []
    told = f"{facts.location}: {facts.state}, keyword sets {facts.keywords}"
    return [Finding(facts.kind, facts.state == "ok" and not facts.detail, told, advice=facts.detail)]


async def _vectors(engine: Engine) -> list[Finding]:
    """Of the stores that can keep them."""
    model, home = engine.meaning.model, engine.houses.home
    storage = await storages(engine)
    bare = await without_vectors(engine, [one.mode for one in storage if one.state == OK])
    reached = await within_reach(engine, storage)
    lacking = [Finding(f"vectors in {mode}", False, why) for mode, why in bare.items()]
    if bare:
        places = await engine.houses.places()
        known = reached or [scope.name for scope in await engine.store.scopes()]
        mode_of = {name: places[name].mode if name in places else home for name in known}
        reached = tuple(name for name, mode in mode_of.items() if mode not in bare)
        if not reached:
            return lacking
    where = Filter(viewer="system", scopes=reached)
    counts: dict[str, Any] = await engine.store.tally(where, "embedded_by")
    total = sum(counts.values())
    with_vector = counts.get(model, 0) if model else 0
    whole = model is None or with_vector == total
    refused = await engine.meaning.refusal()
    advice = refused.advice if refused else "`mindhold jobs run` makes the missing ones."
    told = f"{with_vector} of {total} active memories have a vector of {model or 'no model'}"
    return [*lacking, Finding("vectors", whole, told, advice="" if whole else advice)]


def _folder(home: Path) -> Finding:
    """With all that others must not read in it. What could be mended was, when the store was opened."""
    mode, open_to_others = home.stat().st_mode & 0o777, loose(str(home))
    if not open_to_others:
        return Finding("home folder", True, f"{home} is {mode:o}, and what it holds is its owner's alone")
    named = ", ".join(str(one) for one in open_to_others[:MOST_NAMED])
    more = len(open_to_others) - MOST_NAMED
    return Finding(
        "home folder",
        False,
        f"others may read {named}" + (f" and {more} more" if more > 0 else ""),
        advice=f"`chmod -R go-rwx {home}` as their owner keeps others out; a file system without modes can't.",
    )


def _disk(home: Path) -> Finding:
    free = shutil.disk_usage(home).free
    enough = free > LITTLE_ROOM
    return Finding("disk", enough, f"{free / 1e9:.1f} GB free", advice="" if enough else "Make room.")
