"""One store over several keeps the store's contract, wherever the records are, and answers as one that has them all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from mindhold.model.errors import Refused
from mindhold.model.lexemes import keyword_forms
from mindhold.model.memory import Kind, Status, Tier
from mindhold.model.query import Candidates, Filter, Order, Search
from mindhold.model.ranking import Cosines, fuse
from mindhold.model.scope import GLOBAL
from mindhold.ports.backend import Placement
from mindhold.ports.store import Capability, Connect, Keep, Put, Rate, Revise, Store, Tend
from mindhold.stores.registry import OpenStoreRegistry, opened_store
from mindhold.stores.routed.store import RoutedStore
from mindhold.stores.sqlite.store import SqliteStore
from mindhold.testing.builders import MODEL, START, Builder, unit
from mindhold.testing.store_contract import Reopen, StoreContract

SQLITE = frozenset(
    {Capability.FULL_TEXT, Capability.VECTORS, Capability.TRANSACTIONS, Capability.ERASURE_PROOF}
)


def houses(folder: Path) -> OpenStoreRegistry:
    """A file for each mode."""

    def maker(mode: str) -> AbstractAsyncContextManager[Store]:
        return opened_store(SqliteStore(folder / f"{mode}.db", clock=lambda: START))

    return OpenStoreRegistry(
        "local", {mode: lambda mode=mode: maker(mode) for mode in ("local", "postgres", "mongodb")}
    )


async def routed(folder: Path, away: Mapping[str, str]) -> RoutedStore:
    """Open, with these scopes in other stores."""
    own = houses(folder)
    store = RoutedStore(own, clock=lambda: START)
    await store.open()
    await own.settle(lambda places: {**places, **{name: Placement(mode) for name, mode in away.items()}})
    return store


class RoutedContract(StoreContract):
    expects = SQLITE
    away: ClassVar[Mapping[str, str]] = {}

    @pytest.fixture
    async def reopen(self, tmp_path: Path) -> AsyncIterator[Reopen]:
        opened: list[Store] = []

        async def open_another() -> Store:
            opened.append(await routed(tmp_path, self.away))
            return opened[-1]

        yield open_another
        for store in opened:
            await store.close()


class TestSomeElsewhere(RoutedContract):
    """Records of one test in three stores."""

    away: ClassVar = {
        "work": "postgres",
        "team": "mongodb",
        "a": "mongodb",
        "b": "postgres",
    }

    async def test_revise_leaves_content_and_vector(self, store: Store, build: Builder) -> None:
        """Into another store's scope it can't be revised."""
        await store.put_scope(build.scope("work"))
        put = build.put("kept words", vector=unit(1))
        await store.apply([put])
        with pytest.raises(Refused):
            await store.apply([Revise(replace(put.memory, scope="work"))])
        assert await store.get(put.memory.id, viewer="default") == put.memory


@pytest.fixture
async def one(tmp_path: Path) -> AsyncIterator[Store]:
    """Everything in one store."""
    store = await routed(tmp_path / "one", {})
    yield store
    await store.close()


@pytest.fixture
async def several(tmp_path: Path) -> AsyncIterator[Store]:
    """The same in three."""
    store = await routed(tmp_path / "several", {"shop": "postgres", "zoo": "mongodb"})
    yield store
    await store.close()


async def filled(store: Store, build: Builder, *, records: int = 240) -> list[Put]:
    """Records of three scopes, alike but not the same; a conversation in each, some links and versions."""
    random = np.random.default_rng(7)
    for name in ("shop", "zoo"):
        await store.put_scope(build.scope(name))
    vocabulary = [f"w{number}" for number in range(40)]
    puts = []
    for number in range(records):
        scope = (GLOBAL, "shop", "zoo")[number % 3]
        said = " ".join(random.choice(vocabulary, size=random.integers(2, 30)))
        vector = None if number % 7 == 0 else unit(*random.normal(size=32))
        put = build.put(
            f"r{number} {said}",
            scope=scope,
            vector=vector,
            tags=("Red" if number % 2 else "red", f"t{number % 5}"),
            kind=list(Kind)[number % 4],
            importance=float(number % 10) / 10,
            uses=number % 6,
            agent="ada" if number % 11 == 0 else "default",
            keywords=(("Lamps", "light"), ("light",), ())[number % 5 % 3],
            usefulness=float(number % 9 - 4) / 4,
            review=START + timedelta(days=number * 7 % 5),
            verified=START if number % 4 else None,
            examined=START if number % 3 else None,
        )
        puts.append(put)
    await store.apply(puts)
    same = [(puts[n].memory, puts[n + 3].memory) for n in range(20)]
    await store.apply([Connect(build.link(first, second)) for first, second in same])
    await store.apply([Keep(build.version(put.memory, 1, "before")) for put in puts[:30]])
    return puts


def picture(found: Candidates) -> dict[str, object]:
    """Candidates without their order."""
    rows = {
        memory_id: (
            found.counts[row].tolist(),
            found.lengths[row],
            None if np.isnan(found.cosines[row]) else round(float(found.cosines[row]), 6),
            found.importance[row],
            found.uses[row],
            found.usefulness[row],
            found.occurred[row],
        )
        for row, memory_id in enumerate(found.ids)
    }
    numbers = (found.average_length, found.cosine_mean, found.cosine_deviation)
    return {
        "rows": rows,
        "total": found.total,
        "embedded": found.embedded,
        "frequencies": dict(found.frequencies),
        "numbers": [round(number, 4) for number in numbers],
    }


def best(found: Candidates, lexemes: tuple[str, ...], most: int) -> list[str]:
    """What a ranking makes of them."""
    scores = fuse(found, lexemes, unrelated=Cosines(0.0, 0.15)).score
    return [found.ids[row] for row in np.argsort(-scores, kind="stable")[: 1 if most < 1000 else 10]]


@pytest.mark.parametrize("pool", [5, 20, 1000])
@pytest.mark.parametrize("scopes", [(), ("shop", GLOBAL), ("zoo", "shop"), ("zoo",), ("nowhere",)])
async def test_the_same_candidates_and_statistics(
    one: Store, several: Store, scopes: tuple[str, ...], pool: int
) -> None:
    await filled(one, Builder())
    await filled(several, Builder())
    for viewer in ("default", "system"):
        search = Search(
            Filter(viewer=viewer, scopes=scopes),
            ("w3", "w11", "r9", "nothing"),
            unit(1, -1, 2),
            MODEL,
            pool=pool,
        )
        both = [await store.search(search) for store in (one, several)]
        pictures = [picture(found) for found in both]
        tops = [best(found, search.lexemes, pool) for found in both]
        assert tops[0] == tops[1]
        if pool < 1000:  # at the edge of a pool equals are chosen by chance
            pictures = [{name: value for name, value in each.items() if name != "rows"} for each in pictures]
        assert pictures[0] == pictures[1]
        near = [
            await store.nearest([unit(1), unit(0, 1)], model=MODEL, where=search.filter, limit=pool)
            for store in (one, several)
        ]
        assert [{n.id: round(n.cosine, 5) for n in each} for each in near[0]] == [
            {n.id: round(n.cosine, 5) for n in each} for each in near[1]
        ]
        assert [n.cosine for n in near[1][0]] == sorted((n.cosine for n in near[1][0]), reverse=True)


@pytest.mark.parametrize("order", list(Order))
async def test_the_same_pages_tallies_and_scans(one: Store, several: Store, order: Order) -> None:
    puts = await filled(one, Builder())
    await filled(several, Builder())
    ids = [put.memory.id for put in puts]
    for where in (
        Filter(viewer="system"),
        Filter(scopes=("shop", GLOBAL)),
        Filter(tags=("RED",)),
        Filter(keywords=keyword_forms(["lamp", "LIGHT"])),
        Filter(keywords=keyword_forms(["lamp", "light"]), keywords_any=True),
        Filter(due=START + timedelta(days=2)),
        Filter(viewer="system", unverified=True),
        Filter(unexamined=True, scopes=("zoo", GLOBAL)),
    ):
        pages: list[list[str]] = []
        for store in (one, several):
            seen, after = [], None
            while page := await store.find(where, order=order, limit=17, after=after):
                seen += [memory.id for memory in page]
                after = page[-1].id
            pages.append(seen)
        assert pages[0] == pages[1]
        assert await several.count(where) == await one.count(where) == len(pages[0])
        for by in ("kind", "status", "scope", "agent", "embedded_by"):
            assert await several.tally(where, by) == await one.tally(where, by)
        tags = [await store.tally(where, "tag") for store in (one, several)]
        folded = [{tag.casefold(): count for tag, count in each.items()} for each in tags]
        assert folded[0] == folded[1]
        scans = [
            [m async for batch in store.scan(where, batch=13) for m in batch] for store in (one, several)
        ]
        assert scans[0] == scans[1]
        assert await several.count_links(where) == await one.count_links(where)
    assert await several.links_of(ids, viewer="system") == await one.links_of(ids, viewer="system")
    assert await several.versions_among(ids) == await one.versions_among(ids)
    assert await several.resolve("m0000", viewer="system") == await one.resolve("m0000", viewer="system")
    assert set(await several.vector_of(ids, model=MODEL)) == set(await one.vector_of(ids, model=MODEL))
    missing = [{m.id for m in await store.unembedded(MODEL, limit=1000)} for store in (one, several)]
    assert missing[0] == missing[1]
    assert len(await several.unembedded("another", limit=50)) == 50


async def test_links_do_not_lead_from_one_store_to_another(several: Store) -> None:
    build = Builder()
    puts = await filled(several, build)
    home, shop = puts[0].memory, puts[1].memory
    with pytest.raises(Refused):
        await several.apply([build.put("never written"), Connect(build.link(home, shop))])
    assert (await several.search(Search(Filter(), ("never",)))).ids == []
    beside = build.put("beside it", scope="shop")
    await several.apply([beside, Connect(build.link(beside.memory, home, automatic=True))])
    assert await several.links_of([beside.memory.id], viewer="system") == []


async def test_upkeep_reaches_every_store(several: Store) -> None:
    puts = await filled(several, Builder(), records=30)
    ids = [put.memory.id for put in puts]
    far, later = START + timedelta(days=99), START + timedelta(days=9)
    await several.apply([Tend(one, tier=Tier.COLD, review=far) for one in (*ids, "gone")])
    assert await several.find(Filter(viewer="system", due=later), order=Order.DUE) == []
    await several.note_shown([*ids, ids[0], "gone"], later)
    await several.apply([Rate(one, by=2.0, when=later) for one in ("gone", *ids[:15])])
    await several.apply([Tend(one, tier=Tier.HOT, unless_since=START) for one in ids])
    due = await several.find(Filter(viewer="system", due=later), order=Order.DUE)
    assert [memory.id for memory in due] == ids
    assert {memory.tier for memory in due} == {Tier.COLD}, "they were shown since"
    assert [memory.shown for memory in due] == [2] + [1] * 29
    assert {memory.usefulness for memory in due[:15]} == {1.0}
    assert [memory.usefulness for memory in due[15:]] == [put.memory.usefulness for put in puts[15:]]
    await several.touch(ids[:3], far)
    assert await several.tally(Filter(viewer="system"), "tier") == {"cold": 27, "hot": 3}


async def test_what_was_left_behind_is_hidden_and_is_erased_with_the_rest(tmp_path: Path) -> None:
    build, own = Builder(), houses(tmp_path)
    store = RoutedStore(own, clock=lambda: START)
    await store.open()
    puts = await filled(store, build, records=30)
    shop = [put.memory.id for put in puts if put.memory.scope == "shop"]
    elsewhere = await own.house("postgres")
    await elsewhere.put_scope(build.scope("shop"))
    kept = [put for put in puts if put.memory.id in shop[1:]]
    await elsewhere.apply(kept)
    await own.settle(lambda places: {**places, "shop": Placement("postgres", moves=1, copies=("local",))})
    everything = Filter(viewer="system", statuses=())
    assert await store.count(everything) == len(puts) - 1
    assert await store.get_many(shop[:1], viewer="system") == {}
    assert shop[0] not in await store.resolve("m", viewer="system")
    assert await store.links_of(shop, viewer="system") == [], "those were not copied"
    assert await store.versions_among(shop) == {}
    found = await store.search(Search(everything, ("r1", "r4"), unit(1), MODEL))
    assert found.total == len(puts) - 1
    assert shop[0] not in found.ids
    receipt = await store.erase([shop[1]])
    assert receipt.ids == (shop[1],)
    assert (receipt.removed["memories"], receipt.removed["copies: memories"]) == (1, 1)
    assert set(receipt.remaining.values()) == {0}
    home = await own.house("local")
    assert shop[1] not in await home.get_many(shop, viewer="system")
    await store.rename_scope("shop", "store")
    assert (await store.get(shop[2], viewer="system")).scope == "store"
    assert (await home.get(shop[2], viewer="system")).scope == "store"
    await store.erase(shop[1:])
    await store.drop_scope("store")
    assert "store" not in {scope.name for scope in await home.scopes()}
    assert await home.get_many(shop, viewer="system") == {}
    assert await own.places(fresh=True) == {}
    await store.close()


async def test_a_rename_that_was_broken_off_is_finished(tmp_path: Path) -> None:
    build, own = Builder(), houses(tmp_path)
    store = await routed(tmp_path, {"shop": "postgres"})
    await store.put_scope(build.scope("shop"))
    put = build.put("kept", scope="shop")
    await store.apply([put])
    await (await own.house("postgres")).rename_scope("shop", "store")
    await own.settle(lambda places: {**places, "shop": replace(places["shop"], renaming="store")})
    assert {scope.name for scope in await store.scopes()} == {GLOBAL, "store"}
    assert (await store.get(put.memory.id, viewer="default")).scope == "store"
    assert await own.places(fresh=True) == {"store": Placement("postgres")}
    await store.close()
    await own.close()


async def test_a_store_that_has_not_heard_of_a_move_writes_where_the_project_is(tmp_path: Path) -> None:
    build = Builder()
    stale, fresh = await routed(tmp_path, {}), houses(tmp_path)
    await stale.put_scope(build.scope("shop"))
    before = build.put("before", scope="shop")
    await stale.apply([before])
    elsewhere = await fresh.house("postgres")
    await elsewhere.put_scope(build.scope("shop"))
    await elsewhere.apply([before])
    await fresh.settle(lambda places: {"shop": Placement("postgres", moves=1, copies=("local",))})
    late = build.put("late", scope="shop")
    await stale.apply([late])  # within the second that it may not know
    await stale.apply([Revise(replace(before.memory, status=Status.ARCHIVED))])
    assert (await elsewhere.get(late.memory.id, viewer="default")) == late.memory
    assert (await elsewhere.get(before.memory.id, viewer="default")).status is Status.ARCHIVED
    await stale.close()
    await fresh.close()
