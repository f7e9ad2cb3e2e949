"""Stages 8 and 9: search new memories for contradictions, review known pairs, and judge pending ones."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace

from mindhold.engine import Engine
from mindhold.lifecycle.contradiction_detection import (
    COMPATIBLE,
    CONTRADICTION,
    SURE,
    ContradictionJudge,
    JudgedPairs,
    is_comparable,
    is_sure,
    judge_by_rules,
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
    current_pair,
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
    has_link,
    links_of,
    resolve,
    settle,
    with_memories,
    withdraw,
)
from mindhold.lifecycle.stage_report import MAX_EXAMPLES, NOTHING, StageExample, StageLimits, StageResult
from mindhold.model.errors import MemoryNotFound
from mindhold.model.memory import Memory, Relation, Status
from mindhold.model.query import Filter, Order
from mindhold.model.scope import EVERYONE
from mindhold.ports.store import Capability, Change, Disconnect, Tend

REVIEW_CURSOR = "contradictions:reviewed"  # the namespace that was reviewed last
REVIEW_RECORDS = 400  # records that one run reviews; the next run continues
REVIEW_BATCH = 100
MOST_STEPS = 10  # along a chain of superseded memories


async def review_contradictions(engine: Engine, within: StageLimits) -> int:
    """Review records in turn and return how many changed."""
    changed = reviewed = 0
    last = ""
    for namespace in await _in_turn(engine, "", cursor=REVIEW_CURSOR):
        if reviewed >= REVIEW_RECORDS or within.over:
            break
        records = await pair_records(engine, namespace)
        reviewed += max(1, len(records))
        for begin in range(0, len(records), REVIEW_BATCH):
            changed += await _review_batch(
                engine, namespace, records[begin : begin + REVIEW_BATCH], dry=within.dry
            )
            if within.over:
                break
        last = namespace.name
    if last and not within.dry:
        await engine.store.set_cursor(REVIEW_CURSOR, last)
    return changed


async def _in_turn(engine: Engine, kind: str, *, cursor: str) -> list[PairNamespace]:
    """The namespaces, those first that follow the one at which the last run stopped."""
    namespaces = await pair_namespaces(engine, kind)
    names = [namespace.name for namespace in namespaces]
    start = bisect_right(names, await engine.store.cursor(cursor) or "")
    return [*namespaces[start:], *namespaces[:start]]


async def _review_batch(
    engine: Engine, namespace: PairNamespace, records: list[PairRecord], *, dry: bool
) -> int:
    memories = await engine.store.get_many(paired_ids(records), viewer=EVERYONE)
    if namespace.kind == FOUND:
        return sum([await _review_found(engine, record, memories, dry=dry) for record in records])
    obsolete = 0
    for record in records:
        pair = current_pair(record, memories)
        # A pending pair is not needed once one side is superseded.
        if pair is None or (namespace.kind == PENDING and _is_superseded(pair)):
            obsolete += 1
            if not dry:
                await delete_pair_record(engine, namespace.kind, record)
    return obsolete


def _is_superseded(pair: MemoryPair) -> bool:
    return Status.SUPERSEDED in (pair.older.status, pair.newer.status)


async def _review_found(
    engine: Engine, record: PairRecord, memories: Mapping[str, Memory], *, dry: bool
) -> bool:
    pair = current_pair(record, memories)
    if pair is None:
        if not dry:
            await withdraw(engine, record)
            await delete_pair_record(engine, FOUND, record)
        return True
    if _is_superseded(pair):
        return await _follow_successors(engine, record, pair, dry=dry)
    return await _update_links(engine, record, pair, dry=dry)


async def _update_links(engine: Engine, record: PairRecord, pair: MemoryPair, *, dry: bool) -> bool:
    valid = pair.newer.status is Status.ACTIVE
    if valid == record.applied or dry:
        return valid != record.applied
    if valid:
        return await apply(engine, record)
    await _suspend(engine, record)
    return True


async def _suspend(engine: Engine, record: PairRecord) -> None:
    await withdraw(engine, record)
    await save_pair_record(engine, FOUND, replace(record, applied=False))


async def _follow_successors(engine: Engine, record: PairRecord, pair: MemoryPair, *, dry: bool) -> bool:
    """Move the record to the successors of its memories, unless they clearly don't contradict each other."""
    older = await _successor(engine, pair.older, besides=pair.newer.id)
    newer = await _successor(engine, pair.newer, besides=pair.older.id)
    if newer is None:  # unknown successor: treat it like a forgotten memory
        if record.applied and not dry:
            await _suspend(engine, record)
        return record.applied
    # Without the link, which a merge carries over, the successor was written anew and is judged by itself.
    if older is None or (older.id != pair.older.id and not await has_link(engine, older.id, newer.id)):
        older = pair.older
    if (older.id, newer.id) == (record.older, record.newer):
        return await _update_links(engine, record, pair, dry=dry)
    if dry:
        return True
    moved = ordered_pair(older, newer, record.similarity)
    judgement = judge_by_rules(moved.older.content, moved.newer.content)
    is_compatible = max(judgement.entailment, judgement.neutral) >= SURE
    agrees = older.id == newer.id or moved.older.id != older.id or is_compatible
    if await find_pair_record(engine, FOUND, moved) is not None:
        await withdraw(engine, record)
    elif agrees or newer.status is not Status.ACTIVE:
        await withdraw(engine, record)
        await _unlink(engine, older.id, newer.id)
    elif older.id == record.older:
        await _move(engine, record, moved)
    else:
        await withdraw(engine, record)
        await resolve(engine, moved, by=record.by, confidence=record.confidence)
    await delete_pair_record(engine, FOUND, record)
    return True


async def _move(engine: Engine, record: PairRecord, pair: MemoryPair) -> None:
    """Give the record another newer memory; the older one stays as it is."""
    moved = replace(record, key=pair.key, newer=pair.newer.id, texts=pair.texts)
    # Save the final record first, so that an interrupted move is repeated.
    await save_pair_record(engine, FOUND, moved)
    if record.applied:
        removals: list[Change] = [
            Disconnect(change.link.origin, change.link.target, change.link.relation)
            for change in links_of(record)
        ]
        await engine.store.apply([*removals, *links_of(moved)])


async def _unlink(engine: Engine, older: str, newer: str) -> None:
    """Remove automatic links that a merge carried over and that no record backs."""
    ours = {(newer, older, Relation.CONTRADICTS), (older, newer, Relation.SUPERSEDED_BY)}
    links = await engine.store.links_of([older], viewer=EVERYONE)
    await engine.store.apply(
        [
            Disconnect(link.origin, link.target, link.relation)
            for link in links
            if link.automatic and (link.origin, link.target, link.relation) in ours
        ]
    )


async def _successor(engine: Engine, memory: Memory, *, besides: str) -> Memory | None:
    """The active successor of a memory, the memory itself if it has none; None if it can't be determined."""
    current = memory
    for _ in range(MOST_STEPS):
        if current.status is not Status.SUPERSEDED:
            return current
        links = await engine.store.links_of(
            [current.id], relations=(Relation.SUPERSEDED_BY,), viewer=EVERYONE
        )
        ids = {link.target: link.automatic for link in links if link.origin == current.id}
        candidates = await engine.store.get_many(
            [candidate for candidate in ids if candidate != besides], viewer=EVERYONE
        )
        if not candidates:
            return None
        current_id = current.id
        current = min(
            candidates.values(),
            key=lambda candidate: (candidate.supersedes != current_id, ids[candidate.id], candidate.id),
        )
    return None


CONTRADICTIONS_STAGE = "contradictions"
DETECTION_BATCH = 100  # memories compared at a time
DETECTION_CONCURRENCY = 10  # pairs per call of the classifier, or those of one memory


async def run_contradictions(engine: Engine, within: StageLimits) -> StageResult:
    """Compare memories that were not examined yet, until the time is up. A memory is compared again only after a change."""
    if engine.classifier is None:
        return StageResult(CONTRADICTIONS_STAGE, 0, "nothing here tells contradictions")
    corrected = await review_contradictions(engine, within)
    if engine.vector_source.model is None or Capability.VECTORS not in engine.store.capabilities:
        return StageResult(CONTRADICTIONS_STAGE, corrected, "without vectors no neighbours are found")
    judge, outcome = ContradictionJudge(engine, dry=within.dry, over=lambda: within.over), JudgedPairs()
    seen: set[str] = set()
    looked, more = 0, False
    async for page in _unexamined(engine, min(DETECTION_BATCH, within.batch)):
        read = engine.clock()
        pairs_of = await neighbours(engine, page)
        fresh = await unjudged(
            engine, [pair for memory_pairs in pairs_of.values() for pair in memory_pairs], seen=seen
        )
        examined_ids: list[str] = []
        for ids, pairs in _groups(pairs_of, fresh):
            if within.over and (looked or examined_ids):
                more = True
                break
            for pair, judgement in zip(pairs, await judge.judgements(pairs), strict=True):
                await judge.decide(pair, judgement, outcome)
            examined_ids += ids
        if examined_ids and not within.dry:
            now = engine.clock()
            await engine.store.apply(
                [Tend(memory_id, examined=now, unless_since=read) for memory_id in examined_ids]
            )
        looked += len(page) if not more else len(examined_ids)
        if more or within.over:
            more = True
            break
    if outcome.pending and not within.dry:
        await trim_pair_records(engine, {pair.older.agent for pair in outcome.pending})
    failed = "" if within.dry else await note_failure(engine, judge)
    return _detection_result(outcome, corrected, looked=looked, more=more, failed=failed)


def _groups(
    pairs_of: Mapping[str, Sequence[MemoryPair]], fresh: Sequence[MemoryPair]
) -> Iterator[tuple[list[str], list[MemoryPair]]]:
    """Groups of memory ids with their pairs to judge, a few at a time; each pair once."""
    unjudged_pairs = {pair.key: pair for pair in fresh}
    ids: list[str] = []
    pairs: list[MemoryPair] = []
    for memory_id, memory_pairs in pairs_of.items():
        ids.append(memory_id)
        pairs += [
            pair
            for candidate in memory_pairs
            if (pair := unjudged_pairs.pop(candidate.key, None)) is not None
        ]
        if len(pairs) >= DETECTION_CONCURRENCY:
            yield ids, pairs
            ids, pairs = [], []
    if ids:
        yield ids, pairs


async def _unexamined(engine: Engine, limit: int) -> AsyncIterator[list[Memory]]:
    """Pages of unexamined memories, oldest first."""
    where, after = Filter(viewer="system", unexamined=True), None
    while True:
        try:
            page = await engine.store.find(where, order=Order.OLDEST, limit=limit, after=after)
        except MemoryNotFound:  # the last memory was erased meanwhile; the next run continues
            return
        if not page:
            return
        yield page
        after = page[-1].id


def _detection_result(
    outcome: JudgedPairs, corrected: int, *, looked: int, more: bool, failed: str
) -> StageResult:
    parts = [
        f"{len(outcome.resolved)} contradicted" if outcome.resolved else "",
        f"{len(outcome.pending)} left for a model or a person" if outcome.pending else "",
        f"{corrected} earlier findings put right" if corrected else "",
        failed,
    ]
    examples = [_example(pair, "contradicted") for pair in outcome.resolved[:MAX_EXAMPLES]]
    examples += [_example(pair, "doubtful") for pair in outcome.pending[:MAX_EXAMPLES]]
    counts = {"contradicted": len(outcome.resolved), "doubtful": len(outcome.pending)}
    return StageResult(
        CONTRADICTIONS_STAGE,
        changed=len(outcome.resolved) + len(outcome.pending) + corrected,
        detail=", ".join(filter(None, parts)) or NOTHING,
        more=more,
        looked=looked,
        examples=tuple(examples),
        counts={what: count for what, count in counts.items() if count},
    )


def _example(pair: MemoryPair, what: str) -> StageExample:
    return StageExample(pair.older.id, what, f"by {pair.newer.id}")


PENDING_STAGE = "pending"
PENDING_AT_ONCE = 10
PENDING_RECORDS = MOST_PENDING  # that one run reads, agent by agent
PENDING_CURSOR = "contradictions:drained"


async def run_pending(engine: Engine, within: StageLimits) -> StageResult:
    """Judge pending pairs, the least recently tried first. Without a model they keep waiting."""
    pending = await _pending_records(engine, within)
    if not pending:
        return StageResult(PENDING_STAGE, 0, NOTHING)
    judge = ContradictionJudge(engine, over=lambda: within.over)
    examples: list[StageExample] = []
    looked, more, failed = 0, False, ""
    if not within.dry:
        rejudged = [record for record in pending if not judge.has_doubted(record.by)]
        looked, judged = await _judge_by_classifier(engine, judge, rejudged, within, examples)
        unjudged_records = [record for record in pending if record.key not in judged]
        asked_count = 0
        for contradiction in (
            await _comparable(engine, unjudged_records[:PENDING_AT_ONCE]) if judge.has_model else ()
        ):
            if within.over or not judge.has_model:
                break
            await _judge_by_model(engine, judge, contradiction, examples)
            asked_count += 1
        failed = await note_failure(engine, judge)
        # `more` counts only pairs that were not tried yet: what a model just answered isn't asked again at once.
        unasked = judge.has_model and len(unjudged_records) > asked_count
        more = bool(examples) and (unasked or (looked < len(rejudged) and judge.failure is None))
        looked += asked_count
    detail = (
        f"{len(examples)} of {len(pending)} judged"
        if examples
        else f"{len(pending)} wait for a model or a person"
    )
    return StageResult(
        PENDING_STAGE,
        changed=len(examples),
        detail=", ".join(filter(None, (detail, failed))),
        looked=looked,
        more=more,
        examples=tuple(examples[:MAX_EXAMPLES]),
    )


async def _pending_records(engine: Engine, within: StageLimits) -> list[PairRecord]:
    """The pending records of some agents; the next run continues with the others."""
    namespaces = await _in_turn(engine, PENDING, cursor=PENDING_CURSOR)
    pending: list[PairRecord] = []
    last = ""
    for namespace in namespaces:
        pending += await pair_records(engine, namespace, limit=MOST_PENDING)
        last = namespace.name
        if len(pending) >= PENDING_RECORDS or within.over:
            break
    if last and len(namespaces) > 1 and not within.dry:
        await engine.store.set_cursor(PENDING_CURSOR, last)
    return sorted(pending, key=lambda record: (record.tried, record.created))


async def _comparable(engine: Engine, records: list[PairRecord]) -> list[Contradiction]:
    contradictions = await with_memories(engine, records, agent=EVERYONE, pending=True)
    return [contradiction for contradiction in contradictions if is_comparable(contradiction.pair.older)]


async def _judge_by_classifier(
    engine: Engine,
    judge: ContradictionJudge,
    others: list[PairRecord],
    within: StageLimits,
    examples: list[StageExample],
) -> tuple[int, set[str]]:
    """Judge records that another classifier left unsure. Returns how many were judged, and the keys of settled ones."""
    settled_keys: set[str] = set()
    for start in range(0, len(others), PENDING_AT_ONCE):
        if within.over and start:  # judge at least ten, so that the queue shrinks
            return start, settled_keys
        contradictions = await _comparable(engine, others[start : start + PENDING_AT_ONCE])
        judgements = await judge.judgements([each.pair for each in contradictions])
        if judge.failure is not None:
            return start, settled_keys
        for contradiction, judgement in zip(contradictions, judgements, strict=True):
            if not is_sure(judgement):
                await save_pair_record(engine, PENDING, replace(contradiction.record, by=judgement.by))
                continue
            settled_keys.add(contradiction.record.key)
            if judgement.contradiction >= SURE:
                await resolve(engine, contradiction.pair, by=judgement.by, confidence=judgement.contradiction)
            else:
                await settle(engine, contradiction.pair, by=judgement.by)
            examples.append(_pending_result(contradiction, contradicts=judgement.contradiction >= SURE))
    return len(others), settled_keys


async def _judge_by_model(
    engine: Engine, judge: ContradictionJudge, contradiction: Contradiction, examples: list[StageExample]
) -> None:
    verdict = await judge.verdict(contradiction.pair)
    if verdict == CONTRADICTION:
        await resolve(engine, contradiction.pair, by=judge.model, confidence=SURE)
    elif verdict == COMPATIBLE:
        await settle(engine, contradiction.pair, by=judge.model)
    else:
        if judge.has_model:
            await save_pair_record(
                engine, PENDING, replace(contradiction.record, tried=engine.clock().isoformat())
            )
        return
    examples.append(_pending_result(contradiction, contradicts=verdict == CONTRADICTION))


def _pending_result(contradiction: Contradiction, *, contradicts: bool) -> StageExample:
    what = "contradicted" if contradicts else "compatible"
    return StageExample(
        contradiction.pair.older.id, what, f"{'by' if contradicts else 'with'} {contradiction.pair.newer.id}"
    )
