"""Looking after what was found: some lines a run, each in its turn.

Where a memory was reworded or is gone, its line goes and the other gets back what it had; while the later one is forgotten it rests;
where another one took the place of the later one, the line is of that one from then on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace

from mindhold.engine.classifiers import SURE, judged
from mindhold.engine.consolidate.stage import Bounds
from mindhold.engine.contradiction_book import (
    FOUND,
    PENDING,
    Drawer,
    Line,
    Pair,
    drawers,
    drop,
    ends,
    in_time,
    line_of,
    lines_in,
    write,
)
from mindhold.engine.contradictions import apply, links_of, resolve, withdraw
from mindhold.engine.core import Engine
from mindhold.model.access import EVERYONE
from mindhold.model.link import Relation
from mindhold.model.memory import Memory, Status
from mindhold.ports.store import Change, Disconnect

CURSOR = "contradictions:reviewed"  # the drawer that was last looked through
LINES = 400  # that one run looks at; the others have their turn in the next
BATCH = 100
MOST_STEPS = 10  # from one that was superseded to the next


async def review(engine: Engine, within: Bounds) -> int:
    """How many lines changed."""
    known = await drawers(engine)
    names = [drawer.name for drawer in known]
    start = bisect_right(names, await engine.store.cursor(CURSOR) or "")
    changed = looked = 0
    last = ""
    for drawer in (*known[start:], *known[:start]):
        if looked >= LINES or within.over:
            break
        lines = await lines_in(engine, drawer)
        looked += max(1, len(lines))
        for begin in range(0, len(lines), BATCH):
            changed += await _reviewed(engine, drawer, lines[begin : begin + BATCH], dry=within.dry)
            if within.over:
                break
        last = drawer.name
    if last and not within.dry:
        await engine.store.set_cursor(CURSOR, last)
    return changed


async def _reviewed(engine: Engine, drawer: Drawer, lines: list[Line], *, dry: bool) -> int:
    known = await engine.store.get_many(ends(lines), viewer=EVERYONE)
    if drawer.kind == FOUND:
        return sum([await _of_found(engine, line, known, dry=dry) for line in lines])
    gone = [line for line in lines if not _waits(drawer, _pair(line, known), line)]
    for line in gone if not dry else ():
        await drop(engine, drawer.kind, line)
    return len(gone)


def _pair(line: Line, known: Mapping[str, Memory]) -> Pair | None:
    """None where one is gone, or says something else."""
    older, newer = known.get(line.older), known.get(line.newer)
    if older is None or newer is None:
        return None
    pair = Pair(older, newer, line.similarity)
    return pair if line.is_of(pair) else None


def _waits(drawer: Drawer, pair: Pair | None, line: Line) -> bool:
    """A line of what was superseded waits for nobody."""
    if pair is None:
        return False
    return drawer.kind != PENDING or Status.SUPERSEDED not in (pair.older.status, pair.newer.status)


async def _of_found(engine: Engine, line: Line, known: Mapping[str, Memory], *, dry: bool) -> bool:
    pair = _pair(line, known)
    if pair is None:
        if not dry:
            await withdraw(engine, line)
            await drop(engine, FOUND, line)
        return True
    if Status.SUPERSEDED in (pair.older.status, pair.newer.status):
        return await _followed(engine, line, pair, dry=dry)
    return await _kept(engine, line, pair, dry=dry)


async def _kept(engine: Engine, line: Line, pair: Pair, *, dry: bool) -> bool:
    stands = pair.newer.status is Status.ACTIVE
    if stands == line.applied or dry:
        return stands != line.applied
    if stands:
        return await apply(engine, line)
    await _rest(engine, line)
    return True


async def _rest(engine: Engine, line: Line) -> None:
    await withdraw(engine, line)
    await write(engine, FOUND, replace(line, applied=False))


async def _followed(engine: Engine, line: Line, pair: Pair, *, dry: bool) -> bool:
    """The line is of the one that took the place, unless that one surely denies nothing."""
    older = await _successor(engine, pair.older, besides=pair.newer.id)
    newer = await _successor(engine, pair.newer, besides=pair.older.id)
    if older is not None and older.id != pair.older.id and not await _has_link(engine, newer, older):
        older = pair.older  # its successor was written anew, and is judged by itself
    if newer is None:  # as it is with a forgotten one
        if line.applied and not dry:
            await _rest(engine, line)
        return line.applied
    older = older or pair.older
    if (older.id, newer.id) == (line.older, line.newer):
        return await _kept(engine, line, pair, dry=dry)
    if dry:
        return True
    moved = in_time(older, newer, line.similarity)
    agrees = older.id == newer.id or moved.older.id != older.id or _is_compatible(moved)
    if await line_of(engine, FOUND, moved) is not None:
        await withdraw(engine, line)
    elif agrees or newer.status is not Status.ACTIVE:
        await withdraw(engine, line)
        await _unlink(engine, older.id, newer.id)
    elif older.id == line.older:
        await _move(engine, line, moved)
    else:
        await withdraw(engine, line)
        await resolve(engine, moved, by=line.by, confidence=line.confidence)
    await drop(engine, FOUND, line)
    return True


async def _move(engine: Engine, line: Line, pair: Pair) -> None:
    """With what it says of the older one, which stays as it is."""
    moved = replace(line, key=pair.key, newer=pair.newer.id, texts=pair.texts)
    await write(engine, FOUND, moved)  # first, and as it will be: what is cut short is done again
    if line.applied:
        gone: list[Change] = [
            Disconnect(change.link.origin, change.link.target, change.link.relation)
            for change in links_of(line)
        ]
        await engine.store.apply([*gone, *links_of(moved)])


async def _unlink(engine: Engine, older: str, newer: str) -> None:
    """A merge may have brought upkeep's links along, and no line stands behind them."""
    ours = {(newer, older, Relation.CONTRADICTS), (older, newer, Relation.SUPERSEDED_BY)}
    found = await engine.store.links_of([older], viewer=EVERYONE)
    await engine.store.apply(
        [
            Disconnect(link.origin, link.target, link.relation)
            for link in found
            if link.automatic and (link.origin, link.target, link.relation) in ours
        ]
    )


def _is_compatible(pair: Pair) -> bool:
    found = judged(pair.older.content, pair.newer.content)
    return max(found.entailment, found.neutral) >= SURE


async def _has_link(engine: Engine, newer: Memory | None, older: Memory) -> bool:
    """Whether a merge brought upkeep's link along."""
    if newer is None:
        return False
    found = await engine.store.links_of([older.id], relations=(Relation.CONTRADICTS,), viewer=EVERYONE)
    return any(link.automatic and (link.origin, link.target) == (newer.id, older.id) for link in found)


async def _successor(engine: Engine, memory: Memory, *, besides: str) -> Memory | None:
    """What stands in its place now, itself where nothing does; None where that can't be told."""
    found = memory
    for _ in range(MOST_STEPS):
        if found.status is not Status.SUPERSEDED:
            return found
        links = await engine.store.links_of([found.id], relations=(Relation.SUPERSEDED_BY,), viewer=EVERYONE)
        ids = {link.target: link.automatic for link in links if link.origin == found.id}
        known = await engine.store.get_many([one for one in ids if one != besides], viewer=EVERYONE)
        if not known:
            return None
        place = found.id
        found = min(known.values(), key=lambda one: (one.supersedes != place, ids[one.id], one.id))
    return None
