"""$vectorSearch finds what is not held in memory, and what its index doesn't know yet is found all the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import numpy as np
import pytest

from mindhold.model.memory import Status
from mindhold.model.query import Filter, Search
from mindhold.stores.mongo.search import INDEX
from mindhold.stores.mongo.store import MongoStore
from mindhold.testing.builders import MODEL, START, Builder, clustered, unit
from support.mongo_server import MongoServer, VectorSearchProxy

NAME = "vector_search"
VECTORS = clustered(1_200, seed=8)


@pytest.fixture
def proxy(mongo_server: MongoServer) -> Iterator[VectorSearchProxy]:
    with VectorSearchProxy(mongo_server) as proxy:
        yield proxy
    mongo_server.command({"dropDatabase": 1}, database=NAME)


@pytest.fixture
async def store(proxy: VectorSearchProxy) -> AsyncIterator[MongoStore]:
    writer = MongoStore(proxy.url, database=NAME, clock=lambda: START)
    await writer.open()
    build = Builder()
    await writer.apply([build.put(f"number n{n}", vector=vector) for n, vector in enumerate(VECTORS)])
    await writer.close()
    store = MongoStore(proxy.url, database=NAME, clock=lambda: START, held_vectors=100)
    await store.open()
    yield store
    await store.close()


async def test_the_server_finds_what_is_not_held(store: MongoStore, proxy: VectorSearchProxy) -> None:
    matrix = np.array(VECTORS)
    for query in clustered(6, seed=9):
        best = {f"m{place + 1:08d}" for place in np.argsort(-(matrix @ query))[:10].tolist()}
        found = await store.search(Search(Filter(), (), query, MODEL, pool=10))
        assert set(found.ids) == best
        assert (found.total, found.embedded, found.exact) == (1_200, 1_200, False)
        assert found.cosine_deviation == pytest.approx((matrix @ query).std(), abs=0.05)
        (near,) = await store.nearest([query], model=MODEL, where=Filter(), limit=10)
        assert {neighbour.id for neighbour in near} == best
    assert {asked["index"] for asked in proxy.asked} == {INDEX}
    assert all("embedded_by" in str(asked["filter"]) for asked in proxy.asked)


async def test_the_filter_goes_along(store: MongoStore, proxy: VectorSearchProxy) -> None:
    found = await store.search(Search(Filter(statuses=(Status.ARCHIVED,)), (), VECTORS[0], MODEL, pool=10))
    assert (found.ids, found.total) == ([], 0)
    await store.search(Search(Filter(viewer="ada", minimum_trust=0.5), (), VECTORS[0], MODEL, pool=10))
    assert "'ada'" in str(proxy.asked[-1]["filter"])
    assert "trust" in str(proxy.asked[-1]["filter"])


async def test_an_index_that_is_behind_hides_nothing(store: MongoStore, proxy: VectorSearchProxy) -> None:
    assert (await store.search(Search(Filter(), (), VECTORS[0], MODEL))).embedded == 1_200
    proxy.lag(NAME, "conversation_memory")
    new = Builder("late").put("late", vector=unit(9, 9, 9))
    await store.apply([new])
    first = await store.get("m00000001", viewer="default")
    await store.put_vectors({first.id: (first.content_hash, unit(9, 9, 8))}, model=MODEL)
    (near,) = await store.nearest([unit(9, 9, 9)], model=MODEL, where=Filter(), limit=2)
    assert [neighbour.id for neighbour in near] == [new.memory.id, first.id]
