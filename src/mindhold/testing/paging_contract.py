"""What every store promises about pages, however much is written between two of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mindhold.model.errors import MemoryNotFound
from mindhold.model.query import Filter, Order, Spot
from mindhold.ports.store import Revise, Store
from mindhold.testing.builders import START, Builder
from mindhold.testing.records_contract import ids, stored


class PagingContract:
    """Find, page by page."""

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
        moments = [START + timedelta(hours=n // 2) for n in range(12)]  # two and two share a place
        puts = [
            build.put(occurred=moment, importance=(n // 2) / 10, uses=n // 2, review=moment)
            for n, moment in enumerate(moments)
        ]
        await store.apply(puts)
        whole = await store.find(Filter(), order=order, limit=100)
        seen = await store.find(Filter(), order=order, limit=5)
        assert seen == whole[:5]
        spot = Spot.of(seen[-1], order)
        await store.erase([seen[-1].id])
        assert await store.find(Filter(), order=order, limit=4, after=spot) == whole[5:9]
        amended = replace(seen[0], occurred=START, importance=0.0)
        await store.apply([Revise(amended), build.put(occurred=build.now, importance=1.0, uses=99)])
        rest = await store.find(Filter(), order=order, limit=100, after=spot)
        assert [memory for memory in rest if memory.id in ids(whole[5:])] == whole[5:]
        assert not set(ids(seen[1:])) & set(ids(rest))
        spot = Spot.of(whole[8], order)
        await store.apply([Revise(replace(whole[8], occurred=START - timedelta(days=9), importance=0.99))])
        rest = await store.find(Filter(ids=tuple(ids(whole[9:]))), order=order, limit=100, after=spot)
        assert rest == whole[9:]

    async def test_nothing_comes_after_what_has_no_place(self, store: Store, build: Builder) -> None:
        await store.apply([build.put(review=START), build.put(review=None)])
        assert len(await store.find(Filter(), order=Order.DUE)) == 1
        assert await store.find(Filter(), order=Order.DUE, after=Spot(None, "")) == []

    async def test_a_place_needs_no_record(self, store: Store, build: Builder) -> None:
        [memory] = await stored(store, build.put(occurred=START))
        for last, found in (("", []), ("~", [memory])):
            assert await store.find(Filter(), after=Spot(START, last)) == found
        assert await store.find(Filter(), after=Spot(START + timedelta(days=1), "x")) == [memory]

    async def test_a_page_after_a_missing_record(self, store: Store, build: Builder) -> None:
        await store.apply([build.put()])
        with pytest.raises(MemoryNotFound):
            await store.find(Filter(), after="missing")
