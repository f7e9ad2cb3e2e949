"""Stage 9: pairs that nobody could judge, ten at a time, once a model answers."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

from recollect.engine.classifiers import SURE, is_sure
from recollect.engine.consolidate.stage import MOST_TOLD, NOTHING, Bounds, Stage, Told
from recollect.engine.contradictions import (
    PENDING,
    Contradiction,
    contradictions,
    resolve,
    settle,
    write,
)
from recollect.engine.core import Engine
from recollect.engine.disputes import COMPATIBLE, CONTRADICTION, Judge, is_comparable
from recollect.model.access import EVERYONE

NAME = "pending"
AT_ONCE = 10


async def run(engine: Engine, within: Bounds) -> Stage:
    """Those that were asked about least lately; without a model they wait."""
    begun = perf_counter()
    waiting = await contradictions(engine, agent=EVERYONE, pending=True)
    waiting = [one for one in waiting if is_comparable(one.pair.older)]
    judge = Judge(engine)
    if not waiting:
        return Stage(NAME, 0, NOTHING, perf_counter() - begun)
    waiting.sort(key=lambda one: (one.line.tried, one.line.created))
    told: list[Told] = []
    if not within.dry:
        judged = await _by_classifier(engine, judge, waiting, told)
        left = [one for one in waiting if one.line.key not in judged]
        for one in left[:AT_ONCE]:
            if within.over or not judge.has_model:
                break
            await _by_model(engine, judge, one, told)
    detail = (
        f"{len(told)} of {len(waiting)} judged" if told else f"{len(waiting)} wait for a model or a person"
    )
    return Stage(
        NAME,
        changed=len(told),
        detail=detail,
        seconds=perf_counter() - begun,
        looked=len(waiting),
        more=False,
        examples=tuple(told[:MOST_TOLD]),
    )


async def _by_classifier(
    engine: Engine, judge: Judge, waiting: list[Contradiction], told: list[Told]
) -> set[str]:
    """Where another one is here than the one that left them: it may be sure. The keys of those that it is sure of."""
    others = [one for one in waiting if one.line.by != judge.classifier]
    done: set[str] = set()
    for one, judgement in zip(others, await judge.judgements([each.pair for each in others]), strict=True):
        if not is_sure(judgement):
            await write(engine, PENDING, replace(one.line, by=judge.classifier))
            continue
        done.add(one.line.key)
        if judgement.contradiction >= SURE:
            await resolve(engine, one.pair, by=judge.classifier, confidence=judgement.contradiction)
        else:
            await settle(engine, one.pair, by=judge.classifier)
        told.append(_told(one, found=judgement.contradiction >= SURE))
    return done


async def _by_model(engine: Engine, judge: Judge, one: Contradiction, told: list[Told]) -> None:
    verdict = await judge.verdict(one.pair)
    if verdict == CONTRADICTION and engine.llm is not None:
        await resolve(engine, one.pair, by=engine.llm.name, confidence=SURE)
    elif verdict == COMPATIBLE and engine.llm is not None:
        await settle(engine, one.pair, by=engine.llm.name)
    else:
        if judge.has_model:
            await write(engine, PENDING, replace(one.line, tried=engine.clock().isoformat()))
        return
    told.append(_told(one, found=verdict == CONTRADICTION))


def _told(one: Contradiction, *, found: bool) -> Told:
    what = "contradicted" if found else "compatible"
    return Told(one.pair.older.id, what, f"{'by' if found else 'with'} {one.pair.newer.id}")
