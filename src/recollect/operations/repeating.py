"""Calls that name an idempotency key: the first is done and its answer kept, what comes after gets that answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from recollect.engine.once import Held, earlier_answer, hold, let_go, settle
from recollect.model.errors import KeyReused, RecollectError
from recollect.operations.catalogue import Call, Output
from recollect.operations.views import MemoryView

O = TypeVar("O", bound=Output)  # noqa: E741


class Repeating:
    """The keys of one call's items, by number: each held while it is entered, or known to be answered."""

    def __init__(
        self,
        call: Call,
        keyed: Mapping[int, tuple[str, str]],
        *,
        items: int,
        dry: Collection[int] = (),
    ) -> None:
        self.held: dict[int, Held] = {}
        self.known: dict[int, Mapping[str, Any]] = {}
        self.copies: dict[int, int] = {}  # an item with the key of an earlier one of the same call
        self.errors: dict[int, RecollectError] = {}
        self._call = call
        self._keyed = keyed
        self._items = items
        self._dry = dry

    async def __aenter__(self) -> Self:
        firsts: dict[str, int] = {}
        for number in sorted(self._keyed):
            key, said = self._keyed[number]
            first = firsts.setdefault(key, number)
            if first != number and self._keyed[first][1] == said:
                self.copies[number] = first
            elif first != number:
                self.errors[number] = KeyReused(
                    "Two items of this call have the same idempotency key and say different things.",
                    advice="Give each its own.",
                )
        try:
            # In one order for all callers: two with the same keys don't wait for each other.
            for key in sorted(firsts):
                await self._enter(firsts[key])
        except BaseException:
            await self._leave()
            raise
        return self

    async def _enter(self, number: int) -> None:
        (key, said), engine, agent = self._keyed[number], self._call.engine, self._call.agent
        try:
            if number in self._dry:
                before = await earlier_answer(engine, key, said, agent=agent)
                if before is not None:
                    self.known[number] = before
                return
            found = await hold(engine, key, said, agent=agent, items=self._items)
        except RecollectError as error:
            self.errors[number] = error
            return
        if isinstance(found, Held):
            self.held[number] = found
        else:
            self.known[number] = found

    async def settle(self, number: int, answer: Mapping[str, Any]) -> None:
        """Keep an item's answer, if it has a key."""
        if number in self.held:
            await settle(self._call.engine, self.held.pop(number), answer)

    async def _leave(self) -> None:
        while self.held:
            await let_go(self._call.engine, self.held.popitem()[1])

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._leave()


def kept_answer(results: Sequence[Output]) -> dict[str, Any]:
    """What is kept of answers: not the words of the memories, which may change or go."""
    return {"results": [result.model_dump(mode="json", exclude={"memory"}) for result in results]}


async def repeated(call: Call, before: Mapping[str, Any], shape: type[O]) -> list[O]:
    """The answers as they were, with the memories as they are; what was erased since is named no more."""
    rows = [dict(row) for row in before.get("results") or ()]
    ids = [row["id"] for row in rows if row.get("id")]
    found = await call.engine.store.get_many(ids, viewer=call.agent) if ids else {}
    for row in rows:
        whole = [link for link in row.get("links") or () if link.get("origin") and link.get("target")]
        memory = found.get(row.get("id") or "")
        view = MemoryView.of(memory, call.engine.clock()) if memory else None
        row |= {"links": whole, "repeated": True, "memory": view}
    return [shape.model_validate(row) for row in rows]
