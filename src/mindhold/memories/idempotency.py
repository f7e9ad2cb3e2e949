"""Idempotency keys: a call that is repeated with the same key is done once and answered again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

from mindhold.engine import Engine
from mindhold.memories.views import MemoryView
from mindhold.model.errors import Conflict, InvalidInput, KeyReused, MindholdError, StoreError
from mindhold.model.job import Entry
from mindhold.model.scope import EVERYONE
from mindhold.operations import Context, Effect, Input, Operation, Output

IDEMPOTENCY_NAMESPACE = "once"
ANSWER, WORDS = "answer", "words"  # fields of an entry; of the latter see RecordChanges.erase()
KEPT = timedelta(hours=24)
TERM = timedelta(seconds=20)  # and as much again for every thousand keys that are held together
RENEWED = 5.0  # seconds after which who is still at it says so
PATIENCE = (
    1_000  # looks: longer than the term of one that died, shorter than callers usually wait for an answer
)
PAUSE = 0.05  # seconds between two
LONGEST_KEY = 200


@dataclass(frozen=True, slots=True)
class HeldKey:
    """The right to do what a key stands for, until it is answered or let go."""

    place: str  # of the answer, and of the note that somebody is at it
    note: str
    said: str
    term: timedelta


async def earlier_answer(engine: Engine, key: str, said: str, *, agent: str) -> Mapping[str, Any] | None:
    """What was answered under this key; None if nothing was. Raises KeyReused where other things were said."""
    return await _answer(engine, _place(key, agent), _fingerprint(key, said))


async def hold_key(
    engine: Engine, key: str, said: str, *, agent: str, together: int = 1
) -> HeldKey | Mapping[str, Any]:
    """The right to go on, or what was answered before; waits for one that is at it. Whoever goes on renews it.

    Raises InvalidInput, KeyReused, Conflict for one that takes too long.
    """
    place, fingerprint = _place(key, agent), _fingerprint(key, said)
    term = TERM * (1 + together // 1000)
    for _ in range(PATIENCE):
        until = engine.clock() + term
        held = HeldKey(place, f"{until.isoformat()} {place} {engine.new_id()}", fingerprint, term)
        if await _note(engine, held):
            try:
                answer = await _answer(engine, place, fingerprint)
            except KeyReused:
                await release_key(engine, held)
                raise
            if answer is None:
                return held
            await release_key(engine, held)
            return answer
        if (answer := await _answer(engine, place, fingerprint)) is not None:
            return answer
        await asyncio.sleep(PAUSE)
    raise Conflict(
        "The first call with this idempotency key is still under way.", advice="Try again in a minute."
    )


async def save_answer(
    engine: Engine, held: HeldKey, answer: Mapping[str, Any], *, words: bool = False
) -> None:
    """Keep the answer for a day, and let go. With `words` it repeats what memories say: the erasure of one takes it along."""
    now = engine.clock()
    value = {"said": held.said, WORDS if words else ANSWER: dict(answer)}
    await engine.store.put_entry(Entry(IDEMPOTENCY_NAMESPACE, held.place, value, now, now + KEPT))
    await release_key(engine, held)


async def release_key(engine: Engine, held: HeldKey) -> None:
    """Without an answer the next one may try."""
    await _replace(engine, held, [])


async def renew_key(engine: Engine, held: HeldKey) -> bool:
    """Hold it for another term from now. Whether it was held still."""
    _, whose = _parts(held.note)
    return await _replace(engine, held, [f"{(engine.clock() + held.term).isoformat()} {whose}"])


async def _replace(engine: Engine, held: HeldKey, instead: list[str]) -> bool:
    _, whose = _parts(held.note)
    while True:
        taken = await engine.store.cursor(_cursor(held.place))
        notes = _notes(taken)
        left = [note for note in notes if _parts(note)[1] != whose]
        if len(left) == len(notes):
            return False
        new = "\n".join([*left, *instead]) or None
        if await engine.store.swap_cursor(_cursor(held.place), old=taken, new=new):
            return True


async def _note(engine: Engine, held: HeldKey) -> bool:
    """Whether the key is this caller's now; notes of the same place that are over go."""
    while True:
        now = engine.clock()
        taken = await engine.store.cursor(_cursor(held.place))
        others = [note for note in _notes(taken) if not _over(note, now)]
        if any(_parts(note)[1].startswith(f"{held.place} ") for note in others):
            return False
        if await engine.store.swap_cursor(
            _cursor(held.place), old=taken, new="\n".join((*others, held.note))
        ):
            return True


async def _answer(engine: Engine, place: str, fingerprint: str) -> Mapping[str, Any] | None:
    entry = await engine.store.entry(IDEMPOTENCY_NAMESPACE, place, now=engine.clock())
    if entry is None:
        return None
    if entry.value["said"] != fingerprint:
        raise KeyReused(
            "This idempotency key was used for something else within the last day.",
            advice="Use a new key for new content; repeat a call unchanged to get its first answer.",
        )
    found: Mapping[str, Any] | None = entry.value.get(ANSWER, entry.value.get(WORDS))
    if found is None:
        raise Conflict(
            "This was done before; what it was answered with has been erased since.",
            advice="Use a new key to have it done anew.",
        )
    return found


def _place(key: str, agent: str) -> str:
    """Nobody reads a key back, and one agent's key is nothing to another's."""
    if not key.strip() or len(key) > LONGEST_KEY:
        raise InvalidInput(
            f"An idempotency key has 1 to {LONGEST_KEY} characters.", advice="A random id does well."
        )
    return hashlib.sha256(f"{agent}\n{key}".encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _fingerprint(key: str, said: str) -> str:
    return hashlib.sha256(f"{key}\n{said}".encode("utf-8", "surrogatepass")).hexdigest()


def _cursor(place: str) -> str:
    return f"{IDEMPOTENCY_NAMESPACE}:{place[:2]}"


def _notes(taken: str | None) -> list[str]:
    return taken.split("\n") if taken else []


def _parts(note: str) -> tuple[str, str]:
    """Until when, and whose it is: the place and an id."""
    until, _, whose = note.partition(" ")
    return until, whose


def _over(note: str, now: datetime) -> bool:
    return datetime.fromisoformat(_parts(note)[0]) <= now


I = TypeVar("I", bound=Input)  # noqa: E741
O = TypeVar("O", bound=Output)  # noqa: E741
OWN = "idempotency_key"  # the field of those operations that keep their answers themselves
IDS = frozenset({"ids", "forgotten"})  # lists of an answer
_ID = re.compile(r"[0-9a-z]{26}")
GUEST = "guest of"  # what the owner is answered is nothing to others, though the agent be the same
log = logging.getLogger(__name__)


class Repeating:
    """The keys of one call's items, by number: each held while it is entered, or known to be answered."""

    def __init__(
        self,
        context: Context,
        keyed: Mapping[int, tuple[str, str]],
        *,
        dry: Collection[int] = (),
    ) -> None:
        self.held: dict[int, HeldKey] = {}
        self.known: dict[int, Mapping[str, Any]] = {}
        self.copies: dict[int, int] = {}  # an item with the key of an earlier one of the same call
        self.errors: dict[int, MindholdError] = {}
        self._call = context
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
            found = await hold_key(engine, key, said, agent=agent, together=len(self._keyed))
        except MindholdError as error:
            self.errors[number] = error
            return
        if isinstance(found, HeldKey):
            self.held[number] = found
        else:
            self.known[number] = found

    async def settle(self, number: int, answer: Mapping[str, Any]) -> None:
        """Keep an item's answer, if it has a key."""
        if number in self.held:
            await save_answer(self._call.engine, self.held.pop(number), answer)

    async def _leave(self) -> None:
        if self._staying is not None:
            self._staying.cancel()
        while self.held:
            await release_key(self._call.engine, self.held.popitem()[1])

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


async def repeated(context: Context, before: Mapping[str, Any], shape: type[O]) -> list[O]:
    """The answers as they were, with the memories as they are; what was erased since is named no more."""
    rows = [dict(row) for row in before.get("results") or ()]
    ids = [row["id"] for row in rows if row.get("id")]
    found = await context.engine.store.get_many(ids, viewer=context.agent) if ids else {}
    for row in rows:
        whole = [link for link in row.get("links") or () if link.get("origin") and link.get("target")]
        memory = found.get(row.get("id") or "")
        view = MemoryView.of(memory, context.engine.clock()) if memory else None
        row |= {"links": whole, "repeated": True, "memory": view}
    return [shape.model_validate(row) for row in rows]


async def run_once(
    context: Context, operation: Operation[I, O], given: I, *, key: str | None, on_repeat: Callable[[], None]
) -> O:
    """Do it, unless a call with that key did it within a day: then the answer is that one's. Errors are not kept.

    Raises KeyReused where the key stands for another call, Conflict where what it was answered with is erased.
    """
    if key is None or operation.effect is Effect.READS or getattr(given, "dry_run", False):
        return await operation.run(context, given)
    if OWN in operation.takes.model_fields:
        answer = await operation.run(context, _with_key(given, key))
        if _repeats(answer):
            on_repeat()
        return answer
    said = json.dumps([operation.name, given.model_dump(mode="json")], sort_keys=True)
    found = await hold_key(context.engine, key, said, agent=_whose(context))
    if not isinstance(found, HeldKey):
        on_repeat()
        return operation.gives.model_validate(found)
    return await _held(context, operation, given, found)


async def _held(context: Context, operation: Operation[I, O], given: I, held: HeldKey) -> O:
    staying = asyncio.create_task(_stay(context.engine, [held]))
    try:
        answer = await operation.run(context, given)
        try:
            await save_answer(context.engine, held, await _kept(context, operation, answer), words=True)
        except StoreError as error:  # it is done all the same
            log.warning("the answer to an idempotency key isn't kept: %s", error.code)
        return answer
    except BaseException:
        await release_key(context.engine, held)
        raise
    finally:
        staying.cancel()


async def _kept(context: Context, operation: Operation[Any, Any], answer: Output) -> dict[str, Any]:
    """The answer, but for what it says of memories that the call itself erased."""
    said = answer.model_dump(mode="json")
    if not operation.erases:
        return said
    named = set(_ids(said))
    there = await context.engine.store.get_many(list(named), viewer=EVERYONE)
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


def _whose(context: Context) -> str:
    """Whose key it is."""
    return context.agent if context.owner else f"{GUEST} {context.agent}"


async def _stay(engine: Engine, held: Collection[HeldKey]) -> None:
    """Hold them for as long as it takes."""
    while True:
        await asyncio.sleep(RENEWED)
        for one in list(held):
            with suppress(StoreError):
                await renew_key(engine, one)


def _with_key(given: I, key: str) -> I:
    own = getattr(given, OWN)
    if own is not None and own != key:
        raise InvalidInput("Two idempotency keys were given.", advice="Give one.")
    return given.model_copy(update={OWN: key})


def _repeats(answer: Output) -> bool:
    parts = getattr(answer, "results", None) or [answer]
    return all(getattr(part, "repeated", False) for part in parts)
