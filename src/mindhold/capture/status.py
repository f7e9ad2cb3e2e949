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
    """`captured_at` and `problem_at` are instants in UTC; `rung` is who picked out: rules, or a model's name."""

    captured_at: datetime | None = None
    conversation: str = ""
    event: str = ""
    captures: int = 0
    stored_total: int = 0
    rung: str = ""
    problem: str = ""
    problem_at: datetime | None = None


async def read_state(engine: Engine, scope: str) -> CaptureState:
    """As it was last written; an empty one for a project that nothing was captured of."""
    entry = await engine.store.entry(STATE_NAMESPACE, scope, now=engine.clock())
    return CaptureState() if entry is None else state_of(entry)


def state_of(entry: Entry) -> CaptureState:
    """What an entry of the drawer says."""
    value: dict[str, Any] = {name: entry.value[name] for name in _NAMES if name in entry.value}
    return CaptureState(**value | {name: _moment(value.get(name)) for name in _MOMENTS})


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
    """Count one more. A capture without a problem ends the one before. Of several at once each is counted."""
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
    """That a capture didn't come about, and why."""
    async with wait_for_claim(engine, f"{STATE_NAMESPACE} {scope}"):
        before = await read_state(engine, scope)
        state = replace(before, problem=problem[:LONGEST_PROBLEM], problem_at=engine.clock())
        await _write(engine, scope, state)


async def _write(engine: Engine, scope: str, state: CaptureState) -> None:
    value = asdict(state)
    for name in _MOMENTS:
        value[name] = value[name] and value[name].isoformat()
    await engine.store.put_entry(Entry(STATE_NAMESPACE, scope, value, engine.clock()))


def _moment(value: Any) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else None


_MOMENTS = ("captured_at", "problem_at")
_NAMES = tuple(CaptureState.__dataclass_fields__)

MOST_PROJECTS = 10_000
LONGEST_WAIT = timedelta(minutes=15)  # for a worker
LOG = "worker.log"
LONGEST_LOG = 1 << 20


@dataclass(frozen=True, slots=True)
class CaptureReport:
    """What is known of each project's captures; how many events wait for the worker, and how many were given up."""

    projects: Mapping[str, CaptureState]
    waiting: int
    given_up: int


async def capture_report(engine: Engine) -> CaptureReport:
    """Of all projects, the one that was captured last first."""
    entries = await engine.store.entries(STATE_NAMESPACE, now=engine.clock(), limit=MOST_PROJECTS)
    home = str(engine.settings.home)
    left, given_up = await asyncio.to_thread(
        lambda: (event_queue.count_events(home), event_queue.count_rejected_events(home))
    )
    return CaptureReport({entry.key: state_of(entry) for entry in entries}, left, given_up)


def hooks_finding(home: Path, *, now: datetime) -> list[StoreFinding]:
    """Whether what hooks leave is worked off, and kept from others; nothing where there are none."""
    inside = home / HOOKS
    if not inside.is_dir():
        return []
    left, given_up = event_queue.count_events(str(home)), event_queue.count_rejected_events(str(home))
    since, problem = event_queue.oldest_event_time(str(home)), _last_problem(inside / LOG)
    waits = timedelta(seconds=max(0.0, now.timestamp() - since)) if since else timedelta()
    sheets = hook_cache_writer.all_cache_heads(str(home))
    blank = sum(not head.get("print") for _, head in sheets)
    told = [f"{left} events waiting"]
    told += [f"the first for {_minutes(waits)}"] if left else []
    told += [f"{given_up} given up"] if given_up else []
    told += [f"{len(sheets)} leaflets" + (f", {blank} of them blank" if blank else "")]
    told += [f"last problem: {problem}"] if problem else []
    late = waits > LONGEST_WAIT
    mode = inside.stat().st_mode & 0o777
    private = os.name == "nt" or not mode & 0o077
    advice = [f"`chmod 700 {inside}` keeps others out."] if not private else []
    advice += ["`mindhold status` says more; the next event of Claude Code tries again."] if late else []
    advice += (
        [f"What was given up is in {inside / event_queue.QUEUE_FOLDER / event_queue.REJECTED_FOLDER}."]
        if given_up
        else []
    )
    return [
        StoreFinding("hooks", private and not late and not given_up, ", ".join(told), advice=" ".join(advice))
    ]


def _last_problem(log: Path) -> str:
    """A moment and a code, never what was said."""
    with suppress(OSError):
        lines = log.read_bytes()[-LONGEST_LOG:].decode("utf-8", "replace").splitlines()
        return lines[-1] if lines else ""
    return ""


def _minutes(time: timedelta) -> str:
    minutes = int(time.total_seconds() // 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"


class CaptureStatusInput(Input):
    """Nothing to say."""


class ProjectCaptures(Output):
    """What was captured of a project; `rung` is who picked out: rules, or a model's name."""

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
        """The state as its view."""
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
    """Projects, the one that was captured last first. `waiting` events are still to be worked off; `given_up` ones failed
    too often."""

    enabled: bool
    extract_with: str
    projects: list[ProjectCaptures]
    waiting: int
    given_up: int


async def _capture_status(context: Context, _given: CaptureStatusInput) -> CaptureStatusResult:
    """How silent capture stands."""
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
