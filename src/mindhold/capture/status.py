"""The status of silent capture: counts, last run and problems of each project."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from mindhold.capture.extracted_items import CAPTURED, REVIEWED
from mindhold.engine import Engine
from mindhold.hooks import event_queue, hook_cache_writer
from mindhold.hooks.files import HOOKS
from mindhold.locks import wait_for_claim
from mindhold.memories.views import View
from mindhold.model.job import Entry
from mindhold.model.memory import Kind
from mindhold.model.query import Filter
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.store import StoreFinding

STATE_NAMESPACE = "capture:state"  # by scope
MANUAL = "manual"  # the event of a capture that a person asked for
LONGEST_PROBLEM = 500
_TIME_FIELDS = ("captured_at", "problem_at")


@dataclass(frozen=True, slots=True)
class CaptureState:
    """The capture state of a project. Times are in UTC; `rung` is who extracted: rules, or a model's name."""

    captured_at: datetime | None = None
    conversation: str = ""
    event: str = ""
    captures: int = 0
    stored_total: int = 0
    rung: str = ""
    problem: str = ""
    problem_at: datetime | None = None


async def read_state(engine: Engine, scope: str) -> CaptureState:
    """Read a project's state; an empty one if nothing was captured."""
    entry = await engine.store.entry(STATE_NAMESPACE, scope, now=engine.clock())
    return CaptureState() if entry is None else _parse_state(entry)


def _parse_state(entry: Entry) -> CaptureState:
    fields = {name: entry.value[name] for name in CaptureState.__dataclass_fields__ if name in entry.value}
    for name in _TIME_FIELDS:
        moment = fields.get(name)
        fields[name] = datetime.fromisoformat(moment) if isinstance(moment, str) else None
    return CaptureState(**fields)


async def record_capture(
    engine: Engine,
    scope: str,
    *,
    conversation: str,
    event: str,
    stored: int,
    rung: str,
    problem: str = "",
) -> CaptureState:
    """Count a capture; one without a problem clears the last problem. Parallel captures are all counted."""
    async with wait_for_claim(engine, f"{STATE_NAMESPACE} {scope}"):
        now = engine.clock()
        before = await read_state(engine, scope)
        state = replace(
            before,
            captured_at=now,
            conversation=conversation,
            event=event,
            captures=before.captures + 1,
            stored_total=before.stored_total + stored,
            rung=rung or before.rung,
            problem=problem[:LONGEST_PROBLEM],
            problem_at=now if problem else None,
        )
        await _write(engine, scope, state)
    return state


async def record_problem(engine: Engine, scope: str, problem: str) -> None:
    """Record that a capture failed, and why."""
    async with wait_for_claim(engine, f"{STATE_NAMESPACE} {scope}"):
        before = await read_state(engine, scope)
        state = replace(before, problem=problem[:LONGEST_PROBLEM], problem_at=engine.clock())
        await _write(engine, scope, state)


async def _write(engine: Engine, scope: str, state: CaptureState) -> None:
    value = asdict(state)
    for name in _TIME_FIELDS:
        value[name] = value[name] and value[name].isoformat()
    await engine.store.put_entry(Entry(STATE_NAMESPACE, scope, value, engine.clock()))


# What people call the kinds, one and many; the others are called by their names.
KIND_WORDS: Mapping[Kind, tuple[str, str]] = {
    Kind.PREFERENCE: ("wish", "wishes"),
    Kind.GOTCHA: ("trap", "traps"),
    Kind.ARCHITECTURE: ("note on architecture", "notes on architecture"),
    Kind.PROGRESS: ("note on progress", "notes on progress"),
    Kind.CONTEXT: ("note on context", "notes on context"),
}
MOST_KEPT = 1_000


def kinds_in_words(counts: Mapping[Kind, int]) -> str:
    """`2 wishes, 1 decision`, the most frequent first."""
    parts = []
    for kind, count in sorted(counts.items(), key=lambda each: (-each[1], each[0])):
        one, many = KIND_WORDS.get(kind, (kind.value, f"{kind.value}s"))
        parts.append(f"{count} {one if count == 1 else many}")
    return ", ".join(parts)


async def kept_of_last(engine: Engine, scope: str, state: CaptureState, *, agent: str) -> dict[str, Any]:
    """Return what was kept of the conversation that hooks captured last and nobody has reviewed, in words and numbers alone.

    Empty if nothing was. Hooks show it to the person once.
    """
    if not state.conversation or state.captured_at is None or state.event == MANUAL:
        return {}
    where = Filter(viewer=agent, scopes=(scope,), agents=(agent,), conversation=state.conversation)
    memories = await engine.store.find(where, limit=MOST_KEPT)
    counts = Counter(
        memory.kind
        for memory in memories
        if memory.provenance.source == CAPTURED and REVIEWED not in memory.metadata
    )
    if not counts:
        return {}
    return {
        "conversation": state.conversation,
        "text": kinds_in_words(counts),
        "at": state.captured_at.timestamp(),
    }


MAX_PROJECTS = 10_000
LONGEST_WAIT = timedelta(minutes=15)  # for a worker
WORKER_LOG = "worker.log"
MAX_LOG_BYTES = 1 << 20


def hooks_finding(home: Path, *, now: datetime) -> list[StoreFinding]:
    """Check that hook events are processed and private; empty where there are no hooks."""
    folder = home / HOOKS
    if not folder.is_dir():
        return []
    waiting, given_up = event_queue.count_events(str(home)), event_queue.count_rejected_events(str(home))
    oldest, problem = event_queue.oldest_event_time(str(home)), _last_problem(folder / WORKER_LOG)
    wait = timedelta(seconds=max(0.0, now.timestamp() - oldest)) if oldest else timedelta()
    caches = hook_cache_writer.all_cache_heads(str(home))
    blank = sum(not head.get("print") for head in caches.values())
    parts = [f"{waiting} events waiting"]
    minutes = int(wait.total_seconds() // 60)
    duration = f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
    parts += [f"the first for {duration}"] if waiting else []
    parts += [f"{given_up} given up"] if given_up else []
    parts += [f"{len(caches)} hook caches" + (f", {blank} of them blank" if blank else "")]
    parts += [f"last problem: {problem}"] if problem else []
    is_late = wait > LONGEST_WAIT
    mode = folder.stat().st_mode & 0o777
    is_private = os.name == "nt" or not mode & 0o077
    advice = [f"`chmod 700 {folder}` keeps others out."] if not is_private else []
    advice += ["`mindhold status` says more; the next event of Claude Code tries again."] if is_late else []
    if given_up:
        rejected = folder / event_queue.QUEUE_FOLDER / event_queue.REJECTED_FOLDER
        advice.append(f"What was given up is in {rejected}.")
    is_fine = is_private and not is_late and not given_up
    return [StoreFinding("hooks", is_fine, ", ".join(parts), advice=" ".join(advice))]


def _last_problem(log: Path) -> str:
    """Return the log's last line: a time and a code, never content."""
    with suppress(OSError):
        lines = log.read_bytes()[-MAX_LOG_BYTES:].decode("utf-8", "replace").splitlines()
        return lines[-1] if lines else ""
    return ""


class CaptureStatusInput(Input):
    """No input."""


class ProjectCaptures(View):
    """The captures of a project; `rung` is who extracted: rules, or a model's name."""

    project: str
    captured_at: datetime | None
    conversation: str
    event: str
    captures: int
    stored: int
    rung: str
    problem: str
    problem_at: datetime | None


class CaptureStatusResult(Output):
    """Projects, the last captured first. `waiting` events are not processed yet; `given_up` ones failed too often."""

    enabled: bool
    extract_with: str
    projects: list[ProjectCaptures]
    waiting: int
    given_up: int


async def _capture_status(context: Context, _request: CaptureStatusInput) -> CaptureStatusResult:
    """Return the status of silent capture."""
    engine, settings = context.engine, context.engine.settings.capture
    entries = await engine.store.entries(STATE_NAMESPACE, now=engine.clock(), limit=MAX_PROJECTS)
    states = [(entry.key, _parse_state(entry)) for entry in entries]
    home = str(engine.settings.home)
    return CaptureStatusResult(
        enabled=settings.enabled,
        extract_with=settings.extract_with,
        projects=[
            ProjectCaptures.fill(state, project=scope, stored=state.stored_total) for scope, state in states
        ],
        waiting=await asyncio.to_thread(event_queue.count_events, home),
        given_up=await asyncio.to_thread(event_queue.count_rejected_events, home),
    )


CAPTURE_STATUS = operation("capture_status", _capture_status, reads=True, owner_only=True)
