"""Which stores are in use, and whether each answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from recollect.engine.core import Engine
from recollect.model.errors import Refused, SettingsError, StoreError
from recollect.ports.houses import Place, Places

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


async def within_reach(engine: Engine, found: list[Storage]) -> tuple[str, ...]:
    """The scopes whose stores answer; empty when all do."""
    away = {one.mode for one in found if one.state != OK}
    if not away:
        return ()
    places = await engine.houses.places()
    home = Place(engine.houses.home)
    return tuple(
        scope.name for scope in await engine.store.scopes() if places.get(scope.name, home).mode not in away
    )


async def _asked(engine: Engine, mode: str) -> None:
    await (await engine.houses.house(mode)).facts()


async def _storage(engine: Engine, mode: str, places: Places) -> Storage:
    projects = tuple(sorted(name for name, place in places.items() if place.mode == mode))
    copies = sum(mode in place.copies for place in places.values())
    if mode == engine.houses.home:
        return Storage(mode, OK, projects=projects, copies=copies)  # the registry was read there
    asking = asyncio.create_task(_asked(engine, mode))
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
