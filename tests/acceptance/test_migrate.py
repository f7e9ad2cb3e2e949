"""Moving a project: all of it arrives, nothing that is written meanwhile is lost, and it may be killed at any point."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dwellings import Addresses, Child, contents, houses_at, opened_at, vectors
from front_door import acting, found, recall, run, stored

from mindhold.app.application import App
from mindhold.memories.amend import AMEND
from mindhold.memories.forget import FORGET
from mindhold.memories.links import LINK
from mindhold.memories.remember import REMEMBER_MANY
from mindhold.memories.transfer import EXPORT
from mindhold.model.errors import Conflict, InvalidInput, Refused, ScopeNotFound, StoreAway
from mindhold.model.memory import ANY_STATUS, Status
from mindhold.model.query import Filter
from mindhold.ports.backend import LEASE, Move, MoverWatch, Placement, Placements
from mindhold.ports.store import Change, Put, Receipt
from mindhold.projects.migrate import MIGRATE_PROJECT, MigrateProjectResult
from mindhold.projects.projects import CREATE_PROJECT, LIST_PROJECTS, SHOW_PROJECT
from mindhold.projects.scope_operations import CHANGE_SCOPE, CREATE_SCOPE, DELETE_SCOPE, RENAME_SCOPE
from support.mongo_server import MongoServer

MODES = ("local", "postgres", "mongodb")
DIRECTIONS = [(source, target) for source in MODES for target in MODES if source != target]
_numbers = count(1)


async def moved(app: App, to: str, project: str = "shop", **fields: Any) -> MigrateProjectResult:
    return await run(app, MIGRATE_PROJECT, project=project, to=to, **fields)


async def bulk_of(app: App, number: int) -> None:
    items = [
        {"content": f"Crate {n} holds {n * 7} lamps of type {n % 13}.", "scope": "shop"}
        for n in range(number)
    ]
    await run(app, REMEMBER_MANY, items=items)


async def filled(app: App, mode: str, *, bulk: int = 0) -> dict[str, str]:
    """A project with something of everything."""
    await run(app, CREATE_PROJECT, name="shop", storage_mode=mode)
    ids = {
        "plain": await stored(
            app, "The shop opens at nine.", scope="shop", tags=["Hours", "ß"], topic="hours"
        ),
        "amended": await stored(
            app, "Parcels leave on Mondays.", scope="shop", metadata={"k": {"n": [1, 2.5]}}
        ),
        "hidden": await stored(app, "The safe is behind the mirror.", scope="shop"),
        "hers": await stored(acting(app, "ada"), "Ada has the key to the cellar.", scope="shop"),
        "used": await stored(app, "The oven takes twenty minutes to heat.", scope="shop", kind="procedure"),
    }
    await run(app, AMEND, id=ids["amended"], content="Parcels leave on Tuesdays.")
    await run(app, AMEND, id=ids["amended"], content="Parcels leave on Wednesdays.", importance=0.9)
    await run(app, FORGET, ids=[ids["hidden"]])
    await run(app, LINK, origin=ids["plain"], target=ids["amended"], relation="caused_by")
    assert ids["used"] in await found(app, "oven heat minutes", scope="shop")
    await app.engine.use_counter.flush()
    if bulk:
        await bulk_of(app, bulk)
    return ids


class MigrateContract:
    @pytest.fixture
    async def app(self, tmp_path: Path, addresses: Addresses) -> AsyncIterator[App]:
        async with opened_at(tmp_path / "home", addresses) as app:
            yield app

    @pytest.mark.parametrize(("source", "target"), DIRECTIONS)
    async def test_everything_arrives(self, app: App, source: str, target: str) -> None:
        ids = await filled(app, source, bulk=60)
        old, new = [await app.engine.store_registry.house(mode) for mode in (source, target)]
        before, meant = await contents(old, "shop"), await vectors(old, "shop")
        done = await moved(app, target)
        assert (done.moved, done.source, done.target) == (True, source, target)
        assert await contents(new, "shop") == before
        arrived = await vectors(new, "shop")
        assert arrived.keys() == meant.keys()
        assert all(np.allclose(arrived[one], meant[one], atol=1e-3) for one in meant)
        assert (done.memories, done.versions, done.links) == (65, 2, len(before["links"]))
        assert done.vectors == len(meant) == 65
        assert done.kept_in == [source]
        assert len(done.content_sum) == 64
        assert (await run(app, SHOW_PROJECT, name="shop")).storage_mode == target
        assert await contents(app.engine.store, "shop") == before
        assert ids["plain"] in await found(app, "when does the shop open", scope="shop")
        used = await app.engine.store.get(ids["used"], viewer="system")
        assert used.uses >= 1
        assert used.last_used is not None
        again = await moved(app, target)
        assert (again.moved, again.kept_in) == (False, [source])

    async def test_there_and_back_with_changes_on_the_way(self, app: App) -> None:
        ids = await filled(app, "local")
        for target in ("mongodb", "postgres", "local", "postgres"):
            await moved(app, target)
            await run(app, FORGET, ids=[ids["plain"]])
            text = f"It went to {target} then, number {next(_numbers)}."
            new = await stored(app, text, scope="shop")
            await run(app, AMEND, id=new, content=f"{text} And stayed.")
        expected = await contents(app.engine.store, "shop")
        assert len(expected["memories"]) == 9
        done = await moved(app, "local", drop_source=True)
        assert done.kept_in == []
        assert done.dropped > 0
        assert await contents(app.engine.store, "shop") == expected
        for mode in ("mongodb", "postgres"):
            store = await app.engine.store_registry.house(mode)
            assert (await contents(store, "shop"))["memories"] == []
            assert "shop" not in {scope.name for scope in await store.scopes()}

    async def test_a_move_that_is_killed_goes_on(
        self, app: App, tmp_path: Path, addresses: Addresses
    ) -> None:
        await filled(app, "local", bulk=1200)
        before = await contents(app.engine.store, "shop")
        for steps in (1, 2, 4, 7):
            with Child(tmp_path / "home", addresses) as child:
                await child.hear()
                child.tell("migrate", project="shop", to="postgres")
                for _ in range(steps):
                    await child.hear()
                child.kill()
            there = (await run(app, SHOW_PROJECT, name="shop")).storage_mode
            assert await contents(app.engine.store, "shop") == before, f"killed after {steps} steps"
            if there == "postgres":
                break
            await app.engine.store_registry.settle(_hold_ended)
        done = await moved(app, "postgres")
        assert await contents(await app.engine.store_registry.house("postgres"), "shop") == before
        assert done.target == "postgres"

    async def test_nothing_that_others_write_meanwhile_is_lost(
        self, app: App, tmp_path: Path, addresses: Addresses
    ) -> None:
        await filled(app, "local", bulk=600)
        with Child(tmp_path / "home", addresses) as one, Child(tmp_path / "home", addresses) as two:
            for name, child in (("one", one), ("two", two)):
                await child.hear()
                child.tell("write", project="shop", name=name)
            heard = [await one.hear(), await two.hear()]
            results = [await moved(app, target) for target in ("postgres", "mongodb")]
            heard += [*one.end(), *two.end()]
        assert [done.moved for done in results] == [True, True]
        assert not [said for said in heard if "error" in said]
        await check_acknowledged(app, heard)
        mongodb = await app.engine.store_registry.house("mongodb")
        assert await contents(app.engine.store, "shop") == await contents(mongodb, "shop")


def _hold_ended(places: Placements) -> Placements:
    """As if the seconds of a dead mover's hold were over."""
    place = places.get("shop")
    if place is None or place.move is None:
        return places
    return {**places, "shop": replace(place, move=replace(place.move, until=place.move.until - 3 * LEASE))}


async def check_acknowledged(app: App, heard: list[dict[str, Any]]) -> None:
    """Whatever was said to be done is."""
    gone = {said["erased"] for said in heard if "erased" in said}
    hidden = {said["forgotten"] for said in heard if "forgotten" in said}
    texts = {said["stored"]: said["content"] for said in heard if "stored" in said}
    texts |= {said["amended"]: said["content"] for said in heard if "amended" in said}
    assert len(texts) > 4
    there = await app.engine.store.get_many(list(texts), viewer="system")
    missing = texts.keys() - there.keys() - gone
    assert not missing
    assert not gone & there.keys()
    for memory_id, memory in there.items():
        if memory.status is Status.ACTIVE and memory_id not in hidden:
            assert memory.content in (texts[memory_id], f"{texts[memory_id]} It was weighed again.")
        assert memory_id not in hidden or memory.status is Status.FORGOTTEN
    links = await app.engine.store.links_of(list(there), viewer="system")
    drawn = {(link.origin, link.target) for link in links}
    for said in heard:
        if "linked" in said and not gone & set(said["linked"]):
            assert tuple(said["linked"]) in drawn


class TestOnFiles(MigrateContract):
    """A SQLite file for each mode: the steps themselves."""

    @pytest.fixture
    def addresses(self, tmp_path: Path) -> Addresses:
        return {mode: str(tmp_path / f"{mode}.db") for mode in MODES}


class TestOnServers(MigrateContract):
    """The real ones."""

    @pytest.fixture
    def addresses(self, tmp_path: Path, postgres_url: str, mongo_server: MongoServer) -> Iterator[Addresses]:
        return {
            "local": str(tmp_path / "local.db"),
            "postgres": postgres_url,
            "mongodb": f"{mongo_server.url}#moved_{next(_numbers)}",
        }


@pytest.fixture
def addresses(tmp_path: Path) -> Addresses:
    return {mode: str(tmp_path / f"{mode}.db") for mode in MODES}


@pytest.fixture
async def app(tmp_path: Path, addresses: Addresses) -> AsyncIterator[App]:
    async with opened_at(tmp_path / "home", addresses) as app:
        yield app


async def test_links_that_lead_out_of_the_project_are_told_and_come_back_with_it(app: App) -> None:
    ids = await filled(app, "local")
    outside = await stored(app, "Deliveries are paid by the harbour office.")
    await run(app, LINK, origin=ids["plain"], target=outside, relation="caused_by")
    done = await moved(app, "postgres")
    assert done.outside_links == 1
    assert done.outside == [f"{ids['plain']} caused_by {outside}"]
    links = await app.engine.store.links_of([outside, ids["plain"]], viewer="system")
    assert [link.target for link in links] == [ids["amended"]]
    await moved(app, "local")
    links = await app.engine.store.links_of([outside], viewer="system")
    assert [(link.origin, link.target) for link in links] == [(ids["plain"], outside)]


async def test_what_is_at_home_still_names_what_has_moved(app: App) -> None:
    """Jobs, entries and other memories that speak of a record do so wherever it lives."""
    ids = await filled(app, "local")
    await bulk_of(app, 60)
    jobs = await app.engine.store.jobs()
    assert jobs
    done = await moved(app, "postgres", drop_source=True)
    assert done.dropped == done.memories == 65
    assert await app.engine.store.jobs() == jobs
    home = await app.engine.store_registry.house("local")
    assert (await contents(home, "shop"))["memories"] == []
    await run(app, FORGET, ids=[ids["plain"]], hard=True)
    assert await app.engine.store.get_many([ids["plain"]], viewer="system") == {}


async def test_erasing_reaches_what_was_left_behind(app: App) -> None:
    ids = await filled(app, "local")
    await moved(app, "postgres")
    receipt = (await run(app, FORGET, ids=[ids["plain"]], hard=True)).receipt
    assert receipt is not None
    for mode in MODES:
        store = await app.engine.store_registry.house(mode)
        assert ids["plain"] not in await store.get_many([ids["plain"]], viewer="system")


async def test_vectors_of_another_model_are_made_anew(app: App) -> None:
    await filled(app, "local")
    home = await app.engine.store_registry.house("local")
    where = Filter(viewer="system", scopes=("shop",), statuses=ANY_STATUS)
    [some] = [memory async for batch in home.scan(where) for memory in batch if memory.topic == "hours"]
    [vector] = (await home.vector_of([some.id], model=some.embedded_by or "")).values()
    await home.put_vectors({some.id: (some.content_hash, vector)}, model="an older model")
    done = await moved(app, "postgres")
    assert (done.memories, done.vectors) == (5, 4)
    assert "jobs run" in done.notice
    there = await (await app.engine.store_registry.house("postgres")).get(some.id, viewer="system")
    assert there.embedded_by is None


async def test_a_stranger_of_the_same_name_is_not_overwritten(app: App, addresses: Addresses) -> None:
    await filled(app, "local")
    other = houses_at(addresses)
    theirs = await other.house("postgres")
    home = await other.house("local")
    await theirs.put_scope(next(scope for scope in await home.scopes() if scope.name == "shop"))
    [memory] = [
        m async for b in home.scan(Filter(viewer="system", scopes=("shop",), topic="hours")) for m in b
    ]
    await theirs.apply([Put(replace(memory, id="theirs", embedded_by=None), ["theirs"])])
    with pytest.raises(Refused, match="another project"):
        await moved(app, "postgres")
    assert await theirs.count(Filter(viewer="system")) == 1
    await run(app, RENAME_SCOPE, name="shop", new_name="our shop")
    assert (await moved(app, "postgres", project="our shop")).moved
    await other.close()


async def test_only_one_moves_a_project_at_a_time(app: App) -> None:
    await filled(app, "local")
    houses = app.engine.store_registry
    now = app.engine.clock()

    def held(until: Any) -> Any:
        return lambda places: {**places, "shop": Placement("local", move=Move("mongodb", "another", until))}

    await houses.settle(held(now + timedelta(hours=1)))

    async def renewed() -> None:
        for minutes in count(61):
            await houses.settle(held(now + timedelta(minutes=minutes)))

    renewing = asyncio.create_task(renewed())
    with pytest.raises(Conflict, match="another process"):
        await moved(app, "postgres")
    renewing.cancel()
    await asyncio.gather(renewing, return_exceptions=True)
    with pytest.raises(Conflict):
        await run(app, RENAME_SCOPE, name="shop", new_name="store")
    await houses.settle(held(now - timedelta(minutes=1)))  # it died
    assert (await moved(app, "postgres")).moved


async def test_writers_wait_for_the_last_look_and_go_on_when_the_mover_is_dead(app: App) -> None:
    await filled(app, "local")
    ended = app.engine.clock() - timedelta(minutes=1)
    frozen = Placement("local", copies=("postgres",), move=Move("postgres", "dead", ended, frozen=True))
    await app.engine.store_registry.settle(lambda places: {**places, "shop": frozen})
    await stored(app, "Elsewhere nobody waits.")
    assert (await app.engine.store_registry.places(fresh=True))["shop"] == frozen
    written = await stored(app, "The lamp shop has a new door.", scope="shop")
    assert (await app.engine.store_registry.places(fresh=True))["shop"].move is None
    assert (await app.engine.store.get(written, viewer="system")).scope == "shop"


async def test_what_cannot_be_moved(app: App) -> None:
    with pytest.raises(Refused):
        await moved(app, "postgres", project="Global")
    with pytest.raises(ScopeNotFound):
        await moved(app, "postgres", project="nowhere")
    await run(app, CREATE_SCOPE, name="notes")
    with pytest.raises(InvalidInput):
        await run(app, CREATE_PROJECT, name=" ")
    assert (await moved(app, "postgres", project="notes")).moved, "a scope need not be a project"
    assert [one.name for one in (await run(app, LIST_PROJECTS)).projects] == ["notes"]


async def test_a_project_that_moved_is_nested_described_exported_and_recalled(
    app: App, tmp_path: Path
) -> None:
    await filled(app, "local")
    await run(app, CREATE_SCOPE, name="work")
    await run(app, CREATE_SCOPE, name="till", parent="shop")
    await moved(app, "postgres")
    scope = await run(app, CHANGE_SCOPE, name="shop", parent="work", description="All that we sell")
    assert (scope.parent, scope.children, scope.memories) == ("work", ["till"], 3)
    await stored(app, "The office pays the shop's rent.", scope="work")
    await stored(app, "The till is counted at noon.", scope="till")
    told = [
        hit.content
        for hit in (await recall(app, "shop rent till noon opens", scope="till", minimum_score=0)).hits
    ]
    assert any("rent" in text for text in told)
    assert any("opens at nine" in text for text in told)
    assert any("counted" in text for text in told)
    written = await run(app, EXPORT, path=str(tmp_path / "all.jsonl"))
    assert (written.memories, written.scopes) == (6, 4)
    assert "opens at nine" in (tmp_path / "all.jsonl").read_text(encoding="utf-8")


async def test_a_copy_is_dropped_under_a_hold(tmp_path: Path, app: App, addresses: Addresses) -> None:
    """However long that takes: another who moves the project to where it is being dropped would lose all of it."""
    await filled(app, "postgres")
    before = await contents(app.engine.store, "shop")
    await moved(app, "local")
    store = await app.engine.store_registry.house("postgres")
    erase, begun, go = store.erase, asyncio.Event(), asyncio.Event()

    async def slow(ids: Sequence[str], *, references: bool = True) -> Receipt:
        begun.set()
        await go.wait()
        return await erase(ids, references=references)

    store.erase = slow  # type: ignore[method-assign]
    dropping = asyncio.create_task(run(app, MIGRATE_PROJECT, project="shop", drop_source=True))
    await begun.wait()
    async with opened_at(tmp_path / "home", addresses) as other:
        with pytest.raises(Conflict, match="another process"):
            await moved(other, "postgres", drop_source=True)
        go.set()
        done = await dropping
        assert (done.dropped, done.spared, done.kept_in) == (5, 0, [])
        assert await contents(other.engine.store, "shop") == before
        assert (await moved(other, "postgres", drop_source=True)).dropped == 5
        assert await contents(other.engine.store, "shop") == before


async def test_what_only_the_copy_has_is_not_dropped(app: App) -> None:
    ids = await filled(app, "postgres")
    await moved(app, "local")
    store = await app.engine.store_registry.house("postgres")
    some = await store.get(ids["plain"], viewer="system")
    await store.apply([Put(replace(some, id="theirs", agent="ada", embedded_by=None), ["theirs"])])
    done = await run(app, MIGRATE_PROJECT, project="shop", drop_source=True)
    assert (done.dropped, done.spared, done.kept_in) == (5, 1, ["postgres"])
    assert "--forget-copy" in done.notice
    assert (await run(app, MIGRATE_PROJECT, project="shop", forget_copy="postgres")).kept_in == []
    assert await store.count(Filter(viewer="system")) == 1


@pytest.mark.parametrize("there", [False, True])
async def test_an_empty_database_does_not_replace_the_kept_copy(
    tmp_path: Path, addresses: Addresses, there: bool
) -> None:
    async with opened_at(tmp_path / "home", addresses) as app:
        await filled(app, "local")
        await moved(app, "postgres")
        [scope] = [one for one in await app.engine.store.scopes() if one.name == "shop"]
    another = str(tmp_path / "another.db")  # a lost volume, or another address in the settings
    async with opened_at(tmp_path / "home", {**addresses, "postgres": another}) as app:
        if there:
            await (await app.engine.store_registry.house("postgres")).put_scope(scope)
        with pytest.raises(Refused, match=r"another\.db"):
            await moved(app, "local")
        assert len((await contents(await app.engine.store_registry.house("local"), "shop"))["memories"]) == 5


async def test_what_is_erased_during_a_move_is_nowhere_when_the_mover_dies(
    tmp_path: Path, app: App, addresses: Addresses
) -> None:
    ids = await filled(app, "local")
    source, target = [await app.engine.store_registry.house(mode) for mode in ("local", "mongodb")]
    apply, forgetting = target.apply, list[asyncio.Task[Any]]()
    async with opened_at(tmp_path / "home", addresses) as other:

        async def late(changes: Sequence[Change]) -> None:
            forget = run(other, FORGET, ids=[ids["plain"]], hard=True)
            forgetting.append(asyncio.create_task(forget))
            while await source.get_many([ids["plain"]], viewer="system"):
                pass
            await apply(changes)
            raise StoreAway("It went away, after it had written.")

        target.apply = late  # type: ignore[method-assign]
        with pytest.raises(StoreAway):
            await moved(app, "mongodb")
        receipt = (await forgetting[0]).receipt
    assert receipt is not None
    assert set(receipt.remaining.values()) == {0}
    assert ids["plain"] not in await target.get_many(list(ids.values()), viewer="system")


async def test_a_copy_whose_store_is_gone_is_told_of_and_can_be_forgotten(
    tmp_path: Path, addresses: Addresses
) -> None:
    async with opened_at(tmp_path / "home", addresses) as app:
        ids = await filled(app, "postgres")
        everyone = await stored(app, "The door code is on the blue note.")
        await moved(app, "local")
    left = {mode: address for mode, address in addresses.items() if mode != "postgres"}
    async with opened_at(tmp_path / "home", left) as app:
        await run(app, FORGET, ids=[everyone], hard=True)
        for work in (
            run(app, FORGET, ids=[ids["plain"]], hard=True),
            run(app, RENAME_SCOPE, name="shop", new_name="store"),
            run(app, DELETE_SCOPE, name="shop"),
            run(app, MIGRATE_PROJECT, project="shop", drop_source=True),
        ):
            with pytest.raises(Refused, match=r"copy of 'shop' is in postgres.*--forget-copy postgres"):
                await work
        assert (await app.engine.store.get(ids["plain"], viewer="system")).scope == "shop"
        await run(app, MIGRATE_PROJECT, project="shop", forget_copy="postgres")
        await run(app, FORGET, ids=[ids["plain"]], hard=True)
        await run(app, RENAME_SCOPE, name="shop", new_name="store")


def test_a_mover_is_taken_for_dead_when_it_stands_still_whatever_the_clocks_say() -> None:
    seconds = [0.0]
    watch = MoverWatch(lambda: seconds[0])
    now = datetime(2030, 1, 1, tzinfo=UTC)
    for until in (now - timedelta(seconds=5), now + timedelta(hours=1)):
        move = Move("postgres", "them", until)
        assert not watch.gone(move, now=now)
        seconds[0] += 9
        assert not watch.gone(move, now=now)
        renewed = replace(move, until=until + timedelta(seconds=9))
        assert not watch.gone(renewed, now=now)
        seconds[0] += 9
        assert not watch.gone(renewed, now=now)
        seconds[0] += 1
        assert watch.gone(renewed, now=now)
    assert watch.gone(Move("postgres", "others", now - timedelta(minutes=1)), now=now)
