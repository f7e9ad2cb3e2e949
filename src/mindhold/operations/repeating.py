"""Calls that name an idempotency key: the first is done and its answer kept, what comes after gets that answer."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

from mindhold.engine.core import Engine
from mindhold.engine.once import RENEWED, Held, earlier_answer, hold, let_go, renew, settle
from mindhold.model.access import EVERYONE
from mindhold.model.errors import InvalidInput, KeyReused, MindholdError, StoreError
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output
from mindhold.operations.views import MemoryView

I = TypeVar("I", bound=Input)  # noqa: E741
O = TypeVar("O", bound=Output)  # noqa: E741
OWN = "idempotency_key"  # the field of those operations that keep their answers themselves
ERASING = frozenset({"consolidate", "maintain"})  # beside those that are said to destroy
IDS = frozenset({"ids", "forgotten"})  # lists of an answer
_ID = re.compile(r"[0-9a-z]{26}")
GUEST = "guest of"  # what the owner is answered is nothing to others, though the agent be the same
log = logging.getLogger(__name__)


class Repeating:
    """The keys of one call's items, by number: each held while it is entered, or known to be answered."""

    def __init__(
        self,
        call: Call,
        keyed: Mapping[int, tuple[str, str]],
        *,
        dry: Collection[int] = (),
    ) -> None:
        self.held: dict[int, Held] = {}
        self.known: dict[int, Mapping[str, Any]] = {}
        self.copies: dict[int, int] = {}  # an item with the key of an earlier one of the same call
        self.errors: dict[int, MindholdError] = {}
        self._call = call
        self._keyed = keyed
        self._dry = dry
        self._staying: asyncio.Task[None] | None = None

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
        if self._keyed:
            self._staying = asyncio.create_task(_stay(self._call.engine, self.held.values()))
        try:
            # In one order for all callers: two with the same keys don't wait for each other.
            for key in sorted(firsts):
                await self._enter(firsts[key])
        except BaseException:
            await self._leave()
            raise
        return self

    async def _enter(self, number: int) -> None:
        (key, said), engine, agent = self._keyed[number], self._call.engine, _whose(self._call)
        try:
            if number in self._dry:
                before = await earlier_answer(engine, key, said, agent=agent)
                if before is not None:
                    self.known[number] = before
                return
            found = await hold(engine, key, said, agent=agent, together=len(self._keyed))
        except MindholdError as error:
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
        if self._staying is not None:
            self._staying.cancel()
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


async def run_once(
    call: Call, operation: Operation[I, O], given: I, *, key: str | None, on_repeat: Callable[[], None]
) -> O:
    """Do it, unless a call with that key did it within a day: then the answer is that one's. Errors are not kept.

    Raises KeyReused where the key stands for another call, Conflict where what it was answered with is erased.
    """
    if key is None or operation.effect is Effect.READS or getattr(given, "dry_run", False):
        return await operation.run(call, given)
    if OWN in operation.takes.model_fields:
        answer = await operation.run(call, _with_key(given, key))
        if _repeats(answer):
            on_repeat()
        return answer
    said = json.dumps([operation.name, given.model_dump(mode="json")], sort_keys=True)
    found = await hold(call.engine, key, said, agent=_whose(call))
    if not isinstance(found, Held):
        on_repeat()
        return operation.gives.model_validate(found)
    return await _held(call, operation, given, found)


async def _held(call: Call, operation: Operation[I, O], given: I, held: Held) -> O:
    staying = asyncio.create_task(_stay(call.engine, [held]))
    try:
        answer = await operation.run(call, given)
        try:
            await settle(call.engine, held, await _kept(call, operation, answer), words=True)
        except StoreError as error:  # it is done all the same
            log.warning("the answer to an idempotency key isn't kept: %s", error.code)
        return answer
    except BaseException:
        await let_go(call.engine, held)
        raise
    finally:
        staying.cancel()


async def _kept(call: Call, operation: Operation[Any, Any], answer: Output) -> dict[str, Any]:
    """The answer, but for what it says of memories that the call itself erased."""
    said = answer.model_dump(mode="json")
    if operation.effect is not Effect.DESTROYS and operation.name not in ERASING:
        return said
    named = set(_ids(said))
    there = await call.engine.store.get_many(list(named), viewer=EVERYONE)
    found: dict[str, Any] = _blotted(said, named - there.keys())
    return found


def _ids(value: Any, *, listed: bool = False) -> Iterator[str]:
    """What may be an id of a memory: by where it stands, or by how it looks."""
    if isinstance(value, str) and (listed or _ID.fullmatch(value)):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _ids(item, listed=listed)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _ids(item, listed=name in IDS)


def _blotted(value: Any, gone: Collection[str]) -> Any:
    if isinstance(value, str):
        return "" if value in gone else value
    if isinstance(value, dict):
        return {name: _blotted(item, gone) for name, item in value.items()}
    if isinstance(value, list):
        return [_blotted(item, gone) for item in value if not _is_about(item, gone)]
    return value


def _is_about(item: Any, gone: Collection[str]) -> bool:
    return any(
        isinstance(one, str) and one in gone for one in (item.values() if isinstance(item, dict) else [item])
    )


def _whose(call: Call) -> str:
    """Whose key it is."""
    return call.agent if call.owner else f"{GUEST} {call.agent}"


async def _stay(engine: Engine, held: Collection[Held]) -> None:
    """Hold them for as long as it takes."""
    while True:
        await asyncio.sleep(RENEWED)
        for one in list(held):
            with suppress(StoreError):
                await renew(engine, one)


def _with_key(given: I, key: str) -> I:
    own = getattr(given, OWN)
    if own is not None and own != key:
        raise InvalidInput("Two idempotency keys were given.", advice="Give one.")
    return given.model_copy(update={OWN: key})


def _repeats(answer: Output) -> bool:
    parts = getattr(answer, "results", None) or [answer]
    return all(getattr(part, "repeated", False) for part in parts)
