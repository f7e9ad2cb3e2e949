"""Attacks on the one rule of who sees whose records, through every method that shows any."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mindhold.model.errors import MemoryNotFound
from mindhold.model.keywords import keyword_forms
from mindhold.model.query import Filter, Order, Search
from mindhold.ports.store import Capability, Connect, Put, Store
from mindhold.testing.builders import MODEL, START, Builder, unit
from mindhold.testing.needs import needs

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
    """Ada's record, seen by nobody but Ada, system and admin."""

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
            found = await store.search(Search(where, lexemes=("zanzibar",)))
            assert (found.ids, found.total) == ([], 0)
        everything = Filter(viewer=viewer, statuses=())
        assert await store.tally(everything, "tag") == {}
        assert await store.tally(everything, "agent") == {"default": 1}
        assert await store.tally(everything, "topic") == {"": 1}

    @pytest.mark.parametrize("viewer", OUTSIDERS)
    @needs(Capability.VECTORS)
    async def test_no_search_finds_it(self, store: Store, private: Put, shared: Put, viewer: str) -> None:
        where = Filter(viewer=viewer)
        question = Search(where, lexemes=("zanzibar", "private"), vector=unit(1), model=MODEL)
        found = await store.search(question)
        assert private.memory.id not in found.ids
        assert found.total == 1
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
        found = await store.search(Search(Filter(viewer=viewer), lexemes=("zanzibar",)))
        assert memory_id in found.ids

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
