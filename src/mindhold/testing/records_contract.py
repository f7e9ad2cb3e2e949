"""What every store promises about records, pages, and the messages of a project's log."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mindhold.model.errors import Conflict, InvalidInput, MemoryNotFound, ScopeNotFound
from mindhold.model.memory import LOG_DIALECT, PART_KEY, Kind, Memory, Provenance, Status, Tier, is_turn
from mindhold.model.query import Filter, Order, PagePosition
from mindhold.ports.store import Capability, Change, Connect, Enqueue, Keep, Mark, Put, Revise, Store
from mindhold.testing.builders import MODEL, START, Builder, ids, needs, unit


async def put_all(store: Store, *puts: Put) -> list[Memory]:
    """Put them in one step and return their memories."""
    await store.apply(puts)
    return [put.memory for put in puts]


class RecordsContract:
    """Putting, revising, reading, counting and touching records."""

    async def test_a_record_comes_back_as_it_went_in(self, store: Store, build: Builder) -> None:
        put = build.put(
            "Die Straße 東京 🦊 \x00 'quoted' \"double\" %_\\",
            kind=Kind.DECISION,
            occurred=START - timedelta(days=400, microseconds=7),
            topic="Größe",
            tags=("Zeta", "alpha", "ÄÖ"),
            keywords=("one", "two words"),
            importance=0.25,
            confidence=0.5,
            utility=0.75,
            trust=0.125,
            tier=Tier.PERMANENT,
            anchor=True,
            status=Status.QUARANTINED,
            previous_status=Status.ACTIVE,
            uses=3,
            last_used=START + timedelta(days=1),
            shown=5,
            usefulness=-0.375,
            verified=START + timedelta(days=2),
            examined=START + timedelta(days=3),
            decayed=START + timedelta(days=4),
            review=START + timedelta(days=5),
            supersedes="earlier",
            merged_from=("a", "b"),
            provenance=Provenance("history", "import", "talk", 7, "/tmp/a b#c?.md", 12),
            metadata={"nested": {"list": [1, 2.5, None, True, "ß"]}, "": "empty key"},
        )
        (memory,) = await put_all(store, put)
        assert await store.get(memory.id, viewer="default") == memory

    async def test_a_missing_record_is_named(self, store: Store) -> None:
        with pytest.raises(MemoryNotFound, match="nothing-here"):
            await store.get("nothing-here", viewer="default")

    async def test_get_many_leaves_out_what_is_missing(self, store: Store, build: Builder) -> None:
        first, second = await put_all(store, build.put(), build.put())
        memories = await store.get_many([second.id, "missing", first.id, first.id], viewer="default")
        assert memories == {first.id: first, second.id: second}
        assert await store.get_many([], viewer="default") == {}

    async def test_putting_again_replaces_everything(self, store: Store, build: Builder) -> None:
        put = build.put("first words", tags=("old",), vector=unit(1))
        await store.apply([put])
        other = replace(put.memory, content="second words", content_hash="h2", tags=("new",), topic="t")
        await store.apply([Put(other, ["second", "words"])])
        assert await store.get(other.id, viewer="default") == replace(other, embedded_by=None)
        assert await store.count(Filter(tags=("old",))) == 0
        assert await store.count(Filter()) == 1

    async def test_the_last_put_of_one_id_counts(self, store: Store, build: Builder) -> None:
        put = build.put("first")
        last = replace(put.memory, content="last", content_hash="last")
        await store.apply([put, Put(last, ["last"])])
        assert await store.get(last.id, viewer="default") == last

    @needs(Capability.VECTORS)
    async def test_a_vector_says_which_model_made_it(self, store: Store, build: Builder) -> None:
        (memory,) = await put_all(store, build.put(vector=unit(1, 2)))
        assert (await store.get(memory.id, viewer="default")).embedded_by == MODEL
        with pytest.raises(InvalidInput):
            await store.apply([build.put(vector=unit(1), embedded_by=None)])

    async def test_without_a_vector_no_model_is_named(self, store: Store, build: Builder) -> None:
        (memory,) = await put_all(store, build.put(embedded_by=MODEL))
        assert (await store.get(memory.id, viewer="default")).embedded_by is None

    async def test_apply_is_all_or_nothing(self, store: Store, build: Builder) -> None:
        good, missing = build.put("good"), build.memory("never put")
        failing: list[Change] = [Revise(missing), Connect(build.link(good.memory, missing))]
        failing += [Keep(build.version(missing, 1, "old")), build.put("lost", scope="nowhere")]
        for change in failing:
            with pytest.raises((MemoryNotFound, ScopeNotFound)):
                await store.apply([good, Enqueue(build.job()), change])
        assert await store.count(Filter()) == 0
        assert await store.jobs() == []

    async def test_apply_of_nothing(self, store: Store) -> None:
        await store.apply([])

    async def test_changes_are_made_in_their_order(self, store: Store, build: Builder) -> None:
        put = build.put("same words")
        again = replace(build.put("same words"), gist="g")
        retired = replace(put.memory, status=Status.SUPERSEDED)
        await store.apply([put, Revise(retired), again, Connect(build.link(put.memory, again.memory))])
        assert await store.get(put.memory.id, viewer="default") == retired
        assert len(await store.links_of([put.memory.id], viewer="default")) == 1

    @needs(Capability.VECTORS)
    async def test_many_at_once(self, store: Store, build: Builder) -> None:
        puts = [build.put(tags=("t", f"t{n}"), vector=unit(n, 1)) for n in range(500)]
        await store.apply(puts)
        assert await store.count(Filter(tags=("t",))) == 500
        assert await store.count(Filter(tags=("t",)), most=100) == 100
        assert await store.count(Filter(tags=("t1",)), most=100) == 1
        memories = await store.get_many([put.memory.id for put in puts], viewer="default")
        assert list(memories.values()) != []
        assert all(memories[put.memory.id] == put.memory for put in puts)

    @needs(Capability.VECTORS)
    async def test_revise_leaves_content_and_vector(self, store: Store, build: Builder) -> None:
        await store.put_scope(build.scope("work"))
        (memory,) = await put_all(store, build.put("kept words", vector=unit(1), tags=("a", "b")))
        changed = replace(
            memory,
            scope="work",
            importance=0.9,
            tags=("c",),
            topic="New",
            kind=Kind.ERROR,
            status=Status.ARCHIVED,
            metadata={"k": 1},
            embedded_by=None,
        )
        await store.apply([Revise(changed)])
        assert await store.get(memory.id, viewer="default") == replace(changed, embedded_by=MODEL)
        assert set(await store.vector_of([memory.id], model=MODEL)) == {memory.id}

    async def test_the_same_content_twice_is_a_conflict(self, store: Store, build: Builder) -> None:
        (first,) = await put_all(store, build.put("the same"))
        with pytest.raises(Conflict, match=first.id):
            await store.apply([build.put("other"), build.put("the same")])
        with pytest.raises(Conflict):
            await store.apply([build.put("twice in one"), build.put("twice in one")])
        assert await store.count(Filter(statuses=())) == 1

    async def test_the_same_content_elsewhere_is_none(self, store: Store, build: Builder) -> None:
        await store.put_scope(build.scope("work"))
        await store.apply([build.put("the same"), build.put("the same", scope="work")])
        await store.apply([build.put("the same", agent="ada")])
        await store.apply([build.put("the same", status=Status.FORGOTTEN)])
        assert await store.count(Filter(viewer="admin", statuses=())) == 4

    async def test_bringing_back_a_duplicate_is_a_conflict(self, store: Store, build: Builder) -> None:
        hidden = build.put("the same", status=Status.FORGOTTEN)
        await store.apply([hidden, build.put("the same")])
        with pytest.raises(Conflict):
            await store.apply([Revise(replace(hidden.memory, status=Status.ACTIVE))])
        assert await store.get(hidden.memory.id, viewer="default") == hidden.memory

    async def test_by_hash(self, store: Store, build: Builder) -> None:
        await store.put_scope(build.scope("work"))
        live, quarantined, hidden, elsewhere = await put_all(
            store,
            build.put("one"),
            build.put("two", status=Status.QUARANTINED),
            build.put("three", status=Status.FORGOTTEN),
            build.put("four", scope="work"),
        )
        hashes = [memory.content_hash for memory in (live, quarantined, hidden, elsewhere)]
        memories = await store.by_hash([*hashes, "unknown"], scope="Global", agent="default")
        assert memories == {live.content_hash: live, quarantined.content_hash: quarantined}
        assert await store.by_hash(hashes, scope="Global", agent="ada") == {}
        assert await store.by_hash(hashes, scope="nowhere", agent="default") == {}

    async def test_by_gist(self, store: Store, build: Builder) -> None:
        first, second, _, _, _ = await put_all(
            store,
            build.put("a", gist="g1"),
            build.put("b", gist="g1"),
            build.put("c", gist="g1", status=Status.QUARANTINED),
            build.put("d", gist="g1", agent="ada"),
            build.put("e"),
        )
        memories_by_gist = await store.by_gist(["g1", "g2", ""], scope="Global", agent="default")
        assert {gist: ids(memories_by_gist[gist]) for gist in memories_by_gist} == {
            "g1": [first.id, second.id]
        }

    async def test_a_mark_changes_the_status_and_nothing_else(
        self, store: Store, other: Store, build: Builder
    ) -> None:
        [memory] = await put_all(store, build.put("one"))
        amended = replace(memory, topic="amended elsewhere", tags=("kept",))
        await other.apply([Revise(amended)])
        later = START + timedelta(days=1)
        await store.apply([Mark(memory.id, Status.FORGOTTEN, previous=Status.ACTIVE, updated=later)])
        expected = replace(amended, status=Status.FORGOTTEN, previous_status=Status.ACTIVE, updated=later)
        assert await store.get(memory.id, viewer="default") == expected
        with pytest.raises(MemoryNotFound):
            await store.apply([Mark("gone", Status.ACTIVE, previous=None, updated=later)])

    async def test_a_mark_does_not_revive_what_another_record_says(
        self, store: Store, build: Builder
    ) -> None:
        hidden = build.put("one")
        await store.apply([hidden])
        await store.apply([Mark(hidden.memory.id, Status.FORGOTTEN, previous=None, updated=START)])
        twin = build.put("one")
        await store.apply([twin])
        assert twin.memory.content_hash == hidden.memory.content_hash
        with pytest.raises(Conflict):
            await store.apply([Mark(hidden.memory.id, Status.ACTIVE, previous=None, updated=START)])

    async def test_touch_counts_uses(self, store: Store, build: Builder) -> None:
        first, second = await put_all(store, build.put(), build.put())
        later = START + timedelta(days=3)
        await store.touch([first.id, "gone", first.id], later)
        await store.touch([first.id], later - timedelta(days=1))
        await store.touch([], later)
        used = replace(first, uses=3, last_used=later, tier=Tier.HOT, review=later - timedelta(days=1))
        assert await store.get(first.id, viewer="default") == used
        assert await store.get(second.id, viewer="default") == second

    async def test_resolve_by_the_beginning(self, store: Store, build: Builder) -> None:
        memories = await put_all(store, *(build.put() for _ in range(12)))
        assert await store.resolve(memories[3].id, viewer="default") == [memories[3].id]
        assert len(await store.resolve("m0000", viewer="default")) == 10
        assert await store.resolve("x", viewer="default") == []
        assert await store.resolve("%", viewer="default") == []
        assert await store.resolve("m_", viewer="default") == []

    @needs(Capability.VECTORS)
    async def test_tally(self, store: Store, build: Builder) -> None:
        await store.put_scope(build.scope("work"))
        await store.apply(
            [
                build.put(kind=Kind.ERROR, tags=("Red",), topic="x", vector=unit(1)),
                build.put(kind=Kind.ERROR, tags=("red", "blue"), scope="work", tier=Tier.HOT),
                build.put(
                    agent="ada",
                    status=Status.ARCHIVED,
                    provenance=Provenance(source="summary", conversation="talk", position=1),
                ),
            ]
        )
        everything = Filter(viewer="admin", statuses=())
        assert await store.tally(everything, "conversation") == {"": 2, "talk": 1}
        assert await store.tally(everything, "source") == {"": 2, "summary": 1}
        assert await store.tally(everything, "kind") == {"error": 2, "fact": 1}
        assert await store.tally(everything, "status") == {"active": 2, "archived": 1}
        assert await store.tally(everything, "scope") == {"Global": 2, "work": 1}
        assert await store.tally(everything, "tier") == {"warm": 2, "hot": 1}
        assert await store.tally(everything, "topic") == {"": 2, "x": 1}
        assert await store.tally(everything, "agent") == {"default": 2, "ada": 1}
        assert await store.tally(everything, "embedded_by") == {"": 2, MODEL: 1}
        tags = await store.tally(everything, "tag")
        assert {tag.casefold(): number for tag, number in tags.items()} == {"red": 2, "blue": 1}
        assert await store.tally(Filter(tags=("blue",)), "tag") == {"blue": 1, "red": 1}
        with pytest.raises(InvalidInput):
            await store.tally(everything, "content; DROP TABLE memory")

    async def test_another_handle_sees_it_at_once(self, store: Store, other: Store, build: Builder) -> None:
        (memory,) = await put_all(store, build.put())
        assert await other.get(memory.id, viewer="default") == memory
        await other.apply([Revise(replace(memory, topic="seen"))])
        assert (await store.get(memory.id, viewer="default")).topic == "seen"


class FindContract:
    """Filters, orders, pages, scans."""

    async def test_each_condition(self, store: Store, build: Builder) -> None:
        await store.put_scope(build.scope("work"))
        plain, special = await put_all(
            store,
            build.put(trust=0.2),
            build.put(
                scope="work",
                agent="ada",
                kind=Kind.ERROR,
                tags=("Straße", "two"),
                topic="ÄRGER",
                anchor=True,
                tier=Tier.COLD,
                provenance=Provenance(conversation="talk", position=0),
            ),
        )
        for where in (
            Filter(viewer="ada", scopes=("work", "nowhere")),
            Filter(viewer="ada", agents=("ada",)),
            Filter(viewer="ada", kinds=(Kind.ERROR, Kind.NOTE)),
            Filter(viewer="ada", tags=("STRASSE",)),
            Filter(viewer="ada", tags=("two", "straße")),
            Filter(viewer="ada", tags=("STRASSE", "nowhere"), tags_any=True),
            Filter(viewer="ada", anchored=True),
            Filter(viewer="ada", tiers=(Tier.COLD,)),
            Filter(viewer="ada", topic="ärger"),
            Filter(viewer="ada", since=special.occurred),
            Filter(viewer="ada", conversation="talk"),
            Filter(viewer="ada", minimum_trust=0.5),
            Filter(viewer="ada", ids=(special.id, "missing")),
        ):
            assert ids(await store.find(where)) == [special.id], where
            assert await store.count(where) == 1, where
        assert ids(await store.find(Filter(viewer="ada", until=special.occurred))) == [plain.id]
        assert ids(await store.find(Filter(viewer="ada", topic=""))) == [plain.id]
        assert await store.find(Filter(viewer="ada", scopes=("nowhere",))) == []
        assert await store.find(Filter(viewer="ada", tags=("two", "three"))) == []

    async def test_only_active_ones_unless_asked(self, store: Store, build: Builder) -> None:
        await store.apply([build.put(status=status) for status in Status])
        assert await store.count(Filter()) == 1
        assert await store.count(Filter(statuses=(Status.FORGOTTEN, Status.ARCHIVED))) == 2
        assert await store.count(Filter(statuses=())) == len(Status)

    async def test_orders(self, store: Store, build: Builder) -> None:
        old, middle, new = await put_all(
            store,
            build.put(importance=0.9, uses=1),
            build.put(importance=0.1, uses=2),
            build.put(importance=0.9, uses=0),
        )
        assert ids(await store.find(Filter())) == [new.id, middle.id, old.id]
        assert ids(await store.find(Filter(), order=Order.OLDEST)) == [old.id, middle.id, new.id]
        assert ids(await store.find(Filter(), order=Order.IMPORTANT)) == [new.id, old.id, middle.id]
        assert ids(await store.find(Filter(), order=Order.USED)) == [middle.id, old.id, new.id]

    async def test_scan_gives_all_in_order_of_id(self, store: Store, build: Builder) -> None:
        memories = await put_all(store, *(build.put(occurred=START) for _ in range(25)))
        batches = [batch async for batch in store.scan(Filter(), batch=10)]
        assert [len(batch) for batch in batches] == [10, 10, 5]
        assert [memory for batch in batches for memory in batch] == memories
        assert [batch async for batch in store.scan(Filter(scopes=("nowhere",)))] == []

    async def test_scan_while_others_write(self, store: Store, build: Builder) -> None:
        memories = await put_all(store, *(build.put() for _ in range(20)))
        seen: list[str] = []
        async for batch in store.scan(Filter(), batch=5):
            seen += ids(batch)
            if len(seen) < 20:
                await store.apply([build.put()])
        assert seen[:20] == ids(memories)
        assert len(seen) == len(set(seen)) == 23


class PagingContract:
    """Pages of a listing."""

    @pytest.mark.parametrize("order", list(Order))
    async def test_pages_join_without_gap_or_overlap(
        self, store: Store, build: Builder, order: Order
    ) -> None:
        same = START
        await store.apply(
            [
                build.put(
                    occurred=same if n % 3 else build.now,
                    importance=n % 2,
                    uses=n % 4,
                    review=same if n % 3 else build.now,
                )
                for n in range(23)
            ]
        )
        whole = ids(await store.find(Filter(), order=order, limit=100))
        pages: list[str] = []
        after = None
        while page := await store.find(Filter(), order=order, limit=5, after=after):
            pages += ids(page)
            after = page[-1].id
        assert pages == whole
        assert len(set(whole)) == 23

    @pytest.mark.parametrize("order", list(Order))
    async def test_a_page_begins_where_the_last_one_ended_whatever_is_written(
        self, store: Store, build: Builder, order: Order
    ) -> None:
        moments = [START + timedelta(hours=n // 2) for n in range(12)]  # pairs share a sort value
        puts = [
            build.put(occurred=moment, importance=(n // 2) / 10, uses=n // 2, review=moment)
            for n, moment in enumerate(moments)
        ]
        await store.apply(puts)
        whole = await store.find(Filter(), order=order, limit=100)
        first_page = await store.find(Filter(), order=order, limit=5)
        assert first_page == whole[:5]
        position = PagePosition.of(first_page[-1], order)
        await store.erase([first_page[-1].id])
        assert await store.find(Filter(), order=order, limit=4, after=position) == whole[5:9]
        amended = replace(first_page[0], occurred=START, importance=0.0)
        await store.apply([Revise(amended), build.put(occurred=build.now, importance=1.0, uses=99)])
        rest = await store.find(Filter(), order=order, limit=100, after=position)
        assert [memory for memory in rest if memory.id in ids(whole[5:])] == whole[5:]
        assert not set(ids(first_page[1:])) & set(ids(rest))
        position = PagePosition.of(whole[8], order)
        await store.apply([Revise(replace(whole[8], occurred=START - timedelta(days=9), importance=0.99))])
        rest = await store.find(Filter(ids=tuple(ids(whole[9:]))), order=order, limit=100, after=position)
        assert rest == whole[9:]

    async def test_nothing_comes_after_a_record_without_a_position(
        self, store: Store, build: Builder
    ) -> None:
        await store.apply([build.put(review=START), build.put(review=None)])
        assert len(await store.find(Filter(), order=Order.DUE)) == 1
        assert await store.find(Filter(), order=Order.DUE, after=PagePosition(None, "")) == []

    async def test_a_position_needs_no_record(self, store: Store, build: Builder) -> None:
        [memory] = await put_all(store, build.put(occurred=START))
        for last, expected in (("", []), ("~", [memory])):
            assert await store.find(Filter(), after=PagePosition(START, last)) == expected
        assert await store.find(Filter(), after=PagePosition(START + timedelta(days=1), "x")) == [memory]

    async def test_a_page_after_a_missing_record(self, store: Store, build: Builder) -> None:
        await store.apply([build.put()])
        with pytest.raises(MemoryNotFound):
            await store.find(Filter(), after="missing")


_TURN: dict[str, Any] = {
    "kind": Kind.EPISODE,
    "provenance": Provenance(dialect=LOG_DIALECT, conversation="talk", position=1),
}


class TurnsContract:
    """Messages are counted and listed separately, a long one once."""

    async def test_a_message_counts_once_and_nothing_else_counts(self, store: Store, build: Builder) -> None:
        by_user = {"message_type": "user"}
        turns = [
            build.put("short", metadata=by_user, **_TURN),
            build.put("first of a long one", metadata={**by_user, "parts": 3}, **_TURN),
            build.put("names the word inside", metadata={**by_user, "extras": {PART_KEY: 2}}, **_TURN),
            build.put("odd", metadata={**by_user, "extras": {"text": f'"{PART_KEY}" \x00 "$'}}, **_TURN),
            build.put("embedded", metadata=by_user, vector=unit(1), **_TURN),
        ]
        others = [
            build.put("second", metadata={**by_user, PART_KEY: 1}, **_TURN),
            build.put("third", metadata={**by_user, PART_KEY: 2, "gap": " "}, **_TURN),
            build.put("of another dialect", kind=Kind.EPISODE, metadata=by_user),
            build.put("a fact", provenance=_TURN["provenance"]),
            build.put("hidden", metadata=by_user, status=Status.QUARANTINED, **_TURN),
        ]
        await store.apply([*turns, *others])
        assert [is_turn(put.memory) for put in (*turns, *others)] == [True] * 5 + [False] * 4 + [True]
        expected = [put.memory.id for put in turns]
        for where in (Filter(turns=True), Filter(turns=True, scopes=("Global",), minimum_trust=0.5)):
            assert ids(await store.find(where, order=Order.OLDEST)) == expected
            assert ids(await store.find(where, limit=2)) == expected[:-3:-1]
            assert await store.count(where) == 5
            tally = await store.tally(where, "embedded_by")
            embedded = await store.get(expected[-1], viewer="system")
            assert tally.get(MODEL, 0) == int(embedded.embedded_by is not None)
            assert (embedded.embedded_by is not None) == (Capability.VECTORS in store.capabilities)
            assert sum(tally.values()) == 5
        assert sorted(
            [memory.id async for page in store.scan(Filter(turns=True)) for memory in page]
        ) == sorted(expected)
        within = Filter(turns=True, conversation="talk", scopes=("Global",))
        assert await store.count(within) == 5
        assert await store.count(Filter(turns=True, scopes=("nowhere",))) == 0

    async def test_what_becomes_a_message_or_ceases_to_be_one(self, store: Store, build: Builder) -> None:
        put = build.put("said once", metadata={"message_type": "user"}, **_TURN)
        await store.apply([put])

        async def revised(**fields: Any) -> int:
            current = await store.get(put.memory.id, viewer="system")
            await store.apply([Revise(replace(current, **fields))])
            return await store.count(Filter(turns=True))

        assert await revised(kind=Kind.NOTE) == 0
        assert await revised(kind=Kind.EPISODE) == 1
        assert await revised(metadata={PART_KEY: 1}) == 0
