"""Scopes over several stores: the home store has them all, and a project's own store has it too."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from mindhold.model.errors import Conflict, ScopeNotFound, SettingsError, StoreError
from mindhold.model.query import Filter
from mindhold.model.scope import Scope
from mindhold.ports.houses import Place, Places
from mindhold.ports.store import Store
from mindhold.stores.routed.routing import EVERYONE, Routing

log = logging.getLogger("mindhold.routed")
_AGAIN_SECONDS = 30.0  # so long a renaming that couldn't be finished isn't tried again


class ScopesPart(Routing):
    """The Scopes protocol."""

    async def scopes(self) -> list[Scope]:
        home = await self._home()
        # Most calls begin here, so that they know of what other processes have moved.
        found, routes = await asyncio.gather(home.scopes(), self._routes(fresh=True))
        begun = [name for name, place in routes.places.items() if place.renaming is not None]
        tried = [name for name in begun if await self._try_renaming(name)]
        return await home.scopes() if tried else found

    async def put_scope(self, scope: Scope) -> None:
        routes, home = await self._routes(fresh=True), await self._home()
        if scope.name not in routes.places:
            _refuse_taken(scope.name, routes.places)
        store = await self._houses.house(routes.mode(scope.name))
        if store is not home:  # first: one that the home store has is taken for made
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

        def begun(places: Places) -> Places:
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
        """Finish what another has begun; what can't be finished now makes nobody's call fail, nor each of them wait."""
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
        """Every step may have been done before. Raises Conflict when the name is taken: then it is as it was."""
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

    def _in_order(self, place: Place) -> tuple[str, ...]:
        """Copies first, so that one out of reach leaves the project usable; home last."""
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
        scopes = await home.scopes()
        children = sum(scope.parent == name for scope in scopes)
        if name not in {scope.name for scope in scopes}:
            raise ScopeNotFound(name)
        if records or children:
            raise Conflict(
                f"Scope {name!r} still has {records} memories and {children} scopes in it.",
                advice="Export and forget them first.",
            )
        for mode in dict.fromkeys((*place.modes(), self._houses.home)):
            store = await self._houses.house(mode)
            async for batch in store.scan(everything):
                await store.erase([memory.id for memory in batch], references=False)
            if store is not home:
                with suppress(ScopeNotFound):  # an earlier try got so far
                    await store.drop_scope(name)
        await home.drop_scope(name)
        await self._houses.settle(
            lambda places: {other: one for other, one in places.items() if other != name}
        )

    def _refuse_moving(self, name: str, place: Place) -> None:
        if place.move is not None and not self._given_up(place):
            raise Conflict(
                f"The project {name!r} is being moved to another store.", advice="Wait until that is done."
            )


async def _names(store: Store) -> Collection[str]:
    return {scope.name for scope in await store.scopes()}


async def _rename(store: Store, old: str, new: str) -> None:
    """Unless that has been done."""
    if old in await _names(store):
        with suppress(ScopeNotFound):  # somebody else was faster
            await store.rename_scope(old, new)


def _replaced(places: Places, old: str, place: Place, *, name: str) -> Places:
    """The place that was being renamed, under that name; nothing when it has changed meanwhile."""
    if places.get(old) != place:
        return places
    rest = {other: one for other, one in places.items() if other != old}
    return {**rest, name: replace(place, renaming=None)}


def _refuse_taken(name: str, places: Places, *, besides: str | None = None) -> None:
    """What another project is called, or is about to be."""
    for other, place in places.items():
        if other != besides and name.casefold() in (other.casefold(), (place.renaming or "").casefold()):
            raise _taken(name)


def _taken(name: str) -> Conflict:
    return Conflict(f"There is a scope {name!r} already.", advice="Choose another name.")
