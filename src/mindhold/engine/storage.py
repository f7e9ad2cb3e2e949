"""Which stores are in use, and whether each answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from mindhold.engine.core import Engine
from mindhold.model.errors import Refused, SettingsError, StoreError
from mindhold.model.memory import ANY_STATUS
from mindhold.model.query import Filter
from mindhold.ports.houses import Place, Places
from mindhold.ports.store import Capability

T = TypeVar("T")
OK, UNKNOWN = "ok", "unknown"
LONGEST_SECONDS = 1.5  # who asks how things are won't wait long


@dataclass(frozen=True, slots=True)
class Storage:
    """A store that something lives in. `state` is ok, or the code of what it answered."""

    mode: str
    state: str
    detail: str = ""
    projects: tuple[str, ...] = ()  # those that it says of that they live there
    copies: int = 0  # hidden ones


async def storages(engine: Engine) -> list[Storage]:
    """Home first. Those that don't answer say why, in bounded time."""
    places = await engine.houses.places()
    modes = dict.fromkeys((engine.houses.home, *(mode for one in places.values() for mode in one.modes())))
    return list(await asyncio.gather(*(_storage(engine, mode, places) for mode in modes)))


async def as_far_as_it_goes(engine: Engine, ask: Callable[[tuple[str, ...]], Awaitable[T]]) -> tuple[T, str]:
    """What is asked of all scopes, of those whose stores answer where one doesn't; and words about what is left out.

    `ask` is given the scopes, none for all, and may be called twice. Raises the store's errors when all answer, and home's.
    """
    try:
        return await ask(()), ""
    except (StoreError, SettingsError):
        found = await storages(engine)
        scopes = await within_reach(engine, found)
        if not scopes:
            raise
    return await ask(scopes), left_out(found)


def left_out(found: Sequence[Storage]) -> str:
    """Words about the stores that don't answer; empty when all do."""
    return " ".join(
        f"{one.mode} doesn't answer ({one.state}): {', '.join(one.projects)} left out."
        for one in found
        if one.state not in (OK, UNKNOWN) and one.projects
    )


async def within_reach(engine: Engine, found: Sequence[Storage]) -> tuple[str, ...]:
    """The scopes whose stores answer; empty when all do."""
    away = {one.mode for one in found if one.state not in (OK, UNKNOWN) and one.projects}
    if not away:
        return ()
    places = await engine.houses.places()
    home = Place(engine.houses.home)
    return tuple(
        scope.name for scope in await engine.store.scopes() if places.get(scope.name, home).mode not in away
    )


async def without_vectors(engine: Engine, modes: Iterable[str]) -> dict[str, str]:
    """Those of the stores that keep no vectors, each with why and what to do about it; not those that can't be asked."""
    found: dict[str, str] = {}
    for mode in dict.fromkeys(modes):
        with suppress(Refused, StoreError, SettingsError):  # who is bound to scopes is told of home alone
            store = engine.store if mode == engine.houses.home else await engine.houses.house(mode)
            if Capability.VECTORS not in store.capabilities:
                found[mode] = (await store.facts()).without_vectors
    return found


async def _asked(engine: Engine, mode: str, projects: Sequence[str]) -> None:
    if projects:  # by what lives there, as one who is bound to scopes may
        where = Filter(viewer="system", scopes=tuple(projects[:1]), statuses=ANY_STATUS)
        await engine.store.find(where, limit=1)
    else:
        await (await engine.houses.house(mode)).facts()


async def _storage(engine: Engine, mode: str, places: Places) -> Storage:
    projects = tuple(sorted(name for name, place in places.items() if place.mode == mode))
    copies = sum(mode in place.copies for place in places.values())
    if mode == engine.houses.home:
        return Storage(mode, OK, projects=projects, copies=copies)  # the registry was read there
    asking = asyncio.create_task(_asked(engine, mode, projects))
    asking.add_done_callback(lambda task: task.cancelled() or task.exception())
    try:
        # Opening a store is never broken off: the next who asks finds it open.
        async with asyncio.timeout(LONGEST_SECONDS):
            await asyncio.shield(asking)
    except TimeoutError:
        return Storage(mode, "STORE_BUSY", "It takes too long to answer.", projects, copies)
    except Refused:  # a caller who is not to know
        return Storage(mode, UNKNOWN, projects=projects)
    except (StoreError, SettingsError) as error:
        return Storage(mode, error.code, error.message, projects, copies)
    return Storage(mode, OK, projects=projects, copies=copies)
