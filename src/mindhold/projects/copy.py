"""Copies a project to another store and keeps the copy equal, under a lease that one process holds."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

from mindhold.aio import cancel_tasks
from mindhold.engine import Engine
from mindhold.memories.prepare import index_memory
from mindhold.model.errors import Conflict, MemoryNotFound, MindholdError, StoreError
from mindhold.model.memory import ANY_STATUS, Link, Memory, Relation, Version
from mindhold.model.query import Filter, Vector
from mindhold.model.scope import EVERYONE
from mindhold.ports.backend import LEASE, Move, MoverWatch, Placement, Placements
from mindhold.ports.store import Capability, Change, Connect, Disconnect, Keep, Put, Revise, Store

_OFTEN = timedelta(seconds=2)
_PAUSE_SECONDS = 0.1
PlacementChange = Callable[[Placement], Placement]


class ProjectLease:
    """The lease on a project, until it is moved or released. To drop copies, `to` is the store that it lives in."""

    def __init__(self, engine: Engine, name: str, to: str) -> None:
        self._engine = engine
        self._name = name
        self._own = Move(to, engine.new_id(), engine.clock() + LEASE)
        self._watch = MoverWatch()

    async def take(self) -> None:
        """Take the lease, also from a process that died. Raises Conflict while another process holds it."""
        first = await self._taken()
        patience = asyncio.get_running_loop().time() + 2 * LEASE.total_seconds()
        while first is not None:
            await asyncio.sleep(_PAUSE_SECONDS)
            other = await self._taken()
            if other is None:
                break
            late = asyncio.get_running_loop().time() > patience
            if other != first or late:
                raise Conflict(
                    f"The project {self._name!r} is being moved to {other.to} by another process.",
                    advice="Wait until that is done.",
                )

    async def _taken(self) -> Move | None:
        """Try to take the lease; return the other holder's move, or None if it is ours now."""
        now = self._engine.clock()
        moves: list[Move] = []

        def change(places: Placements) -> Placements:
            moves.clear()
            place = places.get(self._name, Placement(self._engine.store_registry.home))
            if place.renaming is not None:
                raise Conflict(f"The project {self._name!r} is being renamed.", advice="Try again.")
            if place.move is not None and not self._watch.gone(place.move, now=now):
                moves.append(place.move)
                return places
            self._own = replace(self._own, until=now + LEASE)
            copies = tuple(
                mode for mode in dict.fromkeys((*place.copies, self._own.to)) if mode != place.mode
            )
            return {**places, self._name: replace(place, copies=copies, move=self._own)}

        await self._engine.store_registry.settle(change)
        return moves[0] if moves else None

    async def keep(self) -> None:
        """Renew the lease. To be called after each step, since erasures wait for the end of a step.

        Raises Conflict if the lease was lost.
        """
        await self._renew()

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Renew the lease in the background, so that a long step doesn't lose it."""

        async def beat() -> None:
            while True:
                await asyncio.sleep(_OFTEN.total_seconds())
                with suppress(StoreError):  # the next renewal may succeed
                    await self.keep()

        beating = asyncio.create_task(beat())
        try:
            yield
        finally:
            await cancel_tasks(beating)

    async def check_copy(self, mode: str) -> None:
        """Raise Conflict unless the lease is ours and that store holds only a copy."""

        def change(place: Placement) -> Placement:
            if place.mode == mode or mode not in place.copies:
                raise Conflict(f"What is in {mode} of {self._name!r} is no copy.", advice="Look again.")
            return replace(place, move=replace(self._own, until=self._engine.clock() + LEASE))

        await self._settle(change)

    async def freeze(self) -> None:
        """Make writers wait; what they wrote before can be read."""
        await self._renew(frozen=True)

    async def flip(self) -> None:
        """Make the target the project's store; the source becomes a hidden copy. Raises Conflict if the lease was lost."""
        to = self._own.to

        def change(place: Placement) -> Placement:
            copies = tuple(mode for mode in (*place.copies, place.mode) if mode != to)
            return Placement(to, moves=place.moves + 1, copies=tuple(dict.fromkeys(copies)))

        await self._settle(change)

    async def forget(self, mode: str) -> None:
        """Remove the note of a copy. Raises Conflict if the lease was lost, or the project lives there."""

        def change(place: Placement) -> Placement:
            if place.mode == mode:
                raise Conflict(f"The project {self._name!r} lives in {mode}.", advice="Move it first.")
            return replace(place, copies=tuple(copy_mode for copy_mode in place.copies if copy_mode != mode))

        await self._settle(change)

    async def let_go(self) -> None:
        """Release the lease if it is still ours."""

        def change(places: Placements) -> Placements:
            place = places.get(self._name)
            if place is None or place.move is None or place.move.by != self._own.by:
                return places
            return {**places, self._name: replace(place, move=None)}

        await self._engine.store_registry.settle(change)

    async def _renew(self, *, frozen: bool = False) -> None:
        move = replace(self._own, until=self._engine.clock() + LEASE, frozen=frozen or self._own.frozen)
        await self._settle(lambda place: replace(place, move=move))
        self._own = move

    async def _settle(self, change: PlacementChange) -> None:
        """Change the placement. Raises Conflict if the lease was lost."""

        def change_held(places: Placements) -> Placements:
            place = places.get(self._name)
            if place is None or place.move is None or place.move.by != self._own.by:
                raise Conflict(
                    f"Moving the project {self._name!r} took a pause that was too long.",
                    advice="Migrate it again: it goes on where it was.",
                )
            return {**places, self._name: change(place)}

        await self._engine.store_registry.settle(change_held)


BATCH = 500
CopyProgress = Callable[[str, int, int | None], None]
Edge = tuple[str, str, Relation]
KeptVersions = Mapping[str, Sequence[Version]]


@dataclass(slots=True)
class CopyChecksum:
    """What one store has: counts, and a hash over ids and content hashes in order."""

    memories: int = 0
    versions: int = 0
    links: int = 0
    vectors: int = 0
    hashes: hashlib._Hash = field(default_factory=hashlib.sha256)

    def add(self, memory_id: str, content_hash: str) -> None:
        """Add a memory, in order of ids."""
        self.memories += 1
        self.hashes.update(f"{memory_id} {content_hash}\n".encode())

    def counts(self) -> tuple[int, int, int, str]:
        """Return what is compared between both stores."""
        return self.memories, self.versions, self.links, self.hashes.hexdigest()


@dataclass(slots=True)
class CopyRound:
    """What one round found and did."""

    source: CopyChecksum = field(default_factory=CopyChecksum)
    target: CopyChecksum = field(default_factory=CopyChecksum)  # of what was read in the target
    copied: int = 0
    erased: int = 0
    linked: int = 0
    outside: dict[Edge, Link] = field(default_factory=dict)  # links with only one end in the project

    @property
    def changes(self) -> int:
        """How many changes were necessary."""
        return self.copied + self.erased + self.linked

    @property
    def verified(self) -> bool:
        """Whether both stores were read completely and have the same."""
        return self.source.counts() == self.target.counts()


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copied record that was read in the target, and was equal to a source record with this fingerprint."""

    print: bytes
    content_hash: str
    versions: int
    vector: bool


@dataclass(slots=True)
class ProjectCopy:
    """Copies one project between stores. `between` is awaited after each step, and may raise to stop the copy."""

    engine: Engine
    name: str
    source: Store
    target: Store
    between: Callable[[], Awaitable[None]]
    progress: CopyProgress
    _there: set[str] | None = None  # ids in the target
    _same: dict[str, _Copy] = field(default_factory=dict)
    _linked: dict[str, tuple[bytes, int]] = field(default_factory=dict)  # by origin: fingerprint and number

    @property
    def _where(self) -> Filter:
        return Filter(viewer=EVERYONE, scopes=(self.name,), statuses=ANY_STATUS)

    async def round(self, step: str, *, last: bool = False) -> CopyRound:
        """Copy what differs. The last round also reads back what it copied.

        Raises Conflict if the target has a record in another scope.
        """
        report, ids = CopyRound(), list[str]()
        if self._there is None:
            self._there = await self._found_there()
        total = await self.source.count(self._where)
        async for batch in self.source.scan(self._where, batch=BATCH):
            ids += [memory.id for memory in batch]
            await self._batch(batch, report, again=last)
            await self.between()
            self.progress(step, len(ids), max(total, len(ids)))
        extra = sorted(self._there - set(ids))
        for start in range(0, len(extra), BATCH):
            await self.target.erase(extra[start : start + BATCH], references=False)
            await self.between()
        report.erased = len(extra)
        self._there = set(ids)
        await self._links(ids, report, f"{step}: links", again=last)
        if last and await self.target.count(self._where) != report.target.memories:
            self._there = None  # read the target again
            report.target.memories = -1
        return report

    async def _found_there(self) -> set[str]:
        ids: set[str] = set()
        async for batch in self.target.scan(self._where, batch=BATCH):
            ids.update(memory.id for memory in batch)
            await self.between()
        return ids

    async def _batch(self, batch: Sequence[Memory], done: CopyRound, *, again: bool) -> None:
        ours = await self.source.versions_among([memory.id for memory in batch])
        prints = {memory.id: _print(memory, ours.get(memory.id)) for memory in batch}
        doubtful = [memory for memory in batch if not self._known(memory.id, prints)]
        stale = await self._compared(doubtful, ours, prints)
        done.copied += len(stale)
        if stale and again:
            await self._compared(stale, ours, prints, copy=False)
        for memory in batch:
            done.source.add(memory.id, memory.content_hash)
            done.source.vectors += memory.embedded_by is not None
            done.source.versions += len(ours.get(memory.id, ()))
            if self._known(memory.id, prints):
                copy = self._same[memory.id]
                done.target.add(memory.id, copy.content_hash)
                done.target.versions += copy.versions
                done.target.vectors += copy.vector

    def _known(self, memory_id: str, prints: Mapping[str, bytes]) -> bool:
        copy = self._same.get(memory_id)
        return copy is not None and copy.print == prints[memory_id]

    async def _compared(
        self,
        doubtful: Sequence[Memory],
        ours: KeptVersions,
        prints: Mapping[str, bytes],
        *,
        copy: bool = True,
    ) -> list[Memory]:
        """Compare memories with the target; copy those that differ, and return them."""
        if not doubtful:
            return []
        ids = [memory.id for memory in doubtful]
        target_memories, theirs = await asyncio.gather(
            self.target.get_many(ids, viewer=EVERYONE), self.target.versions_among(ids)
        )
        stale: list[Memory] = []
        for memory in doubtful:
            other = target_memories.get(memory.id)
            if other is not None and other.scope != self.name:
                raise Conflict(
                    f"Memory {memory.id} is in the scope {other.scope!r} of the other store.",
                    advice="Export the project and import it there instead.",
                )
            same = other is not None and self._equal(memory, other)
            if other is not None and same and ours.get(memory.id, []) == theirs.get(memory.id, []):
                number = len(theirs.get(memory.id, ()))
                self._same[memory.id] = _Copy(
                    prints[memory.id], other.content_hash, number, other.embedded_by is not None
                )
            else:
                self._same.pop(memory.id, None)
                stale.append(memory)
        if stale and copy:
            await self._copy(stale, target_memories, ours, theirs)
            assert self._there is not None
            self._there.update(memory.id for memory in stale)
        return stale

    def _equal(self, memory: Memory, copy: Memory) -> bool:
        if replace(copy, embedded_by=memory.embedded_by) != memory:
            return False
        return not self._travels(memory) or copy.embedded_by == memory.embedded_by

    def _travels(self, memory: Memory) -> bool:
        """Whether its vector is copied: a vector of another than the present model would be replaced at once."""
        present = self.engine.vector_source.model
        current = memory.embedded_by is not None and present in (None, memory.embedded_by)
        return current and Capability.VECTORS in self.target.capabilities

    async def _copy(
        self,
        stale: Sequence[Memory],
        there: Mapping[str, Memory],
        ours: Mapping[str, Sequence[Version]],
        theirs: Mapping[str, Sequence[Version]],
    ) -> None:
        vectors: dict[str, Vector] = {}
        for model in {memory.embedded_by for memory in stale if self._travels(memory)}:
            own = [memory.id for memory in stale if memory.embedded_by == model]
            vectors |= await self.source.vector_of(own, model=model or "")
        # Versions are never overwritten: a copy with other versions is erased and copied again.
        strange = [
            memory.id
            for memory in stale
            if any(version not in ours.get(memory.id, []) for version in theirs.get(memory.id, ()))
        ]
        if strange:
            await self.target.erase(strange, references=False)
        puts = await asyncio.to_thread(self._puts, stale, vectors)
        existing = there.keys() - set(strange)
        revisions = [Revise(put.memory) for put in puts if put.memory.id in existing]  # a Put keeps the uses
        version_changes = [Keep(version) for memory in stale for version in ours.get(memory.id, ())]
        try:
            await self._apply([*puts, *revisions, *version_changes], stale)
        except MindholdError:
            await self._take_back([memory.id for memory in stale])
            raise

    async def _take_back(self, ids: Sequence[str]) -> None:
        """Erase from the target what was erased from the source since it was read.

        Whoever erased it may not have waited that long for us.
        """
        with suppress(MindholdError):  # the error that is being handled is raised instead
            remaining = await self.source.get_many(ids, viewer=EVERYONE)
            await self.target.erase(
                [memory_id for memory_id in ids if memory_id not in remaining], references=False
            )

    async def _apply(self, changes: Sequence[Change], stale: Sequence[Memory]) -> None:
        """Write the changes; if another record has the same content, erase that one first: the next round copies it."""
        try:
            await self.target.apply(changes)
        except Conflict:
            for agent in {memory.agent for memory in stale}:
                hashes = [memory.content_hash for memory in stale if memory.agent == agent]
                duplicates = await self.target.by_hash(hashes, scope=self.name, agent=agent)
                await self.target.erase([memory.id for memory in duplicates.values()], references=False)
            await self.target.apply([change for change in changes if not isinstance(change, Revise)])

    def _puts(self, stale: Sequence[Memory], vectors: Mapping[str, Vector]) -> list[Put]:
        zone = self.engine.zone()
        return [
            index_memory(memory, zone).put(vectors.get(memory.id), memory.embedded_by) for memory in stale
        ]

    async def _links(self, ids: Sequence[str], done: CopyRound, step: str, *, again: bool) -> None:
        inside = frozenset(ids)
        for start in range(0, len(ids), BATCH):
            chunk = ids[start : start + BATCH]
            ours = await self._edges(self.source, chunk)
            done.outside |= {
                edge: link for edge, link in ours.items() if not (edge[0] in inside and edge[1] in inside)
            }
            by_origin = _by_origin(chunk, ours, inside)
            doubtful = [
                memory_id
                for memory_id in chunk
                if self._linked.get(memory_id, (b"", 0))[0] != _print(by_origin[memory_id])
            ]
            changes = await self._linked_up(doubtful, by_origin, inside)
            done.linked += changes
            if changes and again:
                await self._linked_up(doubtful, by_origin, inside)
            done.source.links += sum(len(by_origin[memory_id]) for memory_id in chunk)
            done.target.links += sum(self._linked.get(memory_id, (b"", 0))[1] for memory_id in chunk)
            await self.between()
            self.progress(step, start + len(chunk), len(ids))

    async def _linked_up(
        self, doubtful: Sequence[str], wanted: Mapping[str, dict[Edge, Link]], inside: frozenset[str]
    ) -> int:
        """Make the links from these memories equal; return the number of changes. Each link belongs to its origin."""
        if not doubtful:
            return 0
        in_target = _by_origin(doubtful, await self._edges(self.target, doubtful), inside)
        changes: list[Change] = []
        for memory_id in doubtful:
            source_links, target_links = wanted[memory_id], in_target[memory_id]
            if source_links == target_links:
                self._linked[memory_id] = _print(source_links), len(source_links)
                continue
            self._linked.pop(memory_id, None)
            changes += [Disconnect(*edge) for edge in target_links.keys() - source_links.keys()]
            changes += [
                Connect(link) for edge, link in source_links.items() if target_links.get(edge) != link
            ]
        if changes:
            with suppress(MemoryNotFound):  # one end was erased meanwhile: the next round sees that
                await self.target.apply(changes)
        return len(changes)

    async def _edges(self, store: Store, ids: Sequence[str]) -> dict[Edge, Link]:
        links = await store.links_of(ids, viewer=EVERYONE)
        return {(link.origin, link.target, link.relation): link for link in links}


def _by_origin(
    ids: Sequence[str], edges: Mapping[Edge, Link], inside: frozenset[str]
) -> dict[str, dict[Edge, Link]]:
    """Group the links within the project by their origin."""
    grouped: dict[str, dict[Edge, Link]] = {memory_id: {} for memory_id in ids}
    for edge, link in sorted(edges.items(), key=lambda item: item[0]):
        if edge[0] in grouped and edge[1] in inside:
            grouped[edge[0]][edge] = link
    return grouped


def _print(*read: object) -> bytes:
    """Return a fingerprint of source records, which shows whether they changed."""
    return hashlib.blake2b(repr(read).encode("utf-8", "surrogatepass"), digest_size=16).digest()
