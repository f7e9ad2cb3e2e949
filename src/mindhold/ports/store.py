"""The store: its protocols, changes and findings, the clock and new ids. Contract: mindhold.testing.store_contract."""

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

Clock = Callable[[], datetime]  # the current time in UTC
NewId = Callable[[], str]  # a new id; ids sort by creation time

REPAIR = "`mindhold doctor --repair` rebuilds it; no memory is touched."  # the advice for findings that repair() fixes


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """The result of one check."""

    name: str
    healthy: bool
    detail: str
    advice: str = ""

    @classmethod
    def derived(cls, name: str, wrong: object, detail: str, sound: str = "") -> StoreFinding:
        """A finding about derived data: `detail` if something is wrong, which repair() fixes; else `sound`, or `detail` without it."""
        return cls(name, not wrong, detail if wrong or not sound else sound, REPAIR if wrong else "")

    @property
    def mendable(self) -> bool:
        """Whether repair() fixes it: it is wrong and about derived data."""
        return not self.healthy and self.advice == REPAIR


class Capability(StrEnum):
    """Something that a store can do; known after open()."""

    FULL_TEXT = "full_text"
    VECTORS = "vectors"
    TRANSACTIONS = "transactions"
    CHANGE_NOTICES = "change_notices"
    ROW_SECURITY = "row_security"
    ERASURE_PROOF = "erasure_proof"


@dataclass(frozen=True, slots=True)
class Put:
    """Insert a memory, or replace the one with the same id; text, index and vector in one step.

    Full-text search finds it by `lexemes` and `labels`; labels don't count as length. Without a `vector` the record has
    none, and an old one is dropped. Replacing keeps the counts of use and of showing, and the usefulness. `expected` is the
    update time that the caller read; the change is refused if the record was updated since. `gist` is a hash of the content
    words, which near-duplicates share.
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
    """Change the status of a memory and nothing else, so that no concurrent change is undone.

    With `only_from` it is skipped if the status is a different one by now. A memory that becomes active or archived is due
    for review at `updated`.
    """

    memory_id: str
    status: Status
    previous: Status | None
    updated: datetime
    only_from: Status | None = None


@dataclass(frozen=True, slots=True)
class Inherit:
    """Pass the importance and uses of a superseded memory on to its successor, and nothing else."""

    memory_id: str
    supersedes: str
    importance: float  # the new minimum
    uses: int  # added to its own


@dataclass(frozen=True, slots=True)
class Tend:
    """Change the fields that upkeep may change, and nothing else; None leaves a field as it is.

    Skipped if the record is gone, or was used, shown, rated or updated after `unless_since`, since it is then due again
    anyway. It is no update: `updated` stays, and no version is kept.
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
    """Add to a memory's usefulness, within -1 and 1, and make it due for review; skipped if the memory is gone."""

    memory_id: str
    by: float
    when: datetime


@dataclass(frozen=True, slots=True)
class Connect:
    """Add a link, or replace the one with the same ends and relation."""

    link: Link


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Remove a link if it is there."""

    origin: str
    target: str
    relation: Relation


@dataclass(frozen=True, slots=True)
class Keep:
    """Store an earlier version of a memory."""

    version: Version


@dataclass(frozen=True, slots=True)
class Enqueue:
    """Add a job; ignored if a waiting job has the same key."""

    job: Job


Change = Put | Revise | Mark | Inherit | Tend | Rate | Connect | Disconnect | Keep | Enqueue


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an erasure removed from each place, and what a second look still found there (zeros expected)."""

    ids: tuple[str, ...]
    removed: Mapping[str, int]
    remaining: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """Facts about a store, as `status` and `doctor` show them."""

    kind: str
    location: str
    schema_version: int
    bytes_used: int
    details: Mapping[str, Any] = field(default_factory=dict)
    without_vectors: str = ""  # why the store keeps no vectors, and what to do; empty if it keeps them
    collection: str = ""  # the store's name for the table of records
    vector_index: str = ""  # the store's name for the vector index


class RecordChanges(Protocol):
    """Writes memories."""

    async def apply(self, changes: Sequence[Change]) -> None:
        """Apply all changes or none; they are durable when it returns.

        Raises Conflict if the content hash of a Put or Mark belongs to another active record of the same scope and agent,
        MemoryNotFound if a Revise, Mark, Keep or Connect names a missing record, ScopeNotFound if the scope of a Put doesn't
        exist, Changed if a Put expected a different update time, and StoreFull, StoreBusy, StoreReadOnly.
        """

    async def touch(self, ids: Sequence[str], when: datetime) -> None:
        """Count a use of each memory, once per occurrence of its id; missing ids are skipped.

        A used memory becomes hot, unless it is permanent, and due for review at `when` or earlier.
        """

    async def note_shown(self, ids: Sequence[str], when: datetime) -> None:
        """Count that each memory was shown to a user who didn't ask for it; it becomes due for review at `when` or earlier."""

    async def erase(self, ids: Sequence[str], *, references: bool = True) -> Receipt:
        """Remove records with their versions, links, vectors, index rows and waiting jobs, then check that nothing is left.

        Other records, jobs and entries lose their references to them; an entry's field `words` is removed if it contains one.
        Without `references` these stay, for copies of records that live on in another store.
        """


class Records(Protocol):
    """Reads memories by id and by filter. No method returns a memory that the viewer may not see."""

    async def get(self, memory_id: str, *, viewer: str) -> Memory:
        """The memory, of any status. Raises MemoryNotFound, also if the viewer may not see it."""

    async def get_many(self, ids: Sequence[str], *, viewer: str) -> dict[str, Memory]:
        """The memories that exist and are visible, by id; others are absent."""

    async def resolve(self, prefix: str, *, viewer: str) -> list[str]:
        """At most 10 visible ids that begin with `prefix`, so that people can type short ids."""

    async def find(
        self,
        where: Filter,
        *,
        order: Order = Order.NEWEST,
        limit: int = 50,
        after: str | PagePosition | None = None,
    ) -> list[Memory]:
        """A page of memories in that order. `after` is where the previous page ended: a position, or the id of an existing record.

        Raises MemoryNotFound for an id that doesn't exist.
        """

    async def count(self, where: Filter, *, most: int | None = None) -> int:
        """The number of matching memories; counting stops at `most`."""

    async def tally(self, where: Filter, by: str) -> dict[str, int]:
        """The number of matching memories for each value of `by`.

        `by` is kind, status, scope, tier, topic, agent, tag, embedded_by, conversation or source.
        """

    async def by_hash(self, hashes: Sequence[str], *, scope: str, agent: str) -> dict[str, Memory]:
        """Active or quarantined records with these content hashes, of exactly that scope and agent, by hash."""

    async def by_gist(self, gists: Sequence[str], *, scope: str, agent: str) -> dict[str, list[Memory]]:
        """Active records with these gists, of exactly that scope and agent, by gist."""

    async def derived_from(self, ids: Sequence[str]) -> list[Memory]:
        """Records that were merged from one of these, of any agent and status."""

    def scan(self, where: Filter, *, batch: int = 500) -> AsyncIterator[list[Memory]]:
        """Yield all matching memories in batches, ordered by id, in bounded memory."""


class RecordSearch(Protocol):
    """Full-text and vector search over the records. The indexes are derived; repair() rebuilds them."""

    async def search(self, search: Search) -> Candidates:
        """The best text hits and the best vector hits. The filter is applied before ranking, so no hit is lost.

        Sees every write that was acknowledged before the call, also by other processes.
        """

    async def nearest(
        self, vectors: Sequence[Vector], *, model: str, where: Filter, limit: int
    ) -> list[list[Neighbour]]:
        """The nearest records of each vector, nearest first."""

    async def unembedded(self, model: str, *, limit: int, scopes: Sequence[str] = ()) -> list[Memory]:
        """Records without a vector of that model, except forgotten ones, in any order; of all scopes if none are named."""

    async def put_vectors(self, vectors: Mapping[str, tuple[str, Vector]], *, model: str) -> int:
        """Store vectors by id, each with the content hash of the text that it was made from. Returns how many were stored.

        Skips records that have changed or gone since. Replaces vectors of other models.
        """

    async def vector_of(self, ids: Sequence[str], *, model: str) -> dict[str, Vector]:
        """The stored vectors of that model, by id."""


class Links(Protocol):
    """Links between memories, and earlier versions of memories."""

    async def links_of(
        self, ids: Sequence[str], *, relations: Sequence[Relation] = (), viewer: str
    ) -> list[Link]:
        """Links that begin or end at these records, with both ends visible; of all relations if none are named."""

    async def count_links(self, where: Filter) -> int:
        """The number of links with both ends among the matching records."""

    async def versions_of(self, memory_id: str, *, latest: int | None = None) -> list[Version]:
        """Earlier versions of a memory, oldest first; with `latest` only the last ones, at most that many."""

    async def versions_among(self, ids: Sequence[str]) -> dict[str, list[Version]]:
        """Earlier versions of many memories by id; memories without any are absent."""


class Scopes(Protocol):
    """The scopes, which partition the memories. Global always exists."""

    async def scopes(self) -> list[Scope]:
        """All scopes, ordered by name."""

    async def put_scope(self, scope: Scope) -> None:
        """Insert a scope, or replace the one of that name. Raises ScopeNotFound for a missing parent, Conflict for a cycle."""

    async def rename_scope(self, old: str, new: str) -> None:
        """Rename a scope with its records and children. Raises ScopeNotFound, and Conflict if `new` exists."""

    async def drop_scope(self, name: str) -> None:
        """Remove an empty scope. Raises ScopeNotFound, and Conflict while it has records or children."""


class Jobs(Protocol):
    """A durable job queue. No two runners hold the same job at once."""

    async def lease(
        self, owner: str, *, now: datetime, duration: timedelta, names: Sequence[str] = ()
    ) -> Job | None:
        """Assign the most overdue job to `owner`, also one whose lease expired, and count an attempt. None if there is none."""

    async def renew(self, job_id: str, owner: str, *, until: datetime) -> bool:
        """Extend the lease. Returns whether the owner still holds the job."""

    async def finish(self, job: Job, owner: str) -> bool:
        """Store the outcome of a held job (done, waiting again, dead). Returns False if the lease was lost."""

    async def jobs(self, *, states: Sequence[JobState] = (), limit: int = 100) -> list[Job]:
        """Jobs in these states, newest first; in all states if none are named."""

    async def job(self, job_id: str) -> Job:
        """The job. Raises JobNotFound."""

    async def replace_job(self, job: Job, *, expected: JobState) -> bool:
        """Replace a job for a user's retry or cancel. Returns False if its state isn't `expected`. Raises JobNotFound."""

    async def drop_jobs(self, *, before: datetime) -> int:
        """Remove jobs that finished before that time. Returns how many."""

    async def tally_jobs(self) -> dict[str, int]:
        """The number of jobs in each state."""


class Cursors(Protocol):
    """Small durable named values, such as how far a reader has read or when a schedule last ran."""

    async def cursor(self, name: str) -> str | None:
        """The value, or None."""

    async def set_cursor(self, name: str, value: str | None) -> None:
        """Set the value; None removes it."""

    async def swap_cursor(self, name: str, *, old: str | None, new: str | None) -> bool:
        """Set the value only if it is `old` now (None: missing). Returns whether it was set."""


class Entries(Protocol):
    """Small keyed values in namespaces, which may expire. No method returns an expired one."""

    async def put_entry(self, entry: Entry) -> None:
        """Insert an entry, or replace the one with the same namespace and key. Durable when it returns."""

    async def entry(self, namespace: str, key: str, *, now: datetime) -> Entry | None:
        """The entry with exactly that key; None if it is missing or expired. Sees every write acknowledged before the call."""

    async def take_entry(self, namespace: str, key: str, *, now: datetime) -> Entry | None:
        """Remove and return the entry atomically: only one of several callers gets it, in whatever processes they are."""

    async def entries(self, namespace: str, *, now: datetime, limit: int = 1000) -> list[Entry]:
        """The entries of the namespace, newest first."""

    async def drop_entry(self, namespace: str, key: str) -> bool:
        """Remove the entry. Returns whether there was one."""

    async def drop_expired(self, now: datetime) -> int:
        """Remove expired entries of all namespaces. Returns how many."""


class StoreAdmin(Protocol):
    """Health checks, repair and secure deletion."""

    async def facts(self) -> StoreFacts:
        """Facts about the store. Cheap."""

    async def check(self) -> list[StoreFinding]:
        """Check everything: files, schema, and the indexes against the records."""

    async def repair(self) -> list[str]:
        """Rebuild derived data and return what was done. Never touches records."""

    async def optimise(self) -> int:
        """Do cheap upkeep of files, indexes and statistics. Returns the number of freed bytes."""

    async def scrub(self, phrases: Sequence[str] = ()) -> Receipt:
        """Rewrite the files so that erased bytes are gone, then search them for the phrases (zero hits expected)."""


class Store(
    Records, RecordChanges, RecordSearch, Links, Scopes, Jobs, Cursors, Entries, StoreAdmin, Protocol
):
    """One database. Usable from many tasks at once, and by other processes at the same time."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the store can do; known after open(), because a server may lack vectors."""

    async def open(self) -> None:
        """Open the store, creating or migrating its schema. Raises SchemaTooNew, StoreDamaged, StoreReadOnly, StoreBusy."""

    async def close(self) -> None:
        """Close the store. Idempotent."""
