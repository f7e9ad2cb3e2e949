"""The hold that a mover has on a project, or who drops a copy: one at a time, given up by itself when its holder dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta

from mindhold.engine.core import Engine
from mindhold.model.errors import Conflict, StoreError
from mindhold.ports.houses import LEASE, Move, Place, Places, Watch

_OFTEN = timedelta(seconds=2)
_PAUSE_SECONDS = 0.1
Change = Callable[[Place], Place]


class Hold:
    """On one project, until it is moved or let go of. One `to` where it lives already is for dropping copies."""

    def __init__(self, engine: Engine, name: str, to: str) -> None:
        self._engine = engine
        self._name = name
        self._own = Move(to, engine.new_id(), engine.clock() + LEASE)
        self._watch = Watch()

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
            if other != first or late:
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
            if place.move is not None and not self._watch.gone(place.move, now=now):
                found.append(place.move)
                return places
            self._own = replace(self._own, until=now + LEASE)
            copies = tuple(
                mode for mode in dict.fromkeys((*place.copies, self._own.to)) if mode != place.mode
            )
            return {**places, self._name: replace(place, copies=copies, move=self._own)}

        await self._engine.houses.settle(change)
        return found[0] if found else None

    async def keep(self) -> None:
        """To be called after each step: who erases waits for that, because a step may write what was read before.

        Raises Conflict when it was too late.
        """
        await self._change(replace(self._own, until=self._engine.clock() + LEASE))

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """It is kept in the background: a step that takes longer than the lease doesn't lose it."""

        async def beat() -> None:
            while True:
                await asyncio.sleep(_OFTEN.total_seconds())
                with suppress(StoreError):  # the next one may do
                    await self.keep()

        beating = asyncio.create_task(beat())
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def check_copy(self, mode: str) -> None:
        """Raises Conflict unless the hold is ours, and the project lives elsewhere than there."""

        def change(place: Place) -> Place:
            if place.mode == mode or mode not in place.copies:
                raise Conflict(f"What is in {mode} of {self._name!r} is no copy.", advice="Look again.")
            return replace(place, move=replace(self._own, until=self._engine.clock() + LEASE))

        await self._engine.houses.settle(lambda places: self._held(places, change))

    async def freeze(self) -> None:
        """From now on writers wait, and what they had written before is there to be read."""
        await self._change(replace(self._own, until=self._engine.clock() + LEASE, frozen=True))

    async def flip(self) -> None:
        """The project lives there now; where it was it is a hidden copy. Raises Conflict when the hold was lost."""
        to = self._own.to

        def change(place: Place) -> Place:
            copies = tuple(mode for mode in (*place.copies, place.mode) if mode != to)
            return Place(to, moves=place.moves + 1, copies=tuple(dict.fromkeys(copies)))

        await self._engine.houses.settle(lambda places: self._held(places, change))

    async def forget(self, mode: str) -> None:
        """There is no copy there any more. Raises Conflict when the hold was lost, or it lives there."""

        def change(place: Place) -> Place:
            if place.mode == mode:
                raise Conflict(f"The project {self._name!r} lives in {mode}.", advice="Move it first.")
            return replace(place, copies=tuple(one for one in place.copies if one != mode))

        await self._engine.houses.settle(lambda places: self._held(places, change))

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
