"""A call that is made again, with the same key, is answered again and done once.

Of two at the same moment one holds the key, the other waits for its answer. Who dies with it holds it no longer than its
term, which who takes long renews; what was stored until then is found again by its content, so nothing is there twice.
Notes of who holds what lie in a bounded number of places, and whoever comes to one clears away those that are over:
nothing is left of the dead. An answer that repeats what memories say goes with them; what it answered isn't done again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from mindhold.engine.core import Engine
from mindhold.model.entry import Entry
from mindhold.model.errors import Conflict, InvalidInput, KeyReused

DRAWER = "once"
ANSWER, WORDS = "answer", "words"  # fields of an entry; of the latter see Records.erase()
KEPT = timedelta(hours=24)
TERM = timedelta(seconds=20)  # and as much again for every thousand keys that are held together
RENEWED = 5.0  # seconds after which who is still at it says so
PATIENCE = (
    1_000  # looks: longer than the term of one that died, shorter than callers usually wait for an answer
)
PAUSE = 0.05  # seconds between two
LONGEST_KEY = 200


@dataclass(frozen=True, slots=True)
class Held:
    """The right to do what a key stands for, until it is answered or let go."""

    place: str  # of the answer, and of the note that somebody is at it
    note: str
    said: str
    term: timedelta


async def earlier_answer(engine: Engine, key: str, said: str, *, agent: str) -> Mapping[str, Any] | None:
    """What was answered under this key; None if nothing was. Raises KeyReused where other things were said."""
    return await _answer(engine, _place(key, agent), _fingerprint(key, said))


async def hold(
    engine: Engine, key: str, said: str, *, agent: str, together: int = 1
) -> Held | Mapping[str, Any]:
    """The right to go on, or what was answered before; waits for one that is at it. Whoever goes on renews it.

    Raises InvalidInput, KeyReused, Conflict for one that takes too long.
    """
    place, fingerprint = _place(key, agent), _fingerprint(key, said)
    term = TERM * (1 + together // 1000)
    for _ in range(PATIENCE):
        until = engine.clock() + term
        held = Held(place, f"{until.isoformat()} {place} {engine.new_id()}", fingerprint, term)
        if await _note(engine, held):
            try:
                answer = await _answer(engine, place, fingerprint)
            except KeyReused:
                await let_go(engine, held)
                raise
            if answer is None:
                return held
            await let_go(engine, held)
            return answer
        if (answer := await _answer(engine, place, fingerprint)) is not None:
            return answer
        await asyncio.sleep(PAUSE)
    raise Conflict(
        "The first call with this idempotency key is still under way.", advice="Try again in a minute."
    )


async def settle(engine: Engine, held: Held, answer: Mapping[str, Any], *, words: bool = False) -> None:
    """Keep the answer for a day, and let go. With `words` it repeats what memories say: the erasure of one takes it along."""
    now = engine.clock()
    value = {"said": held.said, WORDS if words else ANSWER: dict(answer)}
    await engine.store.put_entry(Entry(DRAWER, held.place, value, now, now + KEPT))
    await let_go(engine, held)


async def let_go(engine: Engine, held: Held) -> None:
    """Without an answer the next one may try."""
    await _replace(engine, held, [])


async def renew(engine: Engine, held: Held) -> bool:
    """Hold it for another term from now. Whether it was held still."""
    _, whose = _parts(held.note)
    return await _replace(engine, held, [f"{(engine.clock() + held.term).isoformat()} {whose}"])


async def _replace(engine: Engine, held: Held, instead: list[str]) -> bool:
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


async def _note(engine: Engine, held: Held) -> bool:
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
    entry = await engine.store.entry(DRAWER, place, now=engine.clock())
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
    return f"{DRAWER}:{place[:2]}"


def _notes(taken: str | None) -> list[str]:
    return taken.split("\n") if taken else []


def _parts(note: str) -> tuple[str, str]:
    """Until when, and whose it is: the place and an id."""
    until, _, whose = note.partition(" ")
    return until, whose


def _over(note: str, now: datetime) -> bool:
    return datetime.fromisoformat(_parts(note)[0]) <= now
