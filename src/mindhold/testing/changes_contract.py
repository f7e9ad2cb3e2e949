"""What every store promises about concurrent changes, use, ratings and maintenance values of memories."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from mindhold.model.errors import Changed, InvalidInput, MemoryNotFound
from mindhold.model.memory import Memory, Provenance, Status, Tier
from mindhold.model.query import Filter, Order, Search
from mindhold.ports.store import Capability, Change, Enqueue, Inherit, Mark, Put, Rate, Revise, Store, Tend
from mindhold.testing.builders import MODEL, START, Builder, by_text, needs, unit

LATER = START + timedelta(days=1)


def reworded(memory: Memory, content: str) -> Put:
    """The Put of an amendment: later than the memory, and expecting its present version."""
    amended = replace(
        memory, content=content, content_hash=content, updated=memory.updated + LATER.resolution
    )
    return Put(amended, content.split(), expected=memory.updated)


class ChangesContract:
    """Changes that expect a version, and changes of single fields."""

    async def test_a_put_that_expects_what_is_there_replaces_it(self, store: Store, build: Builder) -> None:
        put = build.put("first words")
        await store.apply([put])
        once = reworded(put.memory, "second words")
        twice = reworded(once.memory, "third words")
        await store.apply([once, twice])
        assert await store.get(put.memory.id, viewer="default") == twice.memory

    async def test_a_put_is_refused_when_somebody_changed_it_since(
        self, store: Store, other: Store, build: Builder
    ) -> None:
        put = build.put("secret plan", vector=unit(1))
        await store.apply([put])
        await other.apply([Mark(put.memory.id, Status.FORGOTTEN, previous=Status.ACTIVE, updated=LATER)])
        hidden = await store.get(put.memory.id, viewer="default")
        with pytest.raises(Changed, match=put.memory.id):
            await store.apply(
                [Enqueue(build.job()), build.put("beside"), reworded(put.memory, "secret plans")]
            )
        assert await store.get(put.memory.id, viewer="default") == hidden
        assert await store.count(Filter(statuses=())) == 1
        assert await store.jobs() == []
        assert (await by_text(store, "plans", statuses=())).ids == []

    async def test_a_put_that_expects_a_record_that_is_gone(self, store: Store, build: Builder) -> None:
        put = build.put("first words")
        with pytest.raises(Changed):
            await store.apply([reworded(put.memory, "second words")])
        assert await store.count(Filter(statuses=())) == 0

    async def test_replacing_leaves_the_counts_of_use_and_the_usefulness(
        self, store: Store, other: Store, build: Builder
    ) -> None:
        put = build.put("first words", uses=2, last_used=START)
        await store.apply([put])
        await other.touch([put.memory.id], LATER)
        await other.apply([Rate(put.memory.id, 0.25, LATER)])
        after = reworded(put.memory, "second words")
        await store.apply([after])
        expected = replace(after.memory, uses=3, last_used=LATER, usefulness=0.25)
        assert await store.get(put.memory.id, viewer="default") == expected

    async def test_a_mark_passes_over_another_status(self, store: Store, build: Builder) -> None:
        hidden, plain = build.put("one", status=Status.FORGOTTEN), build.put("two")
        await store.apply([hidden, plain])
        await store.apply(
            [
                Mark(put.memory.id, Status.SUPERSEDED, previous=None, updated=LATER, only_from=Status.ACTIVE)
                for put in (hidden, plain)
            ]
        )
        assert await store.get(hidden.memory.id, viewer="default") == hidden.memory
        marked = replace(plain.memory, status=Status.SUPERSEDED, updated=LATER)
        assert await store.get(plain.memory.id, viewer="default") == marked
        assert (await by_text(store, "one", "two")).ids == []
        with pytest.raises(MemoryNotFound):
            await store.apply([Mark("gone", Status.ACTIVE, None, LATER, only_from=Status.ACTIVE)])

    async def test_marks_of_one_record_follow_each_other(self, store: Store, build: Builder) -> None:
        put = build.put()
        await store.apply([put])
        steps = (Status.ACTIVE, Status.ARCHIVED, Status.FORGOTTEN)
        await store.apply(
            [
                Mark(put.memory.id, after, previous=before, updated=LATER, only_from=before)
                for before, after in zip(steps, steps[1:], strict=False)
            ]
        )
        assert (await store.get(put.memory.id, viewer="default")).status is Status.FORGOTTEN

    async def test_inheriting_changes_nothing_else(self, store: Store, other: Store, build: Builder) -> None:
        put = build.put("new words", importance=0.5, uses=1, tags=("kept",), vector=unit(1))
        await store.apply([put])
        await other.touch([put.memory.id], LATER)
        forgotten = Mark(put.memory.id, Status.FORGOTTEN, previous=Status.ACTIVE, updated=LATER)
        await other.apply([forgotten])
        before = await store.get(put.memory.id, viewer="default")
        await store.apply([Inherit(put.memory.id, "older", importance=0.75, uses=4)])
        after = replace(before, supersedes="older", importance=0.75, uses=6)
        assert await store.get(put.memory.id, viewer="default") == after
        await store.apply([Inherit(put.memory.id, "oldest", importance=0.25, uses=0)])
        last = replace(after, supersedes="oldest")
        assert await store.get(put.memory.id, viewer="default") == last

    async def test_inheriting_shows_in_a_search(self, store: Store, other: Store, build: Builder) -> None:
        put = build.put("new words", importance=0.5)
        await store.apply([put])
        assert (await by_text(other, "new")).importance.tolist() == [0.5]
        await store.apply([Inherit(put.memory.id, "older", importance=0.75, uses=4)])
        hits = await by_text(other, "new")
        assert (hits.importance.tolist(), hits.uses.tolist()) == ([0.75], [4])

    async def test_inheriting_by_a_missing_memory(self, store: Store, build: Builder) -> None:
        with pytest.raises(MemoryNotFound, match="gone"):
            await store.apply([build.put(), Inherit("gone", "older", importance=1.0, uses=1)])
        assert await store.count(Filter()) == 0

    @pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**200])
    async def test_a_number_that_no_column_takes(self, store: Store, build: Builder, number: int) -> None:
        broken = build.put("odd", provenance=Provenance(conversation="talk", position=number))
        with pytest.raises(InvalidInput):
            await store.apply([build.put("fine"), broken])
        with pytest.raises(InvalidInput):
            await store.find(Filter(conversation="talk", positions=(0, abs(number))))
        assert await store.count(Filter()) == 0

    async def test_a_value_that_is_not_a_number(self, store: Store, build: Builder) -> None:
        with pytest.raises(InvalidInput):
            await store.apply([build.put("odd", utility=float("nan"))])
        assert await store.count(Filter()) == 0

    async def test_memories_derived_from_others(self, store: Store, build: Builder) -> None:
        first = build.put(merged_from=("a", "b"), metadata={"k": "c"})
        second = build.put(merged_from=("b",), agent="ada", status=Status.FORGOTTEN)
        await store.apply([first, second, build.put(merged_from=("aa",)), build.put(metadata={"from": "a"})])
        assert await store.derived_from(["a"]) == [first.memory]
        derived = await store.derived_from(["b", "a", "nobody"])
        assert sorted(memory.id for memory in derived) == [first.memory.id, second.memory.id]
        assert await store.derived_from(["c", "m"]) == []
        assert await store.derived_from([]) == []

    async def test_what_changed_since(self, store: Store, other: Store, build: Builder) -> None:
        puts = [build.put(f"thing {number}", occurred=START) for number in range(6)]
        await store.apply(puts)
        first, *rest = [put.memory for put in puts]
        since = rest[2].updated
        changed = await other.find(Filter(changed=since), order=Order.CHANGED)
        assert changed == rest[:1:-1]
        assert await other.count(Filter(changed=since)) == 3
        assert await other.find(Filter(changed=since), order=Order.CHANGED, limit=2) == rest[:2:-1]
        amended = reworded(first, "said anew")
        await store.apply([replace(amended, memory=replace(amended.memory, updated=LATER))])
        assert (await other.find(Filter(), order=Order.CHANGED, limit=1))[0].content == "said anew"
        await store.apply([Mark(rest[3].id, Status.FORGOTTEN, Status.ACTIVE, LATER)])
        assert await other.find(Filter(changed=LATER), order=Order.CHANGED) == [
            await other.get(first.id, viewer="system")
        ]
        forgotten = Filter(changed=LATER, statuses=(Status.FORGOTTEN,))
        assert [memory.id for memory in await other.find(forgotten, order=Order.CHANGED)] == [rest[3].id]

    @needs(Capability.VECTORS)
    async def test_a_search_keeps_to_what_changed(self, store: Store, build: Builder) -> None:
        old, new = build.put("thing old", vector=unit(1)), build.put("thing new", vector=unit(1, 1))
        await store.apply([old, new])
        where = Filter(changed=new.memory.updated)
        hits = await store.search(Search(where, ("thing",), unit(1), MODEL))
        assert (hits.ids, hits.total) == ([new.memory.id], 1)
        (near,) = await store.nearest([unit(1)], model=MODEL, where=where, limit=9)
        assert [neighbour.id for neighbour in near] == [new.memory.id]


DAY = timedelta(days=1)
NEXT_DAY = START + DAY
LATEST = START + 2 * DAY
FAR = START + 100 * DAY


async def reread(store: Store, memory: Memory) -> Memory:
    return await store.get(memory.id, viewer="system")


class UseContract:
    """Touching, showing, rating."""

    @pytest.mark.parametrize("tier", list(Tier))
    async def test_a_used_memory_is_hot_unless_it_is_permanent(
        self, store: Store, build: Builder, tier: Tier
    ) -> None:
        put = build.put(tier=tier, status=Status.ARCHIVED)
        await store.apply([put])
        await store.touch([put.memory.id], NEXT_DAY)
        expected_tier = tier if tier is Tier.PERMANENT else Tier.HOT
        expected = replace(put.memory, tier=expected_tier, uses=1, last_used=NEXT_DAY, review=NEXT_DAY)
        assert await reread(store, put.memory) == expected

    @pytest.mark.parametrize(("before", "after"), [(None, NEXT_DAY), (FAR, NEXT_DAY), (START, START)])
    async def test_using_showing_or_rating_makes_a_memory_due(
        self, store: Store, build: Builder, before: datetime | None, after: datetime
    ) -> None:
        used, shown, rated = (build.put(review=before) for _ in range(3))
        await store.apply([used, shown, rated])
        await store.touch([used.memory.id], NEXT_DAY)
        await store.note_shown([shown.memory.id], NEXT_DAY)
        await store.apply([Rate(rated.memory.id, by=0.25, when=NEXT_DAY)])
        for put in (used, shown, rated):
            assert (await reread(store, put.memory)).review == after

    async def test_showing_is_counted_and_changes_nothing_else(
        self, store: Store, other: Store, build: Builder
    ) -> None:
        first, second = build.put(tier=Tier.COLD, review=START, shown=4), build.put()
        await store.apply([first, second])
        await store.note_shown([first.memory.id, "gone", first.memory.id], NEXT_DAY)
        await other.note_shown([first.memory.id], START)
        await store.note_shown([], NEXT_DAY)
        assert await reread(store, first.memory) == replace(first.memory, shown=7)
        assert await reread(store, second.memory) == second.memory

    async def test_replacing_leaves_the_count_of_showings(
        self, store: Store, other: Store, build: Builder
    ) -> None:
        put = build.put("first words", shown=2)
        await store.apply([put])
        await other.note_shown([put.memory.id], NEXT_DAY)
        again = replace(put.memory, content="second words", content_hash="h2", review=START, verified=START)
        await store.apply([Put(again, ["second", "words"])])
        assert await reread(store, put.memory) == replace(again, shown=3)
        await store.apply([Revise(replace(again, shown=1))])
        assert await reread(store, put.memory) == replace(again, shown=1)

    async def test_ratings_add_up_within_bounds(self, store: Store, other: Store, build: Builder) -> None:
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
            await handle.apply([Rate(put.memory.id, by=by, when=NEXT_DAY)])
            assert await reread(store, put.memory) == replace(put.memory, usefulness=expected)
        twice = [Rate(put.memory.id, by=0.25, when=NEXT_DAY), Rate(put.memory.id, by=0.25, when=NEXT_DAY)]
        await store.apply(twice)
        assert (await reread(store, put.memory)).usefulness == -0.25

    async def test_a_rating_of_a_missing_memory_is_ignored(self, store: Store, build: Builder) -> None:
        put = build.put()
        await store.apply(
            [put, Rate("gone", by=1.0, when=NEXT_DAY), Rate(put.memory.id, by=0.5, when=NEXT_DAY)]
        )
        assert (await reread(store, put.memory)).usefulness == 0.5

    async def test_usefulness_reaches_the_ranking(self, store: Store, other: Store, build: Builder) -> None:
        liked, plain = build.put("lamp liked"), build.put("lamp plain", usefulness=-0.5)
        await store.apply([liked, plain])
        assert len((await by_text(other, "lamp")).ids) == 2
        await store.apply([Rate(liked.memory.id, by=0.75, when=NEXT_DAY)])
        hits = await by_text(other, "lamp")
        usefulness_by_id = dict(zip(hits.ids, hits.usefulness.tolist(), strict=True))
        assert usefulness_by_id == {liked.memory.id: 0.75, plain.memory.id: -0.5}
        assert (await by_text(other, "nothing")).usefulness.tolist() == []

    async def test_concurrent_use_showing_and_rating_lose_nothing(
        self, store: Store, other: Store, build: Builder
    ) -> None:
        put = build.put()
        await store.apply([put])
        memory_id = put.memory.id
        await asyncio.gather(
            *(handle.touch([memory_id, memory_id], NEXT_DAY) for handle in (store, other) for _ in range(8)),
            *(handle.note_shown([memory_id], NEXT_DAY) for handle in (store, other) for _ in range(8)),
            *(
                handle.apply([Rate(memory_id, by=0.03125, when=NEXT_DAY)])
                for handle in (store, other)
                for _ in range(8)
            ),
        )
        expected = replace(
            put.memory, uses=32, shown=16, usefulness=0.5, tier=Tier.HOT, last_used=NEXT_DAY, review=NEXT_DAY
        )
        assert await reread(store, put.memory) == expected


Event = Callable[[Store, Memory, datetime], Awaitable[None]]


async def _use(store: Store, memory: Memory, when: datetime) -> None:
    await store.touch([memory.id], when)


async def _show(store: Store, memory: Memory, when: datetime) -> None:
    await store.note_shown([memory.id], when)


async def _rate(store: Store, memory: Memory, when: datetime) -> None:
    await store.apply([Rate(memory.id, by=0.5, when=when)])


async def _amend(store: Store, memory: Memory, when: datetime) -> None:
    amended = replace(memory, content="other words", content_hash="other", updated=when)
    await store.apply([Put(amended, ["other", "words"], expected=memory.updated)])


async def _revise(store: Store, memory: Memory, when: datetime) -> None:
    await store.apply([Revise(replace(memory, topic="other", updated=when))])


async def _mark(store: Store, memory: Memory, when: datetime) -> None:
    await store.apply([Mark(memory.id, Status.SUPERSEDED, previous=None, updated=when)])


EVENTS: list[Event] = [_use, _show, _rate, _amend, _revise, _mark]


class TendContract:
    """The changes that maintenance makes."""

    @pytest.mark.parametrize(
        "fields",
        [
            {"tier": Tier.COLD},
            {"importance": 0.125},
            {"utility": 0.25},
            {"usefulness": -0.5},
            {"anchor": True},
            {"verified": NEXT_DAY},
            {"examined": NEXT_DAY},
            {"decayed": NEXT_DAY},
            {"review": FAR},
            {"tier": Tier.PERMANENT, "importance": 0.0, "anchor": True, "review": START - DAY},
        ],
    )
    async def test_tend_changes_only_the_named_fields(
        self, store: Store, other: Store, build: Builder, fields: dict[str, Any]
    ) -> None:
        put = build.put("some words", tags=("kept",), keywords=("kept",), vector=unit(1), uses=3, shown=2)
        await store.apply([put])
        before = await reread(other, put.memory)
        await store.apply([Tend(put.memory.id), Tend(put.memory.id, **fields)])
        assert await reread(other, put.memory) == replace(before, **fields)
        assert await other.versions_of(put.memory.id) == []
        assert (await by_text(other, "some")).ids == [put.memory.id]
        unanchored = replace(before, anchor=False)
        await other.apply([Tend(put.memory.id, anchor=False), Revise(unanchored)])
        assert await reread(store, put.memory) == unanchored

    async def test_a_put_that_expected_the_record_still_applies(self, store: Store, build: Builder) -> None:
        put = build.put("first words")
        await store.apply([put])
        await store.apply([Tend(put.memory.id, importance=0.125, review=FAR)])
        await _amend(store, put.memory, NEXT_DAY)
        assert (await reread(store, put.memory)).content == "other words"

    async def test_tend_ignores_missing_memories(self, store: Store, build: Builder) -> None:
        put = build.put()
        await store.apply([put, Tend("gone", importance=0.0), Tend(put.memory.id, importance=0.75)])
        assert (await reread(store, put.memory)).importance == 0.75

    @pytest.mark.parametrize("event", EVENTS)
    async def test_tend_is_skipped_after_later_events(
        self, store: Store, other: Store, build: Builder, event: Event
    ) -> None:
        touched, quiet = build.put("touched", review=START), build.put("quiet", review=START)
        await store.apply([touched, quiet])
        await event(other, touched.memory, NEXT_DAY + timedelta(microseconds=1))
        after = await reread(store, touched.memory)
        await store.apply(
            [
                Tend(put.memory.id, tier=Tier.COLD, importance=0.0, review=FAR, unless_since=NEXT_DAY)
                for put in (touched, quiet)
            ]
        )
        assert await reread(store, touched.memory) == after
        tended = replace(quiet.memory, tier=Tier.COLD, importance=0.0, review=FAR)
        assert await reread(store, quiet.memory) == tended
        await store.apply([Tend(touched.memory.id, importance=0.0, unless_since=LATEST)])
        assert await reread(store, touched.memory) == replace(after, importance=0.0)

    @pytest.mark.parametrize("event", EVENTS)
    async def test_tend_applies_after_earlier_events(
        self, store: Store, other: Store, build: Builder, event: Event
    ) -> None:
        put = build.put()
        await store.apply([put])
        await event(other, put.memory, NEXT_DAY)
        after = await reread(store, put.memory)
        await store.apply([Tend(put.memory.id, utility=0.25, review=FAR, unless_since=NEXT_DAY)])
        assert await reread(store, put.memory) == replace(after, utility=0.25, review=FAR)

    async def test_a_late_report_does_not_turn_the_clock_back(
        self, store: Store, other: Store, build: Builder
    ) -> None:
        used, shown, rated = (build.put() for _ in range(3))
        await store.apply([used, shown, rated])
        for when in (LATEST, START):
            await _use(other, used.memory, when)
            await _show(other, shown.memory, when)
            await _rate(other, rated.memory, when)
        for put in (used, shown, rated):
            before = await reread(store, put.memory)
            await store.apply([Tend(put.memory.id, importance=0.0, unless_since=NEXT_DAY)])
            assert await reread(store, put.memory) == before
            assert before.review == START

    async def test_concurrent_tend_and_use(self, store: Store, other: Store, build: Builder) -> None:
        """Whichever comes first, a used memory is hot and due."""
        puts = [build.put(review=START) for _ in range(24)]
        await store.apply(puts)
        tending = [
            store.apply([Tend(put.memory.id, tier=Tier.COLD, review=FAR, unless_since=START + 60 * DAY)])
            for put in puts
        ]
        using = [other.touch([put.memory.id], START + 61 * DAY) for put in puts]
        await asyncio.gather(*(coroutine for pair in zip(tending, using, strict=True) for coroutine in pair))
        for memory in (await store.get_many([put.memory.id for put in puts], viewer="system")).values():
            assert (memory.tier, memory.uses) == (Tier.HOT, 1)
            assert memory.review in (START, START + 61 * DAY)

    async def test_inheriting_leaves_the_rest_of_its_life(self, store: Store, build: Builder) -> None:
        put = build.put(shown=2, usefulness=0.5, verified=START, examined=START, decayed=START, review=FAR)
        await store.apply([put, Inherit(put.memory.id, "older", importance=0.75, uses=4)])
        expected = replace(put.memory, supersedes="older", importance=0.75, uses=4)
        assert await reread(store, put.memory) == expected

    @pytest.mark.parametrize("status", list(Status))
    @pytest.mark.parametrize("before", [None, FAR])
    async def test_a_mark_makes_what_is_archived_or_active_again_due(
        self, store: Store, build: Builder, status: Status, before: datetime | None
    ) -> None:
        earlier = Status.QUARANTINED if status is Status.ACTIVE else Status.ACTIVE
        put = build.put(status=earlier, review=before)
        await store.apply([put, Mark(put.memory.id, status, previous=earlier, updated=NEXT_DAY)])
        due = status in (Status.ACTIVE, Status.ARCHIVED)
        assert (await reread(store, put.memory)).review == (NEXT_DAY if due else before)
        await store.apply([Tend(put.memory.id, review=FAR)])
        await store.apply([Mark(put.memory.id, status, previous=None, updated=LATEST)])
        assert (await reread(store, put.memory)).review == FAR

    async def test_many_changes_in_one_step(self, store: Store, build: Builder) -> None:
        puts = [build.put(review=START) for _ in range(40)]
        changes: list[Change] = [*puts]
        changes += [Tend(put.memory.id, importance=0.25, review=NEXT_DAY) for put in puts]
        changes += [Rate(put.memory.id, by=0.5, when=NEXT_DAY) for put in puts]
        await store.apply(changes)
        expected = [replace(put.memory, importance=0.25, usefulness=0.5, review=NEXT_DAY) for put in puts]
        memories = await store.get_many([put.memory.id for put in puts], viewer="system")
        assert [memories[memory.id] for memory in expected] == expected
        failing: list[Change] = [
            Tend(puts[0].memory.id, importance=1.0),
            Rate(puts[0].memory.id, by=-1.0, when=FAR),
            Mark("gone", Status.ACTIVE, previous=None, updated=NEXT_DAY),
        ]
        with pytest.raises(MemoryNotFound):
            await store.apply(failing)
        assert await reread(store, puts[0].memory) == expected[0]
