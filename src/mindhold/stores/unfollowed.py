"""A store that others have keyword sets beside, in a process that hasn't: it says that theirs are behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mindhold.ports.store import Change, Put, Revise, Store

WHOLE = "redis.keywords"  # the cursor: which build of the sets is whole, or who is building


class Unfollowed:
    """A Store but for the methods that stand here: all others are the store's own."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

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
