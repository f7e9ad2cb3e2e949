"""Counting uses without making recall wait for a write."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from recollect.model.errors import StoreError
from recollect.ports.clock import Clock
from recollect.ports.store import Store

ENOUGH = 200


class UseCounter:
    """Remembers which memories were recalled or shown, and writes it down now and then, and at the end."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._waiting: list[str] = []
        self._shown: list[str] = []

    def note(self, ids: Iterable[str]) -> None:
        """Count one use of each, later."""
        self._waiting.extend(ids)

    def note_shown(self, ids: Iterable[str]) -> None:
        """Count that each was put before somebody who had not asked for it, later."""
        self._shown.extend(ids)

    @property
    def due(self) -> bool:
        """Whether enough has gathered to be worth a write."""
        return len(self._waiting) + len(self._shown) >= ENOUGH

    async def flush(self) -> None:
        """Write what has gathered; a store that is busy or full loses a count, not an answer."""
        if self._waiting:
            ids, self._waiting = self._waiting, []
            with suppress(StoreError):
                await self._store.touch(ids, self._clock())
        if self._shown:
            ids, self._shown = self._shown, []
            with suppress(StoreError):
                await self._store.note_shown(ids, self._clock())


class Uncounted(UseCounter):
    """For callers who may only read: what they look at must not grow dearer by it."""

    def note(self, ids: Iterable[str]) -> None:
        """Nothing is counted."""

    def note_shown(self, ids: Iterable[str]) -> None:
        """Nothing is counted."""
