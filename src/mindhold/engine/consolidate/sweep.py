"""Going through what is due, a batch at a time: all that the rules say of a record is done to it at once.

What was seen to gets its next date and is due no more, so a sweep that was broken off goes on where it stopped, and two at
once do nothing twice. What somebody used or changed meanwhile is passed over by the store, and stays due.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from time import perf_counter

from mindhold.engine.consolidate.due import Page, Pages
from mindhold.engine.consolidate.duplicates import NAME as DUPLICATES
from mindhold.engine.consolidate.duplicates import merge
from mindhold.engine.consolidate.leaving import archive, erase
from mindhold.engine.consolidate.stage import MOST_GONE, MOST_TOLD, NOTHING, STALE, Bounds, Stage, Told
from mindhold.engine.core import Engine
from mindhold.model.life import Fate, Life, next_review
from mindhold.model.memory import Memory
from mindhold.ports.store import Change, Tend

AGAIN = timedelta(days=1)  # when one is tried again that was to be erased, and could not be
_GONE = (Fate.ARCHIVED, Fate.ERASED)
_TENDED = tuple(one.name for one in fields(Tend) if one.name not in ("memory_id", "unless_since", "review"))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule says of a record: as it should be (None: not at all), what was done to it, and why."""

    memory: Memory | None
    what: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """What one stage does to one record. Pure, and the second time it changes nothing."""

    name: str
    turn: Callable[[Memory, datetime, Life], Verdict]


@dataclass(slots=True)
class _Count:
    """What one stage did so far."""

    name: str
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    examples: list[Told] = field(default_factory=list)

    def add(self, told: Told) -> None:
        self.counts[told.what] += 1
        most = MOST_GONE if told.what in _GONE else MOST_TOLD
        if told.why and self.counts[told.what] <= most:
            self.examples.append(told)


@dataclass(slots=True)
class _Seen:
    """What the rules make of a page."""

    before: dict[str, Memory]
    after: dict[str, Memory]
    doomed: list[str] = field(default_factory=list)
    told: list[tuple[_Count, Told]] = field(default_factory=list)


async def sweep(engine: Engine, within: Bounds, rules: Sequence[Rule], *, whole: bool) -> list[Stage]:
    """Do all that these rules say. `whole`: they are all there are, duplicates too, so that what was seen is done with."""
    return await _Sweep(engine, within, rules, whole=whole).run()


async def sweep_by(engine: Engine, within: Bounds, rule: Rule) -> Stage:
    """By one rule alone; what was due stays due for the others."""
    [stage] = await sweep(engine, within, [rule], whole=False)
    return stage


class _Sweep:
    def __init__(self, engine: Engine, within: Bounds, rules: Sequence[Rule], *, whole: bool) -> None:
        self._engine = engine
        self._within = within
        self._rules = [(rule, _Count(rule.name)) for rule in rules]
        self._whole = whole
        self._merging = _Count(DUPLICATES)
        self._archived = 0
        self._retired: set[str] = set()  # by merging, also in a dry run, where they stay as they are

    async def run(self) -> list[Stage]:
        begun = perf_counter()
        pages = Pages(self._engine, self._within, moving=self._whole and not self._within.dry)
        while (page := await pages.next(enough=self._archived >= MOST_GONE)) is not None:
            memories = await self._merged(page) if self._whole else page.memories
            # In a thread, for those who are served meanwhile.
            seen = await asyncio.to_thread(self._judged, memories, page.read)
            gone = set() if self._within.dry else await self._written(seen, page)
            pages.moved(gone)
            for count, told in seen.told:
                if told.what not in _GONE or told.memory_id in gone or self._within.dry:
                    count.add(told)
        return self._stages(pages, perf_counter() - begun)

    async def _merged(self, page: Page) -> list[Memory]:
        """The page without what repeats something else; what it was merged into is read anew."""
        begun = perf_counter()
        merged = await merge(
            self._engine, page.memories, read=page.read, dry=self._within.dry, besides=self._retired
        )
        self._retired |= merged.retired
        for told in merged.told:
            self._merging.add(told)
        memories = [memory for memory in page.memories if memory.id not in self._retired]
        if merged.kept and not self._within.dry:
            anew = await self._engine.store.get_many(list(merged.kept), viewer="system")
            memories = [anew.get(memory.id, memory) for memory in memories]
        self._merging.seconds += perf_counter() - begun
        return memories

    def _judged(self, memories: Sequence[Memory], now: datetime) -> _Seen:
        life = self._engine.policy.life
        before = {memory.id: memory for memory in memories}
        seen = _Seen(before, dict(before))
        for rule, count in self._rules:
            begun = perf_counter()
            for memory in list(seen.after.values()):
                verdict = rule.turn(memory, now, life)
                if verdict.what:
                    seen.told.append((count, Told(memory.id, verdict.what, verdict.why)))
                if verdict.memory is None:
                    seen.doomed.append(memory.id)
                    del seen.after[memory.id]
                else:
                    seen.after[memory.id] = verdict.memory
            count.seconds += perf_counter() - begun
        return seen

    async def _written(self, seen: _Seen, page: Page) -> set[str]:
        """Those that went: archived, or erased. Broken off at any point, what isn't done with is due still."""
        leaving = {
            name: (seen.before[name], after)
            for name, after in seen.after.items()
            if after.status is not seen.before[name].status
        }
        changes: list[Change] = []
        for name, after in seen.after.items():
            review = None
            if self._whole and name not in leaving:
                review = next_review(after, page.read, self._engine.policy.life)
            tend = _tend(seen.before[name], after, review=review, read=page.read)
            if tend is not None:
                changes.append(tend)
        await self._engine.store.apply(changes)
        gone: set[str] = set()
        if leaving:
            await self._within.before([told for _, told in seen.told if told.memory_id in leaving])
            gone = await archive(self._engine, leaving, read=page.read)
            self._archived += len(gone)
        return gone | await self._erased(seen.doomed, read=page.read)

    async def _erased(self, doomed: Sequence[str], *, read: datetime) -> set[str]:
        begun = perf_counter()
        gone = await erase(self._engine, doomed)
        if self._whole and len(gone) < len(doomed):
            again = [Tend(name, review=read + AGAIN) for name in doomed if name not in gone]
            await self._engine.store.apply(list[Change](again))
        for rule, count in self._rules:
            if rule.name == "expiry":
                count.seconds += perf_counter() - begun
        return gone

    def _stages(self, pages: Pages, seconds: float) -> list[Stage]:
        counts = [count for _, count in self._rules]
        if self._whole:
            counts.append(self._merging)
        # Reading and writing is done for all of them together.
        share = max(0.0, seconds - sum(count.seconds for count in counts)) / len(counts)
        return [_stage(count, looked=pages.looked, more=pages.more, share=share) for count in counts]


def _stage(count: _Count, *, looked: int, more: bool, share: float) -> Stage:
    told = ", ".join(f"{number} {what}" for what, number in sorted(count.counts.items()))
    return Stage(
        count.name,
        changed=count.counts.total() - count.counts[STALE],
        detail=told or NOTHING,
        seconds=count.seconds + share,
        more=more,
        looked=looked,
        examples=tuple(count.examples),
        counts=dict(count.counts),
    )


def _tend(before: Memory, after: Memory, *, review: datetime | None, read: datetime) -> Tend | None:
    """What upkeep changed; None where that is nothing."""
    changed = {
        name: getattr(after, name) for name in _TENDED if getattr(after, name) != getattr(before, name)
    }
    if review is None and not changed:
        return None
    return Tend(before.id, **changed, review=review, unless_since=read)
