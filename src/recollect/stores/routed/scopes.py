"""Scopes over several stores: the home store has them all, and a project's own store has it too."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from recollect.model.errors import Conflict, ScopeNotFound
from recollect.model.query import Filter
from recollect.model.scope import Scope
from recollect.ports.houses import Place, Places
from recollect.ports.store import Store
from recollect.stores.routed.routing import EVERYONE, Routing


class ScopesPart(Routing):
    """The Scopes protocol."""

    async def scopes(self) -> list[Scope]:
        home = await self._home()
        # Most calls begin here, so that they know of what other processes have moved.
        found, routes = await asyncio.gather(home.scopes(), self._routes(fresh=True))
        begun = [name for name, place in routes.places.items() if place.renaming is not None]
        for name in begun:
            await self._finish_renaming(name)
        return await home.scopes() if begun else found

    async def put_scope(self, scope: Scope) -> None:
        routes, home = await self._routes(fresh=True), await self._home()
        store = await self._houses.house(routes.mode(scope.name))
        await home.put_scope(scope)
        if store is not home:
            await store.put_scope(replace(scope, parent=None))

    async def rename_scope(self, old: str, new: str) -> None:
        routes, home = await self._routes(fresh=True), await self._home()
        place = routes.places.get(old)
        if place is None or old == new:
            await home.rename_scope(old, new)
            return
        _refuse_moving(old, place)
        for store in (home, *[await self._houses.house(mode) for mode in place.modes()]):
            if new in await _names(store):
                raise Conflict(f"There is a scope {new!r} already.", advice="Choose another name.")
        await self._houses.settle(lambda places: {**places, old: replace(places[old], renaming=new)})
        await self._finish_renaming(old)

    async def _finish_renaming(self, old: str) -> None:
        """Every step may have been done before."""
        place = (await self._routes(fresh=True)).places.get(old)
        if place is None or place.renaming is None:
            return
        new = place.renaming
        for mode in dict.fromkeys((*place.modes(), self._houses.home)):
            store = await self._houses.house(mode)
            if old in await _names(store):
                with suppress(ScopeNotFound):  # somebody else was faster
                    await store.rename_scope(old, new)

        def renamed(places: Places) -> Places:
            if places.get(old) != place:
                return places
            rest = {name: one for name, one in places.items() if name != old}
            return {**rest, new: replace(place, renaming=None)}

        await self._houses.settle(renamed)

    async def drop_scope(self, name: str) -> None:
        routes, home = await self._routes(fresh=True), await self._home()
        place = routes.places.get(name)
        if place is None:
            await home.drop_scope(name)
            return
        _refuse_moving(name, place)
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


async def _names(store: Store) -> Collection[str]:
    return {scope.name for scope in await store.scopes()}


def _refuse_moving(name: str, place: Place) -> None:
    if place.move is not None:
        raise Conflict(
            f"The project {name!r} is being moved to another store.",
            advice="Wait until that is done; `recollect migrate` finishes one that was broken off.",
        )
