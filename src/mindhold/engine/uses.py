"""Counting uses without making recall wait for a write."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from mindhold.model.errors import StoreError
from mindhold.ports.clock import Clock
from mindhold.ports.store import Store

ENOUGH = 200
SECONDS = 5.0  # that a count waits at most: a crash loses no more


class UseCounter:
    """Remembers which memories were recalled or shown, and writes it down soon after, and at the end."""

    def __init__(self, store: Store, clock: Clock, *, seconds: float = SECONDS) -> None:
        self._store = store
        self._clock = clock
        self._seconds = seconds
        self._waiting: list[str] = []
        self._shown: list[str] = []
        self._turn = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None

    def note(self, ids: Iterable[str]) -> None:
        """Count one use of each, later."""
        self._waiting.extend(ids)
        self._arrange()

    def note_shown(self, ids: Iterable[str]) -> None:
        """Count that each was put before somebody who had not asked for it, later."""
        self._shown.extend(ids)
        self._arrange()

    async def flush(self) -> None:
        """Write what has gathered; a store that is busy or full loses a count, not an answer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        async with self._turn:
            used, self._waiting = self._waiting, []
            shown, self._shown = self._shown, []
            with suppress(StoreError):
                if used:
                    await self._store.touch(used, self._clock())
            with suppress(StoreError):
                if shown:
                    await self._store.note_shown(shown, self._clock())

    def _arrange(self) -> None:
        """Where much has gathered it is written at once; nobody waits for it, or two would write at a time."""
        gathered = len(self._waiting) + len(self._shown)
        if gathered >= ENOUGH and not self._is_writing():
            self._begin()
        elif gathered and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._begin)

    def _is_writing(self) -> bool:
        return self._writing is not None and not self._writing.done()

    def _begin(self) -> None:
        self._timer = None
        self._writing = asyncio.get_running_loop().create_task(self.flush())


class Uncounted(UseCounter):
    """For callers who may only read: what they look at must not grow dearer by it."""

    def note(self, ids: Iterable[str]) -> None:
        """Nothing is counted."""

    def note_shown(self, ids: Iterable[str]) -> None:
        """Nothing is counted."""
