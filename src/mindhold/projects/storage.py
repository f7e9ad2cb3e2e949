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
LONGEST_SECONDS = 1.5  # a status check must not wait longer


@dataclass(frozen=True, slots=True)
class StoreState:
    """A store in use. `state` is ok, or the code of its error."""

    mode: str
    state: str
    detail: str = ""
    projects: tuple[str, ...] = ()  # projects that live there
    copies: int = 0  # hidden copies

    @property
    def is_missed(self) -> bool:
        """Whether projects are left out because it doesn't answer."""
        return self.state not in (OK, UNKNOWN) and bool(self.projects)


async def storages(engine: Engine) -> list[StoreState]:
    """Return the state of each store, home first; those that don't answer say why, in bounded time."""
    places = await engine.store_registry.places()
    modes = dict.fromkeys(
        (engine.store_registry.home, *(mode for place in places.values() for mode in place.modes()))
    )
    return list(await asyncio.gather(*(_storage(engine, mode, places) for mode in modes)))


async def ask_reachable(engine: Engine, ask: Callable[[tuple[str, ...]], Awaitable[T]]) -> tuple[T, str]:
    """Ask all scopes, or those whose stores answer; return the answer and a notice about what is left out.

    `ask` gets the scopes, none meaning all, and may be called twice. Raises the store's errors if all stores answer, and
    the errors of the home store.
    """
    try:
        return await ask(()), ""
    except (StoreError, SettingsError):
        states = await storages(engine)
        scopes = await reachable_scopes(engine, states)
        if not scopes:
            raise
    return await ask(scopes), unreachable_notice(states)


def unreachable_notice(states: Sequence[StoreState]) -> str:
    """Return a notice about the stores that don't answer; empty if all do."""
    return " ".join(
        f"{store.mode} doesn't answer ({store.state}): {', '.join(store.projects)} left out."
        for store in states
        if store.is_missed
    )


async def reachable_scopes(engine: Engine, states: Sequence[StoreState]) -> tuple[str, ...]:
    """Return the scopes whose stores answer; empty if all do."""
    away = {store.mode for store in states if store.is_missed}
    if not away:
        return ()
    places = await engine.store_registry.places()
    home = Placement(engine.store_registry.home)
    return tuple(
        scope.name for scope in await engine.store.scopes() if places.get(scope.name, home).mode not in away
    )


async def stores_without_vectors(engine: Engine, modes: Iterable[str]) -> dict[str, str]:
    """Return the stores that keep no vectors, each with the reason and the remedy; without those that can't be asked."""
    reasons: dict[str, str] = {}
    for mode in dict.fromkeys(modes):
        with suppress(Refused, StoreError, SettingsError):  # bound callers only get the home store
            store = await store_of(engine, mode)
            if Capability.VECTORS not in store.capabilities:
                reasons[mode] = (await store.facts()).without_vectors
    return reasons


async def store_of(engine: Engine, mode: str) -> Store:
    """The store of that mode, as far as the caller may use it. Raises Refused, SettingsError, and the store's errors."""
    home = engine.store_registry.home
    return engine.store if mode == home else await engine.store_registry.house(mode)


async def _asked(engine: Engine, mode: str, projects: Sequence[str]) -> None:
    if projects:  # through a project there, which a caller who is bound to scopes may read
        where = Filter(viewer="system", scopes=tuple(projects[:1]), statuses=ANY_STATUS)
        await engine.store.find(where, limit=1)
    else:
        await (await engine.store_registry.house(mode)).facts()


async def _storage(engine: Engine, mode: str, places: Placements) -> StoreState:
    projects = tuple(sorted(name for name, place in places.items() if place.mode == mode))
    copies = sum(mode in place.copies for place in places.values())
    if mode == engine.store_registry.home:
        return StoreState(mode, OK, projects=projects, copies=copies)  # it has answered
    asking = asyncio.create_task(_asked(engine, mode, projects))
    asking.add_done_callback(lambda task: task.cancelled() or task.exception())
    try:
        # Opening a store is never interrupted: the next caller finds it open.
        async with asyncio.timeout(LONGEST_SECONDS):
            await asyncio.shield(asking)
    except TimeoutError:
        return StoreState(mode, "STORE_BUSY", "It takes too long to answer.", projects, copies)
    except Refused:  # the caller may not know
        return StoreState(mode, UNKNOWN, projects=projects)
    except (StoreError, SettingsError) as error:
        return StoreState(mode, error.code, error.message, projects, copies)
    return StoreState(mode, OK, projects=projects, copies=copies)


HOME = "home"  # the cursor with a home's id
TENANTS = "tenants:"  # followed by a project's name: the cursor with the homes that use it
LIVES, COPY = "lives", "copy"
_ITS_OWN = "the home in that database"
_MOST_TRIES = 100
Tenants = dict[str, str]  # by the home's id: whether the project lives there or is a hidden copy


async def home_id(engine: Engine) -> str:
    """Return the id of our home."""
    identifier = await engine.store.cursor(HOME)
    if identifier is None:
        await engine.store.swap_cursor(HOME, old=None, new=engine.new_id())
        identifier = await engine.store.cursor(HOME)
    assert identifier is not None
    return identifier


async def register_tenant(
    engine: Engine, name: str, *, mode: str, state: str = LIVES, alone: bool = False
) -> None:
    """Note that our home uses the project there.

    Raises Refused if another home has left a copy there; with `alone`, if another home uses it.
    """
    own = await home_id(engine)
    store = await engine.store_registry.house(mode)
    exists = name in {scope.name for scope in await store.scopes()}

    def change(tenants: Tenants) -> Tenants:
        others = _without(tenants, own) if exists else {}
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
    """Mark the project as `state` there; None removes the mark. Raises Refused if other homes use it."""
    own = await home_id(engine)
    store = await engine.store_registry.house(mode)
    has_home = await _has_its_own(engine, name, mode=mode)

    def change(tenants: Tenants) -> Tenants:
        others = _without(tenants, own)
        if others or has_home:
            raise _shared(name, mode, what, its_own=has_home)
        return {} if state is None else {own: state}

    await _change(store, name, change)


async def leave(engine: Engine, name: str, *, mode: str) -> None:
    """Remove our home's mark; the project stays for the others."""
    own = await home_id(engine)
    store = await engine.store_registry.house(mode)
    await _change(store, name, lambda tenants: _without(tenants, own))


async def other_tenants(engine: Engine, name: str, *, mode: str) -> frozenset[str]:
    """Return the homes that use it there, except ours."""
    tenants = _read(await (await engine.store_registry.house(mode)).cursor(TENANTS + name))
    its_own = {_ITS_OWN} if await _has_its_own(engine, name, mode=mode) else set()
    return frozenset((tenants.keys() | its_own) - {await home_id(engine)})


async def placement_of(engine: Engine, name: str) -> Placement:
    """Where a scope lives now, and its copies."""
    return (await engine.store_registry.places(fresh=True)).get(name, Placement(engine.store_registry.home))


async def refuse_shared(engine: Engine, name: str, *, what: str) -> None:
    """Raise Refused if another home uses the project where it lives, or if a copy can't be reached."""
    place = await placement_of(engine, name)
    if others := await other_tenants(engine, name, mode=place.mode):
        raise _shared(name, place.mode, what, its_own=_ITS_OWN in others)
    for mode in place.copies:
        await copy_store(engine, name, mode=mode)


async def copy_store(engine: Engine, name: str, *, mode: str) -> Store:
    """Return the store with a copy. Raises Refused if it can't be reached."""
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
    """Rename the marks of a project after it was renamed."""
    place = (await engine.store_registry.places(fresh=True)).get(new)
    for mode in () if place is None else place.modes():
        store = await engine.store_registry.house(mode)
        marks = await store.cursor(TENANTS + old)
        if marks is not None:
            await store.set_cursor(TENANTS + new, marks)
            await store.set_cursor(TENANTS + old, None)


async def _has_its_own(engine: Engine, name: str, *, mode: str) -> bool:
    """Whether the database is itself the home of others, which owns every scope in it."""
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


def _without(tenants: Tenants, home: str) -> Tenants:
    return {other: state for other, state in tenants.items() if other != home}


def _read(text: str | None) -> Tenants:
    return {} if text is None else dict(json.loads(text))


def _shared(name: str, mode: str, what: str, *, its_own: bool = False) -> Refused:
    subject = f"The home that {mode} is itself has" if its_own else "Another home uses"
    return Refused(
        f"{subject} the project {name!r} in {mode} too, so it can't be {what} from here.",
        advice=f"For one of your own: `mindhold export`, `mindhold migrate {name!r} --forget-copy {mode}`, "
        "which leaves it to the others, then `mindhold import`.",
    )
