"""Stage 8: what is new is held against its neighbours; the later of two that deny each other takes the earlier one's place."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from time import perf_counter

from mindhold.engine.consolidate.stage import MOST_TOLD, NOTHING, Bounds, Stage, Told
from mindhold.engine.contradiction_book import Pair, trim
from mindhold.engine.contradiction_review import review
from mindhold.engine.core import Engine
from mindhold.engine.disputes import Judge, Outcome, neighbours, note_failure, unjudged
from mindhold.model.errors import MemoryNotFound
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order
from mindhold.ports.store import Capability, Tend

NAME = "contradictions"
BATCH = 100  # memories that are compared at a time
AT_ONCE = 10  # pairs that a classifier gets at a time, or those of one memory


async def run(engine: Engine, within: Bounds) -> Stage:
    """As far as the time goes; what was compared isn't compared again until it is reworded."""
    begun = perf_counter()
    if engine.classifier is None:
        return Stage(NAME, 0, "nothing here tells contradictions")
    mended = await review(engine, within)
    if engine.meaning.model is None or Capability.VECTORS not in engine.store.capabilities:
        return Stage(NAME, mended, "without vectors no neighbours are found", perf_counter() - begun)
    judge, outcome = Judge(engine, dry=within.dry, over=lambda: within.over), Outcome()
    seen: set[str] = set()
    looked, more = 0, False
    async for page in _unexamined(engine, min(BATCH, within.batch)):
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
        await trim(engine, {pair.older.agent for pair in outcome.pending})
    failed = "" if within.dry else await note_failure(engine, judge)
    return _told(outcome, mended, looked=looked, seconds=perf_counter() - begun, more=more, failed=failed)


def _groups(
    found: Mapping[str, Sequence[Pair]], fresh: Sequence[Pair]
) -> Iterator[tuple[list[str], list[Pair]]]:
    """Memories with the pairs of theirs that are to be judged, a few at a time; each pair once."""
    left = {pair.key: pair for pair in fresh}
    ids: list[str] = []
    pairs: list[Pair] = []
    for memory_id, own in found.items():
        ids.append(memory_id)
        pairs += [pair for each in own if (pair := left.pop(each.key, None)) is not None]
        if len(pairs) >= AT_ONCE:
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


def _told(outcome: Outcome, mended: int, *, looked: int, seconds: float, more: bool, failed: str) -> Stage:
    parts = [
        f"{len(outcome.resolved)} contradicted" if outcome.resolved else "",
        f"{len(outcome.pending)} left for a model or a person" if outcome.pending else "",
        f"{mended} earlier findings put right" if mended else "",
        failed,
    ]
    examples = [_example(pair, "contradicted") for pair in outcome.resolved[:MOST_TOLD]]
    examples += [_example(pair, "doubtful") for pair in outcome.pending[:MOST_TOLD]]
    counts = {"contradicted": len(outcome.resolved), "doubtful": len(outcome.pending)}
    return Stage(
        NAME,
        changed=len(outcome.resolved) + len(outcome.pending) + mended,
        detail=", ".join(filter(None, parts)) or NOTHING,
        seconds=seconds,
        more=more,
        looked=looked,
        examples=tuple(examples),
        counts={what: count for what, count in counts.items() if count},
    )


def _example(pair: Pair, what: str) -> Told:
    return Told(pair.older.id, what, f"by {pair.newer.id}")
