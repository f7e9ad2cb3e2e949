"""Memories that deny each other: what was found is written down, shown, and can be undone. Nothing is deleted here.

A found contradiction draws `contradicts` from the later memory to the earlier and `superseded_by` back, and halves the earlier one's
importance. It lasts while both say what they said: where one was reworded or is gone, its line goes and the other gets back what it
had; while the later one is forgotten it rests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from recollect.engine.core import Engine
from recollect.engine.keys import fingerprint
from recollect.model.access import EVERYONE
from recollect.model.entry import Entry
from recollect.model.errors import InvalidInput, MemoryNotFound, NotFound
from recollect.model.link import Link, Relation
from recollect.model.memory import Memory, Status, Tier
from recollect.ports.store import Change, Connect, Disconnect, Tend

FOUND, PENDING, SETTLED = "contradictions", "contradictions:pending", "contradictions:settled"
OUTDATED = 0.5  # what is left of the importance of the earlier one
MOST = 5_000  # lines of a drawer
BATCH = 500
_KEY_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Pair:
    """Two memories of one agent and scope, in the order of time."""

    older: Memory
    newer: Memory
    similarity: float = 0.0

    @property
    def key(self) -> str:
        return pair_key(self.older.id, self.newer.id)


@dataclass(frozen=True, slots=True)
class Line:
    """What is written down of a pair. `texts` is a hash of what both said then, and of neither alone."""

    key: str
    older: str
    newer: str
    texts: str
    by: str  # rules, a model, or who said so
    confidence: float
    similarity: float
    created: datetime
    importance: float | None = None  # that the older one had; None where it was left alone
    applied: bool = False  # whether the links are drawn now
    tried: str = ""  # when a model was last asked about it

    def is_of(self, pair: Pair) -> bool:
        """Whether both still say what they said."""
        return self.texts == _texts_of(pair)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A line with its memories, for somebody who sees both."""

    line: Line
    pair: Pair
    pending: bool


def pair_key(one: str, two: str) -> str:
    """The same whichever is named first. A hash: an entry's key must not name what may be erased."""
    return fingerprint("\n".join(sorted((one, two))))[:_KEY_LENGTH]


def _texts_of(pair: Pair) -> str:
    return fingerprint(f"{pair.older.content_hash}\n{pair.newer.content_hash}")[:_KEY_LENGTH]


def in_time(one: Memory, two: Memory, similarity: float) -> Pair:
    """The earlier first, by when it was so, then by when it was stored."""
    older, newer = sorted((one, two), key=lambda memory: (memory.occurred, memory.created, memory.id))
    return Pair(older, newer, similarity)


class Known:
    """The pairs that were found, wait, or were settled, read once for many questions."""

    def __init__(self, lines: Mapping[str, Mapping[str, Line]]) -> None:
        self._lines = lines

    @classmethod
    async def read(cls, engine: Engine) -> Known:
        """As it is now; this run's own come by `seen`."""
        return cls(
            {
                drawer: {line.key: line for line in await lines_in(engine, drawer)}
                for drawer in (SETTLED, FOUND, PENDING)
            }
        )

    async def has(self, engine: Engine, pair: Pair) -> bool:
        """Of these very texts."""
        for drawer, lines in self._lines.items():
            line = lines.get(pair.key)
            if line is None and len(lines) == MOST:  # there may be more than were read
                line = await line_of(engine, drawer, pair.key)
            if line is not None and line.is_of(pair):
                return True
        return False


async def resolve(engine: Engine, pair: Pair, *, by: str, confidence: float) -> bool:
    """The later one takes the earlier one's place, which stays readable. False where one of them is gone."""
    line = replace(
        _new_line(engine, pair, by=by, confidence=confidence), importance=_importance_of(pair.older)
    )
    await write(engine, FOUND, line)  # first: what is cut short is gone on with by `review`
    done = await _applied(engine, line)
    if done:
        await write(engine, FOUND, replace(line, applied=True))
    else:
        await engine.ledger.drop_entry(FOUND, pair.key)
    await engine.ledger.drop_entry(PENDING, pair.key)
    return done


async def postpone(engine: Engine, pair: Pair, *, by: str, confidence: float) -> None:
    """For a model that answers, or a person."""
    await write(engine, PENDING, _new_line(engine, pair, by=by, confidence=confidence))


async def settle(engine: Engine, pair: Pair, *, by: str) -> None:
    """They don't contradict each other, whoever says so: not raised again while both say what they say."""
    await write(engine, SETTLED, _new_line(engine, pair, by=by, confidence=0.0))
    await engine.ledger.drop_entry(PENDING, pair.key)


async def undo(engine: Engine, key: str, *, agent: str) -> Contradiction:
    """As if it had not been found: links gone, importance back, and never found again. Raises NotFound."""
    found = await _seen(engine, FOUND, key, agent=agent)
    await write(engine, SETTLED, replace(found.line, by=agent, created=engine.clock(), applied=False))
    await _withdraw(engine, found.line)
    await engine.ledger.drop_entry(FOUND, found.line.key)
    return found


async def confirm(engine: Engine, key: str, *, agent: str) -> Contradiction:
    """A pending one is one. Raises NotFound."""
    found = await _seen(engine, PENDING, key, agent=agent)
    if not await resolve(engine, found.pair, by=agent, confidence=1.0):
        raise MemoryNotFound(found.pair.older.id)
    return found


async def dismiss(engine: Engine, key: str, *, agent: str) -> Contradiction:
    """A pending one is none. Raises NotFound."""
    found = await _seen(engine, PENDING, key, agent=agent)
    await settle(engine, found.pair, by=agent)
    return found


async def contradictions(
    engine: Engine, *, agent: str, pending: bool, limit: int = MOST
) -> list[Contradiction]:
    """Those whose memories the caller sees both of, the newest first."""
    lines = await lines_in(engine, PENDING if pending else FOUND)
    known = await engine.store.get_many(_ends(lines), viewer=agent)
    seen = (_of_line(line, known, pending=pending) for line in lines)
    return [one for one in seen if one is not None][:limit]


async def review(engine: Engine, *, dry: bool = False) -> int:
    """Lines whose memories were reworded or are gone fall away, and those of forgotten ones rest. How many changed."""
    changed = 0
    for drawer in (FOUND, PENDING, SETTLED):
        lines = await lines_in(engine, drawer)
        for start in range(0, len(lines), BATCH):
            batch = lines[start : start + BATCH]
            known = await engine.store.get_many(_ends(batch), viewer=EVERYONE)
            for line in batch:
                changed += await _reviewed(engine, drawer, line, known, dry=dry)
    return changed


async def _reviewed(
    engine: Engine, drawer: str, line: Line, known: Mapping[str, Memory], *, dry: bool
) -> bool:
    older, newer = known.get(line.older), known.get(line.newer)
    holds = older is not None and newer is not None and line.is_of(Pair(older, newer))
    stands = holds and newer is not None and newer.status is Status.ACTIVE
    if holds and (drawer != FOUND or stands == line.applied):
        return False
    if dry:
        return True
    if drawer == FOUND and line.applied:
        await _withdraw(engine, line)
        await write(engine, FOUND, replace(line, applied=False))
    if not holds:
        await engine.ledger.drop_entry(drawer, line.key)
    elif stands and await _applied(engine, line):
        await write(engine, FOUND, replace(line, applied=True))
    return True


async def _applied(engine: Engine, line: Line) -> bool:
    """Draw the links and lower the older one; False where one of them is gone."""
    now = engine.clock()
    changes: list[Change] = [
        Connect(
            Link(line.newer, line.older, Relation.CONTRADICTS, now, weight=line.confidence, automatic=True)
        )
    ]
    if line.importance is not None:
        changes.append(Connect(Link(line.older, line.newer, Relation.SUPERSEDED_BY, now, automatic=True)))
        changes.append(Tend(line.older, importance=line.importance * OUTDATED, review=now))
    try:
        await engine.store.apply(changes)
    except MemoryNotFound:
        return False
    return True


async def _withdraw(engine: Engine, line: Line) -> None:
    """What `_applied` did, undone; a person who raised it meanwhile keeps the last word."""
    changes: list[Change] = [Disconnect(line.newer, line.older, Relation.CONTRADICTS)]
    if line.importance is not None:
        changes.append(Disconnect(line.older, line.newer, Relation.SUPERSEDED_BY))
        older = (await engine.store.get_many([line.older], viewer=EVERYONE)).get(line.older)
        if older is not None and older.importance < line.importance:
            back = min(line.importance, older.importance / OUTDATED)  # it may have faded since
            changes.append(Tend(line.older, importance=back, review=engine.clock()))
    await engine.store.apply(changes)


def _importance_of(older: Memory) -> float | None:
    """None for what only a person may take the place of."""
    return None if older.anchor or older.tier is Tier.PERMANENT else older.importance


async def _seen(engine: Engine, drawer: str, key: str, *, agent: str) -> Contradiction:
    wanted = key.strip().lower()
    if not wanted:
        raise InvalidInput("An id is empty.", advice="`recollect contradictions` shows them.")
    lines = [line for line in await lines_in(engine, drawer) if line.key.startswith(wanted)]
    known = await engine.store.get_many(_ends(lines), viewer=agent)
    seen = [one for line in lines if (one := _of_line(line, known, pending=drawer == PENDING)) is not None]
    if len(seen) > 1:
        raise InvalidInput(f"{wanted!r} begins several ids.", advice="Give more of it.")
    if not seen:
        what = "pending contradiction" if drawer == PENDING else "contradiction"
        raise NotFound(f"There is no {what} {wanted!r}.", advice="`recollect contradictions` shows them.")
    return seen[0]


def _of_line(line: Line, known: Mapping[str, Memory], *, pending: bool) -> Contradiction | None:
    """None where one is out of sight, not there now, or says something else by now."""
    older, newer = known.get(line.older), known.get(line.newer)
    if older is None or newer is None:
        return None
    pair = Pair(older, newer, line.similarity)
    there = older.status is not Status.FORGOTTEN and newer.status is Status.ACTIVE
    return Contradiction(line, pair, pending) if there and line.is_of(pair) else None


async def lines_in(engine: Engine, drawer: str) -> list[Line]:
    """The newest first."""
    entries = await engine.ledger.entries(drawer, now=engine.clock(), limit=MOST)
    return [_line(entry) for entry in entries]


async def line_of(engine: Engine, drawer: str, key: str) -> Line | None:
    """By its key in full."""
    entry = await engine.ledger.entry(drawer, key, now=engine.clock())
    return None if entry is None else _line(entry)


async def write(engine: Engine, drawer: str, line: Line) -> None:
    """Insert, or replace."""
    value: dict[str, Any] = {
        "older": line.older,
        "newer": line.newer,
        "texts": line.texts,
        "by": line.by,
        "confidence": line.confidence,
        "similarity": line.similarity,
        "importance": line.importance,
        "applied": line.applied,
        "tried": line.tried,
    }
    await engine.ledger.put_entry(Entry(drawer, line.key, value, line.created))


def _line(entry: Entry) -> Line:
    """What an erasure emptied reads as the name of nobody."""
    value = entry.value
    return Line(
        key=entry.key,
        older=str(value.get("older") or ""),
        newer=str(value.get("newer") or ""),
        texts=str(value.get("texts") or ""),
        by=str(value.get("by") or ""),
        confidence=float(value.get("confidence") or 0.0),
        similarity=float(value.get("similarity") or 0.0),
        created=entry.created,
        importance=value.get("importance"),
        applied=bool(value.get("applied")),
        tried=str(value.get("tried") or ""),
    )


def _new_line(engine: Engine, pair: Pair, *, by: str, confidence: float) -> Line:
    return Line(
        key=pair.key,
        older=pair.older.id,
        newer=pair.newer.id,
        texts=_texts_of(pair),
        by=by,
        confidence=round(confidence, 4),
        similarity=round(pair.similarity, 4),
        created=engine.clock(),
    )


def _ends(lines: Sequence[Line]) -> list[str]:
    return list({end for line in lines for end in (line.older, line.newer) if end})
