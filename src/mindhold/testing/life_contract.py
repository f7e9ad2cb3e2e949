"""What every store promises about the life of a memory: use, showing, verdicts, and what upkeep writes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from mindhold.model.errors import MemoryNotFound
from mindhold.model.memory import Memory, Status, Tier
from mindhold.ports.store import Change, Inherit, Mark, Put, Rate, Revise, Store, Tend
from mindhold.testing.builders import START, Builder, unit
from mindhold.testing.searching import by_text

DAY = timedelta(days=1)
LATER = START + DAY
LATEST = START + 2 * DAY
FAR = START + 100 * DAY


async def one(store: Store, memory: Memory) -> Memory:
    return await store.get(memory.id, viewer="system")


class UseContract:
    """Touching, showing, rating."""

    @pytest.mark.parametrize("tier", list(Tier))
    async def test_a_used_memory_is_hot_unless_it_is_permanent(
        self, store: Store, build: Builder, tier: Tier
    ) -> None:
        put = build.put(tier=tier, status=Status.ARCHIVED)
        await store.apply([put])
        await store.touch([put.memory.id], LATER)
        kept = tier if tier is Tier.PERMANENT else Tier.HOT
        expected = replace(put.memory, tier=kept, uses=1, last_used=LATER, review=LATER)
        assert await one(store, put.memory) == expected

    @pytest.mark.parametrize(("before", "after"), [(None, LATER), (FAR, LATER), (START, START)])
    async def test_what_happens_to_a_memory_makes_it_due(
        self, store: Store, build: Builder, before: datetime | None, after: datetime
    ) -> None:
        used, shown, rated = (build.put(review=before) for _ in range(3))
        await store.apply([used, shown, rated])
        await store.touch([used.memory.id], LATER)
        await store.note_shown([shown.memory.id], LATER)
        await store.apply([Rate(rated.memory.id, by=0.25, when=LATER)])
        for put in (used, shown, rated):
            assert (await one(store, put.memory)).review == after

    async def test_showing_is_counted_and_changes_nothing_else(
        self, store: Store, other: Store, build: Builder
    ) -> None:
        first, second = build.put(tier=Tier.COLD, review=START, shown=4), build.put()
        await store.apply([first, second])
        await store.note_shown([first.memory.id, "gone", first.memory.id], LATER)
        await other.note_shown([first.memory.id], START)
        await store.note_shown([], LATER)
        assert await one(store, first.memory) == replace(first.memory, shown=7)
        assert await one(store, second.memory) == second.memory

    async def test_replacing_leaves_the_count_of_showings(
        self, store: Store, other: Store, build: Builder
    ) -> None:
        put = build.put("first words", shown=2)
        await store.apply([put])
        await other.note_shown([put.memory.id], LATER)
        again = replace(put.memory, content="second words", content_hash="h2", review=START, verified=START)
        await store.apply([Put(again, ["second", "words"])])
        assert await one(store, put.memory) == replace(again, shown=3)
        await store.apply([Revise(replace(again, shown=1))])
        assert await one(store, put.memory) == replace(again, shown=1)

    async def test_verdicts_add_up_within_bounds(self, store: Store, other: Store, build: Builder) -> None:
        put = build.put(review=START)
        await store.apply([put])
        for handle, by, expected in (
            (store, 0.25, 0.25),
            (other, 0.5, 0.75),
            (store, 0.5, 1.0),
            (other, -0.5, 0.5),
            (store, -9.0, -1.0),
            (other, 0.25, -0.75),
        ):
            await handle.apply([Rate(put.memory.id, by=by, when=LATER)])
            assert await one(store, put.memory) == replace(put.memory, usefulness=expected)
        twice = [Rate(put.memory.id, by=0.25, when=LATER), Rate(put.memory.id, by=0.25, when=LATER)]
        await store.apply(twice)
        assert (await one(store, put.memory)).usefulness == -0.25

    async def test_a_verdict_on_what_is_gone_is_passed_over(self, store: Store, build: Builder) -> None:
        put = build.put()
        await store.apply([put, Rate("gone", by=1.0, when=LATER), Rate(put.memory.id, by=0.5, when=LATER)])
        assert (await one(store, put.memory)).usefulness == 0.5

    async def test_usefulness_is_told_to_the_ranking(
        self, store: Store, other: Store, build: Builder
    ) -> None:
        liked, plain = build.put("lamp liked"), build.put("lamp plain", usefulness=-0.5)
        await store.apply([liked, plain])
        assert len((await by_text(other, "lamp")).ids) == 2
        await store.apply([Rate(liked.memory.id, by=0.75, when=LATER)])
        found = await by_text(other, "lamp")
        told = dict(zip(found.ids, found.usefulness.tolist(), strict=True))
        assert told == {liked.memory.id: 0.75, plain.memory.id: -0.5}
        assert (await by_text(other, "nothing")).usefulness.tolist() == []

    async def test_nothing_is_lost_when_all_come_at_once(
        self, store: Store, other: Store, build: Builder
    ) -> None:
        put = build.put()
        await store.apply([put])
        memory_id = put.memory.id
        await asyncio.gather(
            *(handle.touch([memory_id, memory_id], LATER) for handle in (store, other) for _ in range(8)),
            *(handle.note_shown([memory_id], LATER) for handle in (store, other) for _ in range(8)),
            *(
                handle.apply([Rate(memory_id, by=0.03125, when=LATER)])
                for handle in (store, other)
                for _ in range(8)
            ),
        )
        expected = replace(
            put.memory,
            uses=32,
            shown=16,
            usefulness=0.5,
            tier=Tier.HOT,
            last_used=LATER,
            review=LATER,
        )
        assert await one(store, put.memory) == expected


Happening = Callable[[Store, Memory, datetime], Awaitable[None]]


async def _used(store: Store, memory: Memory, when: datetime) -> None:
    await store.touch([memory.id], when)


async def _shown(store: Store, memory: Memory, when: datetime) -> None:
    await store.note_shown([memory.id], when)


async def _rated(store: Store, memory: Memory, when: datetime) -> None:
    await store.apply([Rate(memory.id, by=0.5, when=when)])


async def _amended(store: Store, memory: Memory, when: datetime) -> None:
    amended = replace(memory, content="other words", content_hash="other", updated=when)
    await store.apply([Put(amended, ["other", "words"], expected=memory.updated)])


async def _revised(store: Store, memory: Memory, when: datetime) -> None:
    await store.apply([Revise(replace(memory, topic="other", updated=when))])


async def _marked(store: Store, memory: Memory, when: datetime) -> None:
    await store.apply([Mark(memory.id, Status.SUPERSEDED, previous=None, updated=when)])


HAPPENINGS: list[Happening] = [_used, _shown, _rated, _amended, _revised, _marked]


class TendContract:
    """What upkeep writes."""

    @pytest.mark.parametrize(
        "fields",
        [
            {"tier": Tier.COLD},
            {"importance": 0.125},
            {"utility": 0.25},
            {"usefulness": -0.5},
            {"anchor": True},
            {"verified": LATER},
            {"examined": LATER},
            {"decayed": LATER},
            {"review": FAR},
            {"tier": Tier.PERMANENT, "importance": 0.0, "anchor": True, "review": START - DAY},
        ],
    )
    async def test_it_changes_what_it_names_and_nothing_else(
        self, store: Store, other: Store, build: Builder, fields: dict[str, Any]
    ) -> None:
        put = build.put("some words", tags=("kept",), keywords=("kept",), vector=unit(1), uses=3, shown=2)
        await store.apply([put])
        before = await one(other, put.memory)
        await store.apply([Tend(put.memory.id), Tend(put.memory.id, **fields)])
        assert await one(other, put.memory) == replace(before, **fields)
        assert await other.versions_of(put.memory.id) == []
        assert (await by_text(other, "some")).ids == [put.memory.id]
        taken_back = replace(before, anchor=False)
        await other.apply([Tend(put.memory.id, anchor=False), Revise(taken_back)])
        assert await one(store, put.memory) == taken_back

    async def test_a_put_that_expected_the_record_still_fits(self, store: Store, build: Builder) -> None:
        put = build.put("first words")
        await store.apply([put])
        await store.apply([Tend(put.memory.id, importance=0.125, review=FAR)])
        await _amended(store, put.memory, LATER)
        assert (await one(store, put.memory)).content == "other words"

    async def test_what_is_gone_is_passed_over(self, store: Store, build: Builder) -> None:
        put = build.put()
        await store.apply([put, Tend("gone", importance=0.0), Tend(put.memory.id, importance=0.75)])
        assert (await one(store, put.memory)).importance == 0.75

    @pytest.mark.parametrize("happening", HAPPENINGS)
    async def test_it_is_passed_over_when_something_happened_since(
        self, store: Store, other: Store, build: Builder, happening: Happening
    ) -> None:
        touched, quiet = build.put("touched", review=START), build.put("quiet", review=START)
        await store.apply([touched, quiet])
        await happening(other, touched.memory, LATER + timedelta(microseconds=1))
        after = await one(store, touched.memory)
        await store.apply(
            [
                Tend(put.memory.id, tier=Tier.COLD, importance=0.0, review=FAR, unless_since=LATER)
                for put in (touched, quiet)
            ]
        )
        assert await one(store, touched.memory) == after
        tended = replace(quiet.memory, tier=Tier.COLD, importance=0.0, review=FAR)
        assert await one(store, quiet.memory) == tended
        await store.apply([Tend(touched.memory.id, importance=0.0, unless_since=LATEST)])
        assert await one(store, touched.memory) == replace(after, importance=0.0)

    @pytest.mark.parametrize("happening", HAPPENINGS)
    async def test_what_happened_before_is_no_obstacle(
        self, store: Store, other: Store, build: Builder, happening: Happening
    ) -> None:
        put = build.put()
        await store.apply([put])
        await happening(other, put.memory, LATER)
        after = await one(store, put.memory)
        await store.apply([Tend(put.memory.id, utility=0.25, review=FAR, unless_since=LATER)])
        assert await one(store, put.memory) == replace(after, utility=0.25, review=FAR)

    async def test_a_late_report_does_not_turn_the_clock_back(
        self, store: Store, other: Store, build: Builder
    ) -> None:
        used, shown, rated = (build.put() for _ in range(3))
        await store.apply([used, shown, rated])
        for when in (LATEST, START):
            await _used(other, used.memory, when)
            await _shown(other, shown.memory, when)
            await _rated(other, rated.memory, when)
        for put in (used, shown, rated):
            before = await one(store, put.memory)
            await store.apply([Tend(put.memory.id, importance=0.0, unless_since=LATER)])
            assert await one(store, put.memory) == before
            assert before.review == START

    async def test_upkeep_and_use_at_the_same_time(self, store: Store, other: Store, build: Builder) -> None:
        """Whichever comes first, what was used is hot and due."""
        puts = [build.put(review=START) for _ in range(24)]
        await store.apply(puts)
        tending = [
            store.apply([Tend(put.memory.id, tier=Tier.COLD, review=FAR, unless_since=START + 60 * DAY)])
            for put in puts
        ]
        using = [other.touch([put.memory.id], START + 61 * DAY) for put in puts]
        await asyncio.gather(*(each for pair in zip(tending, using, strict=True) for each in pair))
        for memory in (await store.get_many([put.memory.id for put in puts], viewer="system")).values():
            assert (memory.tier, memory.uses) == (Tier.HOT, 1)
            assert memory.review in (START, START + 61 * DAY)

    async def test_inheriting_leaves_the_rest_of_its_life(self, store: Store, build: Builder) -> None:
        put = build.put(shown=2, usefulness=0.5, verified=START, examined=START, decayed=START, review=FAR)
        await store.apply([put, Inherit(put.memory.id, "older", importance=0.75, uses=4)])
        expected = replace(put.memory, supersedes="older", importance=0.75, uses=4)
        assert await one(store, put.memory) == expected

    @pytest.mark.parametrize("status", list(Status))
    @pytest.mark.parametrize("before", [None, FAR])
    async def test_a_mark_makes_what_is_archived_or_active_again_due(
        self, store: Store, build: Builder, status: Status, before: datetime | None
    ) -> None:
        earlier = Status.QUARANTINED if status is Status.ACTIVE else Status.ACTIVE
        put = build.put(status=earlier, review=before)
        await store.apply([put, Mark(put.memory.id, status, previous=earlier, updated=LATER)])
        due = status in (Status.ACTIVE, Status.ARCHIVED)
        assert (await one(store, put.memory)).review == (LATER if due else before)
        await store.apply([Tend(put.memory.id, review=FAR)])
        await store.apply([Mark(put.memory.id, status, previous=None, updated=LATEST)])
        assert (await one(store, put.memory)).review == FAR

    async def test_one_step_of_many_changes(self, store: Store, build: Builder) -> None:
        puts = [build.put(review=START) for _ in range(40)]
        changes: list[Change] = [*puts]
        changes += [Tend(put.memory.id, importance=0.25, review=LATER) for put in puts]
        changes += [Rate(put.memory.id, by=0.5, when=LATER) for put in puts]
        await store.apply(changes)
        expected = [replace(put.memory, importance=0.25, usefulness=0.5, review=LATER) for put in puts]
        found = await store.get_many([put.memory.id for put in puts], viewer="system")
        assert [found[memory.id] for memory in expected] == expected
        failing: list[Change] = [
            Tend(puts[0].memory.id, importance=1.0),
            Rate(puts[0].memory.id, by=-1.0, when=FAR),
            Mark("gone", Status.ACTIVE, previous=None, updated=LATER),
        ]
        with pytest.raises(MemoryNotFound):
            await store.apply(failing)
        assert await one(store, puts[0].memory) == expected[0]
