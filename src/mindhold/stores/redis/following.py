"""A store whose writes are followed by what stands beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mindhold.model.errors import MindholdError, StoreError
from mindhold.model.memory import Memory
from mindhold.ports.store import Change, Enqueue, Put, Receipt, Revise, Store
from mindhold.stores.redis.bell import RedisBell
from mindhold.stores.redis.keywords import RedisKeywordSets


class Followed:
    """A Store but for the methods that stand here: all others are the store's own."""

    def __init__(self, store: Store, *, keywords: RedisKeywordSets, bell: RedisBell) -> None:
        self._store = store
        self._keywords = keywords
        self._bell = bell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def apply(self, changes: Sequence[Change]) -> None:
        written = [change.memory for change in changes if isinstance(change, Put | Revise)]
        before = await self._before(changes)
        touched = [memory for memory in written if memory.keywords or memory.id in before]
        if touched:
            await self._apply_followed(changes, touched, before)
        else:
            await self._store.apply(changes)
        if any(isinstance(change, Enqueue) for change in changes):
            self._bell.ring()

    async def erase(self, ids: Sequence[str], *, references: bool = True) -> Receipt:
        before = await self._store.get_many(ids, viewer="system")
        receipt = await self._store.erase(ids, references=references)
        if any(memory.keywords for memory in before.values()):
            await self._keywords.settle(None, now=(), before=before.values())
        return receipt

    async def rename_scope(self, old: str, new: str) -> None:
        """The sets are named after scopes: they are built anew."""
        await self._keywords.distrust()
        await self._store.rename_scope(old, new)
        await self._keywords.distrust()

    async def _apply_followed(
        self, changes: Sequence[Change], touched: Sequence[Memory], before: dict[str, Memory]
    ) -> None:
        ticket = await self._keywords.announce([memory.id for memory in touched])
        try:
            await self._store.apply(changes)
        except StoreError:
            raise  # it may have been written all the same: the ticket says which ids to look at
        except MindholdError:
            await self._keywords.withdraw(ticket)
            raise
        if ticket is None:
            await self._keywords.distrust()  # a build may have passed it by
        else:
            await self._keywords.settle(ticket, now=touched, before=before.values())

    async def _before(self, changes: Sequence[Change]) -> dict[str, Memory]:
        """What is replaced, as it was; a new record is told by that nobody expects an earlier one."""
        replaced = [
            change.memory.id
            for change in changes
            if isinstance(change, Revise) or (isinstance(change, Put) and change.expected is not None)
        ]
        return await self._store.get_many(replaced, viewer="system") if replaced else {}
