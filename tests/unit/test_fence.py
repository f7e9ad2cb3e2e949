"""Attacks on the fence: through every method of the store, nothing outside is shown and nothing there changes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from mindhold.access.authorization import ScopedStore, ScopedStoreRegistry
from mindhold.model.errors import JobNotFound, MemoryNotFound, MindholdError, Refused
from mindhold.model.job import Entry, Job, JobState
from mindhold.model.memory import Memory, Relation, Status
from mindhold.model.query import Filter, Order, Search
from mindhold.model.scope import GLOBAL
from mindhold.ports.backend import Placement, StoreRegistry
from mindhold.ports.store import (
    Change,
    Connect,
    Disconnect,
    Enqueue,
    Inherit,
    Keep,
    Mark,
    Put,
    Rate,
    Revise,
    Store,
    Tend,
)
from mindhold.stores.registry import OpenStoreRegistry, opened_store
from mindhold.stores.sqlite.store import SqliteStore
from mindhold.testing.builders import MODEL, START, Builder, unit

MARK = "zanzibar"  # in every text outside, and nowhere else
LATER = START + timedelta(days=1)


@dataclass(frozen=True)
class World:
    """A store, the fence within it, and what lies on both sides."""

    store: Store
    fence: Store
    build: Builder
    mine: Memory
    also_mine: Memory
    theirs: Memory
    also_theirs: Memory
    in_global: Memory
    job: Job

    @property
    def outside(self) -> list[Memory]:
        return [self.theirs, self.also_theirs, self.in_global]

    @property
    def outside_ids(self) -> list[str]:
        return [memory.id for memory in self.outside]

    @property
    def all_ids(self) -> list[str]:
        return [self.mine.id, self.also_mine.id, *self.outside_ids]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    store, build = SqliteStore(tmp_path / "store.db", clock=lambda: START), Builder()
    await store.open()
    await store.put_scope(build.scope(f"{MARK} above"))
    await store.put_scope(build.scope("mine", parent=f"{MARK} above"))
    await store.put_scope(build.scope("ours"))
    await store.put_scope(build.scope("theirs", description=MARK, keywords=(MARK,)))
    mine = build.put(
        "my own plain words",
        scope="mine",
        vector=unit(1),
        gist="g",
        tags=("shared",),
        topic="topic",
        keywords=("light",),
        review=LATER,
    )
    also = build.put("more plain words", scope="ours", vector=unit(1, 1), gist="g")
    theirs = build.put(
        f"{MARK} plain words",
        scope="theirs",
        vector=unit(1, 0.1),
        gist="g",
        tags=("shared", f"{MARK}-tag"),
        topic=f"{MARK} topic",
        keywords=(MARK, "light"),
        review=START,
        merged_from=(mine.memory.id,),
    )
    more = build.put(f"{MARK} more", scope="theirs", merged_from=(theirs.memory.id,))
    everyones = build.put(f"{MARK} of everyone", scope=GLOBAL, vector=unit(0, 1))
    puts = [mine, also, theirs, more, everyones]
    job = build.job(payload={"ids": [theirs.memory.id]}, key=MARK)
    await store.apply(
        [
            *puts,
            Connect(build.link(mine.memory, also.memory)),
            Connect(build.link(mine.memory, theirs.memory, Relation.CAUSED_BY)),
            Connect(build.link(theirs.memory, more.memory)),
            Keep(build.version(mine.memory, 1, "my words before")),
            Keep(build.version(theirs.memory, 1, f"{MARK} before")),
            Enqueue(job),
        ]
    )
    await store.set_cursor("place", MARK)
    await store.put_entry(Entry("key", "k", {"name": MARK}, START))
    await store.put_entry(Entry("conversation", "c", {"memories": [theirs.memory.id]}, START, LATER))
    fence = ScopedStore(store, ["mine", "ours"])
    yield World(
        store,
        fence,
        build,
        mine=mine.memory,
        also_mine=also.memory,
        theirs=theirs.memory,
        also_theirs=more.memory,
        in_global=everyones.memory,
        job=job,
    )
    await store.close()


async def picture(world: World) -> dict[str, Any]:
    """All that there is outside."""
    store = world.store
    everything = [m async for batch in store.scan(Filter(viewer="system", statuses=())) for m in batch]
    outside = [memory for memory in everything if memory.scope not in ("mine", "ours")]
    ids = [memory.id for memory in outside]
    vectors = await store.vector_of(ids, model=MODEL)
    return {
        "memories": outside,
        "links": await store.links_of(ids, viewer="system"),
        "versions": [await store.versions_of(memory_id) for memory_id in ids],
        "vectors": {memory_id: vector.tolist() for memory_id, vector in vectors.items()},
        "scopes": await store.scopes(),
        "jobs": await store.jobs(),
        "cursor": await store.cursor("place"),
        "entries": [await store.entries(namespace, now=START) for namespace in ("key", "conversation")],
    }


async def tried(work: Awaitable[Any]) -> Any:
    """Its result, or the error that it raised."""
    try:
        return await work
    except MindholdError as error:
        return error


async def drained(batches: AsyncIterator[list[Memory]]) -> list[Memory]:
    return [memory async for batch in batches for memory in batch]


def filters(world: World) -> list[Filter]:
    """All kinds of ways to ask for what is outside."""
    return [
        Filter(viewer=viewer, statuses=statuses, **asked)
        for viewer in ("default", "system", "admin")
        for statuses in ((), (Status.ACTIVE,))
        for asked in (
            {},
            {"scopes": ("theirs",)},
            {"scopes": (GLOBAL, "theirs", f"{MARK} above")},
            {"scopes": ("mine", "theirs")},
            {"scopes": ("",)},
            {"scopes": ("\n",)},
            {"ids": tuple(world.outside_ids)},
            {"ids": tuple(world.all_ids), "scopes": ("theirs", "ours")},
            {"tags": ("shared",)},
            {"tags": (f"{MARK}-tag",)},
            {"topic": f"{MARK} topic"},
            {"agents": ("default",)},
            {"keywords": (MARK,)},
            {"keywords": (MARK, "light"), "keywords_any": True},
            {"keywords": ("light",), "scopes": ("theirs", GLOBAL)},
            {"due": LATER},
            {"due": LATER, "scopes": ("theirs",)},
            {"unverified": True},
            {"unexamined": True, "scopes": (GLOBAL, "theirs")},
        )
    ]


async def attack_apply(world: World) -> list[Any]:
    build, theirs, mine = world.build, world.theirs, world.mine
    link = build.link(mine, theirs, Relation.CONTRADICTS)
    changes: list[Change] = [
        build.put("smuggled", scope="theirs"),
        build.put("smuggled", scope=GLOBAL),
        build.put("smuggled", scope="nowhere"),
        Put(replace(theirs, content="replaced"), ["replaced"]),
        Put(replace(theirs, content="moved", scope="mine"), ["moved"]),
        Put(replace(mine, scope="theirs"), ["moved"]),
        Put(build.memory("a claim", scope="mine", supersedes=theirs.id), ["claim"]),
        Put(build.memory("a claim", scope="mine", merged_from=(theirs.id,)), ["claim"]),
        Revise(replace(theirs, importance=1.0)),
        Revise(replace(theirs, scope="mine")),
        Revise(replace(mine, scope="theirs")),
        Mark(theirs.id, Status.FORGOTTEN, previous=Status.ACTIVE, updated=LATER),
        Inherit(theirs.id, mine.id, 1.0, 9),
        Inherit(mine.id, theirs.id, 1.0, 9),
        Connect(link),
        Connect(build.link(theirs, world.also_theirs, Relation.CAUSED_BY)),
        Keep(build.version(theirs, 7, "forged")),
        Enqueue(build.job(payload={"deep": [{"ids": [theirs.id]}]})),
        Enqueue(build.job(payload={theirs.id: 1})),
    ]
    refused = [await tried(world.fence.apply([change])) for change in changes]
    assert all(isinstance(error, Refused | MemoryNotFound) for error in refused), refused
    with_fair_ones: list[Change] = [build.put("fair", scope="mine"), changes[0]]
    assert isinstance(await tried(world.fence.apply(with_fair_ones)), Refused)
    assert await world.fence.count(Filter()) == 2, "all or nothing"
    await world.fence.apply([Disconnect(mine.id, theirs.id, Relation.CAUSED_BY)])
    await world.fence.apply([Disconnect(theirs.id, world.also_theirs.id, Relation.RELATED)])
    # Outside is as good as gone: no answer tells them apart.
    for memory_id in (*world.outside_ids, "m99999999"):
        tending: list[Change] = [Tend(memory_id, importance=1.0, review=LATER), Rate(memory_id, 1.0, LATER)]
        await world.fence.apply([*tending, Tend(mine.id, utility=0.5), Rate(mine.id, 0.0, LATER)])
    inside = await world.fence.get(mine.id, viewer="default")
    assert inside.utility == 0.5, "what is inside is done all the same"
    return refused


async def attack_get(world: World) -> list[Any]:
    found = [await tried(world.fence.get(each, viewer="system")) for each in world.outside_ids]
    assert all(isinstance(error, MemoryNotFound) for error in found)
    missing = await tried(world.fence.get("m99999999", viewer="system"))
    assert str(found[0]).replace(world.theirs.id, "m99999999") == str(missing), (
        "not told from what isn't there"
    )
    return found


async def attack_get_many(world: World) -> list[Any]:
    return [await world.fence.get_many(world.all_ids, viewer=viewer) for viewer in ("default", "system")]


async def attack_resolve(world: World) -> list[Any]:
    prefixes = ["", "m", world.theirs.id[:-1], *world.outside_ids]
    return [await world.fence.resolve(prefix, viewer="system") for prefix in prefixes]


async def attack_find(world: World) -> list[Any]:
    found = [await world.fence.find(where, order=order) for where in filters(world) for order in Order]
    for order in Order:
        beyond = await tried(world.fence.find(Filter(viewer="system"), order=order, after=world.theirs.id))
        assert isinstance(beyond, MemoryNotFound), "nor is a place outside one to begin at"
    return found


async def attack_count(world: World) -> list[Any]:
    for where in filters(world):
        inside = await world.fence.find(where)
        assert await world.fence.count(where) == len(inside)
    assert await world.fence.count(Filter(viewer="system", scopes=("theirs",))) == 0
    return []


async def attack_tally(world: World) -> list[Any]:
    by = ("kind", "status", "scope", "tier", "topic", "agent", "tag", "embedded_by")
    assert await world.fence.tally(Filter(viewer="system"), "scope") == {"mine": 1, "ours": 1}
    assert await world.fence.tally(Filter(viewer="system", scopes=("theirs",)), "kind") == {}
    return [await world.fence.tally(where, each) for where in filters(world) for each in by]


async def attack_by_hash(world: World) -> list[Any]:
    hashes = [memory.content_hash for memory in world.outside]
    scopes = ("theirs", GLOBAL, "mine", "")
    return [await world.fence.by_hash(hashes, scope=scope, agent="default") for scope in scopes]


async def attack_by_gist(world: World) -> list[Any]:
    return [
        await world.fence.by_gist(["g"], scope=scope, agent="default") for scope in ("theirs", GLOBAL, "ours")
    ]


async def attack_derived_from(world: World) -> list[Any]:
    assert await world.fence.derived_from(world.all_ids) == []
    return []


async def attack_touch(world: World) -> list[Any]:
    await world.fence.touch([*world.all_ids, world.mine.id], LATER)
    assert (await world.fence.get(world.mine.id, viewer="default")).uses == 2, "as often as it is named"
    return []


async def attack_note_shown(world: World) -> list[Any]:
    await world.fence.note_shown([*world.all_ids, world.mine.id], LATER)
    assert (await world.fence.get(world.mine.id, viewer="default")).shown == 2, "as often as it is named"
    return []


async def attack_scan(world: World) -> list[Any]:
    return [await drained(world.fence.scan(where)) for where in filters(world)]


async def attack_erase(world: World) -> list[Any]:
    receipts = [await world.fence.erase(world.outside_ids, references=whole) for whole in (True, False)]
    for receipt in receipts:
        assert receipt.ids == ()
        assert set(receipt.removed.values()) == {0}
    return receipts


async def attack_search(world: World) -> list[Any]:
    found = []
    for where in filters(world):
        search = Search(where, lexemes=(MARK, "plain"), vector=unit(1), model=MODEL)
        candidates = await world.fence.search(search)
        inside = await world.fence.count(where)
        assert candidates.total == inside
        assert candidates.frequencies.get(MARK, 0) == 0
        assert candidates.frequencies.get("plain", 0) <= inside
        assert candidates.embedded <= inside
        found.append(replace(candidates, frequencies={}))  # those are of the words that were asked for
    return found


async def attack_nearest(world: World) -> list[Any]:
    vectors = [unit(1, 0.1), unit(0, 1)]
    return [
        await world.fence.nearest(vectors, model=MODEL, where=where, limit=10) for where in filters(world)
    ]


async def attack_unembedded(world: World) -> list[Any]:
    return [await world.fence.unembedded(model, limit=100) for model in (MODEL, "another")]


async def attack_put_vectors(world: World) -> list[Any]:
    vectors = {memory.id: (memory.content_hash, unit(0, 0, 1)) for memory in world.outside}
    assert await world.fence.put_vectors(vectors, model=MODEL) == 0
    assert await world.fence.put_vectors(vectors, model="another") == 0
    return []


async def attack_vector_of(world: World) -> list[Any]:
    assert set(await world.fence.vector_of(world.all_ids, model=MODEL)) == {world.mine.id, world.also_mine.id}
    return []


async def attack_links_of(world: World) -> list[Any]:
    found = [
        await world.fence.links_of(ids, viewer=viewer, relations=relations)
        for ids in (world.all_ids, [world.mine.id], world.outside_ids)
        for viewer in ("default", "system")
        for relations in ((), (Relation.CAUSED_BY,))
    ]
    assert [len(links) for links in found] == [1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0]
    return found


async def attack_count_links(world: World) -> list[Any]:
    for where in filters(world):
        assert await world.fence.count_links(where) <= 1
    assert await world.fence.count_links(Filter(viewer="system", scopes=("mine", "theirs"))) == 0
    assert await world.fence.count_links(Filter(viewer="system", ids=tuple(world.outside_ids))) == 0
    return []


async def attack_versions_of(world: World) -> list[Any]:
    assert len(await world.fence.versions_of(world.mine.id)) == 1
    return [await world.fence.versions_of(memory_id) for memory_id in world.outside_ids]


async def attack_versions_among(world: World) -> list[Any]:
    among = await world.fence.versions_among([world.mine.id, *world.outside_ids])
    assert list(among) == [world.mine.id]
    return []


async def attack_scopes(world: World) -> list[Any]:
    scopes = await world.fence.scopes()
    assert [(scope.name, scope.parent) for scope in scopes] == [("mine", None), ("ours", None)]
    return [scopes]


async def attack_put_scope(world: World) -> list[Any]:
    mine, _ = await world.fence.scopes()
    refused = [
        await tried(world.fence.put_scope(scope))
        for scope in (
            world.build.scope("theirs"),
            world.build.scope(GLOBAL),
            world.build.scope("a new one"),
            replace(mine, parent="theirs"),
            replace(mine, parent=GLOBAL),
        )
    ]
    assert all(isinstance(error, Refused) for error in refused)
    await world.fence.put_scope(mine)  # whose place in the order is not seen, and is kept
    return []


async def attack_rename_scope(world: World) -> list[Any]:
    pairs = (("theirs", "mine"), ("theirs", "taken"), ("mine", "away"), ("mine", "ours"), (GLOBAL, "ours"))
    refused = [await tried(world.fence.rename_scope(old, new)) for old, new in pairs]
    assert all(isinstance(error, Refused) for error in refused)
    return []


async def attack_drop_scope(world: World) -> list[Any]:
    refused = [await tried(world.fence.drop_scope(name)) for name in ("theirs", "mine", GLOBAL, "nowhere")]
    assert all(isinstance(error, Refused) for error in refused)
    return []


async def attack_lease(world: World) -> list[Any]:
    return [await world.fence.lease("thief", now=LATER, duration=timedelta(hours=1))]


async def attack_renew(world: World) -> list[Any]:
    assert not await world.fence.renew(world.job.id, "thief", until=LATER)
    return []


async def attack_finish(world: World) -> list[Any]:
    held = await world.store.lease("owner", now=LATER, duration=timedelta(hours=1))
    assert held is not None
    assert not await world.fence.finish(replace(held, state=JobState.DONE), "owner")
    assert await world.store.finish(
        replace(held, state=JobState.WAITING, attempts=0, lease_until=None), "owner"
    )
    return []


async def attack_jobs(world: World) -> list[Any]:
    return [await world.fence.jobs(), await world.fence.jobs(states=[JobState.WAITING])]


async def attack_job(world: World) -> list[Any]:
    assert isinstance(await tried(world.fence.job(world.job.id)), JobNotFound)
    return []


async def attack_replace_job(world: World) -> list[Any]:
    gone = replace(world.job, state=JobState.DEAD)
    assert isinstance(await tried(world.fence.replace_job(gone, expected=JobState.WAITING)), JobNotFound)
    return []


async def attack_drop_jobs(world: World) -> list[Any]:
    assert await world.fence.drop_jobs(before=LATER) == 0
    return []


async def attack_tally_jobs(world: World) -> list[Any]:
    assert await world.fence.tally_jobs() == {}
    return []


async def attack_cursor(world: World) -> list[Any]:
    return [await world.fence.cursor("place")]


async def attack_set_cursor(world: World) -> list[Any]:
    await world.fence.set_cursor("place", "mine")
    assert await world.fence.cursor("place") == "mine"
    await world.fence.set_cursor("place", None)
    return [await world.fence.cursor("place")]


async def attack_swap_cursor(world: World) -> list[Any]:
    assert not await world.fence.swap_cursor("place", old=MARK, new="mine")
    assert await world.fence.swap_cursor("place", old=None, new="mine")
    return []


async def attack_put_entry(world: World) -> list[Any]:
    for namespace, key in (("key", "k"), ("conversation", "c"), ("key", "another")):
        await world.fence.put_entry(Entry(namespace, key, {"forged": True}, START))
    assert await world.store.entry("key", "another", now=START) is None
    mine = await world.fence.entry("key", "k", now=START)
    assert mine == Entry("key", "k", {"forged": True}, START)
    return [await world.fence.entries("key", now=START)]


async def attack_entry(world: World) -> list[Any]:
    return [
        await world.fence.entry("key", "k", now=START),
        await world.fence.entry("conversation", "c", now=START),
    ]


async def attack_take_entry(world: World) -> list[Any]:
    return [await world.fence.take_entry("key", "k", now=START)]


async def attack_entries(world: World) -> list[Any]:
    return [await world.fence.entries("key", now=START), await world.fence.entries("conversation", now=START)]


async def attack_drop_entry(world: World) -> list[Any]:
    assert not await world.fence.drop_entry("key", "k")
    return []


async def attack_drop_expired(world: World) -> list[Any]:
    assert await world.fence.drop_expired(LATER + timedelta(days=9)) == 0
    return []


async def attack_facts(world: World) -> list[Any]:
    facts = await world.fence.facts()
    assert (facts.location, facts.bytes_used, facts.details) == ("", 0, {})
    return []


async def attack_check(world: World) -> list[Any]:
    assert isinstance(await tried(world.fence.check()), Refused)
    return []


async def attack_repair(world: World) -> list[Any]:
    assert isinstance(await tried(world.fence.repair()), Refused)
    return []


async def attack_optimise(world: World) -> list[Any]:
    assert isinstance(await tried(world.fence.optimise()), Refused)
    return []


async def attack_scrub(world: World) -> list[Any]:
    assert isinstance(await tried(world.fence.scrub([MARK])), Refused)
    return []


async def attack_capabilities(world: World) -> list[Any]:
    assert world.fence.capabilities == world.store.capabilities
    return []


async def attack_open(world: World) -> list[Any]:
    await world.fence.open()
    return []


async def attack_close(world: World) -> list[Any]:
    await world.fence.close()
    return []


Attack = Callable[[World], Coroutine[Any, Any, list[Any]]]
ATTACKS: dict[str, Attack] = {
    name.removeprefix("attack_"): cast(Attack, value)
    for name, value in dict(globals()).items()
    if name.startswith("attack_")
}


async def test_the_registry_is_told_as_far_as_the_scopes_go(world: World) -> None:
    houses = OpenStoreRegistry("local", {"local": lambda: opened_store(world.store)})
    away = {"mine": Placement("postgres"), "theirs": Placement("mongodb"), MARK: Placement("postgres")}
    await houses.settle(lambda _places: away)
    fenced = ScopedStoreRegistry(houses, ["mine", "ours"])
    for fresh in (True, False):
        assert await fenced.places(fresh=fresh) == {"mine": Placement("postgres")}
    for mode in ("local", "postgres"):
        assert isinstance(await tried(fenced.house(mode)), Refused)
    assert isinstance(await tried(fenced.settle(lambda _places: {})), Refused)
    await fenced.close()
    assert await houses.places(fresh=True) == away
    assert (fenced.home, fenced.modes) == ("local", ("local",))
    names = {name for name in vars(StoreRegistry) if not name.startswith("_")}
    assert names <= set(vars(ScopedStoreRegistry)), "none is handed on unseen"


def promised() -> set[str]:
    """Every name of the port."""
    return {name for part in Store.__mro__ for name in vars(part) if not name.startswith("_")}


def test_every_method_of_the_port_is_the_fences_own_and_is_attacked() -> None:
    assert promised() <= set(vars(ScopedStore))
    assert promised() == set(ATTACKS)


@pytest.mark.parametrize("name", sorted(ATTACKS))
async def test_nothing_outside_is_shown_or_changed(world: World, name: str) -> None:
    before = await picture(world)
    answers = await ATTACKS[name](world)
    assert await picture(world) == before
    shown = repr([answer for answer in answers if not isinstance(answer, MindholdError)])
    assert MARK not in shown
    assert not [memory_id for memory_id in world.outside_ids if f"'{memory_id}'" in shown]
    assert all(MARK not in str(answer) for answer in answers)


async def test_what_is_inside_is_as_ever(world: World) -> None:
    fence, build, mine = world.fence, world.build, world.mine
    assert await fence.get(mine.id, viewer="default") == mine
    new = build.put("something new", scope="ours", vector=unit(0, 0, 1))
    await fence.apply(
        [
            new,
            Connect(build.link(new.memory, mine, Relation.RESOLVED_BY)),
            Mark(mine.id, Status.ARCHIVED, previous=Status.ACTIVE, updated=LATER),
            Enqueue(build.job("relate", payload={"ids": [new.memory.id], "model": MODEL})),
        ]
    )
    assert (await fence.get(mine.id, viewer="default")).status is Status.ARCHIVED
    assert {link.relation for link in await fence.links_of([mine.id], viewer="default")} == {
        Relation.RELATED,
        Relation.RESOLVED_BY,
    }
    found = await fence.search(Search(Filter(), lexemes=("new",), vector=unit(0, 0, 1), model=MODEL))
    assert new.memory.id in found.ids
    await fence.apply([Disconnect(new.memory.id, mine.id, Relation.RESOLVED_BY)])
    receipt = await fence.erase([new.memory.id, world.theirs.id])
    assert receipt.ids == (new.memory.id,)
    assert {job.name for job in await world.store.jobs()} == {"embed"}


async def test_what_is_outside_crowds_nothing_out(world: World) -> None:
    await world.store.apply([world.build.put(f"{MARK} {n}", scope="theirs") for n in range(30)])
    last = world.build.put("the last", scope="mine")
    await world.store.apply([last])
    found = await world.fence.resolve("m0", viewer="default")
    assert found == [world.mine.id, world.also_mine.id, last.memory.id]


async def test_two_fences_share_only_what_both_enclose(world: World) -> None:
    other = ScopedStore(world.store, ["ours", "theirs"])
    await world.fence.set_cursor("place", "1")
    await world.fence.put_entry(Entry("conversation", "c", {"n": 1}, START))
    assert await other.cursor("place") is None
    assert await other.entries("conversation", now=START) == []
    same = ScopedStore(world.store, ["ours", "mine", "mine"])
    assert await same.cursor("place") == "1"
    assert await other.get_many([world.mine.id, world.also_mine.id], viewer="default") == {
        world.also_mine.id: world.also_mine
    }


async def test_a_fence_around_nothing_shows_nothing(world: World) -> None:
    for names in ([], ["gone"], [""], ["\n"], ["*"]):
        fence = ScopedStore(world.store, names)
        assert await fence.count(Filter(viewer="system", statuses=())) == 0
        assert await fence.find(Filter(viewer="system", statuses=())) == []
        assert await fence.get_many(world.all_ids, viewer="system") == {}
        assert await fence.scopes() == []
