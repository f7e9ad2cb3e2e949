"""Taking turns within this process."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class Turns:
    """A lock for each name, there as long as somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, name: str) -> asyncio.Lock:
        """To be held by one at a time, in the order in which they came."""
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock
