"""Changes that wait while others are made are made in one step, so that they share the cost of being durable."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from pymongo.errors import BulkWriteError

from mindhold.model.errors import StoreBusy, StoreError
from mindhold.ports.store import Change
from mindhold.stores.mongo.changes import apply
from mindhold.stores.mongo.connection import PATIENT, Database

_MOST_TOGETHER = 64
_MOST_CHANGES = 1_000
_MANY = 200  # changes in one step: they may take longer than a call usually does


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    changes: Sequence[Change]
    answer: asyncio.Future[None]


class Together:
    """The queue of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[_Waiting] = deque()
        self._turn = asyncio.Lock()
        self._making: set[asyncio.Task[None]] = set()

    async def apply(self, changes: Sequence[Change]) -> None:
        """See Records.apply()."""
        waiting = _Waiting(changes, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        # A task of its own: who gives up waiting doesn't take the others' changes along.
        making = asyncio.create_task(self._make_waiting())
        self._making.add(making)
        making.add_done_callback(self._making.discard)
        try:
            await asyncio.wait({waiting.answer}, timeout=_patience(changes) * self._database.timeout)
            if not waiting.answer.done() and self._left(waiting):
                raise StoreBusy("Other changes take too long.", advice="Try again.")
            await asyncio.wait({waiting.answer})  # it is being made, which takes no longer than it may
        except asyncio.CancelledError:
            if not self._left(waiting):
                await asyncio.wait({waiting.answer})  # whoever gives up knows that nothing of it is under way
            _forget(waiting)
            raise
        waiting.answer.result()

    def _left(self, waiting: _Waiting) -> bool:
        """Whether its turn had not come; it never comes then."""
        if waiting not in self._waiting:
            return False
        self._waiting.remove(waiting)
        return True

    async def _make_waiting(self) -> None:
        async with self._turn:
            batch = self._next()
            try:
                await self._make_batch(batch)
            except BaseException:  # this task was cancelled: nobody must wait for ever
                for one in batch:
                    _tell(one, StoreError("The change was given up.", advice="Try again."))
                raise

    async def _make_batch(self, batch: list[_Waiting]) -> None:
        if not batch:
            return
        error = await self._made([change for one in batch for change in one.changes])
        if error is None or len(batch) == 1 or _is_for_all(error):
            for one in batch:
                _tell(one, error)
            return
        for one in batch:
            _tell(one, await self._made(one.changes))

    def _next(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        size = 0
        while self._waiting and len(batch) < _MOST_TOGETHER:
            if batch and size + len(self._waiting[0].changes) > _MOST_CHANGES:
                break
            batch.append(self._waiting.popleft())
            size += len(batch[-1].changes)
        return batch

    async def _made(self, changes: Sequence[Change]) -> Exception | None:
        """Why they can't be made."""
        try:
            await self._database.write(lambda step: apply(step, changes), patience=_patience(changes))
        except Exception as error:  # noqa: BLE001 - each caller is told his own, of whatever kind
            return error
        return None


def _patience(changes: Sequence[Change]) -> int:
    return PATIENT if len(changes) > _MANY else 1


def _is_for_all(error: Exception) -> bool:
    """Whether it is the server's and not one caller's: then each alone would only wait for it again."""
    return isinstance(error, StoreError) and not isinstance(error.__cause__, BulkWriteError)


def _tell(waiting: _Waiting, error: Exception | None) -> None:
    if waiting.answer.done():
        return
    if error is None:
        waiting.answer.set_result(None)
    else:
        waiting.answer.set_exception(error)


def _forget(waiting: _Waiting) -> None:
    """Nobody asks for the answer any more."""
    if waiting.answer.done() and not waiting.answer.cancelled():
        waiting.answer.exception()
    else:
        waiting.answer.cancel()
