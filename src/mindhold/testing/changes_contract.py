"""What every store promises about changes that meet: nobody's is undone by one that had read an older record."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mindhold.model.errors import Changed, InvalidInput, MemoryNotFound
from mindhold.model.memory import Memory, Provenance, Status
from mindhold.model.query import Filter, Order, Search
from mindhold.ports.store import Capability, Enqueue, Inherit, Mark, Put, Rate, Store
from mindhold.testing.builders import MODEL, START, Builder, unit
from mindhold.testing.needs import needs
from mindhold.testing.searching import by_text

LATER = START + timedelta(days=1)


def reworded(memory: Memory, content: str) -> Put:
    """As an amendment puts it: a day later, expecting what was read."""
    words = replace(memory, content=content, content_hash=content, updated=memory.updated + LATER.resolution)
    return Put(words, content.split(), expected=memory.updated)


class ChangesContract:
    """Expected updates, narrow changes."""

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
        found = await by_text(other, "new")
        assert (found.importance.tolist(), found.uses.tolist()) == ([0.75], [4])

    async def test_a_missing_heir(self, store: Store, build: Builder) -> None:
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

    async def test_what_is_no_number(self, store: Store, build: Builder) -> None:
        with pytest.raises(InvalidInput):
            await store.apply([build.put("odd", utility=float("nan"))])
        assert await store.count(Filter()) == 0

    async def test_what_was_merged_from_records(self, store: Store, build: Builder) -> None:
        one = build.put(merged_from=("a", "b"), metadata={"k": "c"})
        two = build.put(merged_from=("b",), agent="ada", status=Status.FORGOTTEN)
        await store.apply([one, two, build.put(merged_from=("aa",)), build.put(metadata={"from": "a"})])
        assert await store.derived_from(["a"]) == [one.memory]
        found = await store.derived_from(["b", "a", "nobody"])
        assert sorted(memory.id for memory in found) == [one.memory.id, two.memory.id]
        assert await store.derived_from(["c", "m"]) == []
        assert await store.derived_from([]) == []

    async def test_what_changed_since(self, store: Store, other: Store, build: Builder) -> None:
        puts = [build.put(f"thing {number}", occurred=START) for number in range(6)]
        await store.apply(puts)
        first, *rest = [put.memory for put in puts]
        since = rest[2].updated
        found = await other.find(Filter(changed=since), order=Order.CHANGED)
        assert found == rest[:1:-1]
        assert await other.count(Filter(changed=since)) == 3
        assert await other.find(Filter(changed=since), order=Order.CHANGED, limit=2) == rest[:2:-1]
        amended = reworded(first, "said anew")
        await store.apply([replace(amended, memory=replace(amended.memory, updated=LATER))])
        assert (await other.find(Filter(), order=Order.CHANGED, limit=1))[0].content == "said anew"
        await store.apply([Mark(rest[3].id, Status.FORGOTTEN, Status.ACTIVE, LATER)])
        assert await other.find(Filter(changed=LATER), order=Order.CHANGED) == [
            await other.get(first.id, viewer="system")
        ]
        gone = Filter(changed=LATER, statuses=(Status.FORGOTTEN,))
        assert [memory.id for memory in await other.find(gone, order=Order.CHANGED)] == [rest[3].id]

    @needs(Capability.VECTORS)
    async def test_a_search_keeps_to_what_changed(self, store: Store, build: Builder) -> None:
        old, new = build.put("thing old", vector=unit(1)), build.put("thing new", vector=unit(1, 1))
        await store.apply([old, new])
        where = Filter(changed=new.memory.updated)
        found = await store.search(Search(where, ("thing",), unit(1), MODEL))
        assert (found.ids, found.total) == ([new.memory.id], 1)
        (near,) = await store.nearest([unit(1)], model=MODEL, where=where, limit=9)
        assert [neighbour.id for neighbour in near] == [new.memory.id]
