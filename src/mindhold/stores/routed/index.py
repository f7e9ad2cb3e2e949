"""Search, vectors, links and versions over several stores."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from mindhold.model.errors import SettingsError, StoreError
from mindhold.model.link import Link, Relation
from mindhold.model.memory import Memory, Version
from mindhold.model.query import Candidates, Filter, Neighbour, Search, Vector
from mindhold.stores.routed.merging import merged_candidates, merged_neighbours
from mindhold.stores.routed.routing import Routing


class IndexPart(Routing):
    """The Index and Links protocols, but for what writes."""

    async def search(self, search: Search) -> Candidates:
        found = await self._of_each(
            search.filter, lambda store, where: store.search(replace(search, filter=where))
        )
        return found[0] if len(found) == 1 else merged_candidates(found, search)

    async def nearest(
        self, vectors: Sequence[Vector], *, model: str, where: Filter, limit: int
    ) -> list[list[Neighbour]]:
        answers = await self._of_each(
            where, lambda store, own: store.nearest(vectors, model=model, where=own, limit=limit)
        )
        return answers[0] if len(answers) == 1 else merged_neighbours(answers, limit=limit)

    async def unembedded(self, model: str, *, limit: int, scopes: Sequence[str] = ()) -> list[Memory]:
        routes, home = await self._routes(), await self._home()
        if not routes.away:
            return await home.unembedded(model, limit=limit, scopes=scopes)
        names: dict[str, list[str]] = {mode: [] for mode in routes.modes}
        for name in scopes or dict.fromkeys([*(scope.name for scope in await home.scopes()), *routes.away]):
            names[routes.mode(name)].append(name)
        found: list[Memory] = []
        for mode, own in names.items():
            if own and len(found) < limit:
                with suppress(*(() if mode == routes.home else (StoreError, SettingsError))):  # another time
                    store = await self._houses.house(mode)
                    found += await store.unembedded(model, limit=limit - len(found), scopes=own)
        return found

    async def vector_of(self, ids: Sequence[str], *, model: str) -> dict[str, Vector]:
        routes = await self._routes()
        if not routes.away:
            return await (await self._home()).vector_of(ids, model=model)
        found: dict[str, Vector] = {}
        for mode, own in (await self._by_mode(ids, routes)).items():
            found |= await (await self._houses.house(mode)).vector_of(own, model=model)
        return found

    async def links_of(
        self, ids: Sequence[str], *, relations: Sequence[Relation] = (), viewer: str
    ) -> list[Link]:
        routes = await self._routes()
        if not routes.away:
            return await (await self._home()).links_of(ids, relations=relations, viewer=viewer)
        links: list[Link] = []
        for mode, own in (await self._by_mode(dict.fromkeys(ids), routes)).items():
            store = await self._houses.house(mode)
            there = await store.links_of(own, relations=relations, viewer=viewer)
            ends = await store.get_many(
                list({end for link in there for end in (link.origin, link.target)}), viewer=viewer
            )
            here = {one for one, memory in ends.items() if routes.mode(memory.scope) == mode}
            links += [link for link in there if link.origin in here and link.target in here]
        return sorted(links, key=lambda link: (link.origin, link.target, link.relation))

    async def count_links(self, where: Filter) -> int:
        return sum(await self._of_each(where, lambda store, own: store.count_links(own)))

    async def versions_of(self, memory_id: str, *, latest: int | None = None) -> list[Version]:
        routes = await self._routes()
        if not routes.away:
            return await (await self._home()).versions_of(memory_id, latest=latest)
        for mode in await self._by_mode([memory_id], routes):
            return await (await self._houses.house(mode)).versions_of(memory_id, latest=latest)
        return []

    async def versions_among(self, ids: Sequence[str]) -> dict[str, list[Version]]:
        routes = await self._routes()
        if not routes.away:
            return await (await self._home()).versions_among(ids)
        found: dict[str, list[Version]] = {}
        for mode, own in (await self._by_mode(ids, routes)).items():
            found |= await (await self._houses.house(mode)).versions_among(own)
        return found
