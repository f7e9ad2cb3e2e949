"""The record: one atomic piece of knowledge, and what stands beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What sort of knowledge a memory is."""

    FACT = "fact"
    DECISION = "decision"
    ERROR = "error"
    PREFERENCE = "preference"
    PROCEDURE = "procedure"
    RELATION = "relation"
    ARCHITECTURE = "architecture"
    PATTERN = "pattern"
    GOTCHA = "gotcha"
    PROGRESS = "progress"
    CONTEXT = "context"
    NOTE = "note"
    EPISODE = "episode"


class Status(StrEnum):
    """Where a memory is in its life. Only active ones are recalled unless asked."""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    ARCHIVED = "archived"
    FORGOTTEN = "forgotten"
    QUARANTINED = "quarantined"


ANY_STATUS = tuple(Status)


class Tier(StrEnum):
    """How warm a memory is kept."""

    HOT = "hot"
    WARM = "warm"
    COLD = "cold"
    PERMANENT = "permanent"


DEFAULT_IMPORTANCE: Mapping[Kind, float] = {
    Kind.FACT: 0.5,
    Kind.DECISION: 0.7,
    Kind.ERROR: 0.8,
    Kind.PREFERENCE: 0.9,
    Kind.PROCEDURE: 0.7,
    Kind.RELATION: 0.5,
    Kind.ARCHITECTURE: 0.7,
    Kind.PATTERN: 0.6,
    Kind.GOTCHA: 0.7,
    Kind.PROGRESS: 0.4,
    Kind.CONTEXT: 0.4,
    Kind.NOTE: 0.5,
    Kind.EPISODE: 0.4,
}


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a memory came from. `conversation` and `position` also say which memories are its neighbours."""

    dialect: str = ""
    source: str = ""
    conversation: str | None = None
    position: int | None = None
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """One atomic piece of knowledge. Times are UTC instants."""

    id: str
    content: str
    kind: Kind
    scope: str
    agent: str
    created: datetime
    updated: datetime
    occurred: datetime
    content_hash: str
    tokens: int
    topic: str = ""
    tags: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    importance: float = 0.5
    confidence: float = 1.0
    utility: float = 1.0
    trust: float = 1.0
    tier: Tier = Tier.WARM
    anchor: bool = False
    status: Status = Status.ACTIVE
    previous_status: Status | None = None
    uses: int = 0
    last_used: datetime | None = None
    shown: int = 0  # how often it was put before somebody who had not asked for it
    usefulness: float = 0.0  # -1 to 1: what those who were given it thought of it
    verified: datetime | None = None  # when it was last found worth keeping; None: it waits to be evaluated
    examined: datetime | None = None  # when it was last held against its neighbours; None: it waits for that
    decayed: datetime | None = None  # up to when its importance has faded
    review: datetime | None = None  # when upkeep looks at it next; None: never
    supersedes: str | None = None
    merged_from: tuple[str, ...] = ()
    provenance: Provenance = field(default_factory=Provenance)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    embedded_by: str | None = None


LOG = "project"  # the dialect of a project's log
PART = "part"  # metadata of the later parts of a long text: which one it is


def is_turn(memory: Memory) -> bool:
    """Whether it is a message of a project's log; of a long one, its first part."""
    return memory.provenance.dialect == LOG and memory.kind is Kind.EPISODE and PART not in memory.metadata


@dataclass(frozen=True, slots=True)
class Version:
    """What a memory was before it was amended: everything that an amendment can change."""

    memory_id: str
    number: int
    content: str
    kind: Kind
    topic: str
    tags: tuple[str, ...]
    keywords: tuple[str, ...]
    importance: float
    anchor: bool
    occurred: datetime
    tier: Tier
    metadata: Mapping[str, Any]
    amended: datetime
    amended_by: str


def moment_of(memory: Memory) -> str:
    """Of its last update: another one after each."""
    return f"{memory.updated:%Y%m%dT%H%M%S%fZ}"
