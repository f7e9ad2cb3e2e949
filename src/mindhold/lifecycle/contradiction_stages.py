"""Stages 8 and 9: search new memories for contradictions, review known pairs, and judge pending ones."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter

from mindhold.engine import Engine
from mindhold.lifecycle.classifiers import SURE, is_sure, judged
from mindhold.lifecycle.contradiction_detection import (
    COMPATIBLE,
    CONTRADICTION,
    ContradictionJudge,
    JudgedPairs,
    is_comparable,
    neighbours,
    note_failure,
    unjudged,
)
from mindhold.lifecycle.contradiction_records import (
    FOUND,
    MOST_PENDING,
    PENDING,
    MemoryPair,
    PairNamespace,
    PairRecord,
    delete_pair_record,
    find_pair_record,
    ordered_pair,
    pair_namespaces,
    pair_records,
    paired_ids,
    save_pair_record,
    trim_pair_records,
)
from mindhold.lifecycle.contradictions import (
    Contradiction,
    apply,
    links_of,
    resolve,
    settle,
    with_memories,
    withdraw,
)
from mindhold.lifecycle.stages import MOST_TOLD, NOTHING, StageExample, StageLimits, StageResult
from mindhold.model.errors import MemoryNotFound
from mindhold.model.memory import Memory, Relation, Status
from mindhold.model.query import Filter, Order
from mindhold.model.scope import EVERYONE
from mindhold.ports.store import Capability, Change, Disconnect, Tend

REVIEW_CURSOR = "contradictions:reviewed"  # the drawer that was last looked through
REVIEW_RECORDS = 400  # that one run looks at; the others have their turn in the next
REVIEW_BATCH = 100
MOST_STEPS = 10  # from one that was superseded to the next


async def review_contradictions(engine: Engine, within: StageLimits) -> int:
    """How many lines changed."""
    known = await pair_namespaces(engine)
    names = [drawer.name for drawer in known]
    start = bisect_right(names, await engine.store.cursor(REVIEW_CURSOR) or "")
    changed = looked = 0
    last = ""
    for drawer in (*known[start:], *known[:start]):
        if looked >= REVIEW_RECORDS or within.over:
            break
        lines = await pair_records(engine, drawer)
        looked += max(1, len(lines))
        for begin in range(0, len(lines), REVIEW_BATCH):
            changed += await _reviewed(engine, drawer, lines[begin : begin + REVIEW_BATCH], dry=within.dry)
            if within.over:
                break
        last = drawer.name
    if last and not within.dry:
        await engine.store.set_cursor(REVIEW_CURSOR, last)
    return changed


async def _reviewed(engine: Engine, drawer: PairNamespace, lines: list[PairRecord], *, dry: bool) -> int:
    known = await engine.store.get_many(paired_ids(lines), viewer=EVERYONE)
    if drawer.kind == FOUND:
        return sum([await _of_found(engine, line, known, dry=dry) for line in lines])
    gone = [line for line in lines if not _waits(drawer, _pair(line, known), line)]
    for line in gone if not dry else ():
        await delete_pair_record(engine, drawer.kind, line)
    return len(gone)


def _pair(line: PairRecord, known: Mapping[str, Memory]) -> MemoryPair | None:
    """None where one is gone, or says something else."""
    older, newer = known.get(line.older), known.get(line.newer)
    if older is None or newer is None:
        return None
    pair = MemoryPair(older, newer, line.similarity)
    return pair if line.is_of(pair) else None


def _waits(drawer: PairNamespace, pair: MemoryPair | None, line: PairRecord) -> bool:
    """A line of what was superseded waits for nobody."""
    if pair is None:
        return False
    return drawer.kind != PENDING or Status.SUPERSEDED not in (pair.older.status, pair.newer.status)


async def _of_found(engine: Engine, line: PairRecord, known: Mapping[str, Memory], *, dry: bool) -> bool:
    pair = _pair(line, known)
    if pair is None:
        if not dry:
            await withdraw(engine, line)
            await delete_pair_record(engine, FOUND, line)
        return True
    if Status.SUPERSEDED in (pair.older.status, pair.newer.status):
        return await _followed(engine, line, pair, dry=dry)
    return await _kept(engine, line, pair, dry=dry)


async def _kept(engine: Engine, line: PairRecord, pair: MemoryPair, *, dry: bool) -> bool:
    stands = pair.newer.status is Status.ACTIVE
    if stands == line.applied or dry:
        return stands != line.applied
    if stands:
        return await apply(engine, line)
    await _rest(engine, line)
    return True


async def _rest(engine: Engine, line: PairRecord) -> None:
    await withdraw(engine, line)
    await save_pair_record(engine, FOUND, replace(line, applied=False))


async def _followed(engine: Engine, line: PairRecord, pair: MemoryPair, *, dry: bool) -> bool:
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
    moved = ordered_pair(older, newer, line.similarity)
    agrees = older.id == newer.id or moved.older.id != older.id or _is_compatible(moved)
    if await find_pair_record(engine, FOUND, moved) is not None:
        await withdraw(engine, line)
    elif agrees or newer.status is not Status.ACTIVE:
        await withdraw(engine, line)
        await _unlink(engine, older.id, newer.id)
    elif older.id == line.older:
        await _move(engine, line, moved)
    else:
        await withdraw(engine, line)
        await resolve(engine, moved, by=line.by, confidence=line.confidence)
    await delete_pair_record(engine, FOUND, line)
    return True


async def _move(engine: Engine, line: PairRecord, pair: MemoryPair) -> None:
    """With what it says of the older one, which stays as it is."""
    moved = replace(line, key=pair.key, newer=pair.newer.id, texts=pair.texts)
    await save_pair_record(engine, FOUND, moved)  # first, and as it will be: what is cut short is done again
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


def _is_compatible(pair: MemoryPair) -> bool:
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


CONTRADICTIONS_STAGE = "contradictions"
DETECTION_BATCH = 100  # memories that are compared at a time
DETECTION_CONCURRENCY = 10  # pairs that a classifier gets at a time, or those of one memory


async def run_contradictions(engine: Engine, within: StageLimits) -> StageResult:
    """As far as the time goes; what was compared isn't compared again until it is reworded."""
    begun = perf_counter()
    if engine.classifier is None:
        return StageResult(CONTRADICTIONS_STAGE, 0, "nothing here tells contradictions")
    mended = await review_contradictions(engine, within)
    if engine.vector_source.model is None or Capability.VECTORS not in engine.store.capabilities:
        return StageResult(
            CONTRADICTIONS_STAGE, mended, "without vectors no neighbours are found", perf_counter() - begun
        )
    judge, outcome = ContradictionJudge(engine, dry=within.dry, over=lambda: within.over), JudgedPairs()
    seen: set[str] = set()
    looked, more = 0, False
    async for page in _unexamined(engine, min(DETECTION_BATCH, within.batch)):
        read = engine.clock()
        found = await neighbours(engine, page)
        fresh = await unjudged(engine, [pair for own in found.values() for pair in own], seen=seen)
        done: list[str] = []
        for ids, pairs in _groups(found, fresh):
            if within.over and (looked or done):
                more = True
                break
            for pair, judgement in zip(pairs, await judge.judgements(pairs), strict=True):
                await judge.decide(pair, judgement, outcome)
            done += ids
        if done and not within.dry:
            now = engine.clock()
            await engine.store.apply([Tend(each, examined=now, unless_since=read) for each in done])
        looked += len(page) if not more else len(done)
        if more or within.over:
            more = True
            break
    if outcome.pending and not within.dry:
        await trim_pair_records(engine, {pair.older.agent for pair in outcome.pending})
    failed = "" if within.dry else await note_failure(engine, judge)
    return _detection_result(
        outcome, mended, looked=looked, seconds=perf_counter() - begun, more=more, failed=failed
    )


def _groups(
    found: Mapping[str, Sequence[MemoryPair]], fresh: Sequence[MemoryPair]
) -> Iterator[tuple[list[str], list[MemoryPair]]]:
    """Memories with the pairs of theirs that are to be judged, a few at a time; each pair once."""
    left = {pair.key: pair for pair in fresh}
    ids: list[str] = []
    pairs: list[MemoryPair] = []
    for memory_id, own in found.items():
        ids.append(memory_id)
        pairs += [pair for each in own if (pair := left.pop(each.key, None)) is not None]
        if len(pairs) >= DETECTION_CONCURRENCY:
            yield ids, pairs
            ids, pairs = [], []
    if ids:
        yield ids, pairs


async def _unexamined(engine: Engine, limit: int) -> AsyncIterator[list[Memory]]:
    """Page by page, the oldest first; what has no vector yet is passed over and waits."""
    where, after = Filter(viewer="system", unexamined=True), None
    while True:
        try:
            page = await engine.store.find(where, order=Order.OLDEST, limit=limit, after=after)
        except MemoryNotFound:  # the last one was erased meanwhile; the next run has the rest
            return
        if not page:
            return
        yield page
        after = page[-1].id


def _detection_result(
    outcome: JudgedPairs, mended: int, *, looked: int, seconds: float, more: bool, failed: str
) -> StageResult:
    parts = [
        f"{len(outcome.resolved)} contradicted" if outcome.resolved else "",
        f"{len(outcome.pending)} left for a model or a person" if outcome.pending else "",
        f"{mended} earlier findings put right" if mended else "",
        failed,
    ]
    examples = [_example(pair, "contradicted") for pair in outcome.resolved[:MOST_TOLD]]
    examples += [_example(pair, "doubtful") for pair in outcome.pending[:MOST_TOLD]]
    counts = {"contradicted": len(outcome.resolved), "doubtful": len(outcome.pending)}
    return StageResult(
        CONTRADICTIONS_STAGE,
        changed=len(outcome.resolved) + len(outcome.pending) + mended,
        detail=", ".join(filter(None, parts)) or NOTHING,
        seconds=seconds,
        more=more,
        looked=looked,
        examples=tuple(examples),
        counts={what: count for what, count in counts.items() if count},
    )


def _example(pair: MemoryPair, what: str) -> StageExample:
    return StageExample(pair.older.id, what, f"by {pair.newer.id}")


PENDING_STAGE = "pending"
PENDING_AT_ONCE = 10
PENDING_RECORDS = MOST_PENDING  # that one run reads: of one agent or a few, in turn
PENDING_CURSOR = "contradictions:drained"


async def run_pending(engine: Engine, within: StageLimits) -> StageResult:
    """Those that were asked about least lately; without a model they wait."""
    begun = perf_counter()
    waiting = await _waiting(engine, within)
    if not waiting:
        return StageResult(PENDING_STAGE, 0, NOTHING, perf_counter() - begun)
    judge = ContradictionJudge(engine, over=lambda: within.over)
    told: list[StageExample] = []
    looked, more, failed = 0, False, ""
    if not within.dry:
        others = [line for line in waiting if not judge.has_doubted(line.by)]
        looked, judged = await _by_classifier(engine, judge, others, within, told)
        left = [line for line in waiting if line.key not in judged]
        asked = 0
        for one in await _comparable(engine, left[:PENDING_AT_ONCE]) if judge.has_model else ():
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
    return StageResult(
        PENDING_STAGE,
        changed=len(told),
        detail=", ".join(filter(None, (detail, failed))),
        seconds=perf_counter() - begun,
        looked=looked,
        more=more,
        examples=tuple(told[:MOST_TOLD]),
    )


async def _waiting(engine: Engine, within: StageLimits) -> list[PairRecord]:
    """Of some agents; the others have their turn in the next run."""
    known = await pair_namespaces(engine, PENDING)
    start = bisect_right([drawer.name for drawer in known], await engine.store.cursor(PENDING_CURSOR) or "")
    found: list[PairRecord] = []
    last = ""
    for drawer in (*known[start:], *known[:start]):
        found += await pair_records(engine, drawer, limit=MOST_PENDING)
        last = drawer.name
        if len(found) >= PENDING_RECORDS or within.over:
            break
    if last and len(known) > 1 and not within.dry:
        await engine.store.set_cursor(PENDING_CURSOR, last)
    return sorted(found, key=lambda line: (line.tried, line.created))


async def _comparable(engine: Engine, lines: list[PairRecord]) -> list[Contradiction]:
    found = await with_memories(engine, lines, agent=EVERYONE, pending=True)
    return [one for one in found if is_comparable(one.pair.older)]


async def _by_classifier(
    engine: Engine,
    judge: ContradictionJudge,
    others: list[PairRecord],
    within: StageLimits,
    told: list[StageExample],
) -> tuple[int, set[str]]:
    """Where another one is here than the one that left them: it may be sure. How many it was asked, and the keys of those settled."""
    done: set[str] = set()
    for start in range(0, len(others), PENDING_AT_ONCE):
        if within.over and start:  # ten at least, that it may come to an end
            return start, done
        few = await _comparable(engine, others[start : start + PENDING_AT_ONCE])
        judgements = await judge.judgements([each.pair for each in few])
        if judge.failure is not None:
            return start, done
        for one, judgement in zip(few, judgements, strict=True):
            if not is_sure(judgement):
                await save_pair_record(engine, PENDING, replace(one.line, by=judgement.by))
                continue
            done.add(one.line.key)
            if judgement.contradiction >= SURE:
                await resolve(engine, one.pair, by=judgement.by, confidence=judgement.contradiction)
            else:
                await settle(engine, one.pair, by=judgement.by)
            told.append(_pending_result(one, found=judgement.contradiction >= SURE))
    return len(others), done


async def _by_model(
    engine: Engine, judge: ContradictionJudge, one: Contradiction, told: list[StageExample]
) -> None:
    verdict = await judge.verdict(one.pair)
    if verdict == CONTRADICTION:
        await resolve(engine, one.pair, by=judge.model, confidence=SURE)
    elif verdict == COMPATIBLE:
        await settle(engine, one.pair, by=judge.model)
    else:
        if judge.has_model:
            await save_pair_record(engine, PENDING, replace(one.line, tried=engine.clock().isoformat()))
        return
    told.append(_pending_result(one, found=verdict == CONTRADICTION))


def _pending_result(one: Contradiction, *, found: bool) -> StageExample:
    what = "contradicted" if found else "compatible"
    return StageExample(one.pair.older.id, what, f"{'by' if found else 'with'} {one.pair.newer.id}")
