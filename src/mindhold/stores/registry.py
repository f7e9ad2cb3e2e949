"""The stores by storage mode, each opened at first use, the registry of projects, and a store wrapper for processes without Redis."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Any, TypeVar

from mindhold.model.errors import SettingsError, StoreBusy
from mindhold.ports.backend import Backend, Move, Placement, Placements
from mindhold.ports.store import Change, Put, Revise
from mindhold.stores.base import StoreWrapper

S = TypeVar("S", bound=Backend)

# The name of the cursor that holds the placements: a single value, so that one swap changes it.
REGISTRY = "places"
FRESH_SECONDS = 1.0
FAILED_SECONDS = 1.0  # seconds before a store that failed to open is tried again
CLOSING_SECONDS = 5.0  # seconds to wait at close for a store that is being opened
MOST_TRIES = 100

# Opens on entry, closes on exit; raises the errors of StoreRegistry.house().
Make = Callable[[], AbstractAsyncContextManager[Backend]]


@asynccontextmanager
async def opened_store(store: S) -> AsyncIterator[S]:
    """Open a store that has no sidecar."""
    try:
        await store.open()
        yield store
    finally:
        await store.close()


class OpenStoreRegistry:
    """Implements StoreRegistry. `makers` has a function for each mode that the settings allow."""

    def __init__(
        self, home: str, makers: Mapping[str, Make], *, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self.home = home
        self.modes = (home, *(mode for mode in makers if mode != home))
        self._makers = dict(makers)
        self._seconds = seconds
        self._open: dict[str, Backend] = {}
        self._leaving: list[AbstractAsyncContextManager[Backend]] = []
        self._opening: dict[str, asyncio.Task[Backend]] = {}
        self._failed: dict[str, float] = {}
        self._text: str | None = None
        self._places: Placements = {}
        self._read = -FRESH_SECONDS

    async def house(self, mode: str) -> Backend:
        store = self._open.get(mode)
        if store is not None:
            return store
        if mode not in self._makers:
            raise SettingsError(
                f"There is no storage mode {mode!r}.", advice=f"Choose one of {', '.join(self.modes)}."
            )
        opening = self._opening.get(mode)
        if opening is None or self._to_be_tried_again(mode, opening):
            opening = self._opening[mode] = asyncio.create_task(self._opened(mode))
            opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(opening)  # all callers share the opening and its error

    def _to_be_tried_again(self, mode: str, opening: asyncio.Task[Backend]) -> bool:
        if not opening.done():
            return False
        return opening.cancelled() or self._seconds() - self._failed.get(mode, 0.0) >= FAILED_SECONDS

    async def _opened(self, mode: str) -> Backend:
        try:
            entered = self._makers[mode]()
            self._open[mode] = store = await entered.__aenter__()
        except BaseException:
            self._failed[mode] = self._seconds()
            raise
        self._leaving.append(entered)
        return store

    async def places(self, *, fresh: bool = False) -> Placements:
        now = self._seconds()
        if fresh or now - self._read >= FRESH_SECONDS:
            self._know(await (await self.house(self.home)).cursor(REGISTRY))
            self._read = now  # time before the read
        return self._places

    def _know(self, text: str | None) -> None:
        if text != self._text:
            self._text, self._places = text, _places(text)

    async def settle(self, change: Callable[[Placements], Placements]) -> Placements:
        home = await self.house(self.home)
        for _ in range(MOST_TRIES):
            before = await home.cursor(REGISTRY)
            places = {
                name: place
                for name, place in change(_places(before)).items()
                if place != Placement(self.home)  # a project that was never moved has no entry
            }
            after = _value(places)
            if before == after or await home.swap_cursor(REGISTRY, old=before, new=after):
                self._know(after)
                return places
        raise StoreBusy("The registry of projects changes too often.", advice="Try again in a moment.")

    async def close(self) -> None:
        self._read = -FRESH_SECONDS
        opening = [task for task in self._opening.values() if not task.done()]
        if opening:
            _, late = await asyncio.wait(opening, timeout=CLOSING_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        self._opening.clear()
        self._open.clear()
        while self._leaving:  # the home store is closed last
            await self._leaving.pop().__aexit__(None, None, None)


def _places(text: str | None) -> Placements:
    return {name: _place(value) for name, value in json.loads(text).items()} if text else {}


def _place(value: Mapping[str, Any]) -> Placement:
    move = value.get("move")
    return Placement(
        mode=value["mode"],
        moves=value.get("moves", 0),
        copies=tuple(value.get("copies", ())),
        move=None
        if move is None
        else Move(move["to"], move["by"], datetime.fromisoformat(move["until"]), frozen=move["frozen"]),
        renaming=value.get("renaming"),
    )


def _value(places: Placements) -> str | None:
    if not places:
        return None
    fields = {name: asdict(place) for name, place in places.items()}
    return json.dumps(fields, ensure_ascii=False, sort_keys=True, default=datetime.isoformat)


WHOLE = "redis.keywords"  # the cursor that says which build of the sets is complete, or who is building


class KeywordSetInvalidator(StoreWrapper):
    """A store wrapper for processes without Redis: its writes invalidate Redis's keyword sets."""

    async def apply(self, changes: Sequence[Change]) -> None:
        touched = any(isinstance(change, Put | Revise) and change.memory.keywords for change in changes)
        if touched:
            await self._distrust()
        await self._store.apply(changes)
        if touched:
            await self._distrust()

    async def rename_scope(self, old: str, new: str) -> None:
        await self._distrust()
        await self._store.rename_scope(old, new)
        await self._distrust()

    async def _distrust(self) -> None:
        if await self._store.cursor(WHOLE) is not None:
            await self._store.set_cursor(WHOLE, None)
