"""The write path over several stores: each change goes to the store of its record, even while a project moves."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from mindhold.model.errors import MemoryNotFound, Refused, ScopeNotFound, SettingsError, StoreBusy, StoreError
from mindhold.model.query import Vector
from mindhold.model.scope import EVERYONE, GLOBAL
from mindhold.ports.store import (
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
    Tend,
)
from mindhold.stores.routed.routes import PAUSE_SECONDS, RoutedPart, Routes, merged_receipts


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
