"""The gate before every operation: whether the caller may call it, and the store that is limited to the scopes of a key."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mindhold.access.secrets import fingerprint
from mindhold.engine import Engine, NoUseCounter
from mindhold.model.errors import JobNotFound, MemoryNotFound, Refused
from mindhold.model.job import SCOPE_KEY, Entry, Job, JobState
from mindhold.model.memory import Link, Memory, Relation, Version
from mindhold.model.query import Candidates, Filter, Neighbour, Order, PagePosition, Search, Vector
from mindhold.model.scope import EVERYONE, PRIVILEGED_AGENTS, Caller, Scope, checked_agent
from mindhold.operations import Effect, Operation
from mindhold.ports.backend import Backend, Placements, StoreRegistry
from mindhold.ports.cache import (
    NO_SIDECAR,
    ActiveConversation,
    Activity,
    Cache,
    JobSignal,
    KeywordSets,
    Sidecar,
    SidecarFacts,
)
from mindhold.ports.history import NoArchive, NoHistory
from mindhold.ports.store import (
    Capability,
    Change,
    Connect,
    Disconnect,
    Enqueue,
    Inherit,
    Keep,
    Mark,
    Put,
    Rate,
    Receipt,
    Revise,
    Store,
    StoreFacts,
    StoreFinding,
    Tend,
)
from mindhold.ports.transcripts import NoTranscripts


def as_agent(caller: Caller, agent: str | None) -> Caller:
    """The caller acting as the agent that a call names. Raises Refused, or InvalidInput for an invalid name."""
    if agent is None or agent == caller.agent:
        return caller
    if caller.bound or checked_agent(agent) in PRIVILEGED_AGENTS:
        raise Refused("This call may not be made for that agent.", advice="Leave the agent's id out.")
    return replace(caller, agent=agent, bound=True)


def admitted_engine(engine: Engine, operation: Operation[Any, Any], caller: Caller) -> Engine:
    """The engine that this caller may use. Raises Refused."""
    if operation.owner_only and not caller.owner:
        raise Refused(f"{operation.name} is for the owner of this Mindhold.", advice="Use the owner's key.")
    if operation.effect is not Effect.READS and not caller.writes:
        raise Refused("This key may only read.", advice="Ask the owner for a key that may write.")
    if caller.scopes or caller.bound or not caller.owner:
        # Transcripts and history have no agent and no scope: they are the owner's.
        engine = replace(
            engine, transcripts=NoTranscripts(), history=NoHistory(), archive=NoArchive(), rlm=None
        )
    if not caller.writes:
        engine = replace(engine, use_counter=NoUseCounter(engine.store, engine.clock))
    return _limit_to_scopes(engine, operation, caller) if caller.scopes else engine


def _limit_to_scopes(engine: Engine, operation: Operation[Any, Any], caller: Caller) -> Engine:
    if operation.owner_only:
        raise Refused(
            f"{operation.name} concerns more than the scopes of this key.", advice="Use the owner's key."
        )
    scope = engine.settings.scope if engine.settings.scope in caller.scopes else caller.scopes[0]
    return replace(
        engine,
        store=ScopedStore(engine.store, caller.scopes),
        store_registry=ScopedStoreRegistry(engine.store_registry, caller.scopes),
        sidecar=engine.sidecar if engine.sidecar is NO_SIDECAR else ScopedSidecar(engine.sidecar),
        settings=replace(engine.settings, scope=scope),
        allowed_scopes=caller.scopes,
    )


class ScopedStoreRegistry:
    """The registry of stores, limited to the scopes of a key; it gives out no store."""

    def __init__(self, houses: StoreRegistry, scopes: Iterable[str]) -> None:
        self._houses = houses
        self._scopes = frozenset(scopes)

    @property
    def home(self) -> str:
        return self._houses.home

    @property
    def modes(self) -> tuple[str, ...]:
        return self._houses.modes

    async def house(self, mode: str) -> Backend:
        raise whole_store_refused()

    async def places(self, *, fresh: bool = False) -> Placements:
        places = await self._houses.places(fresh=fresh)
        return {name: place for name, place in places.items() if name in self._scopes}

    async def settle(self, change: Callable[[Placements], Placements]) -> Placements:
        raise whole_store_refused()

    async def close(self) -> None:
        """Nothing: the wrapped store stays open for others."""


def whole_store_refused() -> Refused:
    """The error for a call that concerns the whole store."""
    return Refused("This concerns the whole store, and this key is for some scopes.", advice="Ask the owner.")


class ScopedSidecar:
    """The sidecar without the activity of others: the scope of a conversation is not known."""

    def __init__(self, aside: Sidecar) -> None:
        self._aside = aside

    @property
    def keywords(self) -> KeywordSets:
        return self._aside.keywords

    @property
    def cache(self) -> Cache:
        return self._aside.cache

    @property
    def activity(self) -> Activity:
        return self

    @property
    def bell(self) -> JobSignal:
        return self._aside.bell

    async def facts(self) -> SidecarFacts:
        return await self._aside.facts()

    def note(self, conversation: str, *, agent: str, counts: Mapping[str, int]) -> None:
        self._aside.activity.note(conversation, agent=agent, counts=counts)

    async def recent(self, *, viewer: str) -> list[ActiveConversation]:
        return []


NOWHERE = "\n"  # no scope can be called so: a filter that is left with none must not match all
MOST_RESOLVED = 10
MOST_JOBS = 1_000  # looked through for those within

_PASSED_OVER = Disconnect | Tend | Rate  # where what they name isn't there; outside is as good as gone


class ScopedStore:
    """A store limited to some scopes: records outside are not found, and writing there is refused.

    It delegates nothing by default: a new method of the port is unreachable until its check is written here.
    """

    def __init__(self, store: Store, scopes: Iterable[str]) -> None:
        self._store = store
        self._scopes = tuple(dict.fromkeys(scopes))
        self._own = fingerprint(json.dumps(sorted(self._scopes)))[:32]

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self._store.capabilities

    async def open(self) -> None:
        """Nothing: the wrapped store is open."""

    async def close(self) -> None:
        """Nothing: the wrapped store stays open for others."""

    # Records

    async def apply(self, changes: Sequence[Change]) -> None:
        allowed = await self._allowed(changes)
        if allowed:
            await self._store.apply(allowed)

    async def get(self, memory_id: str, *, viewer: str) -> Memory:
        memory = await self._store.get(memory_id, viewer=viewer)
        if memory.scope not in self._scopes:
            raise MemoryNotFound(memory_id)
        return memory

    async def get_many(self, ids: Sequence[str], *, viewer: str) -> dict[str, Memory]:
        memories = await self._store.get_many(ids, viewer=viewer)
        return {memory_id: memory for memory_id, memory in memories.items() if memory.scope in self._scopes}

    async def resolve(self, prefix: str, *, viewer: str) -> list[str]:
        ids = await self._store.resolve(prefix, viewer=viewer)
        if len(ids) < MOST_RESOLVED:
            inside_ids = await self.get_many(ids, viewer=viewer)
            return [memory_id for memory_id in ids if memory_id in inside_ids]
        inside: list[str] = []  # what is outside must not crowd out what is inside
        async for batch in self.scan(Filter(viewer=viewer, statuses=())):
            inside += [memory.id for memory in batch if memory.id.startswith(prefix)]
            if len(inside) >= MOST_RESOLVED:
                break
        return inside[:MOST_RESOLVED]

    async def find(
        self,
        where: Filter,
        *,
        order: Order = Order.NEWEST,
        limit: int = 50,
        after: str | PagePosition | None = None,
    ) -> list[Memory]:
        if isinstance(after, str):
            await self.get(after, viewer=where.viewer)
        return await self._store.find(self._narrowed(where), order=order, limit=limit, after=after)

    async def count(self, where: Filter, *, most: int | None = None) -> int:
        return await self._store.count(self._narrowed(where), most=most)

    async def tally(self, where: Filter, by: str) -> dict[str, int]:
        return await self._store.tally(self._narrowed(where), by)

    async def by_hash(self, hashes: Sequence[str], *, scope: str, agent: str) -> dict[str, Memory]:
        return await self._store.by_hash(hashes, scope=scope, agent=agent) if scope in self._scopes else {}

    async def by_gist(self, gists: Sequence[str], *, scope: str, agent: str) -> dict[str, list[Memory]]:
        return await self._store.by_gist(gists, scope=scope, agent=agent) if scope in self._scopes else {}

    async def derived_from(self, ids: Sequence[str]) -> list[Memory]:
        memories = await self._store.derived_from(await self._inside(ids))
        return [memory for memory in memories if memory.scope in self._scopes]

    async def touch(self, ids: Sequence[str], when: datetime) -> None:
        await self._store.touch(await self._only_inside(ids), when)

    async def note_shown(self, ids: Sequence[str], when: datetime) -> None:
        await self._store.note_shown(await self._only_inside(ids), when)

    def scan(self, where: Filter, *, batch: int = 500) -> AsyncIterator[list[Memory]]:
        return self._store.scan(self._narrowed(where), batch=batch)

    async def erase(self, ids: Sequence[str], *, references: bool = True) -> Receipt:
        return await self._store.erase(await self._inside(ids), references=references)

    # Search

    async def search(self, search: Search) -> Candidates:
        return await self._store.search(replace(search, filter=self._narrowed(search.filter)))

    async def nearest(
        self, vectors: Sequence[Vector], *, model: str, where: Filter, limit: int
    ) -> list[list[Neighbour]]:
        return await self._store.nearest(vectors, model=model, where=self._narrowed(where), limit=limit)

    async def unembedded(self, model: str, *, limit: int, scopes: Sequence[str] = ()) -> list[Memory]:
        inside = [name for name in scopes or self._scopes if name in self._scopes]
        return await self._store.unembedded(model, limit=limit, scopes=inside) if inside else []

    async def put_vectors(self, vectors: Mapping[str, tuple[str, Vector]], *, model: str) -> int:
        inside = await self._inside(vectors)
        return await self._store.put_vectors({each: vectors[each] for each in inside}, model=model)

    async def vector_of(self, ids: Sequence[str], *, model: str) -> dict[str, Vector]:
        return await self._store.vector_of(await self._inside(ids), model=model)

    # Links

    async def links_of(
        self, ids: Sequence[str], *, relations: Sequence[Relation] = (), viewer: str
    ) -> list[Link]:
        links = await self._store.links_of(await self._inside(ids), relations=relations, viewer=viewer)
        inside = frozenset(await self._inside(end for link in links for end in (link.origin, link.target)))
        return [link for link in links if link.origin in inside and link.target in inside]

    async def count_links(self, where: Filter) -> int:
        return await self._store.count_links(self._narrowed(where))

    async def versions_of(self, memory_id: str, *, latest: int | None = None) -> list[Version]:
        inside = await self._inside([memory_id])
        return await self._store.versions_of(memory_id, latest=latest) if inside else []

    async def versions_among(self, ids: Sequence[str]) -> dict[str, list[Version]]:
        return await self._store.versions_among(await self._inside(ids))

    # Scopes

    async def scopes(self) -> list[Scope]:
        return [
            replace(scope, parent=scope.parent if scope.parent in self._scopes else None)
            for scope in await self._store.scopes()
            if scope.name in self._scopes
        ]

    async def put_scope(self, scope: Scope) -> None:
        scopes = {existing.name: existing for existing in await self._store.scopes()}
        if scope.name not in self._scopes or scope.name not in scopes:
            raise _outside(f"the scope {scope.name!r}")
        if scope.parent is not None and scope.parent not in self._scopes:
            raise _outside(f"the scope {scope.parent!r}")
        above = scopes[scope.name].parent
        hidden = above is not None and above not in self._scopes
        await self._store.put_scope(replace(scope, parent=above) if hidden else scope)

    async def rename_scope(self, old: str, new: str) -> None:
        raise Refused("This key may not rename scopes.", advice="Ask the owner.")

    async def drop_scope(self, name: str) -> None:
        raise Refused("This key may not delete scopes.", advice="Ask the owner.")

    # Jobs: most are about everything; those of a scope are here if it is

    async def lease(
        self, owner: str, *, now: datetime, duration: timedelta, names: Sequence[str] = ()
    ) -> Job | None:
        return None

    async def renew(self, job_id: str, owner: str, *, until: datetime) -> bool:
        return False

    async def finish(self, job: Job, owner: str) -> bool:
        return False

    async def jobs(self, *, states: Sequence[JobState] = (), limit: int = 100) -> list[Job]:
        jobs = await self._store.jobs(states=states, limit=max(limit, MOST_JOBS))
        return [job for job in jobs if self._is_inside(job)][:limit]

    async def job(self, job_id: str) -> Job:
        with suppress(JobNotFound):  # what isn't there and what is outside are told alike
            job = await self._store.job(job_id)
            if self._is_inside(job):
                return job
        raise JobNotFound(f"There is no job {job_id!r}.", advice="Most jobs are the owner's.")

    async def replace_job(self, job: Job, *, expected: JobState) -> bool:
        await self.job(job.id)
        if not self._is_inside(job):
            raise _outside("another scope's jobs")
        return await self._store.replace_job(job, expected=expected)

    async def drop_jobs(self, *, before: datetime) -> int:
        return 0

    async def tally_jobs(self) -> dict[str, int]:
        return {}

    # Cursors and entries: each set of scopes has its own

    async def cursor(self, name: str) -> str | None:
        return await self._store.cursor(self._named(name))

    async def set_cursor(self, name: str, value: str | None) -> None:
        await self._store.set_cursor(self._named(name), value)

    async def swap_cursor(self, name: str, *, old: str | None, new: str | None) -> bool:
        return await self._store.swap_cursor(self._named(name), old=old, new=new)

    async def put_entry(self, entry: Entry) -> None:
        await self._store.put_entry(replace(entry, namespace=self._named(entry.namespace)))

    async def entry(self, namespace: str, key: str, *, now: datetime) -> Entry | None:
        entry = await self._store.entry(self._named(namespace), key, now=now)
        return None if entry is None else replace(entry, namespace=namespace)

    async def take_entry(self, namespace: str, key: str, *, now: datetime) -> Entry | None:
        entry = await self._store.take_entry(self._named(namespace), key, now=now)
        return None if entry is None else replace(entry, namespace=namespace)

    async def entries(self, namespace: str, *, now: datetime, limit: int = 1000) -> list[Entry]:
        entries = await self._store.entries(self._named(namespace), now=now, limit=limit)
        return [replace(entry, namespace=namespace) for entry in entries]

    async def drop_entry(self, namespace: str, key: str) -> bool:
        return await self._store.drop_entry(self._named(namespace), key)

    async def drop_expired(self, now: datetime) -> int:
        """The owner's sweep does it: `now` is the caller's word."""
        return 0

    # Admin

    async def facts(self) -> StoreFacts:
        """Only the kind of the store, and nothing about its size or place."""
        facts = await self._store.facts()
        return StoreFacts(
            facts.kind,
            location="",
            schema_version=facts.schema_version,
            bytes_used=0,
            without_vectors=facts.without_vectors,
            collection=facts.collection,
            vector_index=facts.vector_index,
        )

    async def check(self) -> list[StoreFinding]:
        raise whole_store_refused()

    async def repair(self) -> list[str]:
        raise whole_store_refused()

    async def optimise(self) -> int:
        raise whole_store_refused()

    async def scrub(self, phrases: Sequence[str] = ()) -> Receipt:
        raise whole_store_refused()

    def _narrowed(self, where: Filter) -> Filter:
        wanted = where.scopes or self._scopes
        return replace(where, scopes=tuple(name for name in wanted if name in self._scopes) or (NOWHERE,))

    def _named(self, name: str) -> str:
        return f"{name}@{self._own}"

    def _is_inside(self, job: Job) -> bool:
        return job.payload.get(SCOPE_KEY) in self._scopes

    async def _inside(self, ids: Iterable[str]) -> list[str]:
        """The ids of memories in the scopes, whoever owns them."""
        return list(await self.get_many(list(dict.fromkeys(ids)), viewer=EVERYONE))

    async def _only_inside(self, ids: Sequence[str]) -> list[str]:
        """The ids within, as often as they are given."""
        inside = frozenset(await self._inside(ids))
        return [memory_id for memory_id in ids if memory_id in inside]

    async def _allowed(self, changes: Sequence[Change]) -> list[Change]:
        """Raises Refused for what would be written outside, MemoryNotFound for what names a memory there."""
        written = {change.memory.id for change in changes if isinstance(change, Put | Revise)}
        named_ids = {each for change in changes for each in _named_by(change)}
        memories = await self._store.get_many(list(written | named_ids), viewer=EVERYONE)
        inside = {memory_id for memory_id, memory in memories.items() if memory.scope in self._scopes}
        outside = memories.keys() - inside
        for change in changes:
            if isinstance(change, Put | Revise):
                if change.memory.scope not in self._scopes:
                    raise _outside(f"the scope {change.memory.scope!r}")
                if change.memory.id in outside:
                    raise MemoryNotFound(change.memory.id)
            strict = isinstance(change, Mark | Inherit | Connect | Keep)
            for memory_id in () if isinstance(change, _PASSED_OVER) else _named_by(change):
                if memory_id in outside or (strict and memory_id not in inside | written):
                    raise MemoryNotFound(memory_id)
        return [
            change
            for change in changes
            if not isinstance(change, _PASSED_OVER) or outside.isdisjoint(_named_by(change))
        ]


def _named_by(change: Change) -> Iterable[str]:
    """The memories that a change is about, besides the one that it writes whole."""
    match change:
        case Put(memory=memory) | Revise(memory=memory):
            return (*memory.merged_from, *filter(None, (memory.supersedes,)))
        case Mark() | Tend() | Rate():
            return (change.memory_id,)
        case Inherit():
            return (change.memory_id, change.supersedes)
        case Connect(link=link):
            return (link.origin, link.target)
        case Disconnect():
            return (change.origin, change.target)
        case Keep(version=version):
            return (version.memory_id,)
        case Enqueue(job=job):
            return tuple(_strings(job.payload))


def _strings(value: object) -> Iterator[str]:
    """Every string in a job's payload, wherever it stands."""
    waiting = [value]
    while waiting:
        current = waiting.pop()
        if isinstance(current, str):
            yield current
        elif isinstance(current, Mapping):
            waiting.extend((*current.keys(), *current.values()))
        elif isinstance(current, list | tuple):
            waiting.extend(current)


def _outside(what: str) -> Refused:
    return Refused(f"This key doesn't reach {what}.", advice="Name a scope that it is for, or ask the owner.")
