"""Changes that wait while others are made are made in one step, so that they share the cost of being durable."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.model.errors import RecollectError
from recollect.ports.store import Change
from recollect.stores.mongo.changes import apply
from recollect.stores.mongo.connection import PATIENT, Database

_MOST_TOGETHER = 64
_MOST_CHANGES = 1_000
_MANY = 200  # changes in one step: they may take longer than a call usually does


@dataclass(frozen=True, slots=True)
class _Waiting:
    changes: Sequence[Change]
    answer: asyncio.Future[None]


class Together:
    """The queue of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[_Waiting] = deque()
        self._turn = asyncio.Lock()

    async def apply(self, changes: Sequence[Change]) -> None:
        """See Records.apply()."""
        waiting = _Waiting(changes, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        # A task of its own: who gives up waiting doesn't take the others' changes along.
        making = asyncio.create_task(self._make_waiting())
        try:
            await waiting.answer
        finally:
            await asyncio.shield(making)

    async def _make_waiting(self) -> None:
        async with self._turn:
            batch = self._next()
            try:
                await self._make_batch(batch)
            except BaseException:  # no error that a store has: nobody must wait for ever
                for one in batch:
                    one.answer.cancel()
                raise

    async def _make_batch(self, batch: list[_Waiting]) -> None:
        if len(batch) > 1 and await self._made([change for one in batch for change in one.changes]):
            for one in batch:
                _tell(one, None)
            return
        for one in batch:
            try:
                await self._make(one.changes)
            except RecollectError as error:
                _tell(one, error)
            else:
                _tell(one, None)

    def _next(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        size = 0
        while self._waiting and len(batch) < _MOST_TOGETHER:
            if batch and size + len(self._waiting[0].changes) > _MOST_CHANGES:
                break
            batch.append(self._waiting.popleft())
            size += len(batch[-1].changes)
        return batch

    async def _made(self, changes: Sequence[Change]) -> bool:
        """False if one of them can't be made: then each is to be tried alone."""
        try:
            await self._make(changes)
        except RecollectError:
            return False
        return True

    async def _make(self, changes: Sequence[Change]) -> None:
        patience = PATIENT if len(changes) > _MANY else 1
        await self._database.write(lambda step: apply(step, changes), patience=patience)


def _tell(waiting: _Waiting, error: RecollectError | None) -> None:
    if waiting.answer.done():  # its caller has given up
        return
    if error is None:
        waiting.answer.set_result(None)
    else:
        waiting.answer.set_exception(error)
