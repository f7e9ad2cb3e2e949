"""Stage 9: pairs that nobody could judge, ten at a time, once a model answers."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from time import perf_counter

from mindhold.engine.classifiers import SURE, is_sure
from mindhold.engine.consolidate.stage import MOST_TOLD, NOTHING, Bounds, Stage, Told
from mindhold.engine.contradiction_book import MOST_PENDING, PENDING, Line, drawers, lines_in, write
from mindhold.engine.contradictions import Contradiction, resolve, settle, with_memories
from mindhold.engine.core import Engine
from mindhold.engine.disputes import COMPATIBLE, CONTRADICTION, Judge, is_comparable, note_failure
from mindhold.model.access import EVERYONE

NAME = "pending"
AT_ONCE = 10
LINES = MOST_PENDING  # that one run reads: of one agent or a few, in turn
CURSOR = "contradictions:drained"


async def run(engine: Engine, within: Bounds) -> Stage:
    """Those that were asked about least lately; without a model they wait."""
    begun = perf_counter()
    waiting = await _waiting(engine, within)
    if not waiting:
        return Stage(NAME, 0, NOTHING, perf_counter() - begun)
    judge = Judge(engine, over=lambda: within.over)
    told: list[Told] = []
    looked, more, failed = 0, False, ""
    if not within.dry:
        others = [line for line in waiting if not judge.has_doubted(line.by)]
        looked, judged = await _by_classifier(engine, judge, others, within, told)
        left = [line for line in waiting if line.key not in judged]
        asked = 0
        for one in await _comparable(engine, left[:AT_ONCE]) if judge.has_model else ():
            if within.over or not judge.has_model:
                break
            await _by_model(engine, judge, one, told)
            asked += 1
        failed = await note_failure(engine, judge)
        # What a model answered isn't asked again at once: more is what has not had its turn.
        unasked = judge.has_model and len(left) > asked
        more = bool(told) and (unasked or (looked < len(others) and judge.failure is None))
        looked += asked
    detail = (
        f"{len(told)} of {len(waiting)} judged" if told else f"{len(waiting)} wait for a model or a person"
    )
    return Stage(
        NAME,
        changed=len(told),
        detail=", ".join(filter(None, (detail, failed))),
        seconds=perf_counter() - begun,
        looked=looked,
        more=more,
        examples=tuple(told[:MOST_TOLD]),
    )


async def _waiting(engine: Engine, within: Bounds) -> list[Line]:
    """Of some agents; the others have their turn in the next run."""
    known = await drawers(engine, PENDING)
    start = bisect_right([drawer.name for drawer in known], await engine.store.cursor(CURSOR) or "")
    found: list[Line] = []
    last = ""
    for drawer in (*known[start:], *known[:start]):
        found += await lines_in(engine, drawer, limit=MOST_PENDING)
        last = drawer.name
        if len(found) >= LINES or within.over:
            break
    if last and len(known) > 1 and not within.dry:
        await engine.store.set_cursor(CURSOR, last)
    return sorted(found, key=lambda line: (line.tried, line.created))


async def _comparable(engine: Engine, lines: list[Line]) -> list[Contradiction]:
    found = await with_memories(engine, lines, agent=EVERYONE, pending=True)
    return [one for one in found if is_comparable(one.pair.older)]


async def _by_classifier(
    engine: Engine, judge: Judge, others: list[Line], within: Bounds, told: list[Told]
) -> tuple[int, set[str]]:
    """Where another one is here than the one that left them: it may be sure. How many it was asked, and the keys of those settled."""
    done: set[str] = set()
    for start in range(0, len(others), AT_ONCE):
        if within.over and start:  # ten at least, that it may come to an end
            return start, done
        few = await _comparable(engine, others[start : start + AT_ONCE])
        judgements = await judge.judgements([each.pair for each in few])
        if judge.failure is not None:
            return start, done
        for one, judgement in zip(few, judgements, strict=True):
            if not is_sure(judgement):
                await write(engine, PENDING, replace(one.line, by=judgement.by))
                continue
            done.add(one.line.key)
            if judgement.contradiction >= SURE:
                await resolve(engine, one.pair, by=judgement.by, confidence=judgement.contradiction)
            else:
                await settle(engine, one.pair, by=judgement.by)
            told.append(_told(one, found=judgement.contradiction >= SURE))
    return len(others), done


async def _by_model(engine: Engine, judge: Judge, one: Contradiction, told: list[Told]) -> None:
    verdict = await judge.verdict(one.pair)
    if verdict == CONTRADICTION:
        await resolve(engine, one.pair, by=judge.model, confidence=SURE)
    elif verdict == COMPATIBLE:
        await settle(engine, one.pair, by=judge.model)
    else:
        if judge.has_model:
            await write(engine, PENDING, replace(one.line, tried=engine.clock().isoformat()))
        return
    told.append(_told(one, found=verdict == CONTRADICTION))


def _told(one: Contradiction, *, found: bool) -> Told:
    what = "contradicted" if found else "compatible"
    return Told(one.pair.older.id, what, f"{'by' if found else 'with'} {one.pair.newer.id}")
