"""How silent capture stands."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from mindhold.bare import leaflet, waiting
from mindhold.bare.files import HOOKS
from mindhold.engine.capture.state import DRAWER, CaptureState, state_of
from mindhold.engine.core import Engine
from mindhold.ports.store import Finding

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
    entries = await engine.store.entries(DRAWER, now=engine.clock(), limit=MOST_PROJECTS)
    home = str(engine.policy.home)
    left, given_up = await asyncio.to_thread(lambda: (waiting.count(home), waiting.count_aside(home)))
    return CaptureReport({entry.key: state_of(entry) for entry in entries}, left, given_up)


def hooks_finding(home: Path, *, now: datetime) -> list[Finding]:
    """Whether what hooks leave is worked off, and kept from others; nothing where there are none."""
    inside = home / HOOKS
    if not inside.is_dir():
        return []
    left, given_up = waiting.count(str(home)), waiting.count_aside(str(home))
    since, problem = waiting.oldest(str(home)), _last_problem(inside / LOG)
    waits = timedelta(seconds=max(0.0, now.timestamp() - since)) if since else timedelta()
    sheets = leaflet.every(str(home))
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
    advice += [f"What was given up is in {inside / waiting.WAITING / waiting.BAD}."] if given_up else []
    return [Finding("hooks", private and not late and not given_up, ", ".join(told), advice=" ".join(advice))]


def _last_problem(log: Path) -> str:
    """A moment and a code, never what was said."""
    with suppress(OSError):
        lines = log.read_bytes()[-LONGEST_LOG:].decode("utf-8", "replace").splitlines()
        return lines[-1] if lines else ""
    return ""


def _minutes(time: timedelta) -> str:
    minutes = int(time.total_seconds() // 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
