"""Where records live: the protocols of a store, its changes and findings, the clock and new ids. Contract: mindhold.testing.store_contract."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from mindhold.model.job import Entry, Job, JobState
from mindhold.model.memory import Link, Memory, Relation, Status, Tier, Version
from mindhold.model.query import Candidates, Filter, Neighbour, Order, PagePosition, Search, Vector
from mindhold.model.scope import Scope

Clock = Callable[[], datetime]  # the present instant, in UTC
NewId = Callable[[], str]  # a fresh id; ids sort by the time they were made

REPAIR = "`mindhold doctor --repair` rebuilds it; no memory is touched."  # the advice where repair() mends it


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """One thing that a check looked at."""

    name: str
    healthy: bool
    detail: str
    advice: str = ""

    @classmethod
    def derived(cls, name: str, wrong: object, detail: str, sound: str = "") -> StoreFinding:
        """Of derived data: `detail` where something is wrong, which repair() mends; else `sound`, or the same."""
        return cls(name, not wrong, detail if wrong or not sound else sound, REPAIR if wrong else "")

    @property
    def mendable(self) -> bool:
        """Whether it is wrong, and derived: repair() makes it anew."""
        return not self.healthy and self.advice == REPAIR


class Capability(StrEnum):
    """What a store can do; known after open()."""

    FULL_TEXT = "full_text"
    VECTORS = "vectors"
    TRANSACTIONS = "transactions"
    CHANGE_NOTICES = "change_notices"
    ROW_SECURITY = "row_security"
    ERASURE_PROOF = "erasure_proof"


@dataclass(frozen=True, slots=True)
class Put:
    """Insert a memory, or replace the one of the same id; text, index and vector in one step.

    `lexemes` is what full text finds it by, `labels` too but without counting as length. `vector` None leaves the
    record without one (and drops an old one). Replacing leaves the counts of use and of showing and the usefulness as they
    are; with `expected`, the time of the update that the caller had read, it is refused if there was another since.
    `gist` is a hash of its content words: near-duplicates share it.
    """

    memory: Memory
    lexemes: Sequence[str]
    labels: Sequence[str] = ()
    gist: str = ""
    vector: Vector | None = None
    expected: datetime | None = None


@dataclass(frozen=True, slots=True)
class Revise:
    """Replace the fields of an existing memory whose content is unchanged; index and vector stay."""

    memory: Memory


@dataclass(frozen=True, slots=True)
class Mark:
    """Change a memory's status and nothing else, so that no other caller's change is undone.

    With `only_from` it is passed over where the status is another one by now. What becomes active or archived by it is
    due for review at `updated`.
    """

    memory_id: str
    status: Status
    previous: Status | None
    updated: datetime
    only_from: Status | None = None


@dataclass(frozen=True, slots=True)
class Inherit:
    """Let a memory have what the one that it supersedes had earned, and nothing else."""

    memory_id: str
    supersedes: str
    importance: float  # at least this
    uses: int  # more than it has


@dataclass(frozen=True, slots=True)
class Tend:
    """Change what upkeep may change of a memory, and nothing else; None leaves a field as it is.

    Passed over where the record is gone, and where it was used, shown, rated or updated after `unless_since`: then it is due
    again anyway. It is no update: `updated` stays, and no version is kept.
    """

    memory_id: str
    tier: Tier | None = None
    importance: float | None = None
    utility: float | None = None
    usefulness: float | None = None
    anchor: bool | None = None
    verified: datetime | None = None
    examined: datetime | None = None
    decayed: datetime | None = None
    review: datetime | None = None
    unless_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Rate:
    """Move a memory's usefulness by so much, within -1 and 1, and have it reviewed; passed over where it is gone."""

    memory_id: str
    by: float
    when: datetime


@dataclass(frozen=True, slots=True)
class Connect:
    """Add a link, or replace the one of the same ends and relation."""

    link: Link


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Remove a link if it is there."""

    origin: str
    target: str
    relation: Relation


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep an earlier version of a memory."""

    version: Version


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Add a job; ignored when a waiting job has the same key."""

    job: Job


Change = Put | Revise | Mark | Inherit | Tend | Rate | Connect | Disconnect | Keep | Enqueue


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an erasure removed, place by place, and what a second look found left there (zeros)."""

    ids: tuple[str, ...]
    removed: Mapping[str, int]
    remaining: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """What `status` and `doctor` tell about a store."""

    kind: str
    location: str
    schema_version: int
    bytes_used: int
    details: Mapping[str, Any] = field(default_factory=dict)
    without_vectors: str = ""  # why it keeps none, and what to do about it; empty where it does
    collection: str = ""  # what it calls the table of the records
    vector_index: str = ""  # and the index of their vectors


class RecordChanges(Protocol):
    """What is written of memories."""

    async def apply(self, changes: Sequence[Change]) -> None:
        """All or nothing; durable when it returns.

        Raises Conflict when a Put's (or a Mark's) content hash is that of another active record of the same scope and agent,
        MemoryNotFound when a Revise, Mark, Keep or Connect names a record that isn't there, ScopeNotFound when a Put's
        scope doesn't exist, StoreFull, StoreBusy, StoreReadOnly, and Changed where a Put expected another update.
        """

    async def touch(self, ids: Sequence[str], when: datetime) -> None:
        """Count a use of each, as often as it is named; ids that are gone are passed over.

        A used memory is hot again, unless it is permanent, and due for review at `when` if it wasn't before.
        """

    async def note_shown(self, ids: Sequence[str], when: datetime) -> None:
        """Count that each was put before somebody who had not asked for it; due for review at `when` if it wasn't before."""

    async def erase(self, ids: Sequence[str], *, references: bool = True) -> Receipt:
        """Remove records, versions, links, vectors, index rows and waiting jobs about them, then look again.

        What else names them, records, jobs and entries, names them no more; an entry's field `words` goes whole where one
        of them stands in it. Without `references` all that stays as it is: for copies of what lives on in another store.
        """


class Records(Protocol):
    """Memories, one by one and by filter. No method shows what the viewer may not see."""

    async def get(self, memory_id: str, *, viewer: str) -> Memory:
        """Of any status. Raises MemoryNotFound, also for what the viewer may not see."""

    async def get_many(self, ids: Sequence[str], *, viewer: str) -> dict[str, Memory]:
        """Those that exist and are visible; the others are absent."""

    async def resolve(self, prefix: str, *, viewer: str) -> list[str]:
        """At most 10 visible ids that begin with `prefix`, so that people can type less."""

    async def find(
        self,
        where: Filter,
        *,
        order: Order = Order.NEWEST,
        limit: int = 50,
        after: str | PagePosition | None = None,
    ) -> list[Memory]:
        """A page in that order; `after` is where the page before ended: a place, or the id of a record that is there.

        Raises MemoryNotFound for an id that isn't.
        """

    async def count(self, where: Filter, *, most: int | None = None) -> int:
        """How many match, or `most` where there are more: nothing is counted beyond that."""

    async def tally(self, where: Filter, by: str) -> dict[str, int]:
        """How many match for each value of `by`.

        That is kind, status, scope, tier, topic, agent, tag, embedded_by, conversation or source.
        """

    async def by_hash(self, hashes: Sequence[str], *, scope: str, agent: str) -> dict[str, Memory]:
        """Active or quarantined records of exactly that scope and agent that have these content hashes."""

    async def by_gist(self, gists: Sequence[str], *, scope: str, agent: str) -> dict[str, list[Memory]]:
        """Active records of exactly that scope and agent with these gists."""

    async def derived_from(self, ids: Sequence[str]) -> list[Memory]:
        """Records of any agent and status that were merged from one of these."""

    def scan(self, where: Filter, *, batch: int = 500) -> AsyncIterator[list[Memory]]:
        """Everything that matches, in order of id, in bounded memory."""


class RecordSearch(Protocol):
    """Full text and vectors over the records: derived, and rebuilt from them by repair()."""

    async def search(self, search: Search) -> Candidates:
        """The best by text and the best by vector within the filter: filtered first, so that no hit is lost.

        Sees every write that was acknowledged before the call, also by other processes.
        """

    async def nearest(
        self, vectors: Sequence[Vector], *, model: str, where: Filter, limit: int
    ) -> list[list[Neighbour]]:
        """For each vector its nearest records, nearest first."""

    async def unembedded(self, model: str, *, limit: int, scopes: Sequence[str] = ()) -> list[Memory]:
        """Records, not forgotten ones, that have no vector of that model; in any order. Of all scopes unless named."""

    async def put_vectors(self, vectors: Mapping[str, tuple[str, Vector]], *, model: str) -> int:
        """Set vectors by id, each with the content hash that it was made of; returns how many were set.

        One whose record has changed or gone meanwhile is passed over. Replaces vectors of other models.
        """

    async def vector_of(self, ids: Sequence[str], *, model: str) -> dict[str, Vector]:
        """The stored vectors of that model."""


class Links(Protocol):
    """Edges and versions."""

    async def links_of(
        self, ids: Sequence[str], *, relations: Sequence[Relation] = (), viewer: str
    ) -> list[Link]:
        """Links that begin or end at these records, both ends visible; all relations when none is named."""

    async def count_links(self, where: Filter) -> int:
        """How many have both ends among the records that match."""

    async def versions_of(self, memory_id: str, *, latest: int | None = None) -> list[Version]:
        """Earlier versions, oldest first; with `latest` no more than so many of the last ones."""

    async def versions_among(self, ids: Sequence[str]) -> dict[str, list[Version]]:
        """Of many records at once; those without earlier versions are absent."""


class Scopes(Protocol):
    """The partitions. Global always exists."""

    async def scopes(self) -> list[Scope]:
        """All of them, by name."""

    async def put_scope(self, scope: Scope) -> None:
        """Insert or replace by name. Raises ScopeNotFound for a parent that isn't there, Conflict for a cycle."""

    async def rename_scope(self, old: str, new: str) -> None:
        """Records and children follow. Raises ScopeNotFound, Conflict when `new` exists."""

    async def drop_scope(self, name: str) -> None:
        """Raises ScopeNotFound, Conflict while records or children are in it."""


class Jobs(Protocol):
    """A durable queue. Two runners never hold one job at once."""

    async def lease(
        self, owner: str, *, now: datetime, duration: timedelta, names: Sequence[str] = ()
    ) -> Job | None:
        """The most overdue job, now held by `owner`; also one whose lease ran out. Counts an attempt."""

    async def renew(self, job_id: str, owner: str, *, until: datetime) -> bool:
        """Whether the owner still holds it."""

    async def finish(self, job: Job, owner: str) -> bool:
        """Store what became of a held job (done, waiting again, dead); False when the lease was lost."""

    async def jobs(self, *, states: Sequence[JobState] = (), limit: int = 100) -> list[Job]:
        """The newest first."""

    async def job(self, job_id: str) -> Job:
        """Raises JobNotFound."""

    async def replace_job(self, job: Job, *, expected: JobState) -> bool:
        """For a person's retry or cancel; False when its state is not `expected` now. Raises JobNotFound."""

    async def drop_jobs(self, *, before: datetime) -> int:
        """Remove finished ones; returns how many."""

    async def tally_jobs(self) -> dict[str, int]:
        """How many in each state."""


class Cursors(Protocol):
    """Small named values that survive: how far a reader has read, when a schedule last ran."""

    async def cursor(self, name: str) -> str | None:
        """Its value, or None."""

    async def set_cursor(self, name: str, value: str | None) -> None:
        """Set, or remove by None."""

    async def swap_cursor(self, name: str, *, old: str | None, new: str | None) -> bool:
        """Set only if its value is `old` now (None: there is none). Whether it was."""


class Entries(Protocol):
    """Small keyed values in namespaces (`drawer`), which may expire. No method shows an expired one."""

    async def put_entry(self, entry: Entry) -> None:
        """Insert, or replace the one of the same namespace and key. Durable when it returns."""

    async def entry(self, drawer: str, key: str, *, now: datetime) -> Entry | None:
        """The one of exactly that key; None also for an expired one. Sees every write acknowledged before."""

    async def take_entry(self, drawer: str, key: str, *, now: datetime) -> Entry | None:
        """Remove and return it in one step: of several takers, in whatever processes, one gets it."""

    async def entries(self, drawer: str, *, now: datetime, limit: int = 1000) -> list[Entry]:
        """Those of the namespace, the newest first."""

    async def drop_entry(self, drawer: str, key: str) -> bool:
        """Whether there was one to drop."""

    async def drop_expired(self, now: datetime) -> int:
        """Remove expired ones of all namespaces; returns how many."""


class StoreAdmin(Protocol):
    """Health, repair and secure deletion."""

    async def facts(self) -> StoreFacts:
        """Cheap."""

    async def check(self) -> list[StoreFinding]:
        """Looks at everything: file, schema, index against records."""

    async def repair(self) -> list[str]:
        """Rebuild what is derived; says what it did. Records are never touched."""

    async def optimise(self) -> int:
        """Cheap upkeep of files, index and statistics; returns how many bytes it freed."""

    async def scrub(self, phrases: Sequence[str] = ()) -> Receipt:
        """Rewrite the files so that erased bytes are gone, then look for the phrases in them: zeros expected."""


class Store(
    Records, RecordChanges, RecordSearch, Links, Scopes, Jobs, Cursors, Entries, StoreAdmin, Protocol
):
    """One database. Usable from many tasks at once; other processes may use it at the same time."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Known after open(): a server may lack vectors."""

    async def open(self) -> None:
        """Make or migrate what is needed. Raises SchemaTooNew, StoreDamaged, StoreReadOnly, StoreBusy."""

    async def close(self) -> None:
        """Idempotent."""
