"""Which store a scope or a record is in, now; and writing so that a project that moves meanwhile loses nothing."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from mindhold.model.access import EVERYONE as EVERYONE
from mindhold.model.errors import StoreBusy
from mindhold.model.memory import Memory
from mindhold.model.query import Filter
from mindhold.ports.clock import Clock
from mindhold.ports.houses import Houses, Place, Places, Watch
from mindhold.ports.store import Store

T = TypeVar("T")
PATIENCE_SECONDS = 60.0  # how long a writer waits for a project that is being moved
PAUSE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Routes:
    """The registry at one moment."""

    home: str
    places: Places
    away: Mapping[str, str]  # mode by scope, of those that aren't at home

    @classmethod
    def of(cls, home: str, places: Places) -> Routes:
        """As the registry says."""
        return cls(home, places, {name: one.mode for name, one in places.items() if one.mode != home})

    @property
    def modes(self) -> tuple[str, ...]:
        """Where something lives, home first."""
        return tuple(dict.fromkeys((self.home, *self.away.values())))

    @property
    def used(self) -> tuple[str, ...]:
        """Where something is, hidden copies included."""
        return tuple(
            dict.fromkeys((self.home, *(mode for place in self.places.values() for mode in place.modes())))
        )

    def mode(self, scope: str) -> str:
        """Where a scope's records live."""
        return self.away.get(scope, self.home)

    def moved(self, scope: str, since: Routes) -> bool:
        """Whether it is elsewhere than it was, or went and came back."""
        now, then = (routes.places.get(scope, Place(routes.home)) for routes in (self, since))
        return (now.mode, now.moves) != (then.mode, then.moves)

    def frozen(self, scope: str) -> bool:
        """Whether it is about to be elsewhere."""
        place = self.places.get(scope)
        return place is not None and place.move is not None and place.move.frozen

    def unsettled(self, since: Routes) -> frozenset[str]:
        """The scopes of which it isn't sure that they are still where they were."""
        names = since.places.keys() | self.places.keys()
        return frozenset(name for name in names if self.frozen(name) or self.moved(name, since))


class Routing:
    """What the parts of the routed store share."""

    def __init__(self, houses: Houses, *, clock: Clock, patience: float = PATIENCE_SECONDS) -> None:
        self._houses = houses
        self._clock = clock
        self._patience = patience
        self._known = Routes.of(houses.home, {})
        self._watch = Watch()
        self._put_off: dict[str, float] = {}  # renamings, and until when

    async def _home(self) -> Store:
        return await self._houses.house(self._houses.home)

    async def _routes(self, *, fresh: bool = False) -> Routes:
        places = await self._houses.places(fresh=fresh)
        if places is not self._known.places:
            self._known = Routes.of(self._houses.home, places)
        return self._known

    async def _asked(self, where: Filter) -> list[tuple[Store, Filter]]:
        """The stores that have something within the filter, each with the part of it that it is asked."""
        routes, home = await self._routes(), await self._home()
        if not routes.away or (where.scopes and routes.away.keys().isdisjoint(where.scopes)):
            return [(home, where)]
        names: dict[str, list[str]] = defaultdict(list)
        # What was left behind at home is hidden by naming all that lives there.
        for name in where.scopes or [*(scope.name for scope in await home.scopes()), *routes.away]:
            names[routes.mode(name)].append(name)
        return [
            (await self._houses.house(mode), replace(where, scopes=tuple(dict.fromkeys(own))))
            for mode, own in names.items()
        ]

    async def _of_each(self, where: Filter, ask: Callable[[Store, Filter], Awaitable[T]]) -> list[T]:
        """What each of the stores answers, all at once."""
        asked = await self._asked(where)
        if len(asked) == 1:
            return [await ask(*asked[0])]
        return list(await asyncio.gather(*(ask(store, narrowed) for store, narrowed in asked)))

    async def _found(self, ids: Sequence[str], routes: Routes, *, viewer: str) -> dict[str, Memory]:
        """Those that live where they are found: a copy that was left behind is none."""
        found: dict[str, Memory] = {}
        for mode in routes.modes:
            rest = [memory_id for memory_id in ids if memory_id not in found]
            if rest:
                store = await self._houses.house(mode)
                there = await store.get_many(rest, viewer=viewer)
                found |= {one: memory for one, memory in there.items() if routes.mode(memory.scope) == mode}
        return found

    async def _by_mode(self, ids: Iterable[str], routes: Routes) -> dict[str, list[str]]:
        """The ids of records by where they live; ids of none are absent."""
        wanted = list(ids)
        found = await self._found(list(dict.fromkeys(wanted)), routes, viewer=EVERYONE)
        grouped: dict[str, list[str]] = defaultdict(list)
        for memory_id in wanted:
            if memory_id in found:
                grouped[routes.mode(found[memory_id].scope)].append(memory_id)
        return grouped

    async def _at_rest(self, scopes: Iterable[str], *, fresh: bool = False) -> Routes:
        """The routes when none of the scopes is about to be elsewhere. Raises StoreBusy when that takes too long."""
        wanted = tuple(scopes)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience
        routes = await self._routes(fresh=fresh)
        while frozen := [name for name in wanted if routes.frozen(name)]:
            routes = await self._routes(fresh=True)
            if any(self._given_up(routes.places.get(name)) for name in frozen):
                await self._houses.settle(self._thawed)
            elif loop.time() > deadline:
                raise StoreBusy(
                    f"The project {frozen[0]!r} is being moved to another store.",
                    advice="Try again in a moment.",
                )
            else:
                await asyncio.sleep(PAUSE_SECONDS)
        return routes

    def _given_up(self, place: Place | None) -> bool:
        """Whether its mover is gone: it would have said so otherwise."""
        return (
            place is not None and place.move is not None and self._watch.gone(place.move, now=self._clock())
        )

    def _thawed(self, places: Places) -> Places:
        return {
            name: replace(place, move=None) if self._given_up(place) else place
            for name, place in places.items()
        }
