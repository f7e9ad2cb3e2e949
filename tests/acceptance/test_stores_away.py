"""Stores of projects that are away, and what several processes do at once: nobody else's calls fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from dwellings import Addresses, now, opened_at, store_at
from front_door import found, run, stored

from mindhold.app.application import App, open_app
from mindhold.app.server import _engine
from mindhold.lifecycle.status import STATUS
from mindhold.memories.filters import LIST, TAGS
from mindhold.memories.forget import FORGET
from mindhold.memories.recall import RECALL
from mindhold.memories.stats import STATS
from mindhold.memories.timeline import TIMELINE
from mindhold.model.errors import Conflict, StoreAway
from mindhold.model.scope import Caller
from mindhold.ports.backend import Move, Placement, Placements
from mindhold.ports.cache import ActiveConversation, NoSidecar
from mindhold.ports.store import Store
from mindhold.projects.migrate import MIGRATE_PROJECT
from mindhold.projects.projects import CREATE_PROJECT, LIST_PROJECTS
from mindhold.projects.scope_operations import DELETE_SCOPE, LIST_SCOPES, RENAME_SCOPE
from mindhold.settings.loader import LoadedSettings, load_settings
from mindhold.stores.registry import OpenStoreRegistry, opened_store

MODES = ("local", "postgres", "mongodb")


@pytest.fixture
def addresses(tmp_path: Path) -> Addresses:
    return {mode: str(tmp_path / f"{mode}.db") for mode in MODES}


@pytest.fixture
async def app(tmp_path: Path, addresses: Addresses) -> AsyncIterator[App]:
    async with opened_at(tmp_path / "home", addresses) as app:
        yield app


class Failing:
    """A store of which some calls find that the server is away."""

    def __init__(self, store: Store, *calls: str) -> None:
        self._store = store
        self.calls = set(calls)

    def __getattr__(self, name: str) -> Any:
        return self._away if name in self.calls else getattr(self._store, name)

    async def _away(self, *_given: Any, **_named: Any) -> Any:
        raise StoreAway("The server at nowhere can't be reached.", advice="Start it.")


def failing(addresses: Addresses, stores: dict[str, Failing]) -> OpenStoreRegistry:
    """Houses whose stores may be told to fail, by mode."""

    @asynccontextmanager
    async def made(mode: str) -> AsyncIterator[Store]:
        async with opened_store(store_at(addresses[mode])) as store:
            stores[mode] = Failing(store)
            yield stores[mode]

    return OpenStoreRegistry("local", {mode: partial(made, mode) for mode in addresses})


async def test_two_renamed_to_the_same_name_at_once(app: App, tmp_path: Path, addresses: Addresses) -> None:
    for name in ("alpha", "beta"):
        await run(app, CREATE_PROJECT, name=name, storage_mode="postgres")
        await stored(app, f"The lamp of {name} is blue.", scope=name)
    async with opened_at(tmp_path / "home", addresses) as other:
        done = await asyncio.gather(
            run(app, RENAME_SCOPE, name="alpha", new_name="gamma"),
            run(other, RENAME_SCOPE, name="beta", new_name="gamma"),
            return_exceptions=True,
        )
    assert sorted(isinstance(one, Conflict) for one in done) == [False, True]
    names = {scope.name: scope.memories for scope in (await run(app, LIST_SCOPES)).scopes}
    assert names in ({"Global": 0, "gamma": 1, "beta": 1}, {"Global": 0, "gamma": 1, "alpha": 1})


async def test_a_rename_whose_name_is_taken_meanwhile_is_undone(app: App) -> None:
    await run(app, CREATE_PROJECT, name="alpha", storage_mode="postgres")
    lamp = await stored(app, "The lamp is blue.", scope="alpha")
    home, postgres = [await app.engine.store_registry.house(mode) for mode in ("local", "postgres")]
    there = {scope.name: scope for scope in await home.scopes()}
    await home.put_scope(replace(there["alpha"], name="gamma"))
    await app.engine.store_registry.settle(lambda places: {"alpha": Placement("postgres", renaming="gamma")})
    names = {scope.name for scope in (await run(app, LIST_SCOPES)).scopes}
    assert names == {"Global", "alpha", "gamma"}
    assert await found(app, "lamp", scope="alpha") == [lamp]
    assert {scope.name for scope in await postgres.scopes()} == {"Global", "alpha"}
    assert await app.engine.store_registry.places(fresh=True) == {"alpha": Placement("postgres")}


async def test_a_rename_that_can_not_be_finished_is_put_off(
    tmp_path: Path, addresses: Addresses, settings: LoadedSettings
) -> None:
    stores: dict[str, Failing] = {}
    async with open_app(settings, store_registry=failing(addresses, stores)) as app:
        await run(app, CREATE_PROJECT, name="alpha", storage_mode="postgres")
        stores["postgres"].calls = {"rename_scope"}
        with pytest.raises(StoreAway):
            await run(app, RENAME_SCOPE, name="alpha", new_name="gamma")
        stores["postgres"].calls = {"scopes", "rename_scope", "tally", "find", "search"}
        tea = await stored(app, "Tea is hot.")
        assert await found(app, "tea hot") == [tea]
        with pytest.raises(Conflict):
            await run(app, CREATE_PROJECT, name="Gamma")
    async with open_app(settings, store_registry=failing(addresses, {})) as app:  # it is back
        assert {scope.name for scope in (await run(app, LIST_SCOPES)).scopes} == {"Global", "gamma"}
        assert await app.engine.store_registry.places(fresh=True) == {"gamma": Placement("postgres")}


async def test_who_asks_everywhere_gets_what_is_within_reach_and_is_told(
    addresses: Addresses, settings: LoadedSettings
) -> None:
    stores: dict[str, Failing] = {}
    async with open_app(settings, store_registry=failing(addresses, stores)) as app:
        await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres")
        await stored(app, "The lamp is blue.", scope="shop", tags=["light"])
        sun = await stored(app, "The sun is yellow.", tags=["light"])
        stores["postgres"].calls = {"find", "count", "tally", "search", "count_links", "facts"}
        notice = "postgres doesn't answer (STORE_AWAY): shop left out."
        recalled = await run(app, RECALL, query="lamp sun", everywhere=True)
        assert ([hit.id for hit in recalled.hits], recalled.notice) == ([sun], notice)
        listed = await run(app, LIST)
        assert ([one.id for one in listed.memories], listed.total, listed.notice) == ([sun], 1, notice)
        tags = await run(app, TAGS)
        assert (tags.tags, tags.notice) == ({"light": 1}, notice)
        days = await run(app, TIMELINE)
        assert (days.count, days.notice) == (1, notice)
        stats = await run(app, STATS)
        assert (stats.total, sum(stats.by_tier.values()), stats.notice) == (1, 1, notice)
        scopes = await run(app, LIST_SCOPES)
        assert {one.name: one.memories for one in scopes.scopes} == {"Global": 1, "shop": None}
        for operation, fields in (
            (RECALL, {"query": "lamp", "scope": "shop"}),
            (LIST, {"scope": "shop"}),
            (TAGS, {"scope": "shop"}),
            (TIMELINE, {"scope": "shop"}),
        ):
            with pytest.raises(StoreAway):
                await run(app, operation, **fields)  # type: ignore[misc]


@pytest.mark.parametrize("configured", [True, False])
async def test_a_server_opens_while_a_projects_store_is_away(tmp_path: Path, configured: bool) -> None:
    home = tmp_path / "home"
    plain = {"home": home, "time_zone": "UTC", "embedding.provider": "hashing", "scope": "desk"}
    loaded = load_settings(plain, environ={})
    files = {"local": str(loaded.settings.database), "postgres": str(tmp_path / "other.db")}
    async with opened_at(home, files) as app:
        await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres")
    if configured:
        away = {
            "postgres.url": "postgresql://nobody@127.0.0.1:9/none",
            "postgres.connection_timeout_ms": 1000,
        }
        loaded = load_settings(plain | away, environ={})
    async with _engine(loaded) as running:
        assert isinstance(running, App)
        assert {scope.name for scope in (await run(running, LIST_SCOPES)).scopes} == {
            "Global",
            "desk",
            "shop",
        }


async def test_who_waits_for_a_store_shares_the_wait_and_the_failure(addresses: Addresses) -> None:
    tries: list[str] = []
    gate = asyncio.Event()
    passed = [0.0]

    @asynccontextmanager
    async def closed() -> AsyncIterator[Store]:
        tries.append("postgres")
        await gate.wait()
        raise StoreAway("The server at nowhere can't be reached.")
        yield

    houses = OpenStoreRegistry(
        "local",
        {"local": lambda: opened_store(store_at(addresses["local"])), "postgres": closed},
        seconds=lambda: passed[0],
    )
    waiting = [asyncio.create_task(houses.house("postgres")) for _ in range(8)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # one who goes takes nobody along
    gate.set()
    said = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(one) for one in said] == [asyncio.CancelledError, *[StoreAway] * 7]
    with pytest.raises(StoreAway):
        await houses.house("postgres")
    assert tries == ["postgres"]
    passed[0] = 1.0
    with pytest.raises(StoreAway):
        await houses.house("postgres")
    assert len(tries) == 2
    await houses.close()


async def test_a_key_for_two_scopes_is_told_of_both(app: App) -> None:
    await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres")
    await stored(app, "The lamp is blue.", scope="shop")
    await stored(app, "The sun is yellow.")
    bound = Caller("default", bound=True, scopes=("shop", "Global"), owner=False)
    told = await app.run(STATUS, STATUS.takes(), caller=bound)
    assert (told.memories, told.storage["postgres"]["state"]) == (2, "ok")
    assert (await app.run(STATS, STATS.takes(), caller=bound)).by_scope == {"Global": 1, "shop": 1}


def _of_shop(place: Placement) -> Callable[[Placements], Placements]:
    return lambda _places: {"shop": place}


async def test_a_project_on_its_way_is_not_deleted(app: App) -> None:
    await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres")
    lamp = await stored(app, "The lamp is blue.", scope="shop")
    for until, refused in ((timedelta(minutes=1), True), (-timedelta(minutes=1), False)):
        move = Move("mongodb", "somebody", now() + until)
        await app.engine.store_registry.settle(_of_shop(Placement("postgres", move=move)))
        if refused:
            with pytest.raises(Conflict, match="being moved"):
                await run(app, DELETE_SCOPE, name="shop")
            assert await found(app, "lamp", scope="shop") == [lamp]
        else:
            assert (await run(app, DELETE_SCOPE, name="shop")).memories == 1


async def test_a_project_that_can_not_be_made_is_not_half_made(
    addresses: Addresses, settings: LoadedSettings
) -> None:
    stores: dict[str, Failing] = {}
    async with open_app(settings, store_registry=failing(addresses, stores)) as app:
        await app.engine.store_registry.house("postgres")
        stores["postgres"].calls = {"put_scope"}
        with pytest.raises(StoreAway):
            await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres")
        assert (await run(app, LIST_PROJECTS)).projects == []
        stores["postgres"].calls = set()
        await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres")
        await stored(app, "The lamp is blue.", scope="shop")


async def test_a_receipt_tells_copies_apart(app: App) -> None:
    await run(app, CREATE_PROJECT, name="shop", storage_mode="postgres")
    lamp = await stored(app, "The lamp is blue.", scope="shop")
    await run(app, MIGRATE_PROJECT, project="shop", to="local")
    gone = await run(app, FORGET, ids=[lamp], hard=True)
    assert gone.receipt is not None
    assert gone.receipt.removed["memories"] == 1
    assert gone.receipt.removed["copies: memories"] == 1


class Busy(NoSidecar):
    """Something beside the store that knows of a conversation."""

    async def recent(self, *, viewer: str) -> list[ActiveConversation]:
        return [ActiveConversation(viewer, "of Global", now(), {"remember": 1})]


async def test_a_key_for_one_scope_is_not_told_what_others_do(app: App) -> None:
    await run(app, CREATE_PROJECT, name="shop")
    beside = App(replace(app.engine, sidecar=Busy()), app.loaded)
    for scopes, told in (((), 1), (("shop",), 0)):
        caller = Caller("default", bound=bool(scopes), scopes=scopes)
        answer = await beside.run(STATUS, STATUS.takes(), caller=caller)
        assert len(answer.activity) == told
