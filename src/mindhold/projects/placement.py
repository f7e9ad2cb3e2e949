"""Projects and their placement: open a project, create it in a chosen store, change, list and delete it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mindhold.engine import Engine
from mindhold.hooks import project_identity
from mindhold.memories.validation import checked_scope_name
from mindhold.model.errors import (
    Conflict,
    InvalidInput,
    MindholdError,
    NotFound,
    Refused,
    ScopeNotFound,
    SettingsError,
    StoreError,
)
from mindhold.model.job import Entry
from mindhold.model.query import Filter
from mindhold.model.scope import EVERYONE, GLOBAL, MODES, Scope, validate_scope_name
from mindhold.ports.backend import Placement, Placements
from mindhold.projects.scopes import (
    PATHS,
    DroppedScope,
    change_scope,
    create_scope,
    delete_scope,
    refuse_clash,
)
from mindhold.projects.storage import register_tenant

PROJECT = "project"


async def open_project(
    engine: Engine, name: str | None, *, create: bool = False, writing: bool = False, kind: str = PROJECT
) -> Scope:
    """The project's scope; whatever the case of its name. No name means the engine's scope.

    Raises ScopeNotFound, Refused for `writing` into one that is deactivated, InvalidInput for a name that can't be one. Who may
    create one wants to write.
    """
    wanted = validate_scope_name(engine.settings.scope if name is None else name)
    found = await _found(engine, wanted)
    if found is None and create:
        try:
            return await create_scope(engine, wanted, kind=kind)
        except Conflict:  # somebody else was faster
            found = await _found(engine, wanted)
    if found is None:
        raise ScopeNotFound(wanted)
    if (create or writing) and not found.active:
        raise Refused(
            f"The scope {found.name!r} is deactivated.",
            advice=f"`mindhold scopes activate {found.name}` opens it again.",
        )
    return found


async def _found(engine: Engine, name: str) -> Scope | None:
    scopes = await engine.store.scopes()
    alike = [scope for scope in scopes if scope.name.casefold() == name.casefold()]
    return next((scope for scope in alike if scope.name == name), alike[0] if alike else None)


MOST_PROJECTS = 10_000


@dataclass(frozen=True, slots=True)
class PlacedProject:
    """A scope with a storage mode. `copies` are stores in which hidden copies are, `moving` where it is on its way to."""

    scope: Scope
    mode: str
    memories: int | None  # None where its store doesn't answer
    path: str | None = None
    identity: str | None = None
    copies: tuple[str, ...] = ()
    moving: str | None = None


async def create_project(
    engine: Engine, name: str, *, mode: str | None = None, path: str | None = None, description: str = ""
) -> PlacedProject:
    """Where it lives is chosen now, and changed by migrating only. One that others have there already is joined.

    Raises InvalidInput, Conflict when the name or the path is taken, SettingsError, and the store's errors.
    """
    cleaned = checked_scope_name(engine, name)
    chosen = checked_mode(engine, mode or engine.store_registry.home)
    folder = None if path is None else await _free_folder(engine, path)
    await refuse_clash(engine, cleaned)
    house = await engine.store_registry.house(chosen)  # which may take a while
    joined = None
    if chosen != engine.store_registry.home:
        joined = {scope.name: scope for scope in await house.scopes()}.get(cleaned)
        await register_tenant(engine, cleaned, mode=chosen)
    await _place_and_make(engine, cleaned, Placement(chosen), description=description, joined=joined)
    if folder is not None:
        await engine.store.put_entry(Entry(PATHS, cleaned, folder, engine.clock()))
    return await show_project(engine, cleaned, agent=EVERYONE)


async def change_project(
    engine: Engine,
    name: str,
    *,
    agent: str,
    description: str | None = None,
    active: bool | None = None,
    parent: str | None = None,
    keywords: Sequence[str] | None = None,
    path: str | None = None,
) -> PlacedProject:
    """What isn't given stays. A path says that its folder is there now, whatever it was; an empty one, that it has none.

    Raises InvalidInput, ScopeNotFound, NotFound for no folder, Conflict when that is another project's, Refused of Global.
    """
    scope = await open_project(engine, name)
    if path is not None and scope.name == GLOBAL:
        raise Refused("Global has no folder.", advice="Choose a project.")
    folder = await _free_folder(engine, path, besides=scope.name) if path else None
    await change_scope(
        engine, scope.name, description=description, active=active, parent=parent, keywords=keywords
    )
    if folder is not None:
        await engine.store.put_entry(Entry(PATHS, scope.name, folder, engine.clock()))
    elif path is not None:
        await engine.store.drop_entry(PATHS, scope.name)
    return await show_project(engine, scope.name, agent=agent)


async def delete_project(engine: Engine, project: PlacedProject, *, confirm: str) -> DroppedScope:
    """What became of its memories, whoever's they are: they are exported first.

    Raises InvalidInput unless `confirm` is its name, Refused for Global and for one that others use too,
    Conflict for one with scopes in it or on its way to another store, and the stores' errors.
    """
    name = project.scope.name
    if name != GLOBAL and confirm != name:
        raise InvalidInput(
            f"Deleting the project {name!r} takes its name once more.",
            advice=f"Give {name!r} as `confirm`: its memories are exported, then removed for good.",
        )
    return await delete_scope(engine, name, agent=EVERYONE, always=True)


async def _place_and_make(
    engine: Engine, name: str, place: Placement, *, description: str, joined: Scope | None
) -> None:
    """The place first, so that nobody writes into it anywhere else. Raises Conflict for a name that is taken by now."""
    ours: list[bool] = []

    def placed(places: Placements) -> Placements:
        if places.get(name, place) != place:
            raise Conflict(
                f"The project {name!r} is in {places[name].mode} already, or being made there.",
                advice="Use it, or choose another name.",
            )
        ours[:] = [name not in places]
        return {**places, name: place}

    def unplaced(places: Placements) -> Placements:
        if places.get(name) != place:
            return places
        return {other: one for other, one in places.items() if other != name}

    await refuse_clash(engine, name)
    await engine.store_registry.settle(placed)
    try:
        await create_scope(
            engine,
            name,
            description=description or (joined.description if joined else ""),
            kind=PROJECT,
            keywords=joined.keywords if joined else (),
        )
    except MindholdError as error:
        if ours[0] and not (isinstance(error, Conflict) and await _made_there(engine, name, place, joined)):
            await engine.store_registry.settle(unplaced)
        raise


async def _made_there(engine: Engine, name: str, place: Placement, joined: Scope | None) -> bool:
    """Whether another process made it meanwhile, after it had its place."""
    store = await engine.store_registry.house(place.mode)
    return joined is None and name in {scope.name for scope in await store.scopes()}


async def list_projects(engine: Engine, *, agent: str) -> list[PlacedProject]:
    """Scopes of that kind, and others that live elsewhere."""
    places = await engine.store_registry.places(fresh=True)
    chosen = [scope for scope in await engine.store.scopes() if scope.kind == PROJECT or scope.name in places]
    return await _projects(engine, chosen, places, agent=agent)


async def show_project(engine: Engine, name: str, *, agent: str) -> PlacedProject:
    """Raises ScopeNotFound."""
    scope = await open_project(engine, name)
    places = await engine.store_registry.places(fresh=True)
    return (await _projects(engine, [scope], places, agent=agent))[0]


async def mode_of(engine: Engine, scope: str) -> str:
    """The storage mode of a scope."""
    place = (await engine.store_registry.places()).get(scope)
    return engine.store_registry.home if place is None else place.mode


def checked_mode(engine: Engine, mode: str) -> str:
    """Raises InvalidInput."""
    if mode not in MODES:
        raise InvalidInput(f"There is no storage mode {mode!r}.", advice=f"Choose one of {', '.join(MODES)}.")
    return mode


async def movable(engine: Engine, name: str) -> Scope:
    """The scope that is to be moved. Raises ScopeNotFound, Refused for Global."""
    scope = await open_project(engine, name)
    if scope.name == GLOBAL:
        raise Refused("Global lives in the home store, always.", advice="`store.mode` says which that is.")
    return scope


def identity_of(path: str) -> str:
    """The git common directory, which worktrees share; where there is none, the real path. Raises NotFound."""
    real = _real(path)
    if real is None:
        raise NotFound(f"There is no folder {path}.", advice="Give the project's folder.")
    return project_identity.project_identity(str(real))


def _real(path: str) -> Path | None:
    """The folder itself; None for what is none, or can't be the name of one."""
    try:
        real = Path(path).expanduser().resolve()
        return real if real.is_dir() else None
    except (OSError, ValueError, RuntimeError):  # too long a name, a NUL in it, a user whom nobody knows
        return None


async def _free_folder(engine: Engine, path: str, *, besides: str | None = None) -> dict[str, str]:
    """What is noted of a folder. Raises NotFound, Conflict when it is another project's."""
    identity = await asyncio.to_thread(identity_of, path)
    for other, value in (await _paths(engine)).items():
        if other != besides and value.get("identity") == identity:
            raise Conflict(f"{path} is the project {other!r} already.", advice="Use that one.")
    return {"path": str(Path(path).expanduser().resolve()), "identity": identity}


async def _projects(
    engine: Engine, scopes: Sequence[Scope], places: Placements, *, agent: str
) -> list[PlacedProject]:
    paths = await _paths(engine)
    counts: dict[str, int | None] = {}
    for mode in {places.get(scope.name, Placement(engine.store_registry.home)).mode for scope in scopes}:
        names = [
            one.name
            for one in scopes
            if places.get(one.name, Placement(engine.store_registry.home)).mode == mode
        ]
        counts |= await _counts(engine, names, agent=agent)
    projects = []
    for scope in scopes:
        place = places.get(scope.name, Placement(engine.store_registry.home))
        noted = paths.get(scope.name, {})
        projects.append(
            PlacedProject(
                scope,
                mode=place.mode,
                memories=counts[scope.name],
                path=noted.get("path"),
                identity=noted.get("identity"),
                copies=tuple(mode for mode in place.copies if place.move is None or mode != place.move.to),
                moving=None if place.move is None or place.move.to == place.mode else place.move.to,
            )
        )
    return projects


async def _counts(engine: Engine, names: Sequence[str], *, agent: str) -> dict[str, int | None]:
    where = Filter(viewer=agent, scopes=tuple(names))  # as scopes are counted: not what was forgotten
    try:
        counts = await engine.store.tally(where, "scope")
    except (StoreError, SettingsError):
        return dict.fromkeys(names)
    return {name: counts.get(name, 0) for name in names}


async def _paths(engine: Engine) -> dict[str, dict[str, str | None]]:
    entries = await engine.store.entries(PATHS, now=engine.clock(), limit=MOST_PROJECTS)
    return {entry.key: dict(entry.value) for entry in entries}
