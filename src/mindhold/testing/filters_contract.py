"""What every store promises about filters: isolation of agents, due records, keywords, and filtered search."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from mindhold.model.errors import MemoryNotFound
from mindhold.model.lexemes import keyword_forms
from mindhold.model.memory import Kind, Provenance, Status, Tier
from mindhold.model.query import Filter, Order, Search
from mindhold.ports.store import Capability, Connect, Put, Revise, Store, Tend
from mindhold.testing.builders import (
    DIMENSIONS,
    MODEL,
    START,
    Builder,
    by_text,
    by_vector,
    ids,
    needs,
    position_in,
    unit,
)

DAY = timedelta(days=1)
LATER = START + DAY
LATEST = START + 2 * DAY
FAR = START + 100 * DAY


class DueContract:
    """Records that are due or wait for evaluation."""

    async def test_due_then_or_before(self, store: Store, build: Builder) -> None:
        never, early, then, late = (build.put(review=when) for when in (None, START, LATER, LATEST))
        hidden = build.put(review=START, status=Status.FORGOTTEN)
        await store.apply([never, late, then, early, hidden])
        where = Filter(due=LATER)
        assert ids(await store.find(where, order=Order.DUE)) == [early.memory.id, then.memory.id]
        assert await store.count(where) == 2
        assert await store.tally(where, "status") == {"active": 2}
        assert [ids(batch) async for batch in store.scan(where)] == [[early.memory.id, then.memory.id]]
        assert await store.count(Filter(due=START - DAY)) == 0
        assert await store.count(Filter(due=FAR, statuses=())) == 4
        everything = await store.find(Filter(statuses=()), order=Order.DUE)
        assert ids(everything) == [early.memory.id, hidden.memory.id, then.memory.id, late.memory.id]
        assert await store.find(Filter(due=LATER, ids=(late.memory.id,)), order=Order.DUE) == []

    async def test_the_most_overdue_first_page_by_page(self, store: Store, build: Builder) -> None:
        await store.put_scope(build.scope("work"))
        puts = [
            build.put(
                review=None if n % 5 == 4 else START + DAY * (n * 7 % 4),
                scope="work" if n % 2 else "Global",
                agent="ada" if n % 3 else "default",
            )
            for n in range(37)
        ]
        await store.apply(puts)
        for where in (
            Filter(viewer="system", due=START + 2 * DAY),
            Filter(viewer="ada", due=FAR, scopes=("work",)),
            Filter(due=FAR),
        ):
            visible = [
                put.memory
                for put in puts
                if put.memory.review is not None
                and where.due is not None
                and put.memory.review <= where.due
                and (where.viewer in ("system", "ada") or put.memory.agent == "default")
                and (not where.scopes or put.memory.scope in where.scopes)
            ]
            expected = ids(sorted(visible, key=lambda memory: (memory.review, memory.id)))
            pages: list[str] = []
            after = None
            while page := await store.find(where, order=Order.DUE, limit=4, after=after):
                pages += ids(page)
                after = page[-1].id
            assert pages == expected
            assert len(pages) > 4

    async def test_a_reviewed_memory_is_no_longer_due(
        self, store: Store, other: Store, build: Builder
    ) -> None:
        puts = [build.put(review=START) for _ in range(12)]
        await store.apply(puts)
        done: list[str] = []
        while batch := await store.find(Filter(due=LATER), order=Order.DUE, limit=5):
            done += ids(batch)
            await other.apply([Tend(memory.id, review=FAR, unless_since=LATER) for memory in batch])
        assert done == [put.memory.id for put in puts]
        await other.touch([done[3]], LATER)
        assert ids(await store.find(Filter(due=LATER), order=Order.DUE)) == [done[3]]

    @pytest.mark.parametrize(("field", "condition"), [("verified", "unverified"), ("examined", "unexamined")])
    async def test_memories_that_wait(
        self, store: Store, other: Store, build: Builder, field: str, condition: str
    ) -> None:
        waiting = [build.put() for _ in range(3)]
        marked: dict[str, Any] = {field: START}
        unmarked: dict[str, Any] = {field: None}
        done, hidden = build.put(**marked), build.put(status=Status.FORGOTTEN)
        await store.apply([*waiting, done, hidden])
        flag: dict[str, Any] = {condition: True}
        where = Filter(**flag)
        expected = [put.memory.id for put in waiting]
        assert ids(await store.find(where, order=Order.OLDEST)) == expected
        for order in (Order.NEWEST, Order.IMPORTANT, Order.USED):
            assert set(ids(await store.find(where, order=order))) == set(expected)
        assert await store.count(where) == 3
        assert await store.count(replace(where, statuses=())) == 4
        assert await store.count(replace(where, statuses=(Status.FORGOTTEN, Status.ACTIVE))) == 4
        assert [ids(batch) async for batch in store.scan(where)] == [expected]
        await other.apply([Tend(expected[0], **marked)])
        assert ids(await store.find(where, order=Order.OLDEST, limit=1)) == expected[1:2]
        again = replace(done.memory, content="amended", content_hash="amended", **unmarked)
        await other.apply([Put(again, ["amended"])])
        assert ids(await store.find(where)) == [done.memory.id, *reversed(expected[1:])]
        await other.erase([done.memory.id])
        assert await store.count(where) == 2

    async def test_both_at_once(self, store: Store, build: Builder) -> None:
        both, one_of_them, neither = (
            build.put(),
            build.put(verified=START),
            build.put(verified=START, examined=START),
        )
        await store.apply([both, one_of_them, neither])
        assert ids(await store.find(Filter(unverified=True, unexamined=True))) == [both.memory.id]

    @needs(Capability.VECTORS)
    async def test_a_search_keeps_to_it(self, store: Store, build: Builder) -> None:
        old: dict[str, Any] = {"verified": START, "examined": START}
        plain = build.put("thing plain", vector=unit(1), **old)
        due, unverified, unexamined = (
            build.put("thing due", vector=unit(1, 1), review=START, **old),
            build.put("thing unverified", vector=unit(1, 2), examined=START),
            build.put("thing unexamined", vector=unit(1, 3), verified=START),
        )
        await store.apply([plain, due, unverified, unexamined])
        for put, where in (
            (due, Filter(due=START)),
            (unverified, Filter(unverified=True)),
            (unexamined, Filter(unexamined=True)),
        ):
            hits = await store.search(Search(where, ("thing",), unit(1), MODEL))
            assert (hits.ids, hits.total) == ([put.memory.id], 1)
            (near,) = await store.nearest([unit(1)], model=MODEL, where=where, limit=9)
            assert [neighbour.id for neighbour in near] == [put.memory.id]


class KeywordsContract:
    """Finding by keywords in their comparison form."""

    async def find_ids(self, store: Store, *keywords: str, any_of: bool = False, **where: Any) -> set[str]:
        condition = Filter(keywords=keyword_forms(keywords), keywords_any=any_of, **where)
        memories = await store.find(condition)
        assert await store.count(condition) == len(memories)
        return set(ids(memories))

    @pytest.mark.parametrize(
        ("keyword", "matches", "others"),
        [
            ("Databases", ("database", "DATABASE", "databases "), ("data", "base", "databased on")),
            ("Café", ("cafe", "CAFÉ"), ("caf", "cafeteria")),
            ("Deploy window", ("deploys windows", "DEPLOY WINDOW"), ("deploy", "window", "window deploy")),
            ("데이터베이스", ("데이터베이스",), ("데이터", "베이스")),
            ("東京都", ("東京都",), ("東京", "京都")),
            ("🦊", ("🦊",), ("🐺",)),
            ("50%_off'; --", ("50%_OFF'; --",), ("%", "_", "50")),
        ],
    )
    async def test_keywords_match_by_their_form(
        self, store: Store, build: Builder, keyword: str, matches: tuple[str, ...], others: tuple[str, ...]
    ) -> None:
        put = build.put(keywords=(keyword, "beside"))
        await store.apply([put, build.put(keywords=("beside",)), build.put(keyword)])
        for variant in matches:
            assert await self.find_ids(store, variant) == {put.memory.id}, variant
            assert await self.find_ids(store, variant, "besides") == {put.memory.id}
        for variant in others:
            assert await self.find_ids(store, variant) == set(), variant
            assert await self.find_ids(store, "beside", variant) == set()

    async def test_all_or_any_keywords(self, store: Store, build: Builder) -> None:
        red, blue, both = (build.put(keywords=words) for words in (("Red",), ("blue",), ("blue", "RED")))
        await store.apply([red, blue, both, build.put(tags=("red",), topic="blue")])
        assert await self.find_ids(store, "red", "blue") == {both.memory.id}
        assert await self.find_ids(store, "red", "red") == {red.memory.id, both.memory.id}
        everyone = {put.memory.id for put in (red, blue, both)}
        assert await self.find_ids(store, "red", "blue", any_of=True) == everyone
        assert await self.find_ids(store, "green", "blue", any_of=True) == {blue.memory.id, both.memory.id}
        assert await self.find_ids(store, "green", any_of=True) == set()
        assert await store.count(Filter(keywords_any=True)) == 4
        assert await store.tally(Filter(keywords=keyword_forms(["red"])), "kind") == {"fact": 2}

    async def test_with_every_other_condition(self, store: Store, build: Builder) -> None:
        await store.put_scope(build.scope("work"))
        in_global, in_work = (
            build.put(keywords=("red",), tags=("t",)),
            build.put(keywords=("red",), scope="work"),
        )
        archived = build.put(keywords=("red",), status=Status.ARCHIVED)
        theirs = build.put(keywords=("red",), agent="ada")
        await store.apply([in_global, in_work, archived, theirs])
        for any_of in (False, True):
            assert await self.find_ids(store, "red", any_of=any_of) == {
                in_global.memory.id,
                in_work.memory.id,
            }
            assert await self.find_ids(store, "red", any_of=any_of, scopes=("work",)) == {in_work.memory.id}
            assert await self.find_ids(store, "red", any_of=any_of, tags=("T",)) == {in_global.memory.id}
            archived_ids = await self.find_ids(store, "red", any_of=any_of, statuses=(Status.ARCHIVED,))
            assert archived_ids == {archived.memory.id}
            her_ids = await self.find_ids(store, "red", any_of=any_of, viewer="ada", agents=("ada",))
            assert her_ids == {theirs.memory.id}

    async def test_keywords_follow_changes(self, store: Store, other: Store, build: Builder) -> None:
        put = build.put("first words", keywords=("red", "green"))
        await store.apply([put])
        memory = replace(put.memory, content="other words", content_hash="h", keywords=("Blue", "green"))
        await other.apply([Put(memory, ["other"])])
        assert await self.find_ids(store, "red") == set()
        assert await self.find_ids(store, "blues", "green") == {memory.id}
        await other.apply([Revise(replace(memory, keywords=("yellow",)))])
        assert await self.find_ids(store, "blue", "green", any_of=True) == set()
        assert await self.find_ids(store, "yellow") == {memory.id}
        await other.touch([memory.id], LATER)
        await other.apply([Tend(memory.id, tier=Tier.COLD)])
        assert await self.find_ids(store, "yellow") == {memory.id}
        await other.erase([memory.id])
        assert await self.find_ids(store, "yellow", statuses=()) == set()
        await other.apply([build.put("third", keywords=())])
        assert await self.find_ids(store, "yellow", "blue", any_of=True, statuses=()) == set()

    async def test_pages_and_scans(self, store: Store, build: Builder) -> None:
        puts = [build.put(keywords=("red",) if n % 2 else ("blue", f"n{n}")) for n in range(40)]
        await store.apply(puts)
        expected = [put.memory.id for put in puts if put.memory.keywords == ("red",)]
        where = Filter(keywords=keyword_forms(["Red"]))
        assert [
            memory_id async for batch in store.scan(where, batch=7) for memory_id in ids(batch)
        ] == expected
        first = await store.find(where, order=Order.OLDEST, limit=8)
        rest = await store.find(where, order=Order.OLDEST, after=first[-1].id)
        assert ids([*first, *rest]) == expected

    @needs(Capability.VECTORS)
    async def test_a_search_keeps_to_them(self, store: Store, other: Store, build: Builder) -> None:
        put = build.put("thing far", vector=unit(0, 1), keywords=("Lamps",))
        await store.apply([build.put(f"thing n{n}", vector=unit(1, n / 99)) for n in range(30)] + [put])
        for any_of in (False, True):
            where = Filter(keywords=keyword_forms(["lamp"]), keywords_any=any_of)
            hits = await other.search(Search(where, ("thing",), unit(1), MODEL, pool=3))
            assert (hits.ids, hits.total) == ([put.memory.id], 1)
            (near,) = await other.nearest([unit(1)], model=MODEL, where=where, limit=3)
            assert [neighbour.id for neighbour in near] == [put.memory.id]

    async def test_repair_keeps_keywords(self, store: Store, build: Builder) -> None:
        put = build.put(keywords=("red", "두 단어"))
        await store.apply([put])
        await store.repair()
        assert await self.find_ids(store, "RED", "두 단어") == {put.memory.id}


OUTSIDERS = (
    "mallory",
    "default",
    "",
    "%",
    "*",
    "ADA",
    "ada ",
    "ada' OR '1'='1",
    "default') OR 1=1 --",
    "Admin",
    "SYSTEM",
    "ada\x00",
)


class IsolationContract:
    """Ada's record, which only Ada, system and admin see."""

    @pytest.fixture
    async def private(self, store: Store, build: Builder) -> Put:
        put = build.put(
            "ada private zanzibar",
            agent="ada",
            vector=unit(1),
            tags=("hers",),
            topic="own",
            keywords=("zanzibar",),
            review=START,
        )
        await store.apply([put])
        return put

    @pytest.fixture
    async def shared(self, store: Store, private: Put, build: Builder) -> Put:
        put = build.put("everyone public quito", vector=unit(0, 1), verified=START, examined=START)
        await store.apply([put, Connect(build.link(private.memory, put.memory))])
        return put

    @pytest.mark.parametrize("viewer", OUTSIDERS)
    async def test_outsiders_see_nothing(self, store: Store, private: Put, shared: Put, viewer: str) -> None:
        memory_id, open_id = private.memory.id, shared.memory.id
        with pytest.raises(MemoryNotFound):
            await store.get(memory_id, viewer=viewer)
        assert set(await store.get_many([memory_id, open_id], viewer=viewer)) == {open_id}
        assert await store.resolve(memory_id, viewer=viewer) == []
        assert await store.resolve("", viewer=viewer) == [open_id]
        assert await store.links_of([open_id, memory_id], viewer=viewer) == []
        with pytest.raises(MemoryNotFound):
            await store.find(Filter(viewer=viewer), after=memory_id)
        with pytest.raises(MemoryNotFound):
            await store.find(Filter(viewer=viewer, due=START), order=Order.DUE, after=memory_id)
        assert [batch async for batch in store.scan(Filter(viewer=viewer, ids=(memory_id,)))] == []

    @pytest.mark.parametrize("viewer", OUTSIDERS)
    async def test_no_filter_widens_the_view(
        self, store: Store, private: Put, shared: Put, viewer: str
    ) -> None:
        for where in (
            Filter(viewer=viewer, agents=("ada",)),
            Filter(viewer=viewer, agents=("ada", "default"), ids=(private.memory.id,)),
            Filter(viewer=viewer, tags=("hers",)),
            Filter(viewer=viewer, topic="own"),
            Filter(viewer=viewer, statuses=(), ids=(private.memory.id,)),
            Filter(viewer=viewer, keywords=("zanzibar",)),
            Filter(viewer=viewer, keywords=("zanzibar", "quito"), keywords_any=True, agents=("ada",)),
            Filter(viewer=viewer, due=START),
            Filter(viewer=viewer, due=START, statuses=(), keywords=("zanzibar",)),
            Filter(viewer=viewer, unverified=True),
            Filter(viewer=viewer, unexamined=True, statuses=()),
        ):
            for order in Order:
                assert await store.find(where, order=order) == [], where
            assert await store.count(where) == 0
            assert await store.tally(where, "kind") == {}
            assert [batch async for batch in store.scan(where)] == []
            assert await store.count_links(where) == 0
            hits = await store.search(Search(where, lexemes=("zanzibar",)))
            assert (hits.ids, hits.total) == ([], 0)
        everything = Filter(viewer=viewer, statuses=())
        assert await store.tally(everything, "tag") == {}
        assert await store.tally(everything, "agent") == {"default": 1}
        assert await store.tally(everything, "topic") == {"": 1}

    @pytest.mark.parametrize("viewer", OUTSIDERS)
    @needs(Capability.VECTORS)
    async def test_no_search_finds_it(self, store: Store, private: Put, shared: Put, viewer: str) -> None:
        where = Filter(viewer=viewer)
        question = Search(where, lexemes=("zanzibar", "private"), vector=unit(1), model=MODEL)
        hits = await store.search(question)
        assert private.memory.id not in hits.ids
        assert hits.total == 1
        (nearest,) = await store.nearest([unit(1)], model=MODEL, where=where, limit=10)
        assert [neighbour.id for neighbour in nearest] == [shared.memory.id]

    @pytest.mark.parametrize("viewer", ["ada", "system", "admin"])
    async def test_the_owner_and_the_all_seeing_see_it(
        self, store: Store, private: Put, shared: Put, viewer: str
    ) -> None:
        memory_id = private.memory.id
        assert (await store.get(memory_id, viewer=viewer)).content == private.memory.content
        assert await store.count(Filter(viewer=viewer)) == 2
        assert len(await store.links_of([memory_id], viewer=viewer)) == 1
        hits = await store.search(Search(Filter(viewer=viewer), lexemes=("zanzibar",)))
        assert memory_id in hits.ids

    async def test_a_name_is_never_part_of_the_query(self, store: Store, build: Builder) -> None:
        hostile = "x'); DROP TABLE memory; --"
        put = build.put("hostile", agent=hostile, tags=(hostile,), topic=hostile, keywords=(hostile,))
        await store.apply([put])
        forms = keyword_forms([hostile])
        for any_of in (False, True):
            where = Filter(viewer=hostile, keywords=(*forms, *forms), keywords_any=any_of)
            assert await store.count(where) == 1
            assert await store.count(replace(where, keywords=("' OR '1'='1", hostile))) == 0
        assert (
            await store.count(Filter(viewer=hostile, agents=(hostile,), tags=(hostile,), topic=hostile)) == 1
        )
        assert await store.count(Filter(viewer="admin")) == 1


_CROWD = 2_000
_CROWDED: dict[str, Any] = {
    "scope": "crowded",
    "keywords": ("more",),
    "review": START + timedelta(days=9),
    "verified": START,
    "examined": START,
}

# Fields of a record, and a filter that only it passes.
_CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"scope": "Global"}, {"scopes": ("Global",)}),
    ({"agent": "other"}, {"agents": ("other",), "viewer": "other"}),
    ({"tags": ("Special", "more")}, {"tags": ("special",)}),
    ({"tags": ("Special", "more")}, {"tags": ("MORE", "special")}),
    ({"tags": ("Special", "more")}, {"tags": ("nowhere", "special"), "tags_any": True}),
    ({"anchor": True}, {"anchored": True}),
    ({"tier": Tier.HOT}, {"tiers": (Tier.HOT, Tier.PERMANENT)}),
    ({"kind": Kind.DECISION}, {"kinds": (Kind.DECISION, Kind.ERROR)}),
    ({"status": Status.ARCHIVED}, {"statuses": (Status.ARCHIVED,)}),
    ({"topic": "Sailing"}, {"topic": "sailing"}),
    ({"occurred": START - timedelta(days=9)}, {"until": START - timedelta(days=8)}),
    (
        {"occurred": START + timedelta(days=99)},
        {"since": START + timedelta(days=99), "until": START + timedelta(days=100)},
    ),
    ({"provenance": Provenance(conversation="talk", position=1)}, {"conversation": "talk"}),
    ({"keywords": ("Sailing boats", "more")}, {"keywords": keyword_forms(["more", "sailing BOAT"])}),
    ({"keywords": ("Boats", "more")}, {"keywords": keyword_forms(["boat", "nowhere"]), "keywords_any": True}),
    ({"review": START}, {"due": START}),
    ({"verified": None}, {"unverified": True}),
    ({"examined": None}, {"unexamined": True}),
    ({"kind": Kind.EPISODE, "provenance": Provenance(dialect="project")}, {"turns": True}),
    ({"id": "the-only-one"}, {"ids": ("the-only-one", "nobody")}),
    ({"scope": "Global", "tags": ("a",)}, {"scopes": ("Global", "crowded", "nowhere"), "tags": ("A",)}),
]


class FilteredContract:
    """The filter applies first: one matching record is found among thousands that are nearer but don't match."""

    @needs(Capability.VECTORS)
    async def test_the_one_that_matches_is_found(self, store: Store, build: Builder) -> None:
        await store.put_scope(build.scope("crowded"))
        wobble = 0.01 * np.random.default_rng(6).normal(size=(_CROWD, DIMENSIONS))
        near = np.asarray(unit(1) + wobble, dtype=np.float32)
        await store.apply(
            [build.put(f"thing n{i}", vector=vector, **_CROWDED) for i, vector in enumerate(near)]
        )
        for fields, where in _CASES:
            matching = build.put("thing that matches", vector=unit(0.2, 1), **(_CROWDED | fields))
            await store.apply([matching])
            hits = await store.search(Search(Filter(**where), ("thing",), unit(1), MODEL, pool=5))
            assert hits.ids == [matching.memory.id], where
            assert (hits.total, hits.embedded) == (1, 1)
            assert dict(hits.frequencies) == {"thing": 1}
            assert hits.average_length == 3
            assert hits.cosine_mean == pytest.approx(hits.cosines[0], abs=5e-3)
            nearest = await store.nearest([unit(1)], model=MODEL, where=Filter(**where), limit=3)
            assert [neighbour.id for neighbour in nearest[0]] == [matching.memory.id], where
            await store.erase([matching.memory.id])

    async def test_little_trusted_records_can_be_left_out(self, store: Store, build: Builder) -> None:
        doubtful, sure = build.put("thing doubtful", vector=unit(1), trust=0.2), build.put("thing", trust=0.5)
        await store.apply([doubtful, sure])
        assert len((await by_text(store, "thing")).ids) == 2
        assert (await by_text(store, "thing", minimum_trust=0.5)).ids == [sure.memory.id]
        assert (await by_vector(store, unit(1), minimum_trust=0.3)).ids == []

    @needs(Capability.VECTORS)
    async def test_a_part_of_a_conversation(self, store: Store, build: Builder) -> None:
        turns = [build.put(f"turn t{i}", vector=unit(1), provenance=position_in("talk", i)) for i in range(9)]
        elsewhere = build.put("turn elsewhere", vector=unit(1), provenance=position_in("other talk", 4))
        await store.apply([*turns, elsewhere, build.put("turn without a place", vector=unit(1))])
        for first, last in ((3, 5), (0, 0), (8, 20), (5, 3), (-4, -1)):
            expected = [turn.memory.id for turn in turns[max(first, 0) : max(last + 1, 0)]]
            where = Filter(conversation="talk", positions=(first, last))
            assert {memory.id for memory in await store.find(where)} == set(expected)
            assert await store.count(where) == len(expected)
            hits = await store.search(Search(where, ("turn",), unit(1), MODEL))
            assert set(hits.ids) == set(expected)
            assert hits.total == hits.frequencies["turn"] == len(expected)
            near = await store.nearest([unit(1)], model=MODEL, where=where, limit=20)
            assert {neighbour.id for neighbour in near[0]} == set(expected)

    @needs(Capability.VECTORS)
    async def test_nobody_finds_another_agents_records(self, store: Store, build: Builder) -> None:
        talk = {"scope": "Global"}
        mine = build.put("shared word", vector=unit(1), agent="me", provenance=position_in("talk", 1), **talk)
        theirs = build.put(
            "shared word too", vector=unit(1), agent="them", provenance=position_in("talk", 2), **talk
        )
        common = build.put("shared word three", vector=unit(1), provenance=position_in("talk", 3), **talk)
        await store.apply([mine, theirs, common])
        everything = [mine, theirs, common]
        for viewer, visible in (("me", [mine, common]), ("them", [theirs, common]), ("admin", everything)):
            for agents in ((), ("me", "them", "default")):
                where = Filter(viewer=viewer, agents=agents)
                hits = await store.search(Search(where, ("shared",), unit(1), MODEL))
                assert set(hits.ids) == {put.memory.id for put in visible}
                assert hits.total == hits.embedded == hits.frequencies["shared"] == len(visible)
                near = await store.nearest([unit(1)], model=MODEL, where=where, limit=9)
                assert {neighbour.id for neighbour in near[0]} == set(hits.ids)
        assert (await by_text(store, "shared", viewer="me", agents=("them",))).ids == []
        named = await by_text(store, "shared", viewer="me", ids=(theirs.memory.id,))
        assert named.ids == []


class NeighboursContract:
    """The two records before and after a leading candidate in its conversation come with it."""

    @needs(Capability.VECTORS)
    async def test_they_are_added_with_all_that_a_ranking_needs(self, store: Store, build: Builder) -> None:
        turns = [
            build.put(f"turn t{i} lamp lamp", vector=unit(1, i), provenance=position_in("talk", i))
            for i in range(9)
        ]
        elsewhere = [build.put(f"else e{i}", provenance=position_in("other talk", i)) for i in range(9)]
        await store.apply([*turns, *elsewhere])
        hits = await store.search(Search(Filter(), ("t4", "lamp"), unit(1, 4), MODEL, pool=4))
        alone = await store.search(
            Search(Filter(), ("t4", "lamp"), unit(1, 4), MODEL, pool=4, neighbours=False)
        )
        assert set(alone.ids) <= set(hits.ids)
        assert {turns[i].memory.id for i in (3, 4, 5)} <= set(hits.ids)
        assert not {put.memory.id for put in elsewhere} & set(hits.ids)
        assert len(set(hits.ids)) == len(hits.ids)
        for index, memory_id in enumerate(hits.ids):
            number = int(hits.positions[index])
            assert turns[number].memory.id == memory_id
            assert hits.counts[index].tolist() == [int(number == 4), 2]
            expected = float(unit(1, number) @ unit(1, 4))
            assert hits.cosines[index] == pytest.approx(expected, abs=2e-3)

    async def test_they_come_without_vectors_too(self, store: Store, build: Builder) -> None:
        turns = [build.put(f"only o{i}", provenance=position_in("talk", i)) for i in range(9)]
        await store.apply(turns)
        hits = await store.search(Search(Filter(), ("o4",)))
        assert sorted(hits.positions.tolist()) == [2, 3, 4, 5, 6]
        assert hits.counts.sum() == 1

    async def test_they_pass_the_filter_as_all_others_do(self, store: Store, build: Builder) -> None:
        middle = build.put("middle", provenance=position_in("talk", 5))
        before = build.put("before", provenance=position_in("talk", 4), status=Status.FORGOTTEN)
        after = build.put("after", provenance=position_in("talk", 6), agent="them")
        await store.apply([middle, before, after])
        hits = await store.search(Search(Filter(viewer="me"), ("middle",)))
        assert hits.ids == [middle.memory.id]

    async def test_neighbours_follow_changes(self, store: Store, other: Store, build: Builder) -> None:
        first = build.put("first", provenance=position_in("talk", 0))
        await store.apply([first])
        assert len((await other.search(Search(Filter(), ("first",)))).ids) == 1
        second = build.put("second", provenance=position_in("talk", 1))
        await store.apply([second])
        assert len((await other.search(Search(Filter(), ("first",)))).ids) == 2
        await store.apply([Revise(replace(second.memory, provenance=position_in("talk", 8)))])
        assert len((await other.search(Search(Filter(), ("first",)))).ids) == 1
        await store.apply([Revise(second.memory)])
        assert len((await other.search(Search(Filter(), ("first",)))).ids) == 2
