"""The status of silent capture: counts, last run and problems of each project."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from mindhold.engine import Engine
from mindhold.hooks import event_queue, hook_cache_writer
from mindhold.hooks.files import HOOKS
from mindhold.locks import wait_for_claim
from mindhold.model.job import Entry
from mindhold.operations import Context, Input, Output, operation
from mindhold.ports.store import StoreFinding

STATE_NAMESPACE = "capture:state"  # by scope
LONGEST_PROBLEM = 500


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
    return CaptureState() if entry is None else parse_state_entry(entry)


def parse_state_entry(entry: Entry) -> CaptureState:
    """Parse the state from its entry."""
    value: dict[str, Any] = {name: entry.value[name] for name in _FIELD_NAMES if name in entry.value}
    return CaptureState(**value | {name: _parse_time(value.get(name)) for name in _TIME_FIELDS})


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


def _parse_time(value: Any) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else None


_TIME_FIELDS = ("captured_at", "problem_at")
_FIELD_NAMES = tuple(CaptureState.__dataclass_fields__)

MAX_PROJECTS = 10_000
LONGEST_WAIT = timedelta(minutes=15)  # for a worker
WORKER_LOG = "worker.log"
MAX_LOG_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class CaptureReport:
    """The state of each project, the number of events that wait for the worker, and of those it gave up."""

    projects: Mapping[str, CaptureState]
    waiting: int
    given_up: int


async def capture_report(engine: Engine) -> CaptureReport:
    """Report the captures of all projects, the last captured first."""
    entries = await engine.store.entries(STATE_NAMESPACE, now=engine.clock(), limit=MAX_PROJECTS)
    home = str(engine.settings.home)
    waiting, given_up = await asyncio.to_thread(
        lambda: (event_queue.count_events(home), event_queue.count_rejected_events(home))
    )
    return CaptureReport({entry.key: parse_state_entry(entry) for entry in entries}, waiting, given_up)


def hooks_finding(home: Path, *, now: datetime) -> list[StoreFinding]:
    """Check that hook events are processed and private; empty where there are no hooks."""
    folder = home / HOOKS
    if not folder.is_dir():
        return []
    waiting, given_up = event_queue.count_events(str(home)), event_queue.count_rejected_events(str(home))
    oldest, problem = event_queue.oldest_event_time(str(home)), _last_problem(folder / WORKER_LOG)
    wait = timedelta(seconds=max(0.0, now.timestamp() - oldest)) if oldest else timedelta()
    caches = hook_cache_writer.all_cache_heads(str(home))
    blank = sum(not head.get("print") for _, head in caches)
    parts = [f"{waiting} events waiting"]
    parts += [f"the first for {_format_minutes(wait)}"] if waiting else []
    parts += [f"{given_up} given up"] if given_up else []
    parts += [f"{len(caches)} leaflets" + (f", {blank} of them blank" if blank else "")]
    parts += [f"last problem: {problem}"] if problem else []
    is_late = wait > LONGEST_WAIT
    mode = folder.stat().st_mode & 0o777
    is_private = os.name == "nt" or not mode & 0o077
    advice = [f"`chmod 700 {folder}` keeps others out."] if not is_private else []
    advice += ["`mindhold status` says more; the next event of Claude Code tries again."] if is_late else []
    advice += (
        [f"What was given up is in {folder / event_queue.QUEUE_FOLDER / event_queue.REJECTED_FOLDER}."]
        if given_up
        else []
    )
    return [
        StoreFinding(
            "hooks", is_private and not is_late and not given_up, ", ".join(parts), advice=" ".join(advice)
        )
    ]


def _last_problem(log: Path) -> str:
    """Return the log's last line: a time and a code, never content."""
    with suppress(OSError):
        lines = log.read_bytes()[-MAX_LOG_BYTES:].decode("utf-8", "replace").splitlines()
        return lines[-1] if lines else ""
    return ""


def _format_minutes(time: timedelta) -> str:
    minutes = int(time.total_seconds() // 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"


class CaptureStatusInput(Input):
    """No input."""


class ProjectCaptures(Output):
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

    @classmethod
    def of(cls, project: str, state: CaptureState) -> ProjectCaptures:
        """Build the view of a state."""
        return cls(
            project=project,
            captured_at=state.captured_at,
            conversation=state.conversation,
            event=state.event,
            captures=state.captures,
            stored=state.stored_total,
            rung=state.rung,
            problem=state.problem,
            problem_at=state.problem_at,
        )


class CaptureStatusResult(Output):
    """Projects, the last captured first. `waiting` events are not processed yet; `given_up` ones failed too often."""

    enabled: bool
    extract_with: str
    projects: list[ProjectCaptures]
    waiting: int
    given_up: int


async def _capture_status(context: Context, _given: CaptureStatusInput) -> CaptureStatusResult:
    """Return the status of silent capture."""
    settings = context.engine.settings.capture
    report = await capture_report(context.engine)
    return CaptureStatusResult(
        enabled=settings.enabled,
        extract_with=settings.extract_with,
        projects=[ProjectCaptures.of(name, state) for name, state in report.projects.items()],
        waiting=report.waiting,
        given_up=report.given_up,
    )


CAPTURE_STATUS = operation("capture_status", _capture_status, reads=True, owner_only=True)
