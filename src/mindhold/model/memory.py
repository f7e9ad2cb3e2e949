"""The record of one piece of knowledge, its versions, links between memories, and ids that sort by time."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """The kind of knowledge in a memory."""

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
    """The state of a memory. Recall returns only active ones unless asked for others."""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    ARCHIVED = "archived"
    FORGOTTEN = "forgotten"
    QUARANTINED = "quarantined"


ANY_STATUS = tuple(Status)


class Tier(StrEnum):
    """How recently a memory was in use."""

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
    """Where a memory came from. `conversation` and `position` also identify its neighbours."""

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
    shown: int = 0  # how often it was shown to somebody who didn't ask for it
    usefulness: float = 0.0  # -1 to 1, from feedback
    verified: datetime | None = None  # when it was last found worth keeping; None: not evaluated yet
    examined: datetime | None = None  # when it was last compared with its neighbours; None: not yet
    decayed: datetime | None = None  # the time up to which its importance has faded
    review: datetime | None = None  # when maintenance looks at it next; None: never
    supersedes: str | None = None
    merged_from: tuple[str, ...] = ()
    provenance: Provenance = field(default_factory=Provenance)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    embedded_by: str | None = None


LOG_DIALECT = "project"  # the dialect of a project's log
PART_KEY = "part"  # in the metadata of the later parts of a long text: the part's number


def is_turn(memory: Memory) -> bool:
    """Whether the memory is a message of a project's log, or the first part of a long one."""
    return (
        memory.provenance.dialect == LOG_DIALECT
        and memory.kind is Kind.EPISODE
        and PART_KEY not in memory.metadata
    )


@dataclass(frozen=True, slots=True)
class Version:
    """The state of a memory before an amendment: everything that an amendment can change."""

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
    """The time of the last update as text: it differs after each update."""
    return f"{memory.updated:%Y%m%dT%H%M%S%fZ}"


class Relation(StrEnum):
    """Relations between memories, read as: origin *relation* target."""

    RELATED = "related"
    CAUSED_BY = "caused_by"
    RESOLVED_BY = "resolved_by"
    PART_OF = "part_of"
    CONTRADICTS = "contradicts"
    SUPERSEDED_BY = "superseded_by"


DEFAULT_FOLLOWED = (Relation.CAUSED_BY, Relation.RESOLVED_BY, Relation.RELATED)


@dataclass(frozen=True, slots=True)
class Link:
    """A link from one memory to another; at most one of each relation between two memories."""

    origin: str
    target: str
    relation: Relation
    created: datetime
    weight: float = 1.0
    automatic: bool = False


ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u, which are easily misread
RANDOM_BITS = 80
ID_LENGTH = 26


class IdMaker:
    """Makes ids that sort by time; each id is greater than the previous one, even within a millisecond."""

    def __init__(self, clock: Callable[[], datetime], random_bits: Callable[[int], int]) -> None:
        self._clock = clock
        self._random_bits = random_bits
        self._last = 0
        self._lock = threading.Lock()

    def __call__(self) -> str:
        moment = int(self._clock().timestamp() * 1000)
        with self._lock:
            candidate = (moment << RANDOM_BITS) | self._random_bits(RANDOM_BITS)
            self._last = candidate if candidate > self._last else self._last + 1
            return encode_id(self._last)


_PAIRS = tuple(left + right for left in ID_ALPHABET for right in ID_ALPHABET)


def encode_id(number: int) -> str:
    """The number as 26 characters that sort like the numbers."""
    return "".join([_PAIRS[(number >> shift) & 1023] for shift in range(120, -1, -10)])


def id_time(memory_id: str) -> datetime | None:
    """The time of creation in an id; None for a foreign id."""
    if len(memory_id) != ID_LENGTH or not frozenset(memory_id) <= frozenset(ID_ALPHABET):
        return None
    number = 0
    for character in memory_id:
        number = number << 5 | ID_ALPHABET.index(character)
    try:
        return datetime.fromtimestamp((number >> RANDOM_BITS) / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # outside the calendar's range
        return None


_BYTES = 16
_MOST = 1 << (8 * _BYTES)


def content_sum(pairs: Iterable[tuple[str, str]]) -> tuple[int, str]:
    """The number of memories, and a checksum of their ids and content hashes that doesn't depend on the order."""
    count = total = 0
    for memory_id, content_hash in pairs:
        count += 1
        total += checksum_part(memory_id, content_hash)
    return count, format_checksum(total)


def checksum_part(memory_id: str, content_hash: str) -> int:
    """What one memory adds to the checksum."""
    text = f"{memory_id} {content_hash}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=_BYTES).digest(), "big")


def format_checksum(total: int) -> str:
    """The checksum as text."""
    return f"{total % _MOST:032x}"


PRIVACY_NOTICE = (
    "This file holds personal data: keep it private, and delete it when it has served its purpose."
)
