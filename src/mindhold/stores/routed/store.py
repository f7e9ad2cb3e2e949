"""The routed store: records, search, links, scopes, jobs and health over several stores; each change goes to the store of its record."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from mindhold.model.errors import (
    Conflict,
    MemoryNotFound,
    Refused,
    ScopeNotFound,
    SettingsError,
    StoreBusy,
    StoreError,
)
from mindhold.model.memory import Link, Memory, Relation, Version
from mindhold.model.query import Candidates, Filter, Neighbour, Order, PagePosition, Search, Vector
from mindhold.model.scope import EVERYONE, GLOBAL, Scope
from mindhold.ports.backend import Placement, Placements
from mindhold.ports.store import (
    Capability,
    Change,
    Connect,
    Cursors,
    Disconnect,
    Enqueue,
    Entries,
    Inherit,
    Jobs,
    Keep,
    Mark,
    Put,
    Rate,
    Receipt,
    Revise,
    Store,
    StoreAdmin,
    StoreFinding,
    Tend,
)
from mindhold.stores.base import MOST_RESOLVED, SingleRecords, check_droppable, check_empty
from mindhold.stores.routed.routes import (
    PAUSE_SECONDS,
    RoutedPart,
    Routes,
    at_home,
    merged_candidates,
    merged_neighbours,
    merged_pages,
    merged_receipts,
    merged_scans,
    merged_tallies,
)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A change with the mode and scope of its record; the scope is missing if it isn't known."""

    change: Change
    mode: str
    scope: str | None


class RoutedChanges(RoutedPart):
    """Implements RecordChanges and RecordSearch.put_vectors().

    A write is acknowledged once the registry, read after it, confirms that it went to the right store. A mover freezes the
    project in the registry before its last look, so a write is either seen by that look or repeated here.
    """

    async def apply(self, changes: Sequence[Change]) -> None:
        changes_left = list(changes)
        while changes_left:
            routes = await self._at_rest(_scopes(changes_left))
            try:
                placed = await self._placed(changes_left, routes)
                if len({placement.mode for placement in placed}) > 1:
                    await self._check_scopes(_scopes(changes_left))
                for mode in sorted(
                    {placement.mode for placement in placed}, key=lambda mode: mode == routes.home
                ):
                    store = await self._houses.house(mode)
                    await store.apply([placement.change for placement in placed if placement.mode == mode])
            except (ScopeNotFound, MemoryNotFound):
                now = await self._routes(fresh=True)
                if not any(now.moved(name, routes) for name in now.places.keys() | routes.places.keys()):
                    raise
                continue
            changes_left = await self._to_repeat(placed, routes)

    async def erase(self, ids: Sequence[str], *, references: bool = True) -> Receipt:
        """Erase copies first and the live records last: if interrupted, the erasure can be repeated.

        Raises Refused if a copy can't be reached.
        """
        receipts: list[Receipt] = []
        scopes: dict[str, str] = {}
        waited = False
        while True:
            routes = await self._routes()
            if routes.places:
                memories = await self._found(ids, routes, viewer=EVERYONE)
                scopes |= {memory_id: memory.scope for memory_id, memory in memories.items()}
            modes = _holding(ids, scopes, routes)
            for mode in modes:
                await self._check_reach(mode, ids, routes, frozenset(scopes.values()))
            for mode in modes:
                store = await self._houses.house(mode)
                receipts.append(await store.erase(ids, references=references))
            now = await self._routes(fresh=True)
            names = frozenset(scopes.values()) if scopes.keys() >= set(ids) else frozenset(now.places)
            unsettled = now.unsettled(routes) & names
            if unsettled:
                now = await self._at_rest(unsettled)
            if not waited and await self._stepped(names):
                waited = True
                continue
            moved = any(now.moved(name, routes) for name in unsettled)
            if not moved and set(_holding(ids, scopes, now)) <= set(modes):
                return receipts[0] if len(receipts) == 1 else merged_receipts(receipts, ids=ids)

    async def _check_reach(
        self, mode: str, ids: Sequence[str], routes: Routes, scopes: frozenset[str]
    ) -> None:
        """Raises Refused if a copy can't be reached, before anything is erased anywhere."""
        try:
            await (await self._houses.house(mode)).get_many(ids[:1], viewer=EVERYONE)
        except (StoreError, SettingsError) as error:
            copied = sorted(
                name for name in scopes if name in routes.places and mode in routes.places[name].copies
            )
            if not copied or any(routes.mode(name) == mode for name in scopes):
                raise
            raise Refused(
                f"A hidden copy of {copied[0]!r} is in {mode}, where nothing can be erased now: {error.message}",
                advice="Nothing was erased. If that store is gone for good, say so: "
                f"`mindhold migrate {copied[0]!r} --forget-copy {mode}`.",
            ) from error

    async def _stepped(self, names: frozenset[str]) -> bool:
        """Wait for moves of these projects. Returns whether there were any; a mover has then written what it read before.

        Raises StoreBusy if that takes too long.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience
        places = (await self._routes(fresh=True)).places
        moves = {name: place.move for name, place in places.items() if name in names and place.move}
        remaining = dict(moves)
        while remaining:
            places = (await self._routes(fresh=True)).places
            remaining = {
                name: move for name, move in remaining.items() if name in places and places[name].move == move
            }
            if any(self._given_up(places[name]) for name in remaining):
                await self._houses.settle(self._thawed)
            elif remaining and loop.time() > deadline:
                raise StoreBusy(
                    f"The project {min(remaining)!r} is being moved to another store.",
                    advice="Forget it again in a moment.",
                )
            elif remaining:
                await asyncio.sleep(PAUSE_SECONDS)
        return bool(moves)

    async def touch(self, ids: Sequence[str], when: datetime) -> None:
        for store, own in await self._holders(ids):
            await store.touch(own, when)

    async def note_shown(self, ids: Sequence[str], when: datetime) -> None:
        for store, own in await self._holders(ids):
            await store.note_shown(own, when)

    async def put_vectors(self, vectors: Mapping[str, tuple[str, Vector]], *, model: str) -> int:
        return sum(
            [
                await store.put_vectors({memory_id: vectors[memory_id] for memory_id in own}, model=model)
                for store, own in await self._holders(vectors)
            ]
        )

    async def _check_scopes(self, names: frozenset[str]) -> None:
        """Raises ScopeNotFound before the first of several stores writes its part."""
        missing = names - {scope.name for scope in await (await self._home()).scopes()}
        if missing:
            raise ScopeNotFound(min(missing))

    async def _placed(self, changes: Sequence[Change], routes: Routes) -> list[_Placed]:
        """The changes with their stores. Raises MemoryNotFound, and Refused for a link between two stores."""
        if not routes.away:
            return [_Placed(change, routes.home, _scope(change)) for change in changes]
        scopes = {change.memory.id: change.memory.scope for change in changes if isinstance(change, Put)}
        named_ids = {end for change in changes for end in _ends(change)} - scopes.keys()
        memories = await self._found(list(named_ids), routes, viewer=EVERYONE)
        scopes |= {memory_id: memory.scope for memory_id, memory in memories.items()}
        placed: list[_Placed] = []
        for change in changes:
            own = _scope(change)
            modes = {routes.mode(scopes[end]) for end in _ends(change) if end in scopes}
            if isinstance(change, Put | Enqueue):
                placed.append(_Placed(change, routes.home if own is None else routes.mode(own), own))
            elif isinstance(change, Disconnect | Tend | Rate):  # ignored if there is no record
                placed += [_Placed(change, mode, scopes.get(_ends(change)[0])) for mode in modes]
            elif missing := [end for end in _ends(change) if end not in scopes]:
                raise MemoryNotFound(missing[0])
            elif isinstance(change, Revise) and modes != {routes.mode(change.memory.scope)}:
                raise Refused(
                    "A memory can't be moved into a project that is in another store.",
                    advice="Remember it there, and forget it here.",
                )
            elif len(modes) == 1:
                placed.append(_Placed(change, min(modes), scopes[_ends(change)[0]]))
            elif not (isinstance(change, Connect) and change.link.automatic):
                raise Refused(
                    "Memories in different stores can't be linked.",
                    advice="`mindhold projects list` shows which project is in which.",
                )
        return placed

    async def _to_repeat(self, placed: Sequence[_Placed], routes: Routes) -> list[Change]:
        """The changes written to a project that has moved since and which aren't in its new store."""
        if all(placement.scope == GLOBAL or isinstance(placement.change, Enqueue) for placement in placed):
            return []  # the global scope and jobs never move
        unsettled = (await self._routes(fresh=True)).unsettled(routes)
        if not unsettled:
            return []
        scopes = await self._written_to(placed)
        now = await self._at_rest({scope for scope in scopes if scope in unsettled}, fresh=True)
        moved = [
            placement.change
            for placement, scope in zip(placed, scopes, strict=True)
            if scope is not None and now.moved(scope, routes)
        ]
        puts = [change.memory for change in moved if isinstance(change, Put)]
        memories = await self._found([memory.id for memory in puts], now, viewer=EVERYONE)
        copied = {
            memory.id
            for memory in puts
            if memory.id in memories and memories[memory.id].updated == memory.updated
        }
        return [change for change in moved if not (isinstance(change, Put) and change.memory.id in copied)]

    async def _written_to(self, placed: Sequence[_Placed]) -> list[str | None]:
        """The scope of each change's record in the store where the change was made."""
        unknown: dict[str, list[str]] = defaultdict(list)
        for placement in placed:
            if placement.scope is None:
                unknown[placement.mode].extend(_ends(placement.change)[:1])
        scopes: dict[str, str] = {}
        for mode, ids in unknown.items():
            memories = await (await self._houses.house(mode)).get_many(ids, viewer=EVERYONE)
            scopes |= {memory_id: memory.scope for memory_id, memory in memories.items()}
        return [
            placement.scope or next((scopes[end] for end in _ends(placement.change) if end in scopes), None)
            for placement in placed
        ]


def _holding(ids: Sequence[str], scopes: Mapping[str, str], routes: Routes) -> list[str]:
    """The stores that may have data of the records: copies, home (which may refer to them), then where they live."""
    if any(memory_id not in scopes for memory_id in ids):
        return list(reversed(routes.used))
    names = frozenset(scopes[memory_id] for memory_id in ids)
    copies = [mode for name in names if name in routes.places for mode in routes.places[name].copies]
    live = {routes.mode(name) for name in names}
    others = [mode for mode in dict.fromkeys((*sorted(copies), routes.home)) if mode not in live]
    return [*others, *sorted(live)]


def _scopes(changes: Sequence[Change]) -> frozenset[str]:
    return frozenset(scope for change in changes if (scope := _scope(change)) is not None)


def _scope(change: Change) -> str | None:
    return change.memory.scope if isinstance(change, Put | Revise) else None


def _ends(change: Change) -> tuple[str, ...]:
    """The records that must exist for the change."""
    match change:
        case Put() | Enqueue():
            return ()
        case Revise(memory=memory):
            return (memory.id,)
        case Mark() | Inherit() | Tend() | Rate():
            return (change.memory_id,)
        case Keep(version=version):
            return (version.memory_id,)
        case Connect(link=link):
            return (link.origin, link.target)
        case Disconnect():
            return (change.origin, change.target)


class RoutedRecords(RoutedPart, SingleRecords):
    """Implements Records, except writing."""

    async def get_many(self, ids: Sequence[str], *, viewer: str) -> dict[str, Memory]:
        routes = await self._routes()
        memories = await self._found(ids, routes, viewer=viewer)
        if all(memory_id in memories for memory_id in ids):
            return memories
        now = await self._routes(fresh=True)  # it may be in a project that was created a moment ago
        return memories if now is routes else await self._found(ids, now, viewer=viewer)

    async def resolve(self, prefix: str, *, viewer: str) -> list[str]:
        routes, home = await self._routes(), await self._home()
        ids = await home.resolve(prefix, viewer=viewer)
        if not routes.away:
            return ids
        if prefix in await self._found([prefix] if prefix in ids else [], routes, viewer=viewer):
            return [prefix]
        for mode in routes.modes[1:]:
            ids += await (await self._houses.house(mode)).resolve(prefix, viewer=viewer)
        memories = await self._found(list(dict.fromkeys(ids)), routes, viewer=viewer)
        return sorted(memories)[:MOST_RESOLVED]

    async def find(
        self,
        where: Filter,
        *,
        order: Order = Order.NEWEST,
        limit: int = 50,
        after: str | PagePosition | None = None,
    ) -> list[Memory]:
        parts = await self._asked(where)
        if len(parts) == 1 and not (await self._routes()).away:
            return await parts[0][0].find(where, order=order, limit=limit, after=after)
        if isinstance(after, str):  # the record needn't be in every store
            after = PagePosition.of(await self.get(after, viewer=where.viewer), order)
        pages = [
            await store.find(narrowed, order=order, limit=limit, after=after) for store, narrowed in parts
        ]
        return merged_pages(pages, order=order, limit=limit)

    async def count(self, where: Filter, *, most: int | None = None) -> int:
        number = sum(await self._of_each(where, lambda store, own: store.count(own, most=most)))
        return number if most is None else min(number, most)

    async def tally(self, where: Filter, by: str) -> dict[str, int]:
        tallies = await self._of_each(where, lambda store, own: store.tally(own, by))
        return tallies[0] if len(tallies) == 1 else merged_tallies(tallies, by)

    async def by_hash(self, hashes: Sequence[str], *, scope: str, agent: str) -> dict[str, Memory]:
        return await (await self._store_of(scope)).by_hash(hashes, scope=scope, agent=agent)

    async def by_gist(self, gists: Sequence[str], *, scope: str, agent: str) -> dict[str, list[Memory]]:
        return await (await self._store_of(scope)).by_gist(gists, scope=scope, agent=agent)

    async def derived_from(self, ids: Sequence[str]) -> list[Memory]:
        routes = await self._routes()
        memories: list[Memory] = []
        for mode in routes.modes:
            stored = await (await self._houses.house(mode)).derived_from(ids)
            memories += [memory for memory in stored if routes.mode(memory.scope) == mode]
        return sorted(memories, key=lambda memory: memory.id) if routes.away else memories

    async def scan(self, where: Filter, *, batch: int = 500) -> AsyncIterator[list[Memory]]:
        scans = [store.scan(narrowed, batch=batch) for store, narrowed in await self._asked(where)]
        async for memories in scans[0] if len(scans) == 1 else merged_scans(scans, batch=batch):
            yield memories


class RoutedIndex(RoutedPart):
    """Implements RecordSearch and Links, except writing."""

    async def search(self, search: Search) -> Candidates:
        answers = await self._of_each(
            search.filter, lambda store, where: store.search(replace(search, filter=where))
        )
        return answers[0] if len(answers) == 1 else merged_candidates(answers, search)

    async def nearest(
        self, vectors: Sequence[Vector], *, model: str, where: Filter, limit: int
    ) -> list[list[Neighbour]]:
        answers = await self._of_each(
            where, lambda store, own: store.nearest(vectors, model=model, where=own, limit=limit)
        )
        return answers[0] if len(answers) == 1 else merged_neighbours(answers, limit=limit)

    async def unembedded(self, model: str, *, limit: int, scopes: Sequence[str] = ()) -> list[Memory]:
        routes, home = await self._routes(), await self._home()
        if not routes.away:
            return await home.unembedded(model, limit=limit, scopes=scopes)
        names: dict[str, list[str]] = {mode: [] for mode in routes.modes}
        for name in scopes or dict.fromkeys([*(scope.name for scope in await home.scopes()), *routes.away]):
            names[routes.mode(name)].append(name)
        memories: list[Memory] = []
        for mode, own in names.items():
            if own and len(memories) < limit:
                with suppress(*(() if mode == routes.home else (StoreError, SettingsError))):  # next time
                    store = await self._houses.house(mode)
                    memories += await store.unembedded(model, limit=limit - len(memories), scopes=own)
        return memories

    async def vector_of(self, ids: Sequence[str], *, model: str) -> dict[str, Vector]:
        vectors: dict[str, Vector] = {}
        for store, own in await self._holders(ids):
            vectors |= await store.vector_of(own, model=model)
        return vectors

    async def links_of(
        self, ids: Sequence[str], *, relations: Sequence[Relation] = (), viewer: str
    ) -> list[Link]:
        routes = await self._routes()
        if not routes.away:
            return await (await self._home()).links_of(ids, relations=relations, viewer=viewer)
        links: list[Link] = []
        for mode, own in (await self._by_mode(dict.fromkeys(ids), routes)).items():
            store = await self._houses.house(mode)
            stored_links = await store.links_of(own, relations=relations, viewer=viewer)
            ends = await store.get_many(
                list({end for link in stored_links for end in (link.origin, link.target)}), viewer=viewer
            )
            own_ids = {memory_id for memory_id, memory in ends.items() if routes.mode(memory.scope) == mode}
            links += [link for link in stored_links if link.origin in own_ids and link.target in own_ids]
        return sorted(links, key=lambda link: (link.origin, link.target, link.relation))

    async def count_links(self, where: Filter) -> int:
        return sum(await self._of_each(where, lambda store, own: store.count_links(own)))

    async def versions_of(self, memory_id: str, *, latest: int | None = None) -> list[Version]:
        for store, _ in await self._holders([memory_id]):
            return await store.versions_of(memory_id, latest=latest)
        return []

    async def versions_among(self, ids: Sequence[str]) -> dict[str, list[Version]]:
        versions: dict[str, list[Version]] = {}
        for store, own in await self._holders(ids):
            versions |= await store.versions_among(own)
        return versions


log = logging.getLogger("mindhold.routed")
_AGAIN_SECONDS = 30.0  # seconds before a failed rename is tried again


class RoutedScopes(RoutedPart):
    """Implements Scopes."""

    async def scopes(self) -> list[Scope]:
        home = await self._home()
        # Most calls begin here, so that they see moves of other processes.
        scopes, routes = await asyncio.gather(home.scopes(), self._routes(fresh=True))
        begun = [name for name, place in routes.places.items() if place.renaming is not None]
        tried = [name for name in begun if await self._try_renaming(name)]
        return await home.scopes() if tried else scopes

    async def put_scope(self, scope: Scope) -> None:
        routes, home = await self._routes(fresh=True), await self._home()
        if scope.name not in routes.places:
            _refuse_taken(scope.name, routes.places)
        store = await self._store_of(scope.name, routes)
        if store is not home:  # first: a scope in the home store counts as created
            await store.put_scope(replace(scope, parent=None))
        await home.put_scope(scope)

    async def rename_scope(self, old: str, new: str) -> None:
        routes, home = await self._routes(fresh=True), await self._home()
        place = routes.places.get(old)
        if place is None or old == new:
            _refuse_taken(new, routes.places, besides=old)
            await home.rename_scope(old, new)
            return
        if place.renaming != new:
            for store in (home, *[await self._houses.house(mode) for mode in place.modes()]):
                if new in await _names(store):
                    raise _taken(new)

        def begun(places: Placements) -> Placements:
            if old not in places:
                raise ScopeNotFound(old)
            self._refuse_moving(old, places[old])
            if places[old].renaming not in (None, new):
                raise Conflict(f"{old!r} is being renamed to {places[old].renaming!r}.")
            _refuse_taken(new, places, besides=old)
            return {**places, old: replace(places[old], renaming=new)}

        await self._houses.settle(begun)
        await self._finish_renaming(old)

    async def _try_renaming(self, name: str) -> bool:
        """Finish a rename that another process began. A failure is no error of the present call, and is not retried at once."""
        now = asyncio.get_running_loop().time()
        if now < self._put_off.get(name, now):
            return False
        try:
            await self._finish_renaming(name)
        except (StoreError, SettingsError, Conflict, ScopeNotFound) as error:
            log.warning("a renaming is put off: %s", error.code)
            self._put_off[name] = asyncio.get_running_loop().time() + _AGAIN_SECONDS
        return True

    async def _finish_renaming(self, old: str) -> None:
        """Finish a rename; every step may have been done before. Raises Conflict if the name is taken, and undoes it."""
        place = (await self._routes(fresh=True)).places.get(old)
        if place is None or place.renaming is None:
            return
        new = place.renaming
        try:
            for mode in self._in_order(place):
                await _rename(await self._houses.house(mode), old, new)
        except Conflict:
            for mode in self._in_order(place):
                store = await self._houses.house(mode)
                if old not in await _names(store):
                    await _rename(store, new, old)
            await self._houses.settle(lambda places: _replaced(places, old, place, name=old))
            raise
        await self._houses.settle(lambda places: _replaced(places, old, place, name=new))

    def _in_order(self, place: Placement) -> tuple[str, ...]:
        """Copies first, so that an unreachable one leaves the project usable; home last."""
        return tuple(dict.fromkeys((*reversed(place.modes()), self._houses.home)))

    async def drop_scope(self, name: str) -> None:
        routes, home = await self._routes(fresh=True), await self._home()
        place = routes.places.get(name)
        if place is None:
            await home.drop_scope(name)
            return
        self._refuse_moving(name, place)
        everything = Filter(viewer=EVERYONE, scopes=(name,), statuses=())
        records = await (await self._houses.house(place.mode)).count(everything)
        scopes = {scope.name: scope for scope in await home.scopes()}
        check_droppable(scopes, name)
        check_empty(scopes, name, records)
        for mode in dict.fromkeys((*place.modes(), self._houses.home)):
            store = await self._houses.house(mode)
            async for batch in store.scan(everything):
                await store.erase([memory.id for memory in batch], references=False)
            if store is not home:
                with suppress(ScopeNotFound):  # an earlier attempt got this far
                    await store.drop_scope(name)
        await home.drop_scope(name)
        await self._houses.settle(
            lambda places: {other: other_place for other, other_place in places.items() if other != name}
        )

    def _refuse_moving(self, name: str, place: Placement) -> None:
        if place.move is not None and not self._given_up(place):
            raise Conflict(
                f"The project {name!r} is being moved to another store.", advice="Wait until that is done."
            )


async def _names(store: Store) -> Collection[str]:
    return {scope.name for scope in await store.scopes()}


async def _rename(store: Store, old: str, new: str) -> None:
    """Rename a scope, unless that was done before."""
    if old in await _names(store):
        with suppress(ScopeNotFound):  # another process was faster
            await store.rename_scope(old, new)


def _replaced(places: Placements, old: str, place: Placement, *, name: str) -> Placements:
    """The placements with the renamed one under its new name; unchanged if it has changed meanwhile."""
    if places.get(old) != place:
        return places
    rest = {other: other_place for other, other_place in places.items() if other != old}
    return {**rest, name: replace(place, renaming=None)}


def _refuse_taken(name: str, places: Placements, *, besides: str | None = None) -> None:
    """Raises Conflict for the present or future name of another project."""
    for other, place in places.items():
        if other != besides and name.casefold() in (other.casefold(), (place.renaming or "").casefold()):
            raise _taken(name)


def _taken(name: str) -> Conflict:
    return Conflict(f"There is a scope {name!r} already.", advice="Choose another name.")


class RoutedJobs(RoutedPart):
    """Implements Jobs, Cursors and Entries by the home store."""

    lease = at_home(Jobs.lease)
    renew = at_home(Jobs.renew)
    finish = at_home(Jobs.finish)
    jobs = at_home(Jobs.jobs)
    job = at_home(Jobs.job)
    replace_job = at_home(Jobs.replace_job)
    drop_jobs = at_home(Jobs.drop_jobs)
    tally_jobs = at_home(Jobs.tally_jobs)
    cursor = at_home(Cursors.cursor)
    set_cursor = at_home(Cursors.set_cursor)
    swap_cursor = at_home(Cursors.swap_cursor)
    put_entry = at_home(Entries.put_entry)
    entry = at_home(Entries.entry)
    take_entry = at_home(Entries.take_entry)
    entries = at_home(Entries.entries)
    drop_entry = at_home(Entries.drop_entry)
    drop_expired = at_home(Entries.drop_expired)


class RoutedUpkeep(RoutedPart):
    """Implements StoreAdmin. Reports about other stores than home are prefixed with their mode."""

    facts = at_home(StoreAdmin.facts)

    async def check(self) -> list[StoreFinding]:
        findings = await (await self._home()).check()
        for mode in (await self._routes()).used[1:]:
            try:
                own_findings = await (await self._houses.house(mode)).check()
            except (StoreError, SettingsError) as error:
                findings.append(StoreFinding(mode, False, error.message, error.advice))
                continue
            findings += [replace(finding, name=f"{mode}: {finding.name}") for finding in own_findings]
        return findings

    async def repair(self) -> list[str]:
        actions = await (await self._home()).repair()
        for mode in (await self._routes()).used[1:]:
            try:
                mended = await (await self._houses.house(mode)).repair()
            except (StoreError, SettingsError) as error:
                mended = [f"left as it is: {error.message}"]
            actions += [f"{mode}: {step}" for step in mended]
        return actions

    async def optimise(self) -> int:
        return sum(
            [await (await self._houses.house(mode)).optimise() for mode in (await self._routes()).used]
        )

    async def scrub(self, phrases: Sequence[str] = ()) -> Receipt:
        receipt = await (await self._home()).scrub(phrases)
        removed, remaining = dict(receipt.removed), dict(receipt.remaining)
        for mode in (await self._routes()).used[1:]:
            also = await (await self._houses.house(mode)).scrub(phrases)
            removed |= {f"{mode}: {place}": count for place, count in also.removed.items()}
            remaining |= {f"{mode}: {place}": count for place, count in also.remaining.items()}
        return Receipt(receipt.ids, removed, remaining)


class RoutedStore(
    RoutedRecords, RoutedChanges, RoutedIndex, RoutedScopes, RoutedJobs, RoutedUpkeep, RoutedPart
):
    """A store over several stores. The home store has everything but the records of projects that live elsewhere.

    While there are none, every call goes to the home store unchanged.
    """

    _capabilities: frozenset[Capability] = frozenset()

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities of the home store."""
        return self._capabilities

    async def open(self) -> None:
        self._capabilities = (await self._home()).capabilities

    async def close(self) -> None:
        await self._houses.close()
