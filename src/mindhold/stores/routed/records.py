"""Reading records over several stores."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from mindhold.model.errors import MemoryNotFound
from mindhold.model.memory import Memory
from mindhold.model.query import Filter, Order, Spot
from mindhold.stores.routed.merging import merged_pages, merged_scans, merged_tallies
from mindhold.stores.routed.routing import Routing

MOST_RESOLVED = 10


class ReadingPart(Routing):
    """The Records protocol, but for what writes."""

    async def get(self, memory_id: str, *, viewer: str) -> Memory:
        found = await self.get_many([memory_id], viewer=viewer)
        if memory_id not in found:
            raise MemoryNotFound(memory_id)
        return found[memory_id]

    async def get_many(self, ids: Sequence[str], *, viewer: str) -> dict[str, Memory]:
        routes = await self._routes()
        found = await self._found(ids, routes, viewer=viewer)
        if all(memory_id in found for memory_id in ids):
            return found
        now = await self._routes(fresh=True)  # it may be in a project that was made a moment ago
        return found if now is routes else await self._found(ids, now, viewer=viewer)

    async def resolve(self, prefix: str, *, viewer: str) -> list[str]:
        routes, home = await self._routes(), await self._home()
        ids = await home.resolve(prefix, viewer=viewer)
        if not routes.away:
            return ids
        if prefix in await self._found([prefix] if prefix in ids else [], routes, viewer=viewer):
            return [prefix]
        for mode in routes.modes[1:]:
            ids += await (await self._houses.house(mode)).resolve(prefix, viewer=viewer)
        known = await self._found(list(dict.fromkeys(ids)), routes, viewer=viewer)
        return sorted(known)[:MOST_RESOLVED]

    async def find(
        self,
        where: Filter,
        *,
        order: Order = Order.NEWEST,
        limit: int = 50,
        after: str | Spot | None = None,
    ) -> list[Memory]:
        asked = await self._asked(where)
        if len(asked) == 1 and not (await self._routes()).away:
            return await asked[0][0].find(where, order=order, limit=limit, after=after)
        if isinstance(after, str):  # the record needn't be in every store
            after = Spot.of(await self.get(after, viewer=where.viewer), order)
        pages = [
            await store.find(narrowed, order=order, limit=limit, after=after) for store, narrowed in asked
        ]
        return merged_pages(pages, order=order, limit=limit)

    async def count(self, where: Filter, *, most: int | None = None) -> int:
        found = sum(await self._of_each(where, lambda store, own: store.count(own, most=most)))
        return found if most is None else min(found, most)

    async def tally(self, where: Filter, by: str) -> dict[str, int]:
        tallies = await self._of_each(where, lambda store, own: store.tally(own, by))
        return tallies[0] if len(tallies) == 1 else merged_tallies(tallies, by)

    async def by_hash(self, hashes: Sequence[str], *, scope: str, agent: str) -> dict[str, Memory]:
        store = await self._houses.house((await self._routes()).mode(scope))
        return await store.by_hash(hashes, scope=scope, agent=agent)

    async def by_gist(self, gists: Sequence[str], *, scope: str, agent: str) -> dict[str, list[Memory]]:
        store = await self._houses.house((await self._routes()).mode(scope))
        return await store.by_gist(gists, scope=scope, agent=agent)

    async def derived_from(self, ids: Sequence[str]) -> list[Memory]:
        routes = await self._routes()
        found: list[Memory] = []
        for mode in routes.modes:
            there = await (await self._houses.house(mode)).derived_from(ids)
            found += [memory for memory in there if routes.mode(memory.scope) == mode]
        return sorted(found, key=lambda memory: memory.id) if routes.away else found

    async def scan(self, where: Filter, *, batch: int = 500) -> AsyncIterator[list[Memory]]:
        scans = [store.scan(narrowed, batch=batch) for store, narrowed in await self._asked(where)]
        async for memories in scans[0] if len(scans) == 1 else merged_scans(scans, batch=batch):
            yield memories
