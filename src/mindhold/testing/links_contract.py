"""What every store promises about links and versions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mindhold.model.errors import Conflict
from mindhold.model.link import Relation
from mindhold.model.memory import ANY_STATUS, Status
from mindhold.model.query import Filter
from mindhold.ports.store import Connect, Disconnect, Keep, Store
from mindhold.testing.builders import Builder


class LinksContract:
    """Connect, disconnect, keep."""

    async def test_a_link_is_found_from_both_ends(self, store: Store, build: Builder) -> None:
        first, second, third = build.put(), build.put(), build.put()
        one = build.link(first.memory, second.memory, Relation.CAUSED_BY, weight=0.5, automatic=True)
        two = build.link(second.memory, third.memory)
        await store.apply([first, second, third, Connect(one), Connect(two)])
        assert await store.links_of([first.memory.id], viewer="default") == [one]
        assert await store.links_of([second.memory.id], viewer="default") == [one, two]
        assert await store.links_of([first.memory.id, second.memory.id], viewer="default") == [one, two]
        assert await store.links_of([], viewer="default") == []
        assert await store.links_of(["missing"], viewer="default") == []

    async def test_only_the_relations_asked_for(self, store: Store, build: Builder) -> None:
        first, second = build.put(), build.put()
        links = [build.link(first.memory, second.memory, relation) for relation in Relation]
        await store.apply([first, second, *(Connect(link) for link in links)])
        asked = (Relation.PART_OF, Relation.CONTRADICTS)
        found = await store.links_of([first.memory.id], relations=asked, viewer="default")
        assert {link.relation for link in found} == set(asked)
        assert len(await store.links_of([first.memory.id], viewer="default")) == len(Relation)

    async def test_connecting_again_replaces(self, store: Store, build: Builder) -> None:
        first, second = build.put(), build.put()
        link = build.link(first.memory, second.memory)
        heavier = replace(link, weight=0.1, automatic=True)
        await store.apply([first, second, Connect(link), Connect(heavier)])
        assert await store.links_of([first.memory.id], viewer="default") == [heavier]

    async def test_disconnecting(self, store: Store, build: Builder) -> None:
        first, second = build.put(), build.put()
        related = build.link(first.memory, second.memory)
        part = build.link(first.memory, second.memory, Relation.PART_OF)
        await store.apply([first, second, Connect(related), Connect(part)])
        cut = Disconnect(first.memory.id, second.memory.id, Relation.RELATED)
        await store.apply([cut, cut, Disconnect("missing", second.memory.id, Relation.RELATED)])
        assert await store.links_of([first.memory.id], viewer="default") == [part]

    async def test_counting_links_between_what_matches(self, store: Store, build: Builder) -> None:
        first, second = build.put(), build.put()
        hers, hidden = build.put(agent="ada"), build.put(status=Status.FORGOTTEN)
        links = [build.link(first.memory, other.memory) for other in (second, hers, hidden)]
        again = build.link(second.memory, first.memory, Relation.CAUSED_BY)
        await store.apply([first, second, hers, hidden, *(Connect(link) for link in (*links, again))])
        assert await store.count_links(Filter()) == 2
        assert await store.count_links(Filter(viewer="ada")) == 3
        assert await store.count_links(Filter(viewer="system", statuses=ANY_STATUS)) == 4
        assert await store.count_links(Filter(ids=(first.memory.id,))) == 0

    async def test_versions_come_oldest_first(self, store: Store, build: Builder) -> None:
        put = build.put(tags=("a", "B"), keywords=("k",), anchor=True)
        versions = [build.version(put.memory, number, f"words {number}") for number in (1, 2, 3)]
        await store.apply([put, *(Keep(version) for version in reversed(versions))])
        assert await store.versions_of(put.memory.id) == versions
        assert await store.versions_of(put.memory.id, latest=1) == versions[-1:]
        assert await store.versions_of(put.memory.id, latest=2) == versions[-2:]
        assert await store.versions_of("missing") == await store.versions_of("missing", latest=1) == []
        other, plain = build.put(), build.put()
        kept = build.version(other.memory, 1, "other words")
        await store.apply([other, plain, Keep(kept)])
        asked = [put.memory.id, "missing", plain.memory.id, other.memory.id]
        assert await store.versions_among(asked) == {put.memory.id: versions, other.memory.id: [kept]}

    async def test_a_version_is_never_overwritten(self, store: Store, build: Builder) -> None:
        put = build.put()
        kept = build.version(put.memory, 1, "first words")
        await store.apply([put, Keep(kept), Keep(kept)])
        with pytest.raises(Conflict):
            await store.apply([Keep(build.version(put.memory, 1, "other words"))])
        assert await store.versions_of(put.memory.id) == [kept]
