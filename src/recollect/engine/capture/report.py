"""How silent capture stands."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from recollect.bare import waiting
from recollect.engine.capture.state import DRAWER, CaptureState, read_state
from recollect.engine.core import Engine

MOST_PROJECTS = 10_000


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
    return CaptureReport(
        {entry.key: await read_state(engine, entry.key) for entry in entries}, left, given_up
    )
