"""What every store promises about links, versions, scopes, erasure and health."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mindhold.model.errors import Conflict, ScopeNotFound
from mindhold.model.job import Entry
from mindhold.model.memory import ANY_STATUS, Relation, Status
from mindhold.model.query import Filter
from mindhold.model.scope import GLOBAL
from mindhold.ports.store import Capability, Connect, Disconnect, Enqueue, Keep, Store
from mindhold.testing.builders import MODEL, START, Builder, needs, unit


class LinksContract:
    """Links and versions."""

    async def test_a_link_is_found_from_both_ends(self, store: Store, build: Builder) -> None:
        first, second, third = build.put(), build.put(), build.put()
        first_link = build.link(first.memory, second.memory, Relation.CAUSED_BY, weight=0.5, automatic=True)
        second_link = build.link(second.memory, third.memory)
        await store.apply([first, second, third, Connect(first_link), Connect(second_link)])
        assert await store.links_of([first.memory.id], viewer="default") == [first_link]
        assert await store.links_of([second.memory.id], viewer="default") == [first_link, second_link]
        assert await store.links_of([first.memory.id, second.memory.id], viewer="default") == [
            first_link,
            second_link,
        ]
        assert await store.links_of([], viewer="default") == []
        assert await store.links_of(["missing"], viewer="default") == []

    async def test_only_the_relations_asked_for(self, store: Store, build: Builder) -> None:
        first, second = build.put(), build.put()
        links = [build.link(first.memory, second.memory, relation) for relation in Relation]
        await store.apply([first, second, *(Connect(link) for link in links)])
        relations = (Relation.PART_OF, Relation.CONTRADICTS)
        filtered = await store.links_of([first.memory.id], relations=relations, viewer="default")
        assert {link.relation for link in filtered} == set(relations)
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
        other_version = build.version(other.memory, 1, "other words")
        await store.apply([other, plain, Keep(other_version)])
        memory_ids = [put.memory.id, "missing", plain.memory.id, other.memory.id]
        assert await store.versions_among(memory_ids) == {
            put.memory.id: versions,
            other.memory.id: [other_version],
        }

    async def test_a_version_is_never_overwritten(self, store: Store, build: Builder) -> None:
        put = build.put()
        version = build.version(put.memory, 1, "first words")
        await store.apply([put, Keep(version), Keep(version)])
        with pytest.raises(Conflict):
            await store.apply([Keep(build.version(put.memory, 1, "other words"))])
        assert await store.versions_of(put.memory.id) == [version]


class ScopesContract:
    """Putting, renaming and dropping scopes."""

    async def test_global_always_exists(self, store: Store) -> None:
        assert [scope.name for scope in await store.scopes()] == [GLOBAL]

    async def test_a_scope_comes_back_as_it_went_in(self, store: Store, build: Builder) -> None:
        work = build.scope("work", description="Büro", kind="project", keywords=("a", "b c"), active=False)
        team = build.scope("a team", parent="work")
        await store.put_scope(work)
        await store.put_scope(team)
        assert [scope.name for scope in await store.scopes()] == sorted([GLOBAL, "a team", "work"])
        scopes = {scope.name: scope for scope in await store.scopes()}
        assert scopes["work"] == work
        assert scopes["a team"] == team

    async def test_putting_again_replaces(self, store: Store, build: Builder) -> None:
        work = build.scope("work", description="before")
        await store.put_scope(work)
        await store.apply([build.put(scope="work")])
        await store.put_scope(replace(work, description="after", active=False))
        assert {scope.description for scope in await store.scopes() if scope.name == "work"} == {"after"}
        assert await store.count(Filter(scopes=("work",))) == 1

    async def test_a_missing_parent(self, store: Store, build: Builder) -> None:
        with pytest.raises(ScopeNotFound, match="nowhere"):
            await store.put_scope(build.scope("work", parent="nowhere"))
        assert len(await store.scopes()) == 1

    async def test_no_scope_is_inside_itself(self, store: Store, build: Builder) -> None:
        for name, parent in (("a", None), ("b", "a"), ("c", "b")):
            await store.put_scope(build.scope(name, parent=parent))
        for name, parent in (("a", "c"), ("a", "a"), ("b", "c")):
            with pytest.raises(Conflict):
                await store.put_scope(build.scope(name, parent=parent))

    async def test_renaming_takes_records_and_children_along(self, store: Store, build: Builder) -> None:
        await store.put_scope(build.scope("work"))
        await store.put_scope(build.scope("team", parent="work"))
        put = build.put(scope="work")
        await store.apply([put])
        await store.rename_scope("work", "office")
        assert (await store.get(put.memory.id, viewer="default")).scope == "office"
        assert await store.count(Filter(scopes=("office",))) == 1
        assert await store.count(Filter(scopes=("work",))) == 0
        assert {scope.name: scope.parent for scope in await store.scopes()}["team"] == "office"

    async def test_renaming_that_cannot_be(self, store: Store, build: Builder) -> None:
        await store.put_scope(build.scope("work"))
        await store.put_scope(build.scope("home"))
        with pytest.raises(ScopeNotFound):
            await store.rename_scope("nowhere", "somewhere")
        with pytest.raises(Conflict):
            await store.rename_scope("work", "home")
        with pytest.raises(Conflict):
            await store.rename_scope(GLOBAL, "everything")

    async def test_dropping(self, store: Store, build: Builder) -> None:
        await store.put_scope(build.scope("work"))
        await store.put_scope(build.scope("team", parent="work"))
        put = build.put(scope="team")
        await store.apply([put])
        for name in ("work", "team", GLOBAL):
            with pytest.raises(Conflict):
                await store.drop_scope(name)
        await store.erase([put.memory.id])
        await store.drop_scope("team")
        await store.drop_scope("work")
        with pytest.raises(ScopeNotFound):
            await store.drop_scope("work")
        assert [scope.name for scope in await store.scopes()] == [GLOBAL]


class ErasureContract:
    """Erasing, and proof of it."""

    async def test_many_here_and_there(self, store: Store, build: Builder) -> None:
        puts = [build.put(f"the same words, and number{number}") for number in range(60)]
        merged = build.put("made of two", merged_from=(puts[0].memory.id, puts[1].memory.id))
        await store.apply([*puts, merged])
        erased_ids = [put.memory.id for put in puts[::2]]
        receipt = await store.erase(erased_ids)
        assert sorted(receipt.ids) == sorted(erased_ids)
        assert receipt.removed["memories"] == 30
        assert not any(receipt.remaining.values())
        remaining = await store.get_many([put.memory.id for put in (*puts, merged)], viewer="system")
        assert set(remaining) == {put.memory.id for put in (*puts[1::2], merged)}
        assert remaining[merged.memory.id].merged_from == (puts[1].memory.id,)

    @needs(Capability.VECTORS)
    async def test_nothing_of_it_is_left(self, store: Store, build: Builder) -> None:
        erased = build.put("a secret word", tags=("t",), vector=unit(1), status=Status.FORGOTTEN)
        other = build.put("another", supersedes=erased.memory.id, merged_from=(erased.memory.id, "x"))
        about = build.job(payload={"id": erased.memory.id})
        others = build.job(payload={"ids": [erased.memory.id, other.memory.id]})
        await store.apply(
            [
                erased,
                other,
                Connect(build.link(erased.memory, other.memory)),
                Connect(build.link(other.memory, erased.memory, Relation.SUPERSEDED_BY)),
                Keep(build.version(erased.memory, 1, "an older secret")),
                Enqueue(about),
                Enqueue(others),
            ]
        )
        receipt = await store.erase([erased.memory.id, "never there"])
        assert receipt.ids == (erased.memory.id,)
        assert receipt.removed["memories"] == 1
        assert receipt.removed["links"] == 2
        assert receipt.removed["versions"] == 1
        assert receipt.removed["vectors"] == 1
        assert receipt.removed["jobs"] == 1
        assert set(receipt.remaining.values()) == {0}
        assert set(receipt.removed) <= set(receipt.remaining)

        assert await store.get_many([erased.memory.id], viewer="admin") == {}
        assert await store.links_of([other.memory.id], viewer="admin") == []
        assert await store.versions_of(erased.memory.id) == []
        assert await store.vector_of([erased.memory.id], model=MODEL) == {}
        reread = await store.get(other.memory.id, viewer="admin")
        assert reread.supersedes is None
        assert reread.merged_from == ("x",)
        assert [job.payload for job in await store.jobs()] == [{"ids": [other.memory.id]}]

    async def test_a_copy_goes_and_what_names_it_stays(self, store: Store, build: Builder) -> None:
        erased = build.put("a copy", tags=("t",), vector=unit(1))
        other = build.put("another", supersedes=erased.memory.id, merged_from=(erased.memory.id,))
        about = build.job(payload={"id": erased.memory.id})
        entry = Entry("conversation", "c", {"memories": [erased.memory.id]}, START)
        link = Connect(build.link(erased.memory, other.memory))
        await store.apply(
            [erased, other, link, Keep(build.version(erased.memory, 1, "before")), Enqueue(about)]
        )
        await store.put_entry(entry)
        receipt = await store.erase([erased.memory.id], references=False)
        assert receipt.ids == (erased.memory.id,)
        assert (receipt.removed["memories"], receipt.removed["links"], receipt.removed["versions"]) == (
            1,
            1,
            1,
        )
        assert set(receipt.remaining.values()) == {0}
        assert await store.get_many([erased.memory.id], viewer="admin") == {}
        assert await store.get(other.memory.id, viewer="admin") == other.memory
        assert await store.jobs() == [about]
        assert await store.entries("conversation", now=START) == [entry]

    async def test_the_content_can_be_put_again(self, store: Store, build: Builder) -> None:
        first = build.put("once more")
        await store.apply([first])
        await store.erase([first.memory.id])
        await store.apply([build.put("once more")])
        assert await store.count(Filter()) == 1

    async def test_erasing_nothing(self, store: Store, build: Builder) -> None:
        await store.apply([build.put()])
        receipt = await store.erase(["missing"])
        assert receipt.ids == ()
        assert set(receipt.removed.values()) == {0}
        assert await store.count(Filter()) == 1

    async def test_erasing_many_at_once(self, store: Store, build: Builder) -> None:
        puts = [build.put(f"word{n} common", vector=unit(n, 1)) for n in range(60)]
        await store.apply(puts)
        receipt = await store.erase([put.memory.id for put in puts[:50]])
        assert len(receipt.ids) == 50
        assert set(receipt.remaining.values()) == {0}
        assert await store.count(Filter()) == 10

    async def test_scrubbing_takes_the_bytes_away(self, store: Store, build: Builder) -> None:
        phrase = "Zürich vault 4711"
        puts = [build.put(f"{phrase} number {n} " + "filler " * 200) for n in range(20)]
        await store.apply([*puts, build.put("something else that stays")])
        before = await store.scrub([phrase])
        assert sum(before.remaining.values()) > 0
        await store.erase([put.memory.id for put in puts])
        after = await store.scrub([phrase])
        assert set(after.remaining.values()) == {0}
        assert await store.count(Filter()) == 1


class UpkeepContract:
    """Facts, check, repair, close."""

    async def test_facts(self, store: Store) -> None:
        facts = await store.facts()
        assert facts.kind
        assert facts.location
        assert facts.schema_version > 0
        assert facts.bytes_used > 0

    async def test_a_store_in_use_is_healthy(self, store: Store, build: Builder) -> None:
        first, second = build.put("one two", vector=unit(1), tags=("t",)), build.put("three")
        link, version = build.link(first.memory, second.memory), build.version(first.memory, 1, "zero")
        await store.apply([first, second, Connect(link), Keep(version)])
        await store.erase([second.memory.id])
        findings = await store.check()
        assert findings
        assert [finding for finding in findings if not finding.healthy] == []

    @needs(Capability.VECTORS)
    async def test_repairing_what_is_healthy_changes_no_record(self, store: Store, build: Builder) -> None:
        put = build.put("one two", vector=unit(1), tags=("t",))
        await store.apply([put])
        assert await store.repair()
        assert await store.find(Filter()) == [put.memory]
        assert all(finding.healthy for finding in await store.check())

    async def test_optimising_changes_no_record(self, store: Store, build: Builder) -> None:
        puts = [build.put(f"number {number}", vector=unit(number)) for number in range(30)]
        await store.apply(puts)
        assert await store.optimise() >= 0
        assert await store.count(Filter()) == 30
        assert all(finding.healthy for finding in await store.check())

    async def test_closing_twice_and_opening_again(self, store: Store, build: Builder) -> None:
        put = build.put()
        await store.apply([put])
        await store.close()
        await store.close()
        await store.open()
        assert await store.get(put.memory.id, viewer="default") == put.memory
