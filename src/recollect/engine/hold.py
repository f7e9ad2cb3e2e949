"""The hold that a mover has on a project: one at a time, given up by itself when the mover dies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from recollect.engine.core import Engine
from recollect.model.errors import Conflict
from recollect.ports.houses import Move, Place, Places

LEASE = timedelta(seconds=10)
_OFTEN = timedelta(seconds=2)
_PAUSE_SECONDS = 0.1
Change = Callable[[Place], Place]


class Hold:
    """On one project, until it is moved or let go of."""

    def __init__(self, engine: Engine, name: str, to: str) -> None:
        self._engine = engine
        self._name = name
        self._own = Move(to, engine.new_id(), engine.clock() + LEASE)

    async def take(self) -> None:
        """Also from a mover that is gone. Raises Conflict while another is at it."""
        first = await self._taken()
        patience = asyncio.get_running_loop().time() + 2 * LEASE.total_seconds()
        while first is not None:
            await asyncio.sleep(_PAUSE_SECONDS)
            other = await self._taken()
            if other is None:
                break
            late = asyncio.get_running_loop().time() > patience
            if other.by != first.by or other.until > first.until or late:
                raise Conflict(
                    f"The project {self._name!r} is being moved to {other.to} by another process.",
                    advice="Wait until that is done.",
                )

    async def _taken(self) -> Move | None:
        """By somebody else; None when it is ours now."""
        now = self._engine.clock()
        found: list[Move] = []

        def change(places: Places) -> Places:
            found.clear()
            place = places.get(self._name, Place(self._engine.houses.home))
            if place.renaming is not None:
                raise Conflict(f"The project {self._name!r} is being renamed.", advice="Try again.")
            if place.move is not None and place.move.until > now:
                found.append(place.move)
                return places
            self._own = replace(self._own, until=now + LEASE)
            copies = tuple(dict.fromkeys((*place.copies, self._own.to)))
            return {**places, self._name: replace(place, copies=copies, move=self._own)}

        await self._engine.houses.settle(change)
        return found[0] if found else None

    async def keep(self) -> None:
        """To be called now and then. Raises Conflict when it was too late."""
        if self._own.until - self._engine.clock() < LEASE - _OFTEN:
            await self._change(replace(self._own, until=self._engine.clock() + LEASE))

    async def freeze(self) -> None:
        """From now on writers wait, and what they had written before is there to be read."""
        await self._change(replace(self._own, until=self._engine.clock() + LEASE, frozen=True))

    async def thaw(self) -> None:
        """Let writers in again."""
        await self._change(replace(self._own, frozen=False))

    async def flip(self) -> Place:
        """The project lives there now; where it was it is a hidden copy. Raises Conflict when the hold was lost."""
        to = self._own.to

        def change(place: Place) -> Place:
            copies = tuple(mode for mode in (*place.copies, place.mode) if mode != to)
            return Place(to, moves=place.moves + 1, copies=tuple(dict.fromkeys(copies)))

        places = await self._engine.houses.settle(lambda places: self._held(places, change))
        return places[self._name]

    async def let_go(self) -> None:
        """If it is still ours."""

        def change(places: Places) -> Places:
            place = places.get(self._name)
            if place is None or place.move is None or place.move.by != self._own.by:
                return places
            return {**places, self._name: replace(place, move=None)}

        await self._engine.houses.settle(change)

    async def _change(self, move: Move) -> None:
        await self._engine.houses.settle(
            lambda places: self._held(places, lambda place: replace(place, move=move))
        )
        self._own = move

    def _held(self, places: Places, change: Change) -> Places:
        place = places.get(self._name)
        if place is None or place.move is None or place.move.by != self._own.by:
            raise Conflict(
                f"Moving the project {self._name!r} took a pause that was too long.",
                advice="Migrate it again: it goes on where it was.",
            )
        return {**places, self._name: change(place)}
