"""Which homes use a project that is in a database: noted in that database, where all of them see it.

The registry is one for each home. A home is known by an id in its own store, made once.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from mindhold.engine.core import Engine
from mindhold.engine.embed import EMBEDDER_CURSOR
from mindhold.model.errors import Refused, SettingsError, StoreBusy, StoreError
from mindhold.ports.houses import Place
from mindhold.ports.store import Store

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


async def move_in(engine: Engine, name: str, *, mode: str, state: str = LIVES, alone: bool = False) -> None:
    """Note that we use it there. Raises Refused when another home has left a copy there; if `alone`, when one uses it."""
    own = await home_id(engine)
    store = await engine.houses.house(mode)
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


async def move_out(engine: Engine, name: str, *, mode: str, state: str | None, what: str) -> None:
    """Note that it is a copy there, or nothing of ours any more (None). Raises Refused when others use it."""
    own = await home_id(engine)
    store = await engine.houses.house(mode)
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
        await engine.houses.house(mode),
        name,
        lambda tenants: {home: one for home, one in tenants.items() if home != own},
    )


async def others_of(engine: Engine, name: str, *, mode: str) -> frozenset[str]:
    """The homes that use it there, besides ours."""
    tenants = _read(await (await engine.houses.house(mode)).cursor(TENANTS + name))
    its_own = {_ITS_OWN} if await _has_its_own(engine, name, mode=mode) else set()
    return frozenset((tenants.keys() | its_own) - {await home_id(engine)})


async def refuse_shared(engine: Engine, name: str, *, what: str) -> None:
    """Raises Refused when another home uses it where it lives, or a copy can't be reached."""
    place = (await engine.houses.places(fresh=True)).get(name, Place(engine.houses.home))
    if others := await others_of(engine, name, mode=place.mode):
        raise _shared(name, place.mode, what, its_own=_ITS_OWN in others)
    for mode in place.copies:
        await copy_house(engine, name, mode=mode)


async def copy_house(engine: Engine, name: str, *, mode: str) -> Store:
    """The store with a copy. Raises Refused when it can't be reached."""
    try:
        store = await engine.houses.house(mode)
        await store.scopes()
    except (StoreError, SettingsError) as error:
        raise Refused(
            f"A hidden copy of {name!r} is in {mode}, which can't be reached: {error.message}",
            advice="Bring that store back; if it is gone for good, say so: "
            f"`mindhold migrate {name!r} --forget-copy {mode}`.",
        ) from error
    return store


async def follow_name(engine: Engine, old: str, new: str) -> None:
    """After a project was renamed."""
    place = (await engine.houses.places(fresh=True)).get(new)
    for mode in () if place is None else place.modes():
        store = await engine.houses.house(mode)
        noted = await store.cursor(TENANTS + old)
        if noted is not None:
            await store.set_cursor(TENANTS + new, noted)
            await store.set_cursor(TENANTS + old, None)


async def _has_its_own(engine: Engine, name: str, *, mode: str) -> bool:
    """Whether the database is a home itself, of others: to it every scope there is its own."""
    if mode == engine.houses.home:
        return False
    store = await engine.houses.house(mode)
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
