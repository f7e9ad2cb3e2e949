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
ANSWER, WORDS = "answer", "words"  # fields of an entry; for WORDS see RecordChanges.erase()
KEPT = timedelta(hours=24)
TERM = timedelta(seconds=20)  # and as much again for every thousand keys that are held together
RENEWED = 5.0  # seconds between renewals of a held key
PATIENCE = 1_000  # attempts: longer than the term of a dead process, shorter than callers usually wait
PAUSE = 0.05  # seconds between two attempts
LONGEST_KEY = 200


@dataclass(frozen=True, slots=True)
class HeldKey:
    """The right to run the call of a key, until its answer is saved or the key is released."""

    place: str  # of the answer, and of the note that the key is held
    note: str
    said: str
    term: timedelta


async def earlier_answer(engine: Engine, key: str, said: str, *, agent: str) -> Mapping[str, Any] | None:
    """Return the answer that was saved under this key, if any. Raises KeyReused if the key was used for another call."""
    return await _answer(engine, _place(key, agent), _fingerprint(key, said))


async def hold_key(
    engine: Engine, key: str, said: str, *, agent: str, together: int = 1
) -> HeldKey | Mapping[str, Any]:
    """Hold the key, or return the answer of the first call; waits while another caller holds the key.

    The holder has to renew it. Raises InvalidInput, KeyReused, and Conflict if the other caller takes too long.
    """
    place, fingerprint = _place(key, agent), _fingerprint(key, said)
    term = TERM * (1 + together // 1000)
    for _ in range(PATIENCE):
        until = engine.clock() + term
        candidate = HeldKey(place, f"{until.isoformat()} {place} {engine.new_id()}", fingerprint, term)
        if await _note(engine, candidate):
            try:
                answer = await _answer(engine, place, fingerprint)
            except KeyReused:
                await release_key(engine, candidate)
                raise
            if answer is None:
                return candidate
            await release_key(engine, candidate)
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
    """Keep the answer for a day, and release the key.

    With `words` the answer repeats the words of memories: erasing one of them erases the answer too.
    """
    now = engine.clock()
    value = {"said": held.said, WORDS if words else ANSWER: dict(answer)}
    await engine.store.put_entry(Entry(IDEMPOTENCY_NAMESPACE, held.place, value, now, now + KEPT))
    await release_key(engine, held)


async def release_key(engine: Engine, held: HeldKey) -> None:
    """Release the key without an answer, so that the next caller may try."""
    await _replace(engine, held, [])


async def renew_key(engine: Engine, held: HeldKey) -> bool:
    """Hold the key for another term from now. Returns whether it was still held."""
    _, holder = _parts(held.note)
    return await _replace(engine, held, [f"{(engine.clock() + held.term).isoformat()} {holder}"])


async def _replace(engine: Engine, held: HeldKey, instead: list[str]) -> bool:
    _, holder = _parts(held.note)
    while True:
        stored = await engine.store.cursor(_cursor(held.place))
        notes = _notes(stored)
        others = [note for note in notes if _parts(note)[1] != holder]
        if len(others) == len(notes):
            return False
        new = "\n".join([*others, *instead]) or None
        if await engine.store.swap_cursor(_cursor(held.place), old=stored, new=new):
            return True


async def _note(engine: Engine, held: HeldKey) -> bool:
    """Try to take the key; remove expired notes. Returns whether the caller has it now."""
    while True:
        now = engine.clock()
        stored = await engine.store.cursor(_cursor(held.place))
        others = [note for note in _notes(stored) if not _over(note, now)]
        if any(_parts(note)[1].startswith(f"{held.place} ") for note in others):
            return False
        if await engine.store.swap_cursor(
            _cursor(held.place), old=stored, new="\n".join((*others, held.note))
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
    answer: Mapping[str, Any] | None = entry.value.get(ANSWER, entry.value.get(WORDS))
    if answer is None:
        raise Conflict(
            "This was done before; what it was answered with has been erased since.",
            advice="Use a new key to have it done anew.",
        )
    return answer


def check_key(key: str) -> None:
    """Raise InvalidInput for what can't be an idempotency key."""
    if not key.strip() or len(key) > LONGEST_KEY:
        raise InvalidInput(
            f"An idempotency key has 1 to {LONGEST_KEY} characters.", advice="A random id does well."
        )


def _place(key: str, agent: str) -> str:
    """Return the storage key: a hash, so that keys can't be read back and agents don't share them."""
    check_key(key)
    return hashlib.sha256(f"{agent}\n{key}".encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _fingerprint(key: str, said: str) -> str:
    return hashlib.sha256(f"{key}\n{said}".encode("utf-8", "surrogatepass")).hexdigest()


def _cursor(place: str) -> str:
    return f"{IDEMPOTENCY_NAMESPACE}:{place[:2]}"


def _notes(taken: str | None) -> list[str]:
    return taken.split("\n") if taken else []


def _parts(note: str) -> tuple[str, str]:
    """Split a note into its expiry and its holder (the place and an id)."""
    until, _, holder = note.partition(" ")
    return until, holder


def _over(note: str, now: datetime) -> bool:
    return datetime.fromisoformat(_parts(note)[0]) <= now


I = TypeVar("I", bound=Input)  # noqa: E741
O = TypeVar("O", bound=Output)  # noqa: E741
OWN = "idempotency_key"  # the field of operations that store their answers themselves
IDS = frozenset({"ids", "forgotten"})  # fields of an answer that list ids
_ID = re.compile(r"[0-9a-z]{26}")
GUEST = "guest of"  # others don't get the answers of the owner, even if the agent is the same
log = logging.getLogger(__name__)


class Repeating:
    """The idempotency keys of one call's items, by number: while entered, each is held or already answered."""

    def __init__(
        self,
        context: Context,
        keyed: Mapping[int, tuple[str, str]],
        *,
        dry: Collection[int] = (),
    ) -> None:
        self.held: dict[int, HeldKey] = {}
        self.known: dict[int, Mapping[str, Any]] = {}
        self.copies: dict[int, int] = {}  # items that repeat an earlier item of the same call
        self.errors: dict[int, MindholdError] = {}
        self._call = context
        self._keyed = keyed
        self._dry = dry
        self._staying: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        firsts: dict[str, int] = {}
        for number in sorted(self._keyed):
            key, fingerprint = self._keyed[number]
            first = firsts.setdefault(key, number)
            if first != number and self._keyed[first][1] == fingerprint:
                self.copies[number] = first
            elif first != number:
                self.errors[number] = KeyReused(
                    "Two items of this call have the same idempotency key and say different things.",
                    advice="Give each its own.",
                )
        if self._keyed:
            self._staying = asyncio.create_task(_stay(self._call.engine, self.held.values()))
        try:
            # In the same order for all callers, so that two with the same keys can't deadlock.
            for key in sorted(firsts):
                await self._enter(firsts[key])
        except BaseException:
            await self._leave()
            raise
        return self

    async def _enter(self, number: int) -> None:
        (key, fingerprint), engine, agent = self._keyed[number], self._call.engine, _whose(self._call)
        try:
            if number in self._dry:
                before = await earlier_answer(engine, key, fingerprint, agent=agent)
                if before is not None:
                    self.known[number] = before
                return
            outcome = await hold_key(engine, key, fingerprint, agent=agent, together=len(self._keyed))
        except MindholdError as error:
            self.errors[number] = error
            return
        if isinstance(outcome, HeldKey):
            self.held[number] = outcome
        else:
            self.known[number] = outcome

    async def settle(self, number: int, answer: Mapping[str, Any]) -> None:
        """Save an item's answer, if the item has a key."""
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
    """Return what is saved of answers: without the words of memories, which may change or be erased."""
    return {"results": [result.model_dump(mode="json", exclude={"memory"}) for result in results]}


async def repeated(context: Context, before: Mapping[str, Any], shape: type[O]) -> list[O]:
    """Return the saved answers with the memories as they are now; memories erased since are left out."""
    rows = [dict(row) for row in before.get("results") or ()]
    ids = [row["id"] for row in rows if row.get("id")]
    memories = await context.engine.store.get_many(ids, viewer=context.agent) if ids else {}
    for row in rows:
        whole = [link for link in row.get("links") or () if link.get("origin") and link.get("target")]
        memory = memories.get(row.get("id") or "")
        view = MemoryView.of(memory, context.engine.clock()) if memory else None
        row |= {"links": whole, "repeated": True, "memory": view}
    return [shape.model_validate(row) for row in rows]


async def run_once(
    context: Context, operation: Operation[I, O], given: I, *, key: str, on_repeat: Callable[[], None]
) -> O:
    """Run the operation, unless a call with the same key ran within a day: then return its answer. Errors aren't kept.

    Raises KeyReused if the key belongs to another call, Conflict if the saved answer was erased.
    """
    if operation.effect is Effect.READS or getattr(given, "dry_run", False):
        return await operation.run(context, given)
    if OWN in operation.takes.model_fields:
        answer = await operation.run(context, _with_key(given, key))
        if _repeats(answer):
            on_repeat()
        return answer
    fingerprint = json.dumps([operation.name, given.model_dump(mode="json")], sort_keys=True)
    outcome = await hold_key(context.engine, key, fingerprint, agent=_whose(context))
    if not isinstance(outcome, HeldKey):
        on_repeat()
        return operation.gives.model_validate(outcome)
    return await _held(context, operation, given, outcome)


async def _held(context: Context, operation: Operation[I, O], given: I, held: HeldKey) -> O:
    staying = asyncio.create_task(_stay(context.engine, [held]))
    try:
        answer = await operation.run(context, given)
        try:
            await save_answer(context.engine, held, await _kept(context, operation, answer), words=True)
        except StoreError as error:  # the call itself succeeded
            log.warning("the answer to an idempotency key isn't kept: %s", error.code)
        return answer
    except BaseException:
        await release_key(context.engine, held)
        raise
    finally:
        staying.cancel()


async def _kept(context: Context, operation: Operation[Any, Any], answer: Output) -> dict[str, Any]:
    """Return the answer to save, without what it says of memories that the call itself erased."""
    document = answer.model_dump(mode="json")
    if not operation.erases:
        return document
    mentioned = set(_ids(document))
    existing = await context.engine.store.get_many(list(mentioned), viewer=EVERYONE)
    cleaned: dict[str, Any] = _blotted(document, mentioned - existing.keys())
    return cleaned


def _ids(value: Any, *, listed: bool = False) -> Iterator[str]:
    """Yield every string that may be a memory's id, by its place or by its form."""
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
        isinstance(value, str) and value in gone
        for value in (item.values() if isinstance(item, dict) else [item])
    )


def _whose(context: Context) -> str:
    """Return whose keys the call uses."""
    return context.agent if context.owner else f"{GUEST} {context.agent}"


async def _stay(engine: Engine, held: Collection[HeldKey]) -> None:
    """Renew the held keys until cancelled."""
    while True:
        await asyncio.sleep(RENEWED)
        for held_key in list(held):
            with suppress(StoreError):
                await renew_key(engine, held_key)


def _with_key(given: I, key: str) -> I:
    own = getattr(given, OWN)
    if own is not None and own != key:
        raise InvalidInput("Two idempotency keys were given.", advice="Give one.")
    return given.model_copy(update={OWN: key})


def _repeats(answer: Output) -> bool:
    parts = getattr(answer, "results", None) or [answer]
    return all(getattr(part, "repeated", False) for part in parts)
