"""Memories that deny each other: what was found is written down, shown, and can be undone. Nothing is deleted here.

A found contradiction draws `contradicts` from the later memory to the earlier and `superseded_by` back, and halves the earlier one's
importance. It lasts while both say what they said; `contradiction_review` looks after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isclose

from mindhold.engine.contradiction_book import (
    FOUND,
    PENDING,
    SETTLED,
    SPREAD,
    Line,
    Pair,
    drawer_of,
    drawers,
    drop,
    ends,
    lines_in,
    new_line,
    write,
)
from mindhold.engine.core import Engine
from mindhold.model.access import EVERYONE, visible_agents
from mindhold.model.errors import InvalidInput, MemoryNotFound, NotFound
from mindhold.model.life import OUTDATED, is_kept_for_good
from mindhold.model.link import Link, Relation
from mindhold.model.memory import Memory, Status
from mindhold.ports.store import Change, Connect, Disconnect, Tend

BATCH = 500
TRIES = 3


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A line with its memories, for somebody who sees both."""

    line: Line
    pair: Pair
    pending: bool


async def resolve(engine: Engine, pair: Pair, *, by: str, confidence: float) -> bool:
    """The later one takes the earlier one's place, which stays readable. False where one of them is gone."""
    line = new_line(engine, pair, by=by, confidence=confidence)
    done = await apply(engine, line)
    if not done:
        await drop(engine, FOUND, line)
    await drop(engine, PENDING, line)
    return done


async def postpone(engine: Engine, pair: Pair, *, by: str, confidence: float) -> None:
    """For a model that answers, or a person."""
    await write(engine, PENDING, new_line(engine, pair, by=by, confidence=confidence))


async def settle(engine: Engine, pair: Pair, *, by: str) -> None:
    """They don't contradict each other, whoever says so: not raised again while both say what they say."""
    line = new_line(engine, pair, by=by, confidence=0.0)
    await write(engine, SETTLED, line)
    await drop(engine, PENDING, line)


async def undo(engine: Engine, key: str, *, agent: str) -> Contradiction:
    """As if it had not been found: links gone, importance back, and never found again. Raises NotFound."""
    found = await _seen(engine, FOUND, key, agent=agent)
    await settle(engine, found.pair, by=agent)
    await withdraw(engine, found.line)
    await drop(engine, FOUND, found.line)
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
    engine: Engine, *, agent: str, pending: bool, limit: int | None = None
) -> list[Contradiction]:
    """Those whose memories the caller sees both of, the newest first."""
    kind = PENDING if pending else FOUND
    lines: list[Line] = []
    for drawer in await drawers(engine, kind, agents=visible_agents(agent)):
        lines += await lines_in(engine, drawer)
    lines.sort(key=lambda line: line.created, reverse=True)
    found: list[Contradiction] = []
    for start in range(0, len(lines), BATCH):
        found += await with_memories(engine, lines[start : start + BATCH], agent=agent, pending=pending)
        if limit is not None and len(found) >= limit:
            return found[:limit]
    return found


async def with_memories(
    engine: Engine, lines: list[Line], *, agent: str, pending: bool
) -> list[Contradiction]:
    """Those of them whose memories are there, seen by the agent, and say what they said."""
    known = await engine.store.get_many(ends(lines), viewer=agent)
    seen = (_of_line(line, known, pending=pending) for line in lines)
    return [one for one in seen if one is not None]


async def apply(engine: Engine, line: Line) -> bool:
    """Draw the links and lower the older one, noting first what it had; False where one of them is gone.

    What was cut short is gone on with, and not done twice: links and importance change in one step.
    """
    if line.lowered is not None and await is_drawn(engine, line):
        await write(engine, FOUND, replace(line, applied=True))
        return True
    for _ in range(TRIES):
        older = await _memory(engine, line.older)
        if older is None:
            return False
        line = _lowering(engine, line, older)
        await write(engine, FOUND, line)
        try:
            await engine.store.apply([*links_of(line), *_lowered(line)])
        except MemoryNotFound:
            return False
        after = await _memory(engine, line.older)
        # Where somebody used or changed it in between, what they made of it is read, and lowered.
        if not line.importance or after is None or after.importance != older.importance:
            break
    await write(engine, FOUND, replace(line, applied=True))
    return True


async def withdraw(engine: Engine, line: Line) -> None:
    """What `apply` did, undone: by the same share, for it may have faded since; a value that somebody chose meanwhile stands."""
    if not line.applied and not await is_drawn(engine, line):
        return
    changes: list[Change] = [
        Disconnect(link.origin, link.target, link.relation)
        for change in links_of(line)
        if (link := change.link).origin and link.target
    ]
    older = await _memory(engine, line.older)
    if older is not None and line.importance and line.lowered_to and await _is_as_left(engine, older, line):
        now = engine.clock()
        back = min(1.0, round(older.importance * line.importance / line.lowered_to, 9))
        changes.append(Tend(older.id, importance=back, review=now, unless_since=now))
    await engine.store.apply(changes)


def links_of(line: Line) -> list[Connect]:
    """Of what only a person may take the place of, the later one takes no place."""
    now = line.lowered or line.created
    drawn = [Link(line.newer, line.older, Relation.CONTRADICTS, now, weight=line.confidence, automatic=True)]
    if line.importance is not None:
        drawn.append(Link(line.older, line.newer, Relation.SUPERSEDED_BY, now, automatic=True))
    return [Connect(link) for link in drawn]


async def is_drawn(engine: Engine, line: Line) -> bool:
    """Whether upkeep's link is there."""
    if not line.newer or not line.older:
        return False
    found = await engine.store.links_of([line.newer], relations=(Relation.CONTRADICTS,), viewer=EVERYONE)
    ours = (line.newer, line.older)
    return any(link.automatic and (link.origin, link.target) == ours for link in found)


def _lowering(engine: Engine, line: Line, older: Memory) -> Line:
    importance = None if is_kept_for_good(older) else older.importance
    lowered_to = None if importance is None else importance * OUTDATED
    return replace(line, importance=importance, lowered_to=lowered_to, lowered=engine.clock(), applied=False)


def _lowered(line: Line) -> list[Change]:
    if line.importance is None or line.lowered is None:
        return []
    return [Tend(line.older, importance=line.lowered_to, review=line.lowered, unless_since=line.lowered)]


async def _is_as_left(engine: Engine, older: Memory, line: Line) -> bool:
    """Whether no person set another importance since. Each amendment kept what was before it."""
    since = line.lowered or line.created
    if older.updated <= since:
        return True
    versions = await engine.store.versions_of(older.id)
    had = [version.importance for version in versions if version.amended > since]
    return all(isclose(one, two) for one, two in pairwise([*had, older.importance]))


async def _memory(engine: Engine, memory_id: str) -> Memory | None:
    return (await engine.store.get_many([memory_id], viewer=EVERYONE)).get(memory_id) if memory_id else None


async def _seen(engine: Engine, kind: str, key: str, *, agent: str) -> Contradiction:
    wanted = key.strip().lower()
    if not wanted:
        raise InvalidInput("An id is empty.", advice="`mindhold contradictions` shows them.")
    seen: list[Contradiction] = []
    for drawer in await drawers(engine, kind, agents=visible_agents(agent)):
        if len(wanted) < SPREAD or drawer == drawer_of(kind, drawer.agent, wanted):
            lines = [line for line in await lines_in(engine, drawer) if line.key.startswith(wanted)]
            seen += await with_memories(engine, lines, agent=agent, pending=kind == PENDING)
    if len(seen) > 1:
        raise InvalidInput(f"{wanted!r} begins several ids.", advice="Give more of it.")
    if not seen:
        what = "pending contradiction" if kind == PENDING else "contradiction"
        raise NotFound(f"There is no {what} {wanted!r}.", advice="`mindhold contradictions` shows them.")
    return seen[0]


def _of_line(line: Line, known: Mapping[str, Memory], *, pending: bool) -> Contradiction | None:
    """None where one is out of sight, not there now, or says something else by now."""
    older, newer = known.get(line.older), known.get(line.newer)
    if older is None or newer is None:
        return None
    pair = Pair(older, newer, line.similarity)
    there = older.status is not Status.FORGOTTEN and newer.status is Status.ACTIVE
    return Contradiction(line, pair, pending) if there and line.is_of(pair) else None
