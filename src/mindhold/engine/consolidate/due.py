"""What is due to be looked at, page by page."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from mindhold.engine.consolidate.stage import Bounds
from mindhold.engine.core import Engine
from mindhold.model.errors import MemoryNotFound
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order


@dataclass(frozen=True, slots=True)
class Page:
    """Records that are due, as they were then."""

    memories: list[Memory]
    read: datetime


class Pages:
    """Until all that was due at the beginning was seen once, or the time is up; `more` says which."""

    def __init__(self, engine: Engine, within: Bounds, *, moving: bool) -> None:
        """`moving`: those on a page are due no more when the next one is asked for."""
        self._engine = engine
        self._within = within
        self._moving = moving
        self._due = Filter(viewer="system", statuses=(), due=engine.clock())
        self._before: str | None = None  # where the last page began, and where the next one does
        self._after: str | None = None
        self._last: list[Memory] = []
        self._lost = False  # where the next page begins
        self.looked = 0
        self.more = False

    async def next(self, *, enough: bool = False) -> Page | None:
        """None at the end, and where that is `enough` for one run."""
        if self.looked and (enough or self._within.over):
            self.more = bool(await self._find(limit=1)) or self._lost
            return None
        read = self._engine.clock()
        found = await self._find(limit=self._within.batch)
        # One that somebody uses all the time stays due, at the head of every page: it isn't tried again.
        seen = {memory.id for memory in self._last}
        fresh = [memory for memory in found if memory.id not in seen]
        if not fresh:
            self.more = bool(found) or self._lost
            return None
        self.looked += len(fresh)
        self._last, self._before, self._after = found, self._after, found[-1].id
        return Page(fresh, read)

    def moved(self, ids: Collection[str]) -> None:
        """These of the last page have got another date: the next page begins after one that hasn't."""
        stayed = [memory.id for memory in self._last if memory.id not in ids]
        self._after = stayed[-1] if stayed else self._before

    async def _find(self, *, limit: int) -> list[Memory]:
        after = None if self._moving else self._after
        try:
            return await self._engine.store.find(self._due, order=Order.DUE, limit=limit, after=after)
        except MemoryNotFound:  # the last one was erased meanwhile; the next run has the rest
            self._lost = True
            return []
