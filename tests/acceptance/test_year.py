"""A year in the life of a store: memories come every day, some are used, and upkeep goes on.

The clock is the test's own. Who is used how often follows Zipf's law, as it does in life.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from statistics import mean

import pytest
from front_door import Open, run

from mindhold.app.application import App
from mindhold.engine import UseCounter
from mindhold.lifecycle.maintenance_operations import CONSOLIDATE, ConsolidateResult
from mindhold.memories.evaluation import evaluate
from mindhold.memories.forget import FORGET
from mindhold.memories.remember import REMEMBER, REMEMBER_MANY
from mindhold.memories.stats import STATS
from mindhold.model.lifecycle import NEVER_FORGOTTEN
from mindhold.model.memory import ANY_STATUS, DEFAULT_IMPORTANCE, IdMaker, Kind, Memory, Status, Tier
from mindhold.model.query import Filter

DAY = timedelta(days=1)
FIRST_DAY = datetime(2030, 1, 1, 4, 0, tzinfo=UTC)
YEAR = 365
QUICK = {"store.durability": "normal"}  # power failures matter elsewhere
STALE = {Kind.PROCEDURE: 30, Kind.FACT: 60, Kind.DECISION: 90, Kind.NOTE: 90}
KEPT = 180
KINDS = [Kind.FACT] * 5 + [Kind.DECISION] * 2 + [Kind.PROCEDURE] * 2 + [Kind.NOTE] * 2 + [Kind.ERROR]
SUBJECTS = "gateway ledger scheduler indexer courier archive beacon registry compiler mirror".split()
TRAITS = "port timeout owner region quota replica schema budget branch window".split()


@dataclass
class Calendar:
    """A clock that goes when it is told to."""

    now: datetime = FIRST_DAY

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Known:
    """What the test itself knows of one memory."""

    kind: Kind
    born: datetime
    worth: float  # its share of all uses, once and for all
    anchor: bool = False
    forgotten: bool = False
    uses: list[datetime] = field(default_factory=list)

    @property
    def last(self) -> datetime:
        return self.uses[-1] if self.uses else self.born


@dataclass
class Year:
    """One simulated store."""

    app: App
    calendar: Calendar
    chance: random.Random
    known: dict[str, Known] = field(default_factory=dict)
    archived: dict[str, datetime] = field(default_factory=dict)
    erased: dict[str, datetime] = field(default_factory=dict)
    looked: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))  # of each stage

    async def remember(self, number: int) -> None:
        kinds = [self.chance.choice(KINDS) for _ in range(number)]
        born = len(self.known)
        items = [
            {
                "content": f"The {SUBJECTS[n % 10]} number {n} has the {TRAITS[n // 10 % 10]} {n * 37 + 11}.",
                "kind": kind,
                "topic": SUBJECTS[n % 10],
            }
            for n, kind in enumerate(kinds, born)
        ]
        answer = await run(self.app, REMEMBER_MANY, items=items)
        for one, kind in zip(answer.results, kinds, strict=True):
            assert one.id is not None, one
            rank = self.chance.randint(1, 400)
            self.known[one.id] = Known(kind, self.calendar.now, 1 / rank**1.1)
        await evaluate(self.app.engine)  # as a server does a few seconds later

    async def keep_for_good(self, content: str, kind: Kind) -> None:
        answer = await run(self.app, REMEMBER, content=content, kind=kind, anchor=True)
        assert answer.id is not None
        self.known[answer.id] = Known(kind, self.calendar.now, 0.0, anchor=True)

    async def use(self, number: int) -> None:
        """What is in the archive, or forgotten, isn't there to be used."""
        there = [
            name
            for name, one in self.known.items()
            if name not in self.archived and not one.forgotten and one.worth
        ]
        weights = list(accumulate(self.known[name].worth for name in there))
        used = self.chance.choices(there, cum_weights=weights, k=number)
        self.app.engine.use_counter.note(used)
        await self.app.engine.use_counter.flush()
        for name in used:
            self.known[name].uses.append(self.calendar.now)

    async def forget(self) -> None:
        name = self.chance.choice(
            [n for n, one in self.known.items() if self._is_there(n) and not one.anchor]
        )
        await run(self.app, FORGET, ids=[name])
        self.known[name].forgotten = True

    async def consolidate(self) -> None:
        answer: ConsolidateResult = await run(self.app, CONSOLIDATE)
        assert [stage.stage for stage in answer.stages if stage.more] == []
        assert len(answer.archived) == answer.counts.get("archived", 0), "the report names all that went"
        for one in answer.archived:
            self.archived[one.id] = self.calendar.now
        for one in answer.erased:
            self.erased[one.id] = self.calendar.now
        for stage in answer.stages:
            self.looked[stage.stage].append(stage.looked)

    async def stored(self) -> dict[str, Memory]:
        where = Filter(viewer="system", statuses=ANY_STATUS)
        return {one.id: one async for batch in self.app.engine.store.scan(where) for one in batch}

    def _is_there(self, name: str) -> bool:
        return name not in self.archived and not self.known[name].forgotten


@dataclass(frozen=True)
class Pace:
    """How many days go by at a time, and how many memories come on each. All thresholds of life are whole steps."""

    step: int
    daily: int


@pytest.fixture
def pace(request: pytest.FixtureRequest) -> Pace:
    """Two thousand memories, day by day; on a server fewer and in longer steps, for each call goes over a wire."""
    return Pace(1, 6) if request.config.getoption("--store") == "local" else Pace(5, 3)


def begin(app: App) -> Year:
    calendar, chance = Calendar(), random.Random(7)
    engine = replace(
        app.engine,
        clock=calendar,
        new_id=IdMaker(calendar, chance.getrandbits),
        use_counter=UseCounter(app.engine.store, calendar),
    )
    return Year(replace(app, engine=engine), calendar, chance)


async def test_a_year(opened: Open, pace: Pace) -> None:
    async with opened(**QUICK) as app:
        year = begin(app)
        await year.keep_for_good("The disaster plan lies in the red binder.", Kind.PROCEDURE)
        await year.keep_for_good("The company was founded in a garage.", Kind.FACT)
        for day in range(0, YEAR, pace.step):
            year.calendar.now = FIRST_DAY + day * DAY
            await year.remember(pace.step * pace.daily)
            await year.use(pace.step * pace.daily)
            if day % 30 == 20:
                await year.forget()
            year.calendar.now += timedelta(hours=20)
            await year.consolidate()
        stored = await year.stored()
        _check_what_was_used_stays(year, stored)
        _check_what_was_stale_went(year, stored)
        _check_what_is_exempt_stands(year, stored)
        await _check_counts(year, stored)
        _check_work(year, pace)


def _check_what_was_used_stays(year: Year, stored: dict[str, Memory]) -> None:
    now, lately = year.calendar.now, 0
    for name, one in year.known.items():
        if one.forgotten or not one.uses:
            continue
        idle = (now - one.last).days
        if idle < STALE.get(one.kind, 60):
            lately += 1
            assert stored[name].status is Status.ACTIVE
            assert stored[name].tier is (Tier.HOT if idle < 7 else Tier.WARM) or stored[name].anchor
        if name in stored:
            assert stored[name].uses == len(one.uses)
    assert lately > 50
    often = sorted(year.known, key=lambda name: -len(year.known[name].uses))[:5]
    assert all(len(year.known[name].uses) >= 10 for name in often)
    assert all(stored[name].status is Status.ACTIVE for name in often if not year.known[name].forgotten)


def _check_what_was_stale_went(year: Year, stored: dict[str, Memory]) -> None:
    """Cold when it was unused for its time, archived after twice that, erased half a year later; and never before."""
    now, seen = year.calendar.now, Counter[str]()
    for name, one in year.known.items():
        if one.forgotten or one.uses or one.anchor or one.kind in NEVER_FORGOTTEN:
            continue
        age, stale = (now - one.born).days, STALE.get(one.kind, 60)
        if age >= 2 * stale + KEPT:
            assert name not in stored
            assert year.erased[name] - year.archived[name] >= KEPT * DAY
            seen["erased"] += 1
        elif age >= 2 * stale:
            assert stored[name].status is Status.ARCHIVED
            assert year.archived[name] - one.born >= 2 * stale * DAY
            seen["archived"] += 1
        elif age >= stale:
            assert (stored[name].status, stored[name].tier) == (Status.ACTIVE, Tier.COLD)
            assert stored[name].importance < DEFAULT_IMPORTANCE[one.kind] * 0.6
            seen["cold"] += 1
        else:
            assert (stored[name].status, stored[name].tier) == (Status.ACTIVE, Tier.WARM)
            seen["warm"] += 1
    assert min(seen[what] for what in ("erased", "archived", "cold", "warm")) >= 20, seen
    assert set(year.erased) <= set(year.archived)


def _check_what_is_exempt_stands(year: Year, stored: dict[str, Memory]) -> None:
    for name, one in year.known.items():
        if one.forgotten:
            assert stored[name].status is Status.FORGOTTEN
        elif one.anchor or one.kind in NEVER_FORGOTTEN:
            assert stored[name].status is Status.ACTIVE
            assert stored[name].tier is not Tier.COLD
            assert stored[name].importance == pytest.approx(DEFAULT_IMPORTANCE[one.kind])
            assert stored[name].anchor == (one.anchor or len(one.uses) >= 10)


async def _check_counts(year: Year, stored: dict[str, Memory]) -> None:
    counts = Counter(one.status for one in stored.values())
    assert sum(counts.values()) + len(year.erased) == len(year.known)
    assert counts[Status.ARCHIVED] == len(year.archived) - len(year.erased)
    assert counts[Status.FORGOTTEN] == sum(one.forgotten for one in year.known.values())
    assert (await run(year.app, STATS)).by_status == {str(status): count for status, count in counts.items()}


def _check_work(year: Year, pace: Pace) -> None:
    """Once the first have gone the whole way, each day is like the one before, though there is ever more to keep."""
    two_months = 60 // pace.step
    for stage, looked in year.looked.items():
        before = mean(looked[-2 * two_months : -two_months])
        assert mean(looked[-two_months:]) <= 1.15 * before + 1, stage
        assert max(looked) <= 12 * pace.step * pace.daily, stage
    assert (
        mean(year.looked["contradictions"]) >= pace.step * pace.daily
    )  # each is held against its neighbours once


async def test_the_work_is_what_changed_however_large_the_store_is(
    opened: Open, pace: Pace, tmp_path: Path
) -> None:
    looked = []
    for times in (1, 8):
        async with opened(**QUICK, home=tmp_path / str(times)) as app:
            year = begin(app)
            for _ in range(times):
                await year.remember(10 * pace.daily)
            await year.consolidate()
            year.calendar.now += timedelta(hours=1)
            await year.consolidate()
            for stage in ("tiers", "contradictions"):
                assert year.looked[stage] == [10 * pace.daily * times, 0]
            await year.remember(7)
            year.app.engine.use_counter.note(list(year.known)[:5])
            await year.app.engine.use_counter.flush()
            await year.consolidate()
            looked.append({stage: counts[-1] for stage, counts in year.looked.items()})
    assert looked[0] == looked[1]
    assert (looked[0]["tiers"], looked[0]["contradictions"]) == (12, 7)
