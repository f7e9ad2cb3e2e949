"""The stores in use, whether each one answers, and which homes share a project in a database."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from mindhold.engine import Engine
from mindhold.memories.embedding import EMBEDDER_CURSOR
from mindhold.model.errors import Refused, SettingsError, StoreBusy, StoreError
from mindhold.model.memory import ANY_STATUS
from mindhold.model.query import Filter
from mindhold.ports.backend import Placement, Placements
from mindhold.ports.store import Capability, Store

T = TypeVar("T")
OK, UNKNOWN = "ok", "unknown"
LONGEST_SECONDS = 1.5  # who asks how things are won't wait long


@dataclass(frozen=True, slots=True)
class StoreState:
    """A store that something lives in. `state` is ok, or the code of what it answered."""

    mode: str
    state: str
    detail: str = ""
    projects: tuple[str, ...] = ()  # those that it says of that they live there
    copies: int = 0  # hidden ones


async def storages(engine: Engine) -> list[StoreState]:
    """Home first. Those that don't answer say why, in bounded time."""
    places = await engine.store_registry.places()
    modes = dict.fromkeys(
        (engine.store_registry.home, *(mode for one in places.values() for mode in one.modes()))
    )
    return list(await asyncio.gather(*(_storage(engine, mode, places) for mode in modes)))


async def ask_reachable(engine: Engine, ask: Callable[[tuple[str, ...]], Awaitable[T]]) -> tuple[T, str]:
    """What is asked of all scopes, of those whose stores answer where one doesn't; and words about what is left out.

    `ask` is given the scopes, none for all, and may be called twice. Raises the store's errors when all answer, and home's.
    """
    try:
        return await ask(()), ""
    except (StoreError, SettingsError):
        found = await storages(engine)
        scopes = await reachable_scopes(engine, found)
        if not scopes:
            raise
    return await ask(scopes), unreachable_notice(found)


def unreachable_notice(found: Sequence[StoreState]) -> str:
    """Words about the stores that don't answer; empty when all do."""
    return " ".join(
        f"{one.mode} doesn't answer ({one.state}): {', '.join(one.projects)} left out."
        for one in found
        if one.state not in (OK, UNKNOWN) and one.projects
    )


async def reachable_scopes(engine: Engine, found: Sequence[StoreState]) -> tuple[str, ...]:
    """The scopes whose stores answer; empty when all do."""
    away = {one.mode for one in found if one.state not in (OK, UNKNOWN) and one.projects}
    if not away:
        return ()
    places = await engine.store_registry.places()
    home = Placement(engine.store_registry.home)
    return tuple(
        scope.name for scope in await engine.store.scopes() if places.get(scope.name, home).mode not in away
    )


async def stores_without_vectors(engine: Engine, modes: Iterable[str]) -> dict[str, str]:
    """Those of the stores that keep no vectors, each with why and what to do about it; not those that can't be asked."""
    found: dict[str, str] = {}
    for mode in dict.fromkeys(modes):
        with suppress(Refused, StoreError, SettingsError):  # who is bound to scopes is told of home alone
            store = (
                engine.store
                if mode == engine.store_registry.home
                else await engine.store_registry.house(mode)
            )
            if Capability.VECTORS not in store.capabilities:
                found[mode] = (await store.facts()).without_vectors
    return found


async def _asked(engine: Engine, mode: str, projects: Sequence[str]) -> None:
    if projects:  # by what lives there, as one who is bound to scopes may
        where = Filter(viewer="system", scopes=tuple(projects[:1]), statuses=ANY_STATUS)
        await engine.store.find(where, limit=1)
    else:
        await (await engine.store_registry.house(mode)).facts()


async def _storage(engine: Engine, mode: str, places: Placements) -> StoreState:
    projects = tuple(sorted(name for name, place in places.items() if place.mode == mode))
    copies = sum(mode in place.copies for place in places.values())
    if mode == engine.store_registry.home:
        return StoreState(mode, OK, projects=projects, copies=copies)  # the registry was read there
    asking = asyncio.create_task(_asked(engine, mode, projects))
    asking.add_done_callback(lambda task: task.cancelled() or task.exception())
    try:
        # Opening a store is never broken off: the next who asks finds it open.
        async with asyncio.timeout(LONGEST_SECONDS):
            await asyncio.shield(asking)
    except TimeoutError:
        return StoreState(mode, "STORE_BUSY", "It takes too long to answer.", projects, copies)
    except Refused:  # a caller who is not to know
        return StoreState(mode, UNKNOWN, projects=projects)
    except (StoreError, SettingsError) as error:
        return StoreState(mode, error.code, error.message, projects, copies)
    return StoreState(mode, OK, projects=projects, copies=copies)


HOME = "home"  # the cursor with a home's id
TENANTS = "tenants:"  # and a project's name: the cursor with the homes that use it
LIVES, COPY = "lives", "copy"
_ITS_OWN = "the home in that database"
_MOST_TRIES = 100
Tenants = dict[str, str]  # by the home's id: whether the project lives there, or is a hidden copy


async def home_id(engine: Engine) -> str:
    """That of our home."""
    known = await engine.store.cursor(HOME)
    if known is None:
        await engine.store.swap_cursor(HOME, old=None, new=engine.new_id())
        known = await engine.store.cursor(HOME)
    assert known is not None
    return known


async def register_tenant(
    engine: Engine, name: str, *, mode: str, state: str = LIVES, alone: bool = False
) -> None:
    """Note that we use it there. Raises Refused when another home has left a copy there; if `alone`, when one uses it."""
    own = await home_id(engine)
    store = await engine.store_registry.house(mode)
    there = name in {scope.name for scope in await store.scopes()}

    def change(tenants: Tenants) -> Tenants:
        others = {home: one for home, one in tenants.items() if home != own} if there else {}
        if COPY in others.values():
            raise Refused(
                f"What is in {mode} of {name!r} is a copy that another home has left there.",
                advice="Choose another name, or have that home drop it: "
                f"`mindhold migrate {name!r} --drop-source`.",
            )
        if alone and others:
            raise _shared(name, mode, "moved there")
        return {**others, own: state}

    await _change(store, name, change)


async def unregister_tenant(engine: Engine, name: str, *, mode: str, state: str | None, what: str) -> None:
    """Note that it is a copy there, or nothing of ours any more (None). Raises Refused when others use it."""
    own = await home_id(engine)
    store = await engine.store_registry.house(mode)
    has_home = await _has_its_own(engine, name, mode=mode)

    def change(tenants: Tenants) -> Tenants:
        others = {home: one for home, one in tenants.items() if home != own}
        if others or has_home:
            raise _shared(name, mode, what, its_own=has_home)
        return {} if state is None else {own: state}

    await _change(store, name, change)


async def leave(engine: Engine, name: str, *, mode: str) -> None:
    """To the others."""
    own = await home_id(engine)
    await _change(
        await engine.store_registry.house(mode),
        name,
        lambda tenants: {home: one for home, one in tenants.items() if home != own},
    )


async def other_tenants(engine: Engine, name: str, *, mode: str) -> frozenset[str]:
    """The homes that use it there, besides ours."""
    tenants = _read(await (await engine.store_registry.house(mode)).cursor(TENANTS + name))
    its_own = {_ITS_OWN} if await _has_its_own(engine, name, mode=mode) else set()
    return frozenset((tenants.keys() | its_own) - {await home_id(engine)})


async def refuse_shared(engine: Engine, name: str, *, what: str) -> None:
    """Raises Refused when another home uses it where it lives, or a copy can't be reached."""
    place = (await engine.store_registry.places(fresh=True)).get(name, Placement(engine.store_registry.home))
    if others := await other_tenants(engine, name, mode=place.mode):
        raise _shared(name, place.mode, what, its_own=_ITS_OWN in others)
    for mode in place.copies:
        await copy_store(engine, name, mode=mode)


async def copy_store(engine: Engine, name: str, *, mode: str) -> Store:
    """The store with a copy. Raises Refused when it can't be reached."""
    try:
        store = await engine.store_registry.house(mode)
        await store.scopes()
    except (StoreError, SettingsError) as error:
        raise Refused(
            f"A hidden copy of {name!r} is in {mode}, which can't be reached: {error.message}",
            advice="Bring that store back; if it is gone for good, say so: "
            f"`mindhold migrate {name!r} --forget-copy {mode}`.",
        ) from error
    return store


async def rename_tenant_scope(engine: Engine, old: str, new: str) -> None:
    """After a project was renamed."""
    place = (await engine.store_registry.places(fresh=True)).get(new)
    for mode in () if place is None else place.modes():
        store = await engine.store_registry.house(mode)
        noted = await store.cursor(TENANTS + old)
        if noted is not None:
            await store.set_cursor(TENANTS + new, noted)
            await store.set_cursor(TENANTS + old, None)


async def _has_its_own(engine: Engine, name: str, *, mode: str) -> bool:
    """Whether the database is a home itself, of others: to it every scope there is its own."""
    if mode == engine.store_registry.home:
        return False
    store = await engine.store_registry.house(mode)
    if await store.cursor(HOME) is None and await store.cursor(EMBEDDER_CURSOR) is None:
        return False
    return name in {scope.name for scope in await store.scopes()}


async def _change(store: Store, name: str, change: Callable[[Tenants], Tenants]) -> None:
    for _ in range(_MOST_TRIES):
        before = await store.cursor(TENANTS + name)
        tenants = change(_read(before))
        after = json.dumps(tenants, sort_keys=True) if tenants else None
        if before == after or await store.swap_cursor(TENANTS + name, old=before, new=after):
            return
    raise StoreBusy(f"Who uses {name!r} changes too often.", advice="Try again in a moment.")


def _read(text: str | None) -> Tenants:
    return {} if text is None else dict(json.loads(text))


def _shared(name: str, mode: str, what: str, *, its_own: bool = False) -> Refused:
    who = f"The home that {mode} is itself has" if its_own else "Another home uses"
    return Refused(
        f"{who} the project {name!r} in {mode} too, so it can't be {what} from here.",
        advice=f"For one of your own: `mindhold export`, `mindhold migrate {name!r} --forget-copy {mode}`, "
        "which leaves it to the others, then `mindhold import`.",
    )
