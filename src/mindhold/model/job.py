"""Jobs, which outlive the call that asked for them, and entries, small keyed values that may expire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

SCOPE_KEY = "scope"  # in the payload of a job that is about one scope, and nothing beyond it


class JobState(StrEnum):
    """Waiting jobs are run when due, also again after a failure; dead ones wait for a person."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of work. `lease_until` is when another runner may take it from a silent one."""

    id: str
    name: str
    created: datetime
    due: datetime
    payload: Mapping[str, Any] = field(default_factory=dict)
    state: JobState = JobState.WAITING
    attempts: int = 0
    most_attempts: int = 5
    lease_owner: str | None = None
    lease_until: datetime | None = None
    finished: datetime | None = None
    error: str | None = None
    result: Mapping[str, Any] | None = None
    key: str | None = None  # at most one waiting job of a key


def backoff_seconds(attempts: int) -> float:
    """How long to wait after the given number of failed attempts: 10 s, doubling, an hour at most."""
    return min(3600.0, 10.0 * 2.0 ** max(0, attempts - 1))


@dataclass(frozen=True, slots=True)
class Entry:
    """A value in a drawer; from `expires` on it is as if it were not there. Its value is not shown by repr()."""

    drawer: str
    key: str
    value: Mapping[str, Any] = field(repr=False)
    created: datetime
    expires: datetime | None = None
