"""Jobs, which outlive the call that requests them, and entries: small keyed values that may expire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

SCOPE_KEY = "scope"  # in the payload of a job that concerns only one scope


class JobState(StrEnum):
    """Waiting jobs run when due, and again after a failure; dead ones need a person."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Job:
    """One piece of work. After `lease_until`, another runner may take it over."""

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
    key: str | None = None  # at most one job with this key is waiting


def backoff_seconds(attempts: int) -> float:
    """Delay after the given number of failed attempts: 10 s, doubling, at most an hour."""
    return min(3600.0, 10.0 * 2.0 ** max(0, attempts - 1))


@dataclass(frozen=True, slots=True)
class Entry:
    """A value in a namespace; after `expires` it counts as deleted. repr() hides the value."""

    namespace: str
    key: str
    value: Mapping[str, Any] = field(repr=False)
    created: datetime
    expires: datetime | None = None
