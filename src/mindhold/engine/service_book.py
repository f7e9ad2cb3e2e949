"""What is written down of an embedding service: its calls in the ledger, its model's traits in a cursor."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from mindhold.engine.ledger import DRAWER, EMBEDDING, KEPT, LONGEST_NAME, OK, day_of, spent_on_day
from mindhold.model.entry import Entry
from mindhold.model.errors import ModelAway, StoreError
from mindhold.model.ranking import Cosines
from mindhold.ports.clock import Clock, NewId
from mindhold.ports.services import Terms, Traits, Usage
from mindhold.ports.store import Cursors, Entries

TRAITS = "embedding:"  # before the model's name


class Place(Cursors, Entries, Protocol):
    """The parts of a store that a book is kept in."""


@dataclass(frozen=True, slots=True)
class _Page:
    """One process's calls within one hour: a line a call would fill the store of a busy server."""

    hour: str
    day: str
    key: str
    used: Usage = field(default_factory=Usage)
    dollars: float = 0.0


class StoreBook:
    """A ServiceBook in the store."""

    def __init__(self, place: Place, *, clock: Clock, new_id: NewId, model: str, terms: Terms) -> None:
        self._place = place
        self._clock = clock
        self._new_id = new_id
        self._model = model
        self._terms = terms
        self._page: _Page | None = None
        self._unwritten: list[_Page] = []  # of hours that are over
        self._reserved = 0
        self._writing = asyncio.Lock()

    async def traits(self) -> Traits | None:
        with suppress(StoreError, ValueError, KeyError, TypeError):
            written = json.loads(await self._place.cursor(TRAITS + self._model) or "null")
            return Traits(int(written["dimensions"]), Cosines(written["mean"], written["deviation"]))
        return None

    async def keep_traits(self, traits: Traits) -> None:
        cosines = traits.unrelated
        written = {"dimensions": traits.dimensions, "mean": cosines.mean, "deviation": cosines.deviation}
        with suppress(StoreError):
            await self._place.set_cursor(TRAITS + self._model, json.dumps(written))

    async def reserve(self, tokens: int) -> None:
        most = self._terms.daily_tokens
        if not most:
            return
        async with self._writing:
            self._reserved += tokens
            try:
                # Written first and counted then, so that of calls at the same time none is overlooked.
                await self._write(Usage())
                if (await spent_on_day(self._place, clock=self._clock, kind=EMBEDDING)).tokens <= most:
                    return
                reason = f"Today's {most:,} tokens for embeddings don't suffice for this call."
            except StoreError as error:
                reason = f"The ledger of embeddings can't be written: {error.message}"
            self._reserved -= tokens
            with suppress(StoreError):
                await self._write(Usage())
        raise ModelAway(reason, advice="Wait for tomorrow (UTC), or raise embedding.daily_tokens.")

    async def settle(self, used: Usage, *, reserved: int) -> None:
        held = reserved if self._terms.daily_tokens else 0
        if not used.calls and not held:
            return
        async with self._writing:
            self._reserved -= held
            with suppress(StoreError):  # it is written with the next call
                await self._write(used)

    async def _write(self, more: Usage) -> None:
        page = self._current()
        used = page.used
        used = Usage(used.calls + more.calls, used.failed + more.failed, used.tokens + more.tokens)
        dollars = page.dollars + (self._terms.dollars(more.tokens) or 0.0)
        self._page = replace(page, used=used, dollars=dollars)
        while self._unwritten:
            await self._put(self._unwritten[0], reserved=0)
            del self._unwritten[0]
        await self._put(self._page, reserved=self._reserved)

    def _current(self) -> _Page:
        now = self._clock()
        hour = f"{day_of(now)} {now.hour:02}"
        page = self._page
        if page is None or page.hour != hour:
            if page is not None:  # what is under way is settled on the new one
                self._unwritten.append(page)
            page = self._page = _Page(hour, day_of(now), self._new_id())
        return page

    async def _put(self, page: _Page, *, reserved: int) -> None:
        now = self._clock()
        value = {
            "kind": EMBEDDING,
            "model": self._model[:LONGEST_NAME],
            "calls": page.used.calls,
            "failed": page.used.failed,
            "tokens_in": page.used.tokens + reserved,
            "tokens_out": 0,
            "dollars": page.dollars,
            "outcome": OK,
        }
        await self._place.put_entry(Entry(DRAWER + page.day, page.key, value, now, now + KEPT))
