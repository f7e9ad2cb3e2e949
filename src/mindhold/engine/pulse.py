"""Tells all who wait that something was done, in this process. While nobody waits it costs nothing."""

from __future__ import annotations

import asyncio


class Pulse:
    """Beats are counted, so that one which came while somebody looked elsewhere isn't missed."""

    def __init__(self) -> None:
        self.beats = 0
        self._waited_for: asyncio.Event | None = None

    def beat(self) -> None:
        """Something was done."""
        self.beats += 1
        if self._waited_for is not None:
            self._waited_for.set()
            self._waited_for = None

    async def wait(self, seen: int, *, seconds: float) -> int:
        """Until there were more beats than were `seen`, at most so long; how many there were."""
        if self.beats == seen:
            if self._waited_for is None:
                self._waited_for = asyncio.Event()
            waiting = asyncio.ensure_future(self._waited_for.wait())
            await asyncio.wait({waiting}, timeout=seconds)
            waiting.cancel()
        return self.beats
